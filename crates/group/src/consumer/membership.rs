//! Who becomes a member of a consumer group, and who stops being one.
//!
//! Source: KIP-848, Kafka GroupMetadataManager.getOrMaybeSubscribeDynamicConsumerMember,
//! getOrMaybeSubscribeStaticConsumerMember, consumerGroupLeave, consumerGroupFenceMembers.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use fencepost_coordinator::Token;
use fencepost_types::{Millis, Now};

use crate::classic::draft::{Decided, GroupDecision};
use crate::consumer::draft::ConsumerDraft;
use crate::consumer::group::{ConsumerGroup, ConsumerMember};
use crate::consumer::heartbeat::{JOIN_EPOCH, LEAVE_STATIC_EPOCH, validate_epoch};
use crate::consumer::tombstones::member_tombstones;
use crate::shard::Found;
use crate::timers::TimerKind;
use crate::{
    Assignment, ConsumerGroupHeartbeat, ConsumerHeartbeatReply, CurrentAssignment, EpochAssignment, GroupId,
    GroupRecord, GroupRefusal, GroupShard, InstanceId, MemberId, MemberState, Reply, Topics,
};

impl ConsumerDraft<'_> {
    /// Lets the sender of a heartbeat in, or says why not.
    pub fn admit(
        &mut self,
        member_id: &MemberId,
        request: &ConsumerGroupHeartbeat,
    ) -> Result<(), GroupRefusal> {
        let is_joining = request.member_epoch == JOIN_EPOCH;
        if let Some(instance_id) = &request.instance_id {
            let holder = self.group.static_members.get(instance_id).cloned();
            match holder {
                Some(holder) if holder == *member_id => {}
                Some(holder) if is_joining => {
                    let other = &self.group.members[&holder];
                    if other.current.member_epoch != LEAVE_STATIC_EPOCH && !other.is_classic() {
                        return Err(GroupRefusal::UnreleasedInstanceId { holder });
                    }
                    self.replace_static(&holder, member_id);
                }
                Some(_) => return Err(GroupRefusal::FencedInstanceId { member_id: member_id.clone() }),
                None if is_joining => {}
                None => return Err(GroupRefusal::UnknownMemberId { member_id: member_id.clone() }),
            }
        }
        match self.group.members.get(member_id) {
            Some(member) => validate_epoch(member, request),
            None if is_joining => Ok(()),
            None => Err(GroupRefusal::UnknownMemberId { member_id: member_id.clone() }),
        }
    }

    /// A static member is back under another id: it takes over everything, and starts from the epoch of one that joins.
    pub fn replace_static(&mut self, old_id: &MemberId, new_id: &MemberId) {
        let old = ConsumerMember::clone(&self.group.members[old_id]);
        let target = self.group.targets.get(old_id).cloned();
        member_tombstones(&self.id, old_id).into_iter().for_each(|record| self.push(record));
        self.forget_timers(old_id);
        let (group, member) = (self.id.clone(), new_id.clone());
        self.push(GroupRecord::ConsumerGroupMember { group, member, value: Some(old.metadata) });
        if let Some(target) = target {
            let (group, member) = (self.id.clone(), new_id.clone());
            self.push(GroupRecord::TargetAssignmentMember {
                group,
                member,
                value: Some(Assignment::clone(&target)),
            });
        }
        let joined = CurrentAssignment {
            member_epoch: JOIN_EPOCH,
            previous_member_epoch: JOIN_EPOCH,
            state: MemberState::Stable,
            assigned: old.current.assigned,
            pending_revocation: EpochAssignment::new(),
        };
        self.log_current(new_id, joined);
    }

    /// Takes members out. Those who stay get a new epoch; a group that is empty then needs no assignment.
    pub fn take_out(&mut self, members: &BTreeSet<MemberId>, topics: Option<&Topics>) {
        for member_id in members {
            member_tombstones(&self.id, member_id).into_iter().for_each(|record| self.push(record));
            self.forget_timers(member_id);
        }
        self.forget_unused_regexes();
        let metadata_hash = match topics {
            _ if self.group.members.is_empty() => 0,
            Some(topics) => self.group.metadata_hash(topics),
            None => self.group.metadata_hash,
        };
        self.bump_epoch(metadata_hash);
        if self.group.members.is_empty() {
            self.log_target_epoch(self.group.epoch, Millis(0));
        }
    }

    fn forget_timers(&mut self, member_id: &MemberId) {
        for kind in [
            TimerKind::Session(member_id.clone()),
            TimerKind::Revocation(member_id.clone()),
            TimerKind::MemberJoin(member_id.clone()),
            TimerKind::MemberSync(member_id.clone()),
        ] {
            self.disarm(kind);
        }
    }
}

