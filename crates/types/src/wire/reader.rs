//! Reading fields off bytes.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::{Buf, Bytes};

use crate::Uuid;
use crate::limits::{
    DECODED_ELEMENT_BYTES_FREE, DECODED_ELEMENT_RATIO_MAX, DECODED_ELEMENTS_MAX, STRING_BYTES_MAX,
};

/// Why bytes could not be read as the message asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeError {
    /// The bytes end before the field does; also a count or length beyond the bytes that are left.
    Truncated,
    /// A null where the field must have a value.
    UnexpectedNull,
    /// A varint of more than five (varlong: ten) bytes.
    VarintTooLong,
    /// A string of more than 32767 bytes.
    StringTooLong,
    /// A tagged field did not use exactly the bytes its size announced.
    TaggedFieldSize,
    /// A tagged field that only other versions of the message have.
    UnexpectedTag,
    /// The elements of its arrays would take far more memory than the bytes they come from, or are too many.
    TooManyElements,
    /// The message has no such version.
    UnsupportedVersion,
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the bytes end before the message does",
            Self::UnexpectedNull => "a field is null that must not be",
            Self::VarintTooLong => "a variable-length number is too long",
            Self::StringTooLong => "a string is longer than 32767 bytes",
            Self::TaggedFieldSize => "a tagged field has another size than announced",
            Self::UnexpectedTag => "a tagged field is of another version",
            Self::TooManyElements => "the arrays have too many elements",
            Self::UnsupportedVersion => "the message has no such version",
        })
    }
}

impl core::error::Error for DecodeError {}

/// What a field read is answered with.
pub type Decoded<T> = Result<T, DecodeError>;

/// Reads fields off a [`Bytes`], front to back.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
    /// Memory that the elements of arrays may still take: an element may be far larger in memory than on the wire.
    element_bytes_left: usize,
    /// Elements of arrays that may still come.
    elements_left: usize,
}

impl Reader {
    /// Starts at the first byte.
    pub fn new(bytes: Bytes) -> Self {
        let element_bytes_left =
            bytes.len().saturating_mul(DECODED_ELEMENT_RATIO_MAX).saturating_add(DECODED_ELEMENT_BYTES_FREE);
        Self { bytes, element_bytes_left, elements_left: DECODED_ELEMENTS_MAX }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The rest, as a slice.
    pub fn into_rest(self) -> Bytes {
        self.bytes
    }

    /// The next `count` bytes, without a copy.
    pub fn take(&mut self, count: usize) -> Decoded<Bytes> {
        if count > self.bytes.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(self.bytes.split_to(count))
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let array = *self.bytes.first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.bytes.advance(N);
        Ok(array)
    }

    /// One byte.
    pub fn u8(&mut self) -> Decoded<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// A signed byte.
    pub fn i8(&mut self) -> Decoded<i8> {
        Ok(self.u8()? as i8)
    }

    /// A boolean: any non-zero byte is true.
    pub fn bool(&mut self) -> Decoded<bool> {
        Ok(self.u8()? != 0)
    }

    /// Two bytes, big-endian.
    pub fn i16(&mut self) -> Decoded<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// Two bytes, big-endian, unsigned.
    pub fn u16(&mut self) -> Decoded<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Four bytes, big-endian.
    pub fn i32(&mut self) -> Decoded<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Four bytes, big-endian, unsigned.
    pub fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Eight bytes, big-endian.
    pub fn i64(&mut self) -> Decoded<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Eight bytes, IEEE 754, big-endian.
    pub fn f64(&mut self) -> Decoded<f64> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self) -> Decoded<Uuid> {
        Ok(Uuid(self.array()?))
    }

    /// An unsigned LEB128 number of at most five bytes. Bits beyond 32 are dropped, as Kafka does.
    pub fn uvarint(&mut self) -> Decoded<u32> {
        let mut value: u32 = 0;
        for at in 0..5 {
            let byte = self.u8()?;
            value |= u32::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong)
    }

    /// A zig-zag LEB128 number of at most five bytes.
    pub fn varint(&mut self) -> Decoded<i32> {
        let raw = self.uvarint()?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// A zig-zag LEB128 number of at most ten bytes.
    pub fn varlong(&mut self) -> Decoded<i64> {
        let mut raw: u64 = 0;
        for at in 0..10 {
            let byte = self.u8()?;
            raw |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok((raw >> 1) as i64 ^ -((raw & 1) as i64));
            }
        }
        Err(DecodeError::VarintTooLong)
    }

