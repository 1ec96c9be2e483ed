//! One decision about one consumer group, while it is being made: a copy of the group to which every record is
//! applied as it is written, and everything that follows.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{Millis, Now, TopicName};

use crate::classic::draft::GroupDecision;
use crate::consumer::group::ConsumerGroup;
use crate::consumer::pattern;
use crate::consumer::reconcile::{Owned, Target};
use crate::timers::TimerKind;
use crate::{
    Assignment, ConsumerGroupEpoch, ConsumerMemberMetadata, CurrentAssignment, GroupConfig, GroupId,
    GroupRecord, GroupRefusal, MemberId, MemberState, Reply, Soft, TargetAssignmentEpoch, Topics,
};

/// A copy of a group that is being changed, and what goes with the change.
pub struct ConsumerDraft<'a> {
    /// The present.
    pub now: Now,
    /// The settings.
    pub config: &'a GroupConfig,
    /// The group's name.
    pub id: GroupId,
    /// The copy, made with the first record.
    pub group: Cow<'a, ConsumerGroup>,
    /// What is to be logged.
    pub records: Vec<GroupRecord>,
    /// Volatile changes.
    pub soft: Vec<Soft>,
    /// Who is answered.
    pub replies: Vec<(Token, Reply)>,
}

impl<'a> ConsumerDraft<'a> {
    /// Starts from a copy of the group as it is.
    pub fn new(now: Now, config: &'a GroupConfig, id: GroupId, group: Cow<'a, ConsumerGroup>) -> Self {
        Self { now, config, id, group, records: Vec::new(), soft: Vec::new(), replies: Vec::new() }
    }

    /// Logs a record, and applies it to the copy.
    pub fn push(&mut self, record: GroupRecord) {
        self.group.to_mut().apply(&record);
        self.records.push(record);
    }

    /// Everything as a decision.
    pub fn decide(self) -> GroupDecision {
        Decision { records: self.records, transactional: None, soft: self.soft, replies: self.replies }
    }

    /// Everything as a decision that also answers `token`.
    pub fn answer(mut self, token: Token, reply: Reply) -> GroupDecision {
        self.replies.push((token, reply));
        self.decide()
    }

    /// Makes a timer of the group due in `span_ms` milliseconds.
    pub fn arm(&mut self, kind: TimerKind, span_ms: i32) {
        self.soft.push(Soft::Arm(kind.of(&self.id), self.now.mono.plus_ms(i64::from(span_ms))));
    }

    /// Forgets a timer of the group.
    pub fn disarm(&mut self, kind: TimerKind) {
        self.soft.push(Soft::Disarm(kind.of(&self.id)));
    }

    /// Describes a member as it is now; tells whether the group needs another assignment for that: the member reads other
    /// topics than before, or another assignor has most votes. A new regular expression is matched, one that nobody uses
    /// any more is forgotten.
    ///
    /// # Errors
    /// INVALID_REGULAR_EXPRESSION.
    pub fn describe_member(
        &mut self,
        member_id: &MemberId,
        metadata: ConsumerMemberMetadata,
        topics: &Topics,
    ) -> Result<bool, GroupRefusal> {
        let before = self.group.members.get(member_id).map(|member| &member.metadata);
        if before == Some(&metadata) {
            return Ok(false);
        }
        let unknown = ConsumerMemberMetadata::default();
        let earlier = before.unwrap_or(&unknown);
        let has_other_names = earlier.subscribed_topic_names != metadata.subscribed_topic_names;
        let regex = metadata.subscribed_topic_regex.clone();
        let has_other_regex = earlier.subscribed_topic_regex != regex;
        let has_other_vote = earlier.server_assignor != metadata.server_assignor;
        let assignor = has_other_vote.then(|| self.group.assignor(self.config));
        let resolved = match regex.is_empty() || self.group.regexes.contains_key(&regex) {
            true => None,
            false => Some(pattern::resolve(&regex, topics, self.now.wall)?),
        };
        let (group, member) = (self.id.clone(), member_id.clone());
        self.push(GroupRecord::ConsumerGroupMember { group, member, value: Some(metadata) });
        if resolved.is_some() {
            self.push(GroupRecord::RegularExpression { group: self.id.clone(), regex, value: resolved });
        }
        self.forget_unused_regexes();
        let has_other_assignor = assignor.is_some_and(|before| self.group.assignor(self.config) != before);
        Ok(has_other_names || has_other_regex || has_other_assignor)
    }

    /// Tombstones for regular expressions that nobody uses any more.
    pub fn forget_unused_regexes(&mut self) {
        let is_used = |regex: &Arc<str>| {
            self.group.members.values().any(|member| member.metadata.subscribed_topic_regex == *regex)
        };
        let unused: Vec<Arc<str>> =
            self.group.regexes.keys().filter(|regex| !is_used(regex)).cloned().collect();
        for regex in unused {
            self.push(GroupRecord::RegularExpression { group: self.id.clone(), regex, value: None });
        }
    }

    /// The topics are others than when the group was last looked at: its expressions may stand for others.
    pub fn refresh_regexes(&mut self, topics: &Topics) {
        let patterns: Vec<Arc<str>> = self.group.regexes.keys().cloned().collect();
        for regex in patterns {
            // One that Kafka took and we do not stays as it was resolved.
            let Ok(resolved) = pattern::resolve(&regex, topics, self.now.wall) else { continue };
            if resolved.topics != self.group.regexes[&regex].topics {
                let group = self.id.clone();
                self.push(GroupRecord::RegularExpression { group, regex, value: Some(resolved) });
            }
        }
    }

