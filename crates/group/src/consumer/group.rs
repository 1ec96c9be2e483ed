//! A consumer group as the log has it.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use fencepost_types::{Millis, Now, PartitionIndex, TopicName, Uuid};

use crate::consumer::reconcile::Owners;
use crate::{
    Assignment, ConsumerGroupConfig, ConsumerGroupEpoch, ConsumerMemberMetadata, CurrentAssignment,
    EpochAssignment, GroupId, InstanceId, MemberId, MemberState, ResolvedRegex, SharedMap,
    TargetAssignmentEpoch,
};

/// The epoch of a group that has just been made; its first change makes it one more.
const FIRST_EPOCH: i32 = 1;

/// A consumer group. A fold of its records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerGroup {
    /// Counts the changes of members, subscriptions and topics.
    pub epoch: i32,
    /// Over the topics it is subscribed to, as they were at the last change; 0 for none.
    pub metadata_hash: i64,
    /// The epoch that the target assignment was made for.
    pub target_epoch: i32,
    /// When the target assignment was made; 0 if that does not hold the next one back.
    pub target_timestamp: Millis,
    /// The members. Shared, like the maps here: a decision starts from a copy of the group and changes few of them.
    pub members: SharedMap<MemberId, Arc<ConsumerMember>>,
    /// What each member shall own.
    pub targets: SharedMap<MemberId, Arc<Assignment>>,
    /// What the members' regular expressions stand for.
    pub regexes: SharedMap<Arc<str>, Arc<ResolvedRegex>>,
    /// Who holds which static name.
    pub static_members: SharedMap<InstanceId, MemberId>,
    /// Who holds which partition, or has not yet given it up.
    pub owners: Owners,
}

/// A member of a consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConsumerMember {
    /// How it described itself.
    pub metadata: ConsumerMemberMetadata,
    /// What it owns.
    pub current: CurrentAssignment,
}

/// How a consumer group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerGroupState {
    /// No members.
    Empty,
    /// The target assignment is older than the group.
    Assigning,
    /// Members are on their way to the target.
    Reconciling,
    /// Everyone has what it shall have.
    Stable,
}

impl ConsumerGroupState {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

impl Default for ConsumerGroup {
    fn default() -> Self {
        Self {
            epoch: FIRST_EPOCH,
            metadata_hash: 0,
            target_epoch: FIRST_EPOCH,
            target_timestamp: Millis(0),
            members: SharedMap::default(),
            targets: SharedMap::default(),
            regexes: SharedMap::default(),
            static_members: SharedMap::default(),
            owners: Owners::default(),
        }
    }
}

impl Default for ConsumerMemberMetadata {
    fn default() -> Self {
        Self {
            instance_id: None,
            rack_id: None,
            client_id: Arc::from(""),
            client_host: Arc::from(""),
            subscribed_topic_names: BTreeSet::new(),
            subscribed_topic_regex: Arc::from(""),
            rebalance_timeout_ms: -1,
            server_assignor: None,
            classic: None,
        }
    }
}

impl Default for CurrentAssignment {
    fn default() -> Self {
        Self {
            member_epoch: 0,
            previous_member_epoch: 0,
            state: MemberState::Stable,
            assigned: EpochAssignment::new(),
            pending_revocation: EpochAssignment::new(),
        }
    }
}

impl CurrentAssignment {
    /// The partitions that nobody else may have: those that are assigned, then those that must still be given up.
    pub fn held(&self) -> impl Iterator<Item = (Uuid, PartitionIndex)> {
        partitions(&self.assigned).chain(partitions(&self.pending_revocation))
    }
}

impl ConsumerMember {
    /// Whether it uses the classic protocol.
    pub fn is_classic(&self) -> bool {
        self.metadata.classic.is_some()
    }

    /// Whether it has what a member at `epoch` shall have.
    pub fn is_reconciled(&self, epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.member_epoch == epoch
    }
}

impl ConsumerGroup {
    /// A record of type 3.
    pub fn replay_epoch(&mut self, value: ConsumerGroupEpoch) {
        self.epoch = value.epoch;
        self.metadata_hash = value.metadata_hash;
    }

    /// A record of type 5.
    pub fn replay_member(&mut self, member_id: &MemberId, value: &ConsumerMemberMetadata) {
        let member = self.member_mut(member_id);
        let earlier = member.metadata.instance_id.take();
        member.metadata = value.clone();
        self.forget_instance(earlier.as_ref(), member_id);
        if let Some(instance_id) = &value.instance_id {
            self.static_members.insert(instance_id.clone(), member_id.clone());
        }
    }

    /// A tombstone of type 5.
    pub fn forget_member(&mut self, member_id: &MemberId) {
        if let Some(member) = self.members.remove(member_id) {
            self.forget_instance(member.metadata.instance_id.as_ref(), member_id);
            self.disown(&member.current, member_id);
        }
    }

    /// A record of type 6.
    pub fn replay_target_epoch(&mut self, value: TargetAssignmentEpoch) {
        self.target_epoch = value.epoch;
        self.target_timestamp = value.timestamp;
    }

    /// A tombstone of type 6.
    pub fn forget_target_epoch(&mut self) {
        self.target_epoch = FIRST_EPOCH;
        self.target_timestamp = Millis(0);
    }

