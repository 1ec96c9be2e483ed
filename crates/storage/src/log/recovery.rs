//! Opening a log: what is there, what of it can be believed, and making the rest anew out of the batches.
//!
//! After a clean stop the log itself is believed, and the indexes after a look at them. After a crash every segment from the
//! one that holds the recovery point on is walked, checksums and all; the first batch that is not whole ends the log.

use std::sync::Arc;

use fencepost_partition::AbortedTxn;
use fencepost_types::{Millis, Now, Offset, TopicPartition, Uuid};

use super::BatchOrder;
use super::leftovers::{LiveFiles, settle};
use super::old_format::refuse_old_format;
use super::read::{damaged, find_batch, missing};
use super::report::Cut;
use super::sync::{FlushScope, SyncStep};
use super::torn::is_torn_tail;
use super::{EPOCH_FILE, Log, METADATA_FILE, segment_files};
use crate::config::LogConfig;
use crate::disk::{Disk, DiskErrorKind, DiskFile, DiskResult, read_whole, remove_if_there};
use crate::error::StorageError;
use crate::file_name::OFFSET_MAX;
use crate::leader_epochs::LeaderEpochs;
use crate::scan::{PlacedBatch, Scan};
use crate::segment::{IndexFaults, Segment};
use crate::text_file::{TEXT_FILE_BYTES_MAX, parse_epochs, parse_partition_metadata};

/// What the log directory says of a log before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the clean-shutdown mark was there. The metadata log never uses it.
    pub clean: bool,
    /// From the recovery-point checkpoint; 0 where it says nothing.
    pub recovery_point: Offset,
    /// From the log-start checkpoint; 0 where it says nothing.
    pub log_start_offset: Offset,
    /// From the high-watermark checkpoint; 0 where it says nothing.
    pub high_watermark: Offset,
    /// From the cleaner checkpoint; `None` where it says nothing.
    pub cleaner_checkpoint: Option<Offset>,
}

impl Recovery {
    /// The offset below which everything was durable when it was noted. No crash takes away what lies below: what is missing
    /// there was damaged. That is not the high watermark: Kafka's is not durable when it is noted.
    pub(crate) fn durable_end(&self) -> Offset {
        self.recovery_point
    }
}

impl Log {
    /// Opens the log of a partition. Without a directory it is empty and stays without one until the first append (L4).
    /// After an unclean stop what was recovered is synced before this returns, so the whole log is durable.
    ///
    /// What was cut off and made anew on the way is in [`Log::recovery_report`].
    ///
    /// Errors: [`StorageError::TopicId`] where the directory belongs to another topic; [`StorageError::Corrupt`] where
    /// batches are missing or broken below what was durable. No recovery cuts those away: the `.log` files stay as they are.
    ///
    /// Source: Kafka LogLoader.load.
    pub fn open(
        disk: Arc<dyn Disk>,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        recovery: Recovery,
        now: Now,
    ) -> Result<Self, StorageError> {
        let log_start_offset = Offset(recovery.log_start_offset.0.clamp(0, OFFSET_MAX));
        let recovery = Recovery { log_start_offset, ..recovery };
        let mut log = Self::absent(disk, partition, topic_id, config, Offset(0));
        match log.disk.list(&log.directory) {
            Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(log),
            listed => listed?,
        };
        log.cleaner_checkpoint = recovery.cleaner_checkpoint;
        log.check_metadata(recovery.durable_end())?;
        let live = settle(&*log.disk, &log.directory)?;
        log.snapshots = live.snapshots.clone();
        log.load(&live, recovery, now)?;
        Ok(log)
    }

    /// A directory without a readable `partition.metadata` gets one: the caller knows whose it is. But where data was durable,
    /// that file was before it.
    fn check_metadata(&mut self, durable_end: Offset) -> Result<(), StorageError> {
        let content = read_whole(&*self.disk, &self.path(METADATA_FILE), TEXT_FILE_BYTES_MAX)?;
        let text = content.map(|content| String::from_utf8_lossy(&content).into_owned());
        match text.as_deref().and_then(parse_partition_metadata) {
            Some(found) if found == self.topic_id => Ok(()),
            Some(found) => {
                let (directory, expected) = (self.directory.clone(), self.topic_id);
                Err(StorageError::TopicId { directory, expected, found })
            }
            None if durable_end > Offset(0) && !self.is_metadata() && self.has_data()? => {
                Err(StorageError::Corrupt {
                    path: self.path(METADATA_FILE),
                    problem: format!(
                        "it does not say whose data this is (topic id {} is expected)",
                        self.topic_id
                    ),
                })
            }
            None => Ok(self.write_metadata()?),
        }
    }

