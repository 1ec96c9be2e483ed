//! A log directory: whose it is, which partitions it holds, and what is remembered of each between two runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_types::{Now, Offset, TopicPartition, Uuid};

use crate::config::LogConfig;
use crate::disk::{
    Disk, DiskErrorKind, DiskLock, DiskResult, join, read_whole, remove_if_there, replace_unsynced,
    write_atomically,
};
use crate::error::StorageError;
use crate::file_name::{PartitionDirKind, retired_dir};
use crate::log::{Log, METADATA_FILE, Recovery};
use crate::text_file::{
    MetaProperties, TEXT_FILE_BYTES_MAX, format_clean_shutdown, format_offsets, parse_clean_shutdown,
    parse_offsets, parse_partition_metadata,
};

const META_PROPERTIES: &str = "meta.properties";
const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
const LOCK: &str = ".lock";
const METADATA_TOPIC: &str = "__cluster_metadata";
/// Subdirectories that are no partitions: Kafka's cache of remote indexes, and what a file system puts at its root.
const IGNORED_DIRECTORIES: [&str; 2] = ["remote-log-index-cache", "lost+found"];

/// What a log directory remembers of each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Checkpoint {
    /// Everything below is durable.
    RecoveryPoint,
    /// The first offset that may be read, where that is not the first there is.
    LogStart,
    /// The high watermark.
    HighWatermark,
    /// The first offset that the cleaner has not seen.
    Cleaner,
}

impl Checkpoint {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::RecoveryPoint, Self::LogStart, Self::HighWatermark, Self::Cleaner];

    fn file(self) -> &'static str {
        match self {
            Self::RecoveryPoint => "recovery-point-offset-checkpoint",
            Self::LogStart => "log-start-offset-checkpoint",
            Self::HighWatermark => "replication-offset-checkpoint",
            Self::Cleaner => "cleaner-offset-checkpoint",
        }
    }
}

/// A partition's directory, before its log is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDir {
    /// Topic and number, from the name.
    pub partition: TopicPartition,
    /// From `partition.metadata`; `None` where that cannot be read.
    pub topic_id: Option<Uuid>,
}

/// The offsets of many logs, to be written to the checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOffsets {
    recovery_points: BTreeMap<TopicPartition, Offset>,
    log_starts: BTreeMap<TopicPartition, Offset>,
    high_watermarks: BTreeMap<TopicPartition, Offset>,
    cleaner_checkpoints: BTreeMap<TopicPartition, Offset>,
}

impl LogOffsets {
    /// Adds what one log has to be remembered by.
    pub fn add(&mut self, log: &Log) {
        if !log.has_directory() {
            return;
        }
        let partition = log.partition();
        self.recovery_points.insert(partition.clone(), log.recovery_point());
        self.high_watermarks.insert(partition.clone(), log.high_watermark());
        if log.config().cleanup_policy.compact || log.cleaner_checkpoint().is_some() {
            // Also of a log that was never cleaned: so a gap in it is known not to come from a cleaning.
            let clean_end = log.cleaner_checkpoint().unwrap_or(log.log_start_offset());
            self.cleaner_checkpoints.insert(partition.clone(), clean_end);
        }
        // While a loss of power may bring back a segment that has gone, the log does not yet begin where it seems to.
        let begins_there = log.log_start_offset() == log.first_segment_base() && log.is_retirement_durable();
        if !begins_there && log.log_start_offset() > Offset(0) {
            self.log_starts.insert(partition.clone(), log.log_start_offset());
        }
    }

    /// Whether this log was added, and has a directory.
    pub fn has(&self, partition: &TopicPartition) -> bool {
        self.recovery_points.contains_key(partition)
    }

    fn of_mut(&mut self, checkpoint: Checkpoint) -> &mut BTreeMap<TopicPartition, Offset> {
        match checkpoint {
            Checkpoint::RecoveryPoint => &mut self.recovery_points,
            Checkpoint::LogStart => &mut self.log_starts,
            Checkpoint::HighWatermark => &mut self.high_watermarks,
            Checkpoint::Cleaner => &mut self.cleaner_checkpoints,
        }
    }

    fn of(&self, checkpoint: Checkpoint) -> &BTreeMap<TopicPartition, Offset> {
        match checkpoint {
            Checkpoint::RecoveryPoint => &self.recovery_points,
            Checkpoint::LogStart => &self.log_starts,
            Checkpoint::HighWatermark => &self.high_watermarks,
            Checkpoint::Cleaner => &self.cleaner_checkpoints,
        }
    }
}

