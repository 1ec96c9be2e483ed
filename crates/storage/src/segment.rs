//! One segment: a file of batches and its three indexes.

use std::sync::Arc;

use fencepost_records::BatchHeader;
use fencepost_types::{Millis, Offset};

use crate::config::LogConfig;
use crate::disk::{Disk, DiskFile, DiskResult, join};
use crate::entry_file::EntryFile;
use crate::error::StorageError;
use crate::file_name::{FileKind, offset_file};
use crate::index::{OffsetEntry, OffsetIndex, TimeEntry, TimeIndex, TxnIndex};
use crate::log::{BatchOrder, Gaps};
use crate::scan::{PlacedBatch, Scan};

/// The largest timestamp of a segment and the last offset of the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LargestTimestamp {
    pub(crate) timestamp: Millis,
    pub(crate) offset: Offset,
}

/// At the start after a clean stop the checksums of the newest batches are looked at, unless they are larger than this.
const TAIL_CHECKED_BYTES_MAX: usize = 64 * 1024;

impl LargestTimestamp {
    const NONE: Self = Self { timestamp: Millis::NONE, offset: Offset::NONE };
}

/// One segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: Offset,
    /// The offset after the last batch. Where other segments follow it is a bound: compaction may have removed the last.
    pub(crate) end_offset: Offset,
    /// Bytes of whole batches; the file may have more only while a failed write is being cut off.
    pub(crate) bytes: u64,
    pub(crate) log: Arc<dyn DiskFile>,
    log_path: String,
    pub(crate) offset_index: OffsetIndex,
    pub(crate) time_index: TimeIndex,
    pub(crate) txn_index: TxnIndex,
    pub(crate) largest: LargestTimestamp,
    /// Largest timestamp of the first batch; `None` while there is none, or where it was not looked up.
    first_timestamp: Option<Millis>,
    created: Millis,
    bytes_since_entry: u64,
}

/// Which indexes of an opened segment cannot be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexFaults {
    /// `.index` or `.timeindex`.
    pub(crate) positions: bool,
    /// `.txnindex`.
    pub(crate) transactions: bool,
    /// There is no `.txnindex`: right where nothing was aborted, wrong otherwise.
    pub(crate) transactions_absent: bool,
}

impl Segment {
    /// A new, empty segment in `directory`, the names of its files followed by `suffix`. Removes what is left of an earlier
    /// one with the same names.
    pub(crate) fn create(
        disk: &dyn Disk,
        directory: &str,
        base_offset: Offset,
        suffix: &str,
        now: Millis,
    ) -> DiskResult<Self> {
        let path = |kind| join(directory, &format!("{}{suffix}", offset_file(base_offset, kind)));
        let log = disk.create(&path(FileKind::Log))?;
        let mut segment = Self {
            base_offset,
            end_offset: base_offset,
            bytes: 0,
            log,
            log_path: path(FileKind::Log),
            offset_index: OffsetIndex::absent(path(FileKind::OffsetIndex)),
            time_index: TimeIndex::absent(path(FileKind::TimeIndex)),
            txn_index: TxnIndex::absent(path(FileKind::TxnIndex)),
            largest: LargestTimestamp::NONE,
            first_timestamp: None,
            created: now,
            bytes_since_entry: 0,
        };
        segment.txn_index.remove(disk)?;
        segment.offset_index.ensure_exists(disk)?;
        segment.time_index.ensure_exists(disk)?;
        segment.offset_index.truncate(disk, 0)?;
        segment.time_index.truncate(disk, 0)?;
        // Many segments never get an entry; the first one opens the files again.
        segment.close_indexes();
        Ok(segment)
    }

    /// Gives its files the names followed by `suffix`, the log's first: while that has not got its name, a restart does not
    /// take the segment for live.
    pub(crate) fn rename(&mut self, disk: &dyn Disk, directory: &str, suffix: &str) -> DiskResult<()> {
        let base_offset = self.base_offset;
        let path = |kind| join(directory, &format!("{}{suffix}", offset_file(base_offset, kind)));
        disk.rename(&self.log_path, &path(FileKind::Log))?;
        self.log_path = path(FileKind::Log);
        self.offset_index.rename(disk, path(FileKind::OffsetIndex))?;
        self.time_index.rename(disk, path(FileKind::TimeIndex))?;
        self.txn_index.rename(disk, path(FileKind::TxnIndex))
    }

