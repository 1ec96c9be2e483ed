//! The append of each partition's batch, and the wait until all of them are durable.

use std::sync::Arc;

use fencepost_records::compression::inflated_bytes_max;
use fencepost_records::{AppendOrigin, BatchHeader, CompressionType, HEADER_BYTES, validate};
use fencepost_storage::AppendOutcome;
use fencepost_types::{ErrorCode, Offset};

use super::answer::{Answers, PartitionAnswer};
use super::verify::Guarded;
use super::{Job, Left, Part};
use crate::Broker;
use crate::cx::Cx;
use crate::gather::Gather;
use crate::respond::Exchange;
use crate::waiting::Waited;
use crate::weight::{COMPRESSION_WEIGHT, PLAIN_BYTES_LIGHT_MAX, span_of_records};

/// The request's timeout is about other replicas. Alone, only our own sync is waited for, and cutting that short would
/// tell the producer nothing: it is given at least this long.
const LOCAL_SYNC_MS_MAX: i64 = 30_000;

/// A batch that is in the log, waiting for the high watermark to pass `end`.
struct Pending {
    at: usize,
    end: Offset,
    partition: Arc<crate::partition::Partition>,
    answer: PartitionAnswer,
}

/// A request on its way into the logs.
struct Appending {
    job: Job,
    exchange: Exchange,
    answers: Answers,
    parts: std::vec::IntoIter<Guarded>,
    pending: Vec<Pending>,
    left: Left,
}

/// Appends every part, lets the connection's next Produce in, and answers when all that was appended is durable, or
/// the request's timeout has passed.
pub(crate) fn append(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    job: Job,
    exchange: Exchange,
    answers: Answers,
    parts: Vec<Guarded>,
    left: Left,
) {
    let is_heavy = is_heavy(&parts);
    let parts = parts.into_iter();
    let mut appending = Appending { job, exchange, answers, parts, pending: Vec::new(), left };
    if is_heavy {
        return appending.go_on_elsewhere(broker, cx);
    }
    appending.append_some(broker, cx, usize::MAX);
    appending.finish(broker, cx);
}

impl Appending {
    /// Has the parts appended by the edge, some at a time: others have their turn between them. The connection's turn is kept.
    fn go_on_elsewhere(mut self, broker: &Arc<Broker>, cx: &Cx) {
        let connection = Arc::clone(&self.exchange.connection);
        let weight = self.parts.as_slice().first().map_or(0, |(part, _)| weight_of(part));
        let task = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx| {
            self.append_some(broker, cx, PLAIN_BYTES_LIGHT_MAX);
            if self.parts.as_slice().is_empty() {
                self.finish(broker, cx);
            } else {
                self.go_on_elsewhere(broker, cx);
            }
        });
        broker.work(cx.now, &connection, span_of_records(weight), task);
    }

    /// Appends the next part, and those after it that together weigh no more than `weight_max`.
    fn append_some(&mut self, broker: &Arc<Broker>, cx: &mut Cx, weight_max: usize) {
        let mut weight = 0_usize;
        while let Some(guarded) = self.parts.next() {
            let at = guarded.0.at;
            match append_one(broker, cx, &self.job, guarded) {
                Ok(appended) => self.pending.push(appended),
                Err(answer) => self.answers.put(at, answer),
            }
            if weight_max == usize::MAX {
                continue;
            }
            let next = self.parts.as_slice().first();
            weight = next.map_or(weight, |(part, _)| weight.saturating_add(weight_of(part)));
            if weight > weight_max {
                return;
            }
        }
    }

    fn finish(self, broker: &Arc<Broker>, cx: &mut Cx) {
        let Self { job, exchange, mut answers, pending, left, .. } = self;
        left.leave(cx);
        if job.acks == 0 {
            hold_until_durable(cx, &exchange, &pending);
        }
        if job.acks == 0 || pending.is_empty() {
            for appended in pending {
                answers.put(appended.at, appended.answer);
            }
            return answers.reply(exchange, job.acks);
        }
        wait(broker, cx, &job, exchange, answers, pending);
    }
}

/// Whether the records are too many to be checked here, told by what they declare.
fn is_heavy(parts: &[Guarded]) -> bool {
    let plain_bytes = parts.iter().fold(0_usize, |sum, (part, _)| sum.saturating_add(plain_bytes_max(part)));
    if plain_bytes.saturating_mul(COMPRESSION_WEIGHT) <= PLAIN_BYTES_LIGHT_MAX {
        // Whatever the topics have done to them.
        return false;
    }
    let weight = parts.iter().fold(0_usize, |sum, (part, _)| sum.saturating_add(weight_of(part)));
    weight > PLAIN_BYTES_LIGHT_MAX
}

