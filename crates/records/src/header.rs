//! The 61 bytes that begin every batch.

use bytes::{Buf, BufMut};
use fencepost_types::{LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence};

use crate::batch::BatchError;
use crate::compression::CompressionType;

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Bytes of a batch that its length field does not count: base offset and the length itself.
pub const LOG_OVERHEAD_BYTES: usize = 12;
/// The least value of the length field: a batch without records.
pub const LENGTH_MIN: i32 = (HEADER_BYTES - LOG_OVERHEAD_BYTES) as i32;
/// The only record format that is written, and read.
pub const MAGIC: i8 = 2;
/// Where the checksummed part begins.
pub(crate) const ATTRIBUTES_AT: usize = 21;

/// What the timestamps of a batch mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimestampType {
    /// Each record carries the time its producer gave it.
    #[default]
    CreateTime,
    /// All records carry the time of the append, which is the maximum timestamp of the batch.
    LogAppendTime,
}

/// The attribute bits of a batch. Bits without a meaning are kept as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attributes(pub i16);

impl Attributes {
    /// Bits 0–2: the codec.
    pub const COMPRESSION_MASK: i16 = 0x07;
    /// Bit 3: append time.
    pub const LOG_APPEND_TIME: i16 = 0x08;
    /// Bit 4: part of a transaction.
    pub const TRANSACTIONAL: i16 = 0x10;
    /// Bit 5: control records.
    pub const CONTROL: i16 = 0x20;
    /// Bit 6: the base timestamp holds the delete horizon. Source: KIP-534.
    pub const DELETE_HORIZON: i16 = 0x40;

    fn has(self, bit: i16) -> bool {
        self.0 & bit != 0
    }

    fn with(self, bit: i16, set: bool) -> Self {
        Self(if set { self.0 | bit } else { self.0 & !bit })
    }

    /// The codec; `None` for the numbers 5 to 7, which do not exist.
    pub fn compression(self) -> Option<CompressionType> {
        CompressionType::from_id((self.0 & Self::COMPRESSION_MASK) as i8)
    }

