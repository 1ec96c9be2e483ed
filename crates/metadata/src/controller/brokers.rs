//! The life of this node in the log: bootstrap, registration, unfencing, clean stop.
//!
//! Source: cluster §8, §9, §23, Kafka ClusterControlManager, ReplicationControlManager, BootstrapMetadata.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_records::persisted::abort_transaction_record::AbortTransactionRecord;
use fencepost_records::persisted::begin_transaction_record::BeginTransactionRecord;
use fencepost_records::persisted::broker_registration_change_record::BrokerRegistrationChangeRecord;
use fencepost_records::persisted::end_transaction_record::EndTransactionRecord;
use fencepost_records::persisted::feature_level_record::FeatureLevelRecord;
use fencepost_records::persisted::unregister_broker_record::UnregisterBrokerRecord;
use fencepost_types::{BrokerId, Uuid};

use super::leadership::{self, Departure};
use super::update_features::MIN_INSYNC_REPLICAS;
use super::{Controller, ControllerRefusal, Decided, Reply};
use crate::features;
use crate::image::{
    Broker, BrokerEpoch, ConfigResource, ControllerRegistration, Endpoint, Image, LevelRange,
};
use crate::level::MetadataVersion;
use crate::record::{MetadataRecord, at_level};

/// The registration of this node's broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegisterBroker {
    /// Fresh and random for each process.
    pub incarnation_id: Uuid,
    /// The listeners of the broker, never those of the controller.
    pub endpoints: Vec<Endpoint>,
    /// The rack.
    pub rack: Option<String>,
    /// Ids of all online log directories.
    pub directories: Vec<Uuid>,
    /// The epoch that every directory's clean-shutdown mark holds; [`BrokerEpoch::NONE`] unless the last stop was clean.
    /// Anything else after a crash says that records exist that may not (cluster §9.5, DANGER).
    pub previous_epoch: BrokerEpoch,
}

/// The registration of this node's controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegisterController {
    /// Fresh and random for each process.
    pub incarnation_id: Uuid,
    /// The listeners of the controller.
    pub endpoints: Vec<Endpoint>,
}

/// The first hundred ids are reserved.
const RESERVED_DIRECTORIES: u128 = 100;
/// Values of a change of a registration.
const FENCE: i8 = 1;
const UNFENCE: i8 = -1;
const IN_CONTROLLED_SHUTDOWN: i8 = 1;

impl Controller {
    /// Begin, levels, End, so that nobody ever sees a part of it.
    pub(super) fn bootstrap(&self, token: Token) -> Result<Decided, ControllerRefusal> {
        let levels = features::BOOTSTRAP.into_iter();
        let record = |(name, level): (&str, i16)| {
            FeatureLevelRecord { name: name.to_string(), feature_level: level }.into()
        };
        self.bootstrap_with(token, levels.map(record).collect(), MetadataVersion::BOOTSTRAP)
    }

    /// Begin, the records of a bootstrap checkpoint, End. With eligible leader replicas also the one value of
    /// min.insync.replicas that they need.
    ///
    /// Source: KIP-1170, Kafka ActivationRecordsGenerator.
    pub(super) fn bootstrap_from(&self, token: Token, image: &Image) -> Result<Decided, ControllerRefusal> {
        let level = image.metadata_version().unwrap_or(MetadataVersion::MIN);
        let mut records: Vec<MetadataRecord> =
            image.to_records().into_iter().map(|versioned| versioned.record).collect();
        let is_given = image.configs().value(&ConfigResource::all_brokers(), MIN_INSYNC_REPLICAS).is_some();
        if image.has_eligible_leader_replicas() && !is_given {
            records.extend(self.one_min_insync_replicas());
        }
        self.bootstrap_with(token, records, level)
    }

    fn bootstrap_with(
        &self,
        token: Token,
        first: Vec<MetadataRecord>,
        level: MetadataVersion,
    ) -> Result<Decided, ControllerRefusal> {
        if self.is_bootstrapped() {
            return Err(ControllerRefusal::AlreadyBootstrapped);
        }
        let mut records: Vec<MetadataRecord> = Vec::new();
        records.extend(self.abort_of_open_transaction());
        records.push(BeginTransactionRecord { name: Some("Bootstrap records".to_string()) }.into());
        records.extend(first);
        records.push(EndTransactionRecord {}.into());
        Ok(Decision::write(at_level(records, level), token, Reply::Done))
    }

    /// A transaction that its writer left open is aborted by the next one to write (cluster §5.6).
    fn abort_of_open_transaction(&self) -> Option<MetadataRecord> {
        let reason = Some("the controller was restarted".to_string());
        self.fold.in_transaction().then(|| AbortTransactionRecord { reason }.into())
    }

    pub(super) fn register_controller(&self, token: Token, registration: &RegisterController) -> Decided {
        let record = ControllerRegistration {
            id: self.node_id,
            incarnation_id: registration.incarnation_id,
            endpoints: registration.endpoints.clone(),
            features: features::claimed(),
        }
        .to_record();
        let mut records: Vec<MetadataRecord> = self.abort_of_open_transaction().into_iter().collect();
        records.push(record.into());
        self.write(records, token, Reply::Done)
    }

