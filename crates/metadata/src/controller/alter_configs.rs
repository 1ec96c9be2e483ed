//! IncrementalAlterConfigs and the older AlterConfigs.
//!
//! Source: KIP-339, wire-apis §7, Kafka ConfigAdminManager, ConfigurationControlManager.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::clear_elr_record::ClearElrRecord;
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_types::{BrokerId, ErrorCode};

use super::{Controller, Decided, Reply, times};
use crate::config::{
    ConfigFault, check_broker_changes, check_client_metrics, check_group_config, check_topic_config,
};
use crate::image::{ConfigResource, ResourceType};
use crate::keys::{Key, Kind, Scope};
use crate::record::MetadataRecord;
use crate::topic_name::{self, TopicNameFault};

/// Changes of configurations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AlterConfigs {
    /// The resources.
    pub resources: Vec<ConfigChanges>,
    /// Whether what is not named stays.
    pub mode: AlterMode,
    /// Whether nothing is written.
    pub validate_only: bool,
}

/// What happens to keys that a request does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlterMode {
    /// They stay: IncrementalAlterConfigs.
    Incremental,
    /// They go: AlterConfigs.
    ReplaceAll,
}

/// The changes of one resource: all or none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConfigChanges {
    /// The resource.
    pub resource: ConfigResource,
    /// The changes.
    pub changes: Vec<ConfigChange>,
}

/// The change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConfigChange {
    /// The key.
    pub key: String,
    /// 0 sets, 1 deletes, 2 appends to a list, 3 takes away from a list.
    pub operation: i8,
    /// The value; none to delete.
    pub value: Option<String>,
}

impl ConfigChange {
    /// Sets the key.
    pub const SET: i8 = 0;
    /// Goes back to what is in force without it.
    pub const DELETE: i8 = 1;
    /// Adds items to a list.
    pub const APPEND: i8 = 2;
    /// Takes items from a list.
    pub const SUBTRACT: i8 = 3;
}

/// The name of the logger above all others.
const ROOT_LOGGER: &str = "root";

/// Why a resource is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AlterConfigsRefusal {
    /// The request names the resource twice.
    DuplicateResource,
    /// The request names a key twice.
    DuplicateKey,
    /// Keys have no value; their names.
    NoValue(Vec<String>),
    /// There is no such operation.
    UnknownOperation(i8),
    /// There are no resources of that kind.
    UnknownKind(i8),
    /// A resource of that kind needs a name.
    NoName(ResourceType),
    /// No topic can have that name.
    TopicName(TopicNameFault),
    /// No topic has that name.
    UnknownTopic(String),
    /// A node is named that is not this one.
    OtherNode {
        /// Whether its loggers are meant.
        is_logger: bool,
        /// This one.
        expected: BrokerId,
        /// What the request names.
        found: String,
    },
    /// Items are added to or taken from what is no list.
    NotAList {
        /// Whether the key is a broker's.
        is_broker: bool,
        /// What is to be done.
        operation: i8,
        /// The key.
        key: String,
    },
    /// Levels of loggers are no lists.
    LoggerOperation(i8),
    /// There is no such logger.
    UnknownLogger(String),
    /// The root of all loggers has a level always.
    RootLogger,
    /// The key has to stand for all brokers at once while eligible leader replicas are on.
    MinInsyncReplicas {
        /// Whether the value for all brokers was to go, or one broker's was to change.
        for_all: bool,
    },
    /// A key or value cannot be.
    Value {
        /// The code, which depends on the kind of resource.
        code: ErrorCode,
        /// The sentence.
        message: String,
    },
}

impl Refusal for AlterConfigsRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::DuplicateResource
            | Self::DuplicateKey
            | Self::NoValue(_)
            | Self::UnknownOperation(_)
            | Self::UnknownKind(_)
            | Self::NoName(_)
            | Self::RootLogger
            | Self::LoggerOperation(_)
            | Self::OtherNode { .. } => ErrorCode::InvalidRequest,
            Self::TopicName(_) => ErrorCode::InvalidTopicException,
            Self::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
            Self::NotAList { .. } | Self::UnknownLogger(_) | Self::MinInsyncReplicas { .. } => {
                ErrorCode::InvalidConfig
            }
            Self::Value { code, .. } => *code,
        }
    }
}

