//! Offsets that go: by OffsetDelete, with their topic, or with their group.
//!
//! Source: KIP-496, Kafka OffsetMetadataManager.deleteOffsets, deleteAllOffsets, onPartitionsDeleted.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, TopicPartition, Uuid};

use crate::classic::draft::Decided;
use crate::classic::group::ClassicState;
use crate::offsets::store::PartitionOffsets;
use crate::shard::Found;
use crate::{
    GroupId, GroupRecord, GroupRefusal, GroupShard, OffsetDelete, Reply, TopicErrors, TopicPartitions,
    TopicsDeleted,
};

/// The most tombstones that one request about deleted topics writes: a batch stays well below `max.message.bytes`.
const TOMBSTONES_PER_STEP_MAX: usize = 1_000;

/// The topics that a group reads: their offsets stay. `None` is "any".
type Subscribed = Option<BTreeSet<String>>;

impl GroupShard {
    /// Deletes offsets of topics that the group does not read.
    pub(crate) fn offset_delete(&self, token: Token, request: &OffsetDelete) -> Decided {
        if request.group.is_empty() {
            return Err(GroupRefusal::InvalidGroupId);
        }
        let subscribed = self.subscribed(&request.group)?;
        let mut records = Vec::new();
        let mut answer = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let is_read = subscribed.as_ref().is_none_or(|topics| topics.contains(&*topic.topic));
            let error = if is_read { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None };
            if !is_read {
                records.extend(self.topic_tombstones(&request.group, topic));
            }
            answer.push(TopicErrors {
                topic: topic.topic.clone(),
                topic_id: topic.topic_id,
                partitions: topic.partitions.iter().map(|partition| (*partition, error)).collect(),
            });
        }
        Ok(Decision::write(records, token, Reply::OffsetDelete(answer)))
    }

    /// The topics that a group reads. A group of another type than consumers says nothing about topics, so it must
    /// have no members.
    fn subscribed(&self, group: &GroupId) -> Result<Subscribed, GroupRefusal> {
        match self.find(group) {
            Found::Nothing => Err(GroupRefusal::GroupIdNotFound { group: group.clone() }),
            Found::Classic(group) if group.state != ClassicState::Empty && !group.is_consumers() => {
                Err(GroupRefusal::NonEmptyGroup)
            }
            Found::Classic(group) => Ok(group.subscribed_topics()),
            Found::Consumer(group) => {
                let topics = group.subscribed_topics();
                Ok(Some(topics.iter().map(|topic| String::from(&**topic)).collect()))
            }
        }
    }

    /// A tombstone for each partition that has an offset, committed or pending.
    fn topic_tombstones<'a>(
        &'a self,
        group: &'a GroupId,
        topic: &'a TopicPartitions,
    ) -> impl Iterator<Item = GroupRecord> + 'a {
        let keys = topic
            .partitions
            .iter()
            .map(|partition| TopicPartition { topic: topic.topic.clone(), partition: *partition });
        let there = keys.filter(|key| self.durable.offsets.get(group, key).is_some());
        there.map(|key| tombstone(group, &key))
    }

    /// The tombstones of all offsets of a group.
    pub(crate) fn all_tombstones(&self, group: &GroupId) -> Vec<GroupRecord> {
        self.durable.offsets.of_group(group).map(|(key, _)| tombstone(group, key)).collect()
    }

    /// Topics are gone: so are their offsets, in every group. One step of it.
    pub(crate) fn topics_deleted(&self, token: Token, request: &TopicsDeleted) -> Decided {
        let mut records = Vec::new();
        for (group, key, offsets) in self.durable.offsets.after(request.after.as_ref()) {
            if !is_gone(request, key, offsets) {
                continue;
            }
            records.push(tombstone(group, key));
            if records.len() == TOMBSTONES_PER_STEP_MAX {
                let next = Some((group.clone(), key.clone()));
                return Ok(Decision::write(records, token, Reply::OffsetsForgotten(next)));
            }
        }
        Ok(Decision::write(records, token, Reply::OffsetsForgotten(None)))
    }
}

/// Whether all offsets of a partition, committed and pending, belong to topics that are gone. The name may have been taken
/// again; a record without a topic id can go by the name alone.
fn is_gone(request: &TopicsDeleted, key: &TopicPartition, offsets: &PartitionOffsets) -> bool {
    let mut logged = offsets.committed.iter().chain(offsets.pending.values());
    logged.all(|logged| match logged.value.topic_id {
        Uuid::ZERO => request.names.contains(&key.topic) || request.existing.get(&key.topic).is_none(),
        id => !request.existing.has(id),
    })
}

/// The record that deletes an offset.
pub(crate) fn tombstone(group: &GroupId, key: &TopicPartition) -> GroupRecord {
    GroupRecord::OffsetCommit {
        group: group.clone(),
        topic: key.topic.clone(),
        partition: key.partition,
        value: None,
    }
}
