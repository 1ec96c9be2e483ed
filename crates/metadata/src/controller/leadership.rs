//! Changes of partitions when a broker comes or goes: leaders, in-sync sets and eligible leader replicas.
//!
//! Source: KIP-966, Kafka PartitionChangeBuilder, ReplicationControlManager.generateLeaderAndIsrUpdates.

use alloc::vec::Vec;

use fencepost_records::persisted::partition_change_record::PartitionChangeRecord;
use fencepost_types::{BrokerId, PartitionIndex, Uuid};

use super::Controller;
use crate::image::{Broker, Image, Partition, Topic, numbers};
use crate::keys::{Scope, Value};
use crate::record::MetadataRecord;

/// How a broker went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// Everything it acknowledged is on its disk.
    Clean,
    /// It may have lost what it acknowledged.
    Unclean,
}

/// Takes a broker out of all it leads and is in sync with, in order of topic name. What has been done already is not done
/// again.
pub(super) fn depart(controller: &Controller, broker: BrokerId, departure: Departure) -> Vec<MetadataRecord> {
    each_partition(controller.image(), broker)
        .filter_map(|(topic, index, partition)| {
            leave(controller, topic, index, partition, broker, departure).map(MetadataRecord::from)
        })
        .collect()
}

/// Elects a broker that has just been unfenced wherever nobody leads and it may.
pub(super) fn arrive(controller: &Controller, broker: &Broker) -> Vec<MetadataRecord> {
    each_partition(controller.image(), broker.id)
        .filter(|(_, _, partition)| !partition.has_leader())
        .filter_map(|(topic, index, partition)| {
            let is_eligible = |id: BrokerId| id == broker.id || is_eligible(controller.image(), id);
            elect(controller, topic, index, partition, is_eligible).map(MetadataRecord::from)
        })
        .collect()
}

fn each_partition(
    image: &Image,
    broker: BrokerId,
) -> impl Iterator<Item = (&Topic, PartitionIndex, &Partition)> {
    image
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|(index, partition)| (&**topic, *index, partition)))
        .filter(move |(_, _, partition)| partition.replicas.contains(&broker))
}

/// Whether that broker may lead and be in sync.
pub(super) fn is_eligible(image: &Image, id: BrokerId) -> bool {
    image.broker(id).is_some_and(|broker| broker.is_eligible())
}

/// A change that changes nothing yet.
pub(super) fn unchanged(topic_id: Uuid, index: PartitionIndex) -> PartitionChangeRecord {
    PartitionChangeRecord { partition_id: index.0, topic_id, ..PartitionChangeRecord::default() }
}

/// Takes a broker out of one partition. Without eligible leader replicas the last member stays in the in-sync set: it is
/// the one that has the records. With them it moves to that list, and stays there unless it went uncleanly.
fn leave(
    controller: &Controller,
    topic: &Topic,
    index: PartitionIndex,
    partition: &Partition,
    broker: BrokerId,
    departure: Departure,
) -> Option<PartitionChangeRecord> {
    let image = controller.image();
    let mut change = unchanged(topic.id, index);
    let rest: Vec<BrokerId> = partition.isr.iter().copied().filter(|id| *id != broker).collect();
    let has_elr = image.has_eligible_leader_replicas();
    if rest.len() != partition.isr.len() && (has_elr || !rest.is_empty()) {
        change.isr = Some(numbers(&rest));
    }
    if partition.leader == broker {
        let next = partition.replicas.iter().copied().find(|id| rest.contains(id) && is_eligible(image, *id));
        change.leader = next.unwrap_or(BrokerId::NONE).0;
    }
    if has_elr {
        leave_eligible(controller, topic, partition, broker, departure, &rest, &mut change);
    }
    (change != unchanged(topic.id, index)).then_some(change)
}

fn leave_eligible(
    controller: &Controller,
    topic: &Topic,
    partition: &Partition,
    broker: BrokerId,
    departure: Departure,
    isr: &[BrokerId],
    change: &mut PartitionChangeRecord,
) {
    let needed = min_insync_replicas(controller, topic).min(partition.replicas.len());
    let mut eligible: Vec<BrokerId> = Vec::new();
    if isr.len() < needed {
        let members = partition.eligible_leader_replicas.iter().chain(&partition.isr);
        for id in members.filter(|id| !isr.contains(id)) {
            let is_lost = *id == broker && departure == Departure::Unclean;
            if !is_lost && !eligible.contains(id) {
                eligible.push(*id);
            }
        }
    }
    if eligible != partition.eligible_leader_replicas {
        change.eligible_leader_replicas = Some(numbers(&eligible));
    }
    if change.leader == BrokerId::NONE.0 && isr.is_empty() && partition.last_known_elr != [broker] {
        change.last_known_elr = Some([broker.0].into());
    }
}

/// Elects a leader for a partition that has none: a member of the in-sync set; else an eligible leader replica; else, when
/// none of those is left, the last known leader; else any replica, where the topic allows that.
///
/// Differs from Kafka: a last known leader is not marked as recovering. Its log has been recovered before it was
/// unfenced, and nobody else holds a copy that could be compared.
pub(super) fn elect(
    controller: &Controller,
    topic: &Topic,
    index: PartitionIndex,
    partition: &Partition,
    is_eligible: impl Fn(BrokerId) -> bool,
) -> Option<PartitionChangeRecord> {
    let mut change = unchanged(topic.id, index);
    let first_of =
        |set: &[BrokerId]| partition.replicas.iter().copied().find(|id| set.contains(id) && is_eligible(*id));
    if let Some(leader) = first_of(&partition.isr) {
        change.leader = leader.0;
        return Some(change);
    }
    let has_elr = !partition.eligible_leader_replicas.is_empty();
    let last_known = if has_elr { None } else { first_of(&partition.last_known_elr) };
    let leader = first_of(&partition.eligible_leader_replicas).or(last_known).or_else(|| {
        allows_unclean_election(controller, topic).then(|| first_of(&partition.replicas)).flatten()
    })?;
    change.leader = leader.0;
    change.isr = Some([leader.0].into());
    if has_elr {
        let rest: Vec<BrokerId> =
            partition.eligible_leader_replicas.iter().copied().filter(|id| *id != leader).collect();
        let needed = min_insync_replicas(controller, topic).min(partition.replicas.len());
        change.eligible_leader_replicas = Some(if needed <= 1 { Vec::new() } else { numbers(&rest) });
    }
    if !partition.last_known_elr.is_empty() {
        change.last_known_elr = Some(Vec::new());
    }
    Some(change)
}

fn min_insync_replicas(controller: &Controller, topic: &Topic) -> usize {
    let key = Scope::Topic.find("min.insync.replicas").expect("the table has it");
    let value = controller.view().topic_value(&topic.name, key).and_then(|value| value.as_number());
    value.and_then(|number| usize::try_from(number).ok()).unwrap_or(1)
}

fn allows_unclean_election(controller: &Controller, topic: &Topic) -> bool {
    let key = Scope::Topic.find("unclean.leader.election.enable").expect("the table has it");
    controller.view().topic_value(&topic.name, key) == Some(Value::Boolean(true))
}
