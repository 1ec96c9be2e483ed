//! What is wrong with a file.

use fencepost_storage::DiskError;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It can be so in a healthy directory: after compaction, after a crash, while a broker runs.
    Notice,
    /// It cannot.
    Error,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The same for all of its kind: `bad-crc`.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, with offsets and positions.
    pub text: String,
    /// What Kafka's tool says to it, if anything.
    pub(super) kafka: Option<KafkaSays>,
}

/// What Kafka's tool says to a problem, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KafkaSays {
    /// At once, on the standard output.
    Here(String),
    /// At once, on the standard error.
    Aside(String),
    /// It dies of this exception.
    Dies(String),
    /// At the end: an index entry and the offset of the batch that it points at.
    IndexMismatch { index_offset: i64, log_offset: i64 },
    /// At the end: the timestamp of a time index entry and the one of its batch.
    TimestampMismatch { index_timestamp: i64, log_timestamp: i64 },
    /// At the end: the timestamp of a time index entry and the one of the entry before.
    TimestampsGoBack { timestamp: i64, before: i64 },
    /// At the end: the offset of a time index entry and the one of the batch that was found.
    OffsetNotFound { index_offset: i64, log_offset: i64 },
    /// At the end: the offset of a record and the next one.
    NotConsecutive { offset: i64, next_offset: i64 },
}

impl Problem {
    /// One that should never be.
    pub(super) fn error(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, severity: Severity::Error, text: text.into(), kafka: None }
    }

    /// One that can be in a healthy directory.
    pub(super) fn notice(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, severity: Severity::Notice, text: text.into(), kafka: None }
    }

    /// The same, with what Kafka's tool says to it.
    pub(super) fn kafka(mut self, says: KafkaSays) -> Self {
        self.kafka = Some(says);
        self
    }

    /// The same; it kills Kafka's tool.
    pub(super) fn kills_kafka(self, exception: impl Into<String>) -> Self {
        self.kafka(KafkaSays::Dies(exception.into()))
    }

    /// What makes Kafka's tool die of it.
    pub(super) fn kafka_dies_of(&self) -> Option<&str> {
        match &self.kafka {
            Some(KafkaSays::Dies(exception)) => Some(exception),
            Some(
                KafkaSays::Here(_)
                | KafkaSays::Aside(_)
                | KafkaSays::IndexMismatch { .. }
                | KafkaSays::TimestampMismatch { .. }
                | KafkaSays::TimestampsGoBack { .. }
                | KafkaSays::OffsetNotFound { .. }
                | KafkaSays::NotConsecutive { .. },
            )
            | None => None,
        }
    }

    /// The disk speaks against a file.
    pub(super) fn unreadable(error: &DiskError) -> Self {
        Self::error("unreadable", error.to_string()).kills_kafka(format!("IOException: {error}"))
    }

    /// A file that belongs beside this one is not there.
    pub(super) fn missing(path: &str) -> Self {
        Self::error("missing-file", format!("{path} is missing"))
            .kills_kafka(format!("NoSuchFileException: {path}"))
    }
}

/// What Kafka's reader says to a length that no batch of any format has.
pub(super) fn corrupt_record(length: i32, path: &str) -> String {
    format!(
        "CorruptRecordException: Found record size {length} smaller than minimum record overhead (14) in file {path}."
    )
}
