//! DeleteRecords and OffsetForLeaderEpoch.

use std::sync::Arc;

use fencepost_protocol::messages::{
    DeleteRecordsRequest, DeleteRecordsResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    delete_records_response, offset_for_leader_epoch_response,
};
use fencepost_types::{ErrorCode, LeaderEpoch, Offset, PartitionIndex, Uuid};

use super::fetch::check_epoch;
use crate::Broker;
use crate::cx::Cx;
use crate::partition::Partition;
use crate::respond::Exchange;

/// In DeleteRecords: up to the high watermark.
const UP_TO_HIGH_WATERMARK: i64 = -1;

/// Moves log starts, and answers when a restart would find them moved. Alone, every replica has moved with the leader.
///
/// Differs from Kafka, which forgets them when it is killed before the next checkpoint.
///
/// Source: KIP-107, wire-apis §7.
pub(crate) fn delete_records(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: DeleteRecordsRequest,
) {
    let (mut topics, mut unremembered) = (Vec::new(), Vec::new());
    for topic in request.topics {
        let mut partitions = Vec::new();
        for asked in topic.partitions {
            let moved = delete_one(broker, cx, &topic.name, asked.partition_index, asked.offset);
            if let Ok(Moved { partition, log_start, is_remembered: false }) = &moved {
                unremembered.push((Arc::clone(partition), *log_start));
            }
            partitions.push(delete_records_response::Partitions {
                partition_index: asked.partition_index,
                low_watermark: moved.as_ref().map_or(-1, |moved| moved.log_start.0),
                error_code: moved.err().map_or(0, |code| code.code()),
            });
        }
        topics.push(delete_records_response::Topics { name: topic.name, partitions });
    }
    let response = DeleteRecordsResponse { topics, ..Default::default() };
    if unremembered.is_empty() {
        exchange.reply(response);
        return;
    }
    let answer = move |_: &Arc<Broker>, _: &mut Cx, remembered: Result<(), ErrorCode>| {
        exchange.reply(match remembered {
            Ok(()) => response,
            Err(code) => refused(response, code),
        });
    };
    broker.remember_log_starts(cx, unremembered, Box::new(answer));
}

/// The same answer with `code` instead of every success.
fn refused(mut response: DeleteRecordsResponse, code: ErrorCode) -> DeleteRecordsResponse {
    let rows = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    for row in rows.filter(|row| row.error_code == 0) {
        (row.low_watermark, row.error_code) = (-1, code.code());
    }
    response
}

/// A partition whose log start is where it was asked for, or further on.
struct Moved {
    partition: Arc<Partition>,
    log_start: Offset,
    /// Whether a restart would find it there already.
    is_remembered: bool,
}

fn delete_one(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    topic: &str,
    index: i32,
    offset: i64,
) -> Result<Moved, ErrorCode> {
    let partition = broker.resolve(false, topic, Uuid::ZERO, PartitionIndex(index))?;
    if broker.is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let (high_watermark, is_compacted_only) =
        partition.with(|state| (state.log.high_watermark(), state.is_compacted_only))?;
    if is_compacted_only {
        return Err(ErrorCode::PolicyViolation);
    }
    let target = match offset {
        UP_TO_HIGH_WATERMARK => high_watermark,
        ..0 => return Err(ErrorCode::OffsetOutOfRange),
        offset => Offset(offset),
    };
    let log_start = partition.delete_records(cx, target)?;
    let is_remembered = partition.with(|state| state.is_log_start_remembered())?;
    Ok(Moved { partition, log_start, is_remembered })
}

/// Where leader epochs end.
///
/// Source: KIP-101, KIP-320, storage-formats §7.6.
pub(crate) fn offset_for_leader_epoch(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: OffsetForLeaderEpochRequest,
) {
    use offset_for_leader_epoch_response::{Partitions, Topics};
    let topics = request.topics.into_iter().map(|topic| {
        let rows = topic.partitions.iter().map(|asked| {
            let found = epoch_end(
                broker,
                &topic.topic,
                asked.partition,
                asked.current_leader_epoch,
                LeaderEpoch(asked.leader_epoch),
            );
            let (code, leader_epoch, end_offset) = match found {
                Ok(Some((epoch, offset))) => (ErrorCode::None, epoch.0, offset.0),
                Ok(None) => (ErrorCode::None, -1, -1),
                Err(code) => (code, -1, -1),
            };
            Partitions { error_code: code.code(), partition: asked.partition, leader_epoch, end_offset }
        });
        Topics { partitions: rows.collect(), topic: topic.topic }
    });
    exchange.reply(OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() });
}

fn epoch_end(
    broker: &Arc<Broker>,
    topic: &str,
    index: i32,
    current_leader_epoch: i32,
    leader_epoch: LeaderEpoch,
) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    let partition = broker.resolve(false, topic, Uuid::ZERO, PartitionIndex(index))?;
    partition.with(|state| {
        check_epoch(state, current_leader_epoch)?;
        Ok(state.log.end_offset_for_epoch(leader_epoch))
    })?
}
