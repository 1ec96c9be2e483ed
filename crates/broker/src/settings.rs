//! What a broker is started with, and how the metadata's settings become those of a log.

use core::net::IpAddr;

use fencepost_metadata::keys::CompressionChoice;
use fencepost_metadata::{Durability as ConfiguredDurability, StaticConfig, TopicConfig};
use fencepost_records::{AppendRules, Compression, CompressionType, TimestampType};
use fencepost_storage::{CleanupPolicy, LogConfig};
use fencepost_types::BrokerId;

use crate::sync::Durability;

/// Everything the engine is told at its start. What it finds on the disk goes before.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// The node's id.
    pub node_id: BrokerId,
    /// The keys as they were given, checked.
    pub statics: StaticConfig,
    /// When an acknowledged record survives what.
    pub durability: Durability,
    /// The path of the log directory, as DescribeLogDirs shows it.
    pub log_dir_path: String,
}

impl BrokerSettings {
    /// The settings that `statics` ask for.
    pub fn new(statics: StaticConfig, log_dir_path: String) -> Self {
        let config = fencepost_metadata::BrokerConfig::from_static(&statics);
        let durability = match config.durability {
            ConfiguredDurability::Fsync => Durability::Fsync,
            ConfiguredDurability::PageCache => Durability::PageCache,
        };
        Self { node_id: BrokerId(config.node_id), statics, durability, log_dir_path }
    }
}

/// How many connections may be open at once.
///
/// Source: KIP-402, KIP-612, Kafka ConnectionQuotas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// `max.connections`: beyond it new ones wait to be accepted.
    pub connections_max: usize,
    /// `max.connections.per.ip`: beyond it new ones are closed at once.
    pub per_address_max: usize,
    /// `max.connections.per.ip.overrides`.
    pub per_address_overrides: Vec<(IpAddr, usize)>,
}

impl ConnectionLimits {
    /// The most connections from that address.
    pub fn of(&self, address: IpAddr) -> usize {
        let own = self.per_address_overrides.iter().find(|(known, _)| *known == address);
        own.map_or(self.per_address_max, |(_, limit)| *limit)
    }
}

/// What the listener's socket is opened with; `None` is the system's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// `socket.listen.backlog.size`: connections that may wait to be accepted.
    pub backlog: u32,
    /// `socket.send.buffer.bytes`.
    pub send_buffer_bytes: Option<u32>,
    /// `socket.receive.buffer.bytes`.
    pub receive_buffer_bytes: Option<u32>,
}

/// What a leader asks of a produced batch under these settings.
pub(crate) fn append_rules(config: &TopicConfig) -> AppendRules {
    AppendRules {
        message_bytes_max: config.max_message_bytes,
        segment_bytes: config.segment_size_bytes(),
        timestamp_type: timestamp_type(config),
        timestamp_before_max_ms: config.message_timestamp_before_max_ms,
        timestamp_after_max_ms: config.message_timestamp_after_max_ms,
        keys_required: config.is_compacted(),
        record_bytes_max: config.max_decompressed_message_bytes,
        compression: compression(config),
    }
}

/// How a log is kept under these settings.
pub(crate) fn log_config(config: &TopicConfig, producer_id_expiration_ms: i64) -> LogConfig {
    LogConfig {
        segment_bytes: config.segment_size_bytes().max(0) as u64,
        segment_ms: config.segment_ms,
        segment_jitter_ms: config.segment_jitter_ms,
        index_interval_bytes: config.index_interval_bytes.max(0) as u64,
        segment_index_bytes: config.segment_index_bytes.max(0) as u64,
        retention_ms: config.retention_ms,
        retention_bytes: config.retention_bytes,
        cleanup_policy: CleanupPolicy { delete: config.is_deleted(), compact: config.is_compacted() },
        max_compaction_lag_ms: config.max_compaction_lag_ms,
        timestamp_type: timestamp_type(config),
        producer_id_expiration_ms,
    }
}

