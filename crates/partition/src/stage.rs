//! Whether a batch may be appended (producer-state §3).

use fencepost_types::{ErrorCode, Millis, Offset, ProducerEpoch, Sequence};

use crate::batch::{AppendOrigin, BatchContent, BatchFacts};
use crate::entry::ProducerEntry;
use crate::producer_states::ProducerStates;
use crate::sequence::{expected_sequence, refused_sequence};
use crate::verification::VerificationGuard;

/// What to do with a batch that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staged {
    /// Append it, then `replay` it.
    Append,
    /// It is a retry of a batch that is in the log: write nothing, and answer with the original once the high
    /// watermark is above `last_offset` (producer-state trap 14).
    Duplicate {
        /// Base offset of the original.
        base_offset: Offset,
        /// Last offset of the original.
        last_offset: Offset,
        /// Largest timestamp of the original: the append time to answer with where the topic has LogAppendTime. With
        /// CreateTime the answer is −1, as it was the first time (producer-state §2).
        timestamp: Millis,
    },
}

/// Why a data batch is not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProduceRefusal {
    /// A client sent a control batch.
    ControlBatch,
    /// A client's batch has a producer id but a negative base sequence.
    NegativeSequence,
    /// A client's batch has a producer id but a negative epoch.
    NegativeEpoch,
    /// A client's batch is transactional but has no producer id.
    TransactionalWithoutProducerId,
    /// The producer has been fenced: a higher epoch is known.
    InvalidProducerEpoch {
        /// The epoch known.
        current: ProducerEpoch,
        /// The batch's epoch.
        found: ProducerEpoch,
    },
    /// No verification of this transaction is under way, or another one than the batch went through.
    MissingVerification,
    /// The batch begins with another sequence than it must.
    OutOfOrderSequence {
        /// The sequence that must come, or come first.
        expected: Sequence,
        /// The batch's base sequence.
        found: Sequence,
    },
    /// The batch is not transactional, but the producer's transaction is open here.
    PlainBatchInTransaction {
        /// Where the open transaction begins.
        first_offset: Offset,
    },
}

impl ProduceRefusal {
    /// The code that Produce answers with.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::ControlBatch
            | Self::NegativeSequence
            | Self::NegativeEpoch
            | Self::TransactionalWithoutProducerId => ErrorCode::InvalidRecord,
            Self::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            Self::MissingVerification | Self::PlainBatchInTransaction { .. } => ErrorCode::InvalidTxnState,
            Self::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        }
    }
}

impl core::fmt::Display for ProduceRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::ControlBatch => f.write_str("clients may not write control batches"),
            Self::NegativeSequence => f.write_str("a batch with a producer id needs a base sequence"),
            Self::NegativeEpoch => f.write_str("a batch with a producer id needs a producer epoch"),
            Self::TransactionalWithoutProducerId => {
                f.write_str("a transactional batch needs a producer id and epoch")
            }
            Self::InvalidProducerEpoch { current, found } => {
                write!(f, "producer epoch {found} is fenced, the current one is {current}")
            }
            Self::MissingVerification => {
                f.write_str("the transaction was not verified, or has ended meanwhile")
            }
            Self::OutOfOrderSequence { expected, found } => {
                write!(f, "sequence {found} is out of order, {expected} must come first")
            }
            Self::PlainBatchInTransaction { first_offset } => {
                write!(
                    f,
                    "the batch is not transactional, but a transaction is open from offset {first_offset}"
                )
            }
        }
    }
}

impl core::error::Error for ProduceRefusal {}

