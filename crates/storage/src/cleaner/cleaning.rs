//! One cleaning of one log, in steps of bounded size.

use std::collections::VecDeque;
use std::ops::Range;

use fencepost_records::Batch;
use fencepost_types::Offset;

use super::keep::{Keeper, Kept};
use super::key_offsets::KeyOffsets;
use super::output::{CleanedSegment, SWAP};
use super::plan::{Plan, Source, group};
use super::reader::BatchReader;
use super::transactions::{CleanedTransactions, KeptTransactions};
use crate::disk::{join, remove_if_there};
use crate::error::StorageError;
use crate::file_name::{FileStage, OffsetFile};
use crate::log::{Log, read_snapshot};

/// A cleaning under way. It does its reading and writing in [`Cleaning::step`], without the log, and now and then asks
/// for the log: [`Cleaning::with_log`]. Dropping it leaves `.cleaned` files behind, see [`Cleaning::abandon`].
#[derive(Debug)]
pub struct Cleaning {
    plan: Plan,
    keys: KeyOffsets,
    transactions: CleanedTransactions,
    kept_transactions: KeptTransactions,
    stage: Stage,
    /// The source that is read, and how far.
    at: usize,
    reader: Option<BatchReader>,
    /// Sources that are still to be replaced, each group by one segment.
    groups: VecDeque<Range<usize>>,
    output: Option<CleanedSegment>,
    report: CleaningReport,
    retired: Vec<String>,
}

/// What a cleaning does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Pass 1.
    Mapping,
    /// Makes durable what the table of keys was made from.
    Syncing,
    /// Pass 2.
    Rewriting,
    /// Asks the log whether the segments of the group are still there.
    Claiming,
    /// Gives the replacement its `.swap` names.
    Staging,
    /// Lets the log serve the replacement.
    Entering,
    /// Makes the names of the old segments durable.
    Entered,
    /// Takes `.swap` off.
    Naming,
    /// Tells the log up to where it is clean.
    Ending,
    /// There is nothing left to do.
    Over,
}

/// What [`Cleaning::step`] needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningStep {
    /// Another step.
    More,
    /// The log: [`Cleaning::with_log`].
    WantsLog,
}

/// What [`Cleaning::with_log`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningTurn {
    /// It goes on with [`Cleaning::step`].
    GoOn,
    /// It is over; the log's checkpoint has moved on and may be written.
    Done,
    /// The log has changed meanwhile: segments that were to be replaced are gone. It is over, and its files are removed.
    Stale,
}

/// What a cleaning has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleaningReport {
    /// Where the dirty part began.
    pub first_dirty_offset: Offset,
    /// Up to where the log is clean afterwards.
    pub clean_end_offset: Offset,
    /// Keys that the dirty part had.
    pub keys: usize,
    /// Bytes of the segments that were replaced.
    pub bytes_before: u64,
    /// Bytes of those that took their places.
    pub bytes_after: u64,
    /// Bytes that were read and written for it, both passes together: what a throttle counts.
    pub bytes_moved: u64,
}

impl Cleaning {
    pub(crate) fn new(plan: Plan) -> Self {
        let records_max = (plan.end.0 - plan.first_dirty.0).max(0) as u64;
        let report = CleaningReport { first_dirty_offset: plan.first_dirty, ..CleaningReport::default() };
        Self {
            keys: KeyOffsets::new(&plan.config, records_max, plan.first_dirty),
            transactions: CleanedTransactions::new(&plan.aborted),
            kept_transactions: KeptTransactions::default(),
            plan,
            stage: Stage::Mapping,
            at: 0,
            reader: None,
            groups: VecDeque::new(),
            output: None,
            report,
            retired: Vec::new(),
        }
    }

    /// Works through about `bytes_max` bytes of the log, or one sync. The log is not needed meanwhile, and may be used.
    ///
    /// Errors: [`StorageError::Corrupt`] where a batch cannot be read: then the log cannot be cleaned, and is as it was.
    /// After any error: [`Cleaning::abandon`].
    pub fn step(&mut self, bytes_max: u64) -> Result<CleaningStep, StorageError> {
        match self.stage {
            Stage::Mapping => self.map(bytes_max)?,
            Stage::Syncing => self.sync_sources()?,
            Stage::Rewriting => self.rewrite(bytes_max)?,
            Stage::Staging => {
                let output = self.output.as_mut().expect("a replacement is there");
                output.segment.rename(&*self.plan.disk, &self.plan.directory, SWAP)?;
                self.plan.disk.sync_dir(&self.plan.directory)?;
                self.stage = Stage::Entering;
            }
            Stage::Entered => {
                self.plan.disk.sync_dir(&self.plan.directory)?;
                self.stage = Stage::Naming;
            }
            Stage::Claiming | Stage::Entering | Stage::Naming | Stage::Ending | Stage::Over => {
                return Ok(CleaningStep::WantsLog);
            }
        }
        Ok(CleaningStep::More)
    }

