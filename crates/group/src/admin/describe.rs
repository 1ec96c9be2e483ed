//! DescribeGroups: classic groups. A consumer group is as unknown to it as one that is not there.
//!
//! Source: KIP-1043, Kafka GroupMetadataManager.describeGroups.

use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, KeptBytes};

use crate::classic::draft::Decided;
use crate::classic::group::{ClassicGroup, ClassicState};
use crate::shard::Found;
use crate::{DescribeGroups, DescribedGroup, DescribedMember, GroupId, GroupRefusal, GroupShard, Reply};

/// From this version on an unknown group is an error and not just dead.
const UNKNOWN_IS_ERROR_FROM: i16 = 6;

impl GroupShard {
    /// Describes groups.
    pub(crate) fn describe_groups(&self, token: Token, request: &DescribeGroups) -> Decided {
        let describe = |id: &GroupId| match self.find(id) {
            Found::Classic(group) => described(&group),
            Found::Nothing | Found::Consumer(_) => dead(id, request.api_version),
        };
        Ok(Decision::answer(token, Reply::Describe(request.groups.iter().map(describe).collect())))
    }
}

/// A group that is not there.
fn dead(id: &GroupId, api_version: i16) -> DescribedGroup {
    let is_error = api_version >= UNKNOWN_IS_ERROR_FROM;
    DescribedGroup {
        group: id.clone(),
        error: if is_error { ErrorCode::GroupIdNotFound } else { ErrorCode::None },
        error_message: GroupRefusal::GroupIdNotFound { group: id.clone() }.message().filter(|_| is_error),
        state: "Dead",
        protocol_type: Arc::from(""),
        protocol: Arc::from(""),
        members: Vec::new(),
    }
}

/// Protocol, metadata and assignments are those of a stable group: before that they are on their way.
fn described(group: &ClassicGroup) -> DescribedGroup {
    let protocol = group.protocol_name.as_ref().filter(|_| group.state == ClassicState::Stable);
    let members = group.members.iter().map(|(member_id, member)| DescribedMember {
        member_id: member_id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        metadata: protocol.and_then(|protocol| member.metadata(protocol)).cloned().unwrap_or_default(),
        assignment: protocol.map_or_else(KeptBytes::default, |_| member.assignment.clone()),
    });
    DescribedGroup {
        group: group.id.clone(),
        error: ErrorCode::None,
        error_message: None,
        state: group.state.name(),
        protocol_type: group.protocol_type.clone().unwrap_or_else(|| Arc::from("")),
        protocol: protocol.cloned().unwrap_or_else(|| Arc::from("")),
        members: members.collect(),
    }
}
