//! One decoder for all codecs: hands out plain bytes piece by piece.

use std::io::Read;

use alloc::vec::Vec;
use flate2::bufread::MultiGzDecoder;

use super::{CompressionError, CompressionType, lz4, snappy, zstd};

/// Plain bytes that gzip and zstd are asked for at a time: at most these, less for small payloads …
const PIECE_BYTES_MAX: usize = 64 * 1024;
/// … and at least these.
const PIECE_BYTES_MIN: usize = 4 * 1024;
/// How far records usually inflate, at most.
const USUAL_RATIO: usize = 8;

/// Decompresses one payload.
pub(super) struct Decoder<'a> {
    codec: CompressionType,
    stream: Stream<'a>,
    piece_bytes: usize,
}

// One lives on the stack at a time.
#[allow(clippy::large_enum_variant)]
enum Stream<'a> {
    Gzip(MultiGzDecoder<&'a [u8]>),
    Snappy(snappy::Blocks<'a>),
    Lz4(lz4::Frame<'a>),
    Zstd(zstd::Frames<'a>),
}

impl<'a> Decoder<'a> {
    /// Starts on `payload`. Errors: a framing that is wrong from the first byte.
    pub(super) fn new(codec: CompressionType, payload: &'a [u8]) -> Result<Self, CompressionError> {
        let corrupt = CompressionError::Corrupt(codec);
        let stream = match codec {
            CompressionType::None => unreachable!("plain payloads have no decoder"),
            CompressionType::Gzip => Stream::Gzip(MultiGzDecoder::new(payload)),
            CompressionType::Snappy => Stream::Snappy(snappy::Blocks::new(payload).ok_or(corrupt)?),
            CompressionType::Lz4 => Stream::Lz4(lz4::Frame::new(payload).ok_or(corrupt)?),
            CompressionType::Zstd => Stream::Zstd(zstd::Frames::new(payload).ok_or(corrupt)?),
        };
        Ok(Self {
            codec,
            stream,
            piece_bytes: (payload.len() * USUAL_RATIO).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX),
        })
    }

    /// Appends the next piece to `out`; false at the end of the payload, and then nothing was appended.
    pub(super) fn read_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, CompressionError> {
        let corrupt = CompressionError::Corrupt(self.codec);
        match &mut self.stream {
            Stream::Gzip(decoder) => read_some(decoder, out, self.piece_bytes).ok_or(corrupt),
            Stream::Zstd(frames) => {
                out.reserve(self.piece_bytes);
                frames.read_some(out).ok_or(corrupt)
            }
            Stream::Lz4(frame) => frame.read_block(out).ok_or(corrupt),
            Stream::Snappy(blocks) => match blocks.next_block().ok_or(corrupt)? {
                Some(block) => block.read(out).map(|()| true).ok_or(corrupt),
                None => Ok(false),
            },
        }
    }

    /// All that is left, if it is at most `bytes_max`.
    pub(super) fn read_all(mut self, bytes_max: usize) -> Result<Vec<u8>, CompressionError> {
        let mut out = Vec::new();
        while self.read_piece(&mut out)? {
            if out.len() > bytes_max {
                return Err(CompressionError::TooLarge { bytes_max });
            }
        }
        Ok(out)
    }
}

/// Reads up to a piece; `Some(false)` at the end, `None` on an error.
fn read_some(reader: &mut impl Read, out: &mut Vec<u8>, piece_bytes: usize) -> Option<bool> {
    let before = out.len();
    out.resize(before + piece_bytes, 0);
    let mut filled = before;
    while filled < out.len() {
        match reader.read(&mut out[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    out.truncate(filled);
    Some(filled > before)
}
