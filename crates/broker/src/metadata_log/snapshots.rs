//! Snapshots of the metadata: when one is due, how it is written, and what may go afterwards.
//!
//! ```text
//!   an image is published ──► due by bytes: now ──► a piece ─ sync ─ a piece ─ sync ─ … ─► rename ──► old segments and
//!                        └──► due by time: a chore ──┘       (.checkpoint.part)           snapshots go, as far as they may
//! ```
//!
//! All of it is chores, a piece at a time, over an image that never changes: no request waits for it, and no lock is held while
//! something is written.
//!
//! Source: KIP-630, Kafka SnapshotGenerator, KafkaMetadataLog.maybeClean.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use fencepost_metadata::{Image, SnapshotWriter};
use fencepost_records::Batches;
use fencepost_storage::{DiskFile, StorageError};
use fencepost_types::{Millis, Nanos, Offset};

use super::METADATA_TOPIC;
use super::files::{PART_SUFFIX, SnapshotId, snapshot_path, snapshots, time_and_bytes};
use crate::Broker;
use crate::cx::Cx;
use crate::housekeeping::chore_failed;

/// A chore writes so much of a snapshot, and then others have their turn.
const PIECE_BYTES: usize = 1 << 20;
/// After a snapshot that did not fit the disk the next one is tried no sooner.
const AGAIN_MS: i64 = 60_000;

/// When the next snapshot is due.
pub(crate) struct MetadataSnapshots {
    state: Mutex<Due>,
}

#[derive(Default)]
struct Due {
    /// Where the newest snapshot ends.
    end_offset: Offset,
    /// What the log had in bytes below there, of what it still has.
    bytes_below: u64,
    /// When it was made, or when this process began.
    at: Nanos,
    /// No snapshot begins before.
    not_before: Nanos,
    /// Whether one is being written.
    is_running: bool,
    /// Whether a chore will look again.
    is_armed: bool,
}

/// A snapshot that is being written.
struct Writing {
    writer: SnapshotWriter,
    file: Arc<dyn DiskFile>,
    position: u64,
    /// The name that it will have.
    path: String,
    /// What the log had in bytes when it was begun.
    bytes_below: u64,
}

