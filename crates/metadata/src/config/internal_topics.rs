//! The internal topics: their names, and the settings they are created with.
//!
//! Source: storage-formats §13 and §14, Kafka GroupCoordinatorService.groupMetadataTopicConfigs,
//! TransactionStateManager.transactionTopicConfigs.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use super::broker::BrokerConfig;

/// Holds committed offsets and groups.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Holds the state of transactions.
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";
/// Holds the state of share groups; never created here.
pub const SHARE_STATE_TOPIC: &str = "__share_group_state";

/// What an internal topic is created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalTopic {
    /// Its name.
    pub name: &'static str,
    /// Its partitions; never to be changed.
    pub partitions: i32,
    /// Its replicas.
    pub replication_factor: i16,
    /// Its own settings.
    pub configs: BTreeMap<String, String>,
}

/// The topic of committed offsets and groups.
pub fn offsets_topic(config: &BrokerConfig) -> InternalTopic {
    InternalTopic {
        name: OFFSETS_TOPIC,
        partitions: config.offsets_topic_num_partitions,
        replication_factor: config.offsets_topic_replication_factor,
        configs: settings([
            ("cleanup.policy", "compact".to_string()),
            ("compression.type", "producer".to_string()),
            ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
        ]),
    }
}

/// The topic of transactions.
pub fn transaction_state_topic(config: &BrokerConfig) -> InternalTopic {
    InternalTopic {
        name: TRANSACTION_STATE_TOPIC,
        partitions: config.transaction_state_log_num_partitions,
        replication_factor: config.transaction_state_log_replication_factor,
        configs: settings([
            ("cleanup.policy", "compact".to_string()),
            ("compression.type", "uncompressed".to_string()),
            ("min.insync.replicas", config.transaction_state_log_min_isr.to_string()),
            ("segment.bytes", config.transaction_state_log_segment_bytes.to_string()),
            ("unclean.leader.election.enable", "false".to_string()),
        ]),
    }
}

fn settings<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}
