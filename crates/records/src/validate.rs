//! What a leader does to a produced batch before it goes to the log: checks in a fixed order, then the few fields it
//! rewrites. The payload stays the slice of the frame that it was, unless the topic asks for another codec.
//!
//! Source: Kafka ProduceRequest.validateRecords, UnifiedLog.append, LogValidator; storage-formats §4.

use bytes::Bytes;
use fencepost_types::{LeaderEpoch, Millis, Offset};

use crate::batch::{Batch, BatchError, first_batch_bytes};
use crate::compression::{self, Compression, CompressionType, Repacked};
use crate::header::{BatchHeader, HEADER_BYTES, LOG_OVERHEAD_BYTES, TimestampType};

mod records;
mod refusal;

use records::{MaxTimestamp, RecordChecks};
pub use refusal::{AppendRefusal, RECORD_REFUSALS_MAX, RecordFault, RecordRefusal};

/// The first version of Produce whose clients know zstd. Source: KIP-110.
const ZSTD_PRODUCE_VERSION_MIN: i16 = 7;

/// What the topic (and the broker) ask of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendRules {
    /// `max.message.bytes`: the largest batch, header included.
    pub message_bytes_max: i32,
    /// `segment.bytes`: no batch may be larger than a segment.
    pub segment_bytes: i32,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far in the past a record's own time may lie.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far ahead.
    pub timestamp_after_max_ms: i64,
    /// Whether `cleanup.policy` has `compact`: then every record needs a key.
    pub keys_required: bool,
    /// `max.decompressed.message.bytes`: the most bytes of one record of a compressed batch, plain.
    pub record_bytes_max: i32,
    /// `compression.type` and its level; `None` is `producer`: batches stay as they are.
    pub compression: Option<Compression>,
}

impl Default for AppendRules {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            message_bytes_max: 1_048_588,
            segment_bytes: 1 << 30,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            keys_required: false,
            record_bytes_max: i32::MAX,
            compression: None,
        }
    }
}

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendOrigin {
    /// A Produce request.
    Client {
        /// The request's version decides whether zstd may be used.
        produce_version: i16,
    },
    /// Ourselves: a coordinator's records, or a marker. Control batches are allowed; `max.message.bytes`, sequences,
    /// timestamps and keys are not looked at.
    Coordinator,
}

/// A batch as it goes to the log: a header by value and the records as they came. [`ValidatedBatch::place`] it, then
/// write [`ValidatedBatch::encode_header`] and [`ValidatedBatch::payload`] one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedBatch {
    header: BatchHeader,
    payload: Bytes,
    max_timestamp_offset_delta: Option<i32>,
}

impl ValidatedBatch {
    /// The header as it stands now.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Everything after the header; a slice of the request where nothing had to be recompressed.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Bytes that go to the log.
    pub fn total_bytes(&self) -> usize {
        self.header.total_bytes()
    }

    /// Which record carries the maximum timestamp (the first of several), as its distance from the base offset. `None`
    /// where no record has a timestamp; 0 under append time.
    pub fn max_timestamp_offset_delta(&self) -> Option<i32> {
        self.max_timestamp_offset_delta
    }

    /// The time of the append, where the topic has it: what the answer to the producer carries.
    pub fn log_append_time(&self) -> Option<Millis> {
        match self.header.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(self.header.max_timestamp),
        }
    }

    /// Gives the batch its place. Both fields lie outside the checksum (R4).
    pub fn place(&mut self, base_offset: Offset, leader_epoch: LeaderEpoch) {
        self.header.base_offset = base_offset;
        self.header.leader_epoch = leader_epoch;
    }

    /// The 61 bytes that go before the payload.
    pub fn encode_header(&self) -> [u8; HEADER_BYTES] {
        self.header.encode()
    }

    /// As one piece: copies the payload.
    pub fn to_batch(&self) -> Batch {
        let bytes = [&self.header.encode()[..], &self.payload].concat();
        Batch::from_parts(self.header, bytes.into())
    }
}