    /// There is only one metadata log, and it is ours.
    fn is_metadata(&self) -> bool {
        self.topic_id == Uuid::METADATA_TOPIC
    }

    fn has_data(&self) -> DiskResult<bool> {
        let entries = self.disk.list(&self.directory)?;
        Ok(entries.iter().any(|entry| entry.name.ends_with(".log") && entry.bytes > 0))
    }

    fn load(&mut self, live: &LiveFiles, recovery: Recovery, now: Now) -> Result<(), StorageError> {
        let faults = self.open_segments(live, recovery, now.wall)?;
        let is_epoch_file_lost = !self.load_epochs()?;
        let first_recovered = if recovery.clean {
            self.segments.len()
        } else {
            self.first_to_recover(recovery.recovery_point)?
        };
        self.repair_positions(&faults, first_recovered, recovery.durable_end())?;
        self.check_contiguous(first_recovered, recovery)?;
        self.read_last_segment(first_recovered, recovery.durable_end())?;
        self.repair_aborts(&faults, first_recovered, now.wall)?;
        self.fold(first_recovered, recovery, now.wall)?;
        self.check_end(recovery)?;
        if is_epoch_file_lost {
            self.rebuild_epochs()?;
            self.report.rebuilt.push(self.path(EPOCH_FILE));
        }
        self.settle_offsets(recovery, now)?;
        self.sync_recovered(first_recovered)
    }

    /// Nothing that was durable is missing at the end. But where all else agrees with the end that was found (the high watermark,
    /// after a clean stop also the newest snapshot), one checkpoint is wrong, and the log is not.
    fn check_end(&mut self, recovery: Recovery) -> Result<(), StorageError> {
        let Some(last) = self.segments.last().filter(|last| last.end_offset < recovery.durable_end()) else {
            return Ok(());
        };
        let (end, noted) = (last.end_offset, recovery.high_watermark);
        let newest_snapshot = self.snapshots.last().copied();
        let is_confirmed = if recovery.clean {
            noted.min(recovery.recovery_point) <= end && newest_snapshot == Some(end)
        } else {
            noted > Offset(0) && noted <= end
        };
        if !is_confirmed {
            return Err(missing(last, last.end_offset, recovery.durable_end()));
        }
        self.report.checkpoint_beyond_end = Some(recovery.durable_end());
        Ok(())
    }

    /// No segment is missing between those that are believed: each goes on where the one before it ends, as far as headers behind
    /// its last index entry say, but where a cleaner has left gaps, or below the log start. A header that cannot be read is
    /// not looked into: a reader that comes there is told.
    ///
    /// Differs from Kafka, which serves such a log without a word.
    fn check_contiguous(&self, first_recovered: usize, recovery: Recovery) -> Result<(), StorageError> {
        let pairs = self.segments.iter().zip(self.segments.iter().skip(1)).take(first_recovered);
        for (segment, next) in pairs {
            let base = next.base_offset;
            if base <= recovery.log_start_offset || base > recovery.durable_end() || self.may_be_cleaned(base)
            {
                continue;
            }
            if let Some(end) = segment.end_by_headers()?.filter(|end| *end < base) {
                return Err(missing(segment, end, base));
            }
        }
        Ok(())
    }

    /// Whether a gap up to here may be a cleaner's.
    fn may_be_cleaned(&self, base: Offset) -> bool {
        self.cleaner_checkpoint.map_or(self.config.cleanup_policy.compact, |clean_end| base <= clean_end)
    }

    fn open_segments(
        &mut self,
        live: &LiveFiles,
        recovery: Recovery,
        now: Millis,
    ) -> Result<Vec<IndexFaults>, StorageError> {
        let bases: Vec<Offset> = live.segments.iter().copied().collect();
        let mut faults = Vec::with_capacity(bases.len());
        for (at, base) in bases.iter().enumerate() {
            let end_bound = bases.get(at + 1).copied();
            let (segment, found) = Segment::open(&*self.disk, &self.directory, *base, end_bound, now)?;
            self.segments.push(segment);
            faults.push(found);
        }
        if self.segments.is_empty() && recovery.durable_end() > Offset(0) {
            let problem =
                format!("no .log is there, and offsets up to {} were", recovery.durable_end().0 - 1);
            return Err(StorageError::Corrupt { path: self.directory.clone(), problem });
        }
        if self.segments.is_empty() {
            let segment = self.create_segment(recovery.log_start_offset, now)?;
            self.segments.push(segment);
            faults.push(IndexFaults::default());
        }
        Ok(faults)
    }

