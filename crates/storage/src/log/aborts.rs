//! Whether a transaction index says what the log says, as far as looks at single batches show.

use fencepost_partition::AbortedTxn;
use fencepost_records::EndTxnMarker;
use fencepost_types::Offset;

use super::Log;
use super::read::find_batch;
use crate::error::StorageError;
use crate::scan::PlacedBatch;
use crate::segment::Segment;

impl Log {
    /// Whether each entry of the index of the segment at `at` stands for an aborted transaction: a transactional batch of its
    /// producer where it begins, a marker of its producer that aborts where it ends, and an open transaction of another one
    /// at its last stable offset. A flipped bit in an entry would otherwise give the records of an abort to readers.
    ///
    /// Differs from Kafka, which believes whatever has a version and rising offsets.
    pub(super) fn aborts_hit(&self, at: usize) -> Result<bool, StorageError> {
        for entry in self.segments[at].txn_index.entries() {
            if !self.is_abort(at, entry)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_abort(&self, at: usize, entry: &AbortedTxn) -> Result<bool, StorageError> {
        let segment = &self.segments[at];
        let Some(marker) = find_batch(segment, entry.last_offset)? else { return Ok(false) };
        let is_end = marker.header.base_offset == entry.last_offset
            && marker.header.is_control()
            && marker.header.producer_id == entry.producer_id
            && aborts(segment, &marker)?;
        if !is_end {
            return Ok(false);
        }
        let begins = |offset: Offset, is_own: bool| self.begins_transaction(offset, entry, is_own);
        let is_alone = entry.last_stable_offset == entry.last_offset.next();
        Ok(begins(entry.first_offset, true)? && (is_alone || begins(entry.last_stable_offset, false)?))
    }

    /// Whether a transactional batch begins at `offset`, of the entry's producer or of another one. What retention or the
    /// cleaner has taken speaks for nothing.
    fn begins_transaction(
        &self,
        offset: Offset,
        entry: &AbortedTxn,
        is_own: bool,
    ) -> Result<bool, StorageError> {
        let first = self.segments.first().map_or(offset, |first| first.base_offset);
        if offset < first {
            return Ok(true);
        }
        let Some(segment) = self.floor_index(offset).map(|at| &self.segments[at]) else { return Ok(true) };
        let Some(batch) = find_batch(segment, offset)? else { return Ok(true) };
        let header = &batch.header;
        let is_cleaned = header.base_offset > offset;
        let is_data = header.is_transactional() && !header.is_control();
        let is_producer = (header.producer_id == entry.producer_id) == is_own;
        Ok(is_cleaned || (header.base_offset == offset && is_data && is_producer))
    }
}

/// Whether the marker says so. One that the cleaner has emptied no longer does.
fn aborts(segment: &Segment, marker: &PlacedBatch) -> Result<bool, StorageError> {
    if marker.header.record_count == 0 {
        return Ok(true);
    }
    let batch = segment.search_from(marker.position).batch(marker)?;
    let marker = batch.and_then(|batch| EndTxnMarker::from_batch(&batch).ok().flatten());
    Ok(marker.is_some_and(|marker| !marker.result.is_commit()))
}