impl core::fmt::Display for AlterConfigsRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::DuplicateResource => f.write_str("Each resource must appear at most once."),
            Self::DuplicateKey => f.write_str("Error due to duplicate config keys"),
            Self::NoValue(keys) => write!(f, "Null value not supported for : {}", keys.join(", ")),
            Self::UnknownOperation(operation) => write!(f, "There is no operation {operation}."),
            Self::UnknownKind(kind) => write!(f, "Unknown resource type {kind}"),
            Self::NoName(ResourceType::TOPIC) => f.write_str("Default topic resources are not allowed."),
            Self::NoName(ResourceType::GROUP) => f.write_str("Default group resources are not allowed."),
            Self::NoName(ResourceType(_)) => f.write_str("Subscription name can't be empty"),
            Self::TopicName(fault) => fault.fmt(f),
            Self::UnknownTopic(name) => write!(f, "The topic '{name}' does not exist."),
            Self::OtherNode { is_logger, expected, found } => match (found.parse::<i32>(), is_logger) {
                (Err(_), _) => write!(f, "Node id must be an integer, but it is: {found}"),
                (Ok(id), false) => write!(f, "Unexpected broker id, expected {expected}, but received {id}"),
                (Ok(id), true) => write!(f, "Unexpected node id. Expected {expected}, but received {id}"),
            },
            Self::NotAList { is_broker: true, operation, key } => {
                let operation = operation_name(*operation).to_ascii_lowercase();
                write!(f, "Config value {operation} is not allowed for config key: {key}")
            }
            Self::NotAList { is_broker: false, operation, key } => {
                write!(f, "Can't {} to key {key} because its type is not LIST.", operation_name(*operation))
            }
            Self::LoggerOperation(operation) => write!(
                f,
                "{} operation is not allowed for the BROKER_LOGGER resource",
                operation_name(*operation)
            ),
            Self::RootLogger => f.write_str("Removing the log level of the root logger is not allowed"),
            Self::UnknownLogger(name) => write!(f, "Logger {name} does not exist!"),
            Self::MinInsyncReplicas { for_all: true } => {
                f.write_str("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
            }
            Self::MinInsyncReplicas { for_all: false } => {
                f.write_str("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
            }
            Self::Value { message, .. } => f.write_str(message),
        }
    }
}

impl From<ConfigFault> for AlterConfigsRefusal {
    fn from(fault: ConfigFault) -> Self {
        Self::Value { code: fault.code, message: fault.message }
    }
}

fn operation_name(operation: i8) -> &'static str {
    if operation == ConfigChange::APPEND { "APPEND" } else { "SUBTRACT" }
}

type Values = BTreeMap<String, String>;

impl Controller {
    pub(super) fn alter_configs(&self, token: Token, request: &AlterConfigs) -> Decided {
        let mut records = Vec::new();
        let mut results = Vec::new();
        let times = times(request.resources.iter().map(|changes| &changes.resource));
        let mut answered = BTreeSet::new();
        for changes in &request.resources {
            if !answered.insert(&changes.resource) {
                continue;
            }
            let altered = if times[&changes.resource] > 1 {
                Err(AlterConfigsRefusal::DuplicateResource)
            } else {
                self.alter_resource(changes, request.mode)
            };
            results.push((changes.resource.clone(), altered.map(|new| records.extend(new))));
        }
        if request.validate_only {
            records.clear();
        }
        self.write(records, token, Reply::AlterConfigs(results))
    }

    fn alter_resource(
        &self,
        changes: &ConfigChanges,
        mode: AlterMode,
    ) -> Result<Vec<MetadataRecord>, AlterConfigsRefusal> {
        let resource = &changes.resource;
        check_changes(&changes.changes)?;
        self.check_resource(resource, mode)?;
        if resource.kind == ResourceType::BROKER_LOGGER {
            if changes
                .changes
                .iter()
                .any(|change| change.key == ROOT_LOGGER && change.operation == ConfigChange::DELETE)
            {
                return Err(AlterConfigsRefusal::RootLogger);
            }
            let is_list_operation = |change: &&ConfigChange| {
                [ConfigChange::APPEND, ConfigChange::SUBTRACT].contains(&change.operation)
            };
            if let Some(change) = changes.changes.iter().find(is_list_operation) {
                return Err(AlterConfigsRefusal::LoggerOperation(change.operation));
            }
            // There are no loggers to set; deleting what is not set is fine.
            let set = changes.changes.iter().find(|change| change.operation != ConfigChange::DELETE);
            return set.map_or(Ok(Vec::new()), |change| {
                Err(AlterConfigsRefusal::UnknownLogger(change.key.clone()))
            });
        }
        let old: Values =
            self.image().configs.get(resource).map(|values| (**values).clone()).unwrap_or_default();
        let mut new = match mode {
            AlterMode::Incremental => old.clone(),
            AlterMode::ReplaceAll => Values::new(),
        };
        for change in &changes.changes {
            self.apply(resource, change, &mut new)?;
        }
        self.check_values(resource, &old, &new, &changes.changes)?;
        Ok(self.records_of(resource, &old, &new))
    }

