//! The entries of a shard in the orders in which they are needed.

use alloc::collections::BTreeSet;

use fencepost_types::Millis;

use crate::state::{TransactionalId, TxnMetadata};

/// Which ids may be forgotten when, and which are completing. A function of the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Index {
    /// Ids without an open transaction, by their last update.
    unused: BTreeSet<(Millis, TransactionalId)>,
    /// Decided transactions that are not complete.
    completing: BTreeSet<TransactionalId>,
    /// Those of them that have no partitions, so that no marker will ever complete them.
    without_partitions: BTreeSet<TransactionalId>,
}

impl Index {
    pub(crate) fn insert(&mut self, id: &TransactionalId, txn: &TxnMetadata) {
        if txn.state.is_expirable() {
            self.unused.insert((txn.last_update, id.clone()));
        }
        if txn.state.completing().is_some() {
            self.completing.insert(id.clone());
            if txn.partitions.is_empty() {
                self.without_partitions.insert(id.clone());
            }
        }
    }

    pub(crate) fn remove(&mut self, id: &TransactionalId, txn: &TxnMetadata) {
        if txn.state.is_expirable() {
            self.unused.remove(&(txn.last_update, id.clone()));
        }
        self.completing.remove(id);
        self.without_partitions.remove(id);
    }

    /// When the first id may be forgotten, if unused ones are remembered for `expiration_ms`.
    pub(crate) fn next_expiry(&self, expiration_ms: i64) -> Option<Millis> {
        self.unused.first().map(|(last_update, _)| last_update.plus(expiration_ms))
    }

    /// Ids that have been unused for `expiration_ms`, the longest unused first.
    pub(crate) fn expired(&self, now: Millis, expiration_ms: i64) -> impl Iterator<Item = &TransactionalId> {
        self.unused
            .iter()
            .take_while(move |(last_update, _)| last_update.plus(expiration_ms) <= now)
            .map(|(_, id)| id)
    }

    /// A decided transaction that is complete as it stands.
    pub(crate) fn first_without_partitions(&self) -> Option<&TransactionalId> {
        self.without_partitions.first()
    }

    /// Decided transactions that are not complete.
    pub(crate) fn completing(&self) -> impl Iterator<Item = &TransactionalId> {
        self.completing.iter()
    }
}
