//! How partitions are spread over the members of a consumer group.

mod range;
mod uniform;

use alloc::collections::{BTreeMap, BTreeSet};

use fencepost_types::Uuid;

use crate::{Assignment, Assignor, InstanceId, MemberId};

/// A member as an assignor sees it.
#[derive(Clone, Debug)]
pub struct MemberSpec<'a> {
    /// Its static name.
    pub instance_id: Option<&'a InstanceId>,
    /// The topics it reads. All of them exist.
    pub topics: BTreeSet<Uuid>,
    /// What it was to own before.
    pub target: Option<&'a Assignment>,
}

/// The members of a group.
pub type Specs<'a> = BTreeMap<&'a MemberId, MemberSpec<'a>>;

/// Spreads the partitions of `topics` (how many each has) over `members`: each partition of a topic that somebody reads
/// goes to one member that reads it. Every member has an entry.
pub fn assign(
    assignor: Assignor,
    members: &Specs<'_>,
    topics: &BTreeMap<Uuid, i32>,
) -> BTreeMap<MemberId, Assignment> {
    match assignor {
        Assignor::Range => range::assign(members, topics),
        Assignor::Uniform => uniform::assign(members, topics),
    }
}

#[cfg(test)]
mod tests;
