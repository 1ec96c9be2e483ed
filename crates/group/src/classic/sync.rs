//! SyncGroup of a classic group.
//!
//! Source: Kafka GroupMetadataManager.classicGroupSyncToClassicGroup.

use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::Token;
use fencepost_types::ErrorCode;

use crate::classic::draft::{Decided, Draft};
use crate::classic::group::{ClassicGroup, ClassicState};
use crate::{GroupRefusal, MemberId, Reply, SyncGroup, SyncReply};

/// From this version on the request must name protocol type and protocol.
const PROTOCOL_REQUIRED_FROM: i16 = 5;

/// Whether the request names what its version must name.
///
/// # Errors
/// INCONSISTENT_GROUP_PROTOCOL.
pub fn validate_request(request: &SyncGroup) -> Result<(), GroupRefusal> {
    let is_named = request.protocol_type.is_some() && request.protocol_name.is_some();
    if request.api_version >= PROTOCOL_REQUIRED_FROM && !is_named {
        return Err(GroupRefusal::InconsistentGroupProtocol);
    }
    Ok(())
}

impl Draft<'_> {
    /// Takes the leader's assignments, hands out a member's, or lets it wait for the leader.
    pub fn sync(mut self, token: Token, request: &SyncGroup) -> Decided {
        validate(&self.group, request)?;
        let member_id = &request.member_id;
        match self.group.state {
            ClassicState::Empty => Err(GroupRefusal::UnknownMemberId { member_id: member_id.clone() }),
            ClassicState::PreparingRebalance => Err(GroupRefusal::RebalanceInProgress),
            ClassicState::CompletingRebalance => {
                self.wait_for_sync(token, member_id);
                self.has_synced(member_id);
                if self.group.is_leader(member_id) {
                    self.assign(request);
                }
                Ok(self.decide())
            }
            ClassicState::Stable => {
                self.has_synced(member_id);
                let reply = self.group.sync_reply(self.group.members[member_id].assignment.clone());
                Ok(self.answer(token, Reply::Sync(reply)))
            }
        }
    }

    /// Notes that a member waits. An earlier SyncGroup of the same member waits in vain.
    fn wait_for_sync(&mut self, token: Token, member_id: &MemberId) {
        let member = self.group.member_mut(member_id).expect("the request has been validated");
        let earlier = member.syncing.replace(token);
        let reply = Reply::Sync(SyncReply::error(ErrorCode::RebalanceInProgress));
        self.replies.extend(earlier.map(|earlier| (earlier, reply)));
    }

    /// The leader has spoken: logs the generation, and hands everyone who waits its assignment; empty to whom the
    /// leader left out.
    fn assign(&mut self, request: &SyncGroup) {
        let member_ids: Vec<MemberId> = self.group.members.keys().cloned().collect();
        for member_id in &member_ids {
            if let Some(member) = self.group.member_mut(member_id) {
                member.assignment = request.assignments.get(member_id).cloned().unwrap_or_default();
            }
        }
        self.log_group();
        self.group.transition(ClassicState::Stable, self.now.wall);
        for member_id in &member_ids {
            if self.answer_sync(member_id, ErrorCode::None) {
                self.renew_session(member_id);
            }
        }
    }
}

/// Whether the request fits the group's generation.
fn validate(group: &ClassicGroup, request: &SyncGroup) -> Result<(), GroupRefusal> {
    group.validate_member(&request.member_id, request.instance_id.as_ref())?;
    group.validate_generation(request.generation)?;
    let differs = |asked: &Option<Arc<str>>, found: &Option<Arc<str>>| {
        asked.is_some() && found.is_some() && asked != found
    };
    if differs(&request.protocol_type, &group.protocol_type)
        || differs(&request.protocol_name, &group.protocol_name)
    {
        return Err(GroupRefusal::InconsistentGroupProtocol);
    }
    Ok(())
}
