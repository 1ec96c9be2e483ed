//! Why a produced batch is refused, and what the producer is told.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use fencepost_types::{ErrorCode, Millis, Offset, Sequence};

use crate::batch::BatchError;
use crate::compression::CompressionError;
use crate::header::Attributes;
use crate::walk::RecordError;

/// How many refused records an answer lists. The batch is refused with all its records anyway; a compressed batch
/// could make the list far larger than itself.
pub const RECORD_REFUSALS_MAX: usize = 10_000;
/// How many of them the batch's own sentence names.
const RECORD_REFUSALS_NAMED: usize = 3;

/// What is wrong with one record of an otherwise good batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordFault {
    /// The topic is compacted and the record has no key.
    NoKey,
    /// The record is older than `message.timestamp.before.max.ms` allows, or further ahead than
    /// `message.timestamp.after.max.ms` does.
    Time {
        /// The record's time.
        timestamp: Millis,
        /// The earliest that is taken now.
        earliest: Millis,
        /// The latest that is taken now.
        latest: Millis,
    },
    /// The batch claims append time, which only the broker gives.
    ClaimsAppendTime,
}

impl RecordFault {
    /// Whether the record's time is at fault: then the batch is refused with INVALID_TIMESTAMP.
    pub fn is_about_time(self) -> bool {
        match self {
            Self::NoKey => false,
            Self::Time { .. } | Self::ClaimsAppendTime => true,
        }
    }
}

/// One refused record: an entry of `recordErrors` in the answer. Source: KIP-467.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordRefusal {
    /// Position in the batch, from 0 (`batchIndex`).
    pub index: i32,
    /// What is wrong with it.
    pub fault: RecordFault,
}

impl RecordRefusal {
    /// The sentence for the answer, in Kafka's words; `partition` is the partition that refuses the record.
    ///
    /// Source: Kafka LogValidator.validateKey, validateTimestamp.
    pub fn message(&self, partition: &dyn fmt::Display) -> String {
        match self.fault {
            RecordFault::NoKey => {
                format!("Compacted topic cannot accept message without key in topic partition {partition}")
            }
            RecordFault::Time { timestamp, earliest, latest } => format!(
                "Timestamp {timestamp} of message with offset {} is out of range. The timestamp should be within [{earliest}, {latest}]",
                self.index
            ),
            RecordFault::ClaimsAppendTime => format!(
                "Invalid timestamp type in message {}. Producer should not set timestamp type to LogAppendTime.",
                self.index
            ),
        }
    }
}

/// Why a batch is refused. Nothing of it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendRefusal {
    /// Null, empty, or a batch that is cut off.
    NoBatch,
    /// More than one batch.
    SeveralBatches,
    /// A message of format 0 or 1. Source: KIP-724.
    OldMagic(i8),
    /// Neither length nor format make sense.
    Framing(BatchError),
    /// The checksum is wrong.
    Crc {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// Above `max.message.bytes`.
    TooLarge {
        /// The whole batch.
        bytes: usize,
        /// The limit.
        bytes_max: i32,
    },
    /// Above `segment.bytes`.
    LargerThanSegment {
        /// The whole batch.
        bytes: usize,
        /// The limit.
        segment_bytes: i32,
    },
    /// A client's batch begins at another offset than 0.
    BaseOffset(Offset),
    /// Record count and offset range do not agree, or the batch has no records.
    OffsetRange {
        /// What the header counts.
        record_count: i32,
        /// The range it claims.
        last_offset_delta: i32,
    },
    /// Clients do not write control records.
    ControlBatch,
    /// A producer id without a sequence.
    NoSequence(Sequence),
    /// A transactional batch without a producer id.
    NoProducerId,
    /// Codec 5, 6 or 7.
    UnknownCodec(Attributes),
    /// zstd in a request of a version whose consumers may not know it. Source: KIP-110.
    ZstdTooEarly {
        /// The request's version.
        produce_version: i16,
    },
    /// The payload is not the records that the header counts.
    Malformed(RecordError),
    /// Offset deltas are not 0, 1, 2 …
    OffsetDelta {
        /// The first record that is out of step.
        index: i32,
        /// The delta it has.
        found: i32,
    },
    /// Single records are at fault, and the batch goes with them. Source: KIP-467.
    Records {
        /// The first of them, at most [`RECORD_REFUSALS_MAX`], in order.
        refused: Vec<RecordRefusal>,
        /// How many there are in all.
        refused_count: i32,
        /// Records in the batch.
        record_count: i32,
        /// Whether the time of any is at fault, which then names the error.
        any_timestamp_refused: bool,
    },
}

