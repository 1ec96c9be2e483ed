//! ElectLeaders.
//!
//! Source: KIP-460, wire-apis §7, Kafka ReplicationControlManager.electLeaders.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::partition_change_record::PartitionChangeRecord;
use fencepost_types::{ErrorCode, PartitionIndex, TopicName};

use super::leadership::{self, is_eligible};
use super::{Controller, Decided, Reply};
use crate::image::{Partition, Topic};

/// Which kind of election; the numbers are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElectionType(pub i8);

impl ElectionType {
    /// The preferred replica becomes leader, if it is in sync.
    pub const PREFERRED: Self = Self(0);
    /// Any replica becomes leader of a partition that has none.
    pub const UNCLEAN: Self = Self(1);
}

/// What elections led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionOutcome {
    /// Whether there is such a kind of election.
    pub result: Result<(), ElectionRefusal>,
    /// By topic, in order of the request: what became of each partition. When all are asked for, only those that needed
    /// an election.
    pub topics: Vec<(String, Vec<(PartitionIndex, Result<(), ElectionRefusal>)>)>,
}

/// Why nobody was elected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElectionRefusal {
    /// There is no such kind of election.
    UnknownType(ElectionType),
    /// No topic has that name.
    UnknownTopic(TopicName),
    /// The topic has no such partition.
    UnknownPartition(TopicName, PartitionIndex),
    /// The leader is who it should be.
    NotNeeded,
    /// The preferred replica is not in sync or not alive.
    PreferredNotAvailable,
    /// No replica is alive.
    NobodyAvailable,
}

impl Refusal for ElectionRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownType(_) => ErrorCode::InvalidRequest,
            Self::UnknownTopic(_) | Self::UnknownPartition(..) => ErrorCode::UnknownTopicOrPartition,
            Self::NotNeeded => ErrorCode::ElectionNotNeeded,
            Self::PreferredNotAvailable => ErrorCode::PreferredLeaderNotAvailable,
            Self::NobodyAvailable => ErrorCode::EligibleLeadersNotAvailable,
        }
    }
}

impl core::fmt::Display for ElectionRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownType(ElectionType(kind)) => write!(f, "Unknown election type {kind}"),
            Self::UnknownTopic(name) => write!(f, "No such topic as {name}"),
            Self::UnknownPartition(name, index) => write!(f, "No such partition as {name}-{index}"),
            Self::NotNeeded | Self::PreferredNotAvailable | Self::NobodyAvailable => {
                f.write_str(self.code().sentence())
            }
        }
    }
}

impl Controller {
    pub(super) fn elect_leaders(
        &self,
        token: Token,
        election: ElectionType,
        partitions: Option<&[(String, Vec<PartitionIndex>)]>,
    ) -> Decided {
        let is_all = partitions.is_none();
        let all: Vec<(String, Vec<PartitionIndex>)>;
        let asked = match partitions {
            Some(partitions) => partitions,
            None => {
                let topics = self.image().topics.iter();
                all = topics.map(|t| (t.name.to_string(), t.partitions.keys().copied().collect())).collect();
                &all
            }
        };
        let is_known = [ElectionType::PREFERRED, ElectionType::UNCLEAN].contains(&election);
        let mut records = Vec::new();
        let mut topics = Vec::new();
        for (name, indexes) in asked {
            let topic_name = TopicName::from(name.as_str());
            let mut results = Vec::new();
            for index in indexes {
                let elected = self
                    .elect_leader(election, &topic_name, *index)
                    .map(|change| records.push(change.into()));
                let is_told = !is_all || elected != Err(ElectionRefusal::NotNeeded);
                if is_told {
                    results.push((*index, elected));
                }
            }
            topics.push((name.clone(), results));
        }
        let result = if is_known { Ok(()) } else { Err(ElectionRefusal::UnknownType(election)) };
        self.write(records, token, Reply::ElectLeaders(ElectionOutcome { result, topics }))
    }

    fn elect_leader(
        &self,
        election: ElectionType,
        name: &TopicName,
        index: PartitionIndex,
    ) -> Result<PartitionChangeRecord, ElectionRefusal> {
        let elect = match election {
            ElectionType::PREFERRED => Self::elect_preferred,
            ElectionType::UNCLEAN => Self::elect_any,
            ElectionType(_) => return Err(ElectionRefusal::UnknownType(election)),
        };
        let topic = self.image().topics.by_name(name);
        let topic = topic.ok_or_else(|| ElectionRefusal::UnknownTopic(name.clone()))?;
        let partition = topic.partitions.get(&index);
        let partition = partition.ok_or_else(|| ElectionRefusal::UnknownPartition(name.clone(), index))?;
        elect(self, topic, index, partition)
    }

    fn elect_preferred(
        &self,
        topic: &Topic,
        index: PartitionIndex,
        partition: &Partition,
    ) -> Result<PartitionChangeRecord, ElectionRefusal> {
        let preferred = partition.preferred_leader().ok_or(ElectionRefusal::PreferredNotAvailable)?;
        if partition.leader == preferred {
            return Err(ElectionRefusal::NotNeeded);
        }
        if !partition.isr.contains(&preferred) || !is_eligible(self.image(), preferred) {
            return Err(ElectionRefusal::PreferredNotAvailable);
        }
        let mut change = leadership::unchanged(topic.id, index);
        change.leader = preferred.0;
        Ok(change)
    }

    fn elect_any(
        &self,
        topic: &Topic,
        index: PartitionIndex,
        partition: &Partition,
    ) -> Result<PartitionChangeRecord, ElectionRefusal> {
        if partition.has_leader() {
            return Err(ElectionRefusal::NotNeeded);
        }
        let is_alive = |id| is_eligible(self.image(), id);
        if let Some(change) = leadership::elect(self, topic, index, partition, is_alive) {
            return Ok(change);
        }
        let leader = partition
            .replicas
            .iter()
            .copied()
            .find(|id| is_alive(*id))
            .ok_or(ElectionRefusal::NobodyAvailable)?;
        let mut change = leadership::unchanged(topic.id, index);
        change.leader = leader.0;
        change.isr = Some([leader.0].into());
        Ok(change)
    }
}
