//! Whole batches out of a closed segment, in order, each checked before anything is decided by it.

use std::sync::Arc;

use bytes::Bytes;
use fencepost_records::{Batch, BatchHeader, HEADER_BYTES};
use fencepost_types::Offset;

use super::plan::Source;
use crate::disk::DiskFile;
use crate::error::StorageError;
use crate::file_name::OFFSET_MAX;

/// A batch larger than this is not cleaned: it would have to be held in memory whole, perhaps twice.
const BATCH_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Bytes read at a time, at least.
const CHUNK_BYTES_MIN: usize = 64 * 1024;
/// Bytes read at a time, at most.
const CHUNK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads a segment from its start to its end.
#[derive(Debug)]
pub(crate) struct BatchReader {
    file: Arc<dyn DiskFile>,
    path: String,
    /// Where the next batch begins.
    position: u64,
    end: u64,
    /// The bytes from there on that were read already.
    chunk: Bytes,
    chunk_bytes: usize,
    /// The next batch begins at this offset or later.
    from: Offset,
    /// The segment's offsets end here.
    end_offset: Offset,
    previous: Option<BatchHeader>,
}

impl BatchReader {
    pub(crate) fn new(source: &Source, io_buffer_bytes: usize) -> Self {
        Self {
            file: source.log.clone(),
            path: source.log_path.clone(),
            position: 0,
            end: source.bytes,
            chunk: Bytes::new(),
            chunk_bytes: io_buffer_bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX),
            from: source.base_offset,
            end_offset: source.next_base,
            previous: None,
        }
    }

    /// The next batch; `None` at the end.
    ///
    /// Errors: [`StorageError::Corrupt`] for anything but a whole batch with the right checksum whose offset and epoch follow
    /// those before it. A damaged batch must not be written again under a new checksum, nor its keys displace others.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, StorageError> {
        loop {
            let found =
                Batch::split_first(&mut self.chunk).map_err(|error| self.corrupt(error.to_string()))?;
            if let Some(batch) = found {
                self.check(&batch)?;
                (self.from, self.previous) = (batch.header().next_offset(), Some(*batch.header()));
                self.position += batch.bytes().len() as u64;
                return Ok(Some(batch));
            }
            if self.position == self.end {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// Whether the batch that came last was the last.
    pub(crate) fn is_at_end(&self) -> bool {
        self.position == self.end
    }

    fn fill(&mut self) -> Result<(), StorageError> {
        let wanted = match self.chunk.len() {
            HEADER_BYTES.. => BatchHeader::parse(&self.chunk)
                .map_err(|error| self.corrupt(error.to_string()))?
                .total_bytes(),
            _ => HEADER_BYTES,
        };
        if wanted > BATCH_BYTES_MAX {
            return Err(self.corrupt(format!("a batch of {wanted} bytes is too large to be cleaned")));
        }
        let left = self.end - self.position;
        let count = left.min(wanted.max(self.chunk_bytes) as u64) as usize;
        self.chunk = self.file.read(self.position, count)?;
        if self.chunk.len() < wanted {
            return Err(self.corrupt("the segment ends inside a batch".to_owned()));
        }
        Ok(())
    }

    fn check(&self, batch: &Batch) -> Result<(), StorageError> {
        batch.verify_crc().map_err(|error| self.corrupt(error.to_string()))?;
        let header = batch.header();
        if !(0..=OFFSET_MAX).contains(&header.base_offset.0) || header.last_offset_delta < 0 {
            return Err(self.corrupt(format!("there is no offset {}", header.base_offset)));
        }
        let is_later = header.base_offset >= self.from && header.last_offset() < self.end_offset;
        let is_newer = self.previous.is_none_or(|previous| header.leader_epoch >= previous.leader_epoch);
        if !(is_later && is_newer) && self.previous.as_ref() != Some(header) {
            let (offset, epoch) = (header.base_offset, header.leader_epoch);
            return Err(self.corrupt(format!("offset {offset} of epoch {epoch} does not follow")));
        }
        Ok(())
    }

    /// What is wrong with the batch at the reader's place.
    pub(crate) fn corrupt(&self, problem: String) -> StorageError {
        let problem = format!("the batch at byte {}: {problem}", self.position);
        StorageError::Corrupt { path: self.path.clone(), problem }
    }
}
