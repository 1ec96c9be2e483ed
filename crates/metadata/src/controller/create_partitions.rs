//! CreatePartitions.
//!
//! Source: wire-apis §7, Kafka ReplicationControlManager.createPartitions.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_types::{BrokerId, ErrorCode, PartitionIndex};

use super::create_topics::NEW_PARTITIONS_PER_REQUEST_MAX;
use super::placement::AssignmentFault;
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
        /// The topic.
        name: String,
        /// How many it has.
        has: usize,
        /// How many it was to have.
        wanted: i32,
    },
    /// More partitions than one request may create.
    TooMany,
    /// Replicas that are given by hand cannot be.
    Assignment(AssignmentFault),
    /// There are more or fewer lists of replicas than new partitions.
    AssignmentCount {
        /// New partitions.
        wanted: usize,
        /// Lists.
        found: usize,
    },
    /// There are fewer brokers than replicas.
    TooFewBrokers {
        /// How many replicas a partition of this topic has.
        replication_factor: usize,
        /// How many brokers could hold one.
        brokers: usize,
    },
}

impl Refusal for CreatePartitionsRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::DuplicateName => ErrorCode::InvalidRequest,
            Self::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
            Self::Internal | Self::NotMore { .. } => ErrorCode::InvalidPartitions,
            Self::TooMany => ErrorCode::PolicyViolation,
            Self::Assignment(_) | Self::AssignmentCount { .. } => ErrorCode::InvalidReplicaAssignment,
            Self::TooFewBrokers { .. } => ErrorCode::InvalidReplicationFactor,
        }
    }
}

impl core::fmt::Display for CreatePartitionsRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::DuplicateName => f.write_str("Duplicate topic name."),
            Self::UnknownTopic => f.write_str(self.code().sentence()),
            Self::Internal => f.write_str("The partition count of an internal topic never changes."),
            Self::NotMore { has, wanted, .. } if usize::try_from(*wanted) == Ok(*has) => {
                write!(f, "Topic already has {has} partition(s).")
            }
            Self::NotMore { name, has, wanted } => write!(
                f,
                "The topic {name} currently has {has} partition(s); {wanted} would not be an increase."
            ),
            Self::TooMany => f.write_str("Excessively large number of additional partitions per request."),
            Self::Assignment(fault) => fault.fmt(f),
            Self::AssignmentCount { wanted, found } => write!(
                f,
                "Attempted to add {wanted} additional partition(s), but only {found} assignment(s) were specified."
            ),
            Self::TooFewBrokers { replication_factor, brokers } => write!(
                f,
                "Unable to replicate the partition {replication_factor} time(s): The target replication factor of \
                 {replication_factor} cannot be reached because only {brokers} broker(s) are registered or some brokers have \
                 all their log directories cordoned."
            ),
        }
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
            let name = asked.name.clone();
            return Err(CreatePartitionsRefusal::NotMore { name, has, wanted: asked.count });
        }
        if wanted - has > budget {
            return Err(CreatePartitionsRefusal::TooMany);
        }
        let replicas = match &asked.assignments {
            None => self.place_more(topic, has..wanted)?,
            Some(assignments) => self.check_assigned(topic, has..wanted, assignments)?,
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
            return Err(CreatePartitionsRefusal::TooFewBrokers {
                replication_factor: count,
                brokers: brokers.len(),
            });
        }
        Ok(indexes.map(|index| placement::place(&brokers, topic.id, index_of(index), count)).collect())
    }

    fn check_assigned(
        &self,
        topic: &Topic,
        indexes: core::ops::Range<usize>,
        assignments: &[Vec<BrokerId>],
    ) -> Result<Vec<Vec<BrokerId>>, CreatePartitionsRefusal> {
        if assignments.len() != indexes.len() {
            let (wanted, found) = (indexes.len(), assignments.len());
            return Err(CreatePartitionsRefusal::AssignmentCount { wanted, found });
        }
        for (index, replicas) in indexes.zip(assignments) {
            placement::check_assignment(self.image(), replicas, index_of(index))
                .map_err(CreatePartitionsRefusal::Assignment)?;
            let (found, wanted) = (replicas.len(), replication_factor(topic));
            if found != wanted {
                let fault = AssignmentFault::OtherLength { found, wanted };
                return Err(CreatePartitionsRefusal::Assignment(fault));
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
