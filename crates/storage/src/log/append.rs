//! Appending: stage, make room, one write, replay. Until the write has succeeded nothing has changed.

use fencepost_partition::{AppendOrigin, BatchFacts, CompletedTxn, Marker, Staged, VerificationGuard};
use fencepost_records::{Batch, BatchHeader, EndTxnMarker, MAGIC, TimestampType, ValidatedBatch};
use fencepost_types::{
    CoordinatorEpoch, LeaderEpoch, Millis, Now, Offset, ProducerEpoch, ProducerId, TransactionResult,
};

use super::sync::SyncStep;
use super::{Log, segment_files};
use crate::disk::{DiskErrorKind, DiskFile, DiskResult, remove_if_there};
use crate::error::{AppendError, StorageError};
use crate::file_name::{FileKind, OFFSET_MAX, offset_file};
use crate::scan::{PlacedBatch, batch_facts};
use crate::segment::Segment;

/// A batch that is in the log now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// The time of the append where the topic has LogAppendTime, else [`Millis::NONE`].
    pub log_append_time: Millis,
    /// The transaction that it ended, if it is a marker and one was open.
    pub completed: Option<CompletedTxn>,
}

/// What became of a produced batch that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It is in the log.
    Appended(Appended),
    /// It was there already: nothing was written. The answer waits for the high watermark to pass `last_offset`.
    Duplicate {
        /// Base offset of the original.
        base_offset: Offset,
        /// Last offset of the original.
        last_offset: Offset,
        /// The append time of the original where the topic has LogAppendTime, else [`Millis::NONE`].
        log_append_time: Millis,
    },
}

/// A transaction marker to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerAppend {
    /// The transaction's producer.
    pub producer_id: ProducerId,
    /// The marker's epoch.
    pub producer_epoch: ProducerEpoch,
    /// How the transaction ended.
    pub result: TransactionResult,
    /// Leader epoch of the `__transaction_state` partition that decided so.
    pub coordinator_epoch: CoordinatorEpoch,
    /// The level in the request, `None` where its version has none: then the legacy rule holds.
    pub transaction_version: Option<i8>,
}

impl Log {
    /// Appends a produced batch as leader under `leader_epoch`. `guard` is what the start of the verification gave;
    /// `verification_enabled` is `transaction.partition.verification.enable`.
    pub fn append_as_leader(
        &mut self,
        now: Now,
        batch: &ValidatedBatch,
        leader_epoch: LeaderEpoch,
        guard: Option<VerificationGuard>,
        verification_enabled: bool,
    ) -> Result<AppendOutcome, AppendError> {
        self.check_online()?;
        let header = self.place(batch.header(), leader_epoch);
        let facts = batch_facts(&header, None);
        match self.producers.stage(AppendOrigin::Client, &facts, guard, verification_enabled)? {
            Staged::Append => self.append(now, header, batch.payload(), &facts).map(AppendOutcome::Appended),
            Staged::Duplicate { base_offset, last_offset, timestamp } => {
                let log_append_time = self.append_time(timestamp);
                Ok(AppendOutcome::Duplicate { base_offset, last_offset, log_append_time })
            }
        }
    }

    /// Appends a batch of our own as leader: records of a coordinator or of the controller, offsets in a transaction.
    /// Sequences are not looked at; epoch and guard are, where it is transactional.
    pub fn append_as_coordinator(
        &mut self,
        now: Now,
        batch: &Batch,
        leader_epoch: LeaderEpoch,
        guard: Option<VerificationGuard>,
        verification_enabled: bool,
    ) -> Result<Appended, AppendError> {
        self.check_online()?;
        let header = self.place(batch.header(), leader_epoch);
        let facts = batch_facts(&header, None);
        self.producers.stage(AppendOrigin::Coordinator, &facts, guard, verification_enabled)?;
        self.append(now, header, &batch.payload(), &facts)
    }

    /// Appends a transaction marker as leader.
    pub fn append_marker(
        &mut self,
        now: Now,
        marker: MarkerAppend,
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        self.check_online()?;
        let MarkerAppend { producer_id, producer_epoch, result, coordinator_epoch, transaction_version } =
            marker;
        self.producers.stage_marker(
            AppendOrigin::Coordinator,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            transaction_version,
        )?;
        let batch = EndTxnMarker { result, coordinator_epoch }.to_batch(
            self.log_end_offset,
            leader_epoch,
            producer_id,
            producer_epoch,
            now.wall,
        );
        let mut header = *batch.header();
        if self.config.timestamp_type == TimestampType::LogAppendTime {
            header.attributes = header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
            header.crc = header.compute_crc(&batch.payload());
        }
        let facts = batch_facts(&header, Some(Marker { result, coordinator_epoch }));
        self.append(now, header, &batch.payload(), &facts)
    }

    fn place(&self, header: &BatchHeader, leader_epoch: LeaderEpoch) -> BatchHeader {
        BatchHeader { base_offset: self.log_end_offset, leader_epoch, ..*header }
    }

    fn append_time(&self, timestamp: Millis) -> Millis {
        match self.config.timestamp_type {
            TimestampType::CreateTime => Millis::NONE,
            TimestampType::LogAppendTime => timestamp,
        }
    }

