//! One record of a batch, and the iterator that yields them.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::varint::{VARINT_BYTES_MAX, VARLONG_BYTES_MAX, decode_zigzag32, decode_zigzag64};
use crate::walk::RecordError;

/// A header of a record: key and value. Keys may repeat, and their order counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordHeader {
    /// UTF-8 by agreement; kept as it is.
    pub key: Bytes,
    /// `None` is null.
    pub value: Option<Bytes>,
}

/// A record: slices of the (decompressed) batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// No bit has a meaning yet.
    pub attributes: i8,
    /// Milliseconds from the base timestamp; may be negative. See [`crate::BatchHeader::record_timestamp`].
    pub timestamp_delta: i64,
    /// Offsets from the base offset. See [`crate::BatchHeader::record_offset`].
    pub offset_delta: i32,
    /// `None` is null.
    pub key: Option<Bytes>,
    /// `None` is null: a tombstone where the topic is compacted.
    pub value: Option<Bytes>,
    /// An ordered multimap.
    pub headers: Vec<RecordHeader>,
}

/// The records of one batch, in order. After an error it yields nothing more.
#[derive(Clone, Debug)]
pub struct RecordIter {
    payload: Bytes,
    at: usize,
    expected: i32,
    found: i32,
    done: bool,
}

impl RecordIter {
    /// Over plain (decompressed) bytes that should hold exactly `count` records.
    pub(crate) fn new(payload: Bytes, count: i32) -> Self {
        Self { payload, at: 0, expected: count, found: 0, done: false }
    }

    /// Bytes of the plain records.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    fn read(&mut self) -> Result<Option<Record>, RecordError> {
        if self.expected < 0 {
            return Err(RecordError::NegativeCount(self.expected));
        }
        if self.found == self.expected {
            return if self.at == self.payload.len() { Ok(None) } else { Err(RecordError::TrailingBytes) };
        }
        if self.at == self.payload.len() {
            return Err(RecordError::TooFew { expected: self.expected, found: self.found });
        }
        let mut cursor = Cursor { bytes: &self.payload, at: self.at, end: self.payload.len() };
        let record = cursor.record()?;
        self.at = cursor.at;
        self.found += 1;
        Ok(Some(record))
    }
}

impl Iterator for RecordIter {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.read().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

struct Cursor<'a> {
    bytes: &'a Bytes,
    at: usize,
    end: usize,
}

impl Cursor<'_> {
    fn record(&mut self) -> Result<Record, RecordError> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| RecordError::NegativeLength(length))?;
        if length > self.end - self.at {
            return Err(RecordError::Truncated);
        }
        // From here on the record itself is all there is.
        self.end = self.at + length;
        let attributes = self.byte()? as i8;
        let timestamp_delta = self.varlong()?;
        let offset_delta = self.varint()?;
        let key = self.field()?;
        let value = self.field()?;
        let headers = self.headers()?;
        if self.at != self.end {
            return Err(RecordError::LengthMismatch);
        }
        Ok(Record { attributes, timestamp_delta, offset_delta, key, value, headers })
    }

    fn headers(&mut self) -> Result<Vec<RecordHeader>, RecordError> {
        let count = self.varint()?;
        // A header takes at least two bytes, so the count is bounded before anything is allocated for it.
        if count < 0 || count as usize > (self.end - self.at) / 2 {
            return Err(RecordError::HeaderCount(count));
        }
        (0..count)
            .map(|_| {
                let key = self.field()?.ok_or(RecordError::NullHeaderKey)?;
                Ok(RecordHeader { key, value: self.field()? })
            })
            .collect()
    }

    fn field(&mut self) -> Result<Option<Bytes>, RecordError> {
        let Ok(length) = usize::try_from(self.varint()?) else { return Ok(None) };
        if length > self.end - self.at {
            return Err(RecordError::LengthMismatch);
        }
        let field = self.bytes.slice(self.at..self.at + length);
        self.at += length;
        Ok(Some(field))
    }

    fn byte(&mut self) -> Result<u8, RecordError> {
        if self.at == self.end {
            return Err(RecordError::Truncated);
        }
        self.at += 1;
        Ok(self.bytes[self.at - 1])
    }

    fn raw(&mut self, bytes_max: usize) -> Result<u64, RecordError> {
        let mut raw = 0;
        for at in 0..bytes_max {
            let byte = self.byte()?;
            raw |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Ok(raw);
            }
        }
        Err(RecordError::VarintTooLong)
    }

    fn varint(&mut self) -> Result<i32, RecordError> {
        Ok(decode_zigzag32(self.raw(VARINT_BYTES_MAX)? as u32))
    }

    fn varlong(&mut self) -> Result<i64, RecordError> {
        Ok(decode_zigzag64(self.raw(VARLONG_BYTES_MAX)?))
    }
}

#[cfg(test)]
mod tests;