    /// Bumps the group's epoch if its members read other topics, or the topics have become others.
    pub fn bump_epoch_if_changed(&mut self, has_subscription_changed: bool, topics: &Topics) {
        let metadata_hash = self.group.metadata_hash(topics);
        if has_subscription_changed || metadata_hash != self.group.metadata_hash {
            self.bump_epoch(metadata_hash);
        }
    }

    /// The next epoch of the group.
    pub fn bump_epoch(&mut self, metadata_hash: i64) {
        let epoch = self.group.epoch.saturating_add(1);
        let value = Some(ConsumerGroupEpoch { epoch, metadata_hash });
        self.push(GroupRecord::ConsumerGroupMetadata { group: self.id.clone(), value });
    }

    /// Makes a new target assignment if the group's epoch has moved on, and enough time has passed since the last one.
    pub fn assign_if_due(&mut self, topics: &Topics) {
        if !self.group.is_assignment_due(self.now, self.config.consumer_group(&self.id)) {
            return;
        }
        for (member, target) in self.group.new_target(self.config, topics) {
            if self.group.targets.get(&member).is_none_or(|known| **known != target) {
                let (group, value) = (self.id.clone(), Some(target));
                self.push(GroupRecord::TargetAssignmentMember { group, member, value });
            }
        }
        self.log_target_epoch(self.group.epoch, self.now.wall);
    }

    /// Logs the epoch of the target assignment.
    pub fn log_target_epoch(&mut self, epoch: i32, timestamp: Millis) {
        let value = Some(TargetAssignmentEpoch { epoch, timestamp });
        self.push(GroupRecord::TargetAssignmentMetadata { group: self.id.clone(), value });
    }

    /// Takes a member one step further towards its target. One that must give up partitions has its rebalance timeout
    /// to do so, if it uses the consumer protocol. The last step of a decision, which answers what the member has then: the
    /// copy of the group, if there is one, does not take it in.
    pub fn reconcile(&mut self, member_id: &MemberId, owned: &Owned, topics: &Topics) -> CurrentAssignment {
        let member = &self.group.members[member_id];
        let read = self.group.topic_ids_of(&member.metadata, topics);
        let target = self.group.targets.get(member_id).into_iter().flat_map(|target| target.iter());
        let target: Assignment =
            target.filter(|(topic, _)| read.contains(topic)).map(|(id, all)| (*id, all.clone())).collect();
        let target = Target {
            member_id,
            epoch: self.group.target_epoch,
            partitions: &target,
            owned,
            owners: &self.group.owners,
        };
        let after = target.reconcile(&member.current);
        if after == member.current {
            return after;
        }
        let (state, is_classic) = (after.state, member.is_classic());
        let rebalance_timeout_ms = member.metadata.rebalance_timeout_ms;
        let (group, member) = (self.id.clone(), member_id.clone());
        self.records.push(GroupRecord::CurrentAssignment { group, member, value: Some(after.clone()) });
        match state {
            MemberState::UnrevokedPartitions if !is_classic => {
                self.arm(TimerKind::Revocation(member_id.clone()), rebalance_timeout_ms);
            }
            MemberState::UnrevokedPartitions | MemberState::Stable | MemberState::UnreleasedPartitions => {
                self.disarm(TimerKind::Revocation(member_id.clone()));
            }
        }
        after
    }

    /// Logs what a member owns.
    pub fn log_current(&mut self, member_id: &MemberId, value: CurrentAssignment) {
        let (group, member) = (self.id.clone(), member_id.clone());
        self.push(GroupRecord::CurrentAssignment { group, member, value: Some(value) });
    }

    /// Notes the topics with which the group has been looked at.
    pub fn note_topics(&mut self, topics: &Arc<Topics>) {
        self.soft.push(Soft::Topics(self.id.clone(), topics.clone()));
    }
}

impl ConsumerGroup {
    /// Takes in a record of this group, as far as it says something within the group.
    pub fn apply(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::ConsumerGroupMetadata { value: Some(value), .. } => self.replay_epoch(*value),
            GroupRecord::ConsumerGroupMember { member, value: Some(value), .. } => {
                self.replay_member(member, value);
            }
            GroupRecord::ConsumerGroupMember { member, value: None, .. } => self.forget_member(member),
            GroupRecord::TargetAssignmentMetadata { value: Some(value), .. } => {
                self.replay_target_epoch(*value)
            }
            GroupRecord::TargetAssignmentMetadata { value: None, .. } => self.forget_target_epoch(),
            GroupRecord::TargetAssignmentMember { member, value: Some(value), .. } => {
                self.replay_target(member, value);
            }
            GroupRecord::TargetAssignmentMember { member, value: None, .. } => self.forget_target(member),
            GroupRecord::CurrentAssignment { member, value: Some(value), .. } => {
                self.replay_current(member, value);
            }
            GroupRecord::CurrentAssignment { member, value: None, .. } => self.forget_current(member),
            GroupRecord::RegularExpression { regex, value: Some(value), .. } => {
                self.replay_regex(regex, value)
            }
            GroupRecord::RegularExpression { regex, value: None, .. } => self.forget_regex(regex),
            GroupRecord::ConsumerGroupMetadata { value: None, .. }
            | GroupRecord::ConsumerGroupPartitionMetadata { .. }
            | GroupRecord::GroupMetadata { .. }
            | GroupRecord::OffsetCommit { .. } => {}
        }
    }
}

/// The names of a list of topics.
pub fn names(topics: &[TopicName]) -> alloc::collections::BTreeSet<TopicName> {
    topics.iter().cloned().collect()
}
