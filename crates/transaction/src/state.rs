//! What the coordinator knows of one transactional id.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use fencepost_types::{
    Millis, ProducerEpoch, ProducerId, TopicPartition, TransactionResult, TransactionVersion,
};

/// The name under which a producer's transactions are known, shared.
pub type TransactionalId = Arc<str>;

/// A timeout that never ends a transaction: the mark of one that takes part in a two-phase commit.
///
/// The log holds nothing else that tells such a transaction, so nothing else is kept (`coordinator trap 16`).
/// Source: KIP-939.
pub const TWO_PHASE_COMMIT_TIMEOUT_MS: i32 = i32::MAX;

/// Where a transactional id stands, as it is written to the log.
///
/// Kafka has two more, which it never writes: Dead (here the id is gone, by a tombstone) and PrepareEpochFence (here
/// a fence and its abort are one decision). Only their names are known, to filters: see [`crate::StateFilter`].
/// Source: Kafka TransactionState.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionState {
    /// Initialized, and no transaction since.
    Empty,
    /// Partitions have been added.
    Ongoing,
    /// The commit is decided; markers are owed.
    PrepareCommit,
    /// The abort is decided; markers are owed.
    PrepareAbort,
    /// Committed, every marker written.
    CompleteCommit,
    /// Aborted, every marker written.
    CompleteAbort,
}

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

impl TransactionState {
    /// Every state, in order of its byte.
    pub const ALL: [Self; 6] = [Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort];

    /// The byte in the log.
    pub fn byte(self) -> i8 {
        match self {
            Empty => 0,
            Ongoing => 1,
            PrepareCommit => 2,
            PrepareAbort => 3,
            CompleteCommit => 4,
            CompleteAbort => 5,
        }
    }

    /// From the byte in the log; `None` for one that is never written there.
    pub fn from_byte(byte: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// The name that tools show.
    pub fn name(self) -> &'static str {
        match self {
            Empty => "Empty",
            Ongoing => "Ongoing",
            PrepareCommit => "PrepareCommit",
            PrepareAbort => "PrepareAbort",
            CompleteCommit => "CompleteCommit",
            CompleteAbort => "CompleteAbort",
        }
    }

    /// From its name, letter by letter.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The states that may come before this one. Under version 2 an abort may also start from a state without an
    /// open transaction.
    ///
    /// Source: Kafka TransactionState.validPreviousStates.
    pub fn allowed_from(self, version: TransactionVersion) -> &'static [Self] {
        match self {
            Empty => &[Empty, CompleteCommit, CompleteAbort],
            Ongoing => &[Ongoing, Empty, CompleteCommit, CompleteAbort],
            PrepareCommit => &[Ongoing],
            PrepareAbort if version.bumps_epoch() => &[Ongoing, Empty, CompleteCommit, CompleteAbort],
            PrepareAbort => &[Ongoing],
            CompleteCommit => &[PrepareCommit],
            CompleteAbort => &[PrepareAbort],
        }
    }

    /// The outcome that is decided but not yet complete, if this is such a state.
    pub fn completing(self) -> Option<TransactionResult> {
        match self {
            PrepareCommit => Some(TransactionResult::Commit),
            PrepareAbort => Some(TransactionResult::Abort),
            Empty | Ongoing | CompleteCommit | CompleteAbort => None,
        }
    }

    /// Whether an id in this state may be forgotten after a while.
    pub fn is_expirable(self) -> bool {
        match self {
            Empty | CompleteCommit | CompleteAbort => true,
            Ongoing | PrepareCommit | PrepareAbort => false,
        }
    }

    /// The state in which `result` is decided.
    pub fn prepared(result: TransactionResult) -> Self {
        match result {
            TransactionResult::Commit => PrepareCommit,
            TransactionResult::Abort => PrepareAbort,
        }
    }

    /// The state in which `result` is complete.
    pub fn completed(result: TransactionResult) -> Self {
        match result {
            TransactionResult::Commit => CompleteCommit,
            TransactionResult::Abort => CompleteAbort,
        }
    }
}