    /// Whether there was an epoch file that could be read.
    fn load_epochs(&mut self) -> DiskResult<bool> {
        let content = read_whole(&*self.disk, &self.path(EPOCH_FILE), TEXT_FILE_BYTES_MAX)?;
        let parsed = content.and_then(|content| parse_epochs(std::str::from_utf8(&content).ok()?));
        let is_there = parsed.is_some();
        self.epochs = LeaderEpochs::new(parsed.unwrap_or_default());
        Ok(is_there)
    }

    /// The segment that holds the recovery point. Where it begins right there, the one before it was active when the point
    /// was noted, and a write that failed later may have left something at its end: then that one.
    fn first_to_recover(&self, recovery_point: Offset) -> DiskResult<usize> {
        let holding = self.floor_index(recovery_point).unwrap_or(0);
        let is_contiguous = !self.config.cleanup_policy.compact && self.cleaner_checkpoint.is_none();
        match holding.checked_sub(1) {
            Some(before) if !self.segments[before].ends_whole(is_contiguous)? => Ok(before),
            Some(_) | None => Ok(holding),
        }
    }

    /// Finds the end of a log that is believed whole. What follows its last batch, above everything that was noted as durable,
    /// is cut off: the mark of a clean stop is not believed over it.
    fn read_last_segment(&mut self, first_recovered: usize, durable_end: Offset) -> Result<(), StorageError> {
        let count = self.segments.len();
        if first_recovered < count {
            return Ok(());
        }
        let disk = self.disk.clone();
        let gaps = self.gaps_of(count - 1, durable_end);
        let last = &mut self.segments[count - 1];
        let position = last.read_tail(gaps)?;
        if position < last.bytes {
            let end = last.end_offset;
            if end < durable_end {
                return Err(damaged(last, position));
            }
            let mut cut = Cut::new(last, position);
            cut.count(last, position)?;
            self.report.cut = Some(cut);
            last.cut(&*disk, position, end)?;
            let files = segment_files(last, &*disk)?;
            self.sync.owe(files);
        }
        Ok(())
    }

    /// Folds the log into producer state, from the newest snapshot that covers what need not be looked at, and on the way
    /// recovers the segments that must be.
    fn fold(&mut self, first_recovered: usize, recovery: Recovery, now: Millis) -> Result<(), StorageError> {
        let is_clean = recovery.clean;
        let end = self.segments.last().map_or(Offset(0), |last| last.end_offset);
        let known_before = self.segments.get(first_recovered).map_or(end, |segment| segment.base_offset);
        let from = self.load_snapshot_below(known_before, now)?;
        if !is_clean {
            // They are taken again on the way: what they say was not looked at yet.
            self.remove_snapshots_above(known_before)?;
        }
        let mut at = self.floor_index(from).unwrap_or(0);
        while at < self.segments.len() {
            if at >= first_recovered {
                self.recover_segment(at, recovery.durable_end())?;
            } else {
                self.replay_segment(at, from)?;
            }
            at += 1;
            if at > first_recovered && at < self.segments.len() {
                self.settle_gap(at, recovery)?;
            }
            if let Some(next) = self.segments.get(at).map(|next| next.base_offset)
                && !is_clean
            {
                self.producers.advance_map_end_offset(next);
                self.write_snapshot()?;
            }
        }
        Ok(())
    }

