//! A whole batch as a view of its bytes, and the iterator that cuts a log into batches.

use core::fmt;

use bytes::Bytes;
use fencepost_types::Offset;

use crate::compression::{self, CompressionError, CompressionType};
use crate::header::{ATTRIBUTES_AT, BatchHeader, HEADER_BYTES, LENGTH_MIN, LOG_OVERHEAD_BYTES, MAGIC};
use crate::record::RecordIter;
use crate::walk::{RecordError, RecordShape};

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchError {
    /// Fewer bytes than a header, or than the length announces.
    Truncated,
    /// The length field is below 49.
    Length(i32),
    /// The format is another than 2.
    Magic(i8),
    /// The checksum in the header is not that of the bytes.
    Crc {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// The codec has number 5, 6 or 7.
    UnknownCodec(i8),
    /// The records are not records.
    Record(RecordError),
}

impl BatchError {
    /// Whether nothing is wrong with the batch but that its plain records are more than
    /// [`fencepost_types::limits::DECOMPRESSED_BATCH_BYTES_MAX`]: they can be looked at one after the other, and not held.
    pub fn is_too_large_to_hold(&self) -> bool {
        matches!(self, Self::Record(RecordError::Compression(CompressionError::TooLarge { .. })))
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the bytes end before the batch does"),
            Self::Length(length) => write!(f, "the batch has length {length}, below the least, {LENGTH_MIN}"),
            Self::Magic(magic) => write!(f, "the batch has format {magic}, not {MAGIC}"),
            Self::Crc { stored, computed } => {
                write!(
                    f,
                    "the checksum of the batch is {computed:#010x}, not {stored:#010x} as its header says"
                )
            }
            Self::UnknownCodec(id) => write!(f, "there is no codec {id}"),
            Self::Record(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BatchError {}

impl From<RecordError> for BatchError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl From<CompressionError> for BatchError {
    fn from(error: CompressionError) -> Self {
        Self::Record(RecordError::Compression(error))
    }
}

/// A whole batch: a slice of something larger, with its header read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    header: BatchHeader,
    bytes: Bytes,
}

impl Batch {
    /// Takes the first batch off `rest`. `None` where `rest` is empty or holds only the beginning of a batch; then
    /// `rest` stays as it is. The checksum is not looked at.
    ///
    /// Errors: [`BatchError::Length`], [`BatchError::Magic`]; `rest` stays as it is.
    pub fn split_first(rest: &mut Bytes) -> Result<Option<Self>, BatchError> {
        let Some(total) = first_batch_bytes(rest)? else { return Ok(None) };
        if total > rest.len() {
            return Ok(None);
        }
        let header = BatchHeader::parse(rest)?;
        Ok(Some(Self { header, bytes: rest.split_to(total) }))
    }

    /// The one batch that `bytes` are. Errors: as [`Batch::split_first`], and [`BatchError::Truncated`] where `bytes`
    /// hold less or more than one batch.
    pub fn parse(mut bytes: Bytes) -> Result<Self, BatchError> {
        match Self::split_first(&mut bytes)? {
            Some(batch) if bytes.is_empty() => Ok(batch),
            _ => Err(BatchError::Truncated),
        }
    }

    /// From parts that are known to fit.
    pub(crate) fn from_parts(header: BatchHeader, bytes: Bytes) -> Self {
        assert_eq!(header.total_bytes(), bytes.len(), "a batch has the bytes its length announces");
        Self { header, bytes }
    }

    /// Its header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// All its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// All its bytes.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The records as they stand: plain, or one compressed blob.
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(HEADER_BYTES..)
    }

    /// The first offset of the batch's range.
    pub fn base_offset(&self) -> Offset {
        self.header.base_offset
    }

    /// The last offset of the batch's range.
    pub fn last_offset(&self) -> Offset {
        self.header.last_offset()
    }

    /// Errors: [`BatchError::Crc`].
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        let computed = crc32c::crc32c(&self.bytes[ATTRIBUTES_AT..]);
        if computed == self.header.crc {
            Ok(())
        } else {
            Err(BatchError::Crc { stored: self.header.crc, computed })
        }
    }

    /// The codec. Errors: [`BatchError::UnknownCodec`].
    pub fn compression(&self) -> Result<CompressionType, BatchError> {
        let bits = self.header.attributes.0 & crate::Attributes::COMPRESSION_MASK;
        self.header.compression().ok_or(BatchError::UnknownCodec(bits as i8))
    }

    /// The records, decompressed when needed; then all at once, within
    /// [`fencepost_types::limits::DECOMPRESSED_BATCH_BYTES_MAX`].
    ///
    /// Errors: an unknown codec or a payload that does not decompress here, malformed records from the iterator.
    pub fn records(&self) -> Result<RecordIter, BatchError> {
        Ok(RecordIter::new(self.plain_payload()?, self.header.record_count))
    }

    /// Walks the records without allocating for each; a compressed payload is decompressed piece by piece.
    /// Every byte must be accounted for.
    pub fn walk_records(&self, visit: impl FnMut(RecordShape)) -> Result<(), BatchError> {
        let codec = self.compression()?;
        let payload = &self.bytes[HEADER_BYTES..];
        Ok(compression::walk(codec, payload, self.header.record_count, i32::MAX, visit)?)
    }

    /// The records' bytes, decompressed when needed.
    pub(crate) fn plain_payload(&self) -> Result<Bytes, BatchError> {
        Ok(match self.compression()? {
            CompressionType::None => self.payload(),
            codec => compression::decompress(codec, &self.bytes[HEADER_BYTES..])?.into(),
        })
    }
}

/// Bytes of the batch that begins here, as far as that can be told: `None` below 17 bytes.
pub(crate) fn first_batch_bytes(bytes: &[u8]) -> Result<Option<usize>, BatchError> {
    // Kafka looks at length and magic as soon as 17 bytes are there, so that garbage is not taken for a cut-off tail.
    const MAGIC_AT: usize = 16;
    if bytes.len() <= MAGIC_AT {
        return Ok(None);
    }
    match bytes[MAGIC_AT] as i8 {
        MAGIC => {}
        magic => return Err(BatchError::Magic(magic)),
    }
    match i32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) {
        length @ LENGTH_MIN.. => Ok(Some(length as usize + LOG_OVERHEAD_BYTES)),
        length => Err(BatchError::Length(length)),
    }
}

/// The whole batches of a piece of log, in order. A cut-off batch at the end is left in [`Batches::rest`]; after an
/// error it yields nothing more.
#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
    failed: bool,
}

impl Batches {
    /// Over bytes that begin with a batch.
    pub fn new(bytes: Bytes) -> Self {
        Self { rest: bytes, failed: false }
    }

    /// What has not been yielded yet.
    pub fn rest(&self) -> &Bytes {
        &self.rest
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = Batch::split_first(&mut self.rest).transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

#[cfg(test)]
mod tests;
