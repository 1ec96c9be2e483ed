//! Snappy as Kafka's clients write it: the xerial stream (magic, two version numbers, length-prefixed raw blocks), or
//! one bare raw block (storage-formats trap 16).

use alloc::vec::Vec;

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const VERSION: i32 = 1;
const HEADER_BYTES: usize = 16;
/// Plain bytes per block, as the Java client writes.
const BLOCK_BYTES: usize = 32 * 1024;

/// No element of a block writes more than this many plain bytes for each of its own: three make up to 64. A block that
/// announces more is no block, and gets no memory.
const RATIO_MAX: usize = 22;

/// The raw blocks of a payload.
pub(super) struct Blocks<'a> {
    rest: &'a [u8],
    framed: bool,
    done: bool,
}

/// One raw block.
pub(super) struct Block<'a> {
    raw: &'a [u8],
    /// What the block says it holds.
    pub(super) plain_bytes: usize,
}

impl<'a> Blocks<'a> {
    /// `None` where the stream's version is below 1, which no reader takes.
    pub(super) fn new(payload: &'a [u8]) -> Option<Self> {
        let framed = payload.len() >= HEADER_BYTES && payload.starts_with(&MAGIC);
        let rest = if framed { skip_header(payload)? } else { payload };
        Some(Self { rest, framed, done: false })
    }

    /// The next block; `Some(None)` at the end, `None` where the framing is wrong.
    pub(super) fn next_block(&mut self) -> Option<Option<Block<'a>>> {
        if self.done {
            return Some(None);
        }
        if !self.framed {
            self.done = true;
            return Some(Some(Block::new(self.rest)?));
        }
        // Streams may follow one another: a header stands where a length is expected.
        while self.rest.starts_with(&MAGIC) {
            self.rest = skip_header(self.rest)?;
        }
        if self.rest.is_empty() {
            self.done = true;
            return Some(None);
        }
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        let (raw, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Some(Block::new(raw)?))
    }
}

impl<'a> Block<'a> {
    fn new(raw: &'a [u8]) -> Option<Self> {
        let plain_bytes = snap::raw::decompress_len(raw).ok()?;
        let is_possible = plain_bytes <= raw.len().saturating_mul(RATIO_MAX);
        is_possible.then_some(Self { raw, plain_bytes })
    }

    /// Appends the plain bytes to `out`.
    pub(super) fn read(&self, out: &mut Vec<u8>) -> Option<()> {
        let before = out.len();
        out.resize(before + self.plain_bytes, 0);
        let written = snap::raw::Decoder::new().decompress(self.raw, &mut out[before..]).ok()?;
        out.truncate(before + written);
        Some(())
    }
}

fn skip_header(stream: &[u8]) -> Option<&[u8]> {
    let (header, rest) = stream.split_first_chunk::<HEADER_BYTES>()?;
    let version = i32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    (version >= VERSION).then_some(rest)
}

/// Writes the xerial stream.
pub(super) struct Writer {
    out: Vec<u8>,
    /// Plain bytes that do not fill a block yet.
    pending: Vec<u8>,
    encoder: snap::raw::Encoder,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend(MAGIC);
        out.extend(VERSION.to_be_bytes());
        out.extend(VERSION.to_be_bytes());
        Self { out, pending: Vec::new(), encoder: snap::raw::Encoder::new() }
    }

    pub(super) fn write(&mut self, mut plain: &[u8]) {
        if !self.pending.is_empty() {
            let (head, rest) = plain.split_at(plain.len().min(BLOCK_BYTES - self.pending.len()));
            self.pending.extend_from_slice(head);
            plain = rest;
            if self.pending.len() < BLOCK_BYTES {
                return;
            }
            let block = core::mem::take(&mut self.pending);
            self.write_block(&block);
        }
        let mut blocks = plain.chunks_exact(BLOCK_BYTES);
        for block in &mut blocks {
            self.write_block(block);
        }
        self.pending.extend_from_slice(blocks.remainder());
    }

    pub(super) fn bytes_out(&self) -> usize {
        self.out.len()
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let block = core::mem::take(&mut self.pending);
        if !block.is_empty() {
            self.write_block(&block);
        }
        self.out
    }

    fn write_block(&mut self, block: &[u8]) {
        let at = self.out.len();
        self.out.resize(at + 4 + snap::raw::max_compress_len(block.len()), 0);
        let written = self
            .encoder
            .compress(block, &mut self.out[at + 4..])
            .expect("the room is what the encoder asks for");
        self.out[at..at + 4].copy_from_slice(&(written as i32).to_be_bytes());
        self.out.truncate(at + 4 + written);
    }
}
