//! What happens to members of consumer groups that are silent or slow.
//!
//! Source: KIP-848, Kafka GroupMetadataManager.scheduleConsumerGroupSessionTimeout, -RebalanceTimeout, -JoinTimeout,
//! -SyncTimeout.

use alloc::collections::BTreeSet;

use fencepost_coordinator::Token;
use fencepost_types::Now;

use crate::classic::draft::{GroupDecision, forget};
use crate::consumer::group::ConsumerGroup;
use crate::timers::{Timer, TimerKind};
use crate::{GroupShard, MemberState, Reply};

impl GroupShard {
    /// A member's time is up: it is put out.
    pub(crate) fn consumer_timer_is_due(
        &self,
        now: Now,
        token: Token,
        group: &ConsumerGroup,
        timer: &Timer,
    ) -> GroupDecision {
        let member_id = match &timer.kind {
            TimerKind::Session(member) | TimerKind::MemberJoin(member) | TimerKind::MemberSync(member) => {
                member
            }
            TimerKind::Revocation(member) => {
                match group.members.get(member).map(|member| member.current.state) {
                    Some(MemberState::UnrevokedPartitions) => member,
                    Some(MemberState::Stable | MemberState::UnreleasedPartitions) | None => {
                        return forget(timer, token);
                    }
                }
            }
            TimerKind::Join | TimerKind::Sync => return forget(timer, token),
        };
        if !group.members.contains_key(member_id) {
            return forget(timer, token);
        }
        let leaving = BTreeSet::from([member_id.clone()]);
        let mut decision = self.put_out(now, &timer.group, group, &leaving, None);
        decision.replies.push((token, Reply::Done));
        decision
    }
}
