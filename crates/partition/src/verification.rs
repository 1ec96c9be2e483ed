//! Verification entries: between the question to the coordinator and the append (producer-state §6).
//!
//! A transactional batch may open a transaction here only if the coordinator knows the partition to be part of it. The
//! leader asks before it appends; in between the transaction may end. The guard ties the answer to the append: whatever
//! ends the transaction here removes the entry, and with it the guard.

use fencepost_types::{Millis, ProducerEpoch, ProducerId, Sequence};

use crate::batch::{BatchContent, BatchFacts};
use crate::producer_states::ProducerStates;
use crate::sequence::{could_be_accepted, expected_sequence, is_before};
use crate::stage::ProduceRefusal;

/// Ties a coordinator's answer to the append that asked. Unique within one [`ProducerStates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerificationGuard(pub u64);

/// A producer whose transaction here is being verified.
///
/// Source: Kafka VerificationStateEntry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VerificationEntry {
    /// Shared by all batches that wait for the same verification.
    pub guard: VerificationGuard,
    /// When the first of them asked; not refreshed by later ones (producer-state trap 21).
    pub created_at: Millis,
    /// The first of their sequences, if any of them could still be accepted; survives a failed verification.
    pub lowest_sequence: Option<Sequence>,
    /// Their epoch.
    pub producer_epoch: ProducerEpoch,
    /// Whether the transaction runs under version 2.
    pub supports_epoch_bump: bool,
}

impl ProducerStates {
    /// Begins the verification of a transactional batch. `None`: the transaction is open here already, nothing to ask.
    /// Otherwise the guard that the append must show to [`ProducerStates::stage`] once the coordinator has agreed.
    /// Batches of a producer that wait at the same time share one guard.
    ///
    /// `supports_epoch_bump` is true for Produce ≥ 12 and TxnOffsetCommit ≥ 5 (transaction version 2).
    ///
    /// Errors: [`ProduceRefusal::InvalidProducerEpoch`] for an epoch below the known one, without asking the
    /// coordinator (KAFKA-18042).
    ///
    /// Source: KIP-890, Kafka UnifiedLog.maybeStartTransactionVerification.
    pub fn start_verification(
        &mut self,
        now: Millis,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        base_sequence: Sequence,
        supports_epoch_bump: bool,
    ) -> Result<Option<VerificationGuard>, ProduceRefusal> {
        let known = self.producers.get(&producer_id);
        if let Some(entry) = known {
            if epoch < entry.producer_epoch {
                return Err(ProduceRefusal::InvalidProducerEpoch {
                    current: entry.producer_epoch,
                    found: epoch,
                });
            }
            if entry.has_open_transaction_at(epoch) {
                return Ok(None);
            }
        }
        let waiting = self.verifications.get(&producer_id);
        let bumps = waiting.map_or(supports_epoch_bump, |waiting| waiting.supports_epoch_bump);
        // A sequence that is already written, or is a gap for ever, must not keep others out (producer-state trap 20).
        let expected = expected_sequence(known, epoch, bumps);
        let sequence = Some(base_sequence).filter(|sequence| could_be_accepted(expected, *sequence));

        let next_guard = &mut self.next_guard;
        let entry = self.verifications.entry(producer_id).or_insert_with(|| {
            *next_guard += 1;
            VerificationEntry {
                guard: VerificationGuard(*next_guard),
                created_at: now,
                lowest_sequence: None,
                producer_epoch: epoch,
                supports_epoch_bump,
            }
        });
        if epoch > entry.producer_epoch {
            entry.producer_epoch = epoch;
            entry.lowest_sequence = sequence;
        } else if epoch == entry.producer_epoch {
            entry.lowest_sequence = match (entry.lowest_sequence, sequence) {
                (Some(lowest), Some(sequence)) if is_before(sequence, lowest) => Some(sequence),
                (Some(lowest), _) if could_be_accepted(expected, lowest) => Some(lowest),
                (Some(_) | None, sequence) => sequence,
            };
        }
        Ok(Some(entry.guard))
    }

    /// The verification that `producer_id` has begun here, if any.
    pub fn verification(&self, producer_id: ProducerId) -> Option<&VerificationEntry> {
        self.verifications.get(&producer_id)
    }

    /// A transactional batch uses the verification up, data or marker. Except a marker of the entry's own epoch under
    /// version 2: it ends the transaction before the one that is being verified (KAFKA-18654, trap 19).
    pub(crate) fn end_verification(&mut self, facts: &BatchFacts) {
        let is_marker = match facts.content {
            BatchContent::Marker(_) => true,
            BatchContent::Data | BatchContent::OtherControl => false,
        };
        let is_for_next = self.verifications.get(&facts.producer_id).is_some_and(|entry| {
            is_marker && entry.supports_epoch_bump && entry.producer_epoch == facts.producer_epoch
        });
        if !is_for_next {
            self.verifications.remove(&facts.producer_id);
        }
    }
}

#[cfg(test)]
mod tests;
