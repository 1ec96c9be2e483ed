//! Checks on changes of configurations: which keys and values each kind of resource takes.
//!
//! Source: Kafka LogConfig.validate, DynamicBrokerConfig.validate, GroupConfig.validate, ClientMetricsConfigs.validate.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_types::{BrokerId, ErrorCode};

use super::resolve::ConfigView;
use super::statics::ConfigError;
use crate::image::{ConfigResource, Configs, ResourceType};
use crate::keys::{InvalidValue, Key, Scope, Update, Value};

/// Why a change of a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConfigFault {
    /// The code on the wire.
    pub(crate) code: ErrorCode,
    /// The sentence beside it.
    pub(crate) message: String,
}

impl ConfigFault {
    pub(crate) fn new(code: ErrorCode, message: String) -> Self {
        Self { code, message }
    }

    fn unknown(code: ErrorCode, what: &str, name: &str) -> Self {
        Self::new(code, format!("Unknown {what}: {name}"))
    }

    fn invalid(code: ErrorCode, key: &Key, invalid: &InvalidValue) -> Self {
        Self::new(code, invalid.sentence(key))
    }
}

/// The keys of that scope, or the refusal of the first name that none has.
fn keys_of(
    scope: Scope,
    values: &BTreeMap<String, String>,
    unknown: impl Fn(&str) -> ConfigFault,
) -> Result<Vec<(&'static Key, &str)>, ConfigFault> {
    let found = values.iter().map(|(name, text)| {
        let key = scope.find(name).ok_or_else(|| unknown(name))?;
        Ok((key, text.as_str()))
    });
    found.collect()
}

/// Checks the keys set for a topic (`values`: all that it will have).
pub(crate) fn check_topic_config(values: &BTreeMap<String, String>) -> Result<(), ConfigFault> {
    let code = ErrorCode::InvalidConfig;
    let unknown = |name: &str| ConfigFault::unknown(code, "topic config name", name);
    for (key, text) in keys_of(Scope::Topic, values, unknown)? {
        let value = key.parse(text).map_err(|invalid| ConfigFault::invalid(code, key, &invalid))?;
        if key.name == "remote.storage.enable" && value == Value::Boolean(true) {
            let message = "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.";
            return Err(ConfigFault::new(code, message.to_string()));
        }
    }
    let (min, max) = (lag(values, "min.compaction.lag.ms"), lag(values, "max.compaction.lag.ms"));
    if min > max {
        let message = format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        );
        return Err(ConfigFault::new(code, message));
    }
    Ok(())
}

fn lag(values: &BTreeMap<String, String>, name: &str) -> i64 {
    let key = Scope::Topic.find(name).expect("the table has it");
    let text = values.get(name).map(String::as_str).or(key.default);
    text.and_then(|text| key.parse(text).ok()).and_then(|value| value.as_number()).unwrap_or(0)
}

