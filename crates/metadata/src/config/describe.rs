//! What DescribeConfigs answers.
//!
//! Source: KIP-133, KIP-226, KIP-569, Kafka ConfigHelper.describeConfigs.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_coordinator::Refusal;
use fencepost_types::{BrokerId, ErrorCode};

use super::resolve::{ConfigSource, ConfigView, SourcedValue, in_force};
use crate::image::{ConfigResource, Image, ResourceType};
use crate::keys::{self, Key, Kind, Scope, Update};
use crate::topic_name::{self, TopicNameFault};

/// One key of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key.
    pub name: String,
    /// Its value in force; `None` when it has none, or is a secret.
    pub value: Option<String>,
    /// Whether it cannot be changed while the broker runs.
    pub read_only: bool,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it is a secret.
    pub is_sensitive: bool,
    /// Every value that could be in force, the one that is first.
    pub synonyms: Vec<SynonymEntry>,
    /// What its values are.
    pub kind: Kind,
    /// What it is for.
    pub documentation: &'static str,
}

/// A value that would be in force if those before it were not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynonymEntry {
    /// The key that supplies it.
    pub name: &'static str,
    /// The value, in that key's unit; `None` for a secret.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: ConfigSource,
}

/// Why a resource cannot be described.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DescribeRefusal {
    /// No topic has that name.
    UnknownTopic,
    /// No topic can have that name.
    TopicName(TopicNameFault),
    /// A broker is named that is not this one; only it knows its own settings.
    OtherBroker {
        /// Whether its loggers are meant.
        is_logger: bool,
        /// This one.
        expected: BrokerId,
        /// What the request names.
        found: String,
    },
    /// A resource of that kind needs a name.
    NoName(ResourceType),
    /// There are no resources of that kind.
    UnknownKind,
}

impl Refusal for DescribeRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
            Self::TopicName(_) => ErrorCode::InvalidTopicException,
            Self::OtherBroker { .. } | Self::NoName(_) | Self::UnknownKind => ErrorCode::InvalidRequest,
        }
    }
}

impl core::fmt::Display for DescribeRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            // Kafka leaves the sentence out.
            Self::UnknownTopic => Ok(()),
            Self::TopicName(fault) => fault.fmt(f),
            Self::OtherBroker { is_logger, expected, found } => match (found.parse::<i32>(), is_logger) {
                (Err(_), true) if found.is_empty() => f.write_str("Broker id must not be empty"),
                (Err(_), _) => write!(f, "Broker id must be an integer, but it is: {found}"),
                (Ok(id), true) => write!(f, "Unexpected broker id, expected {expected} but received {id}"),
                (Ok(id), false) => {
                    write!(f, "Unexpected broker id, expected {expected} or empty string, but received {id}")
                }
            },
            Self::NoName(ResourceType::GROUP) => f.write_str("Group name must not be empty"),
            Self::NoName(ResourceType(_)) => {
                f.write_str("Client metrics subscription name must not be empty")
            }
            Self::UnknownKind => f.write_str(self.code().sentence()),
        }
    }
}

/// Describes a resource, in order of key. `wanted` names keys; `None` or empty means all, unknown ones are left out.
pub fn describe(
    image: &Image,
    view: ConfigView<'_>,
    resource: &ConfigResource,
    wanted: Option<&[String]>,
) -> Result<Vec<ConfigEntry>, DescribeRefusal> {
    let wanted: Option<BTreeSet<&str>> =
        wanted.filter(|keys| !keys.is_empty()).map(|keys| keys.iter().map(String::as_str).collect());
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|keys| keys.contains(name));
    match resource.kind {
        ResourceType::TOPIC => {
            topic_name::check(&resource.name).map_err(DescribeRefusal::TopicName)?;
            image.topics.by_name(&resource.name).ok_or(DescribeRefusal::UnknownTopic)?;
            Ok(visible(Scope::Topic, is_wanted).map(|key| topic_entry(view, &resource.name, key)).collect())
        }
        ResourceType::BROKER if resource.name.is_empty() => Ok(default_entries(view, is_wanted)),
        ResourceType::BROKER | ResourceType::BROKER_LOGGER => {
            if resource.name != view.node_id.to_string() {
                return Err(DescribeRefusal::OtherBroker {
                    is_logger: resource.kind == ResourceType::BROKER_LOGGER,
                    expected: view.node_id,
                    found: resource.name.clone(),
                });
            }
            if resource.kind == ResourceType::BROKER_LOGGER {
                // Log levels are not settings of ours.
                return Ok(Vec::new());
            }
            Ok(broker_entries(view, is_wanted))
        }
        ResourceType::CLIENT_METRICS | ResourceType::GROUP if resource.name.is_empty() => {
            Err(DescribeRefusal::NoName(resource.kind))
        }
        ResourceType::CLIENT_METRICS => Ok(visible(Scope::ClientMetrics, is_wanted)
            .map(|key| metrics_entry(view, resource, key))
            .collect()),
        ResourceType::GROUP => Ok(visible(Scope::Group, is_wanted)
            .map(|key| entry(key, view.group_chain(&resource.name, key), false, true))
            .collect()),
        _ => Err(DescribeRefusal::UnknownKind),
    }
}

fn visible<'a>(
    scope: Scope,
    is_wanted: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = &'static Key> + 'a {
    scope.keys().into_iter().filter(move |key| !key.internal && is_wanted(key.name))
}

pub(crate) fn topic_entry(view: ConfigView<'_>, topic: &str, key: &'static Key) -> ConfigEntry {
    topic_entry_of(key, view.topic_chain(topic, key))
}

