//! The embedded controller of a node that stands alone: decides about the cluster's metadata and folds its own log.
//!
//! Whoever writes its records gives each batch the offset [`Controller::next_offset`]; control records of the quorum are
//! written beside it and told by [`Controller::replay_batch`].

mod alter_configs;
mod brokers;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod elections;
mod leadership;
mod placement;
mod quotas;
mod reassignments;
mod request;
mod scram;
mod update_features;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;

use fencepost_coordinator::{Decision, LogPosition, Shard, Token};
use fencepost_records::Batch;
use fencepost_records::persisted::no_op_record::NoOpRecord;
use fencepost_records::persisted::producer_ids_record::ProducerIdsRecord;
use fencepost_types::limits::PRODUCER_ID_BLOCK_SIZE;
use fencepost_types::{BrokerId, Deadline, Now, Offset};

pub use alter_configs::{AlterConfigs, AlterConfigsRefusal, AlterMode, ConfigChange, ConfigChanges};
pub use brokers::{RegisterBroker, RegisterController};
pub use create_partitions::{CreatePartitionsRefusal, MorePartitions};
pub use create_topics::{CreateTopicRefusal, CreatedTopic, NewTopic};
pub use delete_topics::{DeleteTopicRefusal, DeletedTopic, TopicRef};
pub use elections::{ElectionOutcome, ElectionRefusal, ElectionType};
pub use placement::AssignmentFault;
pub use quotas::{QuotaChange, QuotaChanges, QuotaRefusal};
pub use reassignments::{Reassignment, ReassignmentRefusal};
pub use request::{ControllerRefusal, ItemResult, Reply, Request};
pub use scram::{ScramChanges, ScramDeletion, ScramRefusal, ScramUpsertion};
pub use update_features::{FeatureFault, FeatureUpdate, UpdateFeaturesRefusal};

use crate::config::{ConfigView, StaticConfig};
use crate::image::{BrokerEpoch, Image, ImageFold, ReplayError};
use crate::level::MetadataVersion;
use crate::log::MetadataLogError;
use crate::record::{MetadataRecord, VersionedRecord, at_level};

/// How often a request names each thing.
fn times<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let mut times = BTreeMap::new();
    for key in keys {
        *times.entry(key).or_default() += 1;
    }
    times
}

type Decided = Decision<VersionedRecord, Infallible, Reply>;

/// The controller's state: what its log says, and what the node was started with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    node_id: BrokerId,
    statics: Arc<StaticConfig>,
    fold: ImageFold,
    failure: Option<ReplayError>,
}

impl Controller {
    /// A controller before its log is replayed.
    pub fn new(node_id: BrokerId, statics: Arc<StaticConfig>) -> Self {
        Self { node_id, statics, fold: ImageFold::default(), failure: None }
    }

    /// Takes over settings that have been read again.
    pub fn set_statics(&mut self, statics: Arc<StaticConfig>) {
        self.statics = statics;
    }

    /// Starts over from a snapshot's image (see [`Image::as_of`]).
    pub fn load_snapshot(&mut self, image: Image) {
        self.fold = ImageFold::new(image);
        self.failure = None;
    }

    /// Takes in a batch that is already in the log: at load, and live for the quorum's control records. A batch that
    /// cannot be taken in is an error, and the node has to stop.
    pub fn replay_batch(&mut self, batch: &Batch) -> Result<(), MetadataLogError> {
        self.fold.replay_batch(batch)
    }

    /// Everything that the log says.
    pub fn image(&self) -> &Image {
        self.fold.image()
    }

    /// The offset after the last record taken in.
    pub fn next_offset(&self) -> Offset {
        self.fold.next_offset()
    }

    /// The record that did not fit, if one ever came. From then on every request is refused; the node has to stop.
    pub fn failure(&self) -> Option<&ReplayError> {
        self.failure.as_ref()
    }

    /// Whether the log has been bootstrapped.
    pub fn is_bootstrapped(&self) -> bool {
        self.image().metadata_version().is_some()
    }

