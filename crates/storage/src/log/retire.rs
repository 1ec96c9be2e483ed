//! What makes a log shorter: retention, DeleteRecords, truncation, deletion.
//!
//! A segment that goes is first renamed, so that no restart finds it, and its files are unlinked later by whoever likes to:
//! unlinking a large file takes time, and is never done under the partition's lock. Readers that have a file open keep it.

use fencepost_types::{Millis, Now, Offset};

use super::Log;
use super::position::KnownPositions;
use crate::disk::{DiskErrorKind, DiskResult};
use crate::error::{ReadError, StorageError};
use crate::file_name::retired_dir;
use crate::segment::Segment;

/// Why retention removed a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetentionReason {
    /// It lies wholly below the log start.
    LogStart,
    /// The log was larger than `retention.bytes`.
    Size,
    /// Its records are older than `retention.ms`.
    Time,
}

/// What has been taken out of a log and is still to be unlinked: paths relative to the log directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Why segments went, oldest first.
    pub segments: Vec<(Offset, RetentionReason)>,
    /// Files to unlink.
    pub files: Vec<String>,
}

impl Log {
    /// Removes the segments that may go: below the log start, by size, by time; only such as lie below the high watermark.
    /// The active one goes too, once it is rolled: a log never has none. `compact` alone removes only what is below the
    /// log start. Afterwards the log starts where its first segment does, if that is further on.
    ///
    /// Source: Kafka UnifiedLog.deleteOldSegments.
    pub fn apply_retention(&mut self, now: Now) -> Result<Retired, StorageError> {
        self.check_online()?;
        let mut retired = Retired::default();
        if self.replacing.is_some() {
            // The segments that are being replaced must stay what they are; the next call finds what is old now.
            return Ok(retired);
        }
        match self.retire_old_segments(now, &mut retired) {
            // What has gone makes room, once it is unlinked; the next call finds the rest.
            Err(error) if error.shortage().is_some() && !retired.files.is_empty() => {}
            done => done?,
        }
        Ok(retired)
    }

    fn retire_old_segments(&mut self, now: Now, retired: &mut Retired) -> Result<(), StorageError> {
        while let Some(reason) = self.retention_reason(now.wall)? {
            if self.segments.len() == 1 {
                self.roll(now.wall)?;
            }
            let base = self.segments[0].base_offset;
            self.retire_first_segment(retired)?;
            retired.segments.push((base, reason));
            self.sync.owe_retirement(self.directory.clone());
            self.start_at(self.log_start_offset.max(self.segments[0].base_offset));
        }
        self.write_epochs()?;
        Ok(())
    }

    /// Why the first segment may go now, if it may.
    fn retention_reason(&self, now: Millis) -> DiskResult<Option<RetentionReason>> {
        let Some(first) = self.segments.first() else { return Ok(None) };
        let next_base = self.segments.get(1).map_or(self.log_end_offset, |next| next.base_offset);
        let is_empty_active = self.segments.len() == 1 && first.base_offset == self.log_end_offset;
        if next_base > self.high_watermark || is_empty_active {
            return Ok(None);
        }
        if self.segments.len() > 1 && next_base <= self.log_start_offset {
            return Ok(Some(RetentionReason::LogStart));
        }
        if !self.config.cleanup_policy.delete {
            return Ok(None);
        }
        let excess = i64::try_from(self.size_bytes()).unwrap_or(i64::MAX) - self.config.retention_bytes;
        if self.config.retention_bytes >= 0 && excess >= i64::try_from(first.bytes).unwrap_or(i64::MAX) {
            return Ok(Some(RetentionReason::Size));
        }
        if self.config.retention_ms >= 0 {
            let is_old = |timestamp: Millis| now.since(timestamp) > self.config.retention_ms;
            if first.age_timestamp()?.is_some_and(is_old) {
                return Ok(Some(RetentionReason::Time));
            }
        }
        Ok(None)
    }

    /// Takes the first segment out: its files get the suffix `.deleted`, the snapshot of the same offset with them. What
    /// is known of producers stays (storage-formats trap 21, L8).
    fn retire_first_segment(&mut self, retired: &mut Retired) -> DiskResult<()> {
        let segment = self.segments.remove(0);
        self.retire_files(&segment, retired)?;
        if self.snapshots.remove(&segment.base_offset) {
            self.retire_snapshot(segment.base_offset, retired)?;
        }
        Ok(())
    }

    pub(super) fn retire_files(&self, segment: &Segment, retired: &mut Retired) -> DiskResult<()> {
        // The log first: an index without its log is removed at the next start, a log without its index is believed.
        segment.paths().into_iter().try_for_each(|path| self.retire_file(path, retired))
    }

    pub(super) fn retire_file(&self, path: String, retired: &mut Retired) -> DiskResult<()> {
        let deleted = format!("{path}.deleted");
        match self.disk.rename(&path, &deleted) {
            Err(error) if error.kind == DiskErrorKind::NotFound => Ok(()),
            renamed => {
                renamed?;
                retired.files.push(deleted);
                Ok(())
            }
        }
    }

    /// The log now starts at `offset`, which is not below where it started.
    fn start_at(&mut self, offset: Offset) {
        self.log_start_offset = self.log_start_offset.max(offset);
        self.high_watermark = self.high_watermark.max(self.log_start_offset);
        self.epochs_changed |= self.epochs.truncate_from_start(self.log_start_offset);
        self.producers.on_log_start(self.log_start_offset);
    }