    /// Does what only the owner of the log may do: changes names, and what serves reads. Short, and without a sync.
    ///
    /// Errors: the disk failed in the middle of it: then the log is offline, and a restart settles what is left.
    pub fn with_log(&mut self, log: &mut Log) -> Result<CleaningTurn, StorageError> {
        let group = self.groups.front().cloned().unwrap_or(0..0);
        let sources = &self.plan.sources[group.clone()];
        match self.stage {
            Stage::Claiming => {
                if !log.claim(sources) {
                    return self.stale();
                }
                self.stage = Stage::Staging;
            }
            Stage::Entering => {
                let CleanedSegment { segment, .. } = self.output.take().expect("a replacement is there");
                self.report.bytes_before += sources.iter().map(|source| source.bytes).sum::<u64>();
                self.report.bytes_after += segment.bytes;
                match log.enter(sources, segment)? {
                    Some(retired) => self.retired.extend(retired),
                    None => return self.stale(),
                }
                self.stage = Stage::Entered;
            }
            Stage::Naming => {
                if !log.name_replacement()? {
                    return self.stale();
                }
                self.groups.pop_front();
                self.stage = Stage::Rewriting;
            }
            Stage::Ending => {
                self.report.clean_end_offset = self.keys.covered_end();
                log.set_cleaner_checkpoint(Some(self.keys.covered_end()));
                self.stage = Stage::Over;
                return Ok(CleaningTurn::Done);
            }
            Stage::Over => return Ok(CleaningTurn::Done),
            Stage::Mapping | Stage::Syncing | Stage::Rewriting | Stage::Staging | Stage::Entered => {}
        }
        Ok(CleaningTurn::GoOn)
    }

    /// Files that were replaced since this was asked last, and are to be unlinked later.
    pub fn take_retired(&mut self) -> Vec<String> {
        std::mem::take(&mut self.retired)
    }

    /// What it has done so far.
    pub fn report(&self) -> CleaningReport {
        self.report
    }

    /// Whether an error now leaves the log as it was: nothing of a replacement has a name that a restart would keep.
    pub fn is_harmless(&self) -> bool {
        match self.stage {
            Stage::Mapping | Stage::Syncing | Stage::Rewriting | Stage::Claiming => true,
            Stage::Staging | Stage::Entering | Stage::Entered | Stage::Naming => false,
            Stage::Ending | Stage::Over => true,
        }
    }

    /// Removes the files that it has not finished, as far as the disk lets it: the next start would, too.
    pub fn abandon(mut self) {
        self.remove_unfinished();
    }

    fn stale(&mut self) -> Result<CleaningTurn, StorageError> {
        self.stage = Stage::Over;
        self.remove_unfinished();
        Ok(CleaningTurn::Stale)
    }

    fn remove_unfinished(&mut self) {
        self.output = None;
        let disk = &*self.plan.disk;
        let Ok(entries) = disk.list(&self.plan.directory) else { return };
        for entry in entries {
            let stage = OffsetFile::parse(&entry.name).map(|file| file.stage);
            if stage == Some(FileStage::Cleaned) {
                let _ = remove_if_there(disk, &join(&self.plan.directory, &entry.name));
            }
        }
    }

    /// Notes the newest offset of every key of the dirty part, as far as there is memory for them.
    fn map(&mut self, bytes_max: u64) -> Result<(), StorageError> {
        let mut left = bytes_max;
        while let Some(source) = self.plan.sources.get(self.at) {
            if source.next_base > self.plan.first_dirty {
                let io_buffer_bytes = self.plan.config.io_buffer_bytes;
                let mut reader =
                    self.reader.take().unwrap_or_else(|| BatchReader::new(source, io_buffer_bytes));
                while let Some(batch) = reader.next()? {
                    let is_taken = self.map_batch(&batch).map_err(|problem| reader.corrupt(problem))?;
                    if !is_taken {
                        return self.begin_pass_2();
                    }
                    self.report.bytes_moved += batch.bytes().len() as u64;
                    left = left.saturating_sub(batch.bytes().len() as u64);
                    if left == 0 {
                        self.reader = Some(reader);
                        return Ok(());
                    }
                }
                let next_base = self.plan.sources[self.at].next_base;
                self.keys.cover(next_base);
            }
            self.at += 1;
        }
        self.begin_pass_2()
    }

    /// Whether there was room for the keys of a batch.
    fn map_batch(&mut self, batch: &Batch) -> Result<bool, String> {
        let (header, first_dirty) = (batch.header(), self.plan.first_dirty);
        if header.last_offset() < first_dirty {
            return Ok(true);
        }
        if header.is_control() {
            self.transactions.control(batch);
        } else if self.keys.is_full() {
            return Ok(false);
        } else if !self.transactions.data(header) {
            // Of a batch that is too large to hold, which stays whole, older records of the same keys stay too.
            let records = match batch.records() {
                Err(error) if error.is_too_large_to_hold() => None,
                read => Some(read.map_err(|error| error.to_string())?),
            };
            for record in records.into_iter().flatten() {
                let record = record.map_err(|error| error.to_string())?;
                let offset = header.record_offset(record.offset_delta);
                if let Some(key) = record.key.filter(|_| offset >= first_dirty) {
                    self.keys.put(&key, offset);
                }
            }
        }
        self.keys.cover(header.next_offset());
        Ok(true)
    }

