//! What can go wrong with a log, and which code a client gets for it.

use fencepost_partition::{MarkerRefusal, ProduceRefusal};
use fencepost_types::{ErrorCode, Offset, Uuid};

use crate::disk::{DiskError, DiskErrorKind};

/// A log or a log directory cannot be used as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A file holds what it must not hold.
    #[error("{path}: {problem}")]
    Corrupt {
        /// The file, relative to the log directory.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The directory belongs to another topic of the same name.
    #[error("{directory} belongs to topic id {found}, not to {expected}")]
    TopicId {
        /// The partition's directory.
        directory: String,
        /// The id asked for.
        expected: Uuid,
        /// The id in the directory.
        found: Uuid,
    },
    /// The log directory belongs to another cluster or node.
    #[error("meta.properties says {what} {found}, not {expected}")]
    WrongOwner {
        /// Which of its properties.
        what: &'static str,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// An earlier failure left the log in a state that only a restart repairs.
    #[error("{directory} is offline since: {reason}")]
    Offline {
        /// The partition's directory.
        directory: String,
        /// The failure.
        reason: String,
    },
}

/// Something that there was not enough of for a call to the disk. The log is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// Room on the disk.
    #[error("the disk is full")]
    Space,
    /// File handles.
    #[error("no file handle is left")]
    Handles,
}

impl DiskError {
    /// What was missing, where nothing else is wrong.
    pub fn shortage(&self) -> Option<Shortage> {
        match self.kind {
            DiskErrorKind::NoSpace => Some(Shortage::Space),
            DiskErrorKind::NoHandles => Some(Shortage::Handles),
            DiskErrorKind::NotFound | DiskErrorKind::Locked | DiskErrorKind::Io => None,
        }
    }
}

impl StorageError {
    /// What was missing, where nothing else is wrong: what was asked for may succeed once there is more of it.
    pub fn shortage(&self) -> Option<Shortage> {
        match self {
            Self::Disk(error) => error.shortage(),
            Self::Corrupt { .. } | Self::TopicId { .. } | Self::WrongOwner { .. } | Self::Offline { .. } => {
                None
            }
        }
    }

    /// The code that clients get.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Disk(_)
            | Self::Corrupt { .. }
            | Self::TopicId { .. }
            | Self::WrongOwner { .. }
            | Self::Offline { .. } => ErrorCode::KafkaStorageError,
        }
    }
}

/// A batch was not appended; the log is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Producer state speaks against it.
    #[error(transparent)]
    Produce(#[from] ProduceRefusal),
    /// Producer state speaks against the marker.
    #[error(transparent)]
    Marker(#[from] MarkerRefusal),
    /// The batch is larger than a segment may become.
    #[error("a batch of {bytes} bytes does not fit a segment of {segment_bytes}")]
    LargerThanSegment {
        /// Its size in bytes.
        bytes: u64,
        /// `segment.bytes`.
        segment_bytes: u64,
    },
    /// The log has no offsets left.
    #[error("the batch would go beyond the largest offset")]
    OffsetsExhausted,
    /// The disk or the log speaks against it.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<DiskError> for AppendError {
    fn from(error: DiskError) -> Self {
        Self::Storage(error.into())
    }
}

impl AppendError {
    /// The code that clients get.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Produce(refusal) => refusal.code(),
            Self::Marker(refusal) => refusal.code(),
            Self::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
            Self::OffsetsExhausted => ErrorCode::UnknownServerError,
            Self::Storage(error) => error.code(),
        }
    }
}

/// Records were not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The offset is below the log start or above the log end.
    #[error("offset {offset} is not within {log_start_offset} to {log_end_offset}")]
    OffsetOutOfRange {
        /// What was asked for.
        offset: Offset,
        /// The first offset there is.
        log_start_offset: Offset,
        /// The offset after the last.
        log_end_offset: Offset,
    },
    /// The disk or the log speaks against it.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<DiskError> for ReadError {
    fn from(error: DiskError) -> Self {
        Self::Storage(error.into())
    }
}

impl ReadError {
    /// The code that clients get.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            Self::Storage(error) => error.code(),
        }
    }
}
