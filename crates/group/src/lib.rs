//! The group coordinator: who is in a group, what each member reads, and how far the group has come.
//!
//! One [`GroupShard`] is one partition of `__consumer_offsets`. It speaks two protocols for membership, the classic one
//! (members join, one of them assigns, all sync) and the consumer protocol of KIP-848 (the coordinator assigns), and
//! keeps committed offsets, also those that are part of a producer's transaction.
//!
//! ```text
//!  request ──► decide ──► records ──► log ──► replay ──► Durable   offsets, pending offsets, generations, epochs
//!                   └───► soft    ──────────► absorb ──► Volatile  sessions, members that wait, timers
//!                   └───► replies, perhaps to requests that have waited long
//! ```
//!
//! Invariants
//! - G1: [`Durable`] changes by replaying records alone, so live state equals replayed state after every step.
//! - G2: a classic group that is Stable or Empty is what its last record says.
//! - G3: whoever waits in JoinGroup waits for a running timer, and whoever waits in SyncGroup as well; every other
//!   member's session has an end.
//! - G4: an offset of an open transaction counts for nobody until its commit marker, and then only where no later
//!   record counts (`transaction-coordinator trap 31`).
//! - G5: generations and group epochs never go back while a group has members, also from one protocol to the other.
//! - G6: a partition is owned by at most one member of a consumer group, counting those that must still give it up.
//!
//! Differs from Kafka: an offset counts for the topic id it was committed for, however a request names the topic; an
//! all-topics fetch with `require_stable` names partitions that have nothing but a pending offset; regular expressions
//! are matched within the request; a rebalance's time runs from its start, not from its last join; a request that waits
//! is answered when a later one of the same member takes its place.

#![no_std]

extern crate alloc;

mod admin;
mod classic;
mod codec;
mod config;
mod consumer;
mod durable;
mod offsets;
mod record;
mod refusal;
mod reply;
mod request;
mod shard;
mod soft;
mod timers;
mod topics;

use alloc::sync::Arc;

pub use classic::group::{ClassicGroup, ClassicMember, ClassicState, InitialRebalance};
pub use classic::metadata::{ClassicMemberMetadata, ClassicMetadata};
pub use config::{Assignor, ConsumerGroupConfig, GroupConfig, MigrationPolicy};
pub use consumer::group::{ConsumerGroup, ConsumerGroupState, ConsumerMember};
pub use consumer::pattern::{Alphabet, NamePattern};
pub use durable::{Durable, Group};
pub use fencepost_types::{SharedMap, SharedSet};
pub use offsets::store::{LoggedOffset, Offsets, PartitionOffsets};
pub use record::{
    Assignment, ClassicMemberProtocols, CommittedOffset, ConsumerGroupEpoch, ConsumerMemberMetadata,
    CurrentAssignment, EpochAssignment, GroupRecord, MemberState, ResolvedRegex, TargetAssignmentEpoch,
};
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
pub use shard::GroupShard;
pub use soft::{Expiry, Soft};
pub use timers::{Timer, TimerKind};
pub use topics::{TopicFacts, Topics};

/// A group's name.
pub type GroupId = Arc<str>;
/// A member's id within its group.
pub type MemberId = Arc<str>;
/// The name of a static member, which outlives its member ids.
pub type InstanceId = Arc<str>;