/// An open log directory: locked, and known to be ours. The disk's root is the directory.
#[derive(Debug)]
pub struct LogDir {
    disk: Arc<dyn Disk>,
    meta: MetaProperties,
    owed: Owed,
    clean_broker_epoch: Option<i64>,
    /// Checkpoints whose files were there.
    found: BTreeSet<Checkpoint>,
    checkpoints: BTreeMap<Checkpoint, BTreeMap<TopicPartition, Offset>>,
    unreadable: Vec<&'static str>,
    /// Held while checkpoints are looked up and written: two at once would share a temporary file, and the later one might
    /// bring back what the earlier one has forgotten.
    turn: Mutex<()>,
    _lock: Box<dyn DiskLock>,
}

/// What [`LogDir::take_over`] has to write of `meta.properties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    /// It is whole.
    Nothing,
    /// It was written before directories had ids.
    DirectoryId,
    /// There is none.
    Everything,
}

impl LogDir {
    /// [`Self::look`], then [`Self::take_over`].
    pub fn open(disk: Arc<dyn Disk>, new: MetaProperties) -> Result<Self, StorageError> {
        let log_dir = Self::look(disk, new)?;
        log_dir.take_over()?;
        Ok(log_dir)
    }

    /// Locks a log directory and reads what it says of itself, and changes nothing in it: a start that is refused leaves
    /// everything as it was. An empty directory is to become ours, with `new` as its `meta.properties`. One that is in use
    /// must have the node id of `new`; its cluster id and directory id stay. A checkpoint that cannot be read counts as
    /// missing, see [`LogDir::unreadable_files`].
    ///
    /// Errors: [`crate::DiskErrorKind::Locked`] while another process has it; [`StorageError::WrongOwner`].
    pub fn look(disk: Arc<dyn Disk>, new: MetaProperties) -> Result<Self, StorageError> {
        disk.create_dir("")?;
        let lock = disk.lock(LOCK)?;
        let (meta, owed) = whose(&*disk, new)?;
        let mark = read_text(&*disk, CLEAN_SHUTDOWN)?;
        let mut log_dir = Self {
            disk,
            meta,
            owed,
            clean_broker_epoch: mark.as_deref().map(parse_clean_shutdown),
            found: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
            unreadable: Vec::new(),
            turn: Mutex::new(()),
            _lock: lock,
        };
        log_dir.read_checkpoints()?;
        Ok(log_dir)
    }

    /// Makes the directory ours, before any log in it is opened. The mark of a clean stop goes (storage-formats trap 19);
    /// deleted partitions are unlinked.
    pub fn take_over(&self) -> Result<(), StorageError> {
        self.write_meta()?;
        if self.was_clean() {
            self.disk.remove(CLEAN_SHUTDOWN)?;
            self.disk.sync_dir("")?;
        }
        self.remove_deleted()
    }

    /// The checkpoints come first, durably: a directory with an owner and without them has lost something.
    fn write_meta(&self) -> Result<(), StorageError> {
        if self.owed == Owed::Nothing {
            return Ok(());
        }
        if self.owed == Owed::Everything {
            for checkpoint in Checkpoint::ALL.iter().filter(|checkpoint| !self.found.contains(checkpoint)) {
                self.disk.create(checkpoint.file())?;
            }
            self.disk.sync_dir("")?;
        }
        Ok(write_atomically(&*self.disk, META_PROPERTIES, self.meta.format().as_bytes())?)
    }

    /// Whether there was no `meta.properties`.
    pub fn is_new(&self) -> bool {
        self.owed == Owed::Everything
    }

    /// Whether the file of a checkpoint was there, whatever it said.
    pub fn has_checkpoint(&self, checkpoint: Checkpoint) -> bool {
        self.found.contains(&checkpoint)
    }

    fn read_checkpoints(&mut self) -> Result<(), StorageError> {
        for checkpoint in Checkpoint::ALL {
            let text = read_text(&*self.disk, checkpoint.file())?;
            if text.is_some() {
                self.found.insert(checkpoint);
            }
            let parsed = text.as_deref().map(parse_offsets);
            if parsed == Some(None) {
                self.unreadable.push(checkpoint.file());
            }
            self.checkpoints.insert(checkpoint, parsed.flatten().unwrap_or_default());
        }
        Ok(())
    }