    /// What the timestamps mean.
    pub fn timestamp_type(self) -> TimestampType {
        if self.has(Self::LOG_APPEND_TIME) { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(self) -> bool {
        self.has(Self::TRANSACTIONAL)
    }

    /// Whether the batch holds control records.
    pub fn is_control(self) -> bool {
        self.has(Self::CONTROL)
    }

    /// Whether the base timestamp is a delete horizon.
    pub fn has_delete_horizon(self) -> bool {
        self.has(Self::DELETE_HORIZON)
    }

    /// The same with another codec.
    pub fn with_compression(self, codec: CompressionType) -> Self {
        Self(self.0 & !Self::COMPRESSION_MASK | i16::from(codec.id()))
    }

    /// The same with another meaning of the timestamps.
    pub fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        self.with(Self::LOG_APPEND_TIME, timestamp_type == TimestampType::LogAppendTime)
    }

    /// The same, in a transaction or not.
    pub fn with_transactional(self, transactional: bool) -> Self {
        self.with(Self::TRANSACTIONAL, transactional)
    }

    /// The same, with control records or not.
    pub fn with_control(self, control: bool) -> Self {
        self.with(Self::CONTROL, control)
    }

    /// The same, with a delete horizon or not.
    pub fn with_delete_horizon(self, delete_horizon: bool) -> Self {
        self.with(Self::DELETE_HORIZON, delete_horizon)
    }
}

/// Every field of a batch header. The magic is not kept: it is always [`MAGIC`].
///
/// Source: Kafka DefaultRecordBatch; KIP-98, KIP-534.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchHeader {
    /// The offset of the batch's first position. Compaction keeps it even when that record is gone.
    pub base_offset: Offset,
    /// Bytes after the length field: the whole batch less 12.
    pub batch_length: i32,
    /// The leader epoch of the partition under which the batch was appended; −1 from clients.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C of everything from the attributes to the end.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: Attributes,
    /// Last offset less base offset. Compaction keeps it.
    pub last_offset_delta: i32,
    /// What timestamp deltas count from; the delete horizon where that bit is set.
    pub base_timestamp: Millis,
    /// The largest timestamp of the records, or the time of the append.
    pub max_timestamp: Millis,
    /// −1 is none.
    pub producer_id: ProducerId,
    /// −1 is none.
    pub producer_epoch: ProducerEpoch,
    /// −1 is none. Coordinators write 0 without a producer id, so this says nothing about idempotence.
    pub base_sequence: Sequence,
    /// Records in the batch; fewer than offsets after compaction.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`. Checks length and magic, nothing else (R1).
    ///
    /// Errors: [`BatchError::Truncated`] below 61 bytes, [`BatchError::Length`], [`BatchError::Magic`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let mut fields: &[u8] = bytes.first_chunk::<HEADER_BYTES>().ok_or(BatchError::Truncated)?;
        let base_offset = Offset(fields.get_i64());
        let batch_length = fields.get_i32();
        let leader_epoch = LeaderEpoch(fields.get_i32());
        let magic = fields.get_i8();
        if magic != MAGIC {
            return Err(BatchError::Magic(magic));
        }
        if batch_length < LENGTH_MIN {
            return Err(BatchError::Length(batch_length));
        }
        Ok(Self {
            base_offset,
            batch_length,
            leader_epoch,
            crc: fields.get_u32(),
            attributes: Attributes(fields.get_i16()),
            last_offset_delta: fields.get_i32(),
            base_timestamp: Millis(fields.get_i64()),
            max_timestamp: Millis(fields.get_i64()),
            producer_id: ProducerId(fields.get_i64()),
            producer_epoch: ProducerEpoch(fields.get_i16()),
            base_sequence: Sequence(fields.get_i32()),
            record_count: fields.get_i32(),
        })
    }

    /// The header as it stands in the log.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut fields = &mut bytes[..];
        fields.put_i64(self.base_offset.0);
        fields.put_i32(self.batch_length);
        fields.put_i32(self.leader_epoch.0);
        fields.put_i8(MAGIC);
        fields.put_u32(self.crc);
        fields.put_i16(self.attributes.0);
        fields.put_i32(self.last_offset_delta);
        fields.put_i64(self.base_timestamp.0);
        fields.put_i64(self.max_timestamp.0);
        fields.put_i64(self.producer_id.0);
        fields.put_i16(self.producer_epoch.0);
        fields.put_i32(self.base_sequence.0);
        fields.put_i32(self.record_count);
        bytes
    }

    /// Bytes of the whole batch, at least 61.
    pub fn total_bytes(&self) -> usize {
        self.batch_length as usize + LOG_OVERHEAD_BYTES
    }

    /// The last offset of the batch. Saturates where a corrupt header would overflow.
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// The offset after the batch.
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// The sequence of the last offset, wrapping from `i32::MAX` to 0; none where the base sequence is none.
    ///
    /// Source: Kafka DefaultRecordBatch.lastSequence.
    pub fn last_sequence(&self) -> Sequence {
        if self.base_sequence.0 < 0 {
            Sequence::NONE
        } else {
            self.base_sequence.plus(self.last_offset_delta.max(0))
        }
    }

    /// Whether the batch names a producer.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id.0 >= 0
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    /// Whether the batch holds control records.
    pub fn is_control(&self) -> bool {
        self.attributes.is_control()
    }

    /// The codec; `None` for the numbers 5 to 7, which do not exist.
    pub fn compression(&self) -> Option<CompressionType> {
        self.attributes.compression()
    }

    /// What the timestamps mean.
    pub fn timestamp_type(&self) -> TimestampType {
        self.attributes.timestamp_type()
    }

    /// Until when tombstones and markers of the batch must be kept, once the cleaner has said so.
    pub fn delete_horizon(&self) -> Option<Millis> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// The timestamp of a record with this delta. Under append time it is the batch's, whatever the delta.
    pub fn record_timestamp(&self, timestamp_delta: i64) -> Millis {
        match self.timestamp_type() {
            TimestampType::CreateTime => Millis(self.base_timestamp.0.wrapping_add(timestamp_delta)),
            TimestampType::LogAppendTime => self.max_timestamp,
        }
    }

    /// The offset of a record with this delta.
    pub fn record_offset(&self, offset_delta: i32) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(offset_delta)))
    }

    /// The checksum that belongs to this header in front of `payload`.
    pub fn compute_crc(&self, payload: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.encode()[ATTRIBUTES_AT..]), payload)
    }
}

#[cfg(test)]
pub(crate) mod tests;
