//! Registrations of brokers and controllers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use fencepost_records::persisted::{register_broker_record, register_controller_record};
use fencepost_types::{BrokerId, Uuid};

/// Counts the registrations of a broker; it is the offset at which the write of its registration began. −1 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerEpoch(pub i64);

impl BrokerEpoch {
    /// No registration.
    pub const NONE: Self = Self(-1);
}

impl core::fmt::Display for BrokerEpoch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a node listens, and what it speaks there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The listener's name.
    pub listener: String,
    /// Host as told to others.
    pub host: String,
    /// Port as told to others.
    pub port: u16,
    /// 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// Lowest and highest level of a feature, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelRange {
    /// The lowest level.
    pub min: i16,
    /// The highest level.
    pub max: i16,
}

/// A registered broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Broker {
    /// Its id.
    pub id: BrokerId,
    /// The epoch of this registration.
    pub epoch: BrokerEpoch,
    /// Fresh for each process: tells a restart from a retry.
    pub incarnation_id: Uuid,
    /// Its listeners, in the order it registered them.
    pub endpoints: Vec<Endpoint>,
    /// Its rack.
    pub rack: Option<String>,
    /// The features it claims.
    pub features: BTreeMap<String, LevelRange>,
    /// Whether it may not lead or be in sync.
    pub fenced: bool,
    /// Whether it is giving up its leaderships.
    pub in_controlled_shutdown: bool,
    /// Ids of its online log directories.
    pub directories: Vec<Uuid>,
    /// Those of them that take no new replicas.
    pub cordoned_directories: Vec<Uuid>,
}

impl Broker {
    /// Registered and not fenced.
    pub fn is_alive(&self) -> bool {
        !self.fenced
    }

    /// May be in a set of in-sync replicas: alive and not shutting down.
    pub fn is_eligible(&self) -> bool {
        self.is_alive() && !self.in_controlled_shutdown
    }

    /// The directory of a new replica on this broker: the only one, or unassigned.
    ///
    /// Source: Kafka ClusterControlManager.defaultDir.
    pub fn default_directory(&self) -> Uuid {
        match self.directories.as_slice() {
            [only] => *only,
            _ => UNASSIGNED,
        }
    }

    /// The endpoint of the listener of that name.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.listener == listener)
    }

    pub(super) fn from_record(record: &register_broker_record::RegisterBrokerRecord) -> Self {
        Self {
            id: BrokerId(record.broker_id),
            epoch: BrokerEpoch(record.broker_epoch),
            incarnation_id: record.incarnation_id,
            endpoints: record
                .end_points
                .iter()
                .map(|e| Endpoint {
                    listener: e.name.clone(),
                    host: e.host.clone(),
                    port: e.port,
                    security_protocol: e.security_protocol,
                })
                .collect(),
            rack: record.rack.clone(),
            features: record
                .features
                .iter()
                .map(|f| {
                    (
                        f.name.clone(),
                        LevelRange { min: f.min_supported_version, max: f.max_supported_version },
                    )
                })
                .collect(),
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
            directories: record.log_dirs.clone(),
            cordoned_directories: record.cordoned_log_dirs.clone().unwrap_or_default(),
        }
    }

    /// The record that registers it so.
    pub fn to_record(&self) -> register_broker_record::RegisterBrokerRecord {
        register_broker_record::RegisterBrokerRecord {
            broker_id: self.id.0,
            is_migrating_zk_broker: false,
            incarnation_id: self.incarnation_id,
            broker_epoch: self.epoch.0,
            end_points: self
                .endpoints
                .iter()
                .map(|e| register_broker_record::EndPoints {
                    name: e.listener.clone(),
                    host: e.host.clone(),
                    port: e.port,
                    security_protocol: e.security_protocol,
                })
                .collect(),
            features: self
                .features
                .iter()
                .map(|(name, range)| register_broker_record::Features {
                    name: name.clone(),
                    min_supported_version: range.min,
                    max_supported_version: range.max,
                })
                .collect(),
            rack: self.rack.clone(),
            fenced: self.fenced,
            in_controlled_shutdown: self.in_controlled_shutdown,
            log_dirs: self.directories.clone(),
            cordoned_log_dirs: (!self.cordoned_directories.is_empty())
                .then(|| self.cordoned_directories.clone()),
        }
    }
}

/// The directory of a replica whose broker has yet to say.
pub const UNASSIGNED: Uuid = Uuid::from_u128(1);
/// The directory of a replica that was written down before directories were.
pub const MIGRATING: Uuid = Uuid::from_u128(0);

/// A registered controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControllerRegistration {
    /// Its id.
    pub id: BrokerId,
    /// Fresh for each process.
    pub incarnation_id: Uuid,
    /// Its listeners.
    pub endpoints: Vec<Endpoint>,
    /// The features it claims.
    pub features: BTreeMap<String, LevelRange>,
}

impl ControllerRegistration {
    pub(super) fn from_record(record: &register_controller_record::RegisterControllerRecord) -> Self {
        Self {
            id: BrokerId(record.controller_id),
            incarnation_id: record.incarnation_id,
            endpoints: record
                .end_points
                .iter()
                .map(|e| Endpoint {
                    listener: e.name.clone(),
                    host: e.host.clone(),
                    port: e.port,
                    security_protocol: e.security_protocol,
                })
                .collect(),
            features: record
                .features
                .iter()
                .map(|f| {
                    (
                        f.name.clone(),
                        LevelRange { min: f.min_supported_version, max: f.max_supported_version },
                    )
                })
                .collect(),
        }
    }

    /// The record that registers it so.
    pub fn to_record(&self) -> register_controller_record::RegisterControllerRecord {
        register_controller_record::RegisterControllerRecord {
            controller_id: self.id.0,
            incarnation_id: self.incarnation_id,
            zk_migration_ready: false,
            end_points: self
                .endpoints
                .iter()
                .map(|e| register_controller_record::EndPoints {
                    name: e.listener.clone(),
                    host: e.host.clone(),
                    port: e.port,
                    security_protocol: e.security_protocol,
                })
                .collect(),
            features: self
                .features
                .iter()
                .map(|(name, range)| register_controller_record::Features {
                    name: name.clone(),
                    min_supported_version: range.min,
                    max_supported_version: range.max,
                })
                .collect(),
        }
    }
}
