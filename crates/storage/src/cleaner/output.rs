//! The segment that a group of segments becomes: written under names that a restart throws away, and durable before it
//! gets others.

use fencepost_partition::AbortedTxn;
use fencepost_records::{Batch, MAGIC};
use fencepost_types::{Millis, Offset};

use crate::disk::{Disk, DiskResult};
use crate::error::StorageError;
use crate::log::segment_files;
use crate::scan::PlacedBatch;
use crate::segment::Segment;

/// Bytes that are written with one call.
const WRITE_BYTES: usize = 512 * 1024;
/// After so many bytes the file is synced on the way: no single sync takes long.
const SYNC_BYTES: u64 = 8 * 1024 * 1024;

/// Suffix of files that the cleaner is writing.
pub(crate) const CLEANED: &str = ".cleaned";
/// Suffix of files that are about to take the place of others.
pub(crate) const SWAP: &str = ".swap";

/// A segment in the making.
#[derive(Debug)]
pub(crate) struct CleanedSegment {
    pub(crate) segment: Segment,
    /// Bytes at the end of the segment that are not in the file yet.
    pending: Vec<u8>,
    /// Bytes of the file that are durable.
    synced: u64,
}

impl CleanedSegment {
    pub(crate) fn create(disk: &dyn Disk, directory: &str, base: Offset, now: Millis) -> DiskResult<Self> {
        let segment = Segment::create(disk, directory, base, CLEANED, now)?;
        Ok(Self { segment, pending: Vec::new(), synced: 0 })
    }

    /// Appends a batch. Errors: [`StorageError::Corrupt`] where the segment would get larger than an index can say.
    pub(crate) fn append(&mut self, batch: &Batch, index_interval_bytes: u64) -> Result<(), StorageError> {
        let placed =
            PlacedBatch { position: self.segment.bytes, header: *batch.header(), magic: MAGIC as u8 };
        if placed.end() > i32::MAX as u64 {
            let problem = "cleaning would make it larger than a segment can be".to_owned();
            return Err(StorageError::Corrupt { path: self.segment.log_path().to_owned(), problem });
        }
        self.segment.index_batch(&placed, index_interval_bytes);
        self.pending.extend_from_slice(batch.bytes());
        if self.pending.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Adds an entry to the transaction index: of a marker that is about to be appended.
    pub(crate) fn index_aborted(&mut self, txn: AbortedTxn) {
        self.segment.txn_index.push(txn);
    }

    fn write(&mut self) -> DiskResult<()> {
        let position = self.segment.bytes - self.pending.len() as u64;
        self.segment.log.write_at(position, &[&self.pending])?;
        self.pending.clear();
        if self.segment.bytes - self.synced >= SYNC_BYTES {
            self.segment.log.sync()?;
            self.synced = self.segment.bytes;
        }
        Ok(())
    }

    /// Makes content and names durable.
    pub(crate) fn finish(&mut self, disk: &dyn Disk, directory: &str) -> DiskResult<()> {
        self.write()?;
        self.segment.finish(disk)?;
        let files = segment_files(&mut self.segment, disk)?;
        files.iter().filter_map(|step| step.file()).try_for_each(|file| file.sync())?;
        self.segment.close_indexes();
        disk.sync_dir(directory)
    }
}
