//! Topics and partitions.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use fencepost_records::persisted::partition_record::PartitionRecord;
use fencepost_types::{BrokerId, LeaderEpoch, PartitionIndex, SharedMap, SharedSet, TopicName, Uuid};

use super::broker::MIGRATING;
use crate::topic_name;

/// Counts the changes of a partition, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionEpoch(pub i32);

/// Whether a partition's leader was elected from replicas that may have lost records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaderRecoveryState {
    /// Elected cleanly, or recovered since.
    #[default]
    Recovered,
    /// Elected uncleanly: the in-sync set is the leader alone until it has recovered.
    Recovering,
}

impl LeaderRecoveryState {
    pub(super) fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Recovered),
            1 => Some(Self::Recovering),
            _ => None,
        }
    }

    pub(super) fn code(self) -> i8 {
        match self {
            Self::Recovered => 0,
            Self::Recovering => 1,
        }
    }
}

/// A partition as the metadata log has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    /// Who should hold it; the first is the preferred leader.
    pub replicas: Vec<BrokerId>,
    /// The log directory of each replica, in the same order.
    pub directories: Vec<Uuid>,
    /// The in-sync replicas.
    pub isr: Vec<BrokerId>,
    /// Replicas that a reassignment takes away.
    pub removing_replicas: Vec<BrokerId>,
    /// Replicas that a reassignment adds.
    pub adding_replicas: Vec<BrokerId>,
    /// The leader, or none.
    pub leader: BrokerId,
    /// Counts leaderships.
    pub leader_epoch: LeaderEpoch,
    /// Counts changes.
    pub partition_epoch: PartitionEpoch,
    /// How the leader was elected.
    pub leader_recovery_state: LeaderRecoveryState,
    /// Replicas outside the in-sync set that hold every committed record.
    pub eligible_leader_replicas: Vec<BrokerId>,
    /// Who led last, once nobody eligible was left.
    pub last_known_elr: Vec<BrokerId>,
}

impl Partition {
    /// Whether there is a leader.
    pub fn has_leader(&self) -> bool {
        self.leader != BrokerId::NONE
    }

    /// The broker that should lead.
    pub fn preferred_leader(&self) -> Option<BrokerId> {
        self.replicas.first().copied()
    }

    /// The directory of the replica on that broker.
    pub fn directory(&self, broker: BrokerId) -> Option<Uuid> {
        let at = self.replicas.iter().position(|replica| *replica == broker)?;
        self.directories.get(at).copied()
    }

    /// Whether a reassignment is going on.
    pub fn is_reassigning(&self) -> bool {
        !self.adding_replicas.is_empty() || !self.removing_replicas.is_empty()
    }

    /// Missing directories (version 0) mean that every replica is migrating; missing lists of eligible leaders are
    /// empty (cluster §7.2). `None` when the recovery state is neither of the two.
    pub(super) fn from_record(record: &PartitionRecord) -> Option<Self> {
        let replicas = brokers(&record.replicas);
        let directories = if record.directories.is_empty() {
            replicas.iter().map(|_| MIGRATING).collect()
        } else {
            record.directories.clone()
        };
        Some(Self {
            directories,
            isr: brokers(&record.isr),
            removing_replicas: brokers(&record.removing_replicas),
            adding_replicas: brokers(&record.adding_replicas),
            leader: BrokerId(record.leader),
            leader_epoch: LeaderEpoch(record.leader_epoch),
            partition_epoch: PartitionEpoch(record.partition_epoch),
            leader_recovery_state: LeaderRecoveryState::from_code(record.leader_recovery_state)?,
            eligible_leader_replicas: brokers(record.eligible_leader_replicas.as_deref().unwrap_or_default()),
            last_known_elr: brokers(record.last_known_elr.as_deref().unwrap_or_default()),
            replicas,
        })
    }

