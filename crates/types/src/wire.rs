//! The primitives of Kafka's encoding, shared by the messages of the protocol and by persisted records.
//!
//! A [`Reader`] stands on a [`Bytes`]: byte fields come out as slices of it, without a copy. A [`Writer`] collects
//! chunks: small fields go into one growing buffer, large byte fields are kept as the slices they are, so that a
//! Fetch answer leaves with one vectored write.
//!
//! What counts as malformed is Kafka's rule (`spec: wire-apis §2`): lengths below −1 read as null, booleans are any
//! non-zero byte, text that is not UTF-8 is taken with replacement characters, unknown tags are skipped.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::Uuid;
use crate::limits::{DECODED_ELEMENT_BYTES_FREE, DECODED_ELEMENT_RATIO_MAX, STRING_BYTES_MAX};

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
    /// The elements of its arrays would take far more memory than the bytes they come from.
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
            Self::TooManyElements => "the arrays would take far more memory than their bytes",
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
}

impl Reader {
    /// Starts at the first byte.
    pub fn new(bytes: Bytes) -> Self {
        let element_bytes_left =
            bytes.len().saturating_mul(DECODED_ELEMENT_RATIO_MAX).saturating_add(DECODED_ELEMENT_BYTES_FREE);
        Self { bytes, element_bytes_left }
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
            let mut inside = Reader { bytes: self.take(size)?, element_bytes_left: self.element_bytes_left };
            if field(tag, &mut inside)? && inside.remaining() != 0 {
                return Err(DecodeError::TaggedFieldSize);
            }
            self.element_bytes_left = inside.element_bytes_left;
        }
        Ok(())
    }
}

/// Byte fields of at least this size are kept as chunks of their own; smaller ones are copied.
const CHUNK_BYTES_MIN: usize = 512;

/// Collects an encoded message as a list of chunks.
#[derive(Debug, Default)]
pub struct Writer {
    done: Vec<Bytes>,
    done_bytes: usize,
    open: BytesMut,
}

impl Writer {
    /// Starts empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.done_bytes + self.open.len()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chunks, in order. None is empty.
    pub fn into_chunks(mut self) -> Vec<Bytes> {
        self.close_chunk();
        self.done
    }

    /// All of it as one piece; copies when there are several chunks.
    pub fn into_bytes(self) -> Bytes {
        let length = self.len();
        let mut chunks = self.into_chunks();
        match chunks.len() {
            0 => Bytes::new(),
            1 => chunks.remove(0),
            _ => {
                let mut whole = BytesMut::with_capacity(length);
                chunks.iter().for_each(|chunk| whole.put_slice(chunk));
                whole.freeze()
            }
        }
    }

    fn close_chunk(&mut self) {
        if !self.open.is_empty() {
            let chunk = self.open.split().freeze();
            self.done_bytes += chunk.len();
            self.done.push(chunk);
        }
    }

    /// Plain bytes, copied.
    pub fn slice(&mut self, bytes: &[u8]) {
        self.open.put_slice(bytes);
    }

    /// Bytes that are kept as they are when large.
    pub fn chunk(&mut self, bytes: Bytes) {
        if bytes.len() < CHUNK_BYTES_MIN {
            self.open.put_slice(&bytes);
        } else {
            self.close_chunk();
            self.done_bytes += bytes.len();
            self.done.push(bytes);
        }
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.open.put_u8(value);
    }

    /// A signed byte.
    pub fn i8(&mut self, value: i8) {
        self.open.put_i8(value);
    }

    /// A boolean: 1 or 0.
    pub fn bool(&mut self, value: bool) {
        self.open.put_u8(u8::from(value));
    }

    /// Two bytes, big-endian.
    pub fn i16(&mut self, value: i16) {
        self.open.put_i16(value);
    }

    /// Two bytes, big-endian, unsigned.
    pub fn u16(&mut self, value: u16) {
        self.open.put_u16(value);
    }

