//! Which offsets a member of a consumer group may commit and read.
//!
//! Source: KIP-848, KIP-1251, KAFKA-18060, Kafka ConsumerGroup.validateOffsetCommit, validateOffsetFetch.

use fencepost_types::{PartitionIndex, Uuid};

use crate::consumer::group::{ConsumerGroup, ConsumerMember};
use crate::{Committer, EpochAssignment, GroupRefusal, MemberId, TopicOffsets};

/// Whether the group takes a commit from this committer.
///
/// The member's own epoch passes; an older one does for partitions that the member has held since then, and one other
/// partition fails them all (KIP-1251). `has_member_epochs`: whether the request's version knows of member epochs;
/// without, only classic members may commit.
pub fn validate_commit(
    group: &ConsumerGroup,
    committer: &Committer,
    topics: &[TopicOffsets],
    has_member_epochs: bool,
) -> Result<(), GroupRefusal> {
    // An administrator, while nobody else is there.
    if committer.generation < 0 && group.members.is_empty() {
        return Ok(());
    }
    let unknown = || GroupRefusal::UnknownMemberId { member_id: committer.member_id.clone() };
    let member = group.members.get(&committer.member_id).ok_or_else(unknown)?;
    if !member.is_classic() && !has_member_epochs {
        return Err(GroupRefusal::UnsupportedVersion);
    }
    let epoch = committer.generation;
    if epoch == member.current.member_epoch {
        return Ok(());
    }
    let held_since = |topic: &TopicOffsets| {
        topic.partitions.iter().all(|offset| has_held(member, topic.topic_id, offset.partition, epoch))
    };
    if epoch < member.current.member_epoch && topics.iter().all(held_since) {
        return Ok(());
    }
    Err(wrong_epoch(member, epoch))
}

/// Whether a member may read offsets. A request without member and epoch comes from an administrator.
///
/// Differs from Kafka: a null member id beside an epoch is nobody's, where Kafka fails inside.
pub fn validate_fetch(
    group: &ConsumerGroup,
    member_id: Option<&MemberId>,
    member_epoch: i32,
) -> Result<(), GroupRefusal> {
    let Some(member_id) = member_id else {
        if member_epoch < 0 {
            return Ok(());
        }
        return Err(GroupRefusal::UnknownMemberId { member_id: MemberId::from("") });
    };
    let unknown = || GroupRefusal::UnknownMemberId { member_id: member_id.clone() };
    let member = group.members.get(member_id).ok_or_else(unknown)?;
    if member_epoch == member.current.member_epoch { Ok(()) } else { Err(wrong_epoch(member, member_epoch)) }
}

/// Whether the member has held a partition since `epoch`, or before, and has not given it up.
fn has_held(member: &ConsumerMember, topic_id: Uuid, partition: PartitionIndex, epoch: i32) -> bool {
    let since = |assignment: &EpochAssignment| assignment.get(&topic_id)?.get(&partition).copied();
    let since = since(&member.current.assigned).or_else(|| since(&member.current.pending_revocation));
    since.is_some_and(|since| since <= epoch)
}

/// A classic member knows generations only.
fn wrong_epoch(member: &ConsumerMember, found: i32) -> GroupRefusal {
    let expected = member.current.member_epoch;
    if member.is_classic() {
        GroupRefusal::IllegalGeneration { expected, found }
    } else {
        GroupRefusal::StaleMemberEpoch { expected, found }
    }
}
