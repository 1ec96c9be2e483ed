//! Configuration: what a node is started with, what is changed while it runs, and what is in force.

mod alone;
mod broker;
mod describe;
mod documentation;
mod environment;
mod internal_topics;
mod listeners;
mod properties;
mod resolve;
mod statics;
mod topic;
mod typed;
mod validate;

pub use crate::keys::Durability;
pub use broker::BrokerConfig;
pub(crate) use describe::topic_entry_of;
pub use describe::{ConfigEntry, DescribeRefusal, SynonymEntry, describe};
pub use documentation::render_configuration_page;
pub use environment::{key_of_variable, variable_of_key};
pub use internal_topics::{
    InternalTopic, OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, offsets_topic,
    transaction_state_topic,
};
pub use listeners::{ListenerAddress, SecurityProtocol};
pub use properties::{PropertiesError, parse_properties};
pub use resolve::{ConfigSource, ConfigView, SourcedValue};
pub use statics::{ConfigError, IgnoredKey, StaticConfig};
pub use topic::TopicConfig;
pub(crate) use typed::FromValue;
pub(crate) use validate::{
    ConfigFault, check_broker_changes, check_client_metrics, check_group_config, check_topic_config,
};
pub use validate::{LISTENERS, check_dynamic_broker_configs};

#[cfg(test)]
mod tests;