impl ProducerStates {
    /// Judges one data batch; changes nothing. `guard` is what [`ProducerStates::start_verification`] gave;
    /// `verification_enabled` is `transaction.partition.verification.enable`. The checks come in Kafka's order, which
    /// decides between the errors. Replication is refused nothing but a plain batch inside an open transaction, which
    /// no leader writes. For markers see [`ProducerStates::stage_marker`].
    ///
    /// Source: Kafka UnifiedLog.analyzeAndValidateProducerState, ProducerAppendInfo.appendDataBatch.
    pub fn stage(
        &self,
        origin: AppendOrigin,
        facts: &BatchFacts,
        guard: Option<VerificationGuard>,
        verification_enabled: bool,
    ) -> Result<Staged, ProduceRefusal> {
        if origin == AppendOrigin::Client {
            check_content(facts)?;
        }
        match facts.content {
            BatchContent::Data => {}
            BatchContent::Marker(_) | BatchContent::OtherControl => return Ok(Staged::Append),
        }
        if !facts.has_producer_id() {
            return Ok(Staged::Append);
        }
        let entry = self.producer(facts.producer_id);
        match origin {
            AppendOrigin::Client => {
                if let Some(original) = entry.and_then(|entry| entry.find_duplicate(facts)) {
                    return Ok(Staged::Duplicate {
                        base_offset: original.base_offset(),
                        last_offset: original.last_offset,
                        timestamp: original.timestamp,
                    });
                }
                self.check_epoch_and_guard(entry, facts, guard, verification_enabled)?;
                self.check_sequence(entry, facts)?;
            }
            // A coordinator's batches have no sequences (producer-state trap 26).
            AppendOrigin::Coordinator => {
                self.check_epoch_and_guard(entry, facts, guard, verification_enabled)?;
            }
            AppendOrigin::Replication => {}
        }
        match entry.and_then(|entry| entry.current_txn_first_offset) {
            Some(first_offset) if !facts.is_transactional => {
                Err(ProduceRefusal::PlainBatchInTransaction { first_offset })
            }
            Some(_) | None => Ok(Staged::Append),
        }
    }

    /// The epoch comes before the guard: a fenced producer is told so, and can go on (KAFKA-19690, trap 3).
    fn check_epoch_and_guard(
        &self,
        entry: Option<&ProducerEntry>,
        facts: &BatchFacts,
        guard: Option<VerificationGuard>,
        verification_enabled: bool,
    ) -> Result<(), ProduceRefusal> {
        if let Some(current) = entry.map(|entry| entry.producer_epoch)
            && facts.producer_epoch < current
        {
            return Err(ProduceRefusal::InvalidProducerEpoch { current, found: facts.producer_epoch });
        }
        // Of a producer that is known a negative epoch is a low one; of any other it is no epoch at all.
        if facts.producer_epoch.0 < 0 {
            return Err(ProduceRefusal::NegativeEpoch);
        }
        let opens_transaction = facts.is_transactional
            && !entry.is_some_and(|entry| entry.has_open_transaction_at(facts.producer_epoch));
        if opens_transaction && verification_enabled {
            let stored = self.verification(facts.producer_id).map(|entry| entry.guard);
            if stored.is_none() || stored != guard {
                return Err(ProduceRefusal::MissingVerification);
            }
        }
        Ok(())
    }

    fn check_sequence(
        &self,
        entry: Option<&ProducerEntry>,
        facts: &BatchFacts,
    ) -> Result<(), ProduceRefusal> {
        let verification = self.verification(facts.producer_id);
        let bumps = verification.is_some_and(|entry| entry.supports_epoch_bump);
        let expected = expected_sequence(entry, facts.producer_epoch, bumps);
        match refused_sequence(expected, verification, facts.base_sequence) {
            Some(expected) => {
                Err(ProduceRefusal::OutOfOrderSequence { expected, found: facts.base_sequence })
            }
            None => Ok(()),
        }
    }
}

/// What a client's batch must be before any state counts (producer-state §2 step 5).
///
/// Differs from Kafka: a negative epoch beside a producer id, and a transactional batch without one, are refused.
fn check_content(facts: &BatchFacts) -> Result<(), ProduceRefusal> {
    match facts.content {
        BatchContent::Data => {}
        BatchContent::Marker(_) | BatchContent::OtherControl => return Err(ProduceRefusal::ControlBatch),
    }
    match facts.has_producer_id() {
        true if facts.base_sequence.0 < 0 => Err(ProduceRefusal::NegativeSequence),
        false if facts.is_transactional => Err(ProduceRefusal::TransactionalWithoutProducerId),
        true | false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
