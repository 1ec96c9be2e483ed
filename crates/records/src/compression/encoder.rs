//! One encoder for all codecs.

use std::io::Write;

use alloc::vec::Vec;

use super::{Compression, CompressionType, lz4, snappy, zstd};

/// gzip's levels.
const GZIP_LEVELS: core::ops::RangeInclusive<i32> = 1..=9;

/// Compresses; an out-of-range level counts as the nearest there is.
pub(super) fn encode(compression: Compression, plain: &[u8]) -> Vec<u8> {
    match compression.codec {
        CompressionType::None => plain.to_vec(),
        CompressionType::Gzip => gzip(plain, compression.level),
        CompressionType::Snappy => snappy::encode(plain),
        CompressionType::Lz4 => lz4::encode(plain),
        CompressionType::Zstd => zstd::encode(plain, compression.level),
    }
}

fn gzip(plain: &[u8], level: Option<i32>) -> Vec<u8> {
    // Kafka writes its default, −1, for "the library's own".
    let level = match level.filter(|level| *level >= *GZIP_LEVELS.start()) {
        Some(level) => flate2::Compression::new(level.min(*GZIP_LEVELS.end()) as u32),
        None => flate2::Compression::default(),
    };
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(plain).expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail")
}