impl core::fmt::Display for TransactionState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// What the log says about one transactional id: its newest record.
///
/// Source: Kafka TransactionMetadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TxnMetadata {
    /// The current producer id. While an exhausted one completes, still the old one.
    pub producer_id: ProducerId,
    /// The producer id before the newest transition: equal to `producer_id` except right after a rotation.
    pub previous_producer_id: ProducerId,
    /// The producer id that the current one took over from when its epochs were exhausted; none before the first
    /// rotation. It stays until the next one: whoever names it is an older instance, at whatever epoch.
    pub replaced_producer_id: ProducerId,
    /// The producer id that follows once the transaction is complete, if the epoch is exhausted.
    pub next_producer_id: ProducerId,
    /// The current epoch; the one that markers carry while the transaction completes.
    pub producer_epoch: ProducerEpoch,
    /// The epoch that a client may still hold by right: it asks again for an answer that it never got.
    pub last_producer_epoch: ProducerEpoch,
    /// How long a transaction may stay open; [`TWO_PHASE_COMMIT_TIMEOUT_MS`] is for ever.
    pub timeout_ms: i32,
    /// Where it stands.
    pub state: TransactionState,
    /// The partitions of the transaction, all of them until it is complete.
    pub partitions: BTreeSet<TopicPartition>,
    /// When the transaction started; [`Millis::NONE`] if there was none since the id was initialized.
    pub start: Millis,
    /// When the newest record was decided.
    pub last_update: Millis,
    /// The version of the request (or abort) that decided the newest transition of the transaction. It decides the
    /// version of the markers.
    pub client_transaction_version: TransactionVersion,
}

impl TxnMetadata {
    /// Whether the transaction is left to an outside coordinator, and never times out.
    pub fn is_two_phase_commit(&self) -> bool {
        self.timeout_ms == TWO_PHASE_COMMIT_TIMEOUT_MS
    }

    /// How many milliseconds an open transaction has left, as the wall clock tells it: it must be **more** than
    /// `timeout_ms` old to time out. `None` when nothing is open, or when it never times out.
    ///
    /// A start in the future is that of a clock that has been set back since: it counts as now, so that nothing is kept
    /// for longer than its timeout.
    pub fn time_left_ms(&self, wall: Millis) -> Option<i64> {
        let whole_ms = i64::from(self.timeout_ms) + 1;
        match self.state {
            Ongoing if self.is_two_phase_commit() => None,
            Ongoing => Some(whole_ms.saturating_sub(wall.since(self.start)).clamp(0, whole_ms.max(0))),
            Empty | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort => None,
        }
    }

    /// The last epoch as the rest of the record tells it: a record of Kafka has nothing else
    /// (`coordinator trap 9`). Under version 2 the end of a transaction leaves it one below, or at the end of the
    /// producer id before.
    pub fn derived_last_producer_epoch(&self) -> ProducerEpoch {
        if !self.client_transaction_version.bumps_epoch() {
            return ProducerEpoch::NONE;
        }
        match self.state {
            PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort if self.producer_epoch.0 > 0 => {
                ProducerEpoch(self.producer_epoch.0 - 1)
            }
            CompleteCommit | CompleteAbort if self.is_just_rotated() => LAST_CLIENT_EPOCH,
            PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort | Empty | Ongoing => {
                ProducerEpoch::NONE
            }
        }
    }

    /// Whether the newest transition replaced an exhausted producer id.
    fn is_just_rotated(&self) -> bool {
        self.producer_epoch == ProducerEpoch(0) && self.derived_replaced_producer_id() != ProducerId::NONE
    }

    /// The producer id before the current one as the rest of the record tells it: right after a rotation only.
    pub fn derived_replaced_producer_id(&self) -> ProducerId {
        if self.previous_producer_id == self.producer_id {
            ProducerId::NONE
        } else {
            self.previous_producer_id
        }
    }

    /// What is left of it in a value of version 0, which has no tagged fields.
    pub fn as_version_0(&self) -> Self {
        Self {
            previous_producer_id: ProducerId::NONE,
            replaced_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            last_producer_epoch: ProducerEpoch::NONE,
            client_transaction_version: TransactionVersion::V0,
            ..self.clone()
        }
    }
}

/// The last epoch that a client can hold; the one above it exists only here and in markers.
pub const LAST_CLIENT_EPOCH: ProducerEpoch = ProducerEpoch(i16::MAX - 1);

#[cfg(test)]
mod tests;