    fn remove_deleted(&self) -> Result<(), StorageError> {
        for entry in self.disk.list("")?.into_iter().filter(|entry| entry.is_dir) {
            if PartitionDirKind::parse(&entry.name) == Some(PartitionDirKind::Delete) {
                self.remove_retired(&entry.name)?;
            }
        }
        Ok(())
    }

    /// Unlinks a directory that [`Log::delete`] has renamed, with all its files.
    pub fn remove_retired(&self, name: &str) -> Result<(), StorageError> {
        remove_retired(&*self.disk, name)
    }

    /// The directories of live partitions. Strays, and copies that were under way, are left alone.
    ///
    /// Errors: [`StorageError::Corrupt`] for a directory that is no partition's, as Kafka does.
    pub fn partitions(&self) -> Result<Vec<PartitionDir>, StorageError> {
        let mut partitions = Vec::new();
        for entry in self.disk.list("")?.into_iter().filter(|entry| entry.is_dir) {
            if IGNORED_DIRECTORIES.contains(&entry.name.as_str()) {
                continue;
            }
            match PartitionDirKind::parse(&entry.name) {
                Some(PartitionDirKind::Live(partition)) => {
                    let metadata = read_text(&*self.disk, &join(&entry.name, METADATA_FILE))?;
                    let topic_id = metadata.as_deref().and_then(parse_partition_metadata);
                    partitions.push(PartitionDir { partition, topic_id });
                }
                Some(PartitionDirKind::Delete | PartitionDirKind::Stray | PartitionDirKind::Future) => {}
                None => {
                    let problem = "is not in the form topic-partition; keep no directories of your own here";
                    return Err(StorageError::Corrupt { path: entry.name, problem: problem.to_owned() });
                }
            }
        }
        Ok(partitions)
    }

    /// Puts the directory of a partition aside that the metadata does not know, or knows by another id. `unique` is 128
    /// random bits. Answers the new name.
    ///
    /// Source: Kafka LogManager.handleStrayPartition.
    pub fn set_aside(&self, partition: &TopicPartition, unique: u128) -> Result<String, StorageError> {
        let name = retired_dir(partition, unique, "stray");
        self.disk.rename(&partition.to_string(), &name)?;
        self.disk.sync_dir("")?;
        Ok(name)
    }

    /// Opens a partition's log with what is remembered of it. The high watermark is the remembered one, as far as the log
    /// reaches.
    pub fn open_log(
        &self,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        now: Now,
    ) -> Result<Log, StorageError> {
        let remembered = |checkpoint| self.offset(checkpoint, &partition).unwrap_or(Offset(0));
        let recovery = Recovery {
            // The metadata log is always recovered from its recovery point (storage-formats §10).
            clean: self.was_clean() && &*partition.topic != METADATA_TOPIC,
            recovery_point: remembered(Checkpoint::RecoveryPoint),
            log_start_offset: remembered(Checkpoint::LogStart),
            high_watermark: remembered(Checkpoint::HighWatermark),
            cleaner_checkpoint: self.offset(Checkpoint::Cleaner, &partition),
        };
        let mut log = Log::open(self.disk.clone(), partition, topic_id, config, recovery, now)?;
        log.update_high_watermark(recovery.high_watermark);
        Ok(log)
    }

    /// What was remembered of a partition at the start.
    pub fn offset(&self, checkpoint: Checkpoint, partition: &TopicPartition) -> Option<Offset> {
        self.checkpoints.get(&checkpoint)?.get(partition).copied()
    }

    /// Adds to `offsets` what was remembered at the start of a partition whose log cannot be opened: the next start needs it
    /// again.
    pub fn keep_remembered(&self, partition: &TopicPartition, offsets: &mut LogOffsets) {
        for checkpoint in Checkpoint::ALL {
            if let Some(offset) = self.offset(checkpoint, partition) {
                offsets.of_mut(checkpoint).insert(partition.clone(), offset);
            }
        }
    }

    /// Whether it was remembered at the start that a partition has records.
    pub fn remembers_data(&self, partition: &TopicPartition) -> bool {
        let noted = [Checkpoint::RecoveryPoint, Checkpoint::HighWatermark].into_iter();
        noted.filter_map(|checkpoint| self.offset(checkpoint, partition)).any(|offset| offset > Offset(0))
    }