    fn begin_pass_2(&mut self) -> Result<(), StorageError> {
        self.reader = None;
        self.report.keys = self.keys.len();
        self.transactions = CleanedTransactions::new(&self.plan.aborted);
        let covered =
            self.plan.sources.partition_point(|source| source.base_offset < self.keys.covered_end());
        self.groups = group(&self.plan.sources[..covered], self.plan.limits).into();
        self.stage = Stage::Syncing;
        Ok(())
    }

    /// One file at a time; then the names.
    fn sync_sources(&mut self) -> Result<(), StorageError> {
        match self.plan.unsynced.pop() {
            Some(file) => file.sync()?,
            None => {
                self.plan.disk.sync_dir(&self.plan.directory)?;
                self.stage = Stage::Rewriting;
                self.at = 0;
            }
        }
        Ok(())
    }

    /// Writes what stays of the first group; without a group left makes the last names durable.
    fn rewrite(&mut self, bytes_max: u64) -> Result<(), StorageError> {
        let Some(group) = self.groups.front().cloned() else {
            self.plan.disk.sync_dir(&self.plan.directory)?;
            self.stage = Stage::Ending;
            return Ok(());
        };
        let has_data = |source: &Source| source.bytes > 0;
        let last_with_data = self.plan.sources[group.clone()].iter().rposition(has_data);
        let last_with_data = group.start + last_with_data.expect("a group has a batch");
        let mut output = match self.output.take() {
            Some(output) => output,
            None => {
                self.meet_snapshot(group.start)?;
                self.create_output(&group)?
            }
        };
        self.at = self.at.max(group.start);
        let mut left = bytes_max;
        while self.at < group.end {
            let io_buffer_bytes = self.plan.config.io_buffer_bytes;
            let source = &self.plan.sources[self.at];
            let mut reader = self.reader.take().unwrap_or_else(|| BatchReader::new(source, io_buffer_bytes));
            while let Some(batch) = reader.next()? {
                let is_last = self.at == last_with_data && reader.is_at_end();
                self.rewrite_batch(&batch, is_last, &mut output, &reader)?;
                left = left.saturating_sub(batch.bytes().len() as u64);
                if left == 0 {
                    self.reader = Some(reader);
                    self.output = Some(output);
                    return Ok(());
                }
            }
            self.at += 1;
        }
        output.finish(&*self.plan.disk, &self.plan.directory)?;
        self.output = Some(output);
        self.stage = Stage::Claiming;
        Ok(())
    }

    /// Notes what a rebuild may be told where a group begins. Snapshots within a group go with it. One before a run of
    /// segments without a batch says the same as one behind it.
    fn meet_snapshot(&mut self, group_start: usize) -> Result<(), StorageError> {
        let sources = &self.plan.sources;
        let bases = sources[self.at].base_offset..=sources[group_start].base_offset;
        let Some(offset) = self.plan.snapshots.range(bases).next_back() else { return Ok(()) };
        if let Some(snapshot) = read_snapshot(&*self.plan.disk, &self.plan.directory, *offset)? {
            self.transactions.snapshot(&snapshot);
        }
        Ok(())
    }

    fn create_output(&self, group: &Range<usize>) -> Result<CleanedSegment, StorageError> {
        let base = self.plan.sources[group.start].base_offset;
        Ok(CleanedSegment::create(&*self.plan.disk, &self.plan.directory, base, self.plan.now)?)
    }

    fn rewrite_batch(
        &mut self,
        batch: &Batch,
        is_last: bool,
        output: &mut CleanedSegment,
        reader: &BatchReader,
    ) -> Result<(), StorageError> {
        let keeper = Keeper {
            now: self.plan.now,
            delete_retention_ms: self.plan.config.delete_retention_ms,
            keys: &self.keys,
            last_records: &self.plan.last_records,
        };
        let kept = if batch.header().is_control() {
            let used = self.transactions.control(batch);
            keeper.control(batch, used, is_last)
        } else {
            let is_aborted = self.transactions.data(batch.header());
            keeper.data(batch, is_aborted, is_last)
        };
        self.report.bytes_moved += batch.bytes().len() as u64;
        let rewritten;
        let written = match kept.map_err(|problem| reader.corrupt(problem))? {
            Kept::Nothing => return Ok(()),
            Kept::Whole => batch,
            Kept::Rewritten(batch) => {
                rewritten = batch;
                &rewritten
            }
        };
        self.report.bytes_moved += written.bytes().len() as u64;
        if let Some(aborted) = self.kept_transactions.take(written) {
            output.index_aborted(aborted);
        }
        output.append(written, self.plan.index_interval_bytes)
    }
}