impl AppendRefusal {
    /// The code for the answer.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoBatch
            | Self::SeveralBatches
            | Self::OldMagic(_)
            | Self::BaseOffset(_)
            | Self::OffsetRange { .. }
            | Self::ControlBatch
            | Self::NoSequence(_)
            | Self::NoProducerId
            | Self::OffsetDelta { .. } => ErrorCode::InvalidRecord,
            Self::Framing(_) | Self::Crc { .. } => ErrorCode::CorruptMessage,
            Self::TooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
            Self::UnknownCodec(_) | Self::ZstdTooEarly { .. } => ErrorCode::UnsupportedCompressionType,
            Self::Malformed(RecordError::Compression(CompressionError::Unsupported)) => {
                ErrorCode::UnsupportedCompressionType
            }
            Self::Malformed(_) => ErrorCode::InvalidRecord,
            Self::Records { any_timestamp_refused: true, .. } => ErrorCode::InvalidTimestamp,
            Self::Records { any_timestamp_refused: false, .. } => ErrorCode::InvalidRecord,
        }
    }

    /// The text for the answer's `errorMessage`; `None` where Kafka is known to send none, so that the answers are equal.
    /// [`fmt::Display`] has a text for each, for the log. `partition` is the partition that refuses the batch.
    ///
    /// Source: Kafka LogValidator.processRecordErrors.
    pub fn message(&self, partition: &dyn fmt::Display) -> Option<String> {
        match self {
            Self::NoBatch
            | Self::SeveralBatches
            | Self::OldMagic(_)
            | Self::Crc { .. }
            | Self::TooLarge { .. }
            | Self::LargerThanSegment { .. }
            | Self::BaseOffset(_)
            | Self::OffsetRange { .. }
            | Self::NoSequence(_)
            | Self::ControlBatch
            | Self::Malformed(
                RecordError::TooFew { .. } | RecordError::TrailingBytes | RecordError::TooLarge { .. },
            ) => None,
            Self::Framing(BatchError::Magic(magic)) => {
                Some(format!("Invalid magic found in record: {magic}"))
            }
            Self::Framing(_)
            | Self::NoProducerId
            | Self::UnknownCodec(_)
            | Self::ZstdTooEarly { .. }
            | Self::Malformed(_)
            | Self::OffsetDelta { .. } => Some(self.to_string()),
            Self::Records { any_timestamp_refused: true, .. } => {
                Some("One or more records have been rejected due to invalid timestamp".to_string())
            }
            Self::Records { refused, refused_count, .. } => {
                let first = refused.iter().take(RECORD_REFUSALS_NAMED).map(|refusal| {
                    let (index, message) = (refusal.index, refusal.message(partition));
                    format!("RecordError(batchIndex={index}, message='{message}')")
                });
                let first = first.collect::<Vec<_>>().join(", ");
                Some(format!(
                    "One or more records have been rejected due to {refused_count} record errors in total, and only showing the first three errors at most: [{first}]"
                ))
            }
        }
    }

    /// The refused records for the answer's `recordErrors`.
    pub fn record_refusals(&self) -> &[RecordRefusal] {
        match self {
            Self::Records { refused, .. } => refused,
            _ => &[],
        }
    }

    /// Whether the answer carries the partition's log start offset; −1 where the batch never got as far as the log, and
    /// for the three codes that name its bytes or size.
    pub fn carries_log_start_offset(&self) -> bool {
        match self {
            Self::NoBatch | Self::SeveralBatches | Self::OldMagic(_) | Self::ZstdTooEarly { .. } => false,
            _ => !matches!(
                self.code(),
                ErrorCode::CorruptMessage | ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge
            ),
        }
    }
}

impl fmt::Display for AppendRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NoBatch => "the records hold no whole batch".to_string(),
            Self::SeveralBatches => "the records hold more than one batch".to_string(),
            Self::OldMagic(magic) => format!("the records have format {magic}; only 2 is taken"),
            Self::Framing(error) => error.to_string(),
            Self::Crc { stored, computed } => {
                BatchError::Crc { stored: *stored, computed: *computed }.to_string()
            }
            Self::TooLarge { bytes, bytes_max } => {
                format!("the batch has {bytes} bytes, above max.message.bytes ({bytes_max})")
            }
            Self::LargerThanSegment { bytes, segment_bytes } => {
                format!("the batch has {bytes} bytes, above segment.bytes ({segment_bytes})")
            }
            Self::BaseOffset(offset) => format!("the batch begins at offset {offset}, not at 0"),
            Self::OffsetRange { record_count, last_offset_delta } => {
                format!(
                    "the batch counts {record_count} records, but its last offset is base + {last_offset_delta}"
                )
            }
            Self::ControlBatch => "clients may not write control records".to_string(),
            Self::NoSequence(sequence) => {
                format!("the batch has a producer id, but base sequence {sequence}")
            }
            Self::NoProducerId => "the batch is transactional, but has no producer id".to_string(),
            Self::UnknownCodec(attributes) => {
                format!("there is no codec {}", attributes.0 & Attributes::COMPRESSION_MASK)
            }
            Self::ZstdTooEarly { produce_version } => {
                format!("zstd needs Produce version 7 or above, not {produce_version}")
            }
            Self::Malformed(error) => error.to_string(),
            Self::OffsetDelta { index, found } => format!("record {index} has offset delta {found}"),
            Self::Records { refused, refused_count, record_count, .. } => {
                let first =
                    refused.first().map(|first| format!("; record {}: {:?}", first.index, first.fault));
                format!("{refused_count} of {record_count} records are refused{}", first.unwrap_or_default())
            }
        };
        f.write_str(&text)
    }
}

impl core::error::Error for AppendRefusal {}