    /// What becomes of a segment that does not go on where the one before it ends.
    ///
    /// - Beyond it: the end of that one was lost in a crash that the beginning of this one survived. Nothing from there on was
    ///   ever acknowledged, and a log keeps a prefix of what was appended.
    /// - But no crash takes away what was durable: then something is damaged, and nothing is cut. Where it was acknowledged and
    ///   not durable, what follows stays, and the gap is reported. What is missing below the log start is of no interest.
    /// - Kafka's cleaner leaves gaps, too: below its checkpoint they are taken for its own, whatever the policy is by now, and
    ///   in a compacted log also where there is no checkpoint (ours leaves no gaps, and there always is one).
    /// - Before it: this one was cut away, and the crash has undone that.
    ///
    /// Differs from Kafka, which keeps the segment, whatever is known of it.
    fn settle_gap(&mut self, at: usize, recovery: Recovery) -> Result<(), StorageError> {
        let (end, base) = (self.segments[at - 1].end_offset, self.segments[at].base_offset);
        let is_gap = base > end && !self.may_be_cleaned(base) && base > recovery.log_start_offset;
        if is_gap && end < recovery.durable_end() {
            return Err(missing(&self.segments[at - 1], end, base.min(recovery.durable_end())));
        }
        if is_gap && base <= recovery.high_watermark {
            self.report.gaps.push((end, base));
            // So the next start knows of this gap: it is no damage that has come since.
            self.cleaner_checkpoint = self.cleaner_checkpoint.max(Some(base));
        } else if is_gap || base < end {
            let before = &self.segments[at - 1];
            let cut = Cut::new(before, before.bytes);
            self.drop_segments_after(at - 1, cut)?;
        }
        Ok(())
    }

    /// Replays the batches of a believed segment from `from` on.
    pub(super) fn replay_segment(
        &mut self,
        at: usize,
        from: Offset,
    ) -> Result<Vec<AbortedTxn>, StorageError> {
        let segment = &self.segments[at];
        let mut aborted = Vec::new();
        let Some(first) = find_batch(segment, from)? else { return Ok(aborted) };
        let mut walk = segment.ordered_walk_from(first.position);
        while let Some(batch) = walk.next()? {
            let completed = self.producers.replay(None, &walk.facts(&batch)?);
            aborted.extend(completed.and_then(|completed| self.producers.aborted_txn(&completed)));
        }
        if walk.position() < segment.bytes {
            return Err(damaged(segment, walk.position()));
        }
        Ok(aborted)
    }

    /// Walks a segment whose end is not known: keeps whole batches up to the first that is not, with all later segments
    /// gone before the cut, so that a crash in between leaves no hole.
    ///
    /// A batch that is out of order, see [`BatchOrder`], is not whole either.
    ///
    /// Differs from Kafka, which takes a batch at any offset (storage-formats §10, table).
    fn recover_segment(&mut self, at: usize, durable_end: Offset) -> Result<(), StorageError> {
        let (disk, interval_bytes) = (self.disk.clone(), self.config.index_interval_bytes);
        let gaps = self.gaps_of(at, durable_end);
        let segment = &mut self.segments[at];
        refuse_old_format(segment)?;
        segment.clear_indexes(&*disk)?;
        let log = segment.log.clone();
        let mut walk = Scan::walk(&*log, 0, segment.bytes);
        let (mut end, mut order) = (0, BatchOrder::new(segment.base_offset, gaps));
        while let Some(batch) = walk.next()? {
            if !order.admits(&batch.header) || !walk.is_intact(&batch)? {
                break;
            }
            order.pass(&batch.header);
            repair_magic(&*log, &batch)?;
            segment.index_batch(&batch, interval_bytes);
            self.epochs_changed |= self.epochs.assign(batch.header.leader_epoch, batch.header.base_offset);
            let completed = self.producers.replay(None, &walk.facts(&batch)?);
            if let Some(aborted) = completed.and_then(|completed| self.producers.aborted_txn(&completed)) {
                segment.txn_index.push(aborted);
            }
            end = batch.end();
        }
        if end < segment.bytes {
            let expected = segment.end_offset;
            if expected < durable_end || !is_torn_tail(&*log, end, segment.bytes, expected)? {
                return Err(damaged(segment, end));
            }
            let mut cut = Cut::new(segment, end);
            cut.count(segment, end)?;
            self.drop_segments_after(at, cut)?;
            let segment = &mut self.segments[at];
            segment.log.truncate(end)?;
            segment.bytes = end;
        }
        self.segments[at].finish(&*disk)?;
        Ok(())
    }

