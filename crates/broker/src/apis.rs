//! What is served and what is advertised: one table.

use std::ops::RangeInclusive;

use fencepost_protocol::ApiKey;

/// Every API that is served, in Kafka's versions of it.
const SERVED: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::SyncGroup,
    ApiKey::DescribeGroups,
    ApiKey::ListGroups,
    ApiKey::SaslHandshake,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteRecords,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::AddPartitionsToTxn,
    ApiKey::AddOffsetsToTxn,
    ApiKey::EndTxn,
    ApiKey::WriteTxnMarkers,
    ApiKey::TxnOffsetCommit,
    ApiKey::DescribeAcls,
    ApiKey::CreateAcls,
    ApiKey::DeleteAcls,
    ApiKey::DescribeConfigs,
    ApiKey::AlterConfigs,
    ApiKey::AlterReplicaLogDirs,
    ApiKey::DescribeLogDirs,
    ApiKey::SaslAuthenticate,
    ApiKey::CreatePartitions,
    ApiKey::DeleteGroups,
    ApiKey::ElectLeaders,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::OffsetDelete,
    ApiKey::DescribeClientQuotas,
    ApiKey::AlterClientQuotas,
    ApiKey::DescribeUserScramCredentials,
    ApiKey::AlterUserScramCredentials,
    ApiKey::DescribeQuorum,
    ApiKey::UpdateFeatures,
    ApiKey::DescribeCluster,
    ApiKey::DescribeProducers,
    ApiKey::DescribeTransactions,
    ApiKey::ListTransactions,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::ConsumerGroupDescribe,
    ApiKey::ListConfigResources,
    ApiKey::DescribeTopicPartitions,
];

/// Served to whoever asks, and not advertised: clients that see it advertised would push telemetry.
const SERVED_SILENTLY: &[ApiKey] = &[ApiKey::GetTelemetrySubscriptions];

/// The highest version of AddPartitionsToTxn that clients are shown. The later ones are for brokers; a client that
/// took them for its own would need rights over the cluster (wire-apis §3).
const ADD_PARTITIONS_ADVERTISED_MAX: i16 = 3;

/// Whether a request of this version is answered by its handler.
pub(crate) fn is_served(api_key: ApiKey, version: i16) -> bool {
    (SERVED.contains(&api_key) || SERVED_SILENTLY.contains(&api_key))
        && api_key.stable_versions().contains(&version)
}

/// What ApiVersions shows: API and range, in order of the keys.
pub(crate) fn advertised() -> impl Iterator<Item = (ApiKey, RangeInclusive<i16>)> {
    SERVED.iter().map(|api_key| (*api_key, advertised_versions(*api_key)))
}

/// The range that is shown for one API.
pub(crate) fn advertised_versions(api_key: ApiKey) -> RangeInclusive<i16> {
    let served = api_key.stable_versions();
    if api_key == ApiKey::Produce {
        // Old librdkafka takes a lowest version above 0 for a broker without compression (KAFKA-18659).
        return 0..=*served.end();
    }
    if api_key == ApiKey::AddPartitionsToTxn {
        return *served.start()..=ADD_PARTITIONS_ADVERTISED_MAX;
    }
    served
}
