//! Before a transactional append: is the partition in the transaction (versions up to 11), or add it (from 12 on)?

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_partition::VerificationGuard;
use fencepost_records::{Batch, CompressionType};
use fencepost_transaction::{ProducerName, Step, produce_code};
use fencepost_types::{ErrorCode, TopicPartition, TransactionVersion};

use super::answer::{Answers, PartitionAnswer};
use super::append::append;
use super::{IMPLICIT_ADD_FROM, Job, Left, Part};
use crate::Broker;
use crate::cx::Cx;
use crate::handlers::transactions::Add;
use crate::respond::Exchange;

/// The first version of Produce whose clients know zstd (KIP-110).
const ZSTD_FROM: i16 = 7;

/// A part and the guard that its append must show.
pub(crate) type Guarded = (Part, Option<VerificationGuard>);

/// Asks the coordinator where that is needed, then appends.
///
/// Source: KIP-890, `producer-state §6`.
pub(crate) fn verify(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    job: Job,
    exchange: Exchange,
    mut answers: Answers,
    parts: Vec<Part>,
    left: Left,
) {
    let adds = job.version >= IMPLICIT_ADD_FROM;
    let (mut ready, asked) = sort_out(broker, cx, &job, &exchange, &mut answers, parts);
    let producer = asked.first().and_then(|(part, _)| part.transactional);
    let (Some((producer_id, producer_epoch, _)), Some(transactional_id)) =
        (producer, job.transactional_id.as_deref())
    else {
        return append(broker, cx, job, exchange, answers, ready, left);
    };
    let add = Add {
        transactional_id: transactional_id.to_owned(),
        producer_id,
        producer_epoch,
        partitions: asked.iter().map(|(part, _)| part.partition.name.clone()).collect(),
        transaction_version: if adds { TransactionVersion::V2 } else { TransactionVersion::V0 },
    };
    let go_on = move |broker: &Arc<Broker>,
                      cx: &mut Cx,
                      result: Result<BTreeMap<TopicPartition, bool>, ErrorCode>| {
        for (part, guard) in asked {
            let outcome =
                result.as_ref().map(|known| known.get(&part.partition.name).copied().unwrap_or(true));
            let code = match outcome {
                Ok(true) if !adds && is_doubtful(broker, &exchange, &job, &part) => {
                    ErrorCode::ConcurrentTransactions
                }
                Ok(true) => {
                    ready.push((part, guard));
                    continue;
                }
                Ok(false) => ErrorCode::TransactionAbortable,
                Err(code) => *code,
            };
            answers.put(part.at, refused(job.version, code));
        }
        append(broker, cx, job, exchange, answers, ready, left);
    };
    if adds {
        add.add(
            broker,
            cx,
            Box::new(move |broker, cx, result| go_on(broker, cx, result.map(|()| BTreeMap::new()))),
        );
    } else {
        add.verify(
            broker,
            cx,
            Box::new(move |broker, cx, result| {
                go_on(broker, cx, result.map(|rows| rows.into_iter().collect()))
            }),
        );
    }
}

/// The parts that can be appended at once, and those that the coordinator is asked about; the others are answered.
fn sort_out(
    broker: &Arc<Broker>,
    cx: &Cx,
    job: &Job,
    exchange: &Exchange,
    answers: &mut Answers,
    parts: Vec<Part>,
) -> (Vec<Guarded>, Vec<Guarded>) {
    let adds = job.version >= IMPLICIT_ADD_FROM;
    let mut ready: Vec<Guarded> = Vec::new();
    let mut asked: Vec<Guarded> = Vec::new();
    for part in parts {
        let guard = match needs_guard(broker, cx, job, &part, adds) {
            Ok(guard) => guard,
            Err(code) => {
                answers.put(part.at, PartitionAnswer::refused(code));
                continue;
            }
        };
        if guard.is_some() {
            asked.push((part, guard));
        } else if !adds && is_doubtful(broker, exchange, job, &part) {
            answers.put(part.at, refused(job.version, ErrorCode::ConcurrentTransactions));
        } else {
            ready.push((part, None));
        }
    }
    (ready, asked)
}

/// Whether a batch that the coordinator has nothing against, or is not asked about, may be one of an earlier transaction.
fn is_doubtful(broker: &Broker, exchange: &Exchange, job: &Job, part: &Part) -> bool {
    let (Some((producer_id, producer_epoch, sequence)), Some(id)) =
        (part.transactional, job.transactional_id.as_deref())
    else {
        return false;
    };
    let producer = ProducerName { transactional_id: id, producer_id, producer_epoch };
    let step = Step::Produce(part.partition.name.clone(), sequence);
    broker.is_doubtful(&exchange.connection, producer, &step)
}

/// The guard of a part that has to be verified or added first; `None` for one that may be appended at once.
fn needs_guard(
    broker: &Arc<Broker>,
    cx: &Cx,
    job: &Job,
    part: &Part,
    adds: bool,
) -> Result<Option<VerificationGuard>, ErrorCode> {
    let Some((producer_id, producer_epoch, base_sequence)) = part.transactional else { return Ok(None) };
    // Refused as content before the coordinator is asked: such a batch joins no transaction (`producer-state §2`).
    if !is_single_batch(part.records.clone(), job.version) {
        return Ok(None);
    }
    if !adds && !broker.verifies_transactions() {
        return Ok(None);
    }
    part.partition.with(|state| {
        let states = state.log.producer_states_mut();
        let started =
            states.start_verification(cx.now.wall, producer_id, producer_epoch, base_sequence, adds);
        started.map_err(|refusal| refusal.code())
    })?
}

/// What is looked at before the coordinator is asked; the rest of the content comes after (`producer-state §2`).
fn is_single_batch(records: Option<Bytes>, version: i16) -> bool {
    let Some(mut rest) = records else { return false };
    let Ok(Some(batch)) = Batch::split_first(&mut rest) else { return false };
    let may_be_read = batch.header().compression() != Some(CompressionType::Zstd) || version >= ZSTD_FROM;
    may_be_read && !matches!(Batch::split_first(&mut rest), Ok(Some(_)))
}

/// What a producer is told when its partition could not be verified or added.
fn refused(version: i16, code: ErrorCode) -> PartitionAnswer {
    let mapped = produce_code(version, code);
    if mapped == code {
        PartitionAnswer::refused(mapped)
    } else {
        let message = format!("the transaction coordinator answered {code}");
        PartitionAnswer::explained(mapped, message)
    }
}
