//! Heartbeat of a classic group, and the end of a session without one.
//!
//! Source: Kafka GroupMetadataManager.classicGroupHeartbeatToClassicGroup, expireClassicGroupMemberHeartbeat.

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, Now};

use crate::classic::draft::{Decided, Draft, GroupDecision};
use crate::classic::group::{ClassicGroup, ClassicState};
use crate::timers::TimerKind;
use crate::{GroupRefusal, Heartbeat, MemberId, Reply, Soft};

/// Starts the member's session again and says whether there is a rebalance. The group is not copied.
pub fn heartbeat(now: Now, token: Token, group: &ClassicGroup, request: &Heartbeat) -> Decided {
    group.validate_member(&request.member_id, request.instance_id.as_ref())?;
    group.validate_generation(request.generation)?;
    let error = match group.state {
        ClassicState::Empty => {
            return Err(GroupRefusal::UnknownMemberId { member_id: request.member_id.clone() });
        }
        ClassicState::PreparingRebalance => ErrorCode::RebalanceInProgress,
        // Members may send heartbeats between join and sync.
        ClassicState::CompletingRebalance | ClassicState::Stable => ErrorCode::None,
    };
    let mut decision = Decision::answer(token, Reply::Heartbeat(error));
    decision.soft.extend(renewed_session(now, group, &request.member_id));
    Ok(decision)
}

/// The change that starts a member's session again, if there is such a member.
pub fn renewed_session(now: Now, group: &ClassicGroup, member_id: &MemberId) -> Option<Soft> {
    let member = group.members.get(member_id)?;
    let due = now.mono.plus_ms(i64::from(member.session_timeout_ms));
    Some(Soft::Arm(TimerKind::Session(member_id.clone()).of(&group.id), due))
}

impl Draft<'_> {
    /// A member's session is over. One that waits for an answer cannot send heartbeats and stays, unless it has
    /// waited in its first JoinGroup for too long; an id that was handed out and never used is forgotten.
    pub fn session_is_over(mut self, token: Token, member_id: &MemberId) -> GroupDecision {
        self.disarm(TimerKind::Session(member_id.clone()));
        if self.group.pending_members.remove(member_id).is_some() {
            self.try_complete_join();
        } else if self.is_silent(member_id) {
            self.remove(member_id, ErrorCode::UnknownMemberId);
            self.rebalance();
        }
        self.answer(token, Reply::Done)
    }

    /// Whether a member should have sent a heartbeat.
    fn is_silent(&self, member_id: &MemberId) -> bool {
        let Some(member) = self.group.members.get(member_id) else { return false };
        member.is_new || (member.joining.is_none() && member.syncing.is_none())
    }
}
