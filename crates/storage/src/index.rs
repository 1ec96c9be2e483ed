//! The three indexes of a segment: what their entries mean, how they are searched, and what makes one unbelievable.

use fencepost_partition::{ABORTED_TXN_BYTES, AbortedTxn};
use fencepost_types::{Millis, Offset};

use crate::disk::{Disk, DiskResult};
use crate::entry_file::{Entry, EntryFile};

/// `.index`: the batch that ends at this offset starts at this byte (storage-formats trap 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    /// Last offset of the batch less the segment's base.
    pub(crate) relative_offset: i32,
    /// Byte position of the start of that batch.
    pub(crate) position: i32,
}

impl Entry for OffsetEntry {
    const BYTES: usize = 8;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.relative_offset.to_be_bytes());
        out.extend(self.position.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (offset, position) = bytes.split_first_chunk()?;
        Some(Self {
            relative_offset: i32::from_be_bytes(*offset),
            position: i32::from_be_bytes(*position.first_chunk()?),
        })
    }
}

/// `.timeindex`: no record up to this offset has a later timestamp (storage-formats trap 2: it is the last offset of the
/// batch that holds the maximum).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub(crate) timestamp: Millis,
    pub(crate) relative_offset: i32,
}

impl Entry for TimeEntry {
    const BYTES: usize = 12;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.timestamp.0.to_be_bytes());
        out.extend(self.relative_offset.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (timestamp, offset) = bytes.split_first_chunk()?;
        Some(Self {
            timestamp: Millis(i64::from_be_bytes(*timestamp)),
            relative_offset: i32::from_be_bytes(*offset.first_chunk()?),
        })
    }
}

impl Entry for AbortedTxn {
    const BYTES: usize = ABORTED_TXN_BYTES;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(AbortedTxn::encode(self));
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        AbortedTxn::decode(bytes.first_chunk()?).ok()
    }
}

/// The `.index` of a segment.
pub(crate) type OffsetIndex = EntryFile<OffsetEntry>;
/// The `.timeindex` of a segment.
pub(crate) type TimeIndex = EntryFile<TimeEntry>;
/// The `.txnindex` of a segment.
pub(crate) type TxnIndex = EntryFile<AbortedTxn>;

impl OffsetIndex {
    /// Adds an entry; one that does not rise is left out, so that the search stays sound over a log in which a batch was
    /// written twice.
    pub(crate) fn add(&mut self, entry: OffsetEntry) {
        let last = self.entries().last();
        if last
            .is_none_or(|last| last.relative_offset < entry.relative_offset && last.position < entry.position)
        {
            self.push(entry);
        }
    }

    /// The last entry at or below `relative_offset`: scanning starts there.
    pub(crate) fn floor(&self, relative_offset: i64) -> Option<OffsetEntry> {
        let above =
            self.entries().partition_point(|entry| i64::from(entry.relative_offset) <= relative_offset);
        above.checked_sub(1).map(|at| self.entries()[at])
    }

    /// The first entry at or after byte `position`.
    pub(crate) fn ceiling_position(&self, position: u64) -> Option<OffsetEntry> {
        let at = self.entries().partition_point(|entry| (entry.position as u64) < position);
        self.entries().get(at).copied()
    }

    /// Drops the zero entries at the end: unused slots of a file that Kafka had sized in advance (storage-formats
    /// trap 13). The first batch of a segment is never indexed, so no entry is all zeros.
    pub(crate) fn drop_unused(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        let used = self.entries().iter().rposition(|entry| entry.relative_offset != 0 || entry.position != 0);
        let count = used.map_or(0, |last| last + 1);
        if count < self.entries().len() { self.truncate(disk, count) } else { Ok(()) }
    }

    /// Whether offsets and positions rise and stay within a segment of `bytes` bytes that holds `offsets` offsets.
    pub(crate) fn is_sound(&self, bytes: u64, offsets: i64) -> bool {
        let rises = |pair: &[OffsetEntry]| {
            pair[0].relative_offset < pair[1].relative_offset && pair[0].position < pair[1].position
        };
        let within = |entry: &OffsetEntry| {
            (0..offsets).contains(&i64::from(entry.relative_offset))
                && (1..bytes).contains(&(entry.position as u64))
        };
        self.entries().windows(2).all(rises)
            && self.entries().first().is_none_or(within)
            && self.entries().last().is_none_or(within)
    }
}

impl TimeIndex {
    /// Adds an entry unless its timestamp is not above the last one's (or is none).
    pub(crate) fn add(&mut self, entry: TimeEntry) {
        if entry.timestamp > self.entries().last().map_or(Millis::NONE, |last| last.timestamp) {
            self.push(entry);
        }
    }

    /// The last entry with a timestamp below `timestamp`: nothing up to its offset is as late.
    pub(crate) fn below(&self, timestamp: Millis) -> Option<TimeEntry> {
        let at = self.entries().partition_point(|entry| entry.timestamp < timestamp);
        at.checked_sub(1).map(|at| self.entries()[at])
    }

    /// Drops the zero entries at the end: unused slots. A single one may be an entry of its own.
    pub(crate) fn drop_unused(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        let is_zero = |entry: &TimeEntry| entry.timestamp.0 == 0 && entry.relative_offset == 0;
        let used = self.entries().iter().rposition(|entry| !is_zero(entry));
        let count = used.map_or(usize::from(self.entries().len() == 1), |last| last + 1);
        if count < self.entries().len() { self.truncate(disk, count) } else { Ok(()) }
    }

    /// Whether timestamps rise, offsets do not fall, and all stay within a segment that holds `offsets` offsets.
    pub(crate) fn is_sound(&self, offsets: i64) -> bool {
        let rises = |pair: &[TimeEntry]| {
            pair[0].timestamp < pair[1].timestamp && pair[0].relative_offset <= pair[1].relative_offset
        };
        let within = |entry: &TimeEntry| (0..offsets).contains(&i64::from(entry.relative_offset));
        self.entries().windows(2).all(rises)
            && self.entries().first().is_none_or(|first| first.timestamp.0 >= 0 && within(first))
            && self.entries().last().is_none_or(within)
    }
}

impl TxnIndex {
    /// Whether markers rise and lie within `[base, end)`, and no transaction ends before it began.
    pub(crate) fn is_sound(&self, base: Offset, end: Offset) -> bool {
        let plausible = |entry: &AbortedTxn| {
            (base..end).contains(&entry.last_offset)
                && (Offset(0)..=entry.last_offset).contains(&entry.first_offset)
                && entry.producer_id.0 >= 0
                && entry.last_stable_offset <= entry.last_offset.next()
        };
        self.entries().iter().all(plausible)
            && self.entries().windows(2).all(|pair| pair[0].last_offset < pair[1].last_offset)
    }
}