/// A key of a topic by its chain. Broker keys in other units are no synonyms while the key in the topic's own unit has no
/// value, and a key without a broker key has none but itself.
pub(crate) fn topic_entry_of(key: &'static Key, chain: Vec<SourcedValue>) -> ConfigEntry {
    let shown = match keys::topic_synonyms(key.name).first() {
        Some(first) => {
            chain.iter().any(|sourced| sourced.name == first.name && sourced.factor == first.factor)
        }
        None => false,
    };
    let mut entry = entry(key, chain, false, true);
    if !shown {
        entry.synonyms.retain(|synonym| synonym.source == ConfigSource::Topic);
    }
    entry
}

fn metrics_entry(view: ConfigView<'_>, resource: &ConfigResource, key: &'static Key) -> ConfigEntry {
    let sourced = |text: &str, source| {
        let value = key.parse(text).ok()?.to_text();
        Some(SourcedValue { name: key.name, value, factor: 1, source })
    };
    let own =
        view.configs.value(resource, key.name).and_then(|text| sourced(text, ConfigSource::ClientMetrics));
    let default = key.default.and_then(|text| sourced(text, ConfigSource::Default));
    let shown = own.is_some();
    entry(key, own.into_iter().chain(default).collect(), false, shown)
}

fn broker_entries(view: ConfigView<'_>, is_wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    // A key that Kafka keeps to itself shows where somebody has set it.
    let shows = |key: &&'static Key| !key.internal || view.statics.get(key.name).is_some();
    let keys = Scope::Broker.keys().into_iter().filter(|key| shows(key) && is_wanted(key.name));
    let mut entries: Vec<ConfigEntry> = keys
        .map(|key| {
            let chain = view.broker_chain(key);
            // As for topics: while nothing sets this key itself, the others do not show.
            let is_set = chain.iter().any(|sourced| sourced.name == key.name);
            entry(key, if is_set { chain } else { Vec::new() }, key.update == Update::ReadOnly, true)
        })
        .collect();
    for name in [view.node_id.to_string(), String::new()] {
        let resource = ConfigResource::new(ResourceType::BROKER, name);
        for key in view.configs.get(&resource).into_iter().flat_map(|values| values.keys()) {
            let is_new = Scope::Broker.find(key).is_none() && !entries.iter().any(|entry| entry.name == *key);
            if is_new && is_wanted(key) {
                let source = if resource.name.is_empty() {
                    ConfigSource::DynamicDefaultBroker
                } else {
                    ConfigSource::DynamicBroker
                };
                let value = view.configs.value(&resource, key).unwrap_or_default();
                entries.push(dynamic_entry(key, value, source));
            }
        }
    }
    entries
}

/// What is set for all brokers at once: only what is set.
fn default_entries(view: ConfigView<'_>, is_wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    let source = ConfigSource::DynamicDefaultBroker;
    let values = view.configs.get(&ConfigResource::all_brokers());
    let set = values.into_iter().flat_map(|values| values.iter()).filter(|(name, _)| is_wanted(name));
    set.map(|(name, text)| match Scope::Broker.find(name) {
        Some(key) => {
            let value = key.parse(text).map_or_else(|_| text.clone(), |value| value.to_text());
            let sourced = SourcedValue { name: key.name, value, factor: 1, source };
            entry(key, [sourced].into(), key.update == Update::ReadOnly, true)
        }
        None => dynamic_entry(name, text, source),
    })
    .collect()
}

fn entry(key: &'static Key, chain: Vec<SourcedValue>, read_only: bool, shows_synonyms: bool) -> ConfigEntry {
    let is_sensitive = key.is_sensitive();
    let source = chain.first().map_or(ConfigSource::Default, |sourced| sourced.source);
    let value = in_force(key, &chain).map(|value| value.to_text()).filter(|_| !is_sensitive);
    let synonyms = chain
        .into_iter()
        .filter(|_| shows_synonyms)
        .map(|sourced| SynonymEntry {
            name: sourced.name,
            value: Some(sourced.value).filter(|_| !is_sensitive),
            source: sourced.source,
        })
        .collect();
    let name = key.name.to_string();
    ConfigEntry {
        name,
        value,
        read_only,
        source,
        is_sensitive,
        synonyms,
        kind: key.kind,
        documentation: key.documentation,
    }
}

/// Rates of replication that Kafka knows only while a broker runs: they are in no file and have no default that shows.
///
/// Source: Kafka QuotaConfig.brokerQuotaConfigs.
const DYNAMIC_RATES: [&str; 3] = [
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
];

/// A key that is not in the table and was set while a broker ran.
fn dynamic_entry(name: &str, value: &str, source: ConfigSource) -> ConfigEntry {
    let unknown = unknown_entry(name, source);
    let Some(name) = DYNAMIC_RATES.into_iter().find(|rate| *rate == name) else { return unknown };
    let value = Some(value.to_string());
    ConfigEntry {
        synonyms: [SynonymEntry { name, value: value.clone(), source }].into(),
        value,
        is_sensitive: false,
        kind: Kind::Long,
        documentation: "Most bytes a second for throttled replicas; one node has none, so it has no effect.",
        ..unknown
    }
}

/// A key that the table does not have: kept, shown without its value, which might be a secret.
fn unknown_entry(name: &str, source: ConfigSource) -> ConfigEntry {
    ConfigEntry {
        name: name.to_string(),
        value: None,
        read_only: false,
        source,
        is_sensitive: true,
        synonyms: Vec::new(),
        kind: Kind::String,
        documentation: "Not a key of this broker.",
    }
}
