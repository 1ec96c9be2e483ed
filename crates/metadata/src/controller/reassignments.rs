//! AlterPartitionReassignments, as far as a node that stands alone can: it puts replicas in another order, and takes away
//! replicas of brokers that are gone. A replica that would have to be filled first has nowhere to be.
//!
//! Source: KIP-455, wire-apis §7, Kafka ReplicationControlManager.alterPartitionReassignments.

use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::partition_change_record::PartitionChangeRecord;
use fencepost_types::{BrokerId, ErrorCode, PartitionIndex, TopicName};

use super::leadership::{self, is_eligible};
use super::placement::{AssignmentFault, check_assignment};
use super::{Controller, Decided, Reply};
use crate::image::numbers;

/// Where one partition is to go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reassignment {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// Its new replicas; none cancels what is going on.
    pub replicas: Option<Vec<BrokerId>>,
    /// Whether there may be more or fewer replicas than now (KIP-860).
    pub may_change_replication_factor: bool,
}

/// Why a partition stays where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReassignmentRefusal {
    /// No topic has that name.
    UnknownTopic(TopicName),
    /// The topic has no such partition.
    UnknownPartition(TopicName, PartitionIndex),
    /// There is nothing to cancel.
    NothingToCancel,
    /// The replicas cannot be.
    Replicas(AssignmentFault),
    /// A replica would have to be filled first.
    NewReplica(BrokerId),
    /// No replica that stays is in sync.
    NobodyInSync,
    /// There would be more or fewer replicas, which the request rules out.
    ReplicationFactorChanges {
        /// How many there are.
        from: usize,
        /// How many there would be.
        to: usize,
    },
}

impl Refusal for ReassignmentRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownTopic(_) | Self::UnknownPartition(..) => ErrorCode::UnknownTopicOrPartition,
            Self::NothingToCancel => ErrorCode::NoReassignmentInProgress,
            Self::Replicas(_) | Self::NewReplica(_) | Self::NobodyInSync => {
                ErrorCode::InvalidReplicaAssignment
            }
            Self::ReplicationFactorChanges { .. } => ErrorCode::InvalidReplicationFactor,
        }
    }
}

impl core::fmt::Display for ReassignmentRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownTopic(name) => write!(f, "Unable to find a topic named {name}."),
            Self::UnknownPartition(name, index) => write!(f, "Unable to find partition {name}:{index}."),
            Self::NothingToCancel => f.write_str(self.code().sentence()),
            Self::Replicas(fault) => fault.fmt(f),
            Self::NewReplica(id) => {
                write!(f, "Broker {id} has no replica of this partition, and this node cannot fill one.")
            }
            Self::NobodyInSync => f.write_str("None of the replicas that would stay is in sync."),
            Self::ReplicationFactorChanges { from, to } => {
                write!(f, "The replication factor is changed from {from} to {to}")
            }
        }
    }
}

impl Controller {
    pub(super) fn alter_partition_reassignments(
        &self,
        token: Token,
        reassignments: &[Reassignment],
    ) -> Decided {
        let mut records = Vec::new();
        let mut results = Vec::new();
        for reassignment in reassignments {
            let moved = self.reassign(reassignment);
            let key = (reassignment.topic.clone(), reassignment.partition);
            results.push((key, moved.map(|change| records.extend(change.map(Into::into)))));
        }
        self.write(records, token, Reply::AlterPartitionReassignments(results))
    }

    fn reassign(&self, asked: &Reassignment) -> Result<Option<PartitionChangeRecord>, ReassignmentRefusal> {
        let topic = self.image().topics.by_name(&asked.topic);
        let topic = topic.ok_or_else(|| ReassignmentRefusal::UnknownTopic(asked.topic.clone()))?;
        let partition = topic
            .partitions
            .get(&asked.partition)
            .ok_or_else(|| ReassignmentRefusal::UnknownPartition(asked.topic.clone(), asked.partition))?;
        let mut change = leadership::unchanged(topic.id, asked.partition);
        let target = match &asked.replicas {
            Some(replicas) => replicas.clone(),
            None if !partition.is_reassigning() => return Err(ReassignmentRefusal::NothingToCancel),
            None => {
                let is_added = |id: &BrokerId| partition.adding_replicas.contains(id);
                partition.replicas.iter().copied().filter(|id| !is_added(id)).collect()
            }
        };
        check_assignment(self.image(), &target, asked.partition).map_err(ReassignmentRefusal::Replicas)?;
        let from = partition.replicas.len() - partition.adding_replicas.len();
        let to = target.len();
        if asked.replicas.is_some() && !asked.may_change_replication_factor && to != from {
            return Err(ReassignmentRefusal::ReplicationFactorChanges { from, to });
        }
        if let Some(new) = target.iter().find(|id| !partition.replicas.contains(id)) {
            return Err(ReassignmentRefusal::NewReplica(*new));
        }
        if target == partition.replicas && !partition.is_reassigning() {
            return Ok(None);
        }
        let isr: Vec<BrokerId> = partition.isr.iter().copied().filter(|id| target.contains(id)).collect();
        let leader = target.iter().copied().find(|id| isr.contains(id) && is_eligible(self.image(), *id));
        if !isr.contains(&partition.leader) {
            change.leader = leader.ok_or(ReassignmentRefusal::NobodyInSync)?.0;
        }
        if isr != partition.isr {
            change.isr = Some(numbers(&isr));
        }
        let directories = target.iter().filter_map(|id| partition.directory(*id)).collect();
        change.directories = Some(directories);
        change.replicas = Some(numbers(&target));
        change.removing_replicas = (!partition.removing_replicas.is_empty()).then(Vec::new);
        change.adding_replicas = (!partition.adding_replicas.is_empty()).then(Vec::new);
        Ok(Some(change))
    }
}
