//! Members of a consumer group that use the classic protocol: the coordinator assigns to them too, and each JoinGroup
//! is one step of theirs towards their target.
//!
//! Source: KIP-848 (online migration), Kafka GroupMetadataManager.classicGroupJoinToConsumerGroup, -Sync-, -Heartbeat-,
//! -Leave-.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, Now};

use crate::classic::draft::{Decided, GroupDecision};
use crate::classic::group::CONSUMER_PROTOCOL_TYPE;
use crate::classic::join::{MEMBER_ID_REQUIRED_FROM, rebalance_timeout_ms};
use crate::classic::leave::{leave_reply, left_member};
use crate::consumer::draft::ConsumerDraft;
use crate::consumer::group::{ConsumerGroup, ConsumerGroupState, ConsumerMember};
use crate::consumer::membership::validate_holder;
use crate::consumer::protocol::{Subscription, encode_assignment};
use crate::timers::TimerKind;
use crate::{
    ClassicMemberProtocols, ConsumerMemberMetadata, GroupRefusal, GroupShard, Heartbeat, InstanceId,
    JoinGroup, JoinReply, LeaveGroup, LeavingMember, MemberId, MemberState, MigrationPolicy, Reply, Soft,
    SyncGroup, SyncReply,
};

impl GroupShard {
    /// A classic member joins a consumer group. An empty one becomes a classic group.
    pub(crate) fn join_consumer_group(
        &self,
        now: Now,
        token: Token,
        group: &ConsumerGroup,
        request: &JoinGroup,
    ) -> Decided {
        if group.members.is_empty() {
            return self.join_instead_of(now, token, group, request);
        }
        if self.config.migration_policy == MigrationPolicy::Disabled {
            return Err(GroupRefusal::InconsistentGroupProtocol);
        }
        let is_new = request.member_id.is_empty();
        let member_id = match is_new {
            true => MemberId::from(request.fresh_member_suffix.to_text()),
            false => request.member_id.clone(),
        };
        let mut draft = ConsumerDraft::new(now, &self.config, request.group.clone(), Cow::Borrowed(group));
        draft.make_room(&member_id, request.instance_id.as_ref())?;
        if !group.supports_classic(request) {
            return Err(GroupRefusal::InconsistentGroupProtocol);
        }
        if is_new && request.instance_id.is_none() && request.api_version >= MEMBER_ID_REQUIRED_FROM {
            let reply = JoinReply::error(ErrorCode::MemberIdRequired, member_id);
            return Ok(Decision::answer(token, Reply::Join(reply)));
        }
        let subscription = request.protocols.first().and_then(|(_, bytes)| Subscription::decode(bytes).ok());
        let subscription = subscription.ok_or(GroupRefusal::InconsistentGroupProtocol)?;
        draft.admit_classic(&member_id, request)?;
        let owned = Some(subscription.owned_by_id(&request.topics));
        let known = draft.group.members.get(&member_id).map(|member| &member.metadata);
        let metadata = described(known, request, subscription);
        let has_changed = draft.describe_member(&member_id, metadata, &request.topics)?;
        let topics = self.newest(&request.topics);
        let has_seen = self.volatile.has_seen(&request.group, topics);
        if self.is_downgraded_without(&draft.group, &BTreeSet::new()) {
            draft.follow_change(has_changed, has_seen, topics);
            let current = draft.reconcile(&member_id, &owned, topics);
            let reply = joined(member_id.clone(), current.member_epoch, request);
            draft.log_current(&member_id, current);
            let mut decision = self.downgrade_for(now, group, &draft.group, request);
            decision.replies.push((token, Reply::Join(reply)));
            return Ok(decision);
        }
        draft.follow_topics(has_changed, has_seen, topics);
        let current = draft.reconcile(&member_id, &owned, topics);
        draft.disarm(TimerKind::MemberJoin(member_id.clone()));
        draft.arm(TimerKind::Session(member_id.clone()), request.session_timeout_ms);
        draft.arm(TimerKind::MemberSync(member_id.clone()), rebalance_timeout_ms(request));
        let reply = joined(member_id, current.member_epoch, request);
        Ok(draft.answer(token, Reply::Join(reply)))
    }

