//! Which requests are too heavy for the thread that reads them, see [`crate::work`].

use fencepost_protocol::messages::{MetadataRequest, OffsetFetchRequest};
use fencepost_protocol::{ApiKey, RequestBody};

use crate::Broker;
use crate::work::Span;

/// A frame with lists of names that is decoded, and handled, where it was read. Each of its names costs a microsecond or some.
const FRAME_BYTES_LIGHT_MAX: usize = 16 * 1024;
/// The same for Produce, which is mostly records: what a producer sends by default, and some room.
const PRODUCE_FRAME_BYTES_LIGHT_MAX: usize = 1024 * 1024 + 64 * 1024;
/// Records of one request that are checked where they were read, counted as they are when they are plain. On one core that is
/// some milliseconds.
pub(crate) const PLAIN_BYTES_LIGHT_MAX: usize = 4 * 1024 * 1024;
/// To compress takes about so many times what it takes to look at the same records.
pub(crate) const COMPRESSION_WEIGHT: usize = 64;
/// A piece of work that checks records is short up to so many plain bytes, counted in the same way.
const PLAIN_BYTES_SHORT_MAX: usize = 64 * 1024 * 1024;
/// And one that reads a list of names, up to a frame of so many bytes.
const FRAME_BYTES_SHORT_MAX: usize = 1024 * 1024;
/// Partitions that an answer may tell of where the request was read.
const PARTITIONS_LIGHT_MAX: usize = 1_000;
/// Resources that an answer may tell of, each with some dozens of settings and their documentation.
const RESOURCES_LIGHT_MAX: usize = 10;

/// Whether even to read the frame is heavy.
pub(crate) fn is_heavy_frame(api_key: ApiKey, bytes: usize) -> bool {
    let light_max =
        if api_key == ApiKey::Produce { PRODUCE_FRAME_BYTES_LIGHT_MAX } else { FRAME_BYTES_LIGHT_MAX };
    bytes > light_max
}

/// How long it takes to read and handle a frame.
pub(crate) fn span_of_frame(bytes: usize) -> Span {
    if bytes <= FRAME_BYTES_SHORT_MAX { Span::Short } else { Span::Long }
}

/// How long it takes to check records of this weight.
pub(crate) fn span_of_records(weight: usize) -> Span {
    if weight <= PLAIN_BYTES_SHORT_MAX { Span::Short } else { Span::Long }
}