    /// The record that says it whole. Empty lists of eligible leaders are left out, as Kafka does.
    pub fn to_record(&self, topic_id: Uuid, index: PartitionIndex) -> PartitionRecord {
        let unless_empty = |brokers: &[BrokerId]| (!brokers.is_empty()).then(|| numbers(brokers));
        PartitionRecord {
            partition_id: index.0,
            topic_id,
            replicas: numbers(&self.replicas),
            isr: numbers(&self.isr),
            removing_replicas: numbers(&self.removing_replicas),
            adding_replicas: numbers(&self.adding_replicas),
            leader: self.leader.0,
            leader_epoch: self.leader_epoch.0,
            partition_epoch: self.partition_epoch.0,
            directories: self.directories.clone(),
            leader_recovery_state: self.leader_recovery_state.code(),
            eligible_leader_replicas: unless_empty(&self.eligible_leader_replicas),
            last_known_elr: unless_empty(&self.last_known_elr),
        }
    }
}

/// Ids out of a record.
pub(crate) fn brokers(numbers: &[i32]) -> Vec<BrokerId> {
    numbers.iter().copied().map(BrokerId).collect()
}

/// Ids for a record.
pub(crate) fn numbers(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

/// A topic and its partitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Its id, the same for its whole life.
    pub id: Uuid,
    /// Its partitions by number.
    pub partitions: BTreeMap<PartitionIndex, Partition>,
}

/// A name behind the form in which it collides with others.
fn collision(name: &TopicName) -> (String, TopicName) {
    (topic_name::collision_form(name), name.clone())
}

/// All topics, by id and by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Topics {
    by_id: SharedMap<Uuid, Arc<Topic>>,
    ids: SharedMap<TopicName, Uuid>,
    /// The names that another one may collide with, after the form in which they do.
    forms: SharedSet<(String, TopicName)>,
}

impl Topics {
    /// The topic of that name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.ids.get(name).and_then(|id| self.by_id.get(id))
    }

    /// The topic of that id.
    pub fn by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// Every topic, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.ids.values().filter_map(|id| self.by_id.get(id))
    }

    /// The first topic whose name collides with `name`.
    ///
    /// Source: Kafka ReplicationControlManager.topicsWithCollisionChars.
    pub(crate) fn colliding(&self, name: &str) -> Option<&TopicName> {
        let from = (topic_name::collision_form(name), TopicName::from(""));
        let ((form, other), ()) = self.forms.range(&from..).next()?;
        (*form == from.0).then_some(other)
    }

    /// The first topic after that name, or of all, in order of name.
    pub(super) fn after(&self, last: Option<&TopicName>) -> Option<&Arc<Topic>> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let (_, id) = self.ids.range::<TopicName, _>((from, Bound::Unbounded)).next()?;
        self.by_id.get(id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn insert(&mut self, topic: Topic) {
        self.ids.insert(topic.name.clone(), topic.id);
        if topic_name::may_collide(&topic.name) {
            self.forms.put(collision(&topic.name));
        }
        self.by_id.insert(topic.id, Arc::new(topic));
    }

    pub(super) fn remove(&mut self, id: Uuid) -> Option<Arc<Topic>> {
        let topic = self.by_id.remove(&id)?;
        self.ids.remove(&topic.name);
        if topic_name::may_collide(&topic.name) {
            self.forms.remove(&collision(&topic.name));
        }
        Some(topic)
    }

    pub(super) fn get_mut(&mut self, id: Uuid) -> Option<&mut Topic> {
        self.by_id.get_mut(&id).map(Arc::make_mut)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Uuid> {
        self.by_id.keys().copied()
    }

    /// Panics unless both maps name the same topics.
    pub(super) fn check(&self) {
        assert_eq!(self.by_id.len(), self.ids.len(), "topics by id and by name differ");
        for (name, id) in self.ids.iter() {
            let topic =
                self.by_id.get(id).unwrap_or_else(|| panic!("topic {name} has an id without a topic"));
            assert_eq!(&topic.name, name, "a topic is filed under another name");
        }
    }
}
