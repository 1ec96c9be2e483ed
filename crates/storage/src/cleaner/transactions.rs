//! How the transactions stand while the cleaner walks: which data is aborted, and which markers nobody needs any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fencepost_partition::{AbortedTxn, ProducerSnapshot, SnapshotEntry};
use fencepost_records::{Batch, BatchHeader, EndTxnMarker};
use fencepost_types::{Offset, ProducerId, TransactionResult};

/// Follows a walk over batches in the order of their offsets, all of whose transactions are decided.
///
/// Source: Kafka CleanedTransactionMetadata.
#[derive(Clone, Debug, Default)]
pub(crate) struct CleanedTransactions {
    /// Aborted transactions that begin further on, by first offset.
    ahead: VecDeque<AbortedTxn>,
    /// Aborted ones that have begun, and whether data of them was met.
    aborted: BTreeMap<ProducerId, (AbortedTxn, bool)>,
    /// Producers that a rebuild takes to be in a transaction here, but for data that is known to be aborted: they have data in
    /// one, or a snapshot says so.
    open: BTreeSet<ProducerId>,
}

/// What a control batch is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlUse {
    /// It ends a transaction of which data was met or that a snapshot holds open, or is nothing that the cleaner knows.
    Needed,
    /// It ends nothing that was met: it may go once its delete horizon has passed.
    Outlived,
    /// It has no record any more.
    Empty,
}

impl CleanedTransactions {
    /// `aborted` are the aborted transactions that overlap what is walked, by first offset.
    pub(crate) fn new(aborted: &[AbortedTxn]) -> Self {
        Self { ahead: aborted.iter().copied().collect(), ..Self::default() }
    }

    /// Takes in a snapshot that stays where it is: what it says is open needs its marker, though all data of it be gone.
    pub(crate) fn snapshot(&mut self, snapshot: &ProducerSnapshot) {
        let is_open = |entry: &&SnapshotEntry| entry.current_txn_first_offset.0 >= 0;
        self.open.extend(snapshot.entries.iter().filter(is_open).map(|entry| entry.producer_id));
    }

    /// Takes in a data batch; whether it belongs to an aborted transaction. One that the cleaner has emptied counts as met
    /// like any other.
    pub(crate) fn data(&mut self, header: &BatchHeader) -> bool {
        self.advance(header.last_offset());
        if !header.is_transactional() {
            return false;
        }
        match self.aborted.get_mut(&header.producer_id) {
            Some((txn, is_met)) if header.last_offset() < txn.last_offset => {
                *is_met = true;
                true
            }
            Some(_) | None => {
                self.open.insert(header.producer_id);
                false
            }
        }
    }

    /// Takes in a control batch.
    pub(crate) fn control(&mut self, batch: &Batch) -> ControlUse {
        let header = batch.header();
        self.advance(header.last_offset());
        if header.record_count == 0 {
            return ControlUse::Empty;
        }
        // What cannot be read as a marker is none, and stays.
        match EndTxnMarker::from_batch(batch) {
            Ok(Some(marker)) => self.marker(header, marker.result),
            Ok(None) | Err(_) => ControlUse::Needed,
        }
    }

    fn marker(&mut self, header: &BatchHeader, result: TransactionResult) -> ControlUse {
        let was_open = self.open.remove(&header.producer_id);
        let was_aborted =
            !result.is_commit() && self.aborted.remove(&header.producer_id).is_some_and(|(_, is_met)| is_met);
        if was_open || was_aborted { ControlUse::Needed } else { ControlUse::Outlived }
    }

    fn advance(&mut self, offset: Offset) {
        while let Some(txn) = self.ahead.pop_front_if(|txn| txn.first_offset <= offset) {
            // One that still stands there has ended without a marker that we met: the newer one counts.
            self.aborted.insert(txn.producer_id, (txn, false));
        }
    }
}

/// Which transactions are open in what is written, and so which entries the transaction index gets: those that a rebuild
/// from the same batches would make (L1).
///
/// Differs from Kafka, which keeps the entry as it was for one pass more, when there is no data left that it speaks of.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptTransactions {
    first_offsets: BTreeMap<ProducerId, Offset>,
    open: BTreeSet<(Offset, ProducerId)>,
}

impl KeptTransactions {
    /// Takes in a batch that is written; the entry, if it is the marker of an aborted transaction that has a batch left.
    pub(crate) fn take(&mut self, batch: &Batch) -> Option<AbortedTxn> {
        let header = batch.header();
        let (producer_id, last_offset) = (header.producer_id, header.last_offset());
        if !header.is_transactional() {
            return None;
        }
        if !header.is_control() {
            let first_offset = *self.first_offsets.entry(producer_id).or_insert(header.base_offset);
            self.open.insert((first_offset, producer_id));
            return None;
        }
        let marker = EndTxnMarker::from_batch(batch).ok().flatten()?;
        let first_offset = self.first_offsets.remove(&producer_id)?;
        self.open.remove(&(first_offset, producer_id));
        let last_stable_offset = self.open.first().map_or(last_offset.next(), |(first, _)| *first);
        let is_aborted = !marker.result.is_commit();
        is_aborted.then_some(AbortedTxn { producer_id, first_offset, last_offset, last_stable_offset })
    }
}
