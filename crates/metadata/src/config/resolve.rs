//! Which value is in force, and where it comes from.
//!
//! Source: KIP-226, Kafka ConfigHelper, DynamicBrokerConfig.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_types::BrokerId;

use super::statics::StaticConfig;
use crate::image::{ConfigResource, Configs, ResourceType};
use crate::keys::{self, Key, Scope, Value};

/// Where a value comes from; the numbers are those of DescribeConfigs.
///
/// Source: Kafka DescribeConfigsResponse.ConfigSource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum ConfigSource {
    /// Set for the topic.
    Topic = 1,
    /// Set for the broker while it ran.
    DynamicBroker = 2,
    /// Set for all brokers while they ran.
    DynamicDefaultBroker = 3,
    /// Given at the start.
    StaticBroker = 4,
    /// Set by nobody.
    Default = 5,
    /// Set for the client metrics subscription.
    ClientMetrics = 7,
    /// Set for the group.
    Group = 8,
}

impl ConfigSource {
    /// The number in DescribeConfigs.
    pub fn code(self) -> i8 {
        self as i8
    }
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourcedValue {
    /// The key that supplied it.
    pub name: &'static str,
    /// The value in the supplying key's unit, as DescribeConfigs shows it.
    pub value: String,
    /// What it is multiplied with to get the unit of the key that was asked for.
    pub factor: i64,
    /// Where it comes from.
    pub source: ConfigSource,
}

/// Everything that decides about a value: what the node was started with, and what the metadata log says.
#[derive(Clone, Copy, Debug)]
pub struct ConfigView<'a> {
    /// What the node was started with.
    pub statics: &'a StaticConfig,
    /// What the metadata log says.
    pub configs: &'a Configs,
    /// The node's id.
    pub node_id: BrokerId,
}

impl ConfigView<'_> {
    /// The values of a broker's key that could be in force, the one that is first. Values that do not fit the key are
    /// passed over: an older or newer controller may have let them in.
    pub fn broker_chain(&self, key: &'static Key) -> Vec<SourcedValue> {
        self.chain(keys::broker_synonyms(key).as_slice())
    }

    fn chain(&self, synonyms: &[keys::Synonym]) -> Vec<SourcedValue> {
        const SOURCES: [ConfigSource; 4] = [
            ConfigSource::DynamicBroker,
            ConfigSource::DynamicDefaultBroker,
            ConfigSource::StaticBroker,
            ConfigSource::Default,
        ];
        let mut chain = Vec::new();
        for source in SOURCES {
            for synonym in synonyms {
                let key = Scope::Broker
                    .find(synonym.name)
                    .unwrap_or_else(|| panic!("the synonym {} is no key of brokers", synonym.name));
                if let Some(value) = self.at(source, key) {
                    chain.push(SourcedValue { name: key.name, value, factor: synonym.factor, source });
                }
            }
        }
        chain
    }

    fn at(&self, source: ConfigSource, key: &'static Key) -> Option<String> {
        let dynamic = |name: &str| {
            let may_be = key.update != keys::Update::ReadOnly;
            let resource = ConfigResource::new(ResourceType::BROKER, name);
            self.configs.value(&resource, key.name).filter(|_| may_be)
        };
        let text = match source {
            ConfigSource::DynamicBroker => dynamic(&self.node_id.to_string()),
            ConfigSource::DynamicDefaultBroker => dynamic(""),
            ConfigSource::StaticBroker => self.statics.get(key.name),
            ConfigSource::Default => key.default,
            ConfigSource::Topic | ConfigSource::ClientMetrics | ConfigSource::Group => None,
        }?;
        key.parse(text).ok().map(|value| value.to_text())
    }

    /// The values of a topic's key that could be in force, the one that is first.
    pub fn topic_chain(&self, topic: &str, key: &'static Key) -> Vec<SourcedValue> {
        let own = self.configs.value(&ConfigResource::topic(topic), key.name);
        self.topic_chain_with(own, key)
    }

    /// The same with the topic's own value as given: for topics that are yet to be created.
    pub fn topic_chain_with(&self, own: Option<&str>, key: &'static Key) -> Vec<SourcedValue> {
        let synonyms = keys::topic_synonyms(key.name);
        let mut chain: Vec<SourcedValue> = own_value(own, key, ConfigSource::Topic).into_iter().collect();
        chain.extend(self.chain(synonyms));
        if synonyms.is_empty() {
            chain.extend(own_value(key.default, key, ConfigSource::Default));
        }
        chain
    }

    /// The values of a group's key that could be in force, the one that is first.
    pub fn group_chain(&self, group: &str, key: &'static Key) -> Vec<SourcedValue> {
        let own = self.configs.value(&ConfigResource::new(ResourceType::GROUP, group), key.name);
        let mut chain: Vec<SourcedValue> = own_value(own, key, ConfigSource::Group).into_iter().collect();
        match keys::group_synonym(key) {
            // The broker's list of assignors is a group's choice of one.
            Some(broker_key) => chain.extend(self.broker_chain(broker_key).into_iter().map(|mut sourced| {
                if broker_key.kind != key.kind {
                    sourced.value = sourced.value.split(',').next().unwrap_or_default().to_string();
                }
                sourced
            })),
            None => chain.extend(own_value(key.default, key, ConfigSource::Default)),
        }
        chain
    }

    /// The value of a broker's key in force.
    pub fn broker_value(&self, key: &'static Key) -> Option<Value> {
        in_force(key, &self.broker_chain(key))
    }

    /// The value of a topic's key in force.
    pub fn topic_value(&self, topic: &str, key: &'static Key) -> Option<Value> {
        in_force(key, &self.topic_chain(topic, key))
    }

    /// The value of a group's key in force.
    pub fn group_value(&self, group: &str, key: &'static Key) -> Option<Value> {
        in_force(key, &self.group_chain(group, key))
    }
}

fn own_value(text: Option<&str>, key: &'static Key, source: ConfigSource) -> Option<SourcedValue> {
    let value = key.parse(text?).ok()?.to_text();
    Some(SourcedValue { name: key.name, value, factor: 1, source })
}

impl SourcedValue {
    /// The value in the unit of `key`, the key that was asked for.
    pub fn text_for(&self, key: &Key) -> String {
        keys::scaled(key.kind, &self.value, self.factor)
    }
}

/// The first value of the chain, of the key's type.
pub(crate) fn in_force(key: &'static Key, chain: &[SourcedValue]) -> Option<Value> {
    let text = chain.first()?.text_for(key);
    Value::parse(key.kind, &text).ok()
}
