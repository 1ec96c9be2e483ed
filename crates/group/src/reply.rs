//! What a group coordinator answers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_types::{
    ErrorCode, KeptBytes, LeaderEpoch, Offset, PartitionIndex, TopicName, TopicPartition, Uuid,
};

use crate::{GroupId, InstanceId, MemberId};

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To JoinGroup.
    Join(JoinReply),
    /// To SyncGroup.
    Sync(SyncReply),
    /// To Heartbeat.
    Heartbeat(ErrorCode),
    /// To LeaveGroup.
    Leave(LeaveReply),
    /// To OffsetCommit and TxnOffsetCommit: per partition, in the order of the request.
    Commit(Vec<TopicErrors>),
    /// To OffsetFetch.
    Fetch(Vec<TopicFetched>),
    /// To OffsetDelete: per partition, in the order of the request.
    OffsetDelete(Vec<TopicErrors>),
    /// To DescribeGroups, in the order of the request.
    Describe(Vec<DescribedGroup>),
    /// To ListGroups, by name.
    List(Vec<ListedGroup>),
    /// To DeleteGroups, in the order of the request.
    Delete(Vec<(GroupId, ErrorCode)>),
    /// To ConsumerGroupHeartbeat.
    ConsumerHeartbeat(ConsumerHeartbeatReply),
    /// To ConsumerGroupDescribe, in the order of the request.
    ConsumerDescribe(Vec<DescribedConsumerGroup>),
    /// To TopicsDeleted: where the next request goes on; `None` when all offsets were looked at.
    OffsetsForgotten(Option<(GroupId, TopicPartition)>),
    /// To what has nothing to say.
    Done,
}

/// The answer to JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JoinReply {
    /// What went wrong.
    pub error: ErrorCode,
    /// The generation, or −1.
    pub generation: i32,
    /// The kind of protocol. Version 7 and later show it; null there on error.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol that was chosen. Versions below 7 show an empty one for null.
    pub protocol_name: Option<Arc<str>>,
    /// The leader's id, or empty.
    pub leader: MemberId,
    /// Whether the leader must not assign.
    pub skip_assignment: bool,
    /// The member's id.
    pub member_id: MemberId,
    /// To the leader: every member with its metadata for the protocol.
    pub members: Vec<JoinedMember>,
}

/// A member as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: MemberId,
    /// Its static name.
    pub instance_id: Option<InstanceId>,
    /// Its metadata for the chosen protocol.
    pub metadata: KeptBytes,
}

/// The answer to SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyncReply {
    /// What went wrong.
    pub error: ErrorCode,
    /// The kind of protocol; null on error.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol; null on error.
    pub protocol_name: Option<Arc<str>>,
    /// What the leader gave this member.
    pub assignment: KeptBytes,
}

/// The answer to LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaveReply {
    /// What went wrong; below version 3 the one member's error.
    pub error: ErrorCode,
    /// From version 3 on, per member in the order of the request.
    pub members: Vec<LeftMember>,
}

/// What became of a member that wanted to leave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeftMember {
    /// Its id as the request had it.
    pub member_id: MemberId,
    /// Its static name as the request had it.
    pub instance_id: Option<InstanceId>,
    /// What went wrong.
    pub error: ErrorCode,
}

/// Errors by partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicErrors {
    /// The topic.
    pub topic: TopicName,
    /// Its id as the request had it.
    pub topic_id: Uuid,
    /// What went wrong for each partition.
    pub partitions: Vec<(PartitionIndex, ErrorCode)>,
}

/// Committed offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicFetched {
    /// The topic.
    pub topic: TopicName,
    /// Its id as the request had it, or, when everything was asked for, as it was when the offset was committed.
    pub topic_id: Uuid,
    /// The partitions.
    pub partitions: Vec<PartitionFetched>,
}

/// The committed offset of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionFetched {
    /// The partition.
    pub partition: PartitionIndex,
    /// UNSTABLE_OFFSET_COMMIT, or none.
    pub error: ErrorCode,
    /// The offset, or −1.
    pub offset: Offset,
    /// The leader epoch that was committed with it, or −1.
    pub leader_epoch: LeaderEpoch,
    /// The client's own words.
    pub metadata: Arc<str>,
}