fn timestamp_type(config: &TopicConfig) -> TimestampType {
    if config.is_log_append_time() { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
}

/// The codec that batches are brought to; `None` is the producer's own.
fn compression(config: &TopicConfig) -> Option<Compression> {
    let (codec, level) = match config.compression_type {
        CompressionChoice::Uncompressed => (CompressionType::None, None),
        CompressionChoice::Gzip => (CompressionType::Gzip, Some(config.compression_gzip_level)),
        CompressionChoice::Snappy => (CompressionType::Snappy, None),
        CompressionChoice::Lz4 => (CompressionType::Lz4, Some(config.compression_lz4_level)),
        CompressionChoice::Zstd => (CompressionType::Zstd, Some(config.compression_zstd_level)),
        CompressionChoice::Producer => return None,
    };
    Some(Compression { codec, level })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both configurations of a topic without settings of its own, on a broker that is started with `pairs`.
    fn with(pairs: &[(&str, &str)]) -> (LogConfig, AppendRules) {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let statics = StaticConfig::new(pairs).expect("the settings are good");
        let configs = fencepost_metadata::image::Configs::default();
        let view = fencepost_metadata::config::ConfigView {
            statics: &statics,
            configs: &configs,
            node_id: BrokerId(1),
        };
        let topic = TopicConfig::resolve(view, "t");
        (log_config(&topic, 86_400_000), append_rules(&topic))
    }

    /// Issue 12, C17: each of the broker's keys for logs changes how a topic's log is kept, each in its own unit; what each
    /// setting of a log does is for the tests of the log to see.
    #[test]
    fn keys_of_the_broker_reach_the_log() {
        const HOUR_MS: i64 = 3_600_000;
        let (before, _) = with(&[]);
        let expected = |key: &str, change: &dyn Fn(&mut LogConfig)| {
            let mut wanted = before.clone();
            change(&mut wanted);
            assert_ne!(wanted, before, "{key} changes nothing");
            wanted
        };
        let check = |key: &str, value: &str, change: &dyn Fn(&mut LogConfig)| {
            assert_eq!(with(&[(key, value)]).0, expected(key, change), "{key}");
        };
        check("log.segment.bytes", "1048577", &|log| log.segment_bytes = 1_048_577);
        check("log.roll.ms", "5", &|log| log.segment_ms = 5);
        check("log.roll.hours", "3", &|log| log.segment_ms = 3 * HOUR_MS);
        check("log.roll.jitter.ms", "7", &|log| log.segment_jitter_ms = 7);
        check("log.roll.jitter.hours", "2", &|log| log.segment_jitter_ms = 2 * HOUR_MS);
        check("log.index.interval.bytes", "77", &|log| log.index_interval_bytes = 77);
        check("log.index.size.max.bytes", "4096", &|log| log.segment_index_bytes = 4_096);
        check("log.retention.ms", "9", &|log| log.retention_ms = 9);
        check("log.retention.minutes", "2", &|log| log.retention_ms = 120_000);
        check("log.retention.hours", "4", &|log| log.retention_ms = 4 * HOUR_MS);
        check("log.retention.bytes", "123", &|log| log.retention_bytes = 123);
        check("log.cleaner.max.compaction.lag.ms", "11", &|log| log.max_compaction_lag_ms = 11);
        check("log.message.timestamp.type", "LogAppendTime", &|log| {
            log.timestamp_type = TimestampType::LogAppendTime;
        });
        check("log.cleanup.policy", "compact", &|log| {
            log.cleanup_policy = CleanupPolicy { delete: false, compact: true };
        });
    }

    /// Issue 12, C17: each of the broker's keys about produced batches changes what a leader asks of them.
    #[test]
    fn keys_of_the_broker_reach_the_validation() {
        let (_, before) = with(&[]);
        let check = |pairs: &[(&str, &str)], change: &dyn Fn(&mut AppendRules)| {
            let mut wanted = before;
            change(&mut wanted);
            assert_ne!(wanted, before, "{pairs:?} change nothing");
            assert_eq!(with(pairs).1, wanted, "{pairs:?}");
        };
        let packed = |codec, level| Some(Compression { codec, level });
        check(&[("message.max.bytes", "99")], &|rules| rules.message_bytes_max = 99);
        check(&[("log.segment.bytes", "1048577")], &|rules| rules.segment_bytes = 1_048_577);
        check(&[("max.decompressed.message.bytes", "5")], &|rules| rules.record_bytes_max = 5);
        check(&[("log.message.timestamp.before.max.ms", "6")], &|rules| rules.timestamp_before_max_ms = 6);
        check(&[("log.message.timestamp.after.max.ms", "8")], &|rules| rules.timestamp_after_max_ms = 8);
        check(&[("log.message.timestamp.type", "LogAppendTime")], &|rules| {
            rules.timestamp_type = TimestampType::LogAppendTime;
        });
        check(&[("log.cleanup.policy", "compact,delete")], &|rules| rules.keys_required = true);
        for (name, codec) in [("uncompressed", CompressionType::None), ("snappy", CompressionType::Snappy)] {
            check(&[("compression.type", name)], &|rules| rules.compression = packed(codec, None));
        }
        for (name, codec) in
            [("gzip", CompressionType::Gzip), ("lz4", CompressionType::Lz4), ("zstd", CompressionType::Zstd)]
        {
            let level = format!("compression.{name}.level");
            check(&[("compression.type", name), (&level, "2")], &|rules| {
                rules.compression = packed(codec, Some(2))
            });
        }
    }
}
