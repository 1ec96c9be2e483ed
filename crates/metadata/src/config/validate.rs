//! Checks on changes of configurations: which keys and values each kind of resource takes.
//!
//! Source: Kafka LogConfig.validate, DynamicBrokerConfig.validate, GroupConfig.validate, ClientMetricsConfigs.validate.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use fencepost_types::{BrokerId, ErrorCode};

use super::resolve::ConfigView;
use super::statics::ConfigError;
use crate::image::{ConfigResource, Configs, ResourceType};
use crate::keys::{Key, Scope, Update, Value};

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
        Self::new(code, format!("{what} have no key named {name}."))
    }

    fn value(code: ErrorCode, key: &Key, value: &str, must: &str) -> Self {
        let value = if key.is_sensitive() { "(secret)" } else { value };
        Self::new(code, format!("{}={value} cannot be: it {must}.", key.name))
    }
}

/// Checks the keys set for a topic (`values`: all that it will have).
pub(crate) fn check_topic_config(values: &BTreeMap<String, String>) -> Result<(), ConfigFault> {
    let code = ErrorCode::InvalidConfig;
    for (name, text) in values {
        let key = Scope::Topic.find(name).ok_or_else(|| ConfigFault::unknown(code, "Topics", name))?;
        let value = key.parse(text).map_err(|invalid| ConfigFault::value(code, key, text, &invalid.0))?;
        if key.name == "remote.storage.enable" && value == Value::Boolean(true) {
            return Err(ConfigFault::value(
                code,
                key,
                text,
                "needs tiered storage, which this broker does not have",
            ));
        }
    }
    let (min, max) = (lag(values, "min.compaction.lag.ms"), lag(values, "max.compaction.lag.ms"));
    if min > max {
        let message = format!("min.compaction.lag.ms={min} cannot be above max.compaction.lag.ms={max}.");
        return Err(ConfigFault::new(code, message));
    }
    Ok(())
}

fn lag(values: &BTreeMap<String, String>, name: &str) -> i64 {
    let key = Scope::Topic.find(name).expect("the table has it");
    let text = values.get(name).map(String::as_str).or(key.default);
    text.and_then(|text| key.parse(text).ok()).and_then(|value| value.as_number()).unwrap_or(0)
}

/// Checks one key set for a broker, or for all brokers at once. Keys that are not in the table pass, as in Kafka.
pub(crate) fn check_broker_change(name: &str, text: &str, for_all: bool) -> Result<(), ConfigFault> {
    let code = ErrorCode::InvalidRequest;
    let Some(key) = Scope::Broker.find(name) else { return Ok(()) };
    match key.update {
        Update::ReadOnly => {
            let message = format!("{name} cannot be changed while the broker runs.");
            return Err(ConfigFault::new(code, message));
        }
        Update::PerBroker if for_all => {
            let message = format!("{name} can be set for one broker at a time only.");
            return Err(ConfigFault::new(code, message));
        }
        Update::PerBroker | Update::ClusterWide | Update::Resource => {}
    }
    if LISTENERS.contains(&name) {
        let message =
            format!("{name} cannot be changed while the broker runs: its one listener stays as it is.");
        return Err(ConfigFault::new(code, message));
    }
    key.parse_new(text).map(|_| ()).map_err(|invalid| ConfigFault::value(code, key, text, &invalid.0))
}

/// Keys that Kafka lets be changed while a broker runs and this one does not.
const LISTENERS: [&str; 2] = ["listeners", "listener.security.protocol.map"];

/// What was set while another broker ran on this directory and cannot be honoured here; one sentence.
pub fn check_dynamic_broker_configs(configs: &Configs, node_id: BrokerId) -> Result<(), ConfigError> {
    for name in [String::new(), node_id.0.to_string()] {
        let resource = ConfigResource::new(ResourceType::BROKER, &name);
        for key in Scope::Broker.keys().into_iter().filter(|key| key.only.is_some()) {
            let Some(text) = configs.value(&resource, key.name) else { continue };
            if key.update != Update::ReadOnly
                && let Err(invalid) = key.parse_new(text)
            {
                return Err(ConfigError::value(
                    key,
                    text,
                    &format!("was set while the broker ran, and it {}", invalid.0),
                ));
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
    for (name, text) in values {
        let key = Scope::Group.find(name).ok_or_else(|| ConfigFault::unknown(code, "Groups", name))?;
        let value = key.parse(text).map_err(|invalid| ConfigFault::value(code, key, text, &invalid.0))?;
        let Some(number) = value.as_number() else { continue };
        if let Some((least, most)) = group_limits(name, view)
            && !(least..=most).contains(&number)
        {
            let must = format!("must be between {least} and {most}");
            return Err(ConfigFault::value(code, key, text, &must));
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
    for (name, text) in values {
        let key = Scope::ClientMetrics
            .find(name)
            .ok_or_else(|| ConfigFault::unknown(code, "Client metrics subscriptions", name))?;
        // Kafka says what is no value at all in its words for every configuration, and what is out of range in its own.
        let parsed = key.parse(text);
        let wrong = |invalid: crate::keys::InvalidValue| {
            ConfigFault::value(ErrorCode::InvalidConfig, key, text, &invalid.0)
        };
        match parsed.map_err(wrong)? {
            Value::Number(number) if !INTERVAL_MS.contains(&number) => {
                return Err(ConfigFault::value(code, key, text, "must be between 100 and 3600000"));
            }
            Value::List(items) if name == "match" => {
                let is_match = |item: &String| {
                    item.split_once('=').is_some_and(|(label, pattern)| {
                        (MATCH_KEYS.contains(&label.trim()) || label.trim() == "client_source_port")
                            && !pattern.trim().is_empty()
                    })
                };
                if !items.iter().all(is_match) {
                    let must = "must be a list of label=pattern";
                    return Err(ConfigFault::value(ErrorCode::InvalidConfig, key, text, must));
                }
            }
            Value::Boolean(_) | Value::Number(_) | Value::Real(_) | Value::List(_) | Value::Text(_) => {}
        }
    }
    Ok(())
}
