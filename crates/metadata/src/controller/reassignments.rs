//! AlterPartitionReassignments, as far as a node that stands alone can: it puts replicas in another order, and takes away
//! replicas of brokers that are gone. A replica that would have to be filled first has nowhere to be.
//!
//! Source: KIP-455, wire-apis §7, Kafka ReplicationControlManager.alterPartitionReassignments.

use alloc::string::String;
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::partition_change_record::PartitionChangeRecord;
use fencepost_types::{BrokerId, ErrorCode, PartitionIndex};

use super::leadership::{self, is_eligible};
use super::placement::check_assignment;
use super::{Controller, Decided, Reply};
use crate::image::numbers;

/// Where one partition is to go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reassignment {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
    /// Its new replicas; none cancels what is going on.
    pub replicas: Option<Vec<BrokerId>>,
    /// Whether there may be more or fewer replicas than now (KIP-860).
    pub may_change_replication_factor: bool,
}

/// Why a partition stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReassignmentRefusal {
    /// There is no such partition.
    UnknownPartition,
    /// There is nothing to cancel.
    NothingToCancel,
    /// The replicas cannot be: none, one twice, or one that is not registered.
    InvalidReplicas,
    /// No replica that stays is in sync.
    NobodyInSync,
    /// There would be more or fewer replicas, which the request rules out.
    ReplicationFactorChanges,
}

impl Refusal for ReassignmentRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
            Self::NothingToCancel => ErrorCode::NoReassignmentInProgress,
            Self::InvalidReplicas | Self::NobodyInSync => ErrorCode::InvalidReplicaAssignment,
            Self::ReplicationFactorChanges => ErrorCode::InvalidReplicationFactor,
        }
    }
}

impl core::fmt::Display for ReassignmentRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::UnknownPartition => "There is no such partition.",
            Self::NothingToCancel => "No reassignment of this partition is going on.",
            Self::InvalidReplicas => "The replicas must be registered brokers, at least one, each once.",
            Self::NobodyInSync => "None of the replicas that would stay is in sync.",
            Self::ReplicationFactorChanges => {
                "The number of replicas would change, which the request rules out."
            }
        })
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
        let topic = self.image().topics.by_name(&asked.topic).ok_or(ReassignmentRefusal::UnknownPartition)?;
        let partition =
            topic.partitions.get(&asked.partition).ok_or(ReassignmentRefusal::UnknownPartition)?;
        let mut change = leadership::unchanged(topic.id, asked.partition);
        let target = match &asked.replicas {
            Some(replicas) => replicas.clone(),
            None if !partition.is_reassigning() => return Err(ReassignmentRefusal::NothingToCancel),
            None => {
                let is_added = |id: &BrokerId| partition.adding_replicas.contains(id);
                partition.replicas.iter().copied().filter(|id| !is_added(id)).collect()
            }
        };
        let count = partition.replicas.len() - partition.adding_replicas.len();
        if asked.replicas.is_some() && !asked.may_change_replication_factor && target.len() != count {
            return Err(ReassignmentRefusal::ReplicationFactorChanges);
        }
        check_assignment(self.image(), &target).map_err(|_| ReassignmentRefusal::InvalidReplicas)?;
        let is_new = |id: &BrokerId| !partition.replicas.contains(id);
        if target.iter().any(is_new) {
            return Err(ReassignmentRefusal::InvalidReplicas);
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
