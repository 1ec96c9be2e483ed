//! The steps of one member from what it owns to what it shall own.
//!
//! ```text
//!            target differs, owns what must go              owns none of it any more
//!  Stable ───────────────────────────────► UnrevokedPartitions ──────┐
//!    ▲  └── target differs, nothing must go ─────────────────────────►│ at the target's epoch:
//!    │                                                               ▼ what is free is assigned
//!    └───────────────── everything was free ◄── UnreleasedPartitions ◄── others still hold some of it
//! ```
//!
//! Source: KIP-848, Kafka CurrentAssignmentBuilder.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use fencepost_types::{PartitionIndex, Uuid};

use crate::{Assignment, CurrentAssignment, EpochAssignment, MemberId, MemberState, SharedMap};

/// Who holds each partition.
pub type Owners = SharedMap<(Uuid, PartitionIndex), MemberId>;
/// The partitions that a member says it owns; `None` says nothing.
pub type Owned = Option<BTreeMap<Uuid, Vec<PartitionIndex>>>;

/// What one member shall come to.
pub struct Target<'a> {
    /// The member.
    pub member_id: &'a MemberId,
    /// The epoch of the target assignment.
    pub epoch: i32,
    /// What it shall own, of the topics it reads.
    pub partitions: &'a Assignment,
    /// What it says it owns.
    pub owned: &'a Owned,
    /// Who holds what now.
    pub owners: &'a Owners,
}

impl Target<'_> {
    /// What the member has after its heartbeat.
    pub fn reconcile(&self, current: &CurrentAssignment) -> CurrentAssignment {
        let is_there = current.member_epoch == self.epoch && is_within(&current.assigned, self.partitions);
        match current.state {
            MemberState::Stable if is_there => current.clone(),
            MemberState::Stable | MemberState::UnreleasedPartitions => {
                self.next(current, current.member_epoch)
            }
            MemberState::UnrevokedPartitions if owns(self.owned, &current.pending_revocation) => {
                current.clone()
            }
            // One epoch for what it has given up; never beyond the target's, from where there is no way but back.
            MemberState::UnrevokedPartitions => {
                let bumped = current.member_epoch.saturating_add(1).min(self.epoch);
                self.next(current, bumped.max(current.member_epoch))
            }
        }
    }

    /// The next step: give up what is not in the target, at `epoch`; if nothing has to be given up, take what is free,
    /// at the target's epoch.
    fn next(&self, current: &CurrentAssignment, epoch: i32) -> CurrentAssignment {
        let (mut assigned, pending_revocation) = split(&current.assigned, self.partitions);
        if !pending_revocation.is_empty() && owns(self.owned, &pending_revocation) {
            return CurrentAssignment {
                member_epoch: epoch,
                previous_member_epoch: current.member_epoch,
                state: MemberState::UnrevokedPartitions,
                assigned,
                pending_revocation,
            };
        }
        let mut is_complete = true;
        let wanted = self.partitions.iter().flat_map(|(topic, all)| all.iter().map(|one| (*topic, *one)));
        for (topic, partition) in wanted {
            if assigned.get(&topic).is_some_and(|of_topic| of_topic.contains_key(&partition)) {
                continue;
            }
            if self.owners.get(&(topic, partition)).is_some_and(|owner| owner != self.member_id) {
                is_complete = false;
                continue;
            }
            assigned.entry(topic).or_default().insert(partition, self.epoch);
        }
        CurrentAssignment {
            member_epoch: self.epoch,
            previous_member_epoch: current.member_epoch,
            state: if is_complete { MemberState::Stable } else { MemberState::UnreleasedPartitions },
            assigned,
            pending_revocation: EpochAssignment::new(),
        }
    }
}

/// What stays, and what goes.
fn split(assigned: &EpochAssignment, target: &Assignment) -> (EpochAssignment, EpochAssignment) {
    let (mut stays, mut goes) = (EpochAssignment::new(), EpochAssignment::new());
    for (topic, partitions) in assigned {
        for (partition, epoch) in partitions {
            let is_wanted = target.get(topic).is_some_and(|wanted| wanted.contains(partition));
            let side = if is_wanted { &mut stays } else { &mut goes };
            side.entry(*topic).or_default().insert(*partition, *epoch);
        }
    }
    (stays, goes)
}

fn is_within(assigned: &EpochAssignment, target: &Assignment) -> bool {
    assigned.iter().all(|(topic, partitions)| {
        target.get(topic).is_some_and(|wanted| partitions.keys().all(|partition| wanted.contains(partition)))
    })
}

/// Whether a member still owns some of `partitions`. One that does not say may.
fn owns(owned: &Owned, partitions: &EpochAssignment) -> bool {
    let Some(owned) = owned else { return true };
    owned.iter().any(|(topic, owned)| {
        partitions.get(topic).is_some_and(|of_topic| owned.iter().any(|one| of_topic.contains_key(one)))
    })
}

/// Whether everything that a member says it owns is assigned to it.
pub fn owns_within(owned: &Owned, assigned: &EpochAssignment) -> bool {
    let Some(owned) = owned else { return false };
    owned.iter().all(|(topic, owned)| {
        let of_topic = assigned.get(topic);
        owned.iter().all(|one| of_topic.is_some_and(|of_topic| of_topic.contains_key(one)))
    })
}