/// Checks the records of one partition of a Produce request (or of our own) and rewrites what a leader rewrites:
/// under CreateTime the append-time bit is cleared and the maximum timestamp taken from the records, under LogAppendTime
/// the bit is set and the maximum timestamp is `now`; the codec where the topic has one of its own. The checksum
/// is recomputed only where something changed. Base offset and leader epoch are left to [`ValidatedBatch::place`].
///
/// The checks come in the order of storage-formats §4, and the first that fails names the error.
///
/// Differs from Kafka:
/// - null records are refused; Kafka never answers them.
/// - offset deltas must be 0, 1, 2 … in plain batches too, where Kafka does not look.
/// - a transactional batch must name a producer. (That a producer id comes with an epoch is for producer state to say: a
///   producer that is known is told that its epoch is too low.)
/// - unknown codecs, payloads that do not decompress and numbers without end are refused with a code that says so,
///   where Kafka answers UNKNOWN_SERVER_ERROR.
/// - timestamps of a batch that claims append time in a CreateTime topic are those of its records, not the claim.
pub fn validate(
    records: Option<Bytes>,
    rules: &AppendRules,
    origin: AppendOrigin,
    now: Millis,
) -> Result<ValidatedBatch, AppendRefusal> {
    let batch = single_batch(records)?;
    check_crc(&batch)?;
    check_size(batch.bytes().len(), rules, origin)?;
    check_header(batch.header(), origin)?;
    let codec = check_codec(&batch, origin)?;
    let checks = RecordChecks::new(batch.header(), rules, origin, now);
    let mut header = *batch.header();
    let (payload, max_timestamp) = match target_compression(&header, codec, rules) {
        None => (batch.payload(), check_records(&batch, codec, checks)?),
        Some(target) => {
            let (payload, max_timestamp) = recompress(&batch, codec, target, checks, rules, origin)?;
            header.attributes = header.attributes.with_compression(target.codec);
            header.batch_length = (HEADER_BYTES - LOG_OVERHEAD_BYTES + payload.len()) as i32;
            (payload, max_timestamp)
        }
    };
    header.attributes = header.attributes.with_timestamp_type(rules.timestamp_type);
    header.max_timestamp = max_timestamp.timestamp;
    if header != *batch.header() {
        header.crc = header.compute_crc(&payload);
    }
    Ok(ValidatedBatch { header, payload, max_timestamp_offset_delta: max_timestamp.offset_delta })
}

/// Check 1: exactly one batch of magic 2. What follows it and is no whole batch is dropped.
fn single_batch(records: Option<Bytes>) -> Result<Batch, AppendRefusal> {
    let mut rest = records.ok_or(AppendRefusal::NoBatch)?;
    let batch = match Batch::split_first(&mut rest) {
        Ok(Some(batch)) => batch,
        Ok(None) => return Err(AppendRefusal::NoBatch),
        Err(BatchError::Magic(magic @ (0 | 1))) => return Err(AppendRefusal::OldMagic(magic)),
        Err(error) => return Err(AppendRefusal::Framing(error)),
    };
    match first_batch_bytes(&rest) {
        Ok(Some(total)) if total <= rest.len() => Err(AppendRefusal::SeveralBatches),
        Ok(_) => Ok(batch),
        // An old message after the batch is one batch too many; anything else there is broken framing.
        Err(BatchError::Magic(0 | 1)) => Err(AppendRefusal::SeveralBatches),
        Err(error) => Err(AppendRefusal::Framing(error)),
    }
}

/// Check 2.
fn check_crc(batch: &Batch) -> Result<(), AppendRefusal> {
    batch.verify_crc().map_err(|error| match error {
        BatchError::Crc { stored, computed } => AppendRefusal::Crc { stored, computed },
        other => AppendRefusal::Framing(other),
    })
}

/// Checks 3 and 4, for the bytes received and again for those recompressed.
fn check_size(bytes: usize, rules: &AppendRules, origin: AppendOrigin) -> Result<(), AppendRefusal> {
    let exceeds = |limit: i32| i64::try_from(bytes).is_ok_and(|bytes| bytes > i64::from(limit));
    if matches!(origin, AppendOrigin::Client { .. }) && exceeds(rules.message_bytes_max) {
        return Err(AppendRefusal::TooLarge { bytes, bytes_max: rules.message_bytes_max });
    }
    if exceeds(rules.segment_bytes) {
        return Err(AppendRefusal::LargerThanSegment { bytes, segment_bytes: rules.segment_bytes });
    }
    Ok(())
}

