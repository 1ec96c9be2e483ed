//! What a group coordinator can be asked, in its own types. Rules that depend on the version of an API take it from
//! `api_version`; everything else about versions is the translator's.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_types::{
    KeptBytes, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition,
    Uuid,
};

use crate::{GroupId, InstanceId, MemberId, Topics};

/// One question to the coordinator of some groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// A classic member wants in, or joins the next generation. Answered by [`crate::Reply::Join`], perhaps later.
    JoinGroup(JoinGroup),
    /// A classic member asks for its assignment; the leader brings all of them. Answered by [`crate::Reply::Sync`],
    /// perhaps later.
    SyncGroup(SyncGroup),
    /// A classic member is alive. Answered by [`crate::Reply::Heartbeat`].
    Heartbeat(Heartbeat),
    /// Members of a classic group leave. Answered by [`crate::Reply::Leave`].
    LeaveGroup(LeaveGroup),
    /// Offsets are committed. Answered by [`crate::Reply::Commit`].
    OffsetCommit(OffsetCommit),
    /// Offsets are committed as part of a transaction, which the caller has verified. Answered by
    /// [`crate::Reply::Commit`].
    TxnOffsetCommit(TxnOffsetCommit),
    /// Committed offsets are read. Answered by [`crate::Reply::Fetch`].
    OffsetFetch(OffsetFetch),
    /// Committed offsets are deleted. Answered by [`crate::Reply::OffsetDelete`].
    OffsetDelete(OffsetDelete),
    /// Answered by [`crate::Reply::Describe`].
    DescribeGroups(DescribeGroups),
    /// Answered by [`crate::Reply::List`].
    ListGroups(ListGroups),
    /// Answered by [`crate::Reply::Delete`].
    DeleteGroups(DeleteGroups),
    /// A member of a consumer group joins, is alive, or leaves. Answered by [`crate::Reply::ConsumerHeartbeat`].
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeat),
    /// Answered by [`crate::Reply::ConsumerDescribe`].
    ConsumerGroupDescribe(ConsumerGroupDescribe),
    /// The metadata has dropped topics: their offsets go. Answered by [`crate::Reply::OffsetsForgotten`].
    TopicsDeleted(TopicsDeleted),
    /// Something is due. Answers whom it concerns; the tick itself is answered by [`crate::Reply::Done`].
    Tick,
}

impl Request {
    /// The topics that the request is decided by, where it depends on them. The engine puts the newest there are in their
    /// place under the shard's lock: what one request has seen of a deletion, each later one has seen as well.
    pub fn existing_topics_mut(&mut self) -> Option<&mut Arc<Topics>> {
        match self {
            Self::JoinGroup(request) => Some(&mut request.topics),
            Self::ConsumerGroupHeartbeat(request) => Some(&mut request.topics),
            Self::ConsumerGroupDescribe(request) => Some(&mut request.topics),
            Self::OffsetCommit(request) => Some(&mut request.existing),
            Self::TxnOffsetCommit(request) => Some(&mut request.existing),
            Self::OffsetFetch(request) => Some(&mut request.existing),
            Self::TopicsDeleted(request) => Some(&mut request.existing),
            Self::SyncGroup(_)
            | Self::Heartbeat(_)
            | Self::LeaveGroup(_)
            | Self::OffsetDelete(_)
            | Self::DescribeGroups(_)
            | Self::ListGroups(_)
            | Self::DeleteGroups(_)
            | Self::Tick => None,
        }
    }
}

/// Who sends a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// The client id of the request header.
    pub id: Arc<str>,
    /// The address of the peer as Kafka shows it, such as `/127.0.0.1`.
    pub host: Arc<str>,
}

/// JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JoinGroup {
    /// Version 4 and later make a new member come back with the id it was given; from 9 on a static leader that
    /// comes back may be told to skip the assignment.
    pub api_version: i16,
    /// Who asks.
    pub client: Client,
    /// 128 fresh random bits, for a member id.
    pub fresh_member_suffix: Uuid,
    /// The group.
    pub group: GroupId,
    /// The member's id, or empty.
    pub member_id: MemberId,
    /// The static member's name.
    pub instance_id: Option<InstanceId>,
    /// Milliseconds of silence until the member is put out.
    pub session_timeout_ms: i32,
    /// Milliseconds the member may take to rejoin; version 0 has none and takes the session timeout.
    pub rebalance_timeout_ms: i32,
    /// The kind of protocol, such as `consumer`.
    pub protocol_type: Arc<str>,
    /// The protocols the member knows, best first, with its metadata for each.
    pub protocols: Vec<(Arc<str>, KeptBytes)>,
    /// The topics there are.
    pub topics: Arc<Topics>,
}

/// SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyncGroup {
    /// Version 5 and later must name type and protocol.
    pub api_version: i16,
    /// The group.
    pub group: GroupId,
    /// The generation that the member joined.
    pub generation: i32,
    /// The member's id.
    pub member_id: MemberId,
    /// The static member's name.
    pub instance_id: Option<InstanceId>,
    /// The kind of protocol that the member thinks the group has.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol that the member thinks was chosen.
    pub protocol_name: Option<Arc<str>>,
    /// From the leader: every member's assignment.
    pub assignments: BTreeMap<MemberId, KeptBytes>,
}

/// Heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    /// The group.
    pub group: GroupId,
    /// The member's generation.
    pub generation: i32,
    /// The member's id.
    pub member_id: MemberId,
    /// The static member's name.
    pub instance_id: Option<InstanceId>,
}

/// LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaveGroup {
    /// Below 3 one member leaves and its error is the answer's.
    pub api_version: i16,
    /// The group.
    pub group: GroupId,
    /// Who leaves.
    pub members: Vec<LeavingMember>,
}

/// A member that leaves: by id, by instance, or by both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeavingMember {
    /// The member's id, or empty.
    pub member_id: MemberId,
    /// The static member's name.
    pub instance_id: Option<InstanceId>,
}

/// An offset to be committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionOffset {
    /// The partition.
    pub partition: PartitionIndex,
    /// The offset to go on from. Not checked: negative ones are stored as they are.
    pub offset: Offset,
    /// The leader epoch of the last record read, or none.
    pub leader_epoch: LeaderEpoch,
    /// The client's own words; null counts as empty.
    pub metadata: Option<Arc<str>>,
}

/// The offsets of one topic that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicOffsets {
    /// The topic.
    pub topic: TopicName,
    /// Its id, or [`Uuid::ZERO`] if it has none.
    pub topic_id: Uuid,
    /// Its partitions.
    pub partitions: Vec<PartitionOffset>,
}

/// Who commits, as the request says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Committer {
    /// The generation or member epoch; −1 if the committer is no member.
    pub generation: i32,
    /// The member's id, or empty.
    pub member_id: MemberId,
    /// The static member's name.
    pub instance_id: Option<InstanceId>,
}

/// OffsetCommit, for topics and partitions that exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OffsetCommit {
    /// From 9 on an unknown group is GROUP_ID_NOT_FOUND, and members of consumer groups may commit.
    pub api_version: i16,
    /// The group.
    pub group: GroupId,
    /// Who commits.
    pub committer: Committer,
    /// Versions 2 to 4: how long to keep the offsets, in milliseconds; −1 is the coordinator's own retention.
    pub retention_ms: i64,
    /// The offsets.
    pub topics: Vec<TopicOffsets>,
    /// The topics there are: an offset of one that has gone meanwhile is refused.
    pub existing: Arc<Topics>,
}

/// TxnOffsetCommit, verified, for topics and partitions that exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TxnOffsetCommit {
    /// From 6 on an unknown group is GROUP_ID_NOT_FOUND and an old member epoch STALE_MEMBER_EPOCH.
    pub api_version: i16,
    /// The group.
    pub group: GroupId,
    /// The producer whose transaction it is.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// Who commits.
    pub committer: Committer,
    /// The offsets.
    pub topics: Vec<TopicOffsets>,
    /// The topics there are: an offset of one that has gone meanwhile is refused.
    pub existing: Arc<Topics>,
}

/// Partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicPartitions {
    /// The topic.
    pub topic: TopicName,
    /// Its id, or [`Uuid::ZERO`] if it is not known.
    pub topic_id: Uuid,
    /// Its partitions.
    pub partitions: Vec<PartitionIndex>,
}

/// OffsetFetch of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OffsetFetch {
    /// The group.
    pub group: GroupId,
    /// The member's id; `None` if the request has none (which differs from an empty one).
    pub member_id: Option<MemberId>,
    /// The member's epoch, or −1.
    pub member_epoch: i32,
    /// What to read; `None` is everything committed.
    pub topics: Option<Vec<TopicPartitions>>,
    /// Whether a pending offset makes a partition UNSTABLE_OFFSET_COMMIT.
    pub require_stable: bool,
    /// The topics there are: the offset of one that is gone counts for nothing, whoever has its name now.
    pub existing: Arc<Topics>,
}

/// OffsetDelete, for topics and partitions that exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OffsetDelete {
    /// The group.
    pub group: GroupId,
    /// What to delete.
    pub topics: Vec<TopicPartitions>,
}

/// DescribeGroups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribeGroups {
    /// From 6 on an unknown group is an error.
    pub api_version: i16,
    /// The groups, of this coordinator.
    pub groups: Vec<GroupId>,
}

/// ListGroups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListGroups {
    /// Names of states, letter case aside; empty is any.
    pub states: Vec<Arc<str>>,
    /// Names of group types, letter case aside; empty is any.
    pub types: Vec<Arc<str>>,
}

/// DeleteGroups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeleteGroups {
    /// The groups, of this coordinator.
    pub groups: Vec<GroupId>,
}

/// ConsumerGroupHeartbeat. A null field means "as before".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerGroupHeartbeat {
    /// In version 0 the coordinator makes the member id.
    pub api_version: i16,
    /// Who asks.
    pub client: Client,
    /// 128 fresh random bits, for a member id.
    pub fresh_member_id: Uuid,
    /// The group.
    pub group: GroupId,
    /// The member's id.
    pub member_id: MemberId,
    /// The member's epoch: 0 joins, −1 leaves, −2 leaves for a while as a static member.
    pub member_epoch: i32,
    /// The static member's name.
    pub instance_id: Option<InstanceId>,
    /// The member's rack.
    pub rack_id: Option<Arc<str>>,
    /// Milliseconds the member may take to give up partitions; −1 is unchanged.
    pub rebalance_timeout_ms: i32,
    /// The topics it wants.
    pub subscribed_topic_names: Option<Vec<TopicName>>,
    /// A regular expression for more of them; empty is none.
    pub subscribed_topic_regex: Option<Arc<str>>,
    /// The assignor it wants.
    pub server_assignor: Option<Arc<str>>,
    /// The partitions it owns.
    pub owned_partitions: Option<BTreeMap<Uuid, Vec<PartitionIndex>>>,
    /// The topics there are.
    pub topics: Arc<Topics>,
}

/// ConsumerGroupDescribe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerGroupDescribe {
    /// The groups, of this coordinator.
    pub groups: Vec<GroupId>,
    /// The topics there are.
    pub topics: Arc<Topics>,
}

/// Topics are gone: so are their offsets, committed and pending, in every group. Asked after each deletion, and once
/// when a coordinator has loaded its log, as a crash may have come between a deletion and its tombstones.
///
/// One request writes a bounded number of tombstones; the answer says where the next one goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TopicsDeleted {
    /// The topics that were just deleted. An offset whose record has no topic id belongs to them by its name alone.
    pub names: Vec<TopicName>,
    /// The topics there are: an offset whose topic id is not among them goes.
    pub existing: Arc<Topics>,
    /// Where to go on; `None` from the beginning.
    pub after: Option<(GroupId, TopicPartition)>,
}
