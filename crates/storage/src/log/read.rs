//! Reading records, and the aborted transactions that go with them.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_partition::{AbortedTxn, collect_aborted};
use fencepost_records::{BatchHeader, HEADER_BYTES};
use fencepost_types::Offset;

use super::Log;
use crate::disk::{DiskResult, FilePart};
use crate::error::{ReadError, StorageError};
use crate::scan::{PlacedBatch, Scan};
use crate::segment::Segment;

/// Batches as they stand in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecords {
    /// In memory.
    Held(Bytes),
    /// Where they lie.
    File(FilePart),
}

impl LogRecords {
    /// Their bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::File(part) => part.bytes(),
        }
    }
}

/// Whole batches out of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSlice<R = Bytes> {
    /// The batches, as they stand in the log; empty where none lies below the bound, or fits.
    pub records: R,
    /// Base offset of the first batch: may be below the offset asked for. `None` where there is none.
    pub base_offset: Option<Offset>,
    /// Where to read on: the offset after the last batch, or the offset asked for.
    pub next_offset: Offset,
    /// The base of the segment they came from.
    segment_base: Offset,
    /// Where in the segment the looking ended: the limit of bytes may have cut a batch in two, which is not in `records`.
    end_position: u64,
}

impl<R> ReadSlice<R> {
    fn empty(records: R, offset: Offset, segment_base: Offset, end_position: u64) -> Self {
        Self { records, base_offset: None, next_offset: offset, segment_base, end_position }
    }

    fn with<T>(self, records: impl FnOnce(R) -> T) -> ReadSlice<T> {
        let Self { records: all, base_offset, next_offset, segment_base, end_position } = self;
        ReadSlice { records: records(all), base_offset, next_offset, segment_base, end_position }
    }
}

impl Log {
    /// Reads whole batches of one segment from the one that holds `offset` on, all of them below `end_bound`: at most
    /// `bytes_max` bytes, but with `min_one_message` the first batch whatever its size. After a compaction the first batch
    /// may lie beyond `offset`.
    ///
    /// Errors: [`ReadError::OffsetOutOfRange`] below the log start and above the log end.
    ///
    /// Source: Kafka LocalLog.read, LogSegment.read.
    pub fn read(
        &self,
        offset: Offset,
        bytes_max: usize,
        end_bound: Offset,
        min_one_message: bool,
    ) -> Result<ReadSlice, ReadError> {
        let slice = self.find(offset, bytes_max, end_bound, min_one_message, usize::MAX)?;
        Ok(slice.with(|records| match records {
            LogRecords::Held(bytes) => bytes,
            LogRecords::File(_) => unreachable!("whatever its size, it was to be held"),
        }))
    }

    /// The same, but what may be more than `held_bytes_max` is left where it lies: only the headers are looked at.
    ///
    /// Errors: as [`Log::read`].
    pub fn find(
        &self,
        offset: Offset,
        bytes_max: usize,
        end_bound: Offset,
        min_one_message: bool,
        held_bytes_max: usize,
    ) -> Result<ReadSlice<LogRecords>, ReadError> {
        self.check_range(offset)?;
        let nothing = || ReadSlice::empty(LogRecords::Held(Bytes::new()), offset, self.floor_base(offset), 0);
        if offset >= end_bound {
            return Ok(nothing());
        }
        for segment in self.segments_from(offset) {
            if let Some(first) = find_batch(segment, offset)? {
                let first_bytes = first.header.total_bytes();
                let limit = if min_one_message { bytes_max.max(first_bytes) } else { bytes_max };
                let available = (segment.bytes - first.position).min(limit as u64) as usize;
                let wanted = Wanted { offset, end_bound, position: first.position, available };
                let may_be_held = available <= held_bytes_max;
                return if may_be_held { hold(segment, &wanted) } else { leave(segment, &wanted) };
            }
        }
        Ok(nothing())
    }

    /// The aborted transactions that a reader of `slice`, which [`Log::read`] gave for `offset`, must know, ordered by their
    /// first offsets. May name some beyond the data.
    ///
    /// Source: Kafka LocalLog.addAbortedTransactions.
    pub fn aborted_transactions<R>(&self, offset: Offset, slice: &ReadSlice<R>) -> Vec<AbortedTxn> {
        let upper_bound = self.upper_bound(slice);
        let from = self.segments.partition_point(|segment| segment.base_offset < slice.segment_base);
        self.collect(offset, upper_bound, from)
    }