    /// Opens what is there. `end_bound` is the base of the next segment, if there is one. The indexes are checked as far
    /// as one look at the log allows; nothing is repaired.
    pub(crate) fn open(
        disk: &dyn Disk,
        directory: &str,
        base_offset: Offset,
        end_bound: Option<Offset>,
        now: Millis,
    ) -> Result<(Self, IndexFaults), StorageError> {
        let path = |kind| join(directory, &offset_file(base_offset, kind));
        let log = disk.open(&path(FileKind::Log))?;
        let bytes = log.bytes()?;
        let offset_index = OffsetIndex::load(disk, path(FileKind::OffsetIndex))?;
        let time_index = TimeIndex::load(disk, path(FileKind::TimeIndex))?;
        let txn_index = TxnIndex::load(disk, path(FileKind::TxnIndex))?;
        let whole = offset_index.as_ref().is_some_and(|loaded| loaded.is_whole)
            && time_index.as_ref().is_some_and(|loaded| loaded.is_whole);
        let mut faults = IndexFaults {
            positions: !whole,
            transactions: txn_index.as_ref().is_some_and(|loaded| !loaded.is_whole),
            transactions_absent: txn_index.is_none(),
        };
        let mut segment = Self {
            base_offset,
            end_offset: end_bound.unwrap_or(base_offset),
            bytes,
            log_path: path(FileKind::Log),
            offset_index: EntryFile::or_absent(offset_index, path(FileKind::OffsetIndex)),
            time_index: EntryFile::or_absent(time_index, path(FileKind::TimeIndex)),
            txn_index: EntryFile::or_absent(txn_index, path(FileKind::TxnIndex)),
            largest: LargestTimestamp::NONE,
            first_timestamp: None,
            created: Some(log.modified()?).filter(|at| *at != Millis::NONE).unwrap_or(now),
            bytes_since_entry: 0,
            log,
        };
        segment.offset_index.drop_unused(disk)?;
        segment.time_index.drop_unused(disk)?;
        let offsets = end_bound.map_or(i64::from(i32::MAX) + 1, |end| end.0 - base_offset.0);
        faults.positions |= !segment.offset_index.is_sound(bytes, offsets)
            || !segment.time_index.is_sound(offsets)
            || !segment.last_entry_hits()?;
        faults.transactions |= !segment.txn_index.is_sound(base_offset, base_offset.plus(offsets));
        Ok((segment, faults))
    }

    /// Whether the last `.index` entry points at the batch it names.
    fn last_entry_hits(&self) -> DiskResult<bool> {
        match self.offset_index.entries().last() {
            Some(entry) => self.entry_hits(entry),
            None => Ok(true),
        }
    }

    /// Whether an `.index` entry points at the batch it names.
    pub(crate) fn entry_hits(&self, entry: &OffsetEntry) -> DiskResult<bool> {
        let named = self.base_offset.plus(i64::from(entry.relative_offset));
        let found = self.search_from(entry.position as u64).next()?;
        Ok(found.is_some_and(|batch| batch.header.last_offset() == named))
    }

    /// Whether whole batches follow the last index entry up to the end of the file, and with `is_contiguous` up to the next
    /// segment.
    pub(crate) fn ends_whole(&self, is_contiguous: bool) -> DiskResult<bool> {
        let last_entry = self.offset_index.entries().last();
        let mut walk = self.walk_from(last_entry.map_or(0, |entry| entry.position as u64));
        let mut end_offset = self.base_offset;
        while let Some(batch) = walk.next()? {
            end_offset = batch.header.next_offset();
            if end_offset > self.end_offset || !walk.is_intact(&batch)? {
                return Ok(false);
            }
        }
        Ok(walk.position() == self.bytes && (end_offset == self.end_offset || !is_contiguous))
    }

    /// The offset after the last batch by the headers behind the last index entry; `None` where one cannot be read.
    pub(crate) fn end_by_headers(&self) -> DiskResult<Option<Offset>> {
        let last_entry = self.offset_index.entries().last();
        let mut scan = self.search_from(last_entry.map_or(0, |entry| entry.position as u64));
        let mut end_offset = self.base_offset;
        while let Some(batch) = scan.next()? {
            end_offset = batch.header.next_offset();
        }
        Ok((scan.position() == self.bytes).then_some(end_offset))
    }

    /// Takes the largest timestamp from the time index.
    pub(crate) fn read_largest(&mut self) {
        self.largest = match self.time_index.entries().last() {
            Some(entry) => LargestTimestamp {
                timestamp: entry.timestamp,
                offset: self.base_offset.plus(i64::from(entry.relative_offset)),
            },
            None => LargestTimestamp::NONE,
        };
    }

