//! EndTxn: the commit point. The answer is due once the decision is durable; markers and completion follow
//! (`coordinator trap 4`).
//!
//! Source: KIP-98, KIP-890, KAFKA-14563, KAFKA-18464, KAFKA-20785; Kafka TransactionCoordinator.endTransaction.

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{Now, ProducerEpoch, ProducerId, TransactionResult};

use crate::errors::Refusal;
use crate::request::{EndTxn, Reply};
use crate::shard::{
    Outcome, TransactionShard, fenced, fresh_producer_id, refuse_other_epoch, refuse_other_producer,
    refuse_replaced_producer,
};
use crate::state::{LAST_CLIENT_EPOCH, TransactionState, TxnMetadata};

use TransactionResult::{Abort, Commit};
use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

impl TransactionShard {
    pub(crate) fn decide_end_txn(&self, now: Now, token: Token, request: &EndTxn) -> Outcome {
        let txn = self.lookup(&request.transactional_id)?;
        if request.transaction_version.bumps_epoch() {
            self.end_with_bump(now, token, request, txn)
        } else {
            self.end_without_bump(now, token, request, txn)
        }
    }

    /// Versions 0 and 1: the epoch stays, so an answer may be asked for again with the same one.
    fn end_without_bump(&self, now: Now, token: Token, request: &EndTxn, txn: &TxnMetadata) -> Outcome {
        let EndTxn { transactional_id: id, result, .. } = request;
        let ended = Reply::Ended { producer_id: ProducerId::NONE, producer_epoch: ProducerEpoch::NONE };
        refuse_other_producer(txn, request.producer_id)?;
        refuse_other_epoch(txn, request.producer_epoch)?;
        self.refuse_completing(id, txn)?;
        match (txn.state, result) {
            (Ongoing, Commit | Abort) => self.write(id, txn.prepared(*result, now.wall), token, ended),
            (CompleteCommit, Commit) | (CompleteAbort, Abort) => Ok(Decision::answer(token, ended)),
            (Empty, Commit | Abort) | (CompleteCommit, Abort) | (CompleteAbort, Commit) => {
                Err(Refusal::InvalidTxnState { state: txn.state, result: *result })
            }
            (PrepareCommit | PrepareAbort, Commit | Abort) => unreachable!("completing was refused above"),
        }
    }

    /// Version 2: every end raises the epoch, an abort of nothing too, so that a late produce of this transaction is
    /// fenced (`coordinator trap 12`). The same request again carries the epoch before.
    fn end_with_bump(&self, now: Now, token: Token, request: &EndTxn, txn: &TxnMetadata) -> Outcome {
        let EndTxn { transactional_id: id, result, .. } = request;
        self.refuse_completing(id, txn)?;
        let relation = EpochRelation::of(request, txn);
        if relation != EpochRelation::RetryAfterRotation {
            let (producer_id, producer_epoch) = (request.producer_id, request.producer_epoch);
            refuse_replaced_producer(txn, producer_id, producer_epoch, request.transaction_version)?;
            refuse_other_producer(txn, producer_id)?;
        }
        let invalid = Err(Refusal::InvalidTxnState { state: txn.state, result: *result });
        let is_retry = match relation {
            EpochRelation::Current => false,
            EpochRelation::Retry | EpochRelation::RetryAfterRotation => true,
            EpochRelation::Other => return Err(fenced(txn, request.producer_epoch)),
        };
        match (txn.state, result, is_retry) {
            (Ongoing, Commit | Abort, false) | (Empty | CompleteCommit | CompleteAbort, Abort, false) => {
                let after = prepared_with_bump(txn, *result, now, request.fresh_producer_id)?;
                let next = after.completed(now.wall);
                let reply =
                    Reply::Ended { producer_id: next.producer_id, producer_epoch: next.producer_epoch };
                self.write(id, after, token, reply)
            }
            (CompleteCommit, Commit, true) | (CompleteAbort, Abort, true) => {
                let (producer_id, producer_epoch) = (txn.producer_id, txn.producer_epoch);
                Ok(Decision::answer(token, Reply::Ended { producer_id, producer_epoch }))
            }
            (Empty | CompleteCommit | CompleteAbort, Commit, false) | (CompleteCommit, Abort, true) => {
                invalid
            }
            // The coordinator, or the client itself, has aborted: a commit that comes late must not be fatal
            // (coordinator trap 11).
            (CompleteAbort, Commit, true) | (Empty | Ongoing, Commit | Abort, true) => {
                Err(fenced(txn, request.producer_epoch))
            }
            (PrepareCommit | PrepareAbort, Commit | Abort, _) => unreachable!("completing was refused above"),
        }
    }
}

/// Prepare* under version 2. At the last epoch a fresh producer id goes with it.
pub(crate) fn prepared_with_bump(
    txn: &TxnMetadata,
    result: TransactionResult,
    now: Now,
    fresh: Option<ProducerId>,
) -> Result<TxnMetadata, Refusal> {
    let next_producer_id = if txn.producer_epoch.is_exhausted() {
        fresh_producer_id(Some(txn), fresh)?
    } else {
        ProducerId::NONE
    };
    Ok(txn.prepared_with_bump(result, next_producer_id, now.wall))
}

/// How the epoch of an EndTxn stands to that of the transactional id, under version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EpochRelation {
    /// The same.
    Current,
    /// One below: the answer that raised it got lost.
    Retry,
    /// The last one of the producer id that was replaced since: likewise.
    RetryAfterRotation,
    /// Anything else.
    Other,
}

impl EpochRelation {
    fn of(request: &EndTxn, txn: &TxnMetadata) -> Self {
        let (given, current) = (request.producer_epoch, txn.producer_epoch);
        if given < ProducerEpoch(0) {
            Self::Other
        } else if given == current {
            Self::Current
        } else if given.next() == Some(current) {
            Self::Retry
        } else if given == LAST_CLIENT_EPOCH
            && current == ProducerEpoch(0)
            && request.producer_id == txn.previous_producer_id
        {
            Self::RetryAfterRotation
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests;