    /// Takes the old incarnation out of what it led, then registers the new one, fenced. The epoch is the offset at which
    /// this write begins, not the record's own (cluster §8.4).
    pub(super) fn register_broker(
        &self,
        token: Token,
        registration: &RegisterBroker,
    ) -> Result<Decided, ControllerRefusal> {
        check_directories(&registration.directories)?;
        let claimed = features::claimed();
        check_features(self.image(), &claimed)?;
        let epoch = BrokerEpoch(self.next_offset().0);
        let mut records: Vec<MetadataRecord> = self.abort_of_open_transaction().into_iter().collect();
        if let Some(old) = self.image().broker(self.node_id) {
            let is_clean = old.epoch == registration.previous_epoch;
            let departure = if is_clean { Departure::Clean } else { Departure::Unclean };
            records.extend(leadership::depart(self, self.node_id, departure));
        }
        let broker = Broker {
            id: self.node_id,
            epoch,
            incarnation_id: registration.incarnation_id,
            endpoints: registration.endpoints.clone(),
            rack: registration.rack.clone(),
            features: claimed,
            fenced: true,
            in_controlled_shutdown: false,
            directories: sorted(&registration.directories),
            cordoned_directories: Vec::new(),
        };
        records.push(broker.to_record().into());
        Ok(self.write(records, token, Reply::Registered { epoch }))
    }

    /// Unfences, and elects this node wherever there is no leader and it may lead.
    pub(super) fn unfence_broker(&self, token: Token) -> Result<Decided, ControllerRefusal> {
        let broker = self.own_broker()?;
        let mut records: Vec<MetadataRecord> = Vec::new();
        if broker.fenced {
            records.push(change(broker, |change| change.fenced = UNFENCE));
        }
        let mut unfenced = (**broker).clone();
        unfenced.fenced = false;
        records.extend(leadership::arrive(self, &unfenced));
        Ok(self.write(records, token, Reply::Done))
    }

    /// Says that the broker is going, gives up its leaderships, fences it: what Kafka does in two writes.
    pub(super) fn shut_down_broker(&self, token: Token) -> Result<Decided, ControllerRefusal> {
        let broker = self.own_broker()?;
        let mut records: Vec<MetadataRecord> = Vec::new();
        if !broker.in_controlled_shutdown {
            records.push(change(broker, |change| change.in_controlled_shutdown = IN_CONTROLLED_SHUTDOWN));
        }
        records.extend(leadership::depart(self, self.node_id, Departure::Clean));
        if !broker.fenced {
            records.push(change(broker, |change| change.fenced = FENCE));
        }
        Ok(self.write(records, token, Reply::Done))
    }

    pub(super) fn unregister_broker(&self, token: Token, id: BrokerId) -> Result<Decided, ControllerRefusal> {
        let broker = self.image().broker(id).ok_or(ControllerRefusal::UnknownBroker(id))?;
        if broker.is_alive() {
            return Err(ControllerRefusal::BrokerIsAlive(id));
        }
        let mut records = leadership::depart(self, id, Departure::Unclean);
        records.push(UnregisterBrokerRecord { broker_id: id.0, broker_epoch: broker.epoch.0 }.into());
        Ok(self.write(records, token, Reply::Done))
    }

    fn own_broker(&self) -> Result<&Arc<Broker>, ControllerRefusal> {
        self.image().broker(self.node_id).ok_or(ControllerRefusal::NotRegistered)
    }
}

fn change(broker: &Broker, set: impl FnOnce(&mut BrokerRegistrationChangeRecord)) -> MetadataRecord {
    let mut record = BrokerRegistrationChangeRecord {
        broker_id: broker.id.0,
        broker_epoch: broker.epoch.0,
        ..BrokerRegistrationChangeRecord::default()
    };
    set(&mut record);
    record.into()
}

fn sorted(directories: &[Uuid]) -> Vec<Uuid> {
    let mut sorted = directories.to_vec();
    sorted.sort_unstable();
    sorted
}

fn check_directories(directories: &[Uuid]) -> Result<(), ControllerRefusal> {
    let distinct: BTreeSet<&Uuid> = directories.iter().collect();
    let is_reserved = |id: &Uuid| u128::from_be_bytes(id.0) < RESERVED_DIRECTORIES;
    if directories.is_empty() || distinct.len() != directories.len() || directories.iter().any(is_reserved) {
        return Err(ControllerRefusal::InvalidDirectories);
    }
    Ok(())
}

/// Every finalized level must lie inside the claim; a feature that is not claimed counts as 0 to 0.
fn check_features(image: &Image, claimed: &BTreeMap<String, LevelRange>) -> Result<(), ControllerRefusal> {
    for (name, level) in image.finalized_features() {
        let range = claimed.get(&name).copied().unwrap_or(LevelRange { min: 0, max: 0 });
        if !(range.min..=range.max).contains(&level) {
            return Err(ControllerRefusal::UnsupportedFeature { name, level, claimed: range });
        }
    }
    Ok(())
}
