//! Configurations as the metadata log has them: overrides of topics, brokers, groups and client metrics.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Bound;

use fencepost_types::SharedMap;

/// What a configuration belongs to; the numbers are Kafka's.
///
/// Source: Kafka ConfigResource.Type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceType(pub i8);

impl ResourceType {
    /// A topic.
    pub const TOPIC: Self = Self(2);
    /// A broker by its id, or all of them when the name is empty.
    pub const BROKER: Self = Self(4);
    /// The log levels of a broker. Nothing of it is kept.
    pub const BROKER_LOGGER: Self = Self(8);
    /// A client metrics subscription.
    pub const CLIENT_METRICS: Self = Self(16);
    /// A group.
    pub const GROUP: Self = Self(32);
}

/// One topic, broker, group or subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigResource {
    /// What it is.
    pub kind: ResourceType,
    /// Its name.
    pub name: String,
}

impl ConfigResource {
    /// Names a resource.
    pub fn new(kind: ResourceType, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }

    /// The topic of that name.
    pub fn topic(name: &str) -> Self {
        Self::new(ResourceType::TOPIC, name)
    }

    /// All brokers at once.
    pub fn all_brokers() -> Self {
        Self::new(ResourceType::BROKER, "")
    }
}

/// The keys set for one resource.
pub type ConfigValues = BTreeMap<String, String>;

/// All configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Configs(SharedMap<ConfigResource, Arc<ConfigValues>>);

impl Configs {
    /// The keys set for that resource; `None` when there are none.
    pub fn get(&self, resource: &ConfigResource) -> Option<&Arc<ConfigValues>> {
        self.0.get(resource)
    }

    /// One value.
    pub fn value(&self, resource: &ConfigResource, key: &str) -> Option<&str> {
        self.0.get(resource).and_then(|values| values.get(key)).map(String::as_str)
    }

    /// Every resource with a key set, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&ConfigResource, &Arc<ConfigValues>)> {
        self.0.iter()
    }

    /// Those of one kind, in order of their names.
    pub fn of_kind(&self, kind: ResourceType) -> impl Iterator<Item = (&ConfigResource, &Arc<ConfigValues>)> {
        let first = ConfigResource::new(kind, "");
        self.0.range(first..).take_while(move |(resource, _)| resource.kind == kind)
    }

    /// The first resource after `last`, or of all, with a key set.
    pub(super) fn after(
        &self,
        last: Option<&ConfigResource>,
    ) -> Option<(&ConfigResource, &Arc<ConfigValues>)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range::<ConfigResource, _>((from, Bound::Unbounded)).next()
    }

    pub(crate) fn set(&mut self, resource: ConfigResource, key: &str, value: Option<&str>) {
        match value {
            Some(value) => {
                let mut values = self.0.get(&resource).cloned().unwrap_or_default();
                Arc::make_mut(&mut values).insert(key.into(), value.into());
                self.0.insert(resource, values);
            }
            None => {
                let Some(values) = self.0.get_mut(&resource) else { return };
                let values = Arc::make_mut(values);
                values.remove(key);
                if values.is_empty() {
                    self.0.remove(&resource);
                }
            }
        }
    }

    pub(super) fn remove_all(&mut self, resource: &ConfigResource) {
        self.0.remove(resource);
    }
}