    pub(super) fn view(&self) -> ConfigView<'_> {
        ConfigView { statics: &self.statics, configs: &self.image().configs, node_id: self.node_id }
    }

    fn level(&self) -> MetadataVersion {
        self.image().metadata_version().unwrap_or(MetadataVersion::BOOTSTRAP)
    }

    fn write(&self, records: Vec<MetadataRecord>, token: Token, reply: Reply) -> Decided {
        Decision::write(at_level(records, self.level()), token, reply)
    }

    /// The registration of this node, for requests that its broker makes.
    fn own_epoch(&self) -> Result<BrokerEpoch, ControllerRefusal> {
        self.image().broker(self.node_id).map(|broker| broker.epoch).ok_or(ControllerRefusal::NotRegistered)
    }

    /// Source: Kafka ProducerIdControlManager.generateNextProducerId.
    fn allocate_producer_ids(&self, token: Token) -> Result<Decided, ControllerRefusal> {
        let broker_epoch = self.own_epoch()?;
        let first = self.image().next_producer_id;
        let next =
            first.0.checked_add(PRODUCER_ID_BLOCK_SIZE).ok_or(ControllerRefusal::ProducerIdsExhausted)?;
        let record = ProducerIdsRecord {
            broker_id: self.node_id.0,
            broker_epoch: broker_epoch.0,
            next_producer_id: next,
        };
        let count = i32::try_from(PRODUCER_ID_BLOCK_SIZE).expect("a block is small");
        Ok(self.write([record.into()].into(), token, Reply::ProducerIds { first, count }))
    }
}

impl Shard for Controller {
    type Request = Request;
    type Record = VersionedRecord;
    type Soft = Infallible;
    type Reply = Reply;
    type Refusal = ControllerRefusal;

    fn decide(&self, _now: Now, token: Token, request: &Request) -> Result<Decided, ControllerRefusal> {
        if let Some(failure) = &self.failure {
            return Err(ControllerRefusal::Broken(failure.clone()));
        }
        if let Request::Bootstrap = request {
            return self.bootstrap(token);
        }
        if let Request::BootstrapFrom(image) = request {
            return self.bootstrap_from(token, image);
        }
        if !self.is_bootstrapped() {
            return Err(ControllerRefusal::NotBootstrapped);
        }
        match request {
            Request::Bootstrap | Request::BootstrapFrom(_) => unreachable!("decided above"),
            Request::RegisterController(registration) => Ok(self.register_controller(token, registration)),
            Request::RegisterBroker(registration) => self.register_broker(token, registration),
            Request::UnfenceBroker => self.unfence_broker(token),
            Request::ShutDownBroker => self.shut_down_broker(token),
            Request::UnregisterBroker(id) => self.unregister_broker(token, *id),
            Request::AllocateProducerIds => self.allocate_producer_ids(token),
            Request::CreateTopics { topics, validate_only } => {
                Ok(self.create_topics(token, topics, *validate_only))
            }
            Request::DeleteTopics(topics) => Ok(self.delete_topics(token, topics)),
            Request::CreatePartitions { topics, validate_only } => {
                Ok(self.create_partitions(token, topics, *validate_only))
            }
            Request::AlterConfigs(request) => Ok(self.alter_configs(token, request)),
            Request::UpdateFeatures { updates, validate_only } => {
                Ok(self.update_features(token, updates, *validate_only))
            }
            Request::AlterClientQuotas { entries, validate_only } => {
                Ok(self.alter_client_quotas(token, entries, *validate_only))
            }
            Request::AlterScramCredentials(request) => Ok(self.alter_scram_credentials(token, request)),
            Request::ElectLeaders { election, partitions } => {
                Ok(self.elect_leaders(token, *election, partitions.as_deref()))
            }
            Request::AlterPartitionReassignments(reassignments) => {
                Ok(self.alter_partition_reassignments(token, reassignments))
            }
            Request::NoOp => Ok(self.write([NoOpRecord {}.into()].into(), token, Reply::Done)),
            Request::Tick => Ok(Decision::nothing()),
        }
    }

    fn replay(&mut self, at: LogPosition, record: &VersionedRecord) {
        if self.failure.is_none()
            && let Err(error) = self.fold.replay(at.offset, &record.record)
        {
            self.failure = Some(error);
        }
    }

    fn absorb(&mut self, _now: Now, soft: Infallible) {
        match soft {}
    }

    /// Never: nothing here becomes due by itself.
    fn next_deadline(&self) -> Option<Deadline> {
        None
    }

    fn tick() -> Request {
        Request::Tick
    }

    fn check(&self) {
        if self.failure.is_none() {
            self.image().check();
        }
    }
}

#[cfg(test)]
mod tests;
