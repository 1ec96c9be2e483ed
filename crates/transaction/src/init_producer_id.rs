//! InitProducerId: a producer id and epoch for a new instance, or the same again for one whose answer got lost.
//!
//! Source: KIP-98, KIP-360; Kafka TransactionCoordinator.handleInitProducerId.

use fencepost_coordinator::Token;
use fencepost_types::{Now, ProducerEpoch, ProducerId};

use crate::errors::Refusal;
use crate::request::{ExpectedProducer, InitProducerId, Reply};
use crate::shard::{Outcome, TransactionShard, fenced, fresh_producer_id};
use crate::state::{TWO_PHASE_COMMIT_TIMEOUT_MS, TransactionState, TxnMetadata};

impl TransactionShard {
    pub(crate) fn decide_init_producer_id(
        &self,
        now: Now,
        token: Token,
        request: &InitProducerId,
    ) -> Outcome {
        let id = &request.transactional_id;
        let timeout_ms = self.timeout_of(request)?;
        let Some(txn) = self.get(id) else {
            // An expected pair says nothing about an id that is not known (any more).
            let producer_id = fresh_producer_id(None, request.fresh_producer_id)?;
            let producer_epoch = self.config.initial_producer_epoch;
            let new = TxnMetadata::new(producer_id, producer_epoch, timeout_ms, now.wall);
            let reply = Reply::ProducerId { producer_id, producer_epoch };
            return self.write(id, new, token, reply);
        };
        self.refuse_completing(id, txn)?;
        if let Some(expected) = request.expected {
            refuse_stranger(txn, expected)?;
        }
        match txn.state {
            // The expected epoch is not compared here: a stale instance that names the right producer id ends its
            // successor's transaction, and is fenced itself when it comes again (coordinator trap 32).
            TransactionState::Ongoing => {
                let aborted = self.aborted_by_coordinator(txn, now.wall, request.fresh_producer_id)?;
                self.write(id, aborted, token, Reply::Fencing { transactional_id: id.clone() })
            }
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                unreachable!("completing was refused above")
            }
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                let next = NextProducer::of(txn, request)?;
                let NextProducer { producer_id, producer_epoch, last_producer_epoch } = next;
                let after =
                    txn.initialized(producer_id, producer_epoch, last_producer_epoch, timeout_ms, now.wall);
                self.write(id, after, token, Reply::ProducerId { producer_id, producer_epoch })
            }
        }
    }

    /// The checks that need no state, and the timeout that is kept.
    fn timeout_of(&self, request: &InitProducerId) -> Result<i32, Refusal> {
        let timeout_ms_max = self.config.transaction_max_timeout_ms;
        if request.transactional_id.is_empty() {
            return Err(Refusal::InvalidRequest);
        }
        if request.enable_two_phase_commit && !self.config.two_phase_commit_enable {
            return Err(Refusal::TwoPhaseCommitDisabled);
        }
        if request.keep_prepared_txn {
            return Err(Refusal::KeepPreparedUnsupported);
        }
        if request.enable_two_phase_commit {
            return Ok(TWO_PHASE_COMMIT_TIMEOUT_MS);
        }
        if !(1..=timeout_ms_max).contains(&request.timeout_ms) {
            return Err(Refusal::InvalidTimeout { timeout_ms: request.timeout_ms, timeout_ms_max });
        }
        Ok(request.timeout_ms)
    }
}

/// Refuses a pair that names neither the current producer id, nor the exhausted one that it replaced. Before its
/// first epoch an id lets every pair pass.
///
/// Differs from Kafka: there the answer to a retry makes the replaced id a stranger's, and where that answer is lost as well
/// the next retry is fenced.
fn refuse_stranger(txn: &TxnMetadata, expected: ExpectedProducer) -> Result<(), Refusal> {
    let is_current = expected.producer_id == txn.producer_id;
    let is_replaced =
        expected.producer_id == txn.previous_producer_id && expected.producer_epoch.is_exhausted();
    // Once it has begun a transaction, the producer has heard of its new pair.
    let is_still_lost = txn.state == TransactionState::Empty
        && expected.producer_id == txn.replaced_producer_id
        && expected.producer_epoch == txn.last_producer_epoch
        && expected.producer_epoch.is_exhausted();
    if txn.producer_epoch == ProducerEpoch::NONE || is_current || is_replaced || is_still_lost {
        Ok(())
    } else {
        Err(fenced(txn, expected.producer_epoch))
    }
}

/// What InitProducerId hands out where no transaction is in the way.
struct NextProducer {
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    last_producer_epoch: ProducerEpoch,
}

impl NextProducer {
    /// A bump, a rotation, or the same again. A bump without an expected pair comes from a new instance, so it
    /// leaves no last epoch: the old instance is fenced at once.
    fn of(txn: &TxnMetadata, request: &InitProducerId) -> Result<Self, Refusal> {
        if txn.producer_epoch < ProducerEpoch(0) {
            let (producer_id, last_producer_epoch) = (txn.producer_id, ProducerEpoch::NONE);
            return Ok(Self { producer_id, producer_epoch: ProducerEpoch(0), last_producer_epoch });
        }
        let Some(ExpectedProducer { producer_epoch: expected, .. }) = request.expected else {
            return Self::after(txn, ProducerEpoch::NONE, request.fresh_producer_id);
        };
        if expected == txn.producer_epoch {
            return Self::after(txn, expected, request.fresh_producer_id);
        }
        if expected != txn.last_producer_epoch || expected < ProducerEpoch(0) {
            return Err(fenced(txn, expected));
        }
        // The answer to an earlier request got lost. Also at the last epoch (coordinator trap 10), but not beyond it:
        // no client may hold 32767.
        if txn.producer_epoch == ProducerEpoch::MAX {
            return Self::after(txn, expected, request.fresh_producer_id);
        }
        let (producer_id, producer_epoch) = (txn.producer_id, txn.producer_epoch);
        Ok(Self { producer_id, producer_epoch, last_producer_epoch: expected })
    }

    /// The epoch after the current one; at the end, epoch 0 of a fresh producer id.
    fn after(
        txn: &TxnMetadata,
        last_producer_epoch: ProducerEpoch,
        fresh: Option<ProducerId>,
    ) -> Result<Self, Refusal> {
        match txn.producer_epoch.next().filter(|_| !txn.producer_epoch.is_exhausted()) {
            Some(producer_epoch) => {
                Ok(Self { producer_id: txn.producer_id, producer_epoch, last_producer_epoch })
            }
            None => {
                let producer_id = fresh_producer_id(Some(txn), fresh)?;
                Ok(Self { producer_id, producer_epoch: ProducerEpoch(0), last_producer_epoch })
            }
        }
    }
}

#[cfg(test)]
mod tests;
