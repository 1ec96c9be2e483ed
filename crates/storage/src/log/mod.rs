//! The log of one partition: what Kafka calls UnifiedLog.

mod aborts;
mod append;
mod clean;
mod count;
mod inspect;
mod leftovers;
mod old_format;
mod order;
mod position;
mod read;
mod recovery;
mod repair;
mod report;
mod retire;
mod snapshots;
mod sync;
mod timestamps;
mod torn;

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_partition::{ProducerStates, WindowError};
use fencepost_types::{LeaderEpoch, Millis, Offset, TopicPartition, Uuid};

use crate::config::LogConfig;
use crate::disk::{Disk, DiskResult, join};
use crate::error::StorageError;
use crate::leader_epochs::LeaderEpochs;
use crate::segment::Segment;
use crate::text_file::{format_epochs, format_partition_metadata};

pub use append::{AppendOutcome, Appended, MarkerAppend};
pub use count::Counted;
pub use inspect::{Inspection, LogFault, inspect_log};
pub use position::LogPosition;
pub use read::{LogRecords, ReadSlice};
pub use recovery::Recovery;
pub use report::{Cut, RecoveryReport};
pub use retire::{RetentionReason, Retired};
pub use sync::{FlushScope, FlushTicket};
pub use timestamps::FoundTimestamp;

use clean::Replacing;
use position::KnownPositions;
use sync::{SyncState, SyncStep};

pub(crate) use order::{BatchOrder, Gaps};
pub(crate) use snapshots::read_snapshot;

pub(crate) const EPOCH_FILE: &str = "leader-epoch-checkpoint";
pub(crate) const METADATA_FILE: &str = "partition.metadata";

/// The log of one partition. See the page of this crate.
///
/// Source: Kafka UnifiedLog, LocalLog.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    partition: TopicPartition,
    directory: String,
    topic_id: Uuid,
    config: LogConfig,
    /// In order of their bases, the active one last. Empty while there is no directory (L4).
    segments: Vec<Segment>,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
    known_positions: KnownPositions,
    producers: ProducerStates,
    epochs: LeaderEpochs,
    /// Whether the epoch file lags behind.
    epochs_changed: bool,
    /// Offsets of the `.snapshot` files.
    snapshots: BTreeSet<Offset>,
    /// A file of producer windows that could not be used when state was last loaded from its snapshot.
    unusable_windows: Option<(String, WindowError)>,
    sync: SyncState,
    /// The first offset that the cleaner has not seen; `None` if it never was here.
    cleaner_checkpoint: Option<Offset>,
    /// What opening it has found.
    report: RecoveryReport,
    /// A replacement of segments that has begun and not ended.
    replacing: Option<Replacing>,
    /// Why nothing can be done with it any more.
    offline: Option<String>,
    /// Whether there is a directory of which nothing was taken in: it was damaged.
    is_unopened: bool,
}

impl Log {
    /// A log without a directory, ending at `offset`.
    fn absent(
        disk: Arc<dyn Disk>,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        offset: Offset,
    ) -> Self {
        Self {
            disk,
            directory: partition.to_string(),
            partition,
            topic_id,
            config,
            segments: Vec::new(),
            log_start_offset: offset,
            log_end_offset: offset,
            high_watermark: offset,
            known_positions: KnownPositions::default(),
            producers: ProducerStates::new(offset),
            epochs: LeaderEpochs::default(),
            epochs_changed: false,
            snapshots: BTreeSet::new(),
            unusable_windows: None,
            sync: SyncState::new(offset),
            cleaner_checkpoint: None,
            report: RecoveryReport::default(),
            replacing: None,
            offline: None,
            is_unopened: false,
        }
    }

    /// Stands for a log that could not be opened, for `reason`: it is offline from the start, and no file of it is touched
    /// unless it is deleted.
    pub fn unopened(
        disk: Arc<dyn Disk>,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        reason: impl Into<String>,
    ) -> Self {
        let log = Self::absent(disk, partition, topic_id, config, Offset(0));
        Self { offline: Some(reason.into()), is_unopened: true, ..log }
    }

    /// Notes that `leader_epoch` begins at the log end: what a leader does when it takes over, data or not. The file
    /// follows with the next append or at a clean stop.
    pub fn assign_leader_epoch(&mut self, leader_epoch: LeaderEpoch) {
        self.epochs_changed |= self.epochs.assign(leader_epoch, self.log_end_offset);
    }

    /// The high watermark is now `high_watermark`, kept within log start and log end. It never goes back except by
    /// truncation.
    pub fn update_high_watermark(&mut self, high_watermark: Offset) {
        let bounded = high_watermark.clamp(self.log_start_offset, self.log_end_offset);
        self.high_watermark = bounded.max(self.high_watermark).min(self.log_end_offset);
        self.producers.on_high_watermark(self.high_watermark);
    }

