//! What this crate needs to know of a record batch.

use fencepost_types::{
    CoordinatorEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
};

/// The facts of one record batch, as its header (and, for a marker, its one record) tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchFacts {
    /// Offset of the first record. Staging does not look at it: the batch has none yet.
    pub base_offset: Offset,
    /// Last offset minus base offset; ≥ 0.
    pub last_offset_delta: i32,
    /// The producer, or [`ProducerId::NONE`].
    pub producer_id: ProducerId,
    /// The producer's epoch, or [`ProducerEpoch::NONE`].
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record; [`Sequence::NONE`] in markers and in batches that a coordinator writes.
    pub base_sequence: Sequence,
    /// The batch's largest timestamp; for a marker, the time of the marker.
    pub max_timestamp: Millis,
    /// Attribute bit 4.
    pub is_transactional: bool,
    /// What the records are.
    pub content: BatchContent,
}

/// What the records of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchContent {
    /// Records of a client or of a coordinator; also a data batch that compaction has emptied.
    Data,
    /// The end of a transaction.
    Marker(Marker),
    /// A control batch that ends no transaction: emptied by compaction, or of another control type.
    OtherControl,
}

/// The content of a transaction marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// Whether the transaction was committed or aborted.
    pub result: TransactionResult,
    /// Epoch of the coordinator that decided it.
    pub coordinator_epoch: CoordinatorEpoch,
}

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendOrigin {
    /// A Produce request.
    Client,
    /// A coordinator: markers, and offset commits inside a transaction.
    Coordinator,
    /// The leader's log, at a follower or at recovery: what it holds is a fact.
    Replication,
}

/// A transaction that a marker has just ended in this partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompletedTxn {
    /// Its producer.
    pub producer_id: ProducerId,
    /// Base offset of its first batch here.
    pub first_offset: Offset,
    /// Offset of the marker.
    pub last_offset: Offset,
    /// Whether it was aborted.
    pub is_aborted: bool,
}

impl BatchFacts {
    /// Offset of the last record.
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// The offset after the last record.
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// Sequence of the last record, wrapping from `i32::MAX` to 0, also inside the batch (producer-state §4).
    pub fn last_sequence(&self) -> Sequence {
        self.base_sequence.plus(self.last_offset_delta.max(0))
    }

    /// Whether the batch names a producer.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id.0 >= 0
    }
}
