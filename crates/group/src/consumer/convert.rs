//! From one protocol to the other while members stay: a classic group that a KIP-848 member joins, and a consumer group
//! whose last KIP-848 member leaves.
//!
//! Source: KIP-848 (online migration), Kafka ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::Token;
use fencepost_types::{ErrorCode, Millis, Now, PartitionIndex, Uuid};

use crate::classic::draft::{Draft, GroupDecision};
use crate::classic::group::{CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicMember, ClassicState};
use crate::consumer::draft::ConsumerDraft;
use crate::consumer::group::{ConsumerGroup, ConsumerMember};
use crate::consumer::protocol::{Subscription, decode_assignment, encode_assignment};
use crate::timers::TimerKind;
use crate::{
    Assignment, ClassicMemberProtocols, ConsumerGroupEpoch, ConsumerMemberMetadata, CurrentAssignment,
    EpochAssignment, GroupId, GroupRecord, GroupRefusal, GroupShard, JoinReply, MemberId, MemberState, Reply,
    Soft, SyncReply, Topics,
};

/// A classic member as a consumer group has it.
struct Converted {
    member_id: MemberId,
    metadata: ConsumerMemberMetadata,
    assigned: Assignment,
    session_timeout_ms: i32,
}

impl GroupShard {
    /// The consumer group that a classic group becomes. An empty one goes, and a new one starts. Otherwise generation
    /// and assignments go on; who waits is told to join again.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND: not a group of consumers, too large, or the settings are against it; or an assignment has data of
    /// an assignor of the clients' own, which would be lost.
    pub(crate) fn upgrade(
        &self,
        now: Now,
        classic: Cow<'_, ClassicGroup>,
        topics: &Topics,
    ) -> Result<ConsumerDraft<'_>, GroupRefusal> {
        let id = classic.id.clone();
        let mut draft = ConsumerDraft::new(now, &self.config, id.clone(), Cow::default());
        draft.soft.push(Soft::Forget(id.clone()));
        draft.push(GroupRecord::GroupMetadata { group: id.clone(), value: None });
        if classic.state == ClassicState::Empty {
            return Ok(draft);
        }
        let members = self.upgraded_members(&classic, topics);
        let members = members.map_err(|why| GroupRefusal::CannotUpgrade { group: id, why })?;
        draft.take_over(&classic, members, topics);
        Ok(draft)
    }

    /// The members of a classic group that may become a consumer group, or why it may not.
    fn upgraded_members(
        &self,
        classic: &ClassicGroup,
        topics: &Topics,
    ) -> Result<Vec<Converted>, &'static str> {
        if !self.config.migration_policy.allows_upgrade() {
            return Err("online upgrade is disabled");
        }
        if !classic.is_consumers() {
            return Err("the group does not use the consumer embedded protocol");
        }
        if classic.members.len() > self.config.consumer_max_size {
            return Err("the group size exceeds the consumer group maximum size");
        }
        converted(classic, topics)
    }

    /// Whether nobody but classic members would be left without `leaving`, so that the group becomes classic again.
    pub(crate) fn is_downgraded_without(&self, group: &ConsumerGroup, leaving: &BTreeSet<MemberId>) -> bool {
        let mut left = group.members.iter().filter(|(id, _)| !leaving.contains(*id)).peekable();
        let policy = self.config.migration_policy;
        policy.allows_downgrade()
            && left.peek().is_some()
            && group.members.len() - leaving.len() <= self.config.max_size
            && left.all(|(_, member)| member.is_classic())
    }

    /// The classic group that a consumer group becomes without `leaving`: its epoch goes on as the generation, and it
    /// rebalances.
    pub(crate) fn downgrade(
        &self,
        now: Now,
        id: &GroupId,
        group: &ConsumerGroup,
        leaving: &BTreeSet<MemberId>,
        topics: Option<&Topics>,
    ) -> GroupDecision {
        let mut stays = group.clone();
        leaving.iter().for_each(|member_id| drop(stays.members.remove(member_id)));
        let mut draft = self.downgraded(now, id, &stays, topics);
        draft.records.splice(0..0, group.tombstones(id));
        draft.prepare_rebalance();
        let mut decision = draft.decide();
        decision.soft.insert(0, Soft::Forget(id.clone()));
        decision
    }

    /// The classic group that a consumer group of classic members becomes, with its record and its sessions.
    pub(crate) fn downgraded(
        &self,
        now: Now,
        id: &GroupId,
        group: &ConsumerGroup,
        topics: Option<&Topics>,
    ) -> Draft<'_> {
        let mut classic = ClassicGroup::new(id.clone(), now.wall);
        classic.generation = group.epoch;
        let protocol_type = Arc::from(CONSUMER_PROTOCOL_TYPE);
        for (member_id, member) in group.members.iter() {
            let target = group.targets.get(member_id).map(|target| &**target);
            let mut member = classic_member(member, target, topics);
            // A name that somebody else holds by now is not its own any more.
            member.instance_id =
                member.instance_id.filter(|name| group.static_members.get(name) == Some(member_id));
            classic.add(member_id.clone(), &protocol_type, member);
        }
        classic.protocol_name = Some(classic.select_protocol());
        classic.transition(ClassicState::Stable, now.wall);
        let mut draft = Draft::new(now, &self.config, classic);
        draft.log_group();
        group.members.keys().for_each(|member_id| draft.renew_session(member_id));
        draft
    }
}