impl PartitionFetched {
    /// Nothing committed, or not to be told yet.
    pub fn nothing(partition: PartitionIndex, error: ErrorCode) -> Self {
        Self {
            partition,
            error,
            offset: Offset::NONE,
            leader_epoch: LeaderEpoch::NONE,
            metadata: Arc::from(""),
        }
    }
}

/// A group as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedGroup {
    /// The group.
    pub group: GroupId,
    /// What went wrong.
    pub error: ErrorCode,
    /// Said from version 6 on.
    pub error_message: Option<String>,
    /// The state's name; `Dead` for a group that is not there.
    pub state: &'static str,
    /// The kind of protocol, or empty.
    pub protocol_type: Arc<str>,
    /// The protocol of a stable group, or empty.
    pub protocol: Arc<str>,
    /// The members.
    pub members: Vec<DescribedMember>,
}

/// A classic member as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedMember {
    /// Its id.
    pub member_id: MemberId,
    /// Its static name.
    pub instance_id: Option<InstanceId>,
    /// Its client's id.
    pub client_id: Arc<str>,
    /// Its client's address.
    pub client_host: Arc<str>,
    /// Its metadata, in a stable group.
    pub metadata: KeptBytes,
    /// Its assignment, in a stable group.
    pub assignment: KeptBytes,
}

/// A group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListedGroup {
    /// The group.
    pub group: GroupId,
    /// The kind of protocol, or empty.
    pub protocol_type: Arc<str>,
    /// The state's name.
    pub state: &'static str,
    /// The type's name: `classic` or `consumer`.
    pub group_type: &'static str,
}

/// Partitions by topic id.
pub type PartitionsByTopic = BTreeMap<Uuid, Vec<PartitionIndex>>;

/// The answer to ConsumerGroupHeartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerHeartbeatReply {
    /// The member's id.
    pub member_id: MemberId,
    /// Its epoch now.
    pub member_epoch: i32,
    /// Milliseconds until the next heartbeat.
    pub heartbeat_interval_ms: i32,
    /// What the member shall own; null is unchanged.
    pub assignment: Option<PartitionsByTopic>,
}

/// A group as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedConsumerGroup {
    /// The group.
    pub group: GroupId,
    /// What went wrong; then the rest is empty.
    pub error: ErrorCode,
    /// And in words.
    pub error_message: Option<String>,
    /// The state's name, or empty.
    pub state: &'static str,
    /// The group's epoch.
    pub group_epoch: i32,
    /// The epoch of the target assignment.
    pub assignment_epoch: i32,
    /// The name of the assignor in use.
    pub assignor: Arc<str>,
    /// The members.
    pub members: Vec<DescribedConsumerMember>,
}

/// A member as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedConsumerMember {
    /// Its id.
    pub member_id: MemberId,
    /// Its static name.
    pub instance_id: Option<InstanceId>,
    /// Its rack.
    pub rack_id: Option<Arc<str>>,
    /// Its epoch.
    pub member_epoch: i32,
    /// Its client's id.
    pub client_id: Arc<str>,
    /// Its client's address.
    pub client_host: Arc<str>,
    /// The topics it asked for by name.
    pub subscribed_topic_names: Vec<TopicName>,
    /// The expression it asked with, or null.
    pub subscribed_topic_regex: Option<Arc<str>>,
    /// What it owns.
    pub assignment: Vec<DescribedPartitions>,
    /// What it shall own.
    pub target_assignment: Vec<DescribedPartitions>,
    /// Whether it uses the classic protocol; version 1 and later show it as 0 (classic) or 1.
    pub is_classic: bool,
}

/// Partitions of one topic, by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedPartitions {
    /// The topic's id.
    pub topic_id: Uuid,
    /// Its name.
    pub topic: TopicName,
    /// The partitions.
    pub partitions: Vec<PartitionIndex>,
}

impl DescribedConsumerGroup {
    /// A group that cannot be described.
    pub fn error(group: GroupId, error: ErrorCode, error_message: Option<String>) -> Self {
        Self {
            group,
            error,
            error_message,
            state: "",
            group_epoch: 0,
            assignment_epoch: 0,
            assignor: Arc::from(""),
            members: Vec::new(),
        }
    }
}
