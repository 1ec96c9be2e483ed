//! The codecs of a batch's payload. Everything after the header is one stream in the codec's own framing.
//!
//! | codec | written | read |
//! |---|---|---|
//! | gzip | level as asked, 6 by default | any members, one after the other |
//! | snappy | xerial stream, blocks of 32 KiB | xerial stream, or one bare block |
//! | lz4 | frame, independent blocks of 64 KiB, no checksums | frame with independent blocks of any size |
//! | zstd | one frame, level as asked, 3 by default | any frames |
//!
//! Decompression goes piece by piece and stops at a limit: a small batch can inflate to gigabytes. Whoever only checks
//! the records never holds more than a piece of them.

use alloc::vec::Vec;
use core::fmt;
use fencepost_types::limits::{
    DECOMPRESSED_BATCH_BYTES_FREE, DECOMPRESSED_BATCH_BYTES_MAX, DECOMPRESSION_RATIO_MAX,
};

use crate::walk::{self, RecordError, RecordShape};

#[cfg(feature = "compression")]
mod decoder;
#[cfg(feature = "compression")]
mod encoder;
#[cfg(feature = "compression")]
mod lz4;
#[cfg(feature = "compression")]
mod snappy;
#[cfg(feature = "compression")]
mod window;
#[cfg(feature = "compression")]
mod xxhash32;
#[cfg(feature = "compression")]
mod zstd;

/// A codec. Source: Kafka CompressionType.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompressionType {
    /// Plain records.
    #[default]
    None,
    /// gzip members.
    Gzip,
    /// Snappy blocks in the xerial stream, or bare.
    Snappy,
    /// LZ4 frame.
    Lz4,
    /// Zstandard frames. Source: KIP-110.
    Zstd,
}

impl CompressionType {
    /// Every codec, in order of its number.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// From the number in the attributes; `None` for 5 to 7 and anything else.
    pub fn from_id(id: i8) -> Option<Self> {
        usize::try_from(id).ok().and_then(|id| Self::ALL.get(id).copied())
    }

    /// The number in the attributes.
    pub fn id(self) -> i8 {
        self as i8
    }

    /// The name in configurations and in the dump tool.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// From its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }
}

impl fmt::Display for CompressionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A codec and how hard it should try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Compression {
    /// The codec.
    pub codec: CompressionType,
    /// The codec's own level; `None` is its default. gzip 1 to 9, zstd −131072 to 22. The others have one level:
    /// what is asked of them changes nothing.
    pub level: Option<i32>,
}

impl Compression {
    /// Plain records.
    pub const NONE: Self = Self { codec: CompressionType::None, level: None };

    /// A codec at its default level.
    pub fn new(codec: CompressionType) -> Self {
        Self { codec, level: None }
    }

    /// The payload of a batch out of its plain records; returned as it is for [`CompressionType::None`].
    ///
    /// Errors: [`CompressionError::Unsupported`] without the feature `compression`.
    pub fn compress(self, plain: &[u8]) -> Result<Vec<u8>, CompressionError> {
        match self.codec {
            CompressionType::None => Ok(plain.to_vec()),
            #[cfg(feature = "compression")]
            _ => Ok(encoder::encode(self, plain)),
            #[cfg(not(feature = "compression"))]
            _ => Err(CompressionError::Unsupported),
        }
    }
}

/// Why a payload does not decompress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressionError {
    /// The bytes are not what the codec writes, or are cut off.
    Corrupt(CompressionType),
    /// The plain records would be larger than this many bytes.
    TooLarge {
        /// The limit that was met.
        bytes_max: usize,
    },
    /// This build has no codecs.
    Unsupported,
}

impl fmt::Display for CompressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(codec) => write!(f, "the records do not decompress as {codec}"),
            Self::TooLarge { bytes_max } => write!(f, "the records inflate to more than {bytes_max} bytes"),
            Self::Unsupported => f.write_str("this build cannot decompress"),
        }
    }
}

impl core::error::Error for CompressionError {}

/// How far a payload may inflate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecompressionLimit {
    ratio_max: usize,
}

impl DecompressionLimit {
    /// For what clients send: small payloads may not inflate to very much.
    pub const PRODUCED: Self = Self { ratio_max: DECOMPRESSION_RATIO_MAX };
    /// For what is in a log already: only the absolute limit, so that logs written by others can be read.
    pub const STORED: Self = Self { ratio_max: usize::MAX };

    /// The most plain bytes for a payload of `compressed_bytes`.
    pub fn bytes_max(self, compressed_bytes: usize) -> usize {
        compressed_bytes
            .saturating_mul(self.ratio_max)
            .clamp(DECOMPRESSED_BATCH_BYTES_FREE, DECOMPRESSED_BATCH_BYTES_MAX)
    }
}

/// The plain records of a payload, all at once. The result grows as the bytes come, never by what they announce.
pub fn decompress(
    codec: CompressionType,
    payload: &[u8],
    limit: DecompressionLimit,
) -> Result<Vec<u8>, CompressionError> {
    match codec {
        CompressionType::None => Ok(payload.to_vec()),
        #[cfg(feature = "compression")]
        _ => decoder::Decoder::new(codec, payload, limit)?.read_all(),
        #[cfg(not(feature = "compression"))]
        _ => {
            let _ = limit;
            Err(CompressionError::Unsupported)
        }
    }
}

/// Walks the records of a payload in any codec, see [`crate::walk()`]. Holds only a piece of the plain records.
pub fn walk(
    codec: CompressionType,
    payload: &[u8],
    limit: DecompressionLimit,
    count: i32,
    visit: impl FnMut(RecordShape),
) -> Result<(), RecordError> {
    match codec {
        CompressionType::None => walk::walk(payload, count, visit),
        #[cfg(feature = "compression")]
        _ => {
            let decoder = decoder::Decoder::new(codec, payload, limit).map_err(RecordError::Compression)?;
            walk::walk_source(&mut window::Window::new(decoder), count, visit)
        }
        #[cfg(not(feature = "compression"))]
        _ => {
            let _ = (limit, count, visit);
            Err(RecordError::Compression(CompressionError::Unsupported))
        }
    }
}

#[cfg(all(test, feature = "compression"))]
pub(crate) mod tests;