    fn append(
        &mut self,
        now: Now,
        header: BatchHeader,
        payload: &[u8],
        facts: &BatchFacts,
    ) -> Result<Appended, AppendError> {
        let bytes = header.total_bytes() as u64;
        if bytes > self.config.segment_bytes_max() {
            return Err(AppendError::LargerThanSegment { bytes, segment_bytes: self.config.segment_bytes });
        }
        if header.last_offset().0 > OFFSET_MAX {
            return Err(AppendError::OffsetsExhausted);
        }
        self.make_room(now.wall, &header)?;
        self.epochs_changed |= self.epochs.assign(header.leader_epoch, header.base_offset);
        self.write_epochs()?;
        let position = self.write_batch(&header, payload)?;
        let completed = self.take_in(&PlacedBatch { position, header, magic: MAGIC as u8 }, now.wall, facts);
        Ok(Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            log_append_time: self.append_time(header.max_timestamp),
            completed,
        })
    }

    /// Makes sure that the active segment can take the batch.
    fn make_room(&mut self, now: Millis, header: &BatchHeader) -> DiskResult<()> {
        let Some(active) = self.segments.last() else { return self.create_directory(now) };
        let jitter_ms = self.jitter_ms(active.base_offset);
        if active.should_roll(header, &self.config, jitter_ms, now) { self.roll(now) } else { Ok(()) }
    }

    /// What is taken off the roll time of the segment at `base`: always the same for one segment, and different for
    /// others, so that the segments of many partitions are not rolled at once.
    fn jitter_ms(&self, base: Offset) -> i64 {
        let span_ms = self.config.segment_jitter_ms.min(self.config.segment_ms);
        if span_ms <= 0 {
            return 0;
        }
        let seed = crc32c::crc32c(self.directory.as_bytes());
        i64::from(crc32c::crc32c_append(seed, &base.0.to_be_bytes())) % span_ms
    }

    /// Begins a new segment at the log end, so that what there is by now can be retired as a whole later.
    pub fn begin_segment(&mut self, now: Now) -> Result<(), StorageError> {
        self.check_online()?;
        if self.segments.is_empty() {
            return Ok(());
        }
        Ok(self.roll(now.wall)?)
    }

    /// Closes the active segment and begins a new one at the log end. The snapshot that belongs to it is taken first.
    pub(super) fn roll(&mut self, now: Millis) -> DiskResult<()> {
        let disk = self.disk.clone();
        let active = self.segments.last_mut().expect("a log with a directory has a segment");
        if active.base_offset == self.log_end_offset {
            return Ok(());
        }
        active.finish(&*disk)?;
        let (base, files) = (active.base_offset, segment_files(active, &*disk)?);
        self.sync.owe_for(base, files);
        self.producers.advance_map_end_offset(self.log_end_offset);
        self.write_snapshot()?;
        let next = self.create_segment(self.log_end_offset, now)?;
        self.sync.owe_for(base, [SyncStep::Directory(self.directory.clone())]);
        let active = self.segments.last_mut().expect("the one that was just finished");
        active.close_indexes();
        self.segments.push(next);
        Ok(())
    }

    /// Creates the files of a segment, all or none: a `.log` without data must not be found in the middle of another.
    pub(super) fn create_segment(&mut self, base: Offset, now: Millis) -> DiskResult<Segment> {
        let created = Segment::create(&*self.disk, &self.directory, base, "", now);
        if created.is_err() {
            let path = self.path(&offset_file(base, FileKind::Log));
            if let Err(error) = remove_if_there(&*self.disk, &path) {
                self.fail(error.to_string());
            }
        }
        self.sync.owe([SyncStep::Directory(self.directory.clone())]);
        created
    }

    /// Writes the batch at the end of the active segment; answers where. What a failed write left behind is cut off; if
    /// that fails too, the log is offline.
    fn write_batch(&mut self, header: &BatchHeader, payload: &[u8]) -> Result<u64, StorageError> {
        let active = self.segments.last().expect("room was made");
        let position = active.bytes;
        if let Err(error) = active.log.write_at(position, &[&header.encode(), payload]) {
            // Without a handle nothing was written, and there is none to cut with.
            let is_untouched = error.kind == DiskErrorKind::NoHandles;
            if !is_untouched && let Err(second) = take_back(&*active.log, position) {
                self.fail(format!("{error}; and what it left could not be cut off: {second}"));
            }
            return Err(error.into());
        }
        Ok(position)
    }

    /// Takes in the batch that was written: indexes, producer state, log end. Cannot fail.
    fn take_in(&mut self, batch: &PlacedBatch, now: Millis, facts: &BatchFacts) -> Option<CompletedTxn> {
        let active = self.segments.last_mut().expect("a batch lies in a segment");
        active.index_batch(batch, self.config.index_interval_bytes);
        let completed = self.producers.replay(Some(now), facts);
        if let Some(aborted) = completed.and_then(|completed| self.producers.aborted_txn(&completed)) {
            active.txn_index.push(aborted);
        }
        // The index files only follow; what cannot be written now is tried again with the next entry, and a roll or a
        // clean stop insists.
        let _ = active.write_indexes(&*self.disk);
        self.log_end_offset = self.log_end_offset.max(batch.header.next_offset());
        completed
    }
}

/// Cuts off what a failed write has left, durably: after a loss of power what is written there next must not be mixed with
/// it, and taken for a batch that was whole and has been damaged.
fn take_back(log: &dyn DiskFile, position: u64) -> DiskResult<()> {
    log.truncate(position)?;
    log.sync()
}