impl MetadataSnapshots {
    /// The newest snapshot ends at `end_offset`, and the log has `bytes_below` bytes of records below that.
    pub(super) fn new(end_offset: Offset, bytes_below: u64, now: Nanos) -> Self {
        Self { state: Mutex::new(Due { end_offset, bytes_below, at: now, ..Due::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Due> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl Broker {
    fn metadata_log_bytes(&self) -> u64 {
        // Of a log that is gone nothing is due.
        self.controller().partition().with(|state| state.log.size_bytes()).unwrap_or(0)
    }

    /// Begins a snapshot if one is due, or sees to it that somebody looks again when one will be. Called when an image has been
    /// published.
    pub(crate) fn look_at_metadata_snapshots(self: &Arc<Self>, cx: &mut Cx) {
        let config = self.config();
        let bytes_max = config.metadata_log_max_record_bytes_between_snapshots.max(1) as u64;
        let interval_ms = config.metadata_log_max_snapshot_interval_ms;
        let bytes = self.metadata_log_bytes();
        let end_offset = self.image().offset().next();
        let next = {
            let mut due = self.metadata_snapshots.lock();
            if due.is_running || end_offset <= due.end_offset {
                return;
            }
            let by_bytes = bytes.saturating_sub(due.bytes_below) >= bytes_max;
            let by_time = (interval_ms > 0).then(|| due.at.plus_ms(interval_ms));
            let at = if by_bytes { Some(cx.now.mono) } else { by_time };
            let Some(at) = at.map(|at| at.max(due.not_before)) else { return };
            if at <= cx.now.mono {
                due.is_running = true;
                None
            } else if std::mem::replace(&mut due.is_armed, true) {
                return;
            } else {
                Some(at)
            }
        };
        match next {
            None => self.add_chore(cx.now.mono, Box::new(|broker, cx| broker.begin_metadata_snapshot(cx))),
            Some(at) => self.add_chore(
                at,
                Box::new(|broker, cx| {
                    broker.metadata_snapshots.lock().is_armed = false;
                    broker.look_at_metadata_snapshots(cx);
                }),
            ),
        }
    }

    fn begin_metadata_snapshot(self: &Arc<Self>, cx: &mut Cx) {
        match self.open_metadata_snapshot(cx) {
            Ok(writing) => self.write_metadata_snapshot(cx, writing),
            Err(error) => self.metadata_snapshot_failed(cx, &error, None),
        }
    }

    /// The image in force is durable. What is appended from here on goes into another segment, so that this one can go with a
    /// later snapshot.
    ///
    /// Differs from Kafka, whose segments end by their own size and time alone: with its default of 1 GiB nothing is ever deleted
    /// of a log below that.
    fn open_metadata_snapshot(self: &Arc<Self>, cx: &mut Cx) -> Result<Writing, StorageError> {
        let image: Image = (*self.image()).clone();
        let partition = self.controller().partition();
        let at = self.time_of_metadata(image.offset())?.unwrap_or(cx.now.wall);
        let rolled = partition.with(|state| {
            state.log.begin_segment(cx.now)?;
            Ok(state.log.size_bytes())
        });
        let bytes_below = rolled.unwrap_or_else(|code| Err(offline(code)))?;
        partition.queue_sync(self);
        let path = snapshot_path(&partition.name.to_string(), (image.offset().next(), image.epoch()));
        let file = self.disk.create(&format!("{path}{PART_SUFFIX}"))?;
        Ok(Writing { writer: SnapshotWriter::new(image, at), file, position: 0, path, bytes_below })
    }

    /// When the record at `offset` was written; `None` where the log no longer has it.
    fn time_of_metadata(&self, offset: Offset) -> Result<Option<Millis>, StorageError> {
        let partition = self.controller().partition();
        let read = partition.with(|state| {
            let end = state.log.log_end_offset();
            state.log.read(offset, 1, end, true).ok()
        });
        let slice = read.map_err(offline)?;
        let batch = slice.and_then(|slice| Batches::new(slice.records).next());
        Ok(batch.and_then(Result::ok).map(|batch| batch.header().max_timestamp))
    }

    /// Writes a piece, and makes it durable; then the next one, or what comes after the last.
    fn write_metadata_snapshot(self: &Arc<Self>, cx: &mut Cx, mut writing: Writing) {
        let part = format!("{}{PART_SUFFIX}", writing.path);
        match self.write_piece(&mut writing) {
            Ok(true) => match self.end_metadata_snapshot(cx, &part, &writing) {
                Ok(()) => {}
                Err(error) => self.metadata_snapshot_failed(cx, &error, Some(&part)),
            },
            Ok(false) => self.add_chore(
                cx.now.mono,
                Box::new(move |broker, cx| broker.write_metadata_snapshot(cx, writing)),
            ),
            Err(error) => self.metadata_snapshot_failed(cx, &error, Some(&part)),
        }
    }

    /// Answers whether that was the last piece.
    fn write_piece(&self, writing: &mut Writing) -> Result<bool, StorageError> {
        let (mut written, mut is_last) = (0, false);
        while written < PIECE_BYTES {
            let Some(batch) = writing.writer.next() else {
                is_last = true;
                break;
            };
            writing.file.write_at(writing.position, &[batch.bytes()])?;
            writing.position += batch.bytes().len() as u64;
            written += batch.bytes().len();
        }
        writing.file.sync()?;
        Ok(is_last)
    }

    /// The name comes last: a snapshot that has one is whole.
    fn end_metadata_snapshot(
        self: &Arc<Self>,
        cx: &mut Cx,
        part: &str,
        writing: &Writing,
    ) -> Result<(), StorageError> {
        self.disk.rename(part, &writing.path)?;
        self.disk.sync_dir(&self.controller().partition().name.to_string())?;
        let end_offset = writing.writer.image().offset().next();
        tracing::info!(file = writing.path, bytes = writing.position, offset = %end_offset, "the metadata have a new snapshot");
        {
            let mut due = self.metadata_snapshots.lock();
            (due.end_offset, due.bytes_below) = (end_offset, writing.bytes_below);
            (due.at, due.is_running) = (cx.now.mono, false);
        }
        if let Err(error) = self.clean_metadata_log(cx) {
            chore_failed(self, cx, &error);
        }
        self.look_at_metadata_snapshots(cx);
        Ok(())
    }

    fn metadata_snapshot_failed(self: &Arc<Self>, cx: &mut Cx, error: &StorageError, part: Option<&str>) {
        {
            let mut due = self.metadata_snapshots.lock();
            (due.is_running, due.not_before) = (false, cx.now.mono.plus_ms(AGAIN_MS));
        }
        if self.log_dir_is_offline.load(Ordering::SeqCst) {
            return;
        }
        let Some(shortage) = error.shortage() else {
            self.log_dir_failed(cx, error);
            return;
        };
        tracing::warn!(%error, "the snapshot of the metadata is put off: {shortage}");
        if let Some(Err(error)) = part.map(|part| self.disk.remove(part)) {
            tracing::warn!(%error, "an unfinished snapshot of the metadata stays");
        }
        self.look_at_metadata_snapshots(cx);
    }

    /// Lets old snapshots go, oldest first, while log and snapshots are larger than `metadata.max.retention.bytes` or the oldest
    /// one is older than `metadata.max.retention.ms`. The log then begins where the next one ends; the newest always stays.
    pub(crate) fn clean_metadata_log(self: &Arc<Self>, cx: &mut Cx) -> Result<(), StorageError> {
        if self.log_dir_is_offline.load(Ordering::SeqCst) {
            return Ok(());
        }
        let config = self.config();
        let (bytes_max, ms_max) = (config.metadata_max_retention_bytes, config.metadata_max_retention_ms);
        let directory = self.controller().partition().name.to_string();
        let mut kept = Vec::new();
        for id in snapshots(&*self.disk, &directory)? {
            let (time, bytes) = time_and_bytes(&*self.disk, &snapshot_path(&directory, id))?;
            kept.push((id, time, bytes));
        }
        while let [(oldest, time, _), (next, _, _), ..] = kept[..] {
            let snapshot_bytes: u64 = kept.iter().map(|(_, _, bytes)| bytes).sum();
            let bytes = i64::try_from(self.metadata_log_bytes() + snapshot_bytes).unwrap_or(i64::MAX);
            let is_old = ms_max >= 0 && time.is_some_and(|time| cx.now.wall.since(time) > ms_max);
            if !is_old && (bytes_max < 0 || bytes <= bytes_max) {
                break;
            }
            self.begin_metadata_log_at(cx, next)?;
            self.disk.remove(&snapshot_path(&directory, oldest))?;
            kept.remove(0);
        }
        Ok(())
    }

    /// The log begins where this snapshot ends. Segments wholly below go.
    fn begin_metadata_log_at(
        self: &Arc<Self>,
        cx: &mut Cx,
        (end_offset, _): SnapshotId,
    ) -> Result<(), StorageError> {
        let partition = self.controller().partition();
        let before = self.metadata_log_bytes();
        partition.delete_records(cx, end_offset).map_err(offline)?;
        let files = partition.apply_retention(cx)?;
        let gone = before.saturating_sub(self.metadata_log_bytes());
        {
            let mut due = self.metadata_snapshots.lock();
            due.bytes_below = due.bytes_below.saturating_sub(gone);
        }
        if !files.is_empty() {
            partition.queue_sync(self);
            self.unlink_later(cx.now, METADATA_TOPIC, files);
        }
        Ok(())
    }
}

fn offline(code: fencepost_types::ErrorCode) -> StorageError {
    StorageError::Offline { directory: METADATA_TOPIC.to_owned(), reason: format!("it is gone: {code}") }
}
