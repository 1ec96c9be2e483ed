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
