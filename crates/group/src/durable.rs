//! What the log says: changed by replaying records, and by nothing else.

use alloc::collections::BTreeMap;

use fencepost_coordinator::LogPosition;
use fencepost_types::{PartitionIndex, TopicName, TopicPartition, TransactionResult};

use crate::consumer::group::ConsumerGroup;
use crate::offsets::store::{LoggedOffset, Offsets};
use crate::{ClassicMetadata, CommittedOffset, GroupId, GroupRecord};

/// The durable half of a group shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Durable {
    /// The groups.
    pub groups: BTreeMap<GroupId, Group>,
    /// Their offsets.
    pub offsets: Offsets,
}

/// A group in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// A classic group, also one that only keeps offsets.
    Classic(ClassicMetadata),
    /// A consumer group (KIP-848).
    Consumer(ConsumerGroup),
}

impl Durable {
    /// Takes in one record.
    pub fn replay(&mut self, at: LogPosition, record: &GroupRecord) {
        match record {
            GroupRecord::OffsetCommit { group, topic, partition, value } => {
                self.replay_offset(at, group, topic, *partition, value.as_ref());
            }
            GroupRecord::GroupMetadata { group, value: Some(metadata) } => {
                self.groups.insert(group.clone(), Group::Classic(metadata.clone()));
            }
            GroupRecord::GroupMetadata { group, value: None } => {
                if let Some(Group::Classic(_)) = self.groups.get(group) {
                    self.groups.remove(group);
                }
            }
            GroupRecord::ConsumerGroupMetadata { group, value: None } => {
                if let Some(Group::Consumer(_)) = self.groups.get(group) {
                    self.groups.remove(group);
                }
            }
            GroupRecord::ConsumerGroupPartitionMetadata { .. } => {}
            GroupRecord::ConsumerGroupMetadata { group, value: Some(_) }
            | GroupRecord::ConsumerGroupMember { group, value: Some(_), .. }
            | GroupRecord::TargetAssignmentMetadata { group, value: Some(_) }
            | GroupRecord::TargetAssignmentMember { group, value: Some(_), .. }
            | GroupRecord::CurrentAssignment { group, value: Some(_), .. }
            | GroupRecord::RegularExpression { group, value: Some(_), .. } => {
                self.consumer_group(group).apply(record);
            }
            GroupRecord::ConsumerGroupMember { group, value: None, .. }
            | GroupRecord::TargetAssignmentMetadata { group, value: None }
            | GroupRecord::TargetAssignmentMember { group, value: None, .. }
            | GroupRecord::CurrentAssignment { group, value: None, .. }
            | GroupRecord::RegularExpression { group, value: None, .. } => {
                if let Some(Group::Consumer(group)) = self.groups.get_mut(group) {
                    group.apply(record);
                }
            }
        }
    }

    /// Takes in the end of a transaction.
    pub fn replay_marker(&mut self, at: LogPosition, result: TransactionResult) {
        self.offsets.end_transaction(at.producer_id, result);
    }

    /// An offset makes its group, if there is none: a consumer may use the coordinator for nothing else.
    fn replay_offset(
        &mut self,
        at: LogPosition,
        group: &GroupId,
        topic: &TopicName,
        partition: PartitionIndex,
        value: Option<&CommittedOffset>,
    ) {
        let partition = TopicPartition { topic: topic.clone(), partition };
        let Some(value) = value else { return self.offsets.delete(group, &partition) };
        if !self.groups.contains_key(group) {
            self.groups.insert(group.clone(), Group::Classic(ClassicMetadata::default()));
        }
        let logged = LoggedOffset { value: value.clone(), record_offset: at.offset };
        if at.is_transactional {
            self.offsets.pend(at.producer_id, group, &partition, logged);
        } else {
            self.offsets.commit(group, &partition, logged);
        }
    }

    /// The consumer group of that name; one is made if there is none, or a classic one.
    fn consumer_group(&mut self, group: &GroupId) -> &mut ConsumerGroup {
        let slot =
            self.groups.entry(group.clone()).or_insert_with(|| Group::Consumer(ConsumerGroup::default()));
        if let Group::Classic(_) = slot {
            *slot = Group::Consumer(ConsumerGroup::default());
        }
        match slot {
            Group::Consumer(group) => group,
            Group::Classic(_) => panic!("{group} has just been made a consumer group"),
        }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        self.offsets.check();
        for (id, group) in &self.groups {
            match group {
                Group::Classic(_) => {}
                Group::Consumer(group) => group.check(id),
            }
        }
    }
}
