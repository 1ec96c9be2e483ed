//! CreateTopics.
//!
//! Source: wire-apis §7, Kafka ReplicationControlManager.createTopics.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::clear_elr_record::ClearElrRecord;
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_records::persisted::topic_record::TopicRecord;
use fencepost_types::{BrokerId, ErrorCode, PartitionIndex, Uuid};

use super::placement::{self, AssignmentFault};
use super::{Controller, Decided, Reply, times};
use crate::config::{ConfigEntry, ConfigFault, check_topic_config, topic_entry_of};
use crate::image::ResourceType;
use crate::keys::Scope;
use crate::record::MetadataRecord;
use crate::topic_name::{self, TopicNameFault};

/// The metadata log's own topic: nobody creates it.
pub(crate) const METADATA_TOPIC: &str = "__cluster_metadata";
/// Partitions that one request may create.
pub(crate) const NEW_PARTITIONS_PER_REQUEST_MAX: usize = 10_000;
/// In place of a count: the broker's default.
const DEFAULT_COUNT: i32 = -1;

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Its id: fresh and random.
    pub id: Uuid,
    /// How many partitions; −1 is the default.
    pub num_partitions: i32,
    /// How many replicas of each; −1 is the default.
    pub replication_factor: i16,
    /// Partitions with their replicas, given by hand; then both counts are −1.
    pub assignments: Vec<(PartitionIndex, Vec<BrokerId>)>,
    /// Its settings; the last value of a key counts.
    pub configs: Vec<(String, Option<String>)>,
}

/// A topic that was, or could be, created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id.
    pub id: Uuid,
    /// How many partitions it has.
    pub num_partitions: i32,
    /// How many replicas each has.
    pub replication_factor: i16,
    /// All its settings in force, in order of key.
    pub configs: Vec<ConfigEntry>,
}

/// Why a topic is not created.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CreateTopicRefusal {
    /// The request names it twice.
    DuplicateName,
    /// It is the metadata log's own.
    MetadataTopic,
    /// There is a topic of that name.
    Exists(String),
    /// No topic can have that name.
    Name(TopicNameFault),
    /// Another topic's name differs by dots and underscores only.
    Collides {
        /// The name.
        name: String,
        /// The other topic.
        with: String,
    },
    /// A setting cannot be.
    Config {
        /// The sentence.
        message: String,
    },
    /// The partition count is neither positive nor −1.
    PartitionCount(i32),
    /// The replica count is neither positive nor −1.
    ReplicationFactor(i16),
    /// There are fewer brokers than replicas.
    TooFewBrokers {
        /// How many replicas are asked for.
        replication_factor: i16,
        /// How many brokers could hold one.
        brokers: usize,
    },
    /// A count of partitions stands beside an assignment.
    PartitionCountBesideAssignment,
    /// A count of replicas stands beside an assignment.
    ReplicationFactorBesideAssignment,
    /// Replicas that are given by hand cannot be.
    Assignment(AssignmentFault),
    /// A partition is given replicas twice.
    AssignedTwice(PartitionIndex),
    /// The partitions that are given replicas are not numbered from 0 on.
    AssignmentGap,
    /// More partitions than one request may create.
    TooManyPartitions,
}

impl Refusal for CreateTopicRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::DuplicateName
            | Self::MetadataTopic
            | Self::PartitionCountBesideAssignment
            | Self::ReplicationFactorBesideAssignment => ErrorCode::InvalidRequest,
            Self::Exists(_) => ErrorCode::TopicAlreadyExists,
            Self::Name(_) | Self::Collides { .. } => ErrorCode::InvalidTopicException,
            Self::Config { .. } => ErrorCode::InvalidConfig,
            Self::PartitionCount(_) => ErrorCode::InvalidPartitions,
            Self::ReplicationFactor(_) | Self::TooFewBrokers { .. } => ErrorCode::InvalidReplicationFactor,
            Self::Assignment(_) | Self::AssignedTwice(_) | Self::AssignmentGap => {
                ErrorCode::InvalidReplicaAssignment
            }
            Self::TooManyPartitions => ErrorCode::PolicyViolation,
        }
    }
}