    /// The aborted transactions that overlap `[from, to)`, in order of their first offsets: for readers that know the range.
    pub fn aborted_transactions_in(&self, from: Offset, to: Offset) -> Vec<AbortedTxn> {
        self.collect(from, to, self.floor_index(from).unwrap_or(0))
    }

    fn collect(&self, from: Offset, upper_bound: Offset, first_segment: usize) -> Vec<AbortedTxn> {
        let segments = self.segments.get(first_segment..).unwrap_or(&[]);
        // What ended before the range is of no use; a long index is not walked from its start for every read.
        let entries = segments.iter().flat_map(|segment| {
            let entries = segment.txn_index.entries();
            entries.split_at(entries.partition_point(|entry| entry.last_offset < from)).1
        });
        let entries = entries.copied();
        let Ok(found) = collect_aborted(from, upper_bound, entries.map(Ok::<_, Infallible>));
        found
    }

    /// The offset that nothing in `slice` reaches: told by bytes, not by the batches, as Kafka does (producer-state trap
    /// 28).
    fn upper_bound<R>(&self, slice: &ReadSlice<R>) -> Offset {
        let at = self.segments.partition_point(|segment| segment.base_offset < slice.segment_base);
        let Some(segment) = self.segments.get(at).filter(|found| found.base_offset == slice.segment_base)
        else {
            return slice.next_offset;
        };
        let entry = segment.offset_index.ceiling_position(slice.end_position);
        let next_base = self.segments.get(at + 1).map_or(self.log_end_offset, |next| next.base_offset);
        let bound = entry.map(|entry| segment.base_offset.plus(i64::from(entry.relative_offset)));
        bound.unwrap_or(next_base).max(slice.next_offset)
    }

    pub(super) fn check_range(&self, offset: Offset) -> Result<(), ReadError> {
        self.check_online()?;
        if offset < self.log_start_offset || offset > self.log_end_offset {
            return Err(ReadError::OffsetOutOfRange {
                offset,
                log_start_offset: self.log_start_offset,
                log_end_offset: self.log_end_offset,
            });
        }
        Ok(())
    }

    /// The position among the segments of the one whose range holds `offset`.
    pub(super) fn floor_index(&self, offset: Offset) -> Option<usize> {
        self.segments.partition_point(|segment| segment.base_offset <= offset).checked_sub(1)
    }

    fn floor_base(&self, offset: Offset) -> Offset {
        self.floor_index(offset).map_or(offset, |at| self.segments[at].base_offset)
    }

    /// The segments with data that may hold `offset` or what comes after it.
    pub(super) fn segments_from(&self, offset: Offset) -> impl Iterator<Item = &Segment> {
        let from = self.floor_index(offset).unwrap_or(0);
        self.segments.get(from..).unwrap_or(&[]).iter().filter(|segment| segment.bytes > 0)
    }
}

/// The first batch of `segment` that ends at or after `offset`; `None` if all end before. The index is believed if the
/// batch it points at is the one it names; else the walk begins at the segment's start (L5).
pub(super) fn find_batch(segment: &Segment, offset: Offset) -> Result<Option<PlacedBatch>, StorageError> {
    let relative = offset.0.saturating_sub(segment.base_offset.0);
    if let Some(entry) = segment.offset_index.floor(relative) {
        let named = segment.base_offset.plus(i64::from(entry.relative_offset));
        let mut scan = segment.ordered_search_from(entry.position as u64);
        if let Some(first) = scan.next()?.filter(|first| first.header.last_offset() == named) {
            return walk_to(segment, scan, Some(first), offset);
        }
    }
    walk_to(segment, segment.ordered_search_from(0), None, offset)
}

/// Base offset and length stand outside the checksum, and headers are all that is read here. So an answer that leaves offsets
/// out is looked at twice: what leaps ahead must not overlap what follows, and what ends early must be whole.
fn walk_to(
    segment: &Segment,
    mut scan: Scan<'_>,
    first: Option<PlacedBatch>,
    offset: Offset,
) -> Result<Option<PlacedBatch>, StorageError> {
    let is_named = first.is_some();
    let mut previous: Option<PlacedBatch> = None;
    let mut next = first.map_or_else(|| scan.next(), |first| Ok(Some(first)))?;
    while let Some(batch) = next.filter(|batch| batch.header.last_offset() < offset) {
        previous = Some(batch);
        next = scan.next()?;
    }
    if next.is_none() && scan.position() < segment.bytes {
        return Err(damaged(segment, scan.position()));
    }
    let begins = next.map_or(segment.end_offset, |batch| batch.header.base_offset);
    if let Some(previous) = previous.filter(|_| offset < begins)
        && !scan.is_intact(&previous)?
    {
        return Err(damaged(segment, previous.position));
    }
    let Some(batch) = next else { return Ok(None) };
    let expected = previous.map_or(segment.base_offset, |previous| previous.header.next_offset());
    let is_leap = begins > expected && (previous.is_some() || !is_named);
    if is_leap && scan.next()?.is_none() && scan.position() < segment.bytes {
        return Err(damaged(segment, batch.position));
    }
    Ok(Some(batch))
}

