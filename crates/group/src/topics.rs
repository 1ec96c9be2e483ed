//! What a group has to know of topics.

use fencepost_types::{SharedMap, TopicName, Uuid};

/// The topics there are, as the metadata said at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Topics {
    version: i64,
    by_name: SharedMap<TopicName, TopicFacts>,
    by_id: SharedMap<Uuid, TopicName>,
}

/// One topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicFacts {
    /// Its id.
    pub id: Uuid,
    /// How many partitions it has.
    pub partition_count: i32,
}

impl Topics {
    /// The topics as of `version`: any number that differs when the topics do, such as the metadata offset.
    pub fn new(version: i64, topics: impl IntoIterator<Item = (TopicName, TopicFacts)>) -> Self {
        let by_name: SharedMap<TopicName, TopicFacts> = topics.into_iter().collect();
        let by_id = by_name.iter().map(|(name, facts)| (facts.id, name.clone())).collect();
        Self { version, by_name, by_id }
    }

    /// The same as of `version`, without the topics `gone` and with those in `put`: new ones, or with more partitions. Costs as
    /// much as there is in the two.
    pub fn changed(
        &self,
        version: i64,
        gone: impl IntoIterator<Item = Uuid>,
        put: impl IntoIterator<Item = (TopicName, TopicFacts)>,
    ) -> Self {
        let mut changed = Self { version, ..self.clone() };
        for id in gone {
            if let Some(name) = changed.by_id.remove(&id) {
                changed.by_name.remove(&name);
            }
        }
        for (name, facts) in put {
            changed.by_id.insert(facts.id, name.clone());
            changed.by_name.insert(name, facts);
        }
        changed
    }

    /// Tells two views apart.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The topic called `name`.
    pub fn get(&self, name: &str) -> Option<TopicFacts> {
        self.by_name.get(name).copied()
    }

    /// The name of the topic with this id.
    pub fn name(&self, id: Uuid) -> Option<&TopicName> {
        self.by_id.get(&id)
    }

    /// Whether an offset committed for the topic `id` counts. One without an id was written by an older coordinator, or has
    /// an expiry of its own.
    pub(crate) fn has(&self, id: Uuid) -> bool {
        id.is_zero() || self.by_id.contains_key(&id)
    }

    /// All topics, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicName, &TopicFacts)> {
        self.by_name.iter()
    }
}
