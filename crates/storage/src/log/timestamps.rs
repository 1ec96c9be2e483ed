//! Offsets by time: what ListOffsets asks.

use fencepost_types::{LeaderEpoch, Millis, Offset};

use super::Log;
use super::read::{damaged, find_batch};
use crate::error::{ReadError, StorageError};
use crate::scan::PlacedBatch;
use crate::segment::Segment;

/// A record found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundTimestamp {
    /// The record's timestamp.
    pub timestamp: Millis,
    /// The record's offset.
    pub offset: Offset,
    /// The leader epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}

impl Log {
    /// The first record at or above the log start with a timestamp of at least `timestamp`. `None` if there is none.
    ///
    /// Source: Kafka UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp.
    pub fn offset_for_timestamp(&self, timestamp: Millis) -> Result<Option<FoundTimestamp>, ReadError> {
        self.check_online()?;
        let start = self.log_start_offset;
        let may_have = |segment: &&Segment| segment.largest.timestamp >= timestamp;
        for segment in self.segments_from(start).filter(may_have) {
            let earlier = segment.time_index.below(timestamp);
            let from = earlier.map_or(segment.base_offset, |entry| {
                segment.base_offset.plus(i64::from(entry.relative_offset))
            });
            let is_late = |_: Offset, found: Millis| found >= timestamp;
            if let Some(found) = first_record(segment, from.max(start), start, timestamp, is_late)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The first of the records that have the largest timestamp, among those at or above the log start. `None` if no
    /// record has a timestamp.
    ///
    /// Differs from Kafka: records below the log start are not looked at; no fetch can read them.
    ///
    /// Source: KIP-734, Kafka UnifiedLog.fetchOffsetByTimestamp.
    pub fn max_timestamp(&self) -> Result<Option<FoundTimestamp>, ReadError> {
        self.check_online()?;
        let start = self.log_start_offset;
        let mut found: Option<FoundTimestamp> = None;
        let mut candidates: Vec<&Segment> = self.segments_from(start).collect();
        // Largest first and, of equals, the earliest; the first that holds its maximum above the log start ends it.
        candidates.sort_by_key(|segment| (std::cmp::Reverse(segment.largest.timestamp), segment.base_offset));
        for segment in candidates {
            let largest = segment.largest;
            if largest.timestamp.0 < 0 || found.is_some_and(|found| found.timestamp >= largest.timestamp) {
                break;
            }
            let best = largest_record(segment, start)?;
            let is_better =
                |best: &FoundTimestamp| found.is_none_or(|found| best.timestamp > found.timestamp);
            found = best.filter(is_better).or(found);
        }
        Ok(found)
    }
}

/// The record of the largest timestamp of a segment, among those at or above `start`.
fn largest_record(segment: &Segment, start: Offset) -> Result<Option<FoundTimestamp>, StorageError> {
    let largest = segment.largest;
    if largest.offset >= start {
        let is_it = |_: Offset, found: Millis| found == largest.timestamp;
        let found = first_record(segment, largest.offset, start, largest.timestamp, is_it)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    // The log start lies beyond it: look at what is left, batch by batch.
    let Some(first) = find_batch(segment, start)? else { return Ok(None) };
    let mut best: Option<FoundTimestamp> = None;
    let mut scan = segment.ordered_walk_from(first.position);
    while let Some(batch) = scan.next()? {
        if best.is_none_or(|best| batch.header.max_timestamp > best.timestamp) {
            best_of_batch(segment, &batch, start, &mut best)?;
        }
    }
    if scan.position() < segment.bytes { Err(damaged(segment, scan.position())) } else { Ok(best) }
}

fn best_of_batch(
    segment: &Segment,
    batch: &PlacedBatch,
    start: Offset,
    best: &mut Option<FoundTimestamp>,
) -> Result<(), StorageError> {
    visit_records(segment, batch, |offset, timestamp| {
        if offset >= start && timestamp.0 >= 0 && best.is_none_or(|best| timestamp > best.timestamp) {
            *best = Some(FoundTimestamp { timestamp, offset, leader_epoch: batch.header.leader_epoch });
        }
    })
}

/// The first record at or above `start` that is `wanted`, looking at the batches from `from` on whose largest timestamp is at
/// least `timestamp`.
fn first_record(
    segment: &Segment,
    from: Offset,
    start: Offset,
    timestamp: Millis,
    wanted: impl Fn(Offset, Millis) -> bool,
) -> Result<Option<FoundTimestamp>, StorageError> {
    let Some(first) = find_batch(segment, from)? else { return Ok(None) };
    let mut scan = segment.ordered_walk_from(first.position);
    while let Some(batch) = scan.next()? {
        if batch.header.max_timestamp < timestamp {
            continue;
        }
        let mut found = None;
        visit_records(segment, &batch, |offset, at| {
            if found.is_none() && offset >= start && wanted(offset, at) {
                let leader_epoch = batch.header.leader_epoch;
                found = Some(FoundTimestamp { timestamp: at, offset, leader_epoch });
            }
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    if scan.position() < segment.bytes { Err(damaged(segment, scan.position())) } else { Ok(None) }
}

/// Shows offset and timestamp of each record of a batch, in order.
fn visit_records(
    segment: &Segment,
    batch: &PlacedBatch,
    mut visit: impl FnMut(Offset, Millis),
) -> Result<(), StorageError> {
    let corrupt = |problem: String| StorageError::Corrupt { path: segment.log_path().to_owned(), problem };
    let whole = segment.walk_from(0).batch(batch)?;
    let whole = whole.ok_or_else(|| corrupt(format!("the batch at byte {} is gone", batch.position)))?;
    let header = *whole.header();
    let walked = whole.walk_records(|record| {
        visit(header.record_offset(record.offset_delta), header.record_timestamp(record.timestamp_delta));
    });
    walked.map_err(|error| corrupt(format!("the batch at byte {}: {error}", batch.position)))
}
