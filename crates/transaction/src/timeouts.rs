//! When open transactions time out: on the monotonic clock, while the process lives.
//!
//! The log holds the wall clock's time of the start, and a wall clock may be set by an hour at any moment. So it is
//! asked once, at a load: how old is the transaction already? From then on, and for a transaction that is opened here
//! from its first partition on, time is what the monotonic clock says it is. A step of the wall clock aborts nothing
//! early and keeps nothing longer; only a step between the start and a restart is mistaken for time, and then keeps a
//! transaction for its own timeout from the load at the most.
//!
//! Differs from Kafka: there every scan compares the wall clock with the persisted start.

use alloc::collections::{BTreeMap, BTreeSet};

use fencepost_types::{Nanos, Now};

use crate::shard::TransactionShard;
use crate::state::{TransactionState, TransactionalId, TxnMetadata};

/// The deadlines of open transactions. Those of two-phase commits have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Timeouts {
    by_id: BTreeMap<TransactionalId, Nanos>,
    /// `by_id` in the other order.
    in_order: BTreeSet<(Nanos, TransactionalId)>,
}

impl Timeouts {
    fn set(&mut self, id: &TransactionalId, due: Nanos) {
        self.remove(id);
        self.by_id.insert(id.clone(), due);
        self.in_order.insert((due, id.clone()));
    }

    pub(crate) fn remove(&mut self, id: &TransactionalId) {
        if let Some((id, due)) = self.by_id.remove_entry(id) {
            self.in_order.remove(&(due, id));
        }
    }

    /// The first deadline.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.in_order.first().map(|(due, _)| *due)
    }

    /// Transactions that are beyond their timeout, the oldest deadline first.
    pub(crate) fn due(&self, now: Nanos) -> impl Iterator<Item = &TransactionalId> {
        self.in_order.iter().take_while(move |(due, _)| *due <= now).map(|(_, id)| id)
    }
}

/// Whether `after` is `before` with more partitions, so that its time goes on.
pub(crate) fn is_same_open_transaction(before: &TxnMetadata, after: &TxnMetadata) -> bool {
    before.state == TransactionState::Ongoing
        && after.state == TransactionState::Ongoing
        && before.start == after.start
        && before.timeout_ms == after.timeout_ms
}

impl TransactionShard {
    /// From `now` on the monotonic clock alone decides when this open transaction times out.
    pub(crate) fn start_timeout(&mut self, now: Now, id: &TransactionalId) {
        let left_ms = self.get(id).and_then(|txn| txn.time_left_ms(now.wall));
        if let Some(left_ms) = left_ms {
            self.timeouts.set(id, now.mono.plus_ms(left_ms));
        }
    }

    pub(crate) fn check_timeouts(&self) {
        let Timeouts { by_id, in_order } = &self.timeouts;
        assert_eq!(by_id.len(), in_order.len(), "X7: two orders of the same deadlines");
        for (due, id) in in_order {
            assert_eq!(by_id.get(id), Some(due), "X7: {id}");
            let txn = self.get(id).unwrap_or_else(|| panic!("X7: a deadline of {id}, which is gone"));
            assert_eq!(txn.state, TransactionState::Ongoing, "X7: a deadline of {id}: {txn:?}");
            assert!(!txn.is_two_phase_commit(), "X7: {id} never times out");
        }
    }
}

#[cfg(test)]
mod tests;
