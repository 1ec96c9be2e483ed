//! What the runtime needs to know of the transaction shard.

use std::sync::Arc;

use fencepost_transaction::{Refusal, Request, TransactionRecord, TransactionShard, append_code};
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
            let id = Arc::clone(&record.transactional_id);
            match &record.value {
                Some(value) if value.txn.state.completing().is_some() => decided.push(id),
                Some(_) | None => {
                    cx.push(Box::new(move |broker, cx| broker.transactions.completing.completed(&id, cx)));
                }
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
                let parked = Arc::new(crate::once::Once::new(asked));
                let (again, give_up) = (Arc::clone(&parked), parked);
                let (cell, parked_cell) = (Arc::clone(cell), cell);
                let again: Task = Box::new(move |broker, cx| {
                    if let Some(asked) = again.take() {
                        cell.ask_with(broker, cx, asked);
                    }
                });
                let give_up: Task = Box::new(move |broker, cx| {
                    if let Some(asked) = give_up.take() {
                        (asked.respond)(broker, cx, Err(AskError::Refused(refusal)));
                    }
                });
                let wait_ms = COMPLETING_WAIT_MS_MAX;
                broker.transactions.completing.park(broker, cx.now, &id, wait_ms, again, give_up);
                // It may have completed between the refusal and the parking.
                if !parked_cell.read(|shard| shard.is_completing(&id)) {
                    broker.transactions.completing.completed(&id, cx);
                }
            }
            refusal => (asked.respond)(broker, cx, Err(AskError::Refused(refusal))),
        }
    }

    fn append_error(code: ErrorCode) -> ErrorCode {
        append_code(code)
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
    let cell = Arc::clone(cell);
    broker.producer_ids.take(
        broker,
        cx,
        Box::new(move |broker, cx, fresh| {
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