    /// Removes the last segments, and notes in `cut` what was in them.
    fn drop_segments_after(&mut self, at: usize, mut cut: Cut) -> DiskResult<()> {
        for dropped in &self.segments[at + 1..] {
            cut.count(dropped, 0)?;
        }
        // An earlier cut was made at a higher offset, and what it took away is gone with this one.
        self.report.cut = Some(cut);
        while self.segments.len() > at + 1 {
            let last = self.segments.pop().expect("there are more than one");
            last.paths().iter().try_for_each(|path| remove_if_there(&*self.disk, path))?;
        }
        self.disk.sync_dir(&self.directory)
    }

    /// Log end, log start, epochs and snapshots, once the segments are what they are.
    fn settle_offsets(&mut self, recovery: Recovery, now: Now) -> Result<(), StorageError> {
        let first_base = self.segments[0].base_offset;
        self.log_end_offset = self.segments.last().map_or(first_base, |last| last.end_offset);
        self.log_start_offset = recovery.log_start_offset.max(first_base);
        if self.log_end_offset < self.log_start_offset {
            if recovery.clean || recovery.durable_end() > Offset(0) {
                let (start, end) = (self.log_start_offset, self.log_end_offset);
                let problem = format!("the log starts at {start} by its checkpoint, beyond its end at {end}");
                return Err(StorageError::Corrupt { path: self.directory.clone(), problem });
            }
            let retired = self.truncate_fully_and_start_at(self.log_start_offset, now)?;
            retired.files.iter().try_for_each(|path| remove_if_there(&*self.disk, path))?;
            return Ok(());
        }
        self.high_watermark = self.log_start_offset;
        self.producers.advance_map_end_offset(self.log_end_offset);
        self.producers.on_log_start(self.log_start_offset);
        // Whoever a snapshot would have left out is left out after a replay too.
        self.producers.expire(now.wall, self.config.producer_id_expiration_ms);
        // An epoch that began at the log end and got no data is as good as any.
        self.epochs_changed |= self.epochs.truncate_from_end(self.log_end_offset.next());
        self.epochs_changed |= self.epochs.truncate_from_start(self.log_start_offset);
        self.write_epochs()?;
        self.remove_snapshots_above(self.log_end_offset)?;
        self.remove_stray_snapshots()?;
        self.write_snapshot()?;
        Ok(())
    }

    /// Makes durable what was recovered and repaired. After a crash of the process alone nothing need have been durable of
    /// what it left: not even the names.
    fn sync_recovered(&mut self, first_recovered: usize) -> Result<(), StorageError> {
        let disk = self.disk.clone();
        let is_crash = first_recovered < self.segments.len();
        // Segments before snapshots, which were noted on the way (storage-formats trap 30).
        for segment in self.segments.iter_mut().skip(first_recovered) {
            let files = segment_files(segment, &*disk)?;
            files.iter().filter_map(SyncStep::file).try_for_each(|file| file.sync())?;
        }
        if is_crash {
            for name in [METADATA_FILE, EPOCH_FILE] {
                match disk.open(&self.path(name)) {
                    Err(error) if error.kind == DiskErrorKind::NotFound => {}
                    opened => opened?.sync()?,
                }
            }
            self.sync.owe([SyncStep::Directory(self.directory.clone()), SyncStep::Directory(String::new())]);
        }
        self.sync.settle(self.log_end_offset);
        if let Some(ticket) = self.dirty(FlushScope::All) {
            ticket.run()?;
            self.mark_synced(&ticket);
        }
        let count = self.segments.len();
        self.segments.iter_mut().take(count.saturating_sub(1)).for_each(Segment::close_indexes);
        Ok(())
    }

    /// Makes producer state anew after a truncation.
    pub(super) fn rebuild_producers(&mut self, now: Millis) -> Result<(), StorageError> {
        let from = self.load_snapshot_below(self.log_end_offset, now)?;
        for at in self.floor_index(from).unwrap_or(0)..self.segments.len() {
            self.replay_segment(at, from)?;
        }
        self.producers.advance_map_end_offset(self.log_end_offset);
        Ok(self.write_snapshot()?)
    }
}

/// The number of the format lies outside the checksum. A batch that is whole but for it is format 2 and a flipped bit:
/// no higher format exists. Kafka keeps it, and no client can read it.
fn repair_magic(log: &dyn DiskFile, batch: &PlacedBatch) -> DiskResult<()> {
    const MAGIC_AT: u64 = 16;
    let magic = fencepost_records::MAGIC as u8;
    if batch.magic == magic { Ok(()) } else { log.write_at(batch.position + MAGIC_AT, &[&[magic]]) }
}
