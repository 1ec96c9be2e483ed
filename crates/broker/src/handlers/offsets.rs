//! OffsetCommit and OffsetDelete.

use std::sync::Arc;

use fencepost_group as group;
use fencepost_group::{GroupShard, Reply, Request};
use fencepost_protocol::messages::offset_commit_response::{Partitions, Topics};
use fencepost_protocol::messages::offset_delete_response as deleted;
use fencepost_protocol::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    offset_commit_request,
};
use fencepost_types::{ErrorCode, PartitionIndex, Uuid};

use super::offset_places::{Named, Place, offset, sort_out};
use crate::Broker;
use crate::cx::Cx;
use crate::respond::Exchange;
use crate::runtime::Answer;

/// From this version on topics are named by id.
const TOPIC_IDS_FROM: i16 = 10;

/// Offsets of topics and partitions that exist go to the group; the others are answered at once, and so is a request
/// with nothing else.
pub(crate) fn offset_commit(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: OffsetCommitRequest,
) {
    let version = exchange.version();
    let named = request.topics.into_iter().map(|topic| Named {
        topic_id: topic.topic_id,
        name: topic.name,
        offsets: topic.partitions.into_iter().map(asked_offset).collect(),
    });
    let (known, places) = sort_out(&broker.image(), version >= TOPIC_IDS_FROM, named.collect());
    if known.is_empty() {
        return exchange.reply(committed(places.filled(Ok(Vec::new()))));
    }
    let group_id = request.group_id.clone();
    let ask = Request::OffsetCommit(group::OffsetCommit {
        api_version: version,
        group: request.group_id.into(),
        committer: group::Committer {
            generation: request.generation_id_or_member_epoch,
            member_id: request.member_id.into(),
            instance_id: request.group_instance_id.map(Into::into),
        },
        retention_ms: request.retention_time_ms,
        topics: known,
        existing: broker.topic_facts(),
    });
    let respond = Box::new(move |_: &Arc<Broker>, _: &mut Cx, answer: Answer<GroupShard>| {
        let result = match answer {
            Ok(Reply::Commit(topics)) => Ok(topics),
            Ok(other) => unreachable!("OffsetCommit was answered {other:?}"),
            Err(error) => Err(error.code()),
        };
        exchange.reply(committed(places.filled(result)));
    });
    broker.groups.ask(broker, cx, &group_id, ask, respond);
}

fn asked_offset(asked: offset_commit_request::Partitions) -> group::PartitionOffset {
    let (index, epoch) = (asked.partition_index, asked.committed_leader_epoch);
    offset(index, asked.committed_offset, epoch, asked.committed_metadata)
}

fn committed(places: impl Iterator<Item = Place>) -> OffsetCommitResponse {
    let partition = |(index, code): (PartitionIndex, ErrorCode)| Partitions {
        partition_index: index.0,
        error_code: code.code(),
    };
    let topics = places.map(|place| Topics {
        topic_id: place.topic_id,
        name: place.name,
        partitions: place.codes.into_iter().map(partition).collect(),
    });
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

/// OffsetDelete: topics and partitions that exist go to the group.
pub(crate) fn offset_delete(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: OffsetDeleteRequest,
) {
    let image = broker.image();
    let (mut known, mut topics) = (Vec::new(), Vec::new());
    for topic in &request.topics {
        let found = image.topics().by_name(&topic.name);
        let mut existing = Vec::new();
        let mut partitions = Vec::new();
        for partition in &topic.partitions {
            let index = PartitionIndex(partition.partition_index);
            let exists = found.is_some_and(|found| found.partitions.contains_key(&index));
            let code = if exists { ErrorCode::None } else { ErrorCode::UnknownTopicOrPartition };
            if exists {
                existing.push(index);
            }
            partitions.push(deleted::Partitions { partition_index: index.0, error_code: code.code() });
        }
        topics.push(deleted::Topics { name: topic.name.clone(), partitions });
        if let Some(found) = found.filter(|_| !existing.is_empty()) {
            known.push(group::TopicPartitions {
                topic: found.name.clone(),
                topic_id: Uuid::ZERO,
                partitions: existing,
            });
        }
    }
    let group_id = request.group_id.clone();
    let ask = Request::OffsetDelete(group::OffsetDelete { group: request.group_id.into(), topics: known });
    let respond = Box::new(move |_: &Arc<Broker>, _: &mut Cx, answer: Answer<GroupShard>| match answer {
        Ok(Reply::OffsetDelete(answered)) => {
            let asked = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
            let asked = asked.filter(|partition| partition.error_code == 0);
            let codes = answered.into_iter().flat_map(|topic| topic.partitions);
            asked.zip(codes).for_each(|(partition, (_, code))| partition.error_code = code.code());
            exchange.reply(OffsetDeleteResponse { topics, ..Default::default() });
        }
        Ok(other) => unreachable!("OffsetDelete was answered {other:?}"),
        Err(error) => {
            exchange.reply(OffsetDeleteResponse { error_code: error.code().code(), ..Default::default() });
        }
    });
    broker.groups.ask(broker, cx, &group_id, ask, respond);
}
