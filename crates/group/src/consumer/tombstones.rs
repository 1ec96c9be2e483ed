//! The records that take a member, or a whole consumer group, out of the log.

use alloc::vec::Vec;

use crate::consumer::group::ConsumerGroup;
use crate::{GroupId, GroupRecord, MemberId};

/// The tombstones of one member, last written first.
pub fn member_tombstones(group: &GroupId, member: &MemberId) -> [GroupRecord; 3] {
    [
        GroupRecord::CurrentAssignment { group: group.clone(), member: member.clone(), value: None },
        GroupRecord::TargetAssignmentMember { group: group.clone(), member: member.clone(), value: None },
        GroupRecord::ConsumerGroupMember { group: group.clone(), member: member.clone(), value: None },
    ]
}

impl ConsumerGroup {
    /// The tombstones of the whole group. Type 4 is among them because Kafka 4.0 may have written one.
    ///
    /// Source: Kafka ConsumerGroup.createGroupTombstoneRecords.
    pub fn tombstones(&self, group: &GroupId) -> Vec<GroupRecord> {
        let members = || self.members.keys();
        let current = members().map(|member| GroupRecord::CurrentAssignment {
            group: group.clone(),
            member: member.clone(),
            value: None,
        });
        let targets = self.targets.keys().map(|member| GroupRecord::TargetAssignmentMember {
            group: group.clone(),
            member: member.clone(),
            value: None,
        });
        let regexes = self.regexes.keys().map(|regex| GroupRecord::RegularExpression {
            group: group.clone(),
            regex: regex.clone(),
            value: None,
        });
        let described = members().map(|member| GroupRecord::ConsumerGroupMember {
            group: group.clone(),
            member: member.clone(),
            value: None,
        });
        let mut records: Vec<GroupRecord> = current.chain(targets).collect();
        records.push(GroupRecord::TargetAssignmentMetadata { group: group.clone(), value: None });
        records.extend(described.chain(regexes));
        records.push(GroupRecord::ConsumerGroupPartitionMetadata { group: group.clone() });
        records.push(GroupRecord::ConsumerGroupMetadata { group: group.clone(), value: None });
        records
    }
}
