//! What changed between two images, and what of it concerns one broker.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_types::{BrokerId, PartitionIndex};

use crate::image::{ConfigResource, Image, Partition, Topic, Touched};

/// What changed from one image to a later one. Computed from the two, so that a snapshot is taken in like records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Topics that are new, in order of name. A name that came back with another id is among both.
    pub topics_created: Vec<Arc<Topic>>,
    /// Topics that are gone, as they were.
    pub topics_deleted: Vec<Arc<Topic>>,
    /// Partitions that are new or changed, those of new topics included.
    pub partitions: Vec<PartitionDelta>,
    /// Resources whose configuration changed.
    pub configs: BTreeSet<ConfigResource>,
    /// Whether a finalized level changed.
    pub features: bool,
    /// Brokers that registered, went or changed.
    pub brokers: BTreeSet<BrokerId>,
    /// Whether client quotas changed.
    pub client_quotas: bool,
    /// Users whose SCRAM credentials changed.
    pub scram_users: BTreeSet<String>,
    /// Whether access control entries changed.
    pub acls: bool,
}

/// A partition that is new or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDelta {
    /// Its topic, as it is now.
    pub topic: Arc<Topic>,
    /// Its number.
    pub index: PartitionIndex,
    /// What it was; `None` when it is new.
    pub old: Option<Partition>,
    /// What it is.
    pub new: Partition,
}

impl Delta {
    /// What changed from `old` to `new`. Of two images of one log that are not far apart only what the records between them
    /// name is compared; of others everything is.
    pub fn between(old: &Image, new: &Image) -> Self {
        let mut delta = Self {
            features: old.features != new.features || old.kraft_version != new.kraft_version,
            ..Self::default()
        };
        match new.touched_since(old) {
            Some(touched) => delta.compare_touched(old, new, touched),
            None => delta.compare_all(old, new),
        }
        if !Arc::ptr_eq(&old.brokers, &new.brokers) {
            let changed = |a: &Image, b: &Image| -> Vec<BrokerId> {
                let differs = |(id, broker): &(&BrokerId, _)| b.brokers.get(id) != Some(*broker);
                a.brokers.iter().filter(differs).map(|(id, _)| *id).collect()
            };
            delta.brokers.extend(changed(old, new));
            delta.brokers.extend(changed(new, old));
        }
        delta
    }

    fn compare_touched<'a>(&mut self, old: &Image, new: &Image, touched: impl Iterator<Item = &'a Touched>) {
        let mut topics = BTreeSet::new();
        for touched in touched {
            match touched {
                Touched::Topic(id) => {
                    topics.insert(*id);
                }
                Touched::RemovedTopic(id, resource) => {
                    topics.insert(*id);
                    self.compare_config(old, new, resource);
                }
                Touched::Config(resource) => self.compare_config(old, new, resource),
                Touched::Quota(entity) => {
                    self.client_quotas |= old.client_quotas.get(entity) != new.client_quotas.get(entity);
                }
                Touched::Scram(key) => {
                    if old.scram.get(key) != new.scram.get(key) {
                        self.scram_users.insert(key.1.clone());
                    }
                }
                Touched::Acl(id) => self.acls |= old.acls.get(id) != new.acls.get(id),
            }
        }
        let named = |image: &Image| -> Vec<Arc<Topic>> {
            let mut topics: Vec<_> = topics.iter().filter_map(|id| image.topic(*id).cloned()).collect();
            topics.sort_by(|a, b| a.name.cmp(&b.name));
            topics
        };
        self.compare_topics(old, new, named(old).iter(), named(new).iter());
    }

    fn compare_config(&mut self, old: &Image, new: &Image, resource: &ConfigResource) {
        if old.configs.get(resource) != new.configs.get(resource) {
            self.configs.insert(resource.clone());
        }
    }

    fn compare_all(&mut self, old: &Image, new: &Image) {
        self.client_quotas = old.client_quotas != new.client_quotas;
        self.acls = old.acls != new.acls;
        for (a, b) in [(old, new), (new, old)] {
            a.configs.iter().for_each(|(resource, _)| self.compare_config(a, b, resource));
            let differs = a.scram.iter().filter(|(key, value)| b.scram.get(*key) != Some(value));
            self.scram_users.extend(differs.map(|((_, user), _)| user.clone()));
        }
        self.compare_topics(old, new, old.topics.iter(), new.topics.iter());
    }

    /// Compares the topics `before` of the old image and `after` of the new one, each in order of name.
    fn compare_topics<'a>(
        &mut self,
        old: &Image,
        new: &Image,
        before: impl Iterator<Item = &'a Arc<Topic>>,
        after: impl Iterator<Item = &'a Arc<Topic>>,
    ) {
        let is_gone = |topic: &&Arc<Topic>| new.topics.by_id(topic.id).is_none();
        self.topics_deleted.extend(before.filter(is_gone).cloned());
        for topic in after {
            let before = old.topics.by_id(topic.id);
            match before {
                None => self.topics_created.push(topic.clone()),
                Some(before) if Arc::ptr_eq(before, topic) => continue,
                Some(_) => {}
            }
            for (index, partition) in &topic.partitions {
                let was = before.and_then(|before| before.partitions.get(index));
                if was != Some(partition) {
                    self.partitions.push(PartitionDelta {
                        topic: topic.clone(),
                        index: *index,
                        old: was.cloned(),
                        new: partition.clone(),
                    });
                }
            }
        }
    }

    /// Whether nothing changed that anybody acts on.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What the broker `id` has to do about it, in this order: all deletions, then leaders, then followers, as a name
    /// may be deleted and created again in one delta.
    ///
    /// Source: Kafka TopicsDelta.localChanges, cluster §10.1.
    pub fn local_changes(&self, id: BrokerId) -> LocalChanges {
        let mut changes = LocalChanges::default();
        for topic in &self.topics_deleted {
            let ours = topic.partitions.iter().filter(|(_, partition)| partition.replicas.contains(&id));
            changes.deleted.extend(ours.map(|(index, _)| (topic.clone(), *index)));
        }
        for delta in &self.partitions {
            let was_ours = delta.old.as_ref().is_some_and(|old| old.replicas.contains(&id));
            let is_ours = delta.new.replicas.contains(&id);
            if was_ours && !is_ours {
                changes.deleted.push((delta.topic.clone(), delta.index));
            }
            if delta.old.as_ref().is_some_and(|old| old.partition_epoch == delta.new.partition_epoch) {
                continue;
            }
            let elected = delta.old.as_ref().is_none_or(|old| old.leader_epoch != delta.new.leader_epoch);
            if delta.new.leader == id {
                changes.leaders.push(LocalChange { partition: delta.clone(), elected });
            } else if is_ours {
                changes.followers.push(LocalChange { partition: delta.clone(), elected });
            }
        }
        changes
    }
}

/// What one broker has to do about a delta.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalChanges {
    /// Replicas to delete.
    pub deleted: Vec<(Arc<Topic>, PartitionIndex)>,
    /// Partitions to lead.
    pub leaders: Vec<LocalChange>,
    /// Partitions to follow; also those that have no leader.
    pub followers: Vec<LocalChange>,
}

/// A partition to lead or to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalChange {
    /// What changed.
    pub partition: PartitionDelta,
    /// Whether the leader epoch changed: a new leadership begins.
    pub elected: bool,
}

#[cfg(test)]
mod tests;
