//! The image: everything the metadata log says, as of one offset. Immutable for whoever reads it; a clone shares
//! everything that did not change, and a change costs as much as it changes.

mod broker;
mod config;
mod fold;
mod recent;
mod replay;
mod security;
mod snapshot;
mod topic;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_types::{
    BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerId, SharedMap, TopicName, TransactionVersion, Uuid,
};

pub use broker::{Broker, BrokerEpoch, ControllerRegistration, Endpoint, LevelRange, MIGRATING, UNASSIGNED};
pub use config::{ConfigResource, ConfigValues, Configs, ResourceType};
pub use fold::ImageFold;
#[cfg(test)]
pub(crate) use recent::RECENT_RECORDS_MAX;
use recent::Recent;
pub(crate) use recent::Touched;
pub use replay::{ReplayError, ReplayFault};
pub use security::{
    AccessControlEntry, ClientQuotas, DelegationToken, QuotaEntity, QuotaValue, ScramCredential,
    ScramCredentials, ScramMechanism,
};
pub(crate) use snapshot::SnapshotRecords;
pub(crate) use topic::numbers;
pub use topic::{LeaderRecoveryState, Partition, PartitionEpoch, Topic, Topics};

use crate::features::{self, Features};
use crate::level::MetadataVersion;
use crate::quorum::Voter;

/// The state that the metadata log folds into.
///
/// Source: Kafka MetadataImage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    pub(crate) offset: Offset,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) kraft_version: i16,
    pub(crate) voters: Arc<Vec<Voter>>,
    pub(crate) features: Arc<Features>,
    pub(crate) brokers: Arc<BTreeMap<BrokerId, Arc<Broker>>>,
    pub(crate) controllers: Arc<BTreeMap<BrokerId, ControllerRegistration>>,
    pub(crate) topics: Topics,
    pub(crate) configs: Configs,
    pub(crate) client_quotas: ClientQuotas,
    pub(crate) scram: ScramCredentials,
    pub(crate) acls: SharedMap<Uuid, AccessControlEntry>,
    pub(crate) delegation_tokens: SharedMap<String, DelegationToken>,
    pub(crate) next_producer_id: ProducerId,
    recent: Recent,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            offset: Offset::NONE,
            epoch: LeaderEpoch(0),
            kraft_version: 0,
            voters: Arc::default(),
            features: Arc::default(),
            brokers: Arc::default(),
            controllers: Arc::default(),
            topics: Topics::default(),
            configs: Configs::default(),
            client_quotas: ClientQuotas::default(),
            scram: ScramCredentials::default(),
            acls: SharedMap::default(),
            delegation_tokens: SharedMap::default(),
            next_producer_id: ProducerId(0),
            recent: Recent::default(),
        }
    }
}

impl Image {
    /// Offset of the last record in it; [`Offset::NONE`] before any.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// Epoch of the quorum's leader as of that record.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Level of `kraft.version`: said by control records, never by feature records.
    pub fn kraft_version(&self) -> i16 {
        self.kraft_version
    }

    /// The voters of the last control record that named them.
    pub fn voters(&self) -> &[Voter] {
        &self.voters
    }

    /// Level of `metadata.version`; `None` before the log is bootstrapped.
    pub fn metadata_version(&self) -> Option<MetadataVersion> {
        self.features.get(features::METADATA_VERSION).copied().map(MetadataVersion)
    }

    /// The finalized level of a feature; 0 when it has none.
    pub fn feature_level(&self, name: &str) -> i16 {
        if name == features::KRAFT_VERSION {
            return self.kraft_version;
        }
        self.features.get(name).copied().unwrap_or(0)
    }

    /// Finalized levels for ApiVersions: those of the log and that of the quorum, without zeros, in order of name.
    pub fn finalized_features(&self) -> Features {
        let mut all: Features = (*self.features).clone();
        all.insert(features::KRAFT_VERSION.to_string(), self.kraft_version);
        all.retain(|_, level| *level != 0);
        all
    }

    /// The transaction protocol in force.
    pub fn transaction_version(&self) -> TransactionVersion {
        TransactionVersion::from_level(self.feature_level(features::TRANSACTION_VERSION))
    }

    /// Whether partitions keep lists of eligible leader replicas (KIP-966).
    pub fn has_eligible_leader_replicas(&self) -> bool {
        self.feature_level(features::ELIGIBLE_LEADER_REPLICAS_VERSION) > 0
    }

    /// Registered brokers by id.
    pub fn brokers(&self) -> &BTreeMap<BrokerId, Arc<Broker>> {
        &self.brokers
    }

    /// One registered broker.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<Broker>> {
        self.brokers.get(&id)
    }

    /// Whether that broker is registered and not fenced.
    pub fn is_alive(&self, id: BrokerId) -> bool {
        self.brokers.get(&id).is_some_and(|broker| broker.is_alive())
    }

    /// Registered controllers by id.
    pub fn controllers(&self) -> &BTreeMap<BrokerId, ControllerRegistration> {
        &self.controllers
    }

    /// All topics.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// The topic of that name.
    pub fn topic_by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.by_name(name)
    }

    /// The topic of that id.
    pub fn topic(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.topics.by_id(id)
    }

    /// The name of the topic of that id.
    pub fn topic_name(&self, id: Uuid) -> Option<TopicName> {
        self.topics.by_id(id).map(|topic| topic.name.clone())
    }

    /// A partition by its topic's name and its number.
    pub fn partition(&self, topic: &str, index: impl Into<PartitionIndex>) -> Option<&Partition> {
        self.topics.by_name(topic)?.partitions.get(&index.into())
    }

    /// All configurations.
    pub fn configs(&self) -> &Configs {
        &self.configs
    }

    /// All client quotas.
    pub fn client_quotas(&self) -> &ClientQuotas {
        &self.client_quotas
    }

    /// All SCRAM credentials.
    pub fn scram(&self) -> &ScramCredentials {
        &self.scram
    }

    /// All access control entries by id.
    pub fn acls(&self) -> &SharedMap<Uuid, AccessControlEntry> {
        &self.acls
    }

    /// All delegation tokens by id.
    pub fn delegation_tokens(&self) -> &SharedMap<String, DelegationToken> {
        &self.delegation_tokens
    }

    /// The first producer id that no block holds yet.
    pub fn next_producer_id(&self) -> ProducerId {
        self.next_producer_id
    }

    /// Panics if the image contradicts itself.
    pub fn check(&self) {
        self.topics.check();
        for topic in self.topics.iter() {
            for (index, partition) in &topic.partitions {
                let place = || alloc::format!("{}-{}", topic.name, index);
                assert_eq!(partition.replicas.len(), partition.directories.len(), "{}: directories", place());
                assert!(partition.leader_epoch.0 >= 0, "{}: leader epoch", place());
                assert!(
                    !partition.has_leader() || partition.replicas.contains(&partition.leader),
                    "{}: the leader is no replica",
                    place()
                );
                assert!(
                    partition.isr.iter().all(|id| partition.replicas.contains(id)),
                    "{}: the in-sync set is not within the replicas",
                    place()
                );
            }
        }
        for (id, broker) in self.brokers.iter() {
            assert_eq!(*id, broker.id, "a broker is filed under another id");
        }
    }
}
