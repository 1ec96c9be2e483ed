//! The consumer group protocol: ConsumerGroupHeartbeat, ConsumerGroupDescribe (KIP-848).

use std::sync::Arc;

use fencepost_group as group;
use fencepost_group::{GroupShard, Reply, Request};
use fencepost_metadata::features::GROUP_VERSION;
use fencepost_metadata::keys::GroupProtocol;
use fencepost_protocol::messages::consumer_group_describe_response as described;
use fencepost_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use fencepost_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
};
use fencepost_types::{ErrorCode, PartitionIndex, Uuid};

use super::operations::{OPERATIONS_OF_GROUP, OPERATIONS_UNKNOWN, if_asked};
use super::repeats::without_repeats;
use crate::Broker;
use crate::cx::Cx;
use crate::gather::Gather;
use crate::group_coordinator::client_of;
use crate::respond::Exchange;
use crate::runtime::{Answer, AskError};

/// The least level of `group.version` at which there are consumer groups.
const CONSUMER_GROUPS_FROM: i16 = 1;

/// Whether there are consumer groups here: the operator may take them out by the setting, and the cluster by the feature's
/// level. Groups that are there already stay, and nobody can speak of them by this protocol.
///
/// Source: Kafka KafkaApis.isConsumerGroupProtocolEnabled.
fn is_enabled(broker: &Broker) -> bool {
    broker.image().feature_level(GROUP_VERSION) >= CONSUMER_GROUPS_FROM
        && broker.config().group_coordinator_rebalance_protocols.contains(&GroupProtocol::Consumer)
}

fn indexes(partitions: Vec<i32>) -> Vec<PartitionIndex> {
    partitions.into_iter().map(PartitionIndex).collect()
}

fn numbers(partitions: Vec<PartitionIndex>) -> Vec<i32> {
    partitions.into_iter().map(|index| index.0).collect()
}

/// A member joins, is alive, or leaves.
pub(crate) fn heartbeat(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: ConsumerGroupHeartbeatRequest,
) {
    if !is_enabled(broker) {
        return exchange.reply(ConsumerGroupHeartbeatResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        });
    }
    let group_id = request.group_id.clone();
    let names = |names: Vec<String>| names.into_iter().map(Into::into).collect();
    let owned = request
        .topic_partitions
        .map(|owned| owned.into_iter().map(|topic| (topic.topic_id, indexes(topic.partitions))).collect());
    let ask = Request::ConsumerGroupHeartbeat(group::ConsumerGroupHeartbeat {
        api_version: exchange.version(),
        client: client_of(&exchange),
        fresh_member_id: Uuid::from_random(broker.edge.random()),
        group: request.group_id.into(),
        member_id: request.member_id.into(),
        member_epoch: request.member_epoch,
        instance_id: request.instance_id.map(Into::into),
        rack_id: request.rack_id.map(Into::into),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        subscribed_topic_names: request.subscribed_topic_names.map(names),
        subscribed_topic_regex: request.subscribed_topic_regex.map(Into::into),
        server_assignor: request.server_assignor.map(Into::into),
        owned_partitions: owned,
        topics: broker.topic_facts(),
    });
    let respond = Box::new(move |_: &Arc<Broker>, _: &mut Cx, answer: Answer<GroupShard>| match answer {
        Ok(Reply::ConsumerHeartbeat(reply)) => exchange.reply(heartbeat_response(reply)),
        Ok(other) => unreachable!("ConsumerGroupHeartbeat was answered {other:?}"),
        Err(error) => {
            let error_message = match &error {
                AskError::Refused(refusal) => refusal.message(),
                AskError::Failed(_) => None,
            };
            exchange.reply(ConsumerGroupHeartbeatResponse {
                error_code: error.code().code(),
                error_message,
                ..Default::default()
            });
        }
    });
    broker.groups.ask(broker, cx, &group_id, ask, respond);
}

