//! LeaveGroup of a classic group.
//!
//! Source: KIP-345 (batches and instance ids), Kafka GroupMetadataManager.classicGroupLeaveToClassicGroup.

use alloc::vec::Vec;

use fencepost_coordinator::Token;
use fencepost_types::ErrorCode;

use crate::classic::draft::{Draft, GroupDecision};
use crate::classic::group::ClassicState;
use crate::shard::code_of;
use crate::{GroupRefusal, LeaveGroup, LeaveReply, LeavingMember, LeftMember, Reply};

/// From this version on there may be several members, each with an error of its own.
const BATCHES_FROM: i16 = 3;

impl Draft<'_> {
    /// Lets members go; the others rebalance if any went.
    pub fn leave(mut self, token: Token, request: &LeaveGroup) -> GroupDecision {
        let mut has_left = false;
        let mut members = Vec::with_capacity(request.members.len());
        for leaving in &request.members {
            let left = self.leave_one(leaving);
            has_left |= left.is_ok();
            members.push(left_member(leaving, left));
        }
        if has_left {
            match self.group.state {
                ClassicState::CompletingRebalance | ClassicState::Stable => self.prepare_rebalance(),
                ClassicState::PreparingRebalance => self.try_complete_join(),
                ClassicState::Empty => {}
            }
        }
        self.answer(token, Reply::Leave(leave_reply(request.api_version, members)))
    }

    /// Lets one member go: by its id, or, as an administrator does, by its instance id alone.
    fn leave_one(&mut self, leaving: &LeavingMember) -> Result<(), GroupRefusal> {
        let member_id = &leaving.member_id;
        if member_id.is_empty() {
            let holder =
                leaving.instance_id.as_ref().and_then(|id| self.group.static_members.get(id)).cloned();
            let unknown = || GroupRefusal::UnknownMemberId { member_id: member_id.clone() };
            self.remove(&holder.ok_or_else(unknown)?, ErrorCode::UnknownMemberId);
        } else {
            if !self.group.pending_members.contains_key(member_id) {
                self.group.validate_member(member_id, leaving.instance_id.as_ref())?;
            }
            self.remove(member_id, ErrorCode::UnknownMemberId);
        }
        Ok(())
    }
}

/// The answer for one member.
pub fn left_member(leaving: &LeavingMember, left: Result<(), GroupRefusal>) -> LeftMember {
    LeftMember {
        member_id: leaving.member_id.clone(),
        instance_id: leaving.instance_id.clone(),
        error: code_of(&left),
    }
}

/// The answer for all of them. Before batches, the one member's error is the answer's.
pub fn leave_reply(api_version: i16, members: Vec<LeftMember>) -> LeaveReply {
    if api_version >= BATCHES_FROM {
        return LeaveReply { error: ErrorCode::None, members };
    }
    let error = members.first().map_or(ErrorCode::None, |member| member.error);
    LeaveReply { error, members: Vec::new() }
}

/// The answer when there is no such group: nobody is known.
pub fn leave_unknown_group(request: &LeaveGroup) -> LeaveReply {
    let unknown = |leaving: &LeavingMember| {
        left_member(leaving, Err(GroupRefusal::UnknownMemberId { member_id: leaving.member_id.clone() }))
    };
    leave_reply(request.api_version, request.members.iter().map(unknown).collect())
}