    /// Takes new settings; they hold from the next append on.
    pub fn update_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// Takes the log offline: after a failed sync nothing may be acknowledged any more. Only opening it anew helps.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.offline.get_or_insert(reason.into());
    }

    /// What is known of producers, and where the last stable offset comes from.
    pub fn producer_states(&self) -> &ProducerStates {
        &self.producers
    }

    /// The same, to start a verification or to let producers expire. What the log says of them only appends change.
    pub fn producer_states_mut(&mut self) -> &mut ProducerStates {
        &mut self.producers
    }

    /// Topic and number.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The topic's id.
    pub fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// The settings.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// The first offset that may be read.
    pub fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    /// Records below it are acknowledged.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Records below it are decided and acknowledged.
    pub fn last_stable_offset(&self) -> Offset {
        self.producers.last_stable_offset(self.high_watermark, self.log_start_offset)
    }

    /// The bytes of all segments, without indexes.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// How many segments there are; 0 while there is no directory.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The first offset of the active segment.
    pub fn active_segment_base(&self) -> Offset {
        self.segments.last().map_or(self.log_end_offset, |segment| segment.base_offset)
    }

    /// The first offset of the first segment.
    pub fn first_segment_base(&self) -> Offset {
        self.segments.first().map_or(self.log_start_offset, |segment| segment.base_offset)
    }

    /// The newest leader epoch known.
    pub fn latest_leader_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.latest()
    }

    /// Where a leader epoch ends, as OffsetForLeaderEpoch answers: the largest epoch known that is not above it, and where
    /// the next one begins. `None` where that cannot be said.
    pub fn end_offset_for_epoch(&self, leader_epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.epochs.end_offset_for(leader_epoch, self.log_end_offset)
    }

    /// The leader epoch of the record at `offset`.
    pub fn leader_epoch_for(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.epoch_for(offset)
    }

    /// All leader epochs known and where they begin.
    pub fn leader_epochs(&self) -> &[(LeaderEpoch, Offset)] {
        self.epochs.entries()
    }

    /// The offset below which everything is durable: what an acknowledgement waits for.
    pub fn durable_end(&self) -> Offset {
        self.sync.durable_end()
    }

    /// The offset below which a restart may believe what it finds: what goes into the recovery-point checkpoint. Lags behind
    /// the durable end until the files of rolled segments are durable, indexes and names included.
    pub fn recovery_point(&self) -> Offset {
        self.sync.recovery_point(self.log_end_offset)
    }

    /// The file whose producer windows could not be used when the log was opened, and why, if there is one: retries of all but
    /// the newest batch of each producer are refused then.
    pub fn unusable_windows(&self) -> Option<(&str, WindowError)> {
        self.unusable_windows.as_ref().map(|(path, error)| (path.as_str(), *error))
    }

    /// Whether it stands for one that could not be opened, see [`Self::unopened`].
    pub fn is_unopened(&self) -> bool {
        self.is_unopened
    }

    /// Whether the partition has a directory yet.
    pub fn has_directory(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Closes the log after a clean stop of everything that used it: indexes get their last entries, a snapshot is
    /// written at the log end, all is synced. Afterwards the recovery point is the log end.
    pub fn close(&mut self) -> Result<Offset, StorageError> {
        self.check_online()?;
        if self.segments.is_empty() {
            return Ok(self.log_end_offset);
        }
        let disk = self.disk.clone();
        self.write_epochs()?;
        self.write_snapshot()?;
        let active = self.segments.last_mut().expect("there is a directory, so there is a segment");
        active.finish(&*disk)?;
        let files = segment_files(active, &*disk)?;
        self.sync.owe(files);
        self.sync.owe([SyncStep::Directory(self.directory.clone())]);
        if let Some(ticket) = self.dirty(FlushScope::All) {
            ticket.run()?;
            self.mark_synced(&ticket);
        }
        assert_eq!(self.durable_end(), self.log_end_offset, "L3: a closed log is durable to its end");
        self.sync.settle(self.log_end_offset);
        Ok(self.log_end_offset)
    }

    fn check_online(&self) -> Result<(), StorageError> {
        match &self.offline {
            None => Ok(()),
            Some(reason) => {
                Err(StorageError::Offline { directory: self.directory.clone(), reason: reason.clone() })
            }
        }
    }

    fn path(&self, name: &str) -> String {
        join(&self.directory, name)
    }

    /// The directory and its first files, `partition.metadata` before all others (storage-formats trap 20).
    fn create_directory(&mut self, now: Millis) -> DiskResult<()> {
        let disk = self.disk.clone();
        disk.create_dir(&self.directory)?;
        self.write_metadata()?;
        let segment = self.create_segment(self.log_end_offset, now)?;
        self.sync.owe([SyncStep::Directory(String::new())]);
        self.segments.push(segment);
        Ok(())
    }

    fn write_metadata(&mut self) -> DiskResult<()> {
        let text = format_partition_metadata(self.topic_id);
        self.replace_file(METADATA_FILE, text.as_bytes())
    }

    /// Brings the epoch file up to date.
    fn write_epochs(&mut self) -> DiskResult<()> {
        if self.epochs_changed && !self.segments.is_empty() {
            self.replace_file(EPOCH_FILE, format_epochs(self.epochs.entries()).as_bytes())?;
            self.epochs_changed = false;
        }
        Ok(())
    }

    /// Replaces a small file. It is durable once the steps that this leaves behind have been run; a crash before may
    /// leave it empty or torn, and then it is made again out of the log.
    fn replace_file(&mut self, name: &str, content: &[u8]) -> DiskResult<()> {
        let path = self.path(name);
        let temporary = format!("{path}.tmp");
        let file = self.disk.create(&temporary)?;
        file.write_at(0, &[content])?;
        self.disk.rename(&temporary, &path)?;
        self.sync.owe([SyncStep::File(file), SyncStep::Directory(self.directory.clone())]);
        Ok(())
    }
}

/// The files of a segment, in the order in which they become durable.
pub(crate) fn segment_files(segment: &mut Segment, disk: &dyn Disk) -> DiskResult<Vec<SyncStep>> {
    let mut steps = vec![SyncStep::File(segment.log.clone())];
    let indexes = [
        segment.offset_index.handle_to_sync(disk)?,
        segment.time_index.handle_to_sync(disk)?,
        segment.txn_index.handle_to_sync(disk)?,
    ];
    steps.extend(indexes.into_iter().flatten().map(SyncStep::File));
    Ok(steps)
}
