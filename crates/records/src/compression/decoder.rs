//! One decoder for all codecs: hands out plain bytes piece by piece and counts them against the limit.

use std::io::Read;

use alloc::vec::Vec;
use flate2::read::MultiGzDecoder;

use super::{CompressionError, CompressionType, DecompressionLimit, lz4, snappy};

/// Plain bytes that gzip and zstd are asked for at a time.
const PIECE_BYTES: usize = 64 * 1024;
/// The largest window a zstd frame may ask for, as a power of two: 128 MiB, what level 22 writes and what the Java
/// client reads at most. Memory for it is touched only as far as bytes come out, which the limit bounds.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Decompresses one payload.
pub(super) struct Decoder<'a> {
    codec: CompressionType,
    stream: Stream<'a>,
    bytes_max: usize,
    bytes_out: usize,
}

// One lives on the stack at a time.
#[allow(clippy::large_enum_variant)]
enum Stream<'a> {
    Gzip(MultiGzDecoder<&'a [u8]>),
    Snappy(snappy::Blocks<'a>),
    Lz4(lz4::Frame<'a>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl<'a> Decoder<'a> {
    /// Starts on `payload`. Errors: a framing that is wrong from the first byte.
    pub(super) fn new(
        codec: CompressionType,
        payload: &'a [u8],
        limit: DecompressionLimit,
    ) -> Result<Self, CompressionError> {
        let corrupt = CompressionError::Corrupt(codec);
        let stream = match codec {
            CompressionType::None => unreachable!("plain payloads have no decoder"),
            CompressionType::Gzip => Stream::Gzip(MultiGzDecoder::new(payload)),
            CompressionType::Snappy => Stream::Snappy(snappy::Blocks::new(payload).ok_or(corrupt)?),
            CompressionType::Lz4 => Stream::Lz4(lz4::Frame::new(payload).ok_or(corrupt)?),
            CompressionType::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(payload).map_err(|_| corrupt)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(|_| corrupt)?;
                Stream::Zstd(decoder)
            }
        };
        Ok(Self { codec, stream, bytes_max: limit.bytes_max(payload.len()), bytes_out: 0 })
    }

    /// Appends the next piece to `out`; false at the end of the payload, and then nothing was appended.
    pub(super) fn read_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, CompressionError> {
        let before = out.len();
        let bytes_left = self.bytes_max - self.bytes_out;
        let corrupt = CompressionError::Corrupt(self.codec);
        let too_large = CompressionError::TooLarge { bytes_max: self.bytes_max };
        let more = match &mut self.stream {
            Stream::Gzip(decoder) => read_some(decoder, out).ok_or(corrupt)?,
            Stream::Zstd(decoder) => read_some(decoder, out).ok_or(corrupt)?,
            Stream::Lz4(frame) => frame.read_block(out).ok_or(corrupt)?,
            Stream::Snappy(blocks) => match blocks.next_block().ok_or(corrupt)? {
                // A snappy block announces its size: refuse it before there is memory for it.
                Some(block) if block.plain_bytes > bytes_left => return Err(too_large),
                Some(block) => block.read(out).map(|()| true).ok_or(corrupt)?,
                None => false,
            },
        };
        let produced = out.len() - before;
        if produced > bytes_left {
            return Err(too_large);
        }
        self.bytes_out += produced;
        Ok(more)
    }

    /// All that is left.
    pub(super) fn read_all(mut self) -> Result<Vec<u8>, CompressionError> {
        let mut out = Vec::new();
        while self.read_piece(&mut out)? {}
        Ok(out)
    }
}

/// Reads up to a piece; `Some(false)` at the end, `None` on an error.
fn read_some(reader: &mut impl Read, out: &mut Vec<u8>) -> Option<bool> {
    let before = out.len();
    out.resize(before + PIECE_BYTES, 0);
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