/// Checks 5 (as far as the header tells), 6 and 7.
fn check_header(header: &BatchHeader, origin: AppendOrigin) -> Result<(), AppendRefusal> {
    let (record_count, last_offset_delta) = (header.record_count, header.last_offset_delta);
    if record_count <= 0 || last_offset_delta != record_count - 1 {
        return Err(AppendRefusal::OffsetRange { record_count, last_offset_delta });
    }
    match origin {
        AppendOrigin::Coordinator => Ok(()),
        AppendOrigin::Client { .. } if header.base_offset != Offset(0) => {
            Err(AppendRefusal::BaseOffset(header.base_offset))
        }
        AppendOrigin::Client { .. } if header.is_control() => Err(AppendRefusal::ControlBatch),
        AppendOrigin::Client { .. } if header.has_producer_id() && header.base_sequence.0 < 0 => {
            Err(AppendRefusal::NoSequence(header.base_sequence))
        }
        AppendOrigin::Client { .. } if header.is_transactional() && !header.has_producer_id() => {
            Err(AppendRefusal::NoProducerId)
        }
        AppendOrigin::Client { .. } => Ok(()),
    }
}

/// Check 8, but for the payload itself.
fn check_codec(batch: &Batch, origin: AppendOrigin) -> Result<CompressionType, AppendRefusal> {
    let codec = batch.compression().map_err(|_| AppendRefusal::UnknownCodec(batch.header().attributes))?;
    match origin {
        AppendOrigin::Client { produce_version }
            if codec == CompressionType::Zstd && produce_version < ZSTD_PRODUCE_VERSION_MIN =>
        {
            Err(AppendRefusal::ZstdTooEarly { produce_version })
        }
        AppendOrigin::Client { .. } | AppendOrigin::Coordinator => Ok(codec),
    }
}

/// The codec to write, where it is another than the batch has. Control records stay as they are.
fn target_compression(
    header: &BatchHeader,
    codec: CompressionType,
    rules: &AppendRules,
) -> Option<Compression> {
    rules.compression.filter(|target| target.codec != codec && !header.is_control())
}

/// The rest of check 5, and 9 to 11, holding no more of the plain records than a piece.
fn check_records(
    batch: &Batch,
    codec: CompressionType,
    mut checks: RecordChecks,
) -> Result<MaxTimestamp, AppendRefusal> {
    let (count, record_bytes_max) = (batch.header().record_count, checks.record_bytes_max());
    let payload = &batch.bytes()[HEADER_BYTES..];
    compression::walk(codec, payload, count, record_bytes_max, |record| checks.see(record))
        .map_err(AppendRefusal::Malformed)?;
    checks.finish()
}

/// The same checks, and the payload in another codec. The plain records are those that came, byte for byte: only their
/// packing changes.
fn recompress(
    batch: &Batch,
    codec: CompressionType,
    target: Compression,
    mut checks: RecordChecks,
    rules: &AppendRules,
    origin: AppendOrigin,
) -> Result<(Bytes, MaxTimestamp), AppendRefusal> {
    let (count, record_bytes_max) = (batch.header().record_count, checks.record_bytes_max());
    let payload = &batch.bytes()[HEADER_BYTES..];
    let batch_bytes_max = match origin {
        AppendOrigin::Client { .. } => rules.message_bytes_max.min(rules.segment_bytes),
        AppendOrigin::Coordinator => rules.segment_bytes,
    };
    let bytes_max = usize::try_from(batch_bytes_max).unwrap_or(0).saturating_sub(HEADER_BYTES);
    let see = |record| checks.see(record);
    let repacked = compression::repack(codec, payload, target, bytes_max, count, record_bytes_max, see)
        .map_err(AppendRefusal::Malformed)?;
    let max_timestamp = checks.finish()?;
    match repacked {
        Repacked::Payload(packed) => {
            check_size(HEADER_BYTES + packed.len(), rules, origin)?;
            Ok((packed.into(), max_timestamp))
        }
        Repacked::TooLarge(bytes) => {
            let bytes = HEADER_BYTES + bytes;
            check_size(bytes, rules, origin)?;
            Err(AppendRefusal::TooLarge { bytes, bytes_max: batch_bytes_max })
        }
    }
}

#[cfg(test)]
mod tests;
