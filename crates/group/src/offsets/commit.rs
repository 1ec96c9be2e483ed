//! OffsetCommit, and what it shares with its transactional sibling.
//!
//! Source: KIP-211 (retention), KIP-447, KIP-1251 (older epochs), Kafka OffsetMetadataManager.commitOffset,
//! ClassicGroup.validateOffsetCommit, ConsumerGroup.validateOffsetCommit.

use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, Millis, Now};

use crate::classic::draft::Decided;
use crate::classic::group::{ClassicGroup, ClassicState};
use crate::classic::heartbeat::renewed_session;
use crate::consumer::fencing;
use crate::shard::Found;
use crate::{
    CommittedOffset, Committer, GroupId, GroupRecord, GroupRefusal, GroupShard, OffsetCommit,
    PartitionOffset, Reply, TopicErrors, TopicOffsets, Topics,
};

/// From this version on an unknown group is told from a wrong generation, and member epochs are understood.
const GROUP_ID_NOT_FOUND_FROM: i16 = 9;
/// The retention time that stands for the coordinator's own.
const DEFAULT_RETENTION: i64 = -1;

impl GroupShard {
    /// Commits offsets, or says why not.
    pub(crate) fn offset_commit(&self, now: Now, token: Token, request: &OffsetCommit) -> Decided {
        let committer = &request.committer;
        let mut renewed = None;
        match self.find(&request.group) {
            // A committer without a generation makes a group that only keeps offsets.
            Found::Nothing if committer.generation < 0 => {}
            Found::Nothing if request.api_version >= GROUP_ID_NOT_FOUND_FROM => {
                return Err(GroupRefusal::GroupIdNotFound { group: request.group.clone() });
            }
            Found::Nothing => {
                return Err(GroupRefusal::IllegalGeneration { expected: -1, found: committer.generation });
            }
            Found::Classic(group) => {
                validate_classic(&group, committer)?;
                renewed = match group.state {
                    ClassicState::Stable | ClassicState::PreparingRebalance => {
                        renewed_session(now, &group, &committer.member_id)
                    }
                    ClassicState::Empty | ClassicState::CompletingRebalance => None,
                };
            }
            Found::Consumer(group) => {
                let has_member_epochs = request.api_version >= GROUP_ID_NOT_FOUND_FROM;
                fencing::validate_commit(group, committer, &request.topics, has_member_epochs)?;
            }
        }
        let kept = request.retention_ms != DEFAULT_RETENTION;
        let expire_timestamp = kept.then(|| now.wall.plus(request.retention_ms));
        let (records, answer) =
            self.commit_records(now, &request.group, &request.topics, &request.existing, expire_timestamp);
        let mut decision = Decision::write(records, token, Reply::Commit(answer));
        decision.soft.extend(renewed);
        Ok(decision)
    }

    /// The records of a commit, and the answer for each partition. A topic that was there when the request came and is not
    /// any more is UNKNOWN_TOPIC_ID: its offsets have had their tombstones, perhaps, and would outlive it.
    pub(crate) fn commit_records(
        &self,
        now: Now,
        group: &GroupId,
        topics: &[TopicOffsets],
        existing: &Topics,
        expire_timestamp: Option<Millis>,
    ) -> (Vec<GroupRecord>, Vec<TopicErrors>) {
        let mut records = Vec::new();
        let mut answer = Vec::with_capacity(topics.len());
        for topic in topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                if !existing.has(topic.topic_id) {
                    partitions.push((partition.partition, ErrorCode::UnknownTopicId));
                    continue;
                }
                if is_too_long(partition, self.config.offset_metadata_max) {
                    partitions.push((partition.partition, ErrorCode::OffsetMetadataTooLarge));
                    continue;
                }
                partitions.push((partition.partition, ErrorCode::None));
                records.push(GroupRecord::OffsetCommit {
                    group: group.clone(),
                    topic: topic.topic.clone(),
                    partition: partition.partition,
                    value: Some(committed(now, topic, partition, expire_timestamp)),
                });
            }
            answer.push(TopicErrors { topic: topic.topic.clone(), topic_id: topic.topic_id, partitions });
        }
        (records, answer)
    }
}

/// Whether the classic group takes a plain commit from this committer.
fn validate_classic(group: &ClassicGroup, committer: &Committer) -> Result<(), GroupRefusal> {
    // An administrator, or a consumer that assigns to itself: while nobody else is there.
    if committer.generation < 0 && group.state == ClassicState::Empty {
        return Ok(());
    }
    if committer.is_nobody() {
        return Err(GroupRefusal::UnknownMemberId { member_id: committer.member_id.clone() });
    }
    group.validate_member(&committer.member_id, committer.instance_id.as_ref())?;
    group.validate_generation(committer.generation)?;
    // It knows the generation and has not synced: it shall do that first.
    if group.state == ClassicState::CompletingRebalance {
        return Err(GroupRefusal::RebalanceInProgress);
    }
    Ok(())
}

impl Committer {
    /// Whether the request names no member at all.
    pub fn is_nobody(&self) -> bool {
        self.generation < 0 && self.member_id.is_empty() && self.instance_id.is_none()
    }
}

/// Whether the client's words are too many. Counted in UTF-16 units, whatever the setting's name says.
fn is_too_long(partition: &PartitionOffset, metadata_max: usize) -> bool {
    partition.metadata.as_ref().is_some_and(|metadata| metadata.encode_utf16().count() > metadata_max)
}

fn committed(
    now: Now,
    topic: &TopicOffsets,
    partition: &PartitionOffset,
    expire_timestamp: Option<Millis>,
) -> CommittedOffset {
    CommittedOffset {
        offset: partition.offset,
        leader_epoch: partition.leader_epoch,
        metadata: partition.metadata.clone().unwrap_or_else(|| Arc::from("")),
        commit_timestamp: now.wall,
        expire_timestamp,
        topic_id: topic.topic_id,
    }
    .as_logged()
}
