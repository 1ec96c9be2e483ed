//! CreatePartitions.
//!
//! Source: wire-apis §7, Kafka ReplicationControlManager.createPartitions.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_types::{BrokerId, ErrorCode, PartitionIndex};

use super::create_topics::NEW_PARTITIONS_PER_REQUEST_MAX;
use super::{Controller, Decided, Reply, placement, times};
use crate::config::{OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC};
use crate::image::Topic;
use crate::record::MetadataRecord;

/// A topic that is to have more partitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MorePartitions {
    /// The topic.
    pub name: String,
    /// How many it is to have in all.
    pub count: i32,
    /// The replicas of each new partition, given by hand.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// Why a topic gets no more partitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CreatePartitionsRefusal {
    /// The request names it twice.
    DuplicateName,
    /// No topic has that name.
    UnknownTopic,
    /// Records are found in this topic by its number of partitions.
    Internal,
    /// The topic has that many, or more.
    NotMore {
        /// How many it has.
        has: usize,
        /// How many it was to have.
        wanted: i32,
    },
    /// More partitions than one request may create.
    TooMany,
    /// An assignment by hand cannot be.
    Assignment {
        /// The sentence.
        message: String,
    },
    /// There are fewer brokers than replicas.
    TooFewBrokers,
}

impl Refusal for CreatePartitionsRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::DuplicateName => ErrorCode::InvalidRequest,
            Self::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
            Self::Internal | Self::NotMore { .. } => ErrorCode::InvalidPartitions,
            Self::TooMany => ErrorCode::PolicyViolation,
            Self::Assignment { .. } => ErrorCode::InvalidReplicaAssignment,
            Self::TooFewBrokers => ErrorCode::InvalidReplicationFactor,
        }
    }
}

impl core::fmt::Display for CreatePartitionsRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::DuplicateName => f.write_str("Duplicate topic name."),
            Self::UnknownTopic => f.write_str("No topic has this name."),
            Self::Internal => f.write_str("The partition count of an internal topic never changes."),
            Self::NotMore { has, wanted } => {
                write!(f, "The topic has {has} partitions; {wanted} are not more.")
            }
            Self::TooMany => {
                write!(f, "One request may create at most {NEW_PARTITIONS_PER_REQUEST_MAX} partitions.")
            }
            Self::Assignment { message } => f.write_str(message),
            Self::TooFewBrokers => {
                f.write_str("There are fewer brokers than a partition of this topic has replicas.")
            }
        }
    }
}

impl CreatePartitionsRefusal {
    /// The text for the client, in Kafka's words where tools read them ("would not be an increase").
    ///
    /// Source: Kafka ReplicationControlManager.createPartitions.
    pub fn text(&self, topic: &str) -> String {
        let Self::NotMore { has, wanted } = self else { return alloc::format!("{self}") };
        if usize::try_from(*wanted) == Ok(*has) {
            return alloc::format!("Topic already has {has} partition(s).");
        }
        alloc::format!(
            "The topic {topic} currently has {has} partition(s); {wanted} would not be an increase."
        )
    }
}

impl Controller {
    pub(super) fn create_partitions(
        &self,
        token: Token,
        topics: &[MorePartitions],
        validate_only: bool,
    ) -> Decided {
        let mut records = Vec::new();
        let mut results = Vec::new();
        let times = times(topics.iter().map(|topic| topic.name.as_str()));
        let mut answered = BTreeSet::new();
        for topic in topics {
            if !answered.insert(topic.name.as_str()) {
                continue;
            }
            let grown = if times[topic.name.as_str()] > 1 {
                Err(CreatePartitionsRefusal::DuplicateName)
            } else {
                self.grow(topic, NEW_PARTITIONS_PER_REQUEST_MAX - records.len())
            };
            results.push((topic.name.clone(), grown.map(|new| records.extend(new))));
        }
        if validate_only {
            records.clear();
        }
        self.write(records, token, Reply::CreatePartitions(results))
    }

    /// Differs from Kafka: the coordinators' topics keep their partition counts, as a group's or a transactional id's
    /// partition is its hash modulo that count.
    fn grow(
        &self,
        asked: &MorePartitions,
        budget: usize,
    ) -> Result<Vec<MetadataRecord>, CreatePartitionsRefusal> {
        let topic = self.image().topics.by_name(&asked.name).ok_or(CreatePartitionsRefusal::UnknownTopic)?;
        if [OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC].contains(&asked.name.as_str()) {
            return Err(CreatePartitionsRefusal::Internal);
        }
        let has = topic.partitions.len();
        let wanted = usize::try_from(asked.count).unwrap_or(0);
        if wanted <= has {
            return Err(CreatePartitionsRefusal::NotMore { has, wanted: asked.count });
        }
        if wanted - has > budget {
            return Err(CreatePartitionsRefusal::TooMany);
        }
        let replicas = match &asked.assignments {
            None => self.place_more(topic, has..wanted)?,
            Some(assignments) => self.check_assigned(topic, wanted - has, assignments)?,
        };
        let new = (has..wanted).zip(replicas).map(|(index, replicas)| {
            placement::new_partition(self.image(), topic.id, index_of(index), replicas).into()
        });
        Ok(new.collect())
    }

    fn place_more(
        &self,
        topic: &Topic,
        indexes: core::ops::Range<usize>,
    ) -> Result<Vec<Vec<BrokerId>>, CreatePartitionsRefusal> {
        let brokers = placement::usable_brokers(self.image());
        let count = replication_factor(topic);
        if brokers.len() < count {
            return Err(CreatePartitionsRefusal::TooFewBrokers);
        }
        Ok(indexes.map(|index| placement::place(&brokers, topic.id, index_of(index), count)).collect())
    }

    fn check_assigned(
        &self,
        topic: &Topic,
        count: usize,
        assignments: &[Vec<BrokerId>],
    ) -> Result<Vec<Vec<BrokerId>>, CreatePartitionsRefusal> {
        let fault = |message: String| CreatePartitionsRefusal::Assignment { message };
        if assignments.len() != count {
            let message =
                format!("{} new partitions need as many lists of brokers, not {}.", count, assignments.len());
            return Err(fault(message));
        }
        for replicas in assignments {
            placement::check_assignment(self.image(), replicas)
                .map_err(|why| fault(format!("The replicas of a new partition cannot be: {why}.")))?;
            if replicas.len() != replication_factor(topic) {
                return Err(fault("Every partition must have the same number of replicas.".to_string()));
            }
        }
        Ok(assignments.to_vec())
    }
}

fn replication_factor(topic: &Topic) -> usize {
    topic.partitions.values().next().map_or(1, |partition| partition.replicas.len())
}

fn index_of(index: usize) -> PartitionIndex {
    PartitionIndex(i32::try_from(index).expect("the count is an i32"))
}
