//! What a cleaning is told before it begins: which segments, up to where, and what it must spare.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use fencepost_partition::{AbortedTxn, LastRecord};
use fencepost_types::{Millis, Offset, ProducerId};

use crate::disk::{Disk, DiskFile};

/// The cleaner's settings for one log, with Kafka's names. Times are in milliseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerConfig {
    /// `delete.retention.ms`: how long tombstones and markers stay once they could go.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`: nothing younger is cleaned.
    pub min_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`: a log that is cleaner than this is left alone.
    pub min_cleanable_dirty_ratio: f64,
    /// `log.cleaner.dedupe.buffer.size`: memory for the keys of one pass. What does not fit is left to the next one.
    pub dedupe_buffer_bytes: u64,
    /// `log.cleaner.io.buffer.load.factor`: how full that memory may get.
    pub load_factor: f64,
    /// `log.cleaner.io.buffer.size`: bytes read at a time.
    pub io_buffer_bytes: usize,
}

impl Default for CleanerConfig {
    fn default() -> Self {
        Self {
            delete_retention_ms: 86_400_000,
            min_compaction_lag_ms: 0,
            min_cleanable_dirty_ratio: 0.5,
            dedupe_buffer_bytes: 134_217_728,
            load_factor: 0.9,
            io_buffer_bytes: 524_288,
        }
    }
}

/// How dirty a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleanable {
    /// Everything below was cleaned before.
    pub first_dirty_offset: Offset,
    /// Where the first segment begins that may not be touched.
    pub end_offset: Offset,
    /// Bytes of segments that were cleaned before.
    pub clean_bytes: u64,
    /// Bytes of segments that were not, and may be now.
    pub cleanable_bytes: u64,
    /// Whether dirty records are older than `max.compaction.lag.ms`: then the ratio does not matter (KIP-354).
    pub is_overdue: bool,
}

impl Cleanable {
    /// The dirty part of what a cleaning would read, 0 to 1.
    pub fn dirty_ratio(&self) -> f64 {
        let all = self.clean_bytes + self.cleanable_bytes;
        if all == 0 { 0.0 } else { self.cleanable_bytes as f64 / all as f64 }
    }

    /// Whether the log is to be cleaned now.
    pub fn is_due(&self, min_cleanable_dirty_ratio: f64) -> bool {
        self.cleanable_bytes > 0 && (self.is_overdue || self.dirty_ratio() > min_cleanable_dirty_ratio)
    }
}

/// A segment as it was when the cleaning began. It is closed: nothing is appended to it any more.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) base_offset: Offset,
    /// Base of the segment after it.
    pub(crate) next_base: Offset,
    pub(crate) bytes: u64,
    pub(crate) offset_entries: usize,
    pub(crate) time_entries: usize,
    pub(crate) log: Arc<dyn DiskFile>,
    pub(crate) log_path: String,
}

/// Everything that a cleaning needs of a log.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: String,
    pub(crate) now: Millis,
    pub(crate) config: CleanerConfig,
    pub(crate) limits: GroupLimits,
    pub(crate) index_interval_bytes: u64,
    /// From the first segment to the last that may be touched.
    pub(crate) sources: Vec<Source>,
    pub(crate) first_dirty: Offset,
    /// Base of the first segment that may not be touched.
    pub(crate) end: Offset,
    /// The aborted transactions that overlap the sources, by first offset.
    pub(crate) aborted: Vec<AbortedTxn>,
    /// The batches that producers' states hang on.
    pub(crate) last_records: BTreeMap<ProducerId, LastRecord>,
    /// Offsets of the snapshots.
    pub(crate) snapshots: BTreeSet<Offset>,
    /// Files that must be durable before anything is replaced: what supersedes a record must not be lost in a crash that
    /// the removal of the record survives.
    pub(crate) unsynced: Vec<Arc<dyn DiskFile>>,
}

/// How large a replacement may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimits {
    /// `segment.bytes`.
    pub(crate) segment_bytes: u64,
    /// `segment.index.bytes`.
    pub(crate) index_bytes: u64,
}

/// Puts neighbours together that fit one segment, by bytes, index bytes and offsets, so that cleaning does not leave ever
/// smaller segments behind. Runs of segments without a batch are left out: there is nothing to replace them with.
///
/// Source: Kafka Cleaner.groupSegmentsBySize.
pub(crate) fn group(sources: &[Source], limits: GroupLimits) -> Vec<Range<usize>> {
    const OFFSET_ENTRY_BYTES: u64 = 8;
    const TIME_ENTRY_BYTES: u64 = 12;
    let fits = |group: &[Source]| {
        let sum = |of: fn(&Source) -> u64| group.iter().map(of).sum::<u64>();
        let span = group[group.len() - 1].next_base.0 - 1 - group[0].base_offset.0;
        let is_empty_tail = group[group.len() - 1].bytes == 0;
        sum(|source| source.bytes) <= limits.segment_bytes
            && sum(|source| source.offset_entries as u64 * OFFSET_ENTRY_BYTES) <= limits.index_bytes
            && sum(|source| source.time_entries as u64 * TIME_ENTRY_BYTES) <= limits.index_bytes
            && (is_empty_tail || span <= i64::from(i32::MAX))
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for at in 0..sources.len() {
        match groups.last_mut().filter(|group| fits(&sources[group.start..=at])) {
            Some(group) => group.end = at + 1,
            None => groups.push(at..at + 1),
        }
    }
    groups.retain(|group| sources[group.clone()].iter().any(|source| source.bytes > 0));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_disk::MemoryDisk;

    const LIMITS: GroupLimits = GroupLimits { segment_bytes: 1_000, index_bytes: 80 };

    /// Segments by base and bytes, each up to the next; the last one ends at `end`.
    fn sources(bases_and_bytes: &[(i64, u64)], end: i64) -> Vec<Source> {
        let log = MemoryDisk::new().create("log").unwrap();
        let ends = bases_and_bytes.iter().skip(1).map(|(base, _)| *base).chain([end]);
        let source = |((base, bytes), end): (&(i64, u64), i64)| Source {
            base_offset: Offset(*base),
            next_base: Offset(end),
            bytes: *bytes,
            offset_entries: 1,
            time_entries: 1,
            log: log.clone(),
            log_path: String::new(),
        };
        bases_and_bytes.iter().zip(ends).map(source).collect()
    }

    /// Neighbours go together as far as they fit, by bytes; one that is too large alone stays alone.
    #[test]
    fn groups_by_bytes() {
        let sources = sources(&[(0, 400), (10, 600), (20, 1), (30, 5_000), (40, 3), (50, 4)], 60);
        assert_eq!(group(&sources, LIMITS), [0..2, 2..3, 3..4, 4..6]);
    }

    /// The index of a group must fit a segment's.
    #[test]
    fn groups_by_index_bytes() {
        let mut sources = sources(&[(0, 1), (10, 1), (20, 1)], 30);
        sources[0].offset_entries = 9;
        assert_eq!(group(&sources, LIMITS), [0..2, 2..3]);
        sources[1].time_entries = 6;
        assert_eq!(group(&sources, LIMITS), [0..1, 1..2, 2..3]);
    }

    /// A segment spans no more offsets than an index can say (storage-formats trap 13); runs without a batch are left out, but
    /// an empty segment goes along with its neighbours.
    #[test]
    fn groups_by_offsets() {
        let span = i64::from(i32::MAX);
        let far = sources(&[(0, 1), (span, 1), (span + 1, 1), (span + 2, 1)], span + 3);
        assert_eq!(group(&far, LIMITS), [0..2, 2..4]);
        let empty = sources(&[(0, 0), (10, 0), (20, 1), (30, 0), (40, 2_000), (50, 0)], 60);
        assert_eq!(group(&empty, LIMITS), [0..4, 4..5]);
        assert_eq!(group(&sources(&[], 0), LIMITS), []);
    }
}
