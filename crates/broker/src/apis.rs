//! What is served and what is advertised: one table.

use std::collections::BTreeMap;
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
    ApiKey::CreateDelegationToken,
    ApiKey::RenewDelegationToken,
    ApiKey::ExpireDelegationToken,
    ApiKey::DescribeDelegationToken,
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
    ApiKey::UnregisterBroker,
    ApiKey::DescribeTransactions,
    ApiKey::ListTransactions,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::ConsumerGroupDescribe,
    ApiKey::ListConfigResources,
    ApiKey::DescribeTopicPartitions,
    ApiKey::ShareGroupHeartbeat,
    ApiKey::ShareGroupDescribe,
    ApiKey::ShareFetch,
    ApiKey::ShareAcknowledge,
    ApiKey::AddRaftVoter,
    ApiKey::RemoveRaftVoter,
    ApiKey::InitializeShareGroupState,
    ApiKey::ReadShareGroupState,
    ApiKey::WriteShareGroupState,
    ApiKey::DeleteShareGroupState,
    ApiKey::ReadShareGroupStateSummary,
    ApiKey::StreamsGroupHeartbeat,
    ApiKey::StreamsGroupDescribe,
    ApiKey::DescribeShareGroupOffsets,
    ApiKey::AlterShareGroupOffsets,
    ApiKey::DeleteShareGroupOffsets,
    ApiKey::StreamsGroupTopologyDescriptionUpdate,
    ApiKey::UnregisterController,
];

/// Served to whoever asks, and not advertised: clients that see it advertised would push telemetry.
const SERVED_SILENTLY: &[ApiKey] = &[ApiKey::GetTelemetrySubscriptions];

/// The highest version of AddPartitionsToTxn that clients are shown. The later ones are for brokers; a client that
/// took them for its own would need rights over the cluster (wire-apis §3).
const ADD_PARTITIONS_ADVERTISED_MAX: i16 = 3;

/// The APIs of one broker: all that this program knows, below the limits that its operator has set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Apis {
    /// `unstable.api.versions.enable`.
    with_unstable: bool,
    versions_max: BTreeMap<ApiKey, i16>,
}

impl Apis {
    /// With limits as `fencepost.api.versions.max` has them: `OffsetCommit:9`.
    ///
    /// # Errors
    /// A sentence: an entry is not of that form, or its API is not served, or not in that version.
    pub(crate) fn limited<'a>(
        limits: impl IntoIterator<Item = &'a String>,
        with_unstable: bool,
    ) -> Result<Self, String> {
        let mut apis = Self { with_unstable, ..Self::default() };
        for limit in limits.into_iter().filter(|limit| !limit.trim().is_empty()) {
            let wrong = || format!("fencepost.api.versions.max: {limit} is no API with a version of it");
            let (name, version) = limit.split_once(':').ok_or_else(wrong)?;
            let version: i16 = version.trim().parse().map_err(|_| wrong())?;
            let served = SERVED.iter().find(|api_key| api_key.name() == name.trim());
            let api_key = *served.filter(|api_key| apis.is_served(**api_key, version)).ok_or_else(wrong)?;
            apis.versions_max.insert(api_key, version);
        }
        Ok(apis)
    }

    /// Whether a request of this version is answered by its handler.
    pub(crate) fn is_served(&self, api_key: ApiKey, version: i16) -> bool {
        (SERVED.contains(&api_key) || SERVED_SILENTLY.contains(&api_key))
            && self.known_versions(api_key).contains(&version)
            && self.versions_max.get(&api_key).is_none_or(|max| version <= *max)
    }

    fn known_versions(&self, api_key: ApiKey) -> RangeInclusive<i16> {
        if self.with_unstable { api_key.versions() } else { api_key.stable_versions() }
    }

    /// What ApiVersions shows: API and range, in order of the keys.
    pub(crate) fn advertised(&self) -> impl Iterator<Item = (ApiKey, RangeInclusive<i16>)> {
        SERVED.iter().map(|api_key| (*api_key, self.advertised_versions(*api_key)))
    }

    /// The range that is shown for one API.
    pub(crate) fn advertised_versions(&self, api_key: ApiKey) -> RangeInclusive<i16> {
        let (mut min, mut max) = self.known_versions(api_key).into_inner();
        if api_key == ApiKey::Produce {
            // Old librdkafka takes a lowest version above 0 for a broker without compression (KAFKA-18659).
            min = 0;
        }
        if api_key == ApiKey::AddPartitionsToTxn {
            max = ADD_PARTITIONS_ADVERTISED_MAX;
        }
        min..=self.versions_max.get(&api_key).map_or(max, |limit| max.min(*limit))
    }
}
