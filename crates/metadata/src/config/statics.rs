//! What a node is started with: pairs from the file, the environment and the command line, checked against the table.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::validate::check_new_value;
use crate::keys::{Key, Scope, Value};

/// A setting that cannot be; printed, it is one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConfigError {
    /// The key.
    pub key: String,
    /// The sentence.
    pub message: String,
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for ConfigError {}

impl ConfigError {
    pub(crate) fn new(key: &str, message: String) -> Self {
        Self { key: key.into(), message }
    }
}

/// A setting that is accepted and does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IgnoredKey {
    /// The key as given.
    pub name: String,
    /// Whether Kafka knows it; Fencepost has nothing that it could set.
    pub is_known: bool,
    /// A known key of nearly the same name.
    pub suggestion: Option<&'static str>,
}

/// The static configuration of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StaticConfig {
    values: BTreeMap<String, String>,
    ignored: Vec<IgnoredKey>,
}

impl StaticConfig {
    /// Checks pairs of key and value; of two pairs for one key the later counts. Keys that are not in the table are kept
    /// and listed as ignored.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut values: BTreeMap<String, String> = pairs.into_iter().collect();
        check_node_id(&mut values)?;
        let mut ignored = Vec::new();
        for (name, value) in &values {
            match Scope::Broker.find(name) {
                Some(key) => {
                    check_new_value(key, value).map_err(|message| ConfigError::new(name, message))?;
                    if !key.used {
                        ignored.push(IgnoredKey { name: name.clone(), is_known: true, suggestion: None });
                    }
                }
                None => {
                    let is_known = is_per_listener(name);
                    let suggestion = if is_known { None } else { nearest(name) };
                    ignored.push(IgnoredKey { name: name.clone(), is_known, suggestion });
                }
            }
        }
        let config = Self { values, ignored };
        config.check_internal_topics()?;
        config.check_group_protocols()?;
        config.check_idle_time()?;
        super::listeners::check(&config)?;
        super::alone::check(&config)?;
        Ok(config)
    }

    /// The value given for a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// These settings with another value for a key: one that is in force for a reason outside them, such as an argument of the
    /// command line or a port that the system picked. It is taken as it is.
    pub fn with_value_in_force(mut self, key: &str, value: String) -> Self {
        self.values.insert(key.to_string(), value);
        self
    }

    /// Every pair that was given, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The settings that do nothing, in order of name.
    pub fn ignored(&self) -> &[IgnoredKey] {
        &self.ignored
    }

    /// The value in force before anything dynamic.
    pub(super) fn value(&self, key: &Key) -> Option<Value> {
        let text = self.get(key.name).or(key.default)?;
        key.parse(text).ok()
    }

    pub(super) fn number(&self, name: &str) -> i64 {
        let key = Scope::Broker.find(name).unwrap_or_else(|| panic!("{name} is in the table"));
        let value = self.value(key).and_then(|value| value.as_number());
        value.unwrap_or_else(|| panic!("{name} is a number with a default"))
    }

    /// A node that stands alone cannot have more than one replica of anything: better said now than by clients that time
    /// out.
    fn check_internal_topics(&self) -> Result<(), ConfigError> {
        for name in [
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
            "transaction.state.log.min.isr",
        ] {
            let value = self.number(name);
            if value > 1 {
                let message =
                    format!("{name}={value} cannot be: this node stands alone and can hold one replica.");
                return Err(ConfigError::new(name, message));
            }
        }
        Ok(())
    }

    /// A refused login is answered late, and its connection must live until then.
    ///
    /// Source: Kafka KafkaConfig.validateValues, connectionsMaxIdleMs.
    fn check_idle_time(&self) -> Result<(), ConfigError> {
        const KEY: &str = "connections.max.idle.ms";
        let (idle_ms, delay_ms) =
            (self.number(KEY), self.number("connection.failed.authentication.delay.ms"));
        if idle_ms < 0 || delay_ms < idle_ms {
            return Ok(());
        }
        let message = format!(
            "{KEY}={idle_ms} cannot be: it must be above connection.failed.authentication.delay.ms ({delay_ms}), or below 0 for no limit."
        );
        Err(ConfigError::new(KEY, message))
    }

    /// The consumer protocol can be switched off, the classic one cannot.
    ///
    /// Source: Kafka KafkaConfig.validateValues, groupCoordinatorRebalanceProtocols.
    fn check_group_protocols(&self) -> Result<(), ConfigError> {
        const KEY: &str = "group.coordinator.rebalance.protocols";
        let protocols = self.list(KEY);
        if protocols.iter().any(|protocol| protocol == "classic") {
            return Ok(());
        }
        let message =
            format!("{KEY}={} cannot be: the classic protocol cannot be switched off.", protocols.join(","));
        Err(ConfigError::new(KEY, message))
    }
}

/// `broker.id` is the older name of `node.id`: either may be given, or both if they agree.
fn check_node_id(values: &mut BTreeMap<String, String>) -> Result<(), ConfigError> {
    match (values.get("node.id"), values.get("broker.id")) {
        (None, Some(id)) => {
            let id = id.clone();
            values.insert("node.id".to_string(), id);
        }
        (Some(id), None) => {
            let id = id.clone();
            values.insert("broker.id".to_string(), id);
        }
        (Some(node), Some(broker)) if node.trim() != broker.trim() => {
            let message = format!("broker.id={broker} cannot be: it is another than node.id={node}.");
            return Err(ConfigError::new("broker.id", message));
        }
        (_, _) => {}
    }
    Ok(())
}

/// Whether the name is a key for one listener, such as `listener.name.external.ssl.keystore.location`.
fn is_per_listener(name: &str) -> bool {
    name.starts_with("listener.name.")
}

/// A key whose name differs in at most this many letters is worth suggesting.
const SUGGESTION_DISTANCE_MAX: usize = 3;
/// Longer names are not compared.
const SUGGESTION_NAME_BYTES_MAX: usize = 128;

fn nearest(name: &str) -> Option<&'static str> {
    if name.len() > SUGGESTION_NAME_BYTES_MAX {
        return None;
    }
    let nearest = Scope::Broker.keys().into_iter().map(|key| (distance(name, key.name), key.name)).min()?;
    (nearest.0 <= SUGGESTION_DISTANCE_MAX).then_some(nearest.1)
}

/// How many letters must be put in, taken out or exchanged to make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