    /// Learns end, largest timestamp and first timestamp of a segment whose indexes are believed, by walking from the
    /// last entry on, checksums included. Answers the position after the last whole batch; where that is not the end of the
    /// file the rest is no batch, a broken one, or one that cannot follow: see [`BatchOrder`].
    pub(crate) fn read_tail(&mut self, gaps: Gaps) -> DiskResult<u64> {
        self.read_largest();
        self.first_timestamp = self.search_from(0).next()?.map(|batch| batch.header.max_timestamp);
        let last_entry = self.offset_index.entries().last().copied();
        let log = self.log.clone();
        let mut scan = Scan::search(&*log, last_entry.map_or(0, |entry| entry.position as u64), self.bytes);
        let (mut end, mut order) = (scan.position(), BatchOrder::new(self.base_offset, gaps));
        let mut is_named = last_entry.is_some();
        while let Some(batch) = scan.next()? {
            if std::mem::take(&mut is_named) {
                order = BatchOrder::from_named(&batch.header, gaps);
            }
            let is_small = batch.header.total_bytes() <= TAIL_CHECKED_BYTES_MAX;
            if !order.admits(&batch.header) || (is_small && !scan.is_intact(&batch)?) {
                break;
            }
            order.pass(&batch.header);
            end = batch.end();
            self.note_timestamp(&batch.header);
        }
        self.end_offset = order.end_offset();
        self.bytes_since_entry = 0;
        Ok(end)
    }

