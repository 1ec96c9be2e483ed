//! The validating walk over the records of a batch: no allocation per record, the same code for plain bytes and for
//! a stream that is being decompressed.

use core::fmt;

use crate::compression::CompressionError;
use crate::varint::{VARINT_BYTES_MAX, VARLONG_BYTES_MAX, decode_zigzag32, decode_zigzag64};

/// Why the records of a batch are not records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordError {
    /// The bytes end before the record does.
    Truncated,
    /// A number of more than five (ten) bytes.
    VarintTooLong,
    /// A record's length is negative.
    NegativeLength(i32),
    /// A record of a compressed batch is larger than it may be.
    TooLarge {
        /// Its bytes, without the length before it.
        bytes: i32,
        /// The limit.
        bytes_max: i32,
    },
    /// A record's fields take more, or fewer, bytes than its length says.
    LengthMismatch,
    /// A negative number of headers, or more than the record has room for.
    HeaderCount(i32),
    /// A header without a key.
    NullHeaderKey,
    /// Fewer records than the header counts.
    TooFew {
        /// What the header counts.
        expected: i32,
        /// How many there are.
        found: i32,
    },
    /// Bytes are left after the last record.
    TrailingBytes,
    /// The header counts fewer than no records.
    NegativeCount(i32),
    /// The payload cannot be decompressed.
    Compression(CompressionError),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the bytes end before the record does"),
            Self::VarintTooLong => f.write_str("a variable-length number is too long"),
            Self::NegativeLength(length) => write!(f, "a record has length {length}"),
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "a record has {bytes} bytes, above max.decompressed.message.bytes ({bytes_max})")
            }
            Self::LengthMismatch => f.write_str("a record's fields do not fill its length exactly"),
            Self::HeaderCount(count) => write!(f, "a record has {count} headers"),
            Self::NullHeaderKey => f.write_str("a header has no key"),
            Self::TooFew { expected, found } => {
                write!(f, "the batch counts {expected} records and holds {found}")
            }
            Self::TrailingBytes => f.write_str("bytes follow the last record"),
            Self::NegativeCount(count) => write!(f, "the batch counts {count} records"),
            Self::Compression(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RecordError {}

/// What the walk says about each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordShape {
    /// Position among the records, from 0.
    pub index: i32,
    /// Bytes that follow its length.
    pub body_bytes: i32,
    /// Milliseconds from the base timestamp.
    pub timestamp_delta: i64,
    /// Offsets from the base offset.
    pub offset_delta: i32,
    /// Whether the key is not null.
    pub has_key: bool,
    /// Whether the value is not null.
    pub has_value: bool,
}

/// Walks `count` records in plain (decompressed) `payload` and shows each to `visit`. Every byte must be accounted for:
/// exactly `count` records, each of exactly its length, and nothing after the last.
pub fn walk(payload: &[u8], count: i32, visit: impl FnMut(RecordShape)) -> Result<(), RecordError> {
    walk_source(&mut SliceSource { bytes: payload, at: 0 }, count, i32::MAX, visit)
}

/// Where record bytes come from.
pub(crate) trait Source {
    /// Bytes taken so far.
    fn position(&self) -> u64;
    /// Whether no byte is left.
    fn is_at_end(&mut self) -> Result<bool, RecordError>;
    /// The next byte.
    fn byte(&mut self) -> Result<u8, RecordError>;
    /// Leaves out the next `count` bytes, all of which must exist.
    fn skip(&mut self, count: u64) -> Result<(), RecordError>;
}

struct SliceSource<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Source for SliceSource<'_> {
    fn position(&self) -> u64 {
        self.at as u64
    }

    fn is_at_end(&mut self) -> Result<bool, RecordError> {
        Ok(self.at == self.bytes.len())
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, RecordError> {
        let byte = *self.bytes.get(self.at).ok_or(RecordError::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn skip(&mut self, count: u64) -> Result<(), RecordError> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(RecordError::Truncated);
        }
        self.at += count as usize;
        Ok(())
    }
}

pub(crate) fn walk_source(
    source: &mut impl Source,
    count: i32,
    record_bytes_max: i32,
    mut visit: impl FnMut(RecordShape),
) -> Result<(), RecordError> {
    if count < 0 {
        return Err(RecordError::NegativeCount(count));
    }
    for index in 0..count {
        if source.is_at_end()? {
            return Err(RecordError::TooFew { expected: count, found: index });
        }
        visit(walk_record(source, index, record_bytes_max)?);
    }
    if source.is_at_end()? { Ok(()) } else { Err(RecordError::TrailingBytes) }
}

fn walk_record(
    source: &mut impl Source,
    index: i32,
    record_bytes_max: i32,
) -> Result<RecordShape, RecordError> {
    let length = varint(source)?;
    if length < 0 {
        return Err(RecordError::NegativeLength(length));
    }
    if length > record_bytes_max {
        return Err(RecordError::TooLarge { bytes: length, bytes_max: record_bytes_max });
    }
    let end = source.position() + length as u64;
    let _attributes = source.byte()?;
    let timestamp_delta = varlong(source)?;
    let offset_delta = varint(source)?;
    let has_key = skip_field(source, end)?;
    let has_value = skip_field(source, end)?;
    let header_count = varint(source)?;
    // A header takes at least two bytes; the loop is bounded by the record's own.
    if header_count < 0 || header_count as u64 > end.saturating_sub(source.position()) / 2 {
        return Err(RecordError::HeaderCount(header_count));
    }
    for _ in 0..header_count {
        if !skip_field(source, end)? {
            return Err(RecordError::NullHeaderKey);
        }
        skip_field(source, end)?;
    }
    if source.position() != end {
        return Err(RecordError::LengthMismatch);
    }
    Ok(RecordShape { index, body_bytes: length, timestamp_delta, offset_delta, has_key, has_value })
}

/// Leaves out a length-prefixed field; whether it is not null. Any negative length is null, as Kafka reads it.
#[inline]
fn skip_field(source: &mut impl Source, end: u64) -> Result<bool, RecordError> {
    let length = varint(source)?;
    if length < 0 {
        return Ok(false);
    }
    if length as u64 > end.saturating_sub(source.position()) {
        return Err(RecordError::LengthMismatch);
    }
    source.skip(length as u64)?;
    Ok(true)
}

#[inline]
fn varint(source: &mut impl Source) -> Result<i32, RecordError> {
    let first = source.byte()?;
    if first < 0x80 {
        return Ok(decode_zigzag32(u32::from(first)));
    }
    let mut raw = u32::from(first & 0x7f);
    for at in 1..VARINT_BYTES_MAX {
        let byte = source.byte()?;
        raw |= u32::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(decode_zigzag32(raw));
        }
    }
    Err(RecordError::VarintTooLong)
}

#[inline]
fn varlong(source: &mut impl Source) -> Result<i64, RecordError> {
    let mut raw = 0;
    for at in 0..VARLONG_BYTES_MAX {
        let byte = source.byte()?;
        raw |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(decode_zigzag64(raw));
        }
    }
    Err(RecordError::VarintTooLong)
}

#[cfg(test)]
mod tests;
