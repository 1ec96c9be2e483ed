//! One producer's entry in the table.

use alloc::vec::Vec;

use fencepost_types::limits::PRODUCER_BATCHES_CACHED_MAX;
use fencepost_types::{CoordinatorEpoch, Millis, Offset, ProducerEpoch, Sequence};

use crate::batch::{BatchFacts, Marker};

/// What the partition knows of one producer (producer-state §1.1).
///
/// Source: Kafka ProducerStateEntry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProducerEntry {
    /// The last epoch seen, from data or a marker; [`ProducerEpoch::NONE`] before either.
    pub producer_epoch: ProducerEpoch,
    /// Epoch of the coordinator of the last marker, or [`CoordinatorEpoch::NONE`].
    pub coordinator_epoch: CoordinatorEpoch,
    /// Timestamp of the last batch or marker.
    pub last_timestamp: Millis,
    /// First offset of the transaction that is open here.
    pub current_txn_first_offset: Option<Offset>,
    /// The newest batches of this epoch, newest last, at most five.
    pub batches: Vec<CachedBatch>,
    /// When the producer last wrote, by the clock of this process; gone after a restart.
    pub appended_at: Option<Millis>,
}

/// One batch in a producer's window: what a retry of it is recognised by, and answered with.
///
/// Source: Kafka BatchMetadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CachedBatch {
    /// Sequence of the last record.
    pub last_sequence: Sequence,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Last offset minus base offset.
    pub offset_delta: i32,
    /// The batch's largest timestamp.
    pub timestamp: Millis,
}

impl CachedBatch {
    /// Sequence of the first record, wrapping backwards (producer-state trap 15). Without meaning for the batches of
    /// a coordinator, which have base sequence −1.
    pub fn first_sequence(&self) -> Sequence {
        if self.last_sequence.0 < 0 { Sequence::NONE } else { self.last_sequence.minus(self.offset_delta) }
    }

    /// Offset of the first record.
    pub fn base_offset(&self) -> Offset {
        self.last_offset.plus(-i64::from(self.offset_delta))
    }
}

impl ProducerEntry {
    /// An entry that has seen nothing.
    pub(crate) fn new() -> Self {
        Self {
            producer_epoch: ProducerEpoch::NONE,
            coordinator_epoch: CoordinatorEpoch::NONE,
            last_timestamp: Millis::NONE,
            current_txn_first_offset: None,
            batches: Vec::new(),
            appended_at: None,
        }
    }

    /// Takes in a data batch that is in the log. An epoch below the present one is taken, too: the log says so.
    pub(crate) fn take_data(&mut self, facts: &BatchFacts) {
        self.take_epoch(facts.producer_epoch);
        if self.batches.len() == PRODUCER_BATCHES_CACHED_MAX {
            self.batches.remove(0);
        }
        self.batches.push(CachedBatch {
            last_sequence: facts.last_sequence(),
            last_offset: facts.last_offset(),
            offset_delta: facts.last_offset_delta,
            timestamp: facts.max_timestamp,
        });
        self.last_timestamp = facts.max_timestamp;
    }

    /// Takes in a marker that is in the log.
    pub(crate) fn take_marker(&mut self, facts: &BatchFacts, marker: &Marker) {
        self.take_epoch(facts.producer_epoch);
        self.coordinator_epoch = marker.coordinator_epoch;
        self.last_timestamp = facts.max_timestamp;
        self.current_txn_first_offset = None;
    }

    /// A changed epoch empties the window, the same epoch keeps it (producer-state trap 9).
    fn take_epoch(&mut self, epoch: ProducerEpoch) {
        if self.producer_epoch != epoch {
            self.producer_epoch = epoch;
            self.batches.clear();
        }
    }

    /// Whether a transaction of exactly this epoch is open. One that an older epoch left open does not count: it may
    /// just be completing (producer-state §3).
    pub(crate) fn has_open_transaction_at(&self, epoch: ProducerEpoch) -> bool {
        self.current_txn_first_offset.is_some() && self.producer_epoch == epoch
    }

    /// Sequence of the newest batch, or [`Sequence::NONE`].
    pub fn last_sequence(&self) -> Sequence {
        self.batches.last().map_or(Sequence::NONE, |batch| batch.last_sequence)
    }

    /// Offset of the newest data of the present epoch, if any.
    pub fn last_data_offset(&self) -> Option<Offset> {
        self.batches.last().map(|batch| batch.last_offset)
    }

    /// The batch in the window that `facts` is a retry of: same epoch, exactly the same range (producer-state §3
    /// check 1, trap 13).
    pub(crate) fn find_duplicate(&self, facts: &BatchFacts) -> Option<&CachedBatch> {
        if facts.producer_epoch != self.producer_epoch {
            return None;
        }
        let range = (facts.base_sequence, facts.last_sequence());
        self.batches.iter().find(|batch| (batch.first_sequence(), batch.last_sequence) == range)
    }
}