pub(super) fn damaged(segment: &Segment, position: u64) -> StorageError {
    StorageError::Corrupt {
        path: segment.log_path().to_owned(),
        problem: format!("there is no batch at byte {position}, before the end at {}", segment.bytes),
    }
}

/// What was durable is not there: nothing follows the segment's `end`.
pub(super) fn missing(segment: &Segment, end: Offset, durable_end: Offset) -> StorageError {
    StorageError::Corrupt {
        path: segment.log_path().to_owned(),
        problem: format!("offsets {end} to {} are missing, which were durable", durable_end.0 - 1),
    }
}

/// Whether a batch may stand behind a gap, which compaction leaves: it lies ahead of `previous` and what follows it lies ahead
/// of it. That is the one case in which a reader looks at a header more.
fn follows_leap(
    segment: &Segment,
    header: &BatchHeader,
    previous: Option<BatchHeader>,
    position: u64,
) -> Result<bool, StorageError> {
    if previous.is_some_and(|previous| header.base_offset < previous.next_offset()) {
        return Ok(false);
    }
    let mut scan = segment.ordered_search_from(position);
    let is_there = scan.next()?.is_some();
    Ok(is_there && (scan.next()?.is_some() || scan.position() == segment.bytes))
}

/// What is wanted of a segment.
struct Wanted {
    offset: Offset,
    end_bound: Offset,
    /// Where its first batch begins.
    position: u64,
    /// Bytes from there on that may be taken.
    available: usize,
}

fn hold(segment: &Segment, wanted: &Wanted) -> Result<ReadSlice<LogRecords>, ReadError> {
    let read = segment.log.read(wanted.position, wanted.available)?;
    if read.len() < wanted.available {
        return Err(damaged(segment, wanted.position + read.len() as u64).into());
    }
    let header_at = |at| Ok(read.get(at..).and_then(|rest| rest.first_chunk().copied()));
    let slice = whole_batches(segment, wanted, header_at)?;
    Ok(slice.with(|whole| LogRecords::Held(read.slice(..whole))))
}

fn leave(segment: &Segment, wanted: &Wanted) -> Result<ReadSlice<LogRecords>, ReadError> {
    let mut scan = segment.search_from(wanted.position);
    let end = wanted.position + wanted.available as u64;
    let slice = whole_batches(segment, wanted, |at| scan.header_at(wanted.position + at as u64, end))?;
    Ok(slice.with(|whole| LogRecords::File(FilePart::new(Arc::clone(&segment.log), wanted.position, whole))))
}

/// How many bytes of what is wanted are whole batches below the bound. `header_at` gives the header at a byte, counted from
/// the first batch; `None` where it would end beyond what may be taken.
fn whole_batches(
    segment: &Segment,
    wanted: &Wanted,
    mut header_at: impl FnMut(usize) -> DiskResult<Option<[u8; HEADER_BYTES]>>,
) -> Result<ReadSlice<usize>, ReadError> {
    let end_position = wanted.position + wanted.available as u64;
    let mut slice = ReadSlice::empty(0, wanted.offset, segment.base_offset, end_position);
    let mut previous = None::<BatchHeader>;
    while let Some(bytes) = header_at(slice.records)? {
        let (whole, position) = (slice.records, wanted.position + slice.records as u64);
        let Ok(header) = BatchHeader::parse(&bytes) else {
            return Err(damaged(segment, position).into());
        };
        // The base offset stands outside the checksum: no client would see that it was damaged.
        let goes_on = previous.is_none_or(|previous| header.base_offset == previous.next_offset())
            || previous == Some(header)
            || follows_leap(segment, &header, previous, position)?;
        if !goes_on || header.last_offset() >= segment.end_offset {
            return Err(damaged(segment, position).into());
        }
        previous = Some(header);
        if header.last_offset() >= wanted.end_bound {
            slice.end_position = position;
            break;
        }
        if header.total_bytes() > wanted.available - whole {
            break;
        }
        slice.base_offset.get_or_insert(header.base_offset);
        slice.next_offset = slice.next_offset.max(header.next_offset());
        slice.records += header.total_bytes();
    }
    Ok(slice)
}
