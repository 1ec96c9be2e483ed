//! The group coordinator.

#![no_std]

extern crate alloc;

mod config;
mod refusal;
mod reply;
mod request;
mod topics;

use alloc::sync::Arc;

pub use config::{Assignor, ConsumerGroupConfig, GroupConfig, MigrationPolicy};
pub use refusal::GroupRefusal;
pub use reply::{
    ConsumerHeartbeatReply, DescribedConsumerGroup, DescribedConsumerMember, DescribedGroup, DescribedMember,
    DescribedPartitions, JoinReply, JoinedMember, LeaveReply, LeftMember, ListedGroup, PartitionFetched,
    PartitionsByTopic, Reply, SyncReply, TopicErrors, TopicFetched,
};
pub use request::{
    Client, Committer, ConsumerGroupDescribe, ConsumerGroupHeartbeat, DeleteGroups, DescribeGroups,
    Heartbeat, JoinGroup, LeaveGroup, LeavingMember, ListGroups, OffsetCommit, OffsetDelete, OffsetFetch,
    PartitionOffset, Request, SyncGroup, TopicOffsets, TopicPartitions, TopicsDeleted, TxnOffsetCommit,
};
pub use topics::{TopicFacts, Topics};

/// A group's name.
pub type GroupId = Arc<str>;
/// A member's id within its group.
pub type MemberId = Arc<str>;
/// The name of a static member, which outlives its member ids.
pub type InstanceId = Arc<str>;
