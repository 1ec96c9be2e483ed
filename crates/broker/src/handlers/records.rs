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
use crate::respond::Exchange;

/// In DeleteRecords: up to the high watermark.
const UP_TO_HIGH_WATERMARK: i64 = -1;

/// Moves log starts. Alone, every replica has moved with the leader.
///
/// Source: KIP-107, wire-apis §7.
pub(crate) fn delete_records(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: DeleteRecordsRequest,
) {
    let mut topics = Vec::new();
    for topic in request.topics {
        let mut partitions = Vec::new();
        for asked in topic.partitions {
            let moved = delete_one(broker, cx, &topic.name, asked.partition_index, asked.offset);
            partitions.push(delete_records_response::Partitions {
                partition_index: asked.partition_index,
                low_watermark: moved.map_or(-1, |offset| offset.0),
                error_code: moved.err().map_or(0, |code| code.code()),
            });
        }
        topics.push(delete_records_response::Topics { name: topic.name, partitions });
    }
    exchange.reply(DeleteRecordsResponse { topics, ..Default::default() });
}

fn delete_one(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    topic: &str,
    index: i32,
    offset: i64,
) -> Result<Offset, ErrorCode> {
    let partition = broker.resolve(false, topic, Uuid::ZERO, PartitionIndex(index))?;
    if broker.is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let (high_watermark, log_start, is_compacted_only) = partition
        .with(|state| (state.log.high_watermark(), state.log.log_start_offset(), state.is_compacted_only))?;
    if is_compacted_only {
        return Err(ErrorCode::PolicyViolation);
    }
    let target = match offset {
        UP_TO_HIGH_WATERMARK => high_watermark,
        ..0 => return Err(ErrorCode::OffsetOutOfRange),
        offset => Offset(offset),
    };
    if target > high_watermark {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    if target <= log_start {
        return Ok(log_start);
    }
    partition.delete_records(cx, target)
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
