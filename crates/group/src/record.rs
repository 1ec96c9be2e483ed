//! What is kept in `__consumer_offsets`, one value per record.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_types::{KeptBytes, LeaderEpoch, Millis, Offset, PartitionIndex, TopicName, Uuid};

use crate::{ClassicMetadata, GroupId, InstanceId, MemberId};

/// A record of a group coordinator; `None` as its value is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupRecord {
    /// An offset was committed (type 1; type 0 is read as well).
    OffsetCommit {
        /// The group.
        group: GroupId,
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionIndex,
        /// The offset.
        value: Option<CommittedOffset>,
    },
    /// A classic group has a new generation (type 2).
    GroupMetadata {
        /// The group.
        group: GroupId,
        /// The generation.
        value: Option<ClassicMetadata>,
    },
    /// A consumer group has a new epoch (type 3).
    ConsumerGroupMetadata {
        /// The group.
        group: GroupId,
        /// The epoch.
        value: Option<ConsumerGroupEpoch>,
    },
    /// Kafka 4.0 kept the topics of a group here (type 4). Only ever deleted.
    ConsumerGroupPartitionMetadata {
        /// The group.
        group: GroupId,
    },
    /// A member of a consumer group, as it described itself (type 5).
    ConsumerGroupMember {
        /// The group.
        group: GroupId,
        /// The member.
        member: MemberId,
        /// How it is.
        value: Option<ConsumerMemberMetadata>,
    },
    /// A consumer group has a new target assignment (type 6).
    TargetAssignmentMetadata {
        /// The group.
        group: GroupId,
        /// Its epoch.
        value: Option<TargetAssignmentEpoch>,
    },
    /// What a member shall own (type 7).
    TargetAssignmentMember {
        /// The group.
        group: GroupId,
        /// The member.
        member: MemberId,
        /// What it shall own.
        value: Option<Assignment>,
    },
    /// What a member owns (type 8).
    CurrentAssignment {
        /// The group.
        group: GroupId,
        /// The member.
        member: MemberId,
        /// What it owns.
        value: Option<CurrentAssignment>,
    },
    /// The topics that a regular expression stands for (type 16).
    RegularExpression {
        /// The group.
        group: GroupId,
        /// The expression.
        regex: Arc<str>,
        /// The topics.
        value: Option<ResolvedRegex>,
    },
}

/// Partitions by topic id, each topic's in order.
pub type Assignment = BTreeMap<Uuid, BTreeSet<PartitionIndex>>;
/// Partitions by topic id, with the member epoch at which each was assigned.
pub type EpochAssignment = BTreeMap<Uuid, BTreeMap<PartitionIndex, i32>>;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommittedOffset {
    /// The offset.
    pub offset: Offset,
    /// The leader epoch of the last record read, or none.
    pub leader_epoch: LeaderEpoch,
    /// The client's own words.
    pub metadata: Arc<str>,
    /// When it was committed.
    pub commit_timestamp: Millis,
    /// When it expires, if the client said so. Then leader epoch and topic id are not kept (value version 1).
    pub expire_timestamp: Option<Millis>,
    /// The topic's id, or [`Uuid::ZERO`].
    pub topic_id: Uuid,
}

impl CommittedOffset {
    /// The offset as the log can hold it: with an expiry of its own it has neither leader epoch nor topic id.
    pub fn as_logged(self) -> Self {
        match self.expire_timestamp {
            Some(_) => Self { leader_epoch: LeaderEpoch::NONE, topic_id: Uuid::ZERO, ..self },
            None => self,
        }
    }
}

/// The epoch of a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerGroupEpoch {
    /// Counts the changes of members, subscriptions and topics.
    pub epoch: i32,
    /// Over the topics it is subscribed to, as they were; 0 for none.
    pub metadata_hash: i64,
}

/// A member of a consumer group, as it described itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerMemberMetadata {
    /// Its static name.
    pub instance_id: Option<InstanceId>,
    /// Its rack.
    pub rack_id: Option<Arc<str>>,
    /// Its client's id.
    pub client_id: Arc<str>,
    /// Its client's address.
    pub client_host: Arc<str>,
    /// The topics it asked for by name.
    pub subscribed_topic_names: BTreeSet<TopicName>,
    /// The expression it asked with; empty for none.
    pub subscribed_topic_regex: Arc<str>,
    /// Milliseconds it may take to give up partitions.
    pub rebalance_timeout_ms: i32,
    /// The assignor it asked for.
    pub server_assignor: Option<Arc<str>>,
    /// Set if it uses the classic protocol.
    pub classic: Option<ClassicMemberProtocols>,
}

/// What a classic member of a consumer group brought with its JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassicMemberProtocols {
    /// Milliseconds it may be silent.
    pub session_timeout_ms: i32,
    /// The protocols it knows, best first, with its metadata for each.
    pub protocols: Vec<(Arc<str>, KeptBytes)>,
}

/// The epoch of a target assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetAssignmentEpoch {
    /// The group epoch that it was made for.
    pub epoch: i32,
    /// When it was made; 0 for "at no time that counts".
    pub timestamp: Millis,
}

/// How far a member has come towards its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// It has what it shall have at its epoch.
    Stable,
    /// It has to give up partitions.
    UnrevokedPartitions,
    /// It waits for partitions that others hold.
    UnreleasedPartitions,
}

/// What a member owns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CurrentAssignment {
    /// Its epoch.
    pub member_epoch: i32,
    /// The one before.
    pub previous_member_epoch: i32,
    /// How far it is.
    pub state: MemberState,
    /// What it may own.
    pub assigned: EpochAssignment,
    /// What it must give up.
    pub pending_revocation: EpochAssignment,
}

/// The topics that a regular expression stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResolvedRegex {
    /// Their names.
    pub topics: BTreeSet<TopicName>,
    /// The version of the metadata they were found in.
    pub version: i64,
    /// When.
    pub timestamp: Millis,
}
