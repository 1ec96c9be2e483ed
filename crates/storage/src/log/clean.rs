//! What the cleaner needs of a log: how dirty it is, what it consists of, and the moment at which a cleaned segment takes
//! the place of others. See [`crate::cleaner`].

use fencepost_types::{Millis, Now, Offset};

use super::Log;
use super::position::KnownPositions;
use super::retire::Retired;
use crate::cleaner::{Cleanable, CleanerConfig, Cleaning, GroupLimits, Plan, SWAP, Source};
use crate::disk::{DiskResult, remove_if_there};
use crate::error::StorageError;
use crate::file_name::{FileKind, offset_file};
use crate::segment::Segment;

/// How far the replacement of segments has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replacing {
    /// The old ones serve; the new one, with this base, gets its `.swap` names.
    Claimed(Offset),
    /// The new one, with this base, serves under its `.swap` names; the old ones are `.deleted`.
    Serving(Offset),
}

impl Log {
    /// Everything below was cleaned before; `None` where the cleaner never was. It goes into the cleaner checkpoint.
    pub fn cleaner_checkpoint(&self) -> Option<Offset> {
        self.cleaner_checkpoint
    }

    /// Says up to where the log is clean, or that this is not known.
    pub fn set_cleaner_checkpoint(&mut self, clean_end: Option<Offset>) {
        self.cleaner_checkpoint = clean_end;
    }

    /// How dirty the log is, by whole segments: up to the one that holds the last stable offset, is active, or is too young.
    ///
    /// Source: Kafka LogCleanerManager.cleanableOffsets, calculateCleanableBytes, maxCompactionDelay.
    pub fn cleanable(&self, now: Now, config: &CleanerConfig) -> Result<Cleanable, StorageError> {
        let checkpoint = self.cleaner_checkpoint.unwrap_or(self.log_start_offset);
        // A checkpoint outside the log says nothing.
        let is_valid = (self.log_start_offset..=self.log_end_offset).contains(&checkpoint);
        let first_dirty_offset = if is_valid { checkpoint } else { self.log_start_offset };
        let (mut clean_bytes, mut cleanable_bytes, mut is_overdue) = (0, 0, false);
        let mut end_offset = self.segments.first().map_or(first_dirty_offset, |first| first.base_offset);
        for (segment, next) in self.segments.iter().zip(self.segments.iter().skip(1)) {
            let is_dirty = next.base_offset > first_dirty_offset;
            if next.base_offset > self.last_stable_offset()
                || (is_dirty && is_young(segment, now.wall, config))
            {
                break;
            }
            end_offset = next.base_offset;
            if is_dirty {
                cleanable_bytes += segment.bytes;
                is_overdue |= self.is_overdue(segment, now.wall)?;
            } else {
                clean_bytes += segment.bytes;
            }
        }
        Ok(Cleanable { first_dirty_offset, end_offset, clean_bytes, cleanable_bytes, is_overdue })
    }

    /// Whether the segment has waited for longer than `max.compaction.lag.ms` (KIP-354).
    fn is_overdue(&self, segment: &Segment, now: Millis) -> DiskResult<bool> {
        let lag_ms = self.config.max_compaction_lag_ms;
        if lag_ms == i64::MAX {
            return Ok(false);
        }
        let first = segment.first_batch_timestamp()?.filter(|first| first.0 > 0);
        Ok(first.is_some_and(|first| now.since(first) > lag_ms))
    }

    /// Begins to clean what [`Log::cleanable`] says may be cleaned, whatever its ratio; `None` if that is nothing. The log
    /// stays usable; what becomes of it meanwhile ends the cleaning at worst.
    pub fn start_cleaning(&self, now: Now, config: &CleanerConfig) -> Result<Option<Cleaning>, StorageError> {
        self.check_online()?;
        let cleanable = self.cleanable(now, config)?;
        if cleanable.cleanable_bytes == 0 || self.replacing.is_some() {
            return Ok(None);
        }
        let count = self.segments.partition_point(|segment| segment.base_offset < cleanable.end_offset);
        let pairs = self.segments.iter().zip(self.segments.iter().skip(1)).take(count);
        let sources: Vec<Source> = pairs.map(|(segment, next)| source(segment, next.base_offset)).collect();
        let first_base = sources[0].base_offset;
        let is_unsynced = |segment: &&Segment| segment.end_offset > self.durable_end();
        let unsynced = self.segments.iter().filter(is_unsynced).map(|segment| segment.log.clone());
        Ok(Some(Cleaning::new(Plan {
            disk: self.disk.clone(),
            directory: self.directory.clone(),
            now: now.wall,
            config: *config,
            limits: GroupLimits {
                segment_bytes: self.config.segment_bytes_max(),
                index_bytes: self.config.segment_index_bytes,
            },
            index_interval_bytes: self.config.index_interval_bytes,
            sources,
            first_dirty: cleanable.first_dirty_offset,
            end: cleanable.end_offset,
            aborted: self.aborted_transactions_in(first_base, cleanable.end_offset),
            snapshots: self.snapshots.clone(),
            last_records: self.producers.last_records(),
            unsynced: unsynced.collect(),
        })))
    }