    /// A record of type 7.
    pub fn replay_target(&mut self, member_id: &MemberId, value: &Assignment) {
        self.targets.insert(member_id.clone(), Arc::new(value.clone()));
    }

    /// A tombstone of type 7.
    pub fn forget_target(&mut self, member_id: &MemberId) {
        self.targets.remove(member_id);
    }

    /// A record of type 8.
    pub fn replay_current(&mut self, member_id: &MemberId, value: &CurrentAssignment) {
        let member = self.member_mut(member_id);
        let earlier = core::mem::replace(&mut member.current, value.clone());
        self.disown(&earlier, member_id);
        for partition in value.held() {
            self.owners.insert(partition, member_id.clone());
        }
    }

    /// A tombstone of type 8.
    pub fn forget_current(&mut self, member_id: &MemberId) {
        if let Some(member) = self.members.get_mut(member_id) {
            let earlier = core::mem::take(&mut Arc::make_mut(member).current);
            self.disown(&earlier, member_id);
        }
    }

    /// A record of type 16.
    pub fn replay_regex(&mut self, regex: &Arc<str>, value: &ResolvedRegex) {
        self.regexes.insert(regex.clone(), Arc::new(value.clone()));
    }

    /// A tombstone of type 16.
    pub fn forget_regex(&mut self, regex: &Arc<str>) {
        self.regexes.remove(regex);
    }

    /// How the group is.
    pub fn state(&self) -> ConsumerGroupState {
        if self.members.is_empty() {
            ConsumerGroupState::Empty
        } else if self.epoch > self.target_epoch {
            ConsumerGroupState::Assigning
        } else if self.members.values().all(|member| member.is_reconciled(self.target_epoch)) {
            ConsumerGroupState::Stable
        } else {
            ConsumerGroupState::Reconciling
        }
    }

    /// Whether there shall be a new target assignment: the group has moved on, and the last one was made long enough
    /// ago. A clock that went back does not hold it up.
    pub fn is_assignment_due(&self, now: Now, config: &ConsumerGroupConfig) -> bool {
        let since_last_ms = now.wall.since(self.target_timestamp);
        self.epoch > self.target_epoch
            && !(0..i64::from(config.assignment_interval_ms)).contains(&since_last_ms)
    }

    /// Every topic that a member is subscribed to, by name or by expression.
    pub fn subscribed_topics(&self) -> BTreeSet<TopicName> {
        let mut topics = BTreeSet::new();
        for topic in self.members.values().flat_map(|member| self.topics_of(&member.metadata)) {
            // Most members read what the others read.
            if !topics.contains(topic) {
                topics.insert(topic.clone());
            }
        }
        topics
    }

    /// Every topic that a member with this description is subscribed to. May name one twice.
    pub fn topics_of<'a>(
        &'a self,
        metadata: &'a ConsumerMemberMetadata,
    ) -> impl Iterator<Item = &'a TopicName> {
        let by_regex = self.regexes.get(&metadata.subscribed_topic_regex);
        metadata
            .subscribed_topic_names
            .iter()
            .chain(by_regex.into_iter().flat_map(|resolved| &resolved.topics))
    }

    /// A member, to be changed; one is made if there is none.
    fn member_mut(&mut self, member_id: &MemberId) -> &mut ConsumerMember {
        if !self.members.contains_key(member_id) {
            self.members.insert(member_id.clone(), Arc::default());
        }
        Arc::make_mut(self.members.get_mut(member_id).expect("it is there, or has just been made"))
    }

    fn forget_instance(&mut self, instance_id: Option<&InstanceId>, member_id: &MemberId) {
        if let Some(instance_id) = instance_id
            && self.static_members.get(instance_id) == Some(member_id)
        {
            self.static_members.remove(instance_id);
        }
    }

    /// Gives up what a member held, unless another one holds it by now.
    fn disown(&mut self, current: &CurrentAssignment, member_id: &MemberId) {
        for partition in current.held() {
            if self.owners.get(&partition) == Some(member_id) {
                self.owners.remove(&partition);
            }
        }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self, id: &GroupId) {
        let held = self.members.values().flat_map(|member| member.current.held());
        assert_eq!(held.count(), self.owners.len(), "a partition of {id} is held twice");
        for (instance_id, member_id) in self.static_members.iter() {
            let member =
                self.members.get(member_id).unwrap_or_else(|| panic!("{instance_id} of {id} is nobody's"));
            assert_eq!(member.metadata.instance_id.as_ref(), Some(instance_id), "{id} {member_id}");
        }
        for (partition, member_id) in self.owners.iter() {
            let member = self.members.get(member_id);
            let member = member.unwrap_or_else(|| panic!("{partition:?} of {id} is held by nobody"));
            assert!(
                member.current.held().any(|held| held == *partition),
                "{partition:?} of {id} is not {member_id}'s"
            );
        }
    }
}

/// The partitions of an assignment, one by one.
pub fn partitions(assignment: &EpochAssignment) -> impl Iterator<Item = (Uuid, PartitionIndex)> {
    assignment.iter().flat_map(|(topic, partitions)| partitions.keys().map(|partition| (*topic, *partition)))
}