    /// Raises the log start: what DeleteRecords asks. Segments go with the next [`Log::apply_retention`]. Answers the log
    /// start; an offset below it changes nothing.
    ///
    /// Errors: [`ReadError::OffsetOutOfRange`] above the high watermark.
    ///
    /// Source: KIP-107, Kafka UnifiedLog.maybeIncrementLogStartOffset.
    pub fn delete_records(&mut self, new_log_start_offset: Offset) -> Result<Offset, ReadError> {
        self.check_online()?;
        if new_log_start_offset > self.high_watermark {
            return Err(ReadError::OffsetOutOfRange {
                offset: new_log_start_offset,
                log_start_offset: self.log_start_offset,
                log_end_offset: self.high_watermark,
            });
        }
        if new_log_start_offset > self.log_start_offset {
            self.start_at(new_log_start_offset);
            self.write_epochs().map_err(StorageError::from)?;
        }
        Ok(self.log_start_offset)
    }

    /// Cuts the log to end at `end`: what a follower does whose leader knows less. The whole batch that holds `end` goes,
    /// and the log still ends at `end`: a gap that the next append of the leader fills (storage-formats trap 23).
    /// Producer state is rebuilt. Nothing happens where the log ends at or below `end`.
    ///
    /// Source: Kafka UnifiedLog.truncateTo.
    pub fn truncate_to(&mut self, end: Offset, now: Now) -> Result<Retired, StorageError> {
        self.check_online()?;
        if end >= self.log_end_offset {
            return Ok(Retired::default());
        }
        if self.segments.first().is_none_or(|first| end <= first.base_offset) {
            return self.truncate_fully_and_start_at(end, now);
        }
        self.end_replacement()?;
        self.cleaner_checkpoint = self.cleaner_checkpoint.map(|clean_end| clean_end.min(end));
        let mut retired = Retired::default();
        while let Some(last) = self.segments.pop_if(|last| last.base_offset >= end) {
            self.retire_files(&last, &mut retired)?;
        }
        let disk = self.disk.clone();
        let gaps = self.gaps_of(self.segments.len() - 1, Offset(0));
        let active = self.segments.last_mut().expect("the first segment starts below the end");
        let mut position = 0;
        let log = active.log.clone();
        let mut walk = crate::scan::Scan::walk(&*log, 0, active.bytes);
        while let Some(batch) = walk.next()?.filter(|batch| batch.header.last_offset() < end) {
            position = batch.end();
        }
        active.cut(&*disk, position, end)?;
        active.read_tail(gaps)?;
        self.log_end_offset = end;
        self.log_start_offset = self.log_start_offset.min(end);
        self.high_watermark = self.high_watermark.min(end);
        self.known_positions = KnownPositions::default();
        self.sync.truncate(end);
        self.epochs_changed |= self.epochs.truncate_from_end(end);
        self.write_epochs()?;
        self.remove_snapshots_above(end)?;
        self.rebuild_producers(now.wall)?;
        Ok(retired)
    }

    /// Drops everything, producers too, and starts anew at `offset`: what a follower does whose leader no longer has what
    /// it would need, or that installs a snapshot.
    ///
    /// Source: Kafka UnifiedLog.truncateFullyAndStartAt.
    pub fn truncate_fully_and_start_at(&mut self, offset: Offset, now: Now) -> Result<Retired, StorageError> {
        self.check_online()?;
        self.end_replacement()?;
        self.cleaner_checkpoint = None;
        let mut retired = Retired::default();
        for segment in std::mem::take(&mut self.segments) {
            self.retire_files(&segment, &mut retired)?;
        }
        while let Some(snapshot) = self.snapshots.pop_first() {
            self.retire_snapshot(snapshot, &mut retired)?;
        }
        self.log_start_offset = offset;
        self.log_end_offset = offset;
        self.high_watermark = offset;
        self.known_positions = KnownPositions::default();
        self.producers.clear(offset);
        self.epochs_changed |= self.epochs.truncate_from_end(Offset(0));
        self.sync.truncate(offset);
        self.sync.settle(offset);
        self.create_directory(now.wall)?;
        self.write_epochs()?;
        Ok(retired)
    }

    /// Deletes the partition: its directory is renamed, so that no restart takes it for the partition's. Answers the new
    /// name; [`crate::LogDir::remove_retired`] unlinks it. `unique` is 128 random bits. The log is offline afterwards.
    ///
    /// Source: Kafka LogManager.asyncDelete.
    pub fn delete(&mut self, unique: u128) -> Result<Option<String>, StorageError> {
        self.retire_directory(unique, "delete")
    }

    fn retire_directory(&mut self, unique: u128, suffix: &str) -> Result<Option<String>, StorageError> {
        self.fail("the partition was deleted");
        if self.segments.is_empty() && !self.is_unopened {
            return Ok(None);
        }
        let name = retired_dir(&self.partition, unique, suffix);
        match self.disk.rename(&self.directory, &name) {
            Err(error) if self.is_unopened && error.kind == DiskErrorKind::NotFound => return Ok(None),
            renamed => renamed?,
        }
        self.segments.clear();
        Ok(Some(name))
    }
}
