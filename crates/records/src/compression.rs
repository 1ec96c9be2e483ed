//! The codecs of a batch's payload. Everything after the header is one stream in the codec's own framing.
//!
//! | codec | written | read |
//! |---|---|---|
//! | gzip | level as asked, 6 by default | any members, one after the other |
//! | snappy | xerial stream, blocks of 32 KiB | xerial stream, or one bare block |
//! | lz4 | frame, independent blocks of 64 KiB, no checksums | frame with independent blocks of any size |
//! | zstd | one frame, level as asked, 3 by default | any frames |
//!
//! Decompression goes piece by piece: a small batch can inflate to gigabytes. To check records, or to bring them to another
//! codec, no more than a piece of them is held. Only who wants all of them at once is held to a limit.

use alloc::vec::Vec;
use core::fmt;
use fencepost_types::limits::DECOMPRESSED_BATCH_BYTES_MAX;

use crate::walk::{self, RecordError, RecordShape};

mod bound;
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

pub use bound::inflated_bytes_max;

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

/// The plain records of a payload, all at once: at most [`DECOMPRESSED_BATCH_BYTES_MAX`]. The result grows as the bytes come,
/// never by what they announce.
pub fn decompress(codec: CompressionType, payload: &[u8]) -> Result<Vec<u8>, CompressionError> {
    match codec {
        CompressionType::None => Ok(payload.to_vec()),
        #[cfg(feature = "compression")]
        _ => decoder::Decoder::new(codec, payload)?.read_all(DECOMPRESSED_BATCH_BYTES_MAX),
        #[cfg(not(feature = "compression"))]
        _ => Err(CompressionError::Unsupported),
    }
}

/// Walks the records of a payload in any codec, see [`crate::walk()`]. Holds only a piece of the plain records, however many
/// there are; no record of a compressed payload may have more than `record_bytes_max` bytes.
pub fn walk(
    codec: CompressionType,
    payload: &[u8],
    count: i32,
    record_bytes_max: i32,
    visit: impl FnMut(RecordShape),
) -> Result<(), RecordError> {
    match codec {
        CompressionType::None => walk::walk(payload, count, visit),
        #[cfg(feature = "compression")]
        _ => {
            let decoder = decoder::Decoder::new(codec, payload).map_err(RecordError::Compression)?;
            let mut window = window::Window::new(decoder, |_: &[u8]| ());
            walk::walk_source(&mut window, count, record_bytes_max, visit)
        }
        #[cfg(not(feature = "compression"))]
        _ => {
            let _ = (count, record_bytes_max, visit);
            Err(RecordError::Compression(CompressionError::Unsupported))
        }
    }
}

/// What became of a payload that was to be brought to another codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repacked {
    /// The new payload.
    Payload(Vec<u8>),
    /// It would have more bytes than it may; these many were written when that was seen.
    TooLarge(usize),
}

/// [`walk()`], and the same records in another codec. Holds a piece of the plain records and the new payload, which is given up
/// once it is above `bytes_max`.
pub fn repack(
    codec: CompressionType,
    payload: &[u8],
    target: Compression,
    bytes_max: usize,
    count: i32,
    record_bytes_max: i32,
    visit: impl FnMut(RecordShape),
) -> Result<Repacked, RecordError> {
    #[cfg(feature = "compression")]
    {
        let mut out = Some(encoder::Encoder::new(target));
        let mut bytes = 0;
        let mut take = |plain: &[u8]| {
            let Some(encoder) = &mut out else { return };
            encoder.write(plain);
            bytes = encoder.bytes_out();
            if bytes > bytes_max {
                out = None;
            }
        };
        if codec == CompressionType::None {
            walk::walk(payload, count, visit)?;
            take(payload);
        } else {
            let decoder = decoder::Decoder::new(codec, payload).map_err(RecordError::Compression)?;
            walk::walk_source(&mut window::Window::new(decoder, take), count, record_bytes_max, visit)?;
        }
        Ok(match out {
            Some(encoder) => Repacked::Payload(encoder.finish()),
            None => Repacked::TooLarge(bytes),
        })
    }
    #[cfg(not(feature = "compression"))]
    {
        let _ = (codec, payload, target, bytes_max, count, record_bytes_max, visit);
        Err(RecordError::Compression(CompressionError::Unsupported))
    }
}

#[cfg(all(test, feature = "compression"))]
pub(crate) mod tests;