/// Requests whose answer, and whose work, has the size of what they name or of what the broker holds.
macro_rules! light {
    () => {
        // It weighs its batches by itself; a Fetch is bounded by what it may read.
        RequestBody::Produce(_)
            | RequestBody::Fetch(_)
            | RequestBody::ListOffsets(_)
            | RequestBody::OffsetForLeaderEpoch(_)
            | RequestBody::DeleteRecords(_)
            | RequestBody::ApiVersions(_)
            | RequestBody::DescribeCluster(_)
            | RequestBody::DescribeQuorum(_)
            | RequestBody::UpdateFeatures(_)
            | RequestBody::CreateTopics(_)
            | RequestBody::DeleteTopics(_)
            | RequestBody::CreatePartitions(_)
            | RequestBody::ElectLeaders(_)
            | RequestBody::AlterPartitionReassignments(_)
            | RequestBody::AlterConfigs(_)
            | RequestBody::IncrementalAlterConfigs(_)
            | RequestBody::AlterReplicaLogDirs(_)
            | RequestBody::AlterClientQuotas(_)
            | RequestBody::AlterUserScramCredentials(_)
            | RequestBody::DescribeAcls(_)
            | RequestBody::CreateAcls(_)
            | RequestBody::DeleteAcls(_)
            | RequestBody::GetTelemetrySubscriptions(_)
            | RequestBody::FindCoordinator(_)
            | RequestBody::JoinGroup(_)
            | RequestBody::SyncGroup(_)
            | RequestBody::Heartbeat(_)
            | RequestBody::LeaveGroup(_)
            | RequestBody::DeleteGroups(_)
            | RequestBody::OffsetCommit(_)
            | RequestBody::OffsetDelete(_)
            | RequestBody::InitProducerId(_)
            | RequestBody::AddPartitionsToTxn(_)
            | RequestBody::AddOffsetsToTxn(_)
            | RequestBody::EndTxn(_)
            | RequestBody::WriteTxnMarkers(_)
            | RequestBody::TxnOffsetCommit(_)
            | RequestBody::SaslHandshake(_)
            | RequestBody::SaslAuthenticate(_)
            | RequestBody::CreateDelegationToken(_)
            | RequestBody::RenewDelegationToken(_)
            | RequestBody::ExpireDelegationToken(_)
            | RequestBody::DescribeDelegationToken(_)
            | RequestBody::UnregisterBroker(_)
            | RequestBody::UnregisterController(_)
            | RequestBody::AddRaftVoter(_)
            | RequestBody::RemoveRaftVoter(_)
            | RequestBody::ShareGroupHeartbeat(_)
            | RequestBody::ShareGroupDescribe(_)
            | RequestBody::ShareFetch(_)
            | RequestBody::ShareAcknowledge(_)
            | RequestBody::DescribeShareGroupOffsets(_)
            | RequestBody::AlterShareGroupOffsets(_)
            | RequestBody::DeleteShareGroupOffsets(_)
            | RequestBody::InitializeShareGroupState(_)
            | RequestBody::ReadShareGroupState(_)
            | RequestBody::WriteShareGroupState(_)
            | RequestBody::DeleteShareGroupState(_)
            | RequestBody::ReadShareGroupStateSummary(_)
            | RequestBody::StreamsGroupHeartbeat(_)
            | RequestBody::StreamsGroupDescribe(_)
            | RequestBody::StreamsGroupTopologyDescriptionUpdate(_)
    };
}

/// Whether to handle a request whose frame is light is heavy: its answer tells of everything the broker has of a kind, or a pattern is
/// to be tried on it. Looks at the request, and counts.
pub(crate) fn is_heavy(broker: &Broker, body: &RequestBody) -> bool {
    use RequestBody as R;
    match body {
        light!() => false,
        R::Metadata(request) => is_heavy_metadata(broker, request),
        R::OffsetFetch(request) => is_heavy_offset_fetch(request),
        R::ConsumerGroupHeartbeat(request) => request.subscribed_topic_regex.is_some(),
        R::DescribeConfigs(request) => request.resources.len() > RESOURCES_LIGHT_MAX,
        // Operators ask these. What a partition, a group or a transaction has to tell is not known by its name.
        R::DescribeTopicPartitions(_)
        | R::ListPartitionReassignments(_)
        | R::ListConfigResources(_)
        | R::DescribeLogDirs(_)
        | R::DescribeClientQuotas(_)
        | R::DescribeUserScramCredentials(_)
        | R::ConsumerGroupDescribe(_)
        | R::DescribeGroups(_)
        | R::ListGroups(_)
        | R::DescribeProducers(_)
        | R::DescribeTransactions(_)
        | R::ListTransactions(_) => true,
    }
}

fn is_heavy_metadata(broker: &Broker, request: &MetadataRequest) -> bool {
    let all = broker.partitions.count();
    if all <= PARTITIONS_LIGHT_MAX {
        return false;
    }
    // In the first version no topics are all topics; there, too, who names none is on the safe side.
    let Some(topics) = request.topics.as_ref().filter(|topics| !topics.is_empty()) else { return true };
    let image = broker.image();
    let mut told = 0;
    topics.iter().any(|topic| {
        let known = match &topic.name {
            Some(name) => image.topic_by_name(name),
            None => image.topic(topic.topic_id),
        };
        told += known.map_or(0, |topic| topic.partitions.len());
        told > PARTITIONS_LIGHT_MAX
    })
}

/// All offsets of a group, however many there are.
fn is_heavy_offset_fetch(request: &OffsetFetchRequest) -> bool {
    let is_old = request.groups.is_empty() && request.topics.is_none();
    is_old || request.groups.iter().any(|group| group.topics.is_none())
}
