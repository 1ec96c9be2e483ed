//! What the runtime needs to know of the transaction shard.

use std::sync::Arc;

use fencepost_transaction::{
    Refusal, Request, TransactionRecord, TransactionShard, TransactionState, TransactionalId, append_code,
};
use fencepost_types::{ErrorCode, ProducerId, Sequence};

use crate::Broker;
use crate::cx::{Cx, Task};
use crate::runtime::{AskError, Asked, HostedShard};

use super::TransactionCell;
use super::completing::COMPLETING_WAIT_MS_MAX;

impl HostedShard for TransactionShard {
    // The transaction log's batches carry no sequence at all (storage-formats §14).
    const BASE_SEQUENCE: Sequence = Sequence::NONE;

    /// Once a completion is in the log, those who waited for it ask again: what they write comes after it. Once a
    /// decision is durable, its markers go out.
    fn stepped(
        &mut self,
        cell: &Arc<TransactionCell>,
        cx: &mut Cx,
        records: &[TransactionRecord],
    ) -> Option<Task> {
        let mut decided = Vec::new();
        for record in records {
            let Some(value) = &record.value else { continue };
            let id = Arc::clone(&record.transactional_id);
            match value.txn.state {
                TransactionState::PrepareCommit | TransactionState::PrepareAbort => decided.push(id),
                TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                    cx.push(Box::new(move |broker, cx| {
                        broker.transactions.completing.completed(broker, cx, &id);
                    }));
                }
                TransactionState::Empty | TransactionState::Ongoing => {}
            }
        }
        if decided.is_empty() {
            return None;
        }
        let cell = Arc::clone(cell);
        Some(Box::new(move |broker, cx| {
            for transactional_id in decided {
                cell.send_markers(broker, cx, &transactional_id);
            }
        }))
    }

    fn refused(
        cell: &Arc<TransactionCell>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        asked: Asked<Self>,
        refusal: Refusal,
    ) {
        match refusal {
            Refusal::ProducerIdNeeded => ask_with_producer_id(cell, broker, cx, asked),
            Refusal::Completing { ref transactional_id, is_given_up: false } if waits(&asked.request) => {
                let id = Arc::clone(transactional_id);
                park(cell, broker, cx, &id, asked, refusal);
            }
            refusal => (asked.respond)(broker, cx, Err(AskError::Refused(refusal))),
        }
    }

    fn held(&self) -> usize {
        self.transactions().len()
    }

    fn append_error(code: ErrorCode) -> ErrorCode {
        append_code(code)
    }
}

/// Parks a request that met a completing transaction; one that has been parked long enough is answered.
fn park(
    cell: &Arc<TransactionCell>,
    broker: &Arc<Broker>,
    cx: &mut Cx,
    id: &TransactionalId,
    mut asked: Asked<TransactionShard>,
    refusal: Refusal,
) {
    let until = *asked.parked_until.get_or_insert(cx.now.mono.plus_ms(COMPLETING_WAIT_MS_MAX));
    if until <= cx.now.mono {
        return (asked.respond)(broker, cx, Err(AskError::Refused(refusal)));
    }
    let again_cell = Arc::clone(cell);
    let again = move |broker: &Arc<Broker>, cx: &mut Cx, asked| again_cell.ask_with(broker, cx, asked);
    let at_the_end = refusal.clone();
    let give_up = move |broker: &Arc<Broker>, cx: &mut Cx, asked: Asked<TransactionShard>| {
        (asked.respond)(broker, cx, Err(AskError::Refused(at_the_end)));
    };
    if let Err(asked) = broker.transactions.completing.park(broker, id, until, asked, again, give_up) {
        return (asked.respond)(broker, cx, Err(AskError::Refused(refusal)));
    }
    // It may have completed, or been given up, between the refusal and the parking.
    if !cell.read(|shard| shard.is_completing(id) && !shard.is_given_up(id)) {
        broker.transactions.completing.completed(broker, cx, id);
    }
}

/// Whether a request that meets a completing transaction is worth parking.
fn waits(request: &Request) -> bool {
    match request {
        Request::InitProducerId(_)
        | Request::AddPartitions(_)
        | Request::VerifyPartitions(_)
        | Request::EndTxn(_) => true,
        Request::MarkersWritten(_)
        | Request::PartitionsDeleted(_)
        | Request::MarkersGivenUp(_)
        | Request::Describe { .. }
        | Request::List(_)
        | Request::Tick { .. } => false,
    }
}

fn ask_with_producer_id(
    cell: &Arc<TransactionCell>,
    broker: &Arc<Broker>,
    cx: &mut Cx,
    mut asked: Asked<TransactionShard>,
) {
    // Before a producer id is spent on it, and again after the wait for one.
    if let Err(code) = broker.admit_id(cell, &asked.request) {
        return (asked.respond)(broker, cx, Err(AskError::Failed(code)));
    }
    let cell = Arc::clone(cell);
    broker.producer_ids.take(
        broker,
        cx,
        Box::new(move |broker, cx, fresh| {
            if let Err(code) = broker.admit_id(&cell, &asked.request) {
                return (asked.respond)(broker, cx, Err(AskError::Failed(code)));
            }
            let Some(fresh) = fresh else {
                (asked.respond)(broker, cx, Err(AskError::Failed(ErrorCode::CoordinatorLoadInProgress)));
                return;
            };
            if give(&mut asked.request, fresh) {
                cell.ask_with(broker, cx, asked);
            } else {
                (asked.respond)(broker, cx, Err(AskError::Refused(Refusal::ProducerIdNeeded)));
            }
        }),
    );
}

/// Puts a fresh producer id into the request; `false` if it takes none or has one already, so that a shard that asks
/// for ever is not answered for ever.
fn give(request: &mut Request, fresh: ProducerId) -> bool {
    let slot = match request {
        Request::InitProducerId(init) => &mut init.fresh_producer_id,
        Request::EndTxn(end) => &mut end.fresh_producer_id,
        Request::Tick { fresh_producer_id } => fresh_producer_id,
        Request::AddPartitions(_)
        | Request::VerifyPartitions(_)
        | Request::MarkersWritten(_)
        | Request::PartitionsDeleted(_)
        | Request::MarkersGivenUp(_)
        | Request::Describe { .. }
        | Request::List(_) => return false,
    };
    slot.replace(fresh).is_none()
}