impl core::fmt::Display for CreateTopicRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::DuplicateName => f.write_str("Duplicate topic name."),
            Self::MetadataTopic => {
                write!(f, "Creation of internal topic {METADATA_TOPIC} is prohibited.")
            }
            Self::Exists(name) => write!(f, "Topic '{name}' already exists."),
            Self::Name(fault) => fault.fmt(f),
            Self::Collides { name, with } => {
                write!(f, "Topic '{name}' collides with existing topic: {with}")
            }
            Self::Config { message } => f.write_str(message),
            Self::Assignment(fault) => fault.fmt(f),
            Self::AssignedTwice(index) => {
                write!(f, "Found multiple manual partition assignments for partition {index}")
            }
            Self::AssignmentGap => f.write_str("partitions should be a consecutive 0-based integer sequence"),
            Self::PartitionCount(_) => {
                f.write_str("Number of partitions was set to an invalid non-positive value.")
            }
            Self::ReplicationFactor(_) => {
                f.write_str("Replication factor must be larger than 0, or -1 to use the default value.")
            }
            Self::TooFewBrokers { replication_factor, brokers } => {
                write!(
                    f,
                    "Unable to replicate the partition {replication_factor} time(s): The target replication factor of \
                     {replication_factor} cannot be reached because only {brokers} broker(s) are registered or some brokers \
                     have all their log directories cordoned."
                )
            }
            Self::PartitionCountBesideAssignment => f.write_str(
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            ),
            Self::ReplicationFactorBesideAssignment => f.write_str(
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            ),
            Self::TooManyPartitions => f.write_str("Excessively large number of partitions per request."),
        }
    }
}

impl From<ConfigFault> for CreateTopicRefusal {
    fn from(fault: ConfigFault) -> Self {
        Self::Config { message: fault.message }
    }
}

/// What a topic would be, once all its settings are known to be right.
struct Plan {
    configs: BTreeMap<String, String>,
    partitions: Vec<Vec<BrokerId>>,
}

impl Controller {
    pub(super) fn create_topics(&self, token: Token, topics: &[NewTopic], validate_only: bool) -> Decided {
        let mut records = Vec::new();
        let mut results = Vec::new();
        let mut budget = NEW_PARTITIONS_PER_REQUEST_MAX;
        let times = times(topics.iter().map(|topic| topic.name.as_str()));
        let mut answered = BTreeSet::new();
        for topic in topics {
            if !answered.insert(topic.name.as_str()) {
                continue;
            }
            let planned = if times[topic.name.as_str()] > 1 {
                Err(CreateTopicRefusal::DuplicateName)
            } else {
                self.plan_topic(topic, budget)
            };
            let result = planned.map(|plan| {
                budget -= plan.partitions.len();
                let created = self.created(topic, &plan);
                records.extend(self.topic_records(topic, plan));
                created
            });
            results.push((topic.name.clone(), result));
        }
        if validate_only {
            records.clear();
        }
        self.write(records, token, Reply::CreateTopics(results))
    }

    /// A name that exists wins over every other error (wire-apis §7).
    fn plan_topic(&self, topic: &NewTopic, budget: usize) -> Result<Plan, CreateTopicRefusal> {
        if topic.name == METADATA_TOPIC {
            return Err(CreateTopicRefusal::MetadataTopic);
        }
        if self.image().topics.by_name(&topic.name).is_some() {
            return Err(CreateTopicRefusal::Exists(topic.name.clone()));
        }
        topic_name::check(&topic.name).map_err(CreateTopicRefusal::Name)?;
        if let Some(with) = self.image().topics.colliding(&topic.name) {
            return Err(CreateTopicRefusal::Collides { name: topic.name.clone(), with: with.to_string() });
        }
        let configs = given_configs(&topic.configs)?;
        check_topic_config(&configs)?;
        let partitions = if topic.assignments.is_empty() {
            self.place_topic(topic, budget)?
        } else {
            self.assigned(topic, budget)?
        };
        Ok(Plan { configs, partitions })
    }

    fn place_topic(&self, topic: &NewTopic, budget: usize) -> Result<Vec<Vec<BrokerId>>, CreateTopicRefusal> {
        let partitions = match topic.num_partitions {
            DEFAULT_COUNT => self.default_count("num.partitions"),
            count => i64::from(count),
        };
        let replication_factor = match i32::from(topic.replication_factor) {
            DEFAULT_COUNT => self.default_count("default.replication.factor"),
            count => i64::from(count),
        };
        if replication_factor < 1 {
            return Err(CreateTopicRefusal::ReplicationFactor(topic.replication_factor));
        }
        if partitions < 1 {
            return Err(CreateTopicRefusal::PartitionCount(topic.num_partitions));
        }
        let partitions = usize::try_from(partitions).unwrap_or(usize::MAX);
        if partitions > budget {
            return Err(CreateTopicRefusal::TooManyPartitions);
        }
        let brokers = placement::usable_brokers(self.image());
        let replicas = usize::try_from(replication_factor).unwrap_or(usize::MAX);
        if brokers.len() < replicas {
            return Err(CreateTopicRefusal::TooFewBrokers {
                replication_factor: i16::try_from(replication_factor).unwrap_or(i16::MAX),
                brokers: brokers.len(),
            });
        }
        let at = |index| PartitionIndex(i32::try_from(index).unwrap_or(i32::MAX));
        Ok((0..partitions).map(|index| placement::place(&brokers, topic.id, at(index), replicas)).collect())
    }