/// Plain bytes to be looked at; more where they are to be compressed.
fn weight_of(part: &Part) -> usize {
    let plain_bytes = plain_bytes_max(part);
    let is_to_be_compressed = part.partition.with(|state| {
        let codec = batch_codec(part);
        state.rules.compression.is_some_and(|target| Some(target.codec) != codec)
    });
    // A partition that is gone is not written to.
    let times = if is_to_be_compressed == Ok(true) { COMPRESSION_WEIGHT } else { 1 };
    plain_bytes.saturating_mul(times)
}

/// The most plain bytes of a part.
fn plain_bytes_max(part: &Part) -> usize {
    let Some(records) = &part.records else { return 0 };
    let codec = batch_codec(part).unwrap_or_default();
    let payload = records.get(HEADER_BYTES..).unwrap_or_default();
    inflated_bytes_max(codec, payload)
}

fn batch_codec(part: &Part) -> Option<CompressionType> {
    BatchHeader::parse(part.records.as_ref()?).ok()?.compression()
}

fn append_one(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    job: &Job,
    (part, guard): Guarded,
) -> Result<Pending, PartitionAnswer> {
    check_may_append(broker, job, &part).map_err(PartitionAnswer::refused)?;
    let (rules, log_start_offset) = part
        .partition
        .with(|state| (state.rules, state.log.log_start_offset()))
        .map_err(PartitionAnswer::refused)?;
    let origin = AppendOrigin::Client { produce_version: job.version };
    let batch = validate(part.records, &rules, origin, cx.now.wall)
        .map_err(|refusal| PartitionAnswer::content(&refusal, &part.partition.name, log_start_offset))?;
    let outcome = part.partition.append_as_leader(broker, cx, &batch, guard);
    let outcome =
        outcome.map_err(|code| PartitionAnswer { log_start_offset, ..PartitionAnswer::refused(code) })?;
    let (base_offset, last_offset, log_append_time) = match outcome {
        AppendOutcome::Appended(appended) => {
            (appended.base_offset, appended.last_offset, appended.log_append_time)
        }
        AppendOutcome::Duplicate { base_offset, last_offset, log_append_time } => {
            (base_offset, last_offset, log_append_time)
        }
    };
    let answer = PartitionAnswer {
        base_offset,
        log_append_time,
        log_start_offset,
        ..PartitionAnswer::refused(ErrorCode::None)
    };
    Ok(Pending { at: part.at, end: last_offset.next(), partition: part.partition, answer })
}

/// What is looked at when the coordinator has been asked (`producer-state §2`): a partition that was added on the way here stays
/// in its transaction.
fn check_may_append(broker: &Broker, job: &Job, part: &Part) -> Result<(), ErrorCode> {
    if !matches!(job.acks, -1..=1) {
        return Err(ErrorCode::InvalidRequiredAcks);
    }
    if broker.is_internal(&part.partition.name.topic) && !job.may_write_internal {
        return Err(ErrorCode::InvalidTopicException);
    }
    Ok(())
}

/// Nobody answers acks 0; but what this connection asks next finds these records (as with Kafka, whose high watermark
/// has moved by then).
fn hold_until_durable(cx: &mut Cx, exchange: &Exchange, pending: &[Pending]) {
    for appended in pending {
        let connection = Arc::clone(&exchange.connection);
        connection.hold();
        let release = Box::new(move |_: &Arc<Broker>, cx: &mut Cx, _| connection.release(cx));
        appended.partition.when_high_watermark(cx, appended.end, release);
    }
}

fn wait(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    job: &Job,
    exchange: Exchange,
    mut answers: Answers,
    pending: Vec<Pending>,
) {
    let acks = job.acks;
    let places: Vec<usize> = pending.iter().map(|appended| appended.at).collect();
    let gather = Gather::new(broker, cx, pending.len(), move |_, _, done: Vec<PartitionAnswer>| {
        for (at, answer) in places.into_iter().zip(done) {
            answers.put(at, answer);
        }
        answers.reply(exchange, acks);
    });
    for (place, appended) in pending.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        let Pending { end, partition, answer, .. } = appended;
        partition.when_high_watermark(
            cx,
            end,
            Box::new(move |broker, cx, waited| {
                let answer = match waited {
                    Waited::Reached => answer,
                    Waited::Gone(code) => PartitionAnswer::refused(code),
                };
                gather.put(broker, cx, place, answer);
            }),
        );
    }
    let wait_ms = job.timeout_ms.max(LOCAL_SYNC_MS_MAX);
    gather.fill_after(broker, cx, wait_ms, |_| PartitionAnswer::refused(ErrorCode::RequestTimedOut));
}
