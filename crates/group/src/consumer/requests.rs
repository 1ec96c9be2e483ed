//! What consumer groups answer while their protocol is off (`group.version` 0).

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, Now};

use crate::classic::draft::{Decided, GroupDecision, forget};
use crate::classic::leave::leave_unknown_group;
use crate::consumer::group::ConsumerGroup;
use crate::timers::Timer;
use crate::{
    ConsumerGroupDescribe, ConsumerGroupHeartbeat, DescribedConsumerGroup, GroupId, GroupRefusal, GroupShard,
    Heartbeat, JoinGroup, LeaveGroup, Reply, SyncGroup,
};

impl GroupShard {
    pub(crate) fn join_consumer_group(&self, _: Now, _: Token, _: &ConsumerGroup, _: &JoinGroup) -> Decided {
        Err(GroupRefusal::InconsistentGroupProtocol)
    }

    pub(crate) fn sync_consumer_group(
        &self,
        _: Now,
        _: Token,
        _: &ConsumerGroup,
        request: &SyncGroup,
    ) -> Decided {
        Err(GroupRefusal::UnknownMemberId { member_id: request.member_id.clone() })
    }

    pub(crate) fn classic_heartbeat_to_consumer_group(
        &self,
        _: Now,
        _: Token,
        _: &ConsumerGroup,
        request: &Heartbeat,
    ) -> Decided {
        Err(GroupRefusal::UnknownMemberId { member_id: request.member_id.clone() })
    }

    pub(crate) fn leave_consumer_group(
        &self,
        _: Now,
        token: Token,
        _: &ConsumerGroup,
        request: &LeaveGroup,
    ) -> GroupDecision {
        Decision::answer(token, Reply::Leave(leave_unknown_group(request)))
    }

    pub(crate) fn consumer_heartbeat(&self, _: Now, _: Token, _: &ConsumerGroupHeartbeat) -> Decided {
        Err(GroupRefusal::UnsupportedVersion)
    }

    pub(crate) fn consumer_describe(&self, token: Token, request: &ConsumerGroupDescribe) -> Decided {
        let describe =
            |id: &GroupId| DescribedConsumerGroup::error(id.clone(), ErrorCode::UnsupportedVersion, None);
        Ok(Decision::answer(token, Reply::ConsumerDescribe(request.groups.iter().map(describe).collect())))
    }

    pub(crate) fn consumer_timer_is_due(
        &self,
        _: Now,
        token: Token,
        _: &ConsumerGroup,
        timer: &Timer,
    ) -> GroupDecision {
        forget(timer, token)
    }
}
