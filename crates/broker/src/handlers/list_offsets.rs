//! ListOffsets: offsets by time, and the special ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_protocol::messages::list_offsets_response::{Partitions, Topics};
use fencepost_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse, list_offsets_request};
use fencepost_storage::FoundTimestamp;
use fencepost_types::{ErrorCode, LeaderEpoch, Millis, Offset, PartitionIndex, Uuid};

use super::fetch::check_epoch;
use crate::Broker;
use crate::partition::State;
use crate::respond::Exchange;

/// Special timestamps, and the versions from which they are known.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const MAX_TIMESTAMP_FROM: i16 = 7;
const EARLIEST_LOCAL: i64 = -4;
const EARLIEST_LOCAL_FROM: i16 = 8;
const LATEST_TIERED: i64 = -5;
const LATEST_TIERED_FROM: i16 = 9;
const EARLIEST_PENDING_UPLOAD: i64 = -6;
const EARLIEST_PENDING_UPLOAD_FROM: i16 = 11;
/// Replica id of a client.
const CLIENT: i32 = -1;
/// The one negative leader epoch that means "none" here.
const NO_EPOCH: i32 = -1;
/// From this version on the answer carries a leader epoch.
const LEADER_EPOCH_FROM: i16 = 4;

/// Up to where the asker may see.
#[derive(Clone, Copy, Debug)]
enum Bound {
    LogEnd,
    HighWatermark,
    LastStable,
}

/// Answers each partition; one that is named twice is answered once, with an error.
///
/// Source: wire-apis §7, `producer-state §9` and trap 31.
pub(crate) fn list_offsets(broker: &Arc<Broker>, exchange: Exchange, request: ListOffsetsRequest) {
    let version = exchange.version();
    let bound = match (request.replica_id, request.isolation_level) {
        (CLIENT, 0) => Ok(Bound::HighWatermark),
        (CLIENT, 1) => Ok(Bound::LastStable),
        // Differs from Kafka: there an unknown level is UNKNOWN_SERVER_ERROR.
        (CLIENT, _) => Err(ErrorCode::InvalidRequest),
        _ => Ok(Bound::LogEnd),
    };
    let mut counts: BTreeMap<(&str, i32), usize> = BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *counts.entry((&topic.name, partition.partition_index)).or_default() += 1;
        }
    }
    let mut answered = std::collections::BTreeSet::new();
    let mut topics = Vec::new();
    for topic in &request.topics {
        let mut rows = Vec::new();
        for asked in &topic.partitions {
            let key = (topic.name.as_str(), asked.partition_index);
            if counts.get(&key).is_some_and(|count| *count > 1) {
                if answered.insert(key) {
                    rows.push(refused(asked.partition_index, ErrorCode::InvalidRequest));
                }
                continue;
            }
            let found = bound.and_then(|bound| look_up(broker, version, bound, &topic.name, asked));
            rows.push(match found {
                Ok(found) => row(version, asked.partition_index, found),
                Err(code) => refused(asked.partition_index, code),
            });
        }
        topics.push(Topics { name: topic.name.clone(), partitions: rows });
    }
    exchange.reply(ListOffsetsResponse { topics, ..Default::default() });
}

fn refused(partition_index: i32, code: ErrorCode) -> Partitions {
    Partitions { partition_index, error_code: code.code(), timestamp: -1, offset: -1, leader_epoch: -1 }
}

fn row(version: i16, partition_index: i32, found: FoundTimestamp) -> Partitions {
    Partitions {
        partition_index,
        error_code: 0,
        timestamp: found.timestamp.0,
        offset: found.offset.0,
        leader_epoch: if version >= LEADER_EPOCH_FROM { found.leader_epoch.0 } else { -1 },
    }
}

/// Nothing there: timestamp −1, offset −1, no error.
const NOTHING: FoundTimestamp =
    FoundTimestamp { timestamp: Millis::NONE, offset: Offset::NONE, leader_epoch: LeaderEpoch::NONE };

fn look_up(
    broker: &Arc<Broker>,
    version: i16,
    bound: Bound,
    topic: &str,
    asked: &list_offsets_request::Partitions,
) -> Result<FoundTimestamp, ErrorCode> {
    let partition = broker.resolve(false, topic, Uuid::ZERO, PartitionIndex(asked.partition_index))?;
    partition.with(|state| {
        // Only −1 is "none" here; any other negative epoch is an old one.
        match asked.current_leader_epoch {
            NO_EPOCH => {}
            ..0 => return Err(ErrorCode::FencedLeaderEpoch),
            epoch => check_epoch(state, epoch)?,
        }
        find(state, version, bound, asked.timestamp)
    })?
}

fn find(state: &State, version: i16, bound: Bound, timestamp: i64) -> Result<FoundTimestamp, ErrorCode> {
    let log = &state.log;
    let end = match bound {
        Bound::LogEnd => log.log_end_offset(),
        Bound::HighWatermark => log.high_watermark(),
        Bound::LastStable => log.last_stable_offset(),
    };
    let at = |offset: Offset| {
        let epoch = if offset == log.log_end_offset() || offset >= end {
            log.latest_leader_epoch().or(Some(state.leader_epoch))
        } else {
            log.leader_epoch_for(offset)
        };
        FoundTimestamp { timestamp: Millis::NONE, offset, leader_epoch: epoch.unwrap_or(LeaderEpoch::NONE) }
    };
    let below_end = |found: Option<FoundTimestamp>| match found {
        Some(found) if found.offset < end => found,
        Some(_) | None => NOTHING,
    };
    match timestamp {
        LATEST => Ok(at(end)),
        EARLIEST => Ok(at(log.log_start_offset())),
        EARLIEST_LOCAL if version >= EARLIEST_LOCAL_FROM => Ok(at(log.log_start_offset())),
        MAX_TIMESTAMP if version >= MAX_TIMESTAMP_FROM => {
            log.max_timestamp().map(below_end).map_err(|error| error.code())
        }
        // Without tiered storage there is nothing to be found.
        LATEST_TIERED if version >= LATEST_TIERED_FROM => Ok(NOTHING),
        EARLIEST_PENDING_UPLOAD if version >= EARLIEST_PENDING_UPLOAD_FROM => Ok(NOTHING),
        ..0 => Err(ErrorCode::UnsupportedVersion),
        time => log.offset_for_timestamp(Millis(time)).map(below_end).map_err(|error| error.code()),
    }
}
