//! What operators ask about groups: DescribeGroups, ListGroups, DeleteGroups.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_group as group;
use fencepost_group::{GroupShard, Reply, Request};
use fencepost_protocol::messages::delete_groups_response::Results;
use fencepost_protocol::messages::describe_groups_response::{Groups, Members};
use fencepost_protocol::messages::list_groups_response::Groups as ListedGroups;
use fencepost_protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse,
    ListGroupsRequest, ListGroupsResponse,
};
use fencepost_types::ErrorCode;

use super::operations::{OPERATIONS_OF_GROUP, OPERATIONS_UNKNOWN, if_asked};
use super::repeats::without_repeats;
use crate::Broker;
use crate::cx::Cx;
use crate::gather::Gather;
use crate::respond::Exchange;
use crate::runtime::Answer;

/// One row for each group asked for, in that order. Each is asked of its own shard.
pub(crate) fn describe_groups(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    mut request: DescribeGroupsRequest,
) {
    without_repeats(&mut request.groups);
    let version = exchange.version();
    let operations = if_asked(request.include_authorized_operations, OPERATIONS_OF_GROUP);
    let gather = Gather::new(broker, cx, request.groups.len(), move |_, _, groups: Vec<Groups>| {
        exchange.reply(DescribeGroupsResponse { groups, ..Default::default() });
    });
    for (at, id) in request.groups.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        let ask = Request::DescribeGroups(group::DescribeGroups {
            api_version: version,
            groups: vec![id.as_str().into()],
        });
        let group_id = id.clone();
        let respond = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx, answer: Answer<GroupShard>| {
            let row = match answer {
                Ok(Reply::Describe(mut rows)) => rows.pop().map(|row| described(row, operations)),
                Ok(other) => unreachable!("DescribeGroups was answered {other:?}"),
                Err(error) => Some(not_described(id, error.code())),
            };
            gather.put(broker, cx, at, row.unwrap_or_default());
        });
        broker.groups.ask(broker, cx, &group_id, ask, respond);
    }
}

fn not_described(group_id: String, code: ErrorCode) -> Groups {
    Groups {
        error_code: code.code(),
        group_id,
        authorized_operations: OPERATIONS_UNKNOWN,
        ..Default::default()
    }
}

fn described(row: group::DescribedGroup, operations: i32) -> Groups {
    let members = row.members.into_iter();
    Groups {
        error_code: row.error.code(),
        error_message: row.error_message,
        group_id: row.group.to_string(),
        group_state: row.state.to_owned(),
        protocol_type: row.protocol_type.to_string(),
        protocol_data: row.protocol.to_string(),
        members: members
            .map(|member| Members {
                member_id: member.member_id.to_string(),
                group_instance_id: member.instance_id.map(|id| id.to_string()),
                client_id: member.client_id.to_string(),
                client_host: member.client_host.to_string(),
                member_metadata: member.metadata.share(),
                member_assignment: member.assignment.share(),
            })
            .collect(),
        authorized_operations: operations,
    }
}

/// All groups that this broker coordinates and that pass the filters.
pub(crate) fn list_groups(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: ListGroupsRequest) {
    let names = |names: Vec<String>| names.into_iter().map(Into::into).collect();
    let filter =
        group::ListGroups { states: names(request.states_filter), types: names(request.types_filter) };
    let cells = broker.groups.all();
    type Rows = Result<Vec<group::ListedGroup>, ErrorCode>;
    let gather = Gather::new(broker, cx, cells.len(), move |_, _, answers: Vec<Rows>| {
        let response = match answers.into_iter().collect::<Result<Vec<_>, _>>() {
            Err(code) => ListGroupsResponse { error_code: code.code(), ..Default::default() },
            Ok(rows) => ListGroupsResponse {
                groups: rows.into_iter().flatten().map(listed).collect(),
                ..Default::default()
            },
        };
        exchange.reply(response);
    });
    for (at, cell) in cells.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        cell.ask(
            broker,
            cx,
            Request::ListGroups(filter.clone()),
            Box::new(move |broker, cx, answer| {
                let rows = match answer {
                    Ok(Reply::List(rows)) => Ok(rows),
                    Ok(other) => unreachable!("ListGroups was answered {other:?}"),
                    Err(error) => Err(error.code()),
                };
                gather.put(broker, cx, at, rows);
            }),
        );
    }
}

fn listed(row: group::ListedGroup) -> ListedGroups {
    ListedGroups {
        group_id: row.group.to_string(),
        protocol_type: row.protocol_type.to_string(),
        group_state: row.state.to_owned(),
        group_type: row.group_type.to_owned(),
    }
}

/// Deletes groups, each in its own shard; a group named twice is deleted and answered once.
pub(crate) fn delete_groups(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: DeleteGroupsRequest,
) {
    let mut seen = BTreeMap::new();
    let names: Vec<String> =
        request.groups_names.into_iter().filter(|name| seen.insert(name.clone(), ()).is_none()).collect();
    let gather = Gather::new(broker, cx, names.len(), move |_, _, results: Vec<Results>| {
        exchange.reply(DeleteGroupsResponse { results, ..Default::default() });
    });
    for (at, id) in names.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        let ask = Request::DeleteGroups(group::DeleteGroups { groups: vec![id.as_str().into()] });
        let group_id = id.clone();
        let respond = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx, answer: Answer<GroupShard>| {
            let code = match answer {
                Ok(Reply::Delete(rows)) => rows.first().map_or(ErrorCode::None, |(_, code)| *code),
                Ok(other) => unreachable!("DeleteGroups was answered {other:?}"),
                Err(error) => error.code(),
            };
            let row = Results { group_id: id, error_code: code.code(), ..Default::default() };
            gather.put(broker, cx, at, row);
        });
        broker.groups.ask(broker, cx, &group_id, ask, respond);
    }
}
