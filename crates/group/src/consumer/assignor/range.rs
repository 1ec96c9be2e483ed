//! `range`: each topic is cut into consecutive pieces, one per reader.
//!
//! Source: Kafka RangeAssignor (group coordinator).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use fencepost_types::{PartitionIndex, Uuid};

use super::Specs;
use crate::{Assignment, MemberId};

/// See [`super::assign`]. Readers stand in the order of their static names, then of their ids, so that topics with as
/// many partitions and the same readers are cut alike.
pub fn assign(members: &Specs<'_>, topics: &BTreeMap<Uuid, i32>) -> BTreeMap<MemberId, Assignment> {
    let mut assignment: BTreeMap<MemberId, Assignment> =
        members.keys().map(|member_id| ((*member_id).clone(), Assignment::new())).collect();
    let mut order: Vec<&MemberId> = members.keys().copied().collect();
    order.sort_by_key(|member_id| {
        let instance_id = members[*member_id].instance_id;
        (instance_id.is_none(), instance_id, *member_id)
    });
    for (topic, count) in topics {
        let readers: Vec<&MemberId> =
            order.iter().copied().filter(|member_id| members[*member_id].topics.contains(topic)).collect();
        let Ok(reader_count) = i32::try_from(readers.len()) else { continue };
        if reader_count == 0 {
            continue;
        }
        let (share, larger) = (count / reader_count, count % reader_count);
        let mut next = 0;
        for (at, member_id) in (0..).zip(readers) {
            let end = next + share + i32::from(at < larger);
            if end > next {
                let of_member = assignment.entry(member_id.clone()).or_default();
                of_member.insert(*topic, (next..end).map(PartitionIndex).collect());
            }
            next = end;
        }
    }
    assignment
}