    /// Whether `sources` are still in the log as they were. From here to [`Log::name_replacement`] they stay.
    pub(crate) fn claim(&mut self, sources: &[Source]) -> bool {
        let is_free = self.offline.is_none() && self.replacing.is_none();
        if !is_free || self.position_of(sources).is_none() {
            return false;
        }
        self.replacing = Some(Replacing::Claimed(sources[0].base_offset));
        true
    }

    /// Serves `cleaned` in the place of `sources`; the files of those get the suffix `.deleted`, with the snapshots at bases
    /// that are no more. Offsets do not change, so all other snapshots stay what they are. `None` if the log was
    /// truncated meanwhile; else what is to be unlinked later.
    ///
    /// Source: Kafka LocalLog.replaceSegments.
    pub(crate) fn enter(
        &mut self,
        sources: &[Source],
        mut cleaned: Segment,
    ) -> Result<Option<Vec<String>>, StorageError> {
        self.check_online()?;
        let base = sources[0].base_offset;
        let claimed = self.replacing == Some(Replacing::Claimed(base));
        let Some(at) = self.position_of(sources).filter(|_| claimed) else { return Ok(None) };
        cleaned.end_offset = sources[sources.len() - 1].next_base;
        let mut retired = Retired::default();
        let renamed = self.retire_sources(at, sources, &mut retired);
        if let Err(error) = renamed {
            self.fail(format!("segments were being replaced: {error}"));
            return Err(error.into());
        }
        self.segments.splice(at..at + sources.len(), [cleaned]);
        self.known_positions = KnownPositions::default();
        self.replacing = Some(Replacing::Serving(base));
        Ok(Some(retired.files))
    }

    fn retire_sources(&mut self, at: usize, sources: &[Source], retired: &mut Retired) -> DiskResult<()> {
        for (segment, source) in self.segments[at..].iter().zip(sources) {
            self.retire_files(segment, retired)?;
            if source.base_offset > sources[0].base_offset && self.snapshots.remove(&source.base_offset) {
                self.retire_snapshot(source.base_offset, retired)?;
            }
        }
        Ok(())
    }

    /// Gives the segment that serves its own names: the replacement is over. False if the log was truncated meanwhile. The
    /// names of the old segments must be durable before, and these before the next replacement begins.
    pub(crate) fn name_replacement(&mut self) -> Result<bool, StorageError> {
        self.check_online()?;
        let Some(Replacing::Serving(base)) = self.replacing.take() else { return Ok(false) };
        let disk = self.disk.clone();
        let at = self.segments.partition_point(|segment| segment.base_offset < base);
        let segment = self.segments.get_mut(at).filter(|segment| segment.base_offset == base);
        let segment = segment.expect("a log keeps the segment that has replaced others");
        if let Err(error) = segment.rename(&*disk, &self.directory, "") {
            self.fail(format!("segments were being replaced: {error}"));
            return Err(error.into());
        }
        Ok(true)
    }

    /// Before a truncation: a replacement that has been entered is completed, one that has not is forgotten.
    pub(super) fn end_replacement(&mut self) -> Result<(), StorageError> {
        match self.replacing.clone() {
            None => Ok(()),
            Some(Replacing::Serving(_)) => self.name_replacement().map(|_| ()),
            Some(Replacing::Claimed(base)) => {
                self.replacing = None;
                // The log last: without it a restart would take the indexes for those of the old segment.
                for kind in [FileKind::TxnIndex, FileKind::TimeIndex, FileKind::OffsetIndex, FileKind::Log] {
                    let staged = self.path(&format!("{}{SWAP}", offset_file(base, kind)));
                    remove_if_there(&*self.disk, &staged)?;
                }
                Ok(())
            }
        }
    }

    /// Where `sources` are among the segments, if they all are, unchanged, and followed by another.
    fn position_of(&self, sources: &[Source]) -> Option<usize> {
        let at = self.segments.partition_point(|segment| segment.base_offset < sources[0].base_offset);
        let segments = self.segments.get(at..at + sources.len() + 1)?;
        let is_same = |(segment, source): (&Segment, &Source)| {
            std::sync::Arc::ptr_eq(&segment.log, &source.log) && segment.bytes == source.bytes
        };
        segments.iter().zip(sources).all(is_same).then_some(at)
    }
}

/// Whether the segment has records that are too young to be cleaned.
fn is_young(segment: &Segment, now: Millis, config: &CleanerConfig) -> bool {
    let lag_ms = config.min_compaction_lag_ms;
    lag_ms > 0 && now.since(segment.largest.timestamp) < lag_ms
}

fn source(segment: &Segment, next_base: Offset) -> Source {
    Source {
        base_offset: segment.base_offset,
        next_base,
        bytes: segment.bytes,
        offset_entries: segment.offset_index.entries().len(),
        time_entries: segment.time_index.entries().len(),
        log: segment.log.clone(),
        log_path: segment.log_path().to_owned(),
    }
}