impl ConsumerDraft<'_> {
    /// Writes a classic group's members as they are, at its generation, and tells those who wait to join again.
    fn take_over(&mut self, classic: &ClassicGroup, members: Vec<Converted>, topics: &Topics) {
        for (member_id, member) in classic.members.iter() {
            self.tell(member.joining, Reply::Join(rejoin(member_id)));
            self.tell(member.syncing, Reply::Sync(SyncReply::error(ErrorCode::RebalanceInProgress)));
        }
        for converted in &members {
            let (group, member) = (self.id.clone(), converted.member_id.clone());
            let value = Some(converted.metadata.clone());
            self.push(GroupRecord::ConsumerGroupMember { group, member, value });
            self.arm(TimerKind::Session(converted.member_id.clone()), converted.session_timeout_ms);
        }
        let epoch = classic.generation.max(1);
        let value = Some(ConsumerGroupEpoch { epoch, metadata_hash: self.group.metadata_hash(topics) });
        self.push(GroupRecord::ConsumerGroupMetadata { group: self.id.clone(), value });
        for converted in &members {
            let (group, member) = (self.id.clone(), converted.member_id.clone());
            let value = Some(converted.assigned.clone());
            self.push(GroupRecord::TargetAssignmentMember { group, member, value });
        }
        self.log_target_epoch(epoch, Millis(0));
        for converted in members {
            let at_epoch = |all: BTreeSet<PartitionIndex>| all.into_iter().map(|one| (one, epoch)).collect();
            let assigned = converted.assigned.into_iter().map(|(topic, all)| (topic, at_epoch(all)));
            let current = CurrentAssignment {
                member_epoch: epoch,
                previous_member_epoch: epoch,
                state: MemberState::Stable,
                assigned: assigned.collect(),
                pending_revocation: EpochAssignment::new(),
            };
            self.log_current(&converted.member_id, current);
        }
    }

    fn tell(&mut self, waiting: Option<Token>, reply: Reply) {
        self.replies.extend(waiting.map(|token| (token, reply)));
    }
}

fn rejoin(member_id: &MemberId) -> JoinReply {
    JoinReply::error(ErrorCode::RebalanceInProgress, member_id.clone())
}

/// The members of a classic group as members of a consumer group, or why there are none: one says something that cannot be
/// read, or has user data. A partition that was given to two of them stays with the first.
fn converted(classic: &ClassicGroup, topics: &Topics) -> Result<Vec<Converted>, &'static str> {
    const MALFORMED: &str = "the embedded consumer protocol is malformed";
    const USER_DATA: &str = "an unsupported custom assignor is in use. Please refer to the documentation or switch to \
                             a default assignor before re-attempting the upgrade";
    let mut taken: BTreeSet<(Uuid, PartitionIndex)> = BTreeSet::new();
    let mut members = Vec::with_capacity(classic.members.len());
    for (member_id, member) in classic.members.iter() {
        let chosen = classic.protocol_name.as_deref().and_then(|name| member.metadata(name));
        let subscription = chosen.or_else(|| member.protocols.first().map(|(_, metadata)| metadata));
        let subscription =
            subscription.and_then(|bytes| Subscription::decode(bytes).ok()).ok_or(MALFORMED)?;
        let assigned = decode_assignment(&member.assignment, topics).map_err(|_| MALFORMED)?;
        let mut assigned = assigned.ok_or(USER_DATA)?;
        for (topic, partitions) in &mut assigned {
            partitions.retain(|partition| taken.insert((*topic, *partition)));
        }
        assigned.retain(|_, partitions| !partitions.is_empty());
        members.push(Converted {
            member_id: member_id.clone(),
            metadata: ConsumerMemberMetadata {
                instance_id: member.instance_id.clone(),
                rack_id: subscription.rack_id,
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                subscribed_topic_names: subscription.topics,
                subscribed_topic_regex: Arc::from(""),
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                server_assignor: None,
                classic: Some(ClassicMemberProtocols {
                    session_timeout_ms: member.session_timeout_ms,
                    protocols: member.protocols.clone(),
                }),
            },
            assigned,
            session_timeout_ms: member.session_timeout_ms,
        });
    }
    Ok(members)
}

/// A classic member of a consumer group as a classic group has it.
fn classic_member(
    member: &ConsumerMember,
    target: Option<&Assignment>,
    topics: Option<&Topics>,
) -> ClassicMember {
    let metadata = &member.metadata;
    let classic = metadata.classic.as_ref();
    let classic = classic.unwrap_or_else(|| panic!("a member of {} is not classic", metadata.client_id));
    let version = classic.protocols.first().and_then(|(_, bytes)| Subscription::decode(bytes).ok());
    let lists = target.into_iter().flatten().map(|(id, all)| (*id, all.iter().copied().collect()));
    let version = version.map_or(0, |subscription| subscription.version);
    let assignment = encode_assignment(lists, topics, version);
    ClassicMember {
        instance_id: metadata.instance_id.clone(),
        client_id: metadata.client_id.clone(),
        client_host: metadata.client_host.clone(),
        rebalance_timeout_ms: metadata.rebalance_timeout_ms,
        session_timeout_ms: classic.session_timeout_ms,
        protocols: classic.protocols.clone(),
        assignment,
        joining: None,
        syncing: None,
        is_new: false,
    }
}