impl GroupShard {
    /// A member leaves, for good or, as a static member, for a while.
    pub(crate) fn consumer_leave(&self, now: Now, token: Token, request: &ConsumerGroupHeartbeat) -> Decided {
        let Found::Consumer(group) = self.find(&request.group) else {
            return Err(GroupRefusal::GroupIdNotFound { group: request.group.clone() });
        };
        let member_id = &request.member_id;
        match &request.instance_id {
            None if group.members.contains_key(member_id) => {}
            None => return Err(GroupRefusal::UnknownMemberId { member_id: member_id.clone() }),
            Some(instance_id) => validate_holder(group, instance_id, member_id)?,
        }
        let reply = Reply::ConsumerHeartbeat(ConsumerHeartbeatReply {
            member_id: member_id.clone(),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            assignment: None,
        });
        if request.member_epoch == LEAVE_STATIC_EPOCH {
            let mut draft =
                ConsumerDraft::new(now, &self.config, request.group.clone(), Cow::Borrowed(group));
            draft.leave_for_a_while(member_id);
            return Ok(draft.answer(token, reply));
        }
        let leaving = BTreeSet::from([member_id.clone()]);
        let mut decision = self.put_out(now, &request.group, group, &leaving, Some(&request.topics));
        decision.replies.push((token, reply));
        Ok(decision)
    }

    /// Takes members out of a consumer group; if only classic members stay, it becomes a classic group again.
    pub(crate) fn put_out(
        &self,
        now: Now,
        id: &GroupId,
        group: &ConsumerGroup,
        leaving: &BTreeSet<MemberId>,
        topics: Option<&Arc<Topics>>,
    ) -> GroupDecision {
        let topics = topics.or(self.volatile.topics.as_ref());
        if self.is_downgraded_without(group, leaving) {
            return self.downgrade(now, id, group, leaving, topics.map(|topics| &**topics));
        }
        let mut draft = ConsumerDraft::new(now, &self.config, id.clone(), Cow::Borrowed(group));
        draft.take_out(leaving, topics.map(|topics| &**topics));
        draft.decide()
    }
}

impl ConsumerDraft<'_> {
    /// A static member goes and will be back: its partitions stay its own until its session ends. Partitions that it
    /// was to give up are given up.
    fn leave_for_a_while(&mut self, member_id: &MemberId) {
        let mut current = self.group.members[member_id].current.clone();
        current.member_epoch = LEAVE_STATIC_EPOCH;
        current.state = MemberState::Stable;
        current.pending_revocation.clear();
        // Whoever comes back may commit for them with any epoch.
        current.assigned.values_mut().flat_map(|of_topic| of_topic.values_mut()).for_each(|epoch| *epoch = 0);
        self.log_current(member_id, current);
        self.disarm(TimerKind::Revocation(member_id.clone()));
    }
}

/// Whether a static name belongs to this member.
///
/// # Errors
/// UNKNOWN_MEMBER_ID: nobody has it; FENCED_INSTANCE_ID: somebody else has.
pub fn validate_holder(
    group: &ConsumerGroup,
    instance_id: &InstanceId,
    member_id: &MemberId,
) -> Result<(), GroupRefusal> {
    match group.static_members.get(instance_id) {
        Some(holder) if holder == member_id => Ok(()),
        Some(_) => Err(GroupRefusal::FencedInstanceId { member_id: member_id.clone() }),
        None => Err(GroupRefusal::UnknownMemberId { member_id: member_id.clone() }),
    }
}