    fn default_count(&self, name: &str) -> i64 {
        let key = Scope::Broker.find(name).unwrap_or_else(|| panic!("{name} is in the table"));
        self.view().broker_value(key).and_then(|value| value.as_number()).unwrap_or(1)
    }

    fn assigned(&self, topic: &NewTopic, budget: usize) -> Result<Vec<Vec<BrokerId>>, CreateTopicRefusal> {
        if i32::from(topic.replication_factor) != DEFAULT_COUNT {
            return Err(CreateTopicRefusal::ReplicationFactorBesideAssignment);
        }
        if topic.num_partitions != DEFAULT_COUNT {
            return Err(CreateTopicRefusal::PartitionCountBesideAssignment);
        }
        if topic.assignments.len() > budget {
            return Err(CreateTopicRefusal::TooManyPartitions);
        }
        let wanted = topic.assignments[0].1.len();
        let mut by_index = BTreeMap::new();
        for (index, replicas) in &topic.assignments {
            if by_index.contains_key(index) {
                return Err(CreateTopicRefusal::AssignedTwice(*index));
            }
            placement::check_assignment(self.image(), replicas, *index)
                .map_err(CreateTopicRefusal::Assignment)?;
            let found = replicas.len();
            if found != wanted {
                return Err(CreateTopicRefusal::Assignment(AssignmentFault::OtherLength { found, wanted }));
            }
            by_index.insert(*index, replicas.clone());
        }
        let is_dense = by_index.keys().enumerate().all(|(at, index)| usize::try_from(index.0) == Ok(at));
        if !is_dense {
            return Err(CreateTopicRefusal::AssignmentGap);
        }
        Ok(by_index.into_values().collect())
    }

    fn created(&self, topic: &NewTopic, plan: &Plan) -> CreatedTopic {
        let view = self.view();
        let configs = Scope::Topic
            .keys()
            .into_iter()
            // A key that Kafka keeps to itself shows where somebody has set it.
            .filter(|key| !key.internal || plan.configs.contains_key(key.name))
            .map(|key| {
                let own = plan.configs.get(key.name).map(String::as_str);
                topic_entry_of(key, view.topic_chain_with(own, key))
            })
            .collect();
        CreatedTopic {
            id: topic.id,
            num_partitions: i32::try_from(plan.partitions.len()).unwrap_or(i32::MAX),
            replication_factor: i16::try_from(plan.partitions[0].len()).unwrap_or(i16::MAX),
            configs,
        }
    }

    /// Topic, settings, partitions, in the order in which Kafka writes them.
    fn topic_records(&self, topic: &NewTopic, plan: Plan) -> Vec<MetadataRecord> {
        let mut records: Vec<MetadataRecord> =
            Vec::from([TopicRecord { name: topic.name.clone(), topic_id: topic.id }.into()]);
        let sets_min_isr = plan.configs.contains_key("min.insync.replicas");
        for (name, value) in plan.configs {
            let record = ConfigRecord {
                resource_type: ResourceType::TOPIC.0,
                resource_name: topic.name.clone(),
                name,
                value: Some(value),
            };
            records.push(record.into());
        }
        if sets_min_isr && self.image().has_eligible_leader_replicas() {
            records.push(ClearElrRecord { topic_name: topic.name.clone() }.into());
        }
        for (index, replicas) in plan.partitions.into_iter().enumerate() {
            let index = PartitionIndex(i32::try_from(index).expect("the count is limited"));
            records.push(placement::new_partition(self.image(), topic.id, index, replicas).into());
        }
        records
    }
}

fn given_configs(
    configs: &[(String, Option<String>)],
) -> Result<BTreeMap<String, String>, CreateTopicRefusal> {
    let nulls = configs.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.as_str());
    let nulls: Vec<&str> = nulls.collect();
    if !nulls.is_empty() {
        let message = alloc::format!("Null value not supported for topic configs: {}", nulls.join(","));
        return Err(CreateTopicRefusal::Config { message });
    }
    Ok(configs.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect())
}