    /// A classic member joins where there was a consumer group that has no members any more.
    fn join_instead_of(&self, now: Now, token: Token, group: &ConsumerGroup, request: &JoinGroup) -> Decided {
        if !request.member_id.is_empty() {
            return Err(GroupRefusal::UnknownMemberId { member_id: request.member_id.clone() });
        }
        let mut draft = self.new_classic_group(now, &request.group);
        draft.records.splice(0..0, group.tombstones(&request.group));
        let mut decision = draft.join(token, request)?;
        decision.soft.insert(0, Soft::Forget(request.group.clone()));
        Ok(decision)
    }

    /// A classic member has taken the place of the last member that used the consumer protocol: the group becomes classic
    /// again. If everyone has what it shall have, all go on with it; otherwise the members hear of a rebalance when they
    /// sync or are alive, also the one that has brought this about: its JoinGroup waits for nobody.
    ///
    /// Differs from Kafka: there a member that must still give up partitions does not keep the others from them.
    fn downgrade_for(
        &self,
        now: Now,
        before: &ConsumerGroup,
        after: &ConsumerGroup,
        request: &JoinGroup,
    ) -> GroupDecision {
        let mut draft = self.downgraded(now, &request.group, after, Some(&request.topics));
        draft.records.splice(0..0, before.tombstones(&request.group));
        if after.state() != ConsumerGroupState::Stable {
            draft.prepare_rebalance();
        }
        let mut decision = draft.decide();
        decision.soft.insert(0, Soft::Forget(request.group.clone()));
        decision
    }

    /// A classic member asks for its assignment, which is there already.
    pub(crate) fn sync_consumer_group(
        &self,
        now: Now,
        token: Token,
        group: &ConsumerGroup,
        request: &SyncGroup,
    ) -> Decided {
        let member_id = &request.member_id;
        let member = classic_member(group, member_id, request.instance_id.as_ref())?;
        validate_generation(member, request.generation)?;
        let protocol = member.metadata.classic.as_ref().and_then(|classic| classic.protocols.first());
        let (name, metadata) = protocol.ok_or(GroupRefusal::InconsistentGroupProtocol)?;
        let is_other_type = |asked: &Arc<str>| &**asked != CONSUMER_PROTOCOL_TYPE;
        if request.protocol_type.as_ref().is_some_and(is_other_type)
            || request.protocol_name.as_ref().is_some_and(|asked| asked != name)
        {
            return Err(GroupRefusal::InconsistentGroupProtocol);
        }
        // It has to join again for what there is now. One that must give up partitions has to hear which ones first.
        // Just after a restart the names of topics are not known; the JoinGroup brings them.
        let is_behind = member.current.member_epoch < group.target_epoch;
        let Some(topics) = self
            .volatile
            .topics
            .as_deref()
            .filter(|_| !is_behind || member.current.state == MemberState::UnrevokedPartitions)
        else {
            let reply = Reply::Sync(SyncReply::error(ErrorCode::RebalanceInProgress));
            return Ok(self.asked_to_rejoin(now, member, request.group.clone(), member_id, token, reply));
        };
        let version = Subscription::decode(metadata).map_or(0, |subscription| subscription.version);
        let lists = member.current.assigned.iter().map(|(id, all)| (*id, all.keys().copied().collect()));
        let reply = SyncReply {
            error: ErrorCode::None,
            protocol_type: Some(Arc::from(CONSUMER_PROTOCOL_TYPE)),
            protocol_name: Some(name.clone()),
            assignment: encode_assignment(lists, Some(topics), version),
        };
        let mut decision = Decision::answer(token, Reply::Sync(reply));
        decision.soft.push(Soft::Disarm(TimerKind::MemberSync(member_id.clone()).of(&request.group)));
        decision.soft.push(session(now, member, &request.group, member_id));
        Ok(decision)
    }

