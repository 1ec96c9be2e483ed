//! The settings of one log, with Kafka's names and defaults.

use fencepost_records::TimestampType;

/// What may be deleted from a log: `cleanup.policy`. Neither is legal, and both are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CleanupPolicy {
    /// Old segments go, by time and by size.
    pub delete: bool,
    /// Records go that a later one of the same key has replaced.
    pub compact: bool,
}

/// The settings of one log. Times are in milliseconds, sizes in bytes; −1 is "no limit" where Kafka says so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogConfig {
    /// `segment.bytes`: a segment never grows beyond it.
    pub segment_bytes: u64,
    /// `segment.ms`: a segment is rolled when its records span more than this.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: at most this much is taken off `segment_ms`, differently for every segment.
    pub segment_jitter_ms: i64,
    /// `index.interval.bytes`: one index entry for about so many bytes.
    pub index_interval_bytes: u64,
    /// `segment.index.bytes`: an index never grows beyond it.
    pub segment_index_bytes: u64,
    /// `retention.ms`, −1 is for ever.
    pub retention_ms: i64,
    /// `retention.bytes`, −1 is no limit.
    pub retention_bytes: i64,
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `max.compaction.lag.ms`: a compacted log is rolled no later than this.
    pub max_compaction_lag_ms: i64,
    /// `message.timestamp.type`: what the timestamps of markers say they are.
    pub timestamp_type: TimestampType,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1_073_741_824,
            segment_ms: 604_800_000,
            segment_jitter_ms: 0,
            index_interval_bytes: 4_096,
            segment_index_bytes: 10_485_760,
            retention_ms: 604_800_000,
            retention_bytes: -1,
            cleanup_policy: CleanupPolicy { delete: true, compact: false },
            max_compaction_lag_ms: i64::MAX,
            timestamp_type: TimestampType::CreateTime,
            producer_id_expiration_ms: 86_400_000,
        }
    }
}

impl LogConfig {
    /// The most milliseconds that the records of a segment may span, before jitter.
    pub(crate) fn roll_ms(&self) -> i64 {
        if self.cleanup_policy.compact {
            self.segment_ms.min(self.max_compaction_lag_ms)
        } else {
            self.segment_ms
        }
    }

    /// The largest segment that positions of an i32 can address.
    pub(crate) fn segment_bytes_max(&self) -> u64 {
        self.segment_bytes.min(i32::MAX as u64)
    }
}