fn heartbeat_response(reply: group::ConsumerHeartbeatReply) -> ConsumerGroupHeartbeatResponse {
    let assignment = reply.assignment.map(|topics| Assignment {
        topic_partitions: topics
            .into_iter()
            .map(|(topic_id, partitions)| TopicPartitions { topic_id, partitions: numbers(partitions) })
            .collect(),
    });
    ConsumerGroupHeartbeatResponse {
        member_id: Some(reply.member_id.to_string()),
        member_epoch: reply.member_epoch,
        heartbeat_interval_ms: reply.heartbeat_interval_ms,
        assignment,
        ..Default::default()
    }
}

/// One row for each group asked for, in that order.
pub(crate) fn describe(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    mut request: ConsumerGroupDescribeRequest,
) {
    without_repeats(&mut request.group_ids);
    if !is_enabled(broker) {
        let refused = |id| failed_row(id, ErrorCode::UnsupportedVersion);
        let groups = request.group_ids.into_iter().map(refused).collect();
        return exchange.reply(ConsumerGroupDescribeResponse { groups, ..Default::default() });
    }
    let operations = if_asked(request.include_authorized_operations, OPERATIONS_OF_GROUP);
    let version = exchange.version();
    let count = request.group_ids.len();
    let gather = Gather::new(broker, cx, count, move |_, _, groups: Vec<described::Groups>| {
        exchange.reply(ConsumerGroupDescribeResponse { groups, ..Default::default() });
    });
    for (at, id) in request.group_ids.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        let ask = Request::ConsumerGroupDescribe(group::ConsumerGroupDescribe {
            groups: vec![id.as_str().into()],
            topics: broker.topic_facts(),
        });
        let group_id = id.clone();
        let respond = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx, answer: Answer<GroupShard>| {
            let row = match answer {
                Ok(Reply::ConsumerDescribe(mut rows)) => {
                    rows.pop().map(|row| group_row(row, operations, version)).unwrap_or_default()
                }
                Ok(other) => unreachable!("ConsumerGroupDescribe was answered {other:?}"),
                Err(error) => failed_row(id, error.code()),
            };
            gather.put(broker, cx, at, row);
        });
        broker.groups.ask(broker, cx, &group_id, ask, respond);
    }
}

fn failed_row(group_id: String, error: ErrorCode) -> described::Groups {
    described::Groups {
        error_code: error.code(),
        group_id,
        authorized_operations: OPERATIONS_UNKNOWN,
        ..Default::default()
    }
}

fn group_row(row: group::DescribedConsumerGroup, operations: i32, version: i16) -> described::Groups {
    let failed = !row.error.is_none();
    described::Groups {
        error_code: row.error.code(),
        error_message: row.error_message,
        group_id: row.group.to_string(),
        group_state: row.state.to_owned(),
        group_epoch: row.group_epoch,
        assignment_epoch: row.assignment_epoch,
        assignor_name: row.assignor.to_string(),
        members: row.members.into_iter().map(|member| member_row(member, version)).collect(),
        authorized_operations: if failed { OPERATIONS_UNKNOWN } else { operations },
    }
}

fn member_row(member: group::DescribedConsumerMember, version: i16) -> described::Members {
    let topics = |topics: Vec<group::DescribedPartitions>| -> Vec<described::TopicPartitions> {
        topics
            .into_iter()
            .map(|topic| described::TopicPartitions {
                topic_id: topic.topic_id,
                topic_name: topic.topic.to_string(),
                partitions: numbers(topic.partitions),
            })
            .collect()
    };
    let names = member.subscribed_topic_names.into_iter();
    described::Members {
        member_id: member.member_id.to_string(),
        instance_id: member.instance_id.map(|id| id.to_string()),
        rack_id: member.rack_id.map(|rack| rack.to_string()),
        member_epoch: member.member_epoch,
        client_id: member.client_id.to_string(),
        client_host: member.client_host.to_string(),
        subscribed_topic_names: names.map(|name| name.to_string()).collect(),
        subscribed_topic_regex: member.subscribed_topic_regex.map(|regex| regex.to_string()),
        assignment: described::Assignment { topic_partitions: topics(member.assignment) },
        target_assignment: described::TargetAssignment { topic_partitions: topics(member.target_assignment) },
        // Below version 1 the field is not there.
        member_type: if version < 1 { -1 } else { i8::from(!member.is_classic) },
    }
}