    /// A classic member is alive. It is told to join again when there is something to give up, to get, or to know.
    pub(crate) fn classic_heartbeat_to_consumer_group(
        &self,
        now: Now,
        token: Token,
        group: &ConsumerGroup,
        request: &Heartbeat,
    ) -> Decided {
        let member_id = &request.member_id;
        let member = classic_member(group, member_id, request.instance_id.as_ref())?;
        validate_generation(member, request.generation)?;
        let is_due = group.is_assignment_due(now, self.config.consumer_group(&request.group));
        let has_news = match member.current.state {
            MemberState::UnrevokedPartitions => true,
            MemberState::UnreleasedPartitions => !group.waits_for_others(member_id),
            MemberState::Stable => false,
        };
        let mut decision = if has_news || is_due || member.current.member_epoch < group.target_epoch {
            let reply = Reply::Heartbeat(ErrorCode::RebalanceInProgress);
            self.asked_to_rejoin(now, member, request.group.clone(), member_id, token, reply)
        } else {
            Decision::answer(token, Reply::Heartbeat(ErrorCode::None))
        };
        decision.soft.push(session(now, member, &request.group, member_id));
        Ok(decision)
    }

    /// The answer that sends a member back to JoinGroup, which it must reach within its rebalance timeout.
    fn asked_to_rejoin(
        &self,
        now: Now,
        member: &ConsumerMember,
        group: crate::GroupId,
        member_id: &MemberId,
        token: Token,
        reply: Reply,
    ) -> GroupDecision {
        let mut decision = Decision::answer(token, reply);
        let timer = TimerKind::MemberJoin(member_id.clone()).of(&group);
        if self.volatile.timers.due_at(&timer).is_none() {
            let due = now.mono.plus_ms(i64::from(member.metadata.rebalance_timeout_ms));
            decision.soft.push(Soft::Arm(timer, due));
        }
        decision
    }

    /// Members leave by LeaveGroup: classic ones, and whoever an administrator names by member id or static name.
    pub(crate) fn leave_consumer_group(
        &self,
        now: Now,
        token: Token,
        group: &ConsumerGroup,
        request: &LeaveGroup,
    ) -> GroupDecision {
        let mut leaving = BTreeSet::new();
        let members = request.members.iter().map(|member| {
            let left = leaving_member(group, member);
            let left = left.map(|member_id| {
                leaving.insert(member_id);
            });
            left_member(member, left)
        });
        let members = members.collect();
        let mut decision = match leaving.is_empty() {
            true => Decision::nothing(),
            false => self.put_out(now, &request.group, group, &leaving, None),
        };
        decision.replies.push((token, Reply::Leave(leave_reply(request.api_version, members))));
        decision
    }
}

impl ConsumerDraft<'_> {
    /// Lets a classic member in, or says why not. A static name that another member holds passes to it.
    fn admit_classic(&mut self, member_id: &MemberId, request: &JoinGroup) -> Result<(), GroupRefusal> {
        let Some(instance_id) = &request.instance_id else { return Ok(()) };
        match self.group.static_members.get(instance_id).cloned() {
            Some(holder) if request.member_id.is_empty() => self.replace_static(&holder, member_id),
            Some(_) => validate_holder(&self.group, instance_id, member_id)?,
            None if request.member_id.is_empty() => {}
            None => return Err(GroupRefusal::UnknownMemberId { member_id: member_id.clone() }),
        }
        Ok(())
    }
}

impl ConsumerGroup {
    /// Whether a classic member with those protocols fits in: consumers, and one of their protocols is known to all
    /// classic members.
    fn supports_classic(&self, request: &JoinGroup) -> bool {
        let is_known = |name: &Arc<str>| {
            let mut classic = self.members.values().filter_map(|member| member.metadata.classic.as_ref());
            classic.all(|classic| classic.protocols.iter().any(|(known, _)| known == name))
        };
        &*request.protocol_type == CONSUMER_PROTOCOL_TYPE
            && request.protocols.iter().any(|(name, _)| is_known(name))
    }