    /// The partitions of which anything was remembered at the start.
    pub fn remembered(&self) -> impl Iterator<Item = &TopicPartition> {
        self.checkpoints.values().flat_map(BTreeMap::keys)
    }

    /// Remembers what `which` are about. Threads take turns, and `offsets` is asked within the turn: every log must be in
    /// it. A partition that it does not name is forgotten, and an entry that outlives its topic would be believed of the next
    /// topic of that name. When this returns the files are durable; a crash before leaves of each the old or the new one.
    ///
    /// Errors: that of `offsets`, and then nothing was written.
    pub fn write_checkpoints(
        &self,
        which: &[Checkpoint],
        offsets: impl FnOnce() -> Result<LogOffsets, StorageError>,
    ) -> Result<(), StorageError> {
        let _turn = self.turn();
        let offsets = offsets()?;
        for checkpoint in which {
            let text = format_offsets(offsets.of(*checkpoint));
            replace_unsynced(&*self.disk, checkpoint.file(), text.as_bytes())?;
        }
        Ok(self.disk.sync_dir("")?)
    }

    /// Replaces one checkpoint. `offsets` is asked within the turn.
    pub fn write_checkpoint(
        &self,
        checkpoint: Checkpoint,
        offsets: impl FnOnce() -> BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), StorageError> {
        let _turn = self.turn();
        Ok(write_atomically(&*self.disk, checkpoint.file(), format_offsets(&offsets()).as_bytes())?)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        // It guards no data: whoever panicked with it left a whole file, old or new.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the mark of a clean stop: only after every log was opened, and closed again, and the checkpoints written.
    pub fn mark_clean(&self, broker_epoch: i64) -> Result<(), StorageError> {
        let mark = self.disk.create(CLEAN_SHUTDOWN)?;
        mark.write_at(0, &[format_clean_shutdown(broker_epoch).as_bytes()])?;
        mark.sync()?;
        Ok(self.disk.sync_dir("")?)
    }

    /// Whether the last stop was a clean one.
    pub fn was_clean(&self) -> bool {
        self.clean_broker_epoch.is_some()
    }

    /// The broker epoch that the mark of a clean stop had; −1 if it had none that could be read.
    pub fn clean_broker_epoch(&self) -> Option<i64> {
        self.clean_broker_epoch
    }

    /// Whose it is.
    pub fn meta(&self) -> &MetaProperties {
        &self.meta
    }

    /// The directory's own id.
    pub fn directory_id(&self) -> Uuid {
        self.meta.directory_id.expect("one was given when the directory was opened")
    }

    /// Checkpoints that could not be read and count as missing: worth a loud warning. What is lost by it is time, and
    /// where logs start whose records were deleted.
    pub fn unreadable_files(&self) -> &[&'static str] {
        &self.unreadable
    }

    /// The disk that it lies on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }
}

/// Unlinks a directory of files.
fn remove_retired(disk: &dyn Disk, name: &str) -> Result<(), StorageError> {
    let entries = match disk.list(name) {
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    for entry in entries {
        remove_if_there(disk, &join(name, &entry.name))?;
    }
    disk.remove_dir(name)?;
    Ok(())
}

/// Whose the directory is, and what of that is still to be written.
fn whose(disk: &dyn Disk, new: MetaProperties) -> Result<(MetaProperties, Owed), StorageError> {
    assert!(new.directory_id.is_some(), "a new log directory needs an id");
    let Some(text) = read_text(disk, META_PROPERTIES)? else { return Ok((new, Owed::Everything)) };
    let mut meta = MetaProperties::parse(&text)
        .map_err(|problem| StorageError::Corrupt { path: META_PROPERTIES.to_owned(), problem })?;
    if meta.node_id != new.node_id {
        return Err(StorageError::WrongOwner {
            what: "node.id",
            expected: new.node_id.to_string(),
            found: meta.node_id.to_string(),
        });
    }
    if meta.directory_id.is_some() {
        return Ok((meta, Owed::Nothing));
    }
    meta.directory_id = new.directory_id;
    Ok((meta, Owed::DirectoryId))
}

/// A text file's content; `None` if there is none. Bytes that are no text come out as replacement characters, and then
/// nothing parses them.
fn read_text(disk: &dyn Disk, path: &str) -> DiskResult<Option<String>> {
    let content = read_whole(disk, path, TEXT_FILE_BYTES_MAX)?;
    Ok(content.map(|content| String::from_utf8_lossy(&content).into_owned()))
}
