//! Builds a batch record by record.

use alloc::vec::Vec;
use bytes::Bytes;
use fencepost_types::{LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence};

use crate::batch::Batch;
use crate::compression::{Compression, CompressionError};
use crate::header::{Attributes, BatchHeader, HEADER_BYTES, LENGTH_MIN, LOG_OVERHEAD_BYTES, TimestampType};
use crate::record::RecordHeader;
use crate::varint::{put_varint, put_varlong, varint_bytes, varlong_bytes};

/// Collects records and makes one batch of them.
///
/// Without further calls: no producer, no sequence, CreateTime, plain. Coordinators of groups set the base sequence to
/// 0 without a producer id (storage-formats trap 17); the builder writes what it is told.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    header: BatchHeader,
    compression: Compression,
    /// Room for the header, then the plain records.
    bytes: Vec<u8>,
    base_timestamp: Option<Millis>,
    next_offset_delta: i32,
}

impl BatchBuilder {
    /// Starts a batch. A client writes offset 0 and no leader epoch; a leader the end of its log and its epoch.
    pub fn new(base_offset: Offset, leader_epoch: LeaderEpoch) -> Self {
        let header = BatchHeader {
            base_offset,
            batch_length: LENGTH_MIN,
            leader_epoch,
            crc: 0,
            attributes: Attributes::default(),
            last_offset_delta: -1,
            base_timestamp: Millis::NONE,
            max_timestamp: Millis::NONE,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: Sequence::NONE,
            record_count: 0,
        };
        Self {
            header,
            compression: Compression::NONE,
            bytes: alloc::vec![0; HEADER_BYTES],
            base_timestamp: None,
            next_offset_delta: 0,
        }
    }

    /// Writes again a batch that exists, with those of its records that are appended anew: what compaction does. Base
    /// offset, last offset, leader epoch, producer, sequence, attributes and delete horizon stay. The maximum
    /// timestamp is that of the records that stay (under append time, and where none stays, the batch's own).
    pub fn rewrite(header: &BatchHeader, compression: Compression) -> Self {
        let mut builder = Self::new(header.base_offset, header.leader_epoch).compression(compression);
        builder.header = BatchHeader { record_count: 0, ..*header };
        builder.base_timestamp = header.delete_horizon();
        builder
    }

    /// Names the producer.
    pub fn producer(mut self, id: ProducerId, epoch: ProducerEpoch, base_sequence: Sequence) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Sets the base sequence alone.
    pub fn base_sequence(mut self, base_sequence: Sequence) -> Self {
        self.header.base_sequence = base_sequence;
        self
    }

    /// Marks the batch as part of a transaction.
    pub fn transactional(mut self, transactional: bool) -> Self {
        self.header.attributes = self.header.attributes.with_transactional(transactional);
        self
    }

    /// Marks the records as control records. They are never compressed.
    pub fn control(mut self, control: bool) -> Self {
        self.header.attributes = self.header.attributes.with_control(control);
        self
    }

    /// Makes all records carry `time` as the time of the append.
    pub fn log_append_time(mut self, time: Millis) -> Self {
        self.header.attributes = self.header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        self.header.max_timestamp = time;
        self
    }

    /// Sets until when tombstones and markers in the batch are kept. Deltas then count from it, so it comes before the
    /// records. Source: KIP-534.
    pub fn delete_horizon(mut self, horizon: Millis) -> Self {
        assert_eq!(self.header.record_count, 0, "the horizon is what timestamps count from: it comes first");
        self.header.attributes = self.header.attributes.with_delete_horizon(true);
        self.base_timestamp = Some(horizon);
        self
    }

    /// Compresses the records.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Records appended so far.
    pub fn record_count(&self) -> i32 {
        self.header.record_count
    }

    /// Whether no record has been appended.
    pub fn is_empty(&self) -> bool {
        self.header.record_count == 0
    }

    /// Bytes of the batch as it would be now, uncompressed.
    pub fn plain_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a record at the next offset.
    pub fn append(
        &mut self,
        timestamp: Millis,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader],
    ) {
        self.append_at(self.next_offset_delta, timestamp, key, value, headers);
    }

    /// Appends a record at `offset_delta`, which must rise from record to record: what compaction leaves has gaps.
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp: Millis,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader],
    ) {
        assert!(offset_delta >= self.next_offset_delta, "offsets rise within a batch");
        // The base is the first record's timestamp, not the least: deltas may be negative.
        let base_timestamp = *self.base_timestamp.get_or_insert(timestamp);
        let timestamp_delta = timestamp.0.wrapping_sub(base_timestamp.0);
        self.put_record(offset_delta, timestamp_delta, key, value, headers);
        if self.header.attributes.timestamp_type() == TimestampType::CreateTime {
            let so_far = if self.is_empty() { Millis::NONE } else { self.header.max_timestamp };
            self.header.max_timestamp = timestamp.max(so_far);
        }
        self.header.record_count += 1;
        self.header.last_offset_delta = self.header.last_offset_delta.max(offset_delta);
        self.next_offset_delta = offset_delta + 1;
    }

    fn put_record(
        &mut self,
        offset_delta: i32,
        timestamp_delta: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader],
    ) {
        let header_bytes: usize = headers
            .iter()
            .map(|header| field_bytes(Some(&header.key)) + field_bytes(header.value.as_deref()))
            .sum();
        let length = 1
            + varlong_bytes(timestamp_delta)
            + varint_bytes(offset_delta)
            + field_bytes(key)
            + field_bytes(value)
            + varint_bytes(count(headers.len()))
            + header_bytes;
        let out = &mut self.bytes;
        put_varint(out, count(length));
        out.push(0);
        put_varlong(out, timestamp_delta);
        put_varint(out, offset_delta);
        put_field(out, key);
        put_field(out, value);
        put_varint(out, count(headers.len()));
        for header in headers {
            put_field(out, Some(&header.key));
            put_field(out, header.value.as_deref());
        }
    }

    /// The batch. Without records it is an empty batch: codec bits 0, base timestamp −1 (where it is not a horizon).
    ///
    /// Errors: [`CompressionError::Unsupported`] when a codec is asked for that this build does not have.
    pub fn build(mut self) -> Result<Batch, CompressionError> {
        let compression =
            if self.is_empty() || self.header.is_control() { Compression::NONE } else { self.compression };
        if compression != Compression::NONE {
            let packed = compression.compress(&self.bytes[HEADER_BYTES..])?;
            self.bytes.truncate(HEADER_BYTES);
            self.bytes.extend_from_slice(&packed);
        }
        self.header.attributes = self.header.attributes.with_compression(compression.codec);
        self.header.base_timestamp = self.base_timestamp.unwrap_or(Millis::NONE);
        self.header.batch_length = count(self.bytes.len() - LOG_OVERHEAD_BYTES);
        self.header.crc = self.header.compute_crc(&self.bytes[HEADER_BYTES..]);
        self.bytes[..HEADER_BYTES].copy_from_slice(&self.header.encode());
        Ok(Batch::from_parts(self.header, Bytes::from(self.bytes)))
    }
}

/// A length or count as the format has it. We build what fits: a batch beyond 2 GiB is our own mistake.
fn count(count: usize) -> i32 {
    i32::try_from(count).expect("a batch is smaller than 2 GiB")
}

fn field_bytes(field: Option<&[u8]>) -> usize {
    field.map_or(varint_bytes(-1), |field| varint_bytes(count(field.len())) + field.len())
}

fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => put_varint(out, -1),
        Some(field) => {
            put_varint(out, count(field.len()));
            out.extend_from_slice(field);
        }
    }
}

#[cfg(test)]
mod tests;