/// Checks keys set for a broker, or for all brokers at once. Keys that are not in the table pass, as in Kafka.
///
/// Source: Kafka DynamicBrokerConfig.validate.
pub(crate) fn check_broker_changes(changes: &[(&str, &str)], for_all: bool) -> Result<(), ConfigFault> {
    let code = ErrorCode::InvalidRequest;
    let keys = changes.iter().filter_map(|(name, text)| Some((Scope::Broker.find(name)?, *text)));
    let keys: Vec<(&'static Key, &str)> = keys.collect();
    let named = |is_meant: &dyn Fn(&Key) -> bool| -> String {
        let names = keys.iter().filter(|(key, _)| is_meant(key)).map(|(key, _)| key.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let read_only =
        named(&|key| key.update == Update::ReadOnly || (!for_all && LISTENERS.contains(&key.name)));
    if !read_only.is_empty() {
        let message = format!("Cannot update these configs dynamically: [{read_only}]");
        return Err(ConfigFault::new(code, message));
    }
    let per_broker = named(&|key| for_all && key.update == Update::PerBroker);
    if !per_broker.is_empty() {
        let message = format!(
            "Cannot update these configs at default cluster level, broker id must be specified: [{per_broker}]"
        );
        return Err(ConfigFault::new(code, message));
    }
    for (key, text) in keys {
        check_new_value(key, text).map_err(|message| ConfigFault::new(code, message))?;
    }
    Ok(())
}

/// Checks a value that a broker is given at its start or later; what is wrong with it is one sentence.
///
/// Source: Kafka AbstractKafkaConfig, KafkaConfig.validateValues.
pub(super) fn check_new_value(key: &Key, text: &str) -> Result<(), String> {
    let value = key.parse_new(text).map_err(|invalid| invalid.sentence(key))?;
    let number = value.as_number();
    match key.name {
        "log.roll.ms" if number < Some(1) => {
            Err(format!("requirement failed: {} must be greater than or equal to 1", key.name))
        }
        "log.roll.jitter.ms" if number < Some(0) => {
            Err(format!("requirement failed: {} must be greater than or equal to 0", key.name))
        }
        "log.retention.ms" | "log.retention.minutes" | "log.retention.hours" if number == Some(0) => {
            let name = key.name;
            Err(format!("requirement failed: {name} must be unlimited (-1) or, greater than or equal to 1"))
        }
        "group.consumer.assignors" if value.as_list().is_some_and(<[String]>::is_empty) => {
            Err(format!("{} must contain at least one assignor", key.name))
        }
        _ => Ok(()),
    }
}

/// Keys that Kafka lets be changed while a broker runs and this one does not: its one listener stays as it is.
pub const LISTENERS: [&str; 2] = ["listeners", "listener.security.protocol.map"];

/// What was set while another broker ran on this directory and cannot be honoured here; one sentence.
pub fn check_dynamic_broker_configs(configs: &Configs, node_id: BrokerId) -> Result<(), ConfigError> {
    for name in [String::new(), node_id.0.to_string()] {
        let resource = ConfigResource::new(ResourceType::BROKER, &name);
        for key in Scope::Broker.keys().into_iter().filter(|key| key.only.is_some()) {
            let Some(text) = configs.value(&resource, key.name) else { continue };
            if key.update != Update::ReadOnly
                && let Err(invalid) = key.parse_new(text)
            {
                let message = format!("{} (It was set while the broker ran.)", invalid.sentence(key));
                return Err(ConfigError::new(key.name, message));
            }
        }
    }
    Ok(())
}

/// Checks the keys set for a group against the broker's limits.
pub(crate) fn check_group_config(
    values: &BTreeMap<String, String>,
    view: ConfigView<'_>,
) -> Result<(), ConfigFault> {
    let code = ErrorCode::InvalidConfig;
    let unknown = |name: &str| ConfigFault::unknown(code, "group config name", name);
    let mut numbers = Vec::new();
    for (key, text) in keys_of(Scope::Group, values, unknown)? {
        let value = key.parse(text).map_err(|invalid| ConfigFault::invalid(code, key, &invalid))?;
        numbers.extend(value.as_number().map(|number| (key.name, number)));
    }
    for (name, number) in numbers {
        if let Some((least, most)) = group_limits(name, view)
            && !(least..=most).contains(&number)
        {
            let message = format!("{name} must be in the range {least} to {most} inclusive.");
            return Err(ConfigFault::new(code, message));
        }
    }
    Ok(())
}

/// The broker's limits of a group's key: `consumer.session.timeout.ms` lies between
/// `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`.
fn group_limits(name: &str, view: ConfigView<'_>) -> Option<(i64, i64)> {
    let (protocol, rest) = name.split_once('.')?;
    let limit = |which: &str| -> Option<i64> {
        let key = Scope::Broker.find(&format!("group.{protocol}.{which}.{rest}"))?;
        view.broker_value(key)?.as_number()
    };
    match (limit("min"), limit("max")) {
        (None, None) => None,
        (least, most) => Some((least.unwrap_or(i64::MIN), most.unwrap_or(i64::MAX))),
    }
}

/// Checks the keys set for a client metrics subscription.
pub(crate) fn check_client_metrics(values: &BTreeMap<String, String>) -> Result<(), ConfigFault> {
    const INTERVAL_MS: core::ops::RangeInclusive<i64> = 100..=3_600_000;
    const MATCH_KEYS: [&str; 5] = [
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
    ];
    let code = ErrorCode::InvalidRequest;
    let unknown = |name: &str| ConfigFault::unknown(code, "client metrics configuration", name);
    for (key, text) in keys_of(Scope::ClientMetrics, values, unknown)? {
        // Kafka says what is no value at all in its words for every configuration, and what is out of range in its own.
        let wrong = |invalid: InvalidValue| ConfigFault::invalid(ErrorCode::InvalidConfig, key, &invalid);
        match key.parse(text).map_err(wrong)? {
            Value::Number(number) if !INTERVAL_MS.contains(&number) => {
                let message = format!(
                    "Invalid value {number} for {}, interval must be between 100 and 3600000 (1 hour)",
                    key.name
                );
                return Err(ConfigFault::new(code, message));
            }
            Value::List(items) if key.name == "match" => {
                let is_match = |item: &&String| {
                    item.split_once('=').is_some_and(|(label, pattern)| {
                        (MATCH_KEYS.contains(&label.trim()) || label.trim() == "client_source_port")
                            && !pattern.trim().is_empty()
                    })
                };
                if let Some(item) = items.iter().find(|item| !is_match(item)) {
                    let message = format!("Illegal client matching pattern: {item}");
                    return Err(ConfigFault::new(ErrorCode::InvalidConfig, message));
                }
            }
            Value::Boolean(_) | Value::Number(_) | Value::Real(_) | Value::List(_) | Value::Text(_) => {}
        }
    }
    Ok(())
}