    /// The older request does not know loggers.
    fn check_resource(&self, resource: &ConfigResource, mode: AlterMode) -> Result<(), AlterConfigsRefusal> {
        let name = &resource.name;
        match resource.kind {
            ResourceType::BROKER_LOGGER if mode == AlterMode::ReplaceAll => {
                Err(AlterConfigsRefusal::UnknownKind(resource.kind.0))
            }
            ResourceType::TOPIC if name.is_empty() => Err(AlterConfigsRefusal::NoName(resource.kind)),
            ResourceType::TOPIC => {
                topic_name::check(name).map_err(AlterConfigsRefusal::TopicName)?;
                let found = self.image().topics.by_name(name).map(|_| ());
                found.ok_or_else(|| AlterConfigsRefusal::UnknownTopic(name.clone()))
            }
            ResourceType::BROKER if name.is_empty() => Ok(()),
            ResourceType::BROKER | ResourceType::BROKER_LOGGER if *name == self.node_id.to_string() => Ok(()),
            ResourceType::BROKER | ResourceType::BROKER_LOGGER => Err(AlterConfigsRefusal::OtherNode {
                is_logger: resource.kind == ResourceType::BROKER_LOGGER,
                expected: self.node_id,
                found: name.clone(),
            }),
            ResourceType::CLIENT_METRICS | ResourceType::GROUP if name.is_empty() => {
                Err(AlterConfigsRefusal::NoName(resource.kind))
            }
            ResourceType::CLIENT_METRICS | ResourceType::GROUP => Ok(()),
            ResourceType(kind) => Err(AlterConfigsRefusal::UnknownKind(kind)),
        }
    }

    fn apply(
        &self,
        resource: &ConfigResource,
        change: &ConfigChange,
        values: &mut Values,
    ) -> Result<(), AlterConfigsRefusal> {
        let value = change.value.as_deref().unwrap_or_default();
        match change.operation {
            ConfigChange::SET => {
                values.insert(change.key.clone(), value.to_string());
            }
            ConfigChange::DELETE => {
                values.remove(&change.key);
            }
            operation => {
                let key = find_key(resource.kind, &change.key)
                    .filter(|key| key.kind == Kind::List)
                    .ok_or_else(|| AlterConfigsRefusal::NotAList {
                        is_broker: resource.kind == ResourceType::BROKER,
                        operation,
                        key: change.key.clone(),
                    })?;
                let mut items = self.current_items(resource, key, values);
                for item in value.split(',').map(str::trim) {
                    if operation == ConfigChange::SUBTRACT {
                        items.retain(|known| known != item);
                    } else if !items.iter().any(|known| known == item) {
                        items.push(item.to_string());
                    }
                }
                values.insert(change.key.clone(), items.join(","));
            }
        }
        Ok(())
    }

    /// A list as it is now, whoever set it: that is what is added to and taken from.
    fn current_items(&self, resource: &ConfigResource, key: &'static Key, values: &Values) -> Vec<String> {
        let own = values.get(key.name).map(String::as_str);
        let in_force = match (own, resource.kind) {
            (Some(text), _) => key.parse(text).ok(),
            (None, ResourceType::TOPIC) => self.view().topic_value(&resource.name, key),
            (None, ResourceType::BROKER) => self.view().broker_value(key),
            (None, ResourceType::GROUP) => self.view().group_value(&resource.name, key),
            (None, _) => key.default.and_then(|text| key.parse(text).ok()),
        };
        in_force.and_then(|value| value.as_list().map(<[String]>::to_vec)).unwrap_or_default()
    }

