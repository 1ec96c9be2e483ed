//! When a log is synced that is left to the page cache otherwise.

use fencepost_metadata::TopicConfig;

/// What a topic asks for, see `docs/configuration.md`. Under `fsync` every append is synced anyway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushRule {
    /// `flush.messages`: unsynced records at which an append is answered only when they are synced.
    pub(crate) messages: i64,
    /// `flush.ms`: the longest a record stays unsynced.
    pub(crate) ms: i64,
}

impl FlushRule {
    pub(crate) fn new(config: &TopicConfig) -> Self {
        Self { messages: config.flush_messages, ms: config.flush_ms }
    }
}