    /// Whether others still hold some of what a member shall own.
    fn waits_for_others(&self, member_id: &MemberId) -> bool {
        let target = self.targets.get(member_id).into_iter().flat_map(|target| target.iter());
        let mut partitions = target.flat_map(|(topic, all)| all.iter().map(|one| (*topic, *one)));
        partitions.any(|partition| self.owners.get(&partition).is_some_and(|owner| owner != member_id))
    }
}

/// The classic member that a request speaks of.
fn classic_member<'a>(
    group: &'a ConsumerGroup,
    member_id: &MemberId,
    instance_id: Option<&InstanceId>,
) -> Result<&'a ConsumerMember, GroupRefusal> {
    if let Some(instance_id) = instance_id {
        validate_holder(group, instance_id, member_id)?;
    }
    let member = group.members.get(member_id).filter(|member| member.is_classic());
    member
        .map(|member| &**member)
        .ok_or_else(|| GroupRefusal::UnknownMemberId { member_id: member_id.clone() })
}

fn validate_generation(member: &ConsumerMember, found: i32) -> Result<(), GroupRefusal> {
    let expected = member.current.member_epoch;
    if expected == found { Ok(()) } else { Err(GroupRefusal::IllegalGeneration { expected, found }) }
}

/// Who leaves, if it may: any member, as an administrator takes out those of the consumer protocol too. One that is named
/// twice leaves twice.
fn leaving_member(group: &ConsumerGroup, member: &LeavingMember) -> Result<MemberId, GroupRefusal> {
    let unknown = || GroupRefusal::UnknownMemberId { member_id: member.member_id.clone() };
    if member.member_id.is_empty() {
        let holder = member.instance_id.as_ref().and_then(|id| group.static_members.get(id));
        return holder.cloned().ok_or_else(unknown);
    }
    if let Some(instance_id) = &member.instance_id {
        validate_holder(group, instance_id, &member.member_id)?;
    }
    group.members.contains_key(&member.member_id).then(|| member.member_id.clone()).ok_or_else(unknown)
}

/// The change that starts a classic member's session again.
fn session(now: Now, member: &ConsumerMember, group: &crate::GroupId, member_id: &MemberId) -> Soft {
    let timeout_ms = member.metadata.classic.as_ref().map_or(0, |classic| classic.session_timeout_ms);
    Soft::Arm(TimerKind::Session(member_id.clone()).of(group), now.mono.plus_ms(i64::from(timeout_ms)))
}

/// What a classic member hears that has joined.
fn joined(member_id: MemberId, member_epoch: i32, request: &JoinGroup) -> JoinReply {
    JoinReply {
        error: ErrorCode::None,
        generation: member_epoch,
        protocol_type: Some(Arc::from(CONSUMER_PROTOCOL_TYPE)),
        protocol_name: request.protocols.first().map(|(name, _)| name.clone()),
        leader: MemberId::from(""),
        skip_assignment: false,
        member_id,
        members: Vec::new(),
    }
}

/// How a classic member is described after its JoinGroup. What it cannot say stays.
fn described(
    known: Option<&ConsumerMemberMetadata>,
    request: &JoinGroup,
    subscription: Subscription,
) -> ConsumerMemberMetadata {
    ConsumerMemberMetadata {
        instance_id: request
            .instance_id
            .clone()
            .or_else(|| known.and_then(|known| known.instance_id.clone())),
        rack_id: subscription.rack_id.or_else(|| known.and_then(|known| known.rack_id.clone())),
        client_id: request.client.id.clone(),
        client_host: request.client.host.clone(),
        subscribed_topic_names: subscription.topics,
        subscribed_topic_regex: Arc::from(""),
        rebalance_timeout_ms: rebalance_timeout_ms(request),
        server_assignor: known.and_then(|known| known.server_assignor.clone()),
        classic: Some(ClassicMemberProtocols {
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols.clone(),
        }),
    }
}