    /// Four bytes, big-endian.
    pub fn i32(&mut self, value: i32) {
        self.open.put_i32(value);
    }

    /// Four bytes, big-endian, unsigned.
    pub fn u32(&mut self, value: u32) {
        self.open.put_u32(value);
    }

    /// Eight bytes, big-endian.
    pub fn i64(&mut self, value: i64) {
        self.open.put_i64(value);
    }

    /// Eight bytes, IEEE 754, big-endian.
    pub fn f64(&mut self, value: f64) {
        self.open.put_f64(value);
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self, value: Uuid) {
        self.open.put_slice(&value.0);
    }

    /// Unsigned LEB128.
    pub fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.open.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.open.put_u8(value as u8);
    }

    /// Zig-zag LEB128 of 32 bits.
    pub fn varint(&mut self, value: i32) {
        self.uvarint(((value << 1) ^ (value >> 31)) as u32);
    }

    /// Zig-zag LEB128 of 64 bits.
    pub fn varlong(&mut self, value: i64) {
        let mut raw = ((value << 1) ^ (value >> 63)) as u64;
        while raw >= 0x80 {
            self.open.put_u8(raw as u8 | 0x80);
            raw >>= 7;
        }
        self.open.put_u8(raw as u8);
    }

    /// A string; `None` is null. A string longer than 32767 bytes is cut at a character's boundary: only texts that
    /// we make ourselves can be so long, and none should.
    pub fn nullable_string(&mut self, value: Option<&str>, compact: bool) {
        let value = value.map(|text| &text[..text.floor_char_boundary(STRING_BYTES_MAX)]);
        match (value, compact) {
            (None, true) => self.uvarint(0),
            (None, false) => self.i16(-1),
            (Some(text), true) => self.uvarint(text.len() as u32 + 1),
            (Some(text), false) => self.i16(text.len() as i16),
        }
        self.slice(value.unwrap_or("").as_bytes());
    }

    /// A string that is never null.
    pub fn string(&mut self, value: &str, compact: bool) {
        self.nullable_string(Some(value), compact);
    }

    /// The length that goes before a byte field of `length` bytes; `None` is null.
    pub fn bytes_length(&mut self, length: Option<usize>, compact: bool) {
        match (length, compact) {
            (None, true) => self.uvarint(0),
            (None, false) => self.i32(-1),
            (Some(length), true) => self.uvarint(length as u32 + 1),
            (Some(length), false) => self.i32(length as i32),
        }
    }

    /// A byte field; `None` is null. Large ones are kept, not copied.
    pub fn nullable_bytes(&mut self, value: Option<&Bytes>, compact: bool) {
        self.bytes_length(value.map(Bytes::len), compact);
        if let Some(bytes) = value {
            self.chunk(bytes.clone());
        }
    }

    /// A byte field that lies in several pieces; `None` is null.
    pub fn nullable_chunks(&mut self, value: Option<&[Bytes]>, compact: bool) {
        self.bytes_length(value.map(|chunks| chunks.iter().map(Bytes::len).sum()), compact);
        for chunk in value.unwrap_or(&[]) {
            self.chunk(chunk.clone());
        }
    }

    /// The count that goes before an array; `None` is null.
    pub fn array_count(&mut self, count: Option<usize>, compact: bool) {
        self.bytes_length(count, compact);
    }

    /// One tagged field: number, size, content.
    pub fn tagged_field(&mut self, tag: u32, content: Writer) {
        self.uvarint(tag);
        self.uvarint(content.len() as u32);
        for chunk in content.into_chunks() {
            self.chunk(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reader(writer: Writer) -> Reader {
        Reader::new(writer.into_bytes())
    }

    proptest! {
        /// What is written is read back, and nothing is left.
        #[test]
        fn numbers_round_trip(a: i32, b: i64, c: u32, d: i16) {
            let mut w = Writer::new();
            w.varint(a);
            w.varlong(b);
            w.uvarint(c);
            w.i16(d);
            let mut r = reader(w);
            prop_assert_eq!(r.varint(), Ok(a));
            prop_assert_eq!(r.varlong(), Ok(b));
            prop_assert_eq!(r.uvarint(), Ok(c));
            prop_assert_eq!(r.i16(), Ok(d));
            prop_assert_eq!(r.remaining(), 0);
        }

        /// Arbitrary bytes never make a reader panic.
        #[test]
        fn reading_garbage_is_an_error(garbage: Vec<u8>, compact: bool) {
            let bytes = Bytes::from(garbage);
            let _ = Reader::new(bytes.clone()).nullable_string(compact);
            let _ = Reader::new(bytes.clone()).nullable_bytes(compact);
            let _ = Reader::new(bytes.clone()).array_count(compact, 4);
            let _ = Reader::new(bytes).tagged_fields(|_, r| r.i32().map(|_| true));
        }
    }

    /// Trap 29 (wire-apis): a count beyond what the bytes can hold is refused before anything is allocated.
    #[test]
    fn a_huge_count_is_refused() {
        let huge = Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 0, 0]);
        assert_eq!(Reader::new(huge).array_count(false, 1), Err(DecodeError::Truncated));
    }

    /// Lengths are signed: below zero is null in either form, and the largest varint is −1 (wire-apis §2, as
    /// Kafka answers compact lengths of 2^32 − 1).
    #[test]
    fn lengths_below_zero_are_null() {
        let max = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(Reader::new(max.clone()).nullable_string(true), Ok(None));
        assert_eq!(Reader::new(max.clone()).array_count(true, 1), Ok(None));
        assert_eq!(Reader::new(max).skip_tagged_fields(), Ok(()));
        assert_eq!(Reader::new(Bytes::from_static(&[0x80, 0])).nullable_string(false), Ok(None));
        let huge = Bytes::from_static(&[0x80, 0x80, 0x80, 0x80, 0x08]);
        assert_eq!(Reader::new(huge).nullable_bytes(true), Err(DecodeError::Truncated));
    }

    /// Elements that are large in memory and small on the wire are refused before they add up.
    #[test]
    fn elements_have_a_budget() {
        let count = 2 * DECODED_ELEMENT_BYTES_FREE / size_of::<String>();
        let mut w = Writer::new();
        w.array_count(Some(count), true);
        w.slice(&alloc::vec![1u8; count]);
        assert_eq!(reader(w).strings(true), Err(DecodeError::TooManyElements));
        let mut w = Writer::new();
        w.array_count(Some(2), true);
        w.string("a", true);
        w.string("b", true);
        assert_eq!(reader(w).strings(true), Ok(Some(alloc::vec!["a".into(), "b".into()])));
    }

    /// Null and empty differ: in compact form 0 and 1, in the other −1 and 0 (wire-apis §2).
    #[test]
    fn null_is_not_empty() {
        for compact in [true, false] {
            let mut w = Writer::new();
            w.nullable_string(None, compact);
            w.string("", compact);
            w.nullable_bytes(None, compact);
            w.array_count(Some(0), compact);
            let mut r = reader(w);
            assert_eq!(r.nullable_string(compact), Ok(None));
            assert_eq!(r.nullable_string(compact), Ok(Some(String::new())));
            assert_eq!(r.nullable_bytes(compact), Ok(None));
            assert_eq!(r.array_count(compact, 1), Ok(Some(0)));
        }
    }

    /// Large byte fields are kept, not copied.
    #[test]
    fn large_fields_stay_chunks() {
        let payload = Bytes::from(alloc::vec![7u8; CHUNK_BYTES_MIN]);
        let mut w = Writer::new();
        w.i32(1);
        w.nullable_bytes(Some(&payload), false);
        w.i32(2);
        let chunks = w.into_chunks();
        assert_eq!(chunks.len(), 3);
        assert_eq!(chunks[1].as_ptr(), payload.as_ptr());
    }
}
