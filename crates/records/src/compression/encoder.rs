//! Writes a payload, all at once or as its plain bytes come.

use std::io::Write;

use alloc::vec::Vec;

use super::{Compression, CompressionType, lz4, snappy, zstd};

/// gzip's levels.
const GZIP_LEVELS: core::ops::RangeInclusive<i32> = 1..=9;

/// Compresses; an out-of-range level counts as the nearest there is.
pub(super) fn encode(compression: Compression, plain: &[u8]) -> Vec<u8> {
    match compression.codec {
        CompressionType::None => plain.to_vec(),
        CompressionType::Zstd => zstd::encode(plain, compression.level),
        CompressionType::Gzip | CompressionType::Snappy | CompressionType::Lz4 => {
            let mut encoder = Encoder::new(compression);
            encoder.write(plain);
            encoder.finish()
        }
    }
}

/// A payload that is being written.
// One lives on the stack at a time.
#[allow(clippy::large_enum_variant)]
pub(super) enum Encoder {
    Plain(Vec<u8>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Snappy(snappy::Writer),
    Lz4(lz4::Writer),
    Zstd(zstd::Writer),
}

impl Encoder {
    pub(super) fn new(compression: Compression) -> Self {
        match compression.codec {
            CompressionType::None => Self::Plain(Vec::new()),
            CompressionType::Gzip => {
                Self::Gzip(flate2::write::GzEncoder::new(Vec::new(), gzip_level(compression.level)))
            }
            CompressionType::Snappy => Self::Snappy(snappy::Writer::new()),
            CompressionType::Lz4 => Self::Lz4(lz4::writer()),
            CompressionType::Zstd => Self::Zstd(zstd::writer(compression.level)),
        }
    }

    /// Takes in the next plain bytes.
    pub(super) fn write(&mut self, plain: &[u8]) {
        match self {
            Self::Plain(out) => {
                out.extend_from_slice(plain);
                Ok(())
            }
            Self::Gzip(encoder) => encoder.write_all(plain),
            Self::Snappy(writer) => {
                writer.write(plain);
                Ok(())
            }
            Self::Lz4(encoder) => encoder.write_all(plain),
            Self::Zstd(encoder) => encoder.write_all(plain),
        }
        .expect("writing to memory cannot fail");
    }

    /// Bytes written so far.
    pub(super) fn bytes_out(&self) -> usize {
        match self {
            Self::Plain(out) => out.len(),
            Self::Gzip(encoder) => encoder.get_ref().len(),
            Self::Snappy(writer) => writer.bytes_out(),
            Self::Lz4(encoder) => encoder.get_ref().len(),
            Self::Zstd(encoder) => encoder.get_ref().len(),
        }
    }

    /// The whole payload.
    pub(super) fn finish(self) -> Vec<u8> {
        const MEMORY: &str = "writing to memory cannot fail";
        match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.finish().expect(MEMORY),
            Self::Snappy(writer) => writer.finish(),
            Self::Lz4(encoder) => encoder.finish().expect(MEMORY),
            Self::Zstd(encoder) => encoder.finish().expect(MEMORY),
        }
    }
}

/// Kafka writes its default, −1, for "the library's own".
fn gzip_level(level: Option<i32>) -> flate2::Compression {
    match level.filter(|level| *level >= *GZIP_LEVELS.start()) {
        Some(level) => flate2::Compression::new(level.min(*GZIP_LEVELS.end()) as u32),
        None => flate2::Compression::default(),
    }
}
