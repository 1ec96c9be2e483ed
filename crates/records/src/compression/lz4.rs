//! LZ4 frames as the Java client reads and writes them. Blocks must be independent: the Java client refuses others, so
//! the broker must not take them (storage-formats trap 15). Block checksums are verified, the content's is not.

use alloc::vec::Vec;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::xxhash32::xxhash32;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const VERSION_MASK: u8 = 0b1100_0000;
const VERSION: u8 = 0b0100_0000;
const INDEPENDENT_BLOCKS: u8 = 0b0010_0000;
const BLOCK_CHECKSUM: u8 = 0b0001_0000;
const CONTENT_SIZE: u8 = 0b0000_1000;
const CONTENT_CHECKSUM: u8 = 0b0000_0100;
/// Reserved, and a dictionary's id, which nobody could have told us.
const REFUSED: u8 = 0b0000_0011;
const BLOCK_IS_PLAIN: u32 = 1 << 31;

/// A frame that is being read.
pub(super) struct Frame<'a> {
    rest: &'a [u8],
    block_bytes_max: usize,
    block_checksum: bool,
    content_checksum: bool,
    done: bool,
}

impl<'a> Frame<'a> {
    /// Reads the frame's header; `None` where it is wrong or asks for what the Java client refuses.
    pub(super) fn new(payload: &'a [u8]) -> Option<Self> {
        let rest = payload.strip_prefix(&MAGIC)?;
        let (&flags, &descriptor) = (rest.first()?, rest.get(1)?);
        if flags & VERSION_MASK != VERSION || flags & INDEPENDENT_BLOCKS == 0 || flags & REFUSED != 0 {
            return None;
        }
        let size_code = descriptor >> 4;
        if !(4..=7).contains(&size_code) || descriptor & 0x0f != 0 {
            return None;
        }
        let described = if flags & CONTENT_SIZE == 0 { 2 } else { 2 + 8 };
        let (description, rest) = rest.split_at_checked(described)?;
        let (&checksum, rest) = rest.split_first()?;
        if checksum != (xxhash32(description) >> 8) as u8 {
            return None;
        }
        Some(Self {
            rest,
            block_bytes_max: 1 << (8 + 2 * size_code),
            block_checksum: flags & BLOCK_CHECKSUM != 0,
            content_checksum: flags & CONTENT_CHECKSUM != 0,
            done: false,
        })
    }

    /// Appends the next block to `out`; `Some(false)` at the end mark, `None` where the frame is wrong or cut off.
    pub(super) fn read_block(&mut self, out: &mut Vec<u8>) -> Option<bool> {
        if self.done {
            return Some(false);
        }
        let word = self.take_u32()?;
        if word == 0 {
            self.done = true;
            if self.content_checksum {
                self.take_u32()?;
            }
            // Whatever follows the frame is not read by the Java client; it would be a second meaning of the payload.
            return self.rest.is_empty().then_some(false);
        }
        let length = (word & !BLOCK_IS_PLAIN) as usize;
        if length > self.block_bytes_max {
            return None;
        }
        let (block, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        if self.block_checksum && self.take_u32()? != xxhash32(block) {
            return None;
        }
        if word & BLOCK_IS_PLAIN != 0 {
            out.extend_from_slice(block);
            return Some(true);
        }
        let before = out.len();
        out.resize(before + self.block_bytes_max, 0);
        let written = lz4_flex::block::decompress_into(block, &mut out[before..]).ok()?;
        out.truncate(before + written);
        Some(true)
    }

    fn take_u32(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*word))
    }
}

/// Writes one frame.
pub(super) type Writer = FrameEncoder<Vec<u8>>;

/// A frame of independent blocks of 64 KiB, no sizes, no checksums but the header's.
pub(super) fn writer() -> Writer {
    let shape = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    FrameEncoder::with_frame_info(shape, Vec::new())
}
