//! Produce: resolve, verify or add the partitions of a transaction, append, wait until durable, answer.
//!
//! ```text
//! sort_out ─► (gate: in the connection's order) ─► verify.rs: guards ─► append.rs ─► high watermark ─► answer.rs
//! ```

mod answer;
mod append;
mod verify;

use std::sync::Arc;

use bytes::Bytes;
use fencepost_protocol::messages::ProduceRequest;
use fencepost_records::BatchHeader;
use fencepost_types::{ErrorCode, ProducerEpoch, ProducerId, Sequence, Uuid};

use crate::Broker;
use crate::cx::Cx;
use crate::partition::Partition;
use crate::respond::Exchange;

use answer::{Answers, PartitionAnswer};

/// From this version on topics are named by id.
const TOPIC_IDS_FROM: i16 = 13;
/// From this version on the leader adds partitions to the transaction by itself (KIP-890).
const IMPLICIT_ADD_FROM: i16 = 12;
/// The one client that may write to internal topics.
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// The records of one partition on their way to its log.
pub(crate) struct Part {
    /// Where its answer goes.
    at: usize,
    partition: Arc<Partition>,
    records: Option<Bytes>,
    /// The transactional producer of its first batch.
    transactional: Option<(ProducerId, ProducerEpoch, Sequence)>,
}

/// What all partitions of a request share.
pub(crate) struct Job {
    version: i16,
    transactional_id: Option<String>,
    timeout_ms: i64,
    acks: i16,
    may_write_internal: bool,
}

/// Takes a Produce request.
///
/// Source: wire-apis §5, `producer-state §2`.
pub(crate) fn produce(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: ProduceRequest) {
    let connection = Arc::clone(&exchange.connection);
    let leave = Arc::clone(&connection);
    connection.enter_produce(
        broker,
        cx,
        Box::new(move |broker, cx| begin(broker, cx, exchange, request, Left(Some(leave)))),
    );
}

/// Gets the turn of a Produce that is still to be read; it must end in [`Left::leave`].
pub(crate) type TakeTurn = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Left) + Send>;

/// Runs `enter` when it is its turn among the Produce requests of the connection.
pub(crate) fn take_turn(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    connection: &Arc<crate::connection::Connection>,
    enter: TakeTurn,
) {
    let leave = Arc::clone(connection);
    connection.enter_produce(broker, cx, Box::new(move |broker, cx| enter(broker, cx, Left(Some(leave)))));
}

/// Lets the connection's next Produce in; whoever ends the append stage calls [`Left::leave`].
pub(crate) struct Left(Option<Arc<crate::connection::Connection>>);

impl Left {
    pub(crate) fn leave(mut self, cx: &mut Cx) {
        if let Some(connection) = self.0.take() {
            connection.leave_produce(cx);
        }
    }
}

/// Takes a Produce whose turn it is.
pub(crate) fn begin(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: ProduceRequest,
    left: Left,
) {
    let mut answers = Answers::of(&request);
    if let Err(code) = check_request(&request) {
        answers.all(code);
        left.leave(cx);
        return answers.reply(exchange, request.acks);
    }
    let job = Job {
        version: exchange.version(),
        transactional_id: request.transactional_id,
        timeout_ms: i64::from(request.timeout_ms),
        acks: request.acks,
        may_write_internal: exchange.client_id() == ADMIN_CLIENT_ID,
    };
    let mut parts = Vec::new();
    let mut at = 0;
    for topic in request.topic_data {
        for data in topic.partition_data {
            match resolve(broker, job.version, &topic.name, topic.topic_id, data.index) {
                Ok(partition) => {
                    let transactional = transactional_producer(data.records.as_ref());
                    parts.push(Part { at, partition, records: data.records, transactional });
                }
                Err(code) => answers.put(at, PartitionAnswer::refused(code)),
            }
            at += 1;
        }
    }
    verify::verify(broker, cx, job, exchange, answers, parts, left);
}

/// What refuses the whole request.
fn check_request(request: &ProduceRequest) -> Result<(), ErrorCode> {
    let batches = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let mut producers = batches
        .clone()
        .filter_map(|data| transactional_producer(data.records.as_ref()))
        .map(|(id, epoch, _)| (id, epoch));
    let first = producers.next();
    let are_several = producers.any(|producer| Some(producer) != first);
    let mut headers = batches.filter_map(|data| BatchHeader::parse(data.records.as_ref()?).ok());
    if headers.any(|header| header.is_transactional()) && request.transactional_id.is_none() {
        return Err(ErrorCode::TransactionalIdAuthorizationFailed);
    }
    if are_several {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    Ok(())
}

/// The producer of the first batch, if that is transactional and names one.
fn transactional_producer(records: Option<&Bytes>) -> Option<(ProducerId, ProducerEpoch, Sequence)> {
    let header = BatchHeader::parse(records?).ok()?;
    // A transactional batch without a producer is refused for its content.
    (header.is_transactional() && header.has_producer_id()).then_some((
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    ))
}

fn resolve(
    broker: &Arc<Broker>,
    version: i16,
    name: &str,
    id: Uuid,
    index: i32,
) -> Result<Arc<Partition>, ErrorCode> {
    let image = broker.image();
    let (name, unknown) = if version >= TOPIC_IDS_FROM {
        (image.topic_name(id), ErrorCode::UnknownTopicId)
    } else {
        (image.topic_by_name(name).map(|topic| topic.name.clone()), ErrorCode::UnknownTopicOrPartition)
    };
    let name = name.ok_or(unknown)?;
    let name =
        fencepost_types::TopicPartition { topic: name, partition: fencepost_types::PartitionIndex(index) };
    broker.partitions.get(&name).ok_or(ErrorCode::UnknownTopicOrPartition)
}