    /// The length of a compact field; `None` is null. Kafka takes the varint as a signed number, and null for
    /// every length below zero.
    fn compact_length(&mut self) -> Decoded<Option<usize>> {
        Ok(usize::try_from((self.uvarint()? as i32).wrapping_sub(1)).ok())
    }

    /// A string: `compact` has a varint length, the other an i16; `None` is null.
    pub fn nullable_string(&mut self, compact: bool) -> Decoded<Option<String>> {
        let length = if compact { self.compact_length()? } else { usize::try_from(self.i16()?).ok() };
        let Some(length) = length else { return Ok(None) };
        if length > STRING_BYTES_MAX {
            return Err(DecodeError::StringTooLong);
        }
        let bytes = self.take(length)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// A string that must not be null.
    pub fn string(&mut self, compact: bool) -> Decoded<String> {
        self.nullable_string(compact)?.ok_or(DecodeError::UnexpectedNull)
    }

    /// A byte field (also records): `compact` has a varint length, the other an i32; `None` is null.
    pub fn nullable_bytes(&mut self, compact: bool) -> Decoded<Option<Bytes>> {
        let length = if compact { self.compact_length()? } else { usize::try_from(self.i32()?).ok() };
        length.map(|length| self.take(length)).transpose()
    }

    /// A byte field that must not be null.
    pub fn bytes(&mut self, compact: bool) -> Decoded<Bytes> {
        self.nullable_bytes(compact)?.ok_or(DecodeError::UnexpectedNull)
    }

    /// The count of an array; `None` is null. Refused when the bytes left cannot hold that many elements of at
    /// least `element_bytes_min` (≥ 1) bytes each, so a caller may allocate for it.
    pub fn array_count(&mut self, compact: bool, element_bytes_min: usize) -> Decoded<Option<usize>> {
        let count = if compact { self.compact_length()? } else { usize::try_from(self.i32()?).ok() };
        match count {
            Some(count) if count > self.remaining() / element_bytes_min.max(1) => Err(DecodeError::Truncated),
            count => Ok(count),
        }
    }

    /// An array whose elements take at least `element_bytes_min` bytes each; `None` is null. Memory is reserved once,
    /// for elements that the bytes left can hold, within what all arrays of the message may take together.
    ///
    /// Differs from Kafka, which reads as many as there are.
    pub fn elements<T>(
        &mut self,
        compact: bool,
        element_bytes_min: usize,
        version: i16,
        read: fn(&mut Reader, i16) -> Decoded<T>,
    ) -> Decoded<Option<Vec<T>>> {
        let Some(count) = self.array_count(compact, element_bytes_min)? else { return Ok(None) };
        let bytes = count.saturating_mul(size_of::<T>());
        self.element_bytes_left =
            self.element_bytes_left.checked_sub(bytes).ok_or(DecodeError::TooManyElements)?;
        self.elements_left = self.elements_left.checked_sub(count).ok_or(DecodeError::TooManyElements)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(read(self, version)?);
        }
        Ok(Some(elements))
    }

    /// An array of strings that are not null; `None` is null.
    pub fn strings(&mut self, compact: bool) -> Decoded<Option<Vec<String>>> {
        if compact {
            self.elements(true, 1, 0, |r, _| r.string(true))
        } else {
            self.elements(false, 2, 0, |r, _| r.string(false))
        }
    }

    /// Passes over a tagged section.
    pub fn skip_tagged_fields(&mut self) -> Decoded<()> {
        self.tagged_fields(|_, _| Ok(false))
    }

    /// Walks a tagged section: `field` reads the tags it knows and returns whether it did; the rest is skipped.
    pub fn tagged_fields(&mut self, mut field: impl FnMut(u32, &mut Reader) -> Decoded<bool>) -> Decoded<()> {
        // A signed number to Kafka: below zero there are none. Each field takes at least two bytes, so the loop ends
        // by the end of the bytes.
        let count = self.uvarint()? as i32;
        for _ in 0..count {
            let tag = self.uvarint()?;
            let size = self.uvarint()? as usize;
            let (element_bytes_left, elements_left) = (self.element_bytes_left, self.elements_left);
            let mut inside = Reader { bytes: self.take(size)?, element_bytes_left, elements_left };
            if field(tag, &mut inside)? && inside.remaining() != 0 {
                return Err(DecodeError::TaggedFieldSize);
            }
            (self.element_bytes_left, self.elements_left) = (inside.element_bytes_left, inside.elements_left);
        }
        Ok(())
    }
}
