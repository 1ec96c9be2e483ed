//! A walk over the batches of a file, as far as there are any.

use bytes::Bytes;
use fencepost_records::{Batch, BatchHeader, HEADER_BYTES, LENGTH_MIN, LOG_OVERHEAD_BYTES, MAGIC};
use fencepost_storage::DiskResult;

use super::row::BatchRow;
use super::window::FileWindow;

const LENGTH_AT: usize = 8;
const MAGIC_AT: usize = 16;
const CHECKSUMMED_FROM: u64 = 21;
/// The least length that Kafka's reader takes: that of the oldest format.
const KAFKA_LENGTH_MIN: i32 = 14;
/// Kafka looks at a batch's length and magic once so many bytes are there.
const PEEK_BYTES: u64 = 17;
/// A larger batch is not looked into.
pub(super) const BATCH_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// What begins at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole batch. Its length may be below the least: then there are no records to look at.
    Batch(BatchRow),
    /// Nothing: the end.
    End,
    /// Fewer bytes than a header, or than the length announces.
    Torn,
    /// A length that no batch of any format has.
    Length(i32),
    /// A format before 2.
    Magic(i8),
}

/// The batch at a position, if it ends at or before `end`. Its checksum is not looked at: [`BatchRow::is_valid`] speaks of
/// the length alone.
pub(super) fn batch_at(file: &mut FileWindow, position: u64, end: u64) -> DiskResult<Found> {
    let end = end.min(file.bytes());
    if position >= end {
        return Ok(Found::End);
    }
    let left = end - position;
    if left <= PEEK_BYTES {
        return Ok(Found::Torn);
    }
    let Some(peek) = file.at(position, PEEK_BYTES as usize)? else { return Ok(Found::Torn) };
    let length = i32::from_be_bytes(*peek[LENGTH_AT..].first_chunk().expect("17 bytes hold a length"));
    let magic = peek[MAGIC_AT] as i8;
    if length < KAFKA_LENGTH_MIN {
        return Ok(Found::Length(length));
    }
    if length as u64 + LOG_OVERHEAD_BYTES as u64 > left {
        return Ok(Found::Torn);
    }
    if magic < MAGIC {
        return Ok(Found::Magic(magic));
    }
    let Some(bytes) = file.at(position, HEADER_BYTES)? else { return Ok(Found::Torn) };
    let mut header: [u8; HEADER_BYTES] = *bytes.first_chunk().expect("as many bytes as asked for");
    // The format's number lies outside the checksum, and Kafka reads whatever is above 2 as 2.
    header[MAGIC_AT] = MAGIC as u8;
    header[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.max(LENGTH_MIN).to_be_bytes());
    let mut header = BatchHeader::parse(&header).expect("length and format are a batch's");
    header.batch_length = length;
    Ok(Found::Batch(BatchRow { position, header, magic, is_valid: length >= LENGTH_MIN }))
}

/// The checksum of the batch's bytes.
pub(super) fn computed_crc(file: &mut FileWindow, batch: &BatchRow) -> DiskResult<u32> {
    file.crc32c(batch.position + CHECKSUMMED_FROM, batch.end())
}

/// The whole batch, for looking into it; `None` where the file has become shorter. The caller has looked at its size.
pub(super) fn whole_batch(file: &FileWindow, batch: &BatchRow) -> DiskResult<Option<Batch>> {
    let mut bytes = file.copy(batch.position, batch.header.total_bytes())?;
    if let Some(magic) = bytes.get_mut(MAGIC_AT) {
        *magic = MAGIC as u8;
    }
    Ok(Batch::parse(Bytes::from(bytes)).ok())
}

impl BatchRow {
    /// Where the next batch begins.
    pub(super) fn end(&self) -> u64 {
        self.position + self.header.total_bytes() as u64
    }

    /// Whether its length is a batch's.
    pub(super) fn is_whole(&self) -> bool {
        self.header.batch_length >= LENGTH_MIN
    }

    /// Whether it can be looked into: whole, and not too large.
    pub(super) fn can_be_read(&self) -> bool {
        self.is_whole() && self.header.total_bytes() as u64 <= BATCH_BYTES_MAX
    }
}