    /// Walks the batches from a byte position on.
    pub(crate) fn walk_from(&self, position: u64) -> Scan<'_> {
        Scan::walk(&*self.log, position, self.bytes)
    }

    /// Looks for one batch from a byte position on.
    pub(crate) fn search_from(&self, position: u64) -> Scan<'_> {
        Scan::search(&*self.log, position, self.bytes)
    }

    /// The same for readers: it ends before offsets that cannot follow one another in this segment.
    pub(crate) fn ordered_walk_from(&self, position: u64) -> Scan<'_> {
        self.walk_from(position).within(self.base_offset, self.end_offset)
    }

    /// The same for a look-up.
    pub(crate) fn ordered_search_from(&self, position: u64) -> Scan<'_> {
        self.search_from(position).within(self.base_offset, self.end_offset)
    }

    /// The largest timestamp of its first batch, read if need be; `None` where there is no batch.
    pub(crate) fn first_batch_timestamp(&self) -> DiskResult<Option<Millis>> {
        match self.first_timestamp {
            Some(first) => Ok(Some(first)),
            None => Ok(self.search_from(0).next()?.map(|batch| batch.header.max_timestamp)),
        }
    }

    /// A batch that the cleaner has emptied has no record of its time: the time index must not lead there.
    fn note_timestamp(&mut self, header: &BatchHeader) {
        if header.record_count != 0 && header.max_timestamp > self.largest.timestamp {
            self.largest = LargestTimestamp { timestamp: header.max_timestamp, offset: header.last_offset() };
        }
    }

    /// Takes in a batch that stands in the file: the rule for index entries, the same for an append and for a rebuild. An
    /// entry is due once more than `interval_bytes` have come since the last one, so the first batch never has one
    /// (storage-formats §9).
    pub(crate) fn index_batch(&mut self, batch: &PlacedBatch, interval_bytes: u64) {
        self.note_timestamp(&batch.header);
        self.first_timestamp.get_or_insert(batch.header.max_timestamp);
        if self.bytes_since_entry > interval_bytes {
            self.bytes_since_entry = 0;
            let relative = i32::try_from(batch.header.last_offset().0 - self.base_offset.0);
            if let (Ok(relative_offset), Ok(position)) = (relative, i32::try_from(batch.position)) {
                self.offset_index.add(OffsetEntry { relative_offset, position });
                self.add_time_entry();
            }
        }
        self.bytes_since_entry += batch.header.total_bytes() as u64;
        self.bytes = self.bytes.max(batch.end());
        self.end_offset = self.end_offset.max(batch.header.next_offset());
    }

    fn add_time_entry(&mut self) {
        if let Ok(relative_offset) = i32::try_from(self.largest.offset.0 - self.base_offset.0) {
            self.time_index.add(TimeEntry { timestamp: self.largest.timestamp, relative_offset });
        }
    }

    /// Brings the index files up to what is in memory.
    pub(crate) fn write_indexes(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        self.offset_index.write_pending(disk)?;
        self.time_index.write_pending(disk)?;
        self.txn_index.write_pending(disk)
    }

    /// The last words before the segment is closed or followed by another: its largest timestamp goes into the time
    /// index whether an entry is due or not.
    pub(crate) fn finish(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        self.add_time_entry();
        self.offset_index.ensure_exists(disk)?;
        self.time_index.ensure_exists(disk)?;
        self.write_indexes(disk)
    }

    /// Closes the index files of a segment that will not be appended to any more.
    pub(crate) fn close_indexes(&mut self) {
        self.offset_index.close();
        self.time_index.close();
        self.txn_index.close();
    }

    /// Starts the three indexes anew, for a rebuild over the whole file.
    pub(crate) fn clear_indexes(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        self.clear_positions(disk)?;
        self.txn_index.remove(disk)?;
        self.end_offset = self.base_offset;
        Ok(())
    }

    /// Starts `.index` and `.timeindex` anew.
    pub(crate) fn clear_positions(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        self.offset_index.truncate(disk, 0)?;
        self.time_index.truncate(disk, 0)?;
        self.largest = LargestTimestamp::NONE;
        self.first_timestamp = None;
        self.bytes_since_entry = 0;
        Ok(())
    }

    /// Cuts the file at `position` and drops what the indexes say of `end` and beyond.
    pub(crate) fn cut(&mut self, disk: &dyn Disk, position: u64, end: Offset) -> DiskResult<()> {
        self.log.truncate(position)?;
        // What is written there next is not mixed with what was there, whenever the power goes.
        self.log.sync()?;
        self.bytes = position;
        let relative = end.0 - self.base_offset.0;
        let kept = self.offset_index.entries();
        let offsets = kept.partition_point(|entry| {
            i64::from(entry.relative_offset) < relative && (entry.position as u64) < position
        });
        self.offset_index.truncate(disk, offsets)?;
        let kept = self.time_index.entries();
        let times = kept.partition_point(|entry| i64::from(entry.relative_offset) < relative);
        self.time_index.truncate(disk, times)?;
        let kept = self.txn_index.entries().partition_point(|entry| entry.last_offset < end);
        self.txn_index.truncate(disk, kept)
    }

    /// Whether the batch must begin a new segment.
    ///
    /// Source: Kafka LogSegment.shouldRoll.
    pub(crate) fn should_roll(
        &self,
        header: &BatchHeader,
        config: &LogConfig,
        jitter_ms: i64,
        now: Millis,
    ) -> bool {
        let bytes = header.total_bytes() as u64;
        let is_full = self.bytes > config.segment_bytes_max().saturating_sub(bytes);
        let roll_ms = config.roll_ms().saturating_sub(jitter_ms);
        let waited_ms = match self.first_timestamp {
            Some(first) if first.0 >= 0 => header.max_timestamp.since(first),
            Some(_) | None => now.since(self.created),
        };
        is_full
            || (self.bytes > 0 && waited_ms > roll_ms)
            || self.is_index_full(config)
            || header.last_offset().0 - self.base_offset.0 > i64::from(i32::MAX)
    }

    fn is_index_full(&self, config: &LogConfig) -> bool {
        let slots = |entry_bytes: u64| (config.segment_index_bytes / entry_bytes) as usize;
        self.offset_index.entries().len() >= slots(8)
            || self.time_index.entries().len() >= slots(12).saturating_sub(1)
    }

    /// The largest timestamp, that of the batches where the cleaner has left no record, or when the file was last written
    /// where there are none; `None` where nothing is known.
    pub(crate) fn age_timestamp(&self) -> DiskResult<Option<Millis>> {
        if self.largest.timestamp.0 >= 0 {
            return Ok(Some(self.largest.timestamp));
        }
        if let Some(first) = self.first_batch_timestamp()?.filter(|first| first.0 >= 0) {
            return Ok(Some(first));
        }
        Ok(Some(self.log.modified()?).filter(|modified| *modified != Millis::NONE))
    }

    /// The paths of all files that it has.
    pub(crate) fn paths(&self) -> Vec<String> {
        let indexes = [self.offset_index.path(), self.time_index.path(), self.txn_index.path()];
        std::iter::once(self.log_path.as_str()).chain(indexes).map(str::to_owned).collect()
    }

    /// The paths of `.index` and `.timeindex`.
    pub(crate) fn position_paths(&self) -> impl Iterator<Item = &str> {
        [self.offset_index.path(), self.time_index.path()].into_iter()
    }

    /// The path of the `.log`.
    pub(crate) fn log_path(&self) -> &str {
        &self.log_path
    }
}