    fn check_values(
        &self,
        resource: &ConfigResource,
        old: &Values,
        new: &Values,
        changes: &[ConfigChange],
    ) -> Result<(), AlterConfigsRefusal> {
        match resource.kind {
            ResourceType::TOPIC => Ok(check_topic_config(new)?),
            ResourceType::GROUP => Ok(check_group_config(new, self.view())?),
            ResourceType::CLIENT_METRICS => Ok(check_client_metrics(new)?),
            _ => {
                // In order of the request, in which Kafka names them.
                let named: BTreeSet<&str> = changes.iter().map(|change| change.key.as_str()).collect();
                let in_order = changes.iter().filter_map(|change| new.get_key_value(&change.key));
                let is_other = |(key, value): &(&String, &String)| {
                    !named.contains(key.as_str()) && old.get(*key) != Some(*value)
                };
                let set = in_order.chain(new.iter().filter(is_other));
                let set: Vec<(&str, &str)> = set.map(|(key, value)| (key.as_str(), value.as_str())).collect();
                check_broker_changes(&set, resource.name.is_empty())?;
                self.check_min_insync_replicas(resource, old, new)
            }
        }
    }

    /// With eligible leader replicas every broker must use the value that the controller uses (cluster §12.2, DANGER).
    fn check_min_insync_replicas(
        &self,
        resource: &ConfigResource,
        old: &Values,
        new: &Values,
    ) -> Result<(), AlterConfigsRefusal> {
        let (before, after) = (old.get(MIN_INSYNC_REPLICAS), new.get(MIN_INSYNC_REPLICAS));
        let is_wrong =
            if resource.name.is_empty() { before.is_some() && after.is_none() } else { after.is_some() };
        if is_wrong && self.image().has_eligible_leader_replicas() {
            return Err(AlterConfigsRefusal::MinInsyncReplicas { for_all: resource.name.is_empty() });
        }
        Ok(())
    }

    /// What changed becomes records; of a broker also what was set to the same value, as that may mean a new file behind it.
    fn records_of(&self, resource: &ConfigResource, old: &Values, new: &Values) -> Vec<MetadataRecord> {
        let record = |name: &String, value: Option<&String>| {
            MetadataRecord::from(ConfigRecord {
                resource_type: resource.kind.0,
                resource_name: resource.name.clone(),
                name: name.clone(),
                value: value.cloned(),
            })
        };
        let is_broker = resource.kind == ResourceType::BROKER;
        let set = new.iter().filter(|(name, value)| is_broker || old.get(*name) != Some(*value));
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        let mut records: Vec<MetadataRecord> = set
            .map(|(name, value)| record(name, Some(value)))
            .chain(gone.map(|name| record(name, None)))
            .collect();
        let min_isr_changed = old.get(MIN_INSYNC_REPLICAS) != new.get(MIN_INSYNC_REPLICAS);
        if min_isr_changed && self.image().has_eligible_leader_replicas() {
            let topic_name = if is_broker { String::new() } else { resource.name.clone() };
            records.push(ClearElrRecord { topic_name }.into());
        }
        records
    }
}

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

fn find_key(kind: ResourceType, name: &str) -> Option<&'static Key> {
    match kind {
        ResourceType::TOPIC => Scope::Topic.find(name),
        ResourceType::GROUP => Scope::Group.find(name),
        ResourceType::CLIENT_METRICS => Scope::ClientMetrics.find(name),
        _ => Scope::Broker.find(name),
    }
}

/// What can be wrong with changes whatever they are for.
///
/// Differs from Kafka: an operation that does not exist is the request's fault, not ours.
fn check_changes(changes: &[ConfigChange]) -> Result<(), AlterConfigsRefusal> {
    let mut keys = BTreeSet::new();
    for change in changes {
        if !keys.insert(change.key.as_str()) {
            return Err(AlterConfigsRefusal::DuplicateKey);
        }
        if !(ConfigChange::SET..=ConfigChange::SUBTRACT).contains(&change.operation) {
            return Err(AlterConfigsRefusal::UnknownOperation(change.operation));
        }
    }
    let is_null = |change: &&ConfigChange| change.value.is_none() && change.operation != ConfigChange::DELETE;
    let nulls: Vec<String> = changes.iter().filter(is_null).map(|change| change.key.clone()).collect();
    if nulls.is_empty() { Ok(()) } else { Err(AlterConfigsRefusal::NoValue(nulls)) }
}

impl core::fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let text = match self.kind {
            ResourceType::TOPIC => format!("topic {}", self.name),
            ResourceType::BROKER if self.name.is_empty() => "all brokers".to_string(),
            ResourceType::BROKER => format!("broker {}", self.name),
            ResourceType::GROUP => format!("group {}", self.name),
            ResourceType::CLIENT_METRICS => format!("client metrics {}", self.name),
            ResourceType(kind) => format!("resource {} of kind {kind}", self.name),
        };
        f.write_str(&text)
    }
}
