//! The partitions that this broker hosts, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use fencepost_types::{PartitionIndex, TopicName, TopicPartition, Uuid};

use crate::partition::Partition;

/// All hosted partitions.
#[derive(Default)]
pub(crate) struct Partitions {
    by_name: RwLock<BTreeMap<TopicPartition, Arc<Partition>>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
    /// Those whose logs are damaged: nobody leads them. At most one for each partition.
    damaged: RwLock<BTreeSet<TopicPartition>>,
}

impl Partitions {
    /// The partition of that name.
    pub(crate) fn get(&self, name: &TopicPartition) -> Option<Arc<Partition>> {
        self.by_name.read().expect("no holder of this lock panics").get(name).cloned()
    }

    /// Every partition, in order of the names.
    pub(crate) fn all(&self) -> Vec<Arc<Partition>> {
        self.by_name.read().expect("no holder of this lock panics").values().cloned().collect()
    }

    /// Every partition of a topic, in order of their numbers.
    pub(crate) fn of_topic(&self, topic: &TopicName) -> Vec<Arc<Partition>> {
        let first = TopicPartition { topic: topic.clone(), partition: PartitionIndex(i32::MIN) };
        let by_name = self.by_name.read().expect("no holder of this lock panics");
        let of_topic = by_name.range(first..).take_while(|(name, _)| name.topic == *topic);
        of_topic.map(|(_, partition)| Arc::clone(partition)).collect()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Notes that the log of a partition is damaged.
    pub(crate) fn add_damaged(&self, name: TopicPartition) {
        self.damaged.write().expect("no holder of this lock panics").insert(name);
    }

    /// The partitions whose logs are damaged.
    pub(crate) fn damaged(&self) -> BTreeSet<TopicPartition> {
        self.damaged.read().expect("no holder of this lock panics").clone()
    }

    pub(crate) fn insert(&self, partition: Arc<Partition>) {
        let name = partition.name.clone();
        let mut by_name = self.by_name.write().expect("no holder of this lock panics");
        by_name.insert(name, partition);
        self.count.store(by_name.len(), Ordering::Relaxed);
    }

    /// Takes a partition out, if it is still that of the topic with this id.
    pub(crate) fn remove_if(&self, name: &TopicPartition, topic_id: Uuid) -> Option<Arc<Partition>> {
        let mut by_name = self.by_name.write().expect("no holder of this lock panics");
        if by_name.get(name).is_some_and(|partition| partition.topic_id == topic_id) {
            self.damaged.write().expect("no holder of this lock panics").remove(name);
            let removed = by_name.remove(name);
            self.count.store(by_name.len(), Ordering::Relaxed);
            removed
        } else {
            None
        }
    }
}
