//! ConsumerGroupHeartbeat: joining, being alive, and changing one's mind.
//!
//! Source: KIP-848, KIP-1082 (client-made member ids), Kafka GroupMetadataManager.consumerGroupHeartbeat.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{Nanos, Now};

use crate::classic::draft::Decided;
use crate::consumer::draft::{ConsumerDraft, names};
use crate::consumer::group::{ConsumerGroup, ConsumerMember};
use crate::shard::Found;
use crate::timers::TimerKind;
use crate::{
    ConsumerGroupHeartbeat, ConsumerHeartbeatReply, ConsumerMemberMetadata, EpochAssignment, GroupRefusal,
    GroupShard, MemberId, PartitionsByTopic, Reply, Soft, Topics,
};

/// The epoch of a member that joins.
pub const JOIN_EPOCH: i32 = 0;
/// The epoch of a member that leaves.
pub const LEAVE_EPOCH: i32 = -1;
/// The epoch of a static member that leaves for a while.
pub const LEAVE_STATIC_EPOCH: i32 = -2;
/// From this version on members make their ids themselves.
const CLIENT_MADE_ID_FROM: i16 = 1;

impl GroupShard {
    /// A member joins, is alive, or leaves.
    pub(crate) fn consumer_heartbeat(
        &self,
        now: Now,
        token: Token,
        request: &ConsumerGroupHeartbeat,
    ) -> Decided {
        self.validate_heartbeat(request)?;
        if matches!(request.member_epoch, LEAVE_EPOCH | LEAVE_STATIC_EPOCH) {
            return self.consumer_leave(now, token, request);
        }
        let member_id = match request.member_id.is_empty() {
            true => MemberId::from(request.fresh_member_id.to_text()),
            false => request.member_id.clone(),
        };
        if let Found::Consumer(group) = self.find(&request.group)
            && let Some(decision) = self.nothing_new(now, token, group, request)
        {
            return Ok(decision);
        }
        let mut draft = self.consumer_draft(now, request)?;
        draft.make_room(&member_id, request.instance_id.as_ref())?;
        draft.admit(&member_id, request)?;
        let before = draft.group.members.get(&member_id).map(|member| member.current.assigned.clone());
        let known = draft.group.members.get(&member_id).map(|member| &member.metadata);
        let metadata = described(known, request);
        let has_changed = draft.describe_member(&member_id, metadata, &request.topics)?;
        let topics = self.newest(&request.topics);
        draft.follow_topics(has_changed, self.volatile.has_seen(&request.group, topics), topics);
        let current = draft.reconcile(&member_id, &request.owned_partitions, topics);
        let config = self.config.consumer_group(&request.group);
        draft.arm(TimerKind::Session(member_id.clone()), config.session_timeout_ms);
        let is_told = request.member_epoch == JOIN_EPOCH
            || is_full(request)
            || before.is_none_or(|before| !has_same_partitions(&before, &current.assigned));
        let reply = ConsumerHeartbeatReply {
            member_id,
            member_epoch: current.member_epoch,
            heartbeat_interval_ms: config.heartbeat_interval_ms,
            assignment: is_told.then(|| partition_lists(&current.assigned)),
        };
        Ok(draft.answer(token, Reply::ConsumerHeartbeat(reply)))
    }

