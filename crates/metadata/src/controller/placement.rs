//! Where replicas of new partitions go.
//!
//! Source: Kafka StripedReplicaPlacer; simpler, as a node that stands alone has one place.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use fencepost_records::persisted::partition_record::PartitionRecord;
use fencepost_types::{BrokerId, LeaderEpoch, PartitionIndex, Uuid};

use super::leadership::is_eligible;
use crate::image::{Image, LeaderRecoveryState, Partition, PartitionEpoch, UNASSIGNED};

/// Brokers that take new replicas, in order of id: alive, staying, with a directory that is not cordoned.
pub(super) fn usable_brokers(image: &Image) -> Vec<BrokerId> {
    let takes_replicas = |broker: &crate::image::Broker| {
        broker.is_eligible()
            && (broker.cordoned_directories.is_empty()
                || broker.directories.iter().any(|id| !broker.cordoned_directories.contains(id)))
    };
    image.brokers.values().filter(|broker| takes_replicas(broker)).map(|broker| broker.id).collect()
}

/// The replicas of partition number `index` of a topic: neighbours in the ring of `brokers`, each partition one further
/// on; the topic's id says where the first begins. At most as many as there are brokers.
pub(super) fn place(
    brokers: &[BrokerId],
    topic_id: Uuid,
    index: PartitionIndex,
    count: usize,
) -> Vec<BrokerId> {
    let start = usize::from(topic_id.0[15]) + usize::try_from(index.0).unwrap_or(0);
    (0..count.min(brokers.len())).map(|step| brokers[(start + step) % brokers.len()]).collect()
}

/// What a list of replicas given by hand can get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AssignmentFault {
    /// It is empty.
    Empty,
    /// It names a broker twice.
    Twice(BrokerId),
    /// It names a broker that is not registered.
    Unknown(BrokerId),
    /// It is longer than that of the partitions before.
    OtherLength {
        /// How many brokers it names.
        found: usize,
        /// How many the partitions before have.
        wanted: usize,
    },
    /// All brokers that it names are fenced or shutting down.
    NoneAlive(PartitionIndex),
}

impl core::fmt::Display for AssignmentFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Empty => f.write_str("The manual partition assignment includes an empty replica list."),
            Self::Twice(id) => {
                write!(f, "The manual partition assignment includes the broker {id} more than once.")
            }
            Self::Unknown(id) => write!(
                f,
                "The manual partition assignment includes broker {id}, but no such broker is registered."
            ),
            Self::OtherLength { found, wanted } => write!(
                f,
                "The manual partition assignment includes a partition with {found} replica(s), but this is not consistent \
                 with previous partitions, which have {wanted} replica(s)."
            ),
            Self::NoneAlive(index) => write!(
                f,
                "All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled \
                 shutdown."
            ),
        }
    }
}

/// Checks a list of replicas that was given by hand for partition number `index`.
///
/// Source: Kafka ReplicationControlManager.validateManualPartitionAssignment.
pub(super) fn check_assignment(
    image: &Image,
    replicas: &[BrokerId],
    index: PartitionIndex,
) -> Result<(), AssignmentFault> {
    if replicas.is_empty() {
        return Err(AssignmentFault::Empty);
    }
    let mut seen = BTreeSet::new();
    for id in replicas {
        if !seen.insert(*id) {
            return Err(AssignmentFault::Twice(*id));
        }
        if image.broker(*id).is_none() {
            return Err(AssignmentFault::Unknown(*id));
        }
    }
    if replicas.iter().any(|id| is_eligible(image, *id)) {
        Ok(())
    } else {
        Err(AssignmentFault::NoneAlive(index))
    }
}

/// A new partition: epochs begin at 0, the in-sync set holds who is alive, the first of them leads.
pub(super) fn new_partition(
    image: &Image,
    topic_id: Uuid,
    index: PartitionIndex,
    replicas: Vec<BrokerId>,
) -> PartitionRecord {
    let isr: Vec<BrokerId> = replicas.iter().copied().filter(|id| is_eligible(image, *id)).collect();
    let directory = |id: &BrokerId| image.broker(*id).map_or(UNASSIGNED, |broker| broker.default_directory());
    Partition {
        directories: replicas.iter().map(directory).collect(),
        leader: isr.first().copied().unwrap_or(BrokerId::NONE),
        isr,
        removing_replicas: Vec::new(),
        adding_replicas: Vec::new(),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(0),
        leader_recovery_state: LeaderRecoveryState::Recovered,
        eligible_leader_replicas: Vec::new(),
        last_known_elr: Vec::new(),
        replicas,
    }
    .to_record(topic_id, index)
}
