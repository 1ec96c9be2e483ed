//! A topic's settings, typed.

use alloc::vec::Vec;

use super::resolve::ConfigView;
use super::statics::StaticConfig;
use super::typed::typed_config;
use crate::image::Configs;
use crate::keys::{CleanupChoice, CompressionChoice, Key, Scope, TimestampChoice, Value};
use fencepost_types::BrokerId;

typed_config! {
    /// A topic's settings in force. Times are milliseconds.
    TopicConfig in Scope::Topic => {
        cleanup_policy: Vec<CleanupChoice> = "cleanup.policy",
        compression_type: CompressionChoice = "compression.type",
        compression_gzip_level: i32 = "compression.gzip.level",
        compression_lz4_level: i32 = "compression.lz4.level",
        compression_zstd_level: i32 = "compression.zstd.level",
        delete_retention_ms: i64 = "delete.retention.ms",
        file_delete_delay_ms: i64 = "file.delete.delay.ms",
        flush_messages: i64 = "flush.messages",
        flush_ms: i64 = "flush.ms",
        index_interval_bytes: i32 = "index.interval.bytes",
        internal_segment_bytes: Option<i32> = "internal.segment.bytes",
        max_compaction_lag_ms: i64 = "max.compaction.lag.ms",
        max_decompressed_message_bytes: i32 = "max.decompressed.message.bytes",
        max_message_bytes: i32 = "max.message.bytes",
        message_timestamp_after_max_ms: i64 = "message.timestamp.after.max.ms",
        message_timestamp_before_max_ms: i64 = "message.timestamp.before.max.ms",
        message_timestamp_type: TimestampChoice = "message.timestamp.type",
        min_cleanable_dirty_ratio: f64 = "min.cleanable.dirty.ratio",
        min_compaction_lag_ms: i64 = "min.compaction.lag.ms",
        retention_bytes: i64 = "retention.bytes",
        retention_ms: i64 = "retention.ms",
        segment_bytes: i32 = "segment.bytes",
        segment_index_bytes: i32 = "segment.index.bytes",
        segment_jitter_ms: i64 = "segment.jitter.ms",
        segment_ms: i64 = "segment.ms",
    }
}

impl TopicConfig {
    /// The settings in force for that topic: its own, else the broker's.
    pub fn resolve(view: ConfigView<'_>, topic: &str) -> Self {
        Self::read(|key| usable(key, view.topic_value(topic, key)))
    }

    /// Whether old values of a key are removed.
    pub fn is_compacted(&self) -> bool {
        self.cleanup_policy.contains(&CleanupChoice::Compact)
    }

    /// Whether old segments are deleted.
    pub fn is_deleted(&self) -> bool {
        self.cleanup_policy.contains(&CleanupChoice::Delete)
    }

    /// Whether records get the time of their arrival.
    pub fn is_log_append_time(&self) -> bool {
        self.message_timestamp_type == TimestampChoice::LogAppendTime
    }

    /// Size at which a segment is closed; tests may go below the public minimum.
    pub fn segment_size_bytes(&self) -> i32 {
        self.internal_segment_bytes.unwrap_or(self.segment_bytes)
    }
}

impl Default for TopicConfig {
    fn default() -> Self {
        let (statics, configs) = (StaticConfig::default(), Configs::default());
        Self::resolve(ConfigView { statics: &statics, configs: &configs, node_id: BrokerId(0) }, "")
    }
}

/// A retention below −1, which a broker's key may hold, is −1.
fn usable(key: &'static Key, value: Option<Value>) -> Option<Value> {
    let is_retention = key.name.starts_with("retention.");
    value.map(|value| {
        if is_retention && value.as_number().is_some_and(|number| number < -1) {
            Value::Number(-1)
        } else {
            value
        }
    })
}
