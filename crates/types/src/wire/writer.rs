//! Writing fields into chunks.

use alloc::vec::Vec;
use bytes::{BufMut, Bytes, BytesMut};

use crate::Uuid;
use crate::limits::STRING_BYTES_MAX;
use crate::wire::{Piece, Pieces};

/// Byte fields of at least this size are kept as chunks of their own; smaller ones are copied.
pub(crate) const CHUNK_BYTES_MIN: usize = 512;

/// Collects an encoded message as a list of pieces.
#[derive(Debug, Default)]
pub struct Writer {
    done: Vec<Piece>,
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

    /// The pieces, in order. None is empty.
    pub fn into_pieces(mut self) -> Pieces {
        self.close_chunk();
        Pieces(self.done)
    }

    /// All of it as one piece; copies when there are several. Panics where a piece lies elsewhere, which only the records of
    /// an answer can.
    pub fn into_bytes(self) -> Bytes {
        self.into_pieces().into_bytes()
    }

    fn close_chunk(&mut self) {
        if !self.open.is_empty() {
            let chunk = self.open.split().freeze();
            self.push(Piece::Held(chunk));
        }
    }

    fn push(&mut self, piece: Piece) {
        self.done_bytes += piece.len();
        self.done.push(piece);
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
            self.push(Piece::Held(bytes));
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
    pub fn nullable_pieces(&mut self, value: Option<&Pieces>, compact: bool) {
        self.bytes_length(value.map(Pieces::len), compact);
        for piece in value.into_iter().flat_map(Pieces::iter) {
            self.piece(piece.clone());
        }
    }

    fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Held(bytes) => self.chunk(bytes),
            Piece::Elsewhere(0) => {}
            Piece::Elsewhere(_) => {
                self.close_chunk();
                self.push(piece);
            }
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
        for piece in content.into_pieces() {
            self.piece(piece);
        }
    }
}
