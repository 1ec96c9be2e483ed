//! Offsets that nobody has used for long, and groups that have nothing left.
//!
//! Source: KIP-211, KAFKA-19163, Kafka OffsetMetadataManager.cleanupExpiredOffsets,
//! ClassicGroup.offsetExpirationCondition.

use alloc::vec::Vec;
use core::ops::Bound;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{Millis, Now};

use crate::classic::draft::GroupDecision;
use crate::classic::group::{ClassicGroup, ClassicState};
use crate::offsets::delete::tombstone;
use crate::offsets::store::PartitionOffsets;
use crate::shard::Found;
use crate::soft::Expiry;
use crate::{CommittedOffset, GroupId, GroupRecord, GroupShard, Reply, Soft};

/// The most groups that one step of a sweep looks at.
const GROUPS_PER_STEP_MAX: usize = 200;
/// A step of a sweep ends once it has this many records.
const RECORDS_PER_STEP: usize = 1_000;

/// What an offset's age counts from.
enum AgeFrom {
    /// Its commit.
    Commit,
    /// The moment its group lost its last member.
    Empty(Millis),
    /// It has none: the group is in use, or on its way.
    Never,
}

impl GroupShard {
    /// One step of the sweep: some groups, and when to go on.
    pub(crate) fn expire_offsets(&self, now: Now, token: Token) -> GroupDecision {
        let mut decision = Decision::answer(token, Reply::Done);
        let from = match &self.volatile.expiry.after {
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Unbounded,
        };
        let mut after = None;
        let groups = self.durable.groups.range::<GroupId, _>((from, Bound::Unbounded));
        for (looked_at, (id, _)) in groups.enumerate() {
            if looked_at == GROUPS_PER_STEP_MAX || decision.records.len() >= RECORDS_PER_STEP {
                let soft = Soft::Expiry(Expiry { due: now.mono, after });
                decision.soft.push(soft);
                return decision;
            }
            self.expire_group(now, id, &mut decision);
            after = Some(id.clone());
        }
        let due = now.mono.plus_ms(self.config.offsets_retention_check_interval_ms);
        decision.soft.push(Soft::Expiry(Expiry { due, after: None }));
        decision
    }

    /// Tombstones for the old offsets of a group, and for the group if it has nothing left: no member, no offset,
    /// nothing pending.
    fn expire_group(&self, now: Now, id: &GroupId, decision: &mut GroupDecision) {
        let group = self.find(id);
        let age_from = age_from(&group);
        let subscribed = match &group {
            Found::Nothing => return,
            Found::Classic(group) => group.subscribed_topics(),
            Found::Consumer(group) => {
                let topics = group.subscribed_topics();
                Some(topics.iter().map(|topic| alloc::string::String::from(&**topic)).collect())
            }
        };
        let is_read = |topic: &str| subscribed.as_ref().is_none_or(|topics| topics.contains(topic));
        let mut tombstones: Vec<GroupRecord> = Vec::new();
        let mut is_kept = false;
        for (key, offsets) in self.durable.offsets.of_group(id) {
            if !is_read(&key.topic) && self.is_expired(now, &age_from, offsets) {
                tombstones.push(tombstone(id, key));
            } else {
                is_kept = true;
            }
        }
        decision.records.append(&mut tombstones);
        if !is_kept {
            self.delete_if_empty(id, &group, decision);
        }
    }

    fn is_expired(&self, now: Now, age_from: &AgeFrom, offsets: &PartitionOffsets) -> bool {
        let Some(logged) = &offsets.committed else { return false };
        if !offsets.pending.is_empty() {
            return false;
        }
        let value: &CommittedOffset = &logged.value;
        let from = match age_from {
            AgeFrom::Never => return false,
            AgeFrom::Commit => value.commit_timestamp,
            AgeFrom::Empty(since) => *since,
        };
        match value.expire_timestamp {
            Some(expire_timestamp) => now.wall >= expire_timestamp,
            None => now.wall.since(from) >= self.config.offsets_retention_ms,
        }
    }

    fn delete_if_empty(&self, id: &GroupId, group: &Found<'_>, decision: &mut GroupDecision) {
        match group {
            Found::Nothing => {}
            Found::Classic(group) if group.is_idle() => {
                decision.records.push(GroupRecord::GroupMetadata { group: id.clone(), value: None });
                decision.soft.push(Soft::Forget(id.clone()));
            }
            Found::Classic(_) => {}
            Found::Consumer(group) if group.members.is_empty() => {
                decision.records.extend(group.tombstones(id));
                decision.soft.push(Soft::Forget(id.clone()));
            }
            Found::Consumer(_) => {}
        }
    }
}

fn age_from(group: &Found<'_>) -> AgeFrom {
    match group {
        Found::Nothing => AgeFrom::Never,
        Found::Consumer(_) => AgeFrom::Commit,
        Found::Classic(group) => age_from_classic(group),
    }
}

/// A group without a protocol type keeps offsets for consumers that are no members: each has its own age. A group
/// that had members ages as a whole, since it lost the last one.
fn age_from_classic(group: &ClassicGroup) -> AgeFrom {
    match group.state {
        _ if group.protocol_type.is_none() => AgeFrom::Commit,
        ClassicState::Empty if group.current_state_timestamp == Millis::NONE => AgeFrom::Commit,
        ClassicState::Empty => AgeFrom::Empty(group.current_state_timestamp),
        ClassicState::Stable if group.is_consumers() => AgeFrom::Commit,
        ClassicState::Stable | ClassicState::PreparingRebalance | ClassicState::CompletingRebalance => {
            AgeFrom::Never
        }
    }
}