    /// What the request must say for itself.
    fn validate_heartbeat(&self, request: &ConsumerGroupHeartbeat) -> Result<(), GroupRefusal> {
        let invalid = |why| Err(GroupRefusal::InvalidRequest(why));
        let is_blank = |text: &Option<Arc<str>>| text.as_ref().is_some_and(|text| text.trim().is_empty());
        let epoch = request.member_epoch;
        let needs_id =
            request.api_version >= CLIENT_MADE_ID_FROM || epoch > JOIN_EPOCH || epoch == LEAVE_EPOCH;
        if needs_id && request.member_id.trim().is_empty() {
            return invalid("The member id is missing.");
        }
        if request.group.trim().is_empty() {
            return invalid("The group id is missing.");
        }
        if is_blank(&request.instance_id) || is_blank(&request.rack_id) {
            return invalid("Instance id and rack must not be empty.");
        }
        if epoch < LEAVE_STATIC_EPOCH {
            return invalid("There is no such member epoch.");
        }
        if epoch == LEAVE_STATIC_EPOCH && request.instance_id.is_none() {
            return invalid("Only a static member can leave for a while.");
        }
        if epoch == JOIN_EPOCH {
            if request.rebalance_timeout_ms == -1 {
                return invalid("A member that joins has a rebalance timeout.");
            }
            if request.owned_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
                return invalid("A member that joins owns no partitions.");
            }
            if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
                return invalid("A member that joins says which topics it reads.");
            }
        }
        match &request.server_assignor {
            Some(name) if self.config.assignor(name).is_none() => {
                Err(GroupRefusal::UnsupportedAssignor { supported: self.config.assignor_names() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The answer to a heartbeat that changes nothing, which is nearly every one: the group is not copied.
    fn nothing_new(
        &self,
        now: Now,
        token: Token,
        group: &ConsumerGroup,
        request: &ConsumerGroupHeartbeat,
    ) -> Option<crate::classic::draft::GroupDecision> {
        let member = group.members.get(&request.member_id)?;
        let config = self.config.consumer_group(&request.group);
        let is_settled = request.member_epoch == member.current.member_epoch
            && request.member_epoch > JOIN_EPOCH
            && member.is_reconciled(group.target_epoch)
            && !group.is_assignment_due(now, config)
            && !is_full(request)
            && !member.is_classic()
            && self.volatile.has_seen(&request.group, &request.topics)
            && is_described(&member.metadata, request);
        if !is_settled {
            return None;
        }
        let reply = ConsumerHeartbeatReply {
            member_id: request.member_id.clone(),
            member_epoch: member.current.member_epoch,
            heartbeat_interval_ms: config.heartbeat_interval_ms,
            assignment: None,
        };
        let mut decision = Decision::answer(token, Reply::ConsumerHeartbeat(reply));
        let due: Nanos = now.mono.plus_ms(i64::from(config.session_timeout_ms));
        decision.soft.push(Soft::Arm(TimerKind::Session(request.member_id.clone()).of(&request.group), due));
        Some(decision)
    }

    /// The topics of a request, or those that were seen before if they are newer.
    pub(crate) fn newest<'a>(&'a self, topics: &'a Arc<Topics>) -> &'a Arc<Topics> {
        match &self.volatile.topics {
            Some(seen) if seen.version() > topics.version() => seen,
            Some(_) | None => topics,
        }
    }

    /// The group that is joined: a new one, a classic one that is converted, or one that is there. Who does not join
    /// needs one that is there.
    fn consumer_draft(
        &self,
        now: Now,
        request: &ConsumerGroupHeartbeat,
    ) -> Result<ConsumerDraft<'_>, GroupRefusal> {
        let is_joining = request.member_epoch == JOIN_EPOCH;
        let id = request.group.clone();
        match self.find(&id) {
            Found::Consumer(group) => Ok(ConsumerDraft::new(now, &self.config, id, Cow::Borrowed(group))),
            Found::Nothing if is_joining => Ok(ConsumerDraft::new(now, &self.config, id, Cow::default())),
            Found::Classic(group) if is_joining => self.upgrade(now, group, &request.topics),
            Found::Nothing | Found::Classic(_) => Err(GroupRefusal::GroupIdNotFound { group: id }),
        }
    }
}

impl ConsumerDraft<'_> {
    /// Whether there is room for one more member.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED.
    pub fn make_room(
        &self,
        member_id: &MemberId,
        instance_id: Option<&crate::InstanceId>,
    ) -> Result<(), GroupRefusal> {
        let is_known = self.group.members.contains_key(member_id)
            || instance_id.is_some_and(|id| self.group.static_members.contains_key(id));
        if is_known || self.group.members.len() < self.config.consumer_max_size {
            return Ok(());
        }
        Err(GroupRefusal::GroupMaxSizeReached)
    }

    /// The group's epoch and target assignment, if a member has changed or these topics have not been seen yet.
    pub fn follow_topics(&mut self, has_changed: bool, has_seen: bool, topics: &Arc<Topics>) {
        self.follow_change(has_changed, has_seen, topics);
        self.assign_if_due(topics);
        self.note_topics(topics);
    }

    /// The group's epoch, if a member has changed or these topics have not been seen yet.
    pub fn follow_change(&mut self, has_changed: bool, has_seen: bool, topics: &Topics) {
        if !has_seen {
            self.refresh_regexes(topics);
        }
        if has_changed || !has_seen {
            self.bump_epoch_if_changed(has_changed, topics);
        }
    }
}

/// How the member is described after this request: what it does not say stays.
fn described(
    known: Option<&ConsumerMemberMetadata>,
    request: &ConsumerGroupHeartbeat,
) -> ConsumerMemberMetadata {
    let known =
        known.map_or_else(|| Cow::Owned(ConsumerMemberMetadata::default()), Cow::Borrowed).into_owned();
    let rebalance_timeout_ms = match request.rebalance_timeout_ms {
        -1 => known.rebalance_timeout_ms,
        timeout_ms => timeout_ms,
    };
    ConsumerMemberMetadata {
        instance_id: request.instance_id.clone().or(known.instance_id),
        rack_id: request.rack_id.clone().or(known.rack_id),
        client_id: request.client.id.clone(),
        client_host: request.client.host.clone(),
        subscribed_topic_names: match &request.subscribed_topic_names {
            Some(topics) => names(topics),
            None => known.subscribed_topic_names,
        },
        subscribed_topic_regex: request
            .subscribed_topic_regex
            .clone()
            .unwrap_or(known.subscribed_topic_regex),
        rebalance_timeout_ms,
        server_assignor: request.server_assignor.clone().or(known.server_assignor),
        classic: None,
    }
}

/// Whether the request says nothing new about the member.
fn is_described(known: &ConsumerMemberMetadata, request: &ConsumerGroupHeartbeat) -> bool {
    let same = |said: &Option<Arc<str>>, known: &Option<Arc<str>>| said.is_none() || said == known;
    same(&request.instance_id, &known.instance_id)
        && same(&request.rack_id, &known.rack_id)
        && same(&request.server_assignor, &known.server_assignor)
        && request.client.id == known.client_id
        && request.client.host == known.client_host
        && matches!(request.rebalance_timeout_ms, -1)
            | (request.rebalance_timeout_ms == known.rebalance_timeout_ms)
        && request.subscribed_topic_regex.as_ref().is_none_or(|regex| *regex == known.subscribed_topic_regex)
        && request
            .subscribed_topic_names
            .as_ref()
            .is_none_or(|topics| names(topics) == known.subscribed_topic_names)
}

/// Whether the request says everything, as a member does that joins or has lost track: then it hears everything.
fn is_full(request: &ConsumerGroupHeartbeat) -> bool {
    request.rebalance_timeout_ms != -1
        && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
        && request.owned_partitions.is_some()
}

fn has_same_partitions(a: &EpochAssignment, b: &EpochAssignment) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.keys().eq(b.1.keys()))
}

/// An assignment as members hear it.
pub fn partition_lists(assigned: &EpochAssignment) -> PartitionsByTopic {
    let lists: BTreeMap<_, Vec<_>> =
        assigned.iter().map(|(topic, partitions)| (*topic, partitions.keys().copied().collect())).collect();
    lists
}

/// Whether a member may go on with `epoch`.
///
/// The one before passes too, if what the member owns is assigned to it: the answer with the new one may have been
/// lost. A known member may join again at any time.
///
/// # Errors
/// FENCED_MEMBER_EPOCH. Source: Kafka throwIfConsumerGroupMemberEpochIsInvalid.
pub fn validate_epoch(member: &ConsumerMember, request: &ConsumerGroupHeartbeat) -> Result<(), GroupRefusal> {
    let (epoch, known) = (request.member_epoch, member.current.member_epoch);
    let is_before = epoch == member.current.previous_member_epoch && epoch < known;
    let owns_less =
        crate::consumer::reconcile::owns_within(&request.owned_partitions, &member.current.assigned);
    if epoch == JOIN_EPOCH || epoch == known || (is_before && owns_less) {
        return Ok(());
    }
    Err(GroupRefusal::FencedMemberEpoch { expected: known, found: epoch })
}
