//! Counting what a consumer still has to read, by the headers of the batches: no record is looked at.

use std::collections::BTreeMap;

use fencepost_records::BatchHeader;
use fencepost_types::{Offset, ProducerId};

use super::Log;
use super::read::{damaged, find_batch};
use crate::error::ReadError;
use crate::segment::Segment;

/// What [`Log::count_records`] found, and how far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Records that a read_committed consumer gets.
    pub records: u64,
    /// Batches that were looked at.
    pub batches: usize,
    /// Where to go on; the end that was asked for, if it was reached.
    pub next_offset: Offset,
}

impl Log {
    /// Counts the records from `from` up to `end`, which must not be above the last stable offset: those of control batches and
    /// of aborted transactions are left out, and so are offsets that compaction has emptied. Looks at `batches_max` batches
    /// at most, by their headers. Where `from` lies within a batch, what is left of its offsets is counted: after a
    /// compaction there may be fewer records.
    ///
    /// Errors: [`ReadError::OffsetOutOfRange`] below the log start and above the log end.
    pub fn count_records(&self, from: Offset, end: Offset, batches_max: usize) -> Result<Counted, ReadError> {
        self.check_range(from)?;
        let mut headers = Vec::new();
        let mut is_cut = false;
        for segment in self.segments_from(from).take_while(|segment| segment.base_offset < end) {
            is_cut = headers_of(segment, from, end, batches_max, &mut headers)?;
            if is_cut {
                break;
            }
        }
        let reached = headers.last().map_or(from, BatchHeader::next_offset);
        let aborted = self.aborted_by_producer(from, reached);
        let records = headers.iter().map(|header| records_of(header, from, &aborted)).sum();
        let next_offset = if is_cut { reached } else { end.max(from) };
        Ok(Counted { records, batches: headers.len(), next_offset })
    }

    /// First offsets of the aborted transactions in a range, by producer and the offset of the marker.
    fn aborted_by_producer(&self, from: Offset, to: Offset) -> BTreeMap<(ProducerId, Offset), Offset> {
        let aborted = self.aborted_transactions_in(from, to).into_iter();
        aborted.map(|txn| ((txn.producer_id, txn.last_offset), txn.first_offset)).collect()
    }
}

/// Adds the headers of a segment; whether the limit came before the end.
fn headers_of(
    segment: &Segment,
    from: Offset,
    end: Offset,
    batches_max: usize,
    headers: &mut Vec<BatchHeader>,
) -> Result<bool, ReadError> {
    let Some(first) = find_batch(segment, from)? else { return Ok(false) };
    let mut scan = segment.ordered_search_from(first.position);
    while let Some(batch) = scan.next()? {
        if batch.header.base_offset >= end {
            return Ok(false);
        }
        if headers.len() >= batches_max {
            return Ok(true);
        }
        headers.push(batch.header);
    }
    if scan.position() < segment.bytes {
        return Err(damaged(segment, scan.position()).into());
    }
    Ok(false)
}

fn records_of(header: &BatchHeader, from: Offset, aborted: &BTreeMap<(ProducerId, Offset), Offset>) -> u64 {
    if header.is_control() || (header.is_transactional() && is_aborted(header, aborted)) {
        return 0;
    }
    let offsets_left = header.next_offset().0 - header.base_offset.max(from).0;
    i64::from(header.record_count).clamp(0, offsets_left) as u64
}

/// Whether the batch lies in an aborted transaction of its producer: the first one that ends behind it.
fn is_aborted(header: &BatchHeader, aborted: &BTreeMap<(ProducerId, Offset), Offset>) -> bool {
    let producer = header.producer_id;
    let range = (producer, header.base_offset)..=(producer, Offset(i64::MAX));
    aborted.range(range).next().is_some_and(|(_, first_offset)| *first_offset <= header.base_offset)
}
