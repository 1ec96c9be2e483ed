//! The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

use std::sync::Arc;

use fencepost_group as group;
use fencepost_group::{GroupShard, Reply, Request};
use fencepost_protocol::messages::join_group_response::Members;
use fencepost_protocol::messages::leave_group_response::Members as LeftMembers;
use fencepost_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use fencepost_types::{ErrorCode, KeptBytes, Uuid};

use crate::Broker;
use crate::cx::Cx;
use crate::group_coordinator::client_of;
use crate::respond::Exchange;
use crate::runtime::Answer;

/// From this version on protocol type and name may be null in the answer.
const NULLABLE_PROTOCOL_FROM: i16 = 7;
/// From this version on several members leave at once.
const LEAVE_BATCH_FROM: i16 = 3;

fn text(value: Option<Arc<str>>) -> Option<String> {
    value.map(|text| text.to_string())
}

/// JoinGroup. Answered when the generation is complete.
pub(crate) fn join_group(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: JoinGroupRequest) {
    let version = exchange.version();
    let member_id = request.member_id.clone();
    let group_id = request.group_id.clone();
    let rebalance_timeout_ms =
        if version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
    let protocols = request.protocols.into_iter();
    let ask = Request::JoinGroup(group::JoinGroup {
        api_version: version,
        client: client_of(&exchange),
        fresh_member_suffix: Uuid::from_random(broker.edge.random()),
        group: request.group_id.into(),
        member_id: request.member_id.into(),
        instance_id: request.group_instance_id.map(Into::into),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type.into(),
        protocols: protocols
            .map(|protocol| (protocol.name.into(), KeptBytes::copy_of(&protocol.metadata)))
            .collect(),
        topics: broker.topic_facts(),
    });
    let respond = Box::new(move |_: &Arc<Broker>, _: &mut Cx, answer: Answer<GroupShard>| match answer {
        Ok(Reply::Join(reply)) => exchange.reply(join_response(reply, version)),
        Ok(other) => unreachable!("JoinGroup was answered {other:?}"),
        Err(error) => exchange.reply(JoinGroupResponse {
            error_code: error.code().code(),
            generation_id: -1,
            protocol_name: (version < NULLABLE_PROTOCOL_FROM).then(String::new),
            member_id,
            ..Default::default()
        }),
    });
    broker.groups.ask(broker, cx, &group_id, ask, respond);
}

fn join_response(reply: group::JoinReply, version: i16) -> JoinGroupResponse {
    let protocol_name = text(reply.protocol_name);
    let members = reply.members.into_iter();
    JoinGroupResponse {
        error_code: reply.error.code(),
        generation_id: reply.generation,
        protocol_type: text(reply.protocol_type),
        protocol_name: if version < NULLABLE_PROTOCOL_FROM {
            Some(protocol_name.unwrap_or_default())
        } else {
            protocol_name
        },
        leader: reply.leader.to_string(),
        skip_assignment: reply.skip_assignment,
        member_id: reply.member_id.to_string(),
        members: members
            .map(|member| Members {
                member_id: member.member_id.to_string(),
                group_instance_id: text(member.instance_id),
                metadata: member.metadata.share(),
            })
            .collect(),
        ..Default::default()
    }
}

/// SyncGroup. Answered when the leader has brought the assignments.
pub(crate) fn sync_group(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: SyncGroupRequest) {
    let group_id = request.group_id.clone();
    let assignments = request.assignments.into_iter();
    let ask = Request::SyncGroup(group::SyncGroup {
        api_version: exchange.version(),
        group: request.group_id.into(),
        generation: request.generation_id,
        member_id: request.member_id.into(),
        instance_id: request.group_instance_id.map(Into::into),
        protocol_type: request.protocol_type.map(Into::into),
        protocol_name: request.protocol_name.map(Into::into),
        assignments: assignments
            .map(|given| (given.member_id.into(), KeptBytes::copy_of(&given.assignment)))
            .collect(),
    });
    let respond = Box::new(move |_: &Arc<Broker>, _: &mut Cx, answer: Answer<GroupShard>| match answer {
        Ok(Reply::Sync(reply)) => exchange.reply(SyncGroupResponse {
            error_code: reply.error.code(),
            protocol_type: text(reply.protocol_type),
            protocol_name: text(reply.protocol_name),
            assignment: reply.assignment.share(),
            ..Default::default()
        }),
        Ok(other) => unreachable!("SyncGroup was answered {other:?}"),
        Err(error) => {
            exchange.reply(SyncGroupResponse { error_code: error.code().code(), ..Default::default() });
        }
    });
    broker.groups.ask(broker, cx, &group_id, ask, respond);
}

/// Heartbeat.
pub(crate) fn heartbeat(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: HeartbeatRequest) {
    let group_id = request.group_id.clone();
    let ask = Request::Heartbeat(group::Heartbeat {
        group: request.group_id.into(),
        generation: request.generation_id,
        member_id: request.member_id.into(),
        instance_id: request.group_instance_id.map(Into::into),
    });
    let respond = Box::new(move |_: &Arc<Broker>, _: &mut Cx, answer: Answer<GroupShard>| {
        let code = match answer {
            Ok(Reply::Heartbeat(code)) => code,
            Ok(other) => unreachable!("Heartbeat was answered {other:?}"),
            // A member of a group that is being loaded is not to be put out (Kafka answers the same).
            Err(error) if error.code() == ErrorCode::CoordinatorLoadInProgress => ErrorCode::None,
            Err(error) => error.code(),
        };
        exchange.reply(HeartbeatResponse { error_code: code.code(), ..Default::default() });
    });
    broker.groups.ask(broker, cx, &group_id, ask, respond);
}

/// LeaveGroup: one member up to version 2, several from version 3 on.
pub(crate) fn leave_group(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: LeaveGroupRequest) {
    let version = exchange.version();
    let group_id = request.group_id.clone();
    let members = if version < LEAVE_BATCH_FROM {
        vec![group::LeavingMember { member_id: request.member_id.into(), instance_id: None }]
    } else {
        let leaving = request.members.into_iter();
        leaving
            .map(|member| group::LeavingMember {
                member_id: member.member_id.into(),
                instance_id: member.group_instance_id.map(Into::into),
            })
            .collect()
    };
    let ask = Request::LeaveGroup(group::LeaveGroup {
        api_version: version,
        group: request.group_id.into(),
        members,
    });
    let respond = Box::new(move |_: &Arc<Broker>, _: &mut Cx, answer: Answer<GroupShard>| match answer {
        Ok(Reply::Leave(reply)) => {
            let members = reply.members.into_iter();
            exchange.reply(LeaveGroupResponse {
                error_code: reply.error.code(),
                members: members
                    .map(|member| LeftMembers {
                        member_id: member.member_id.to_string(),
                        group_instance_id: text(member.instance_id),
                        error_code: member.error.code(),
                    })
                    .collect(),
                ..Default::default()
            });
        }
        Ok(other) => unreachable!("LeaveGroup was answered {other:?}"),
        Err(error) => {
            exchange.reply(LeaveGroupResponse { error_code: error.code().code(), ..Default::default() });
        }
    });
    broker.groups.ask(broker, cx, &group_id, ask, respond);
}
