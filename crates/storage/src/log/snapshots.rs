//! The `.snapshot` files of a log: producer state at an offset, so that a restart need not replay everything. Beside each, where
//! there is more to say than Kafka's format can, a `.window` of our own with all batches of the producers' windows.

use std::collections::BTreeSet;

use fencepost_partition::ProducerSnapshot;
use fencepost_types::{Millis, Offset};

use super::Log;
use super::retire::Retired;
use crate::disk::{Disk, DiskErrorKind, DiskResult, join, read_whole, remove_if_there};
use crate::file_name::{FileKind, offset_file};

/// No snapshot is ever longer than this: more than a million producers of one partition.
const SNAPSHOT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The windows of as many producers, five batches each.
const WINDOW_BYTES_MAX: u64 = 3 * SNAPSHOT_BYTES_MAX;

impl Log {
    /// Writes producer state as it is now, unless a snapshot of the same offset is there or there never was any data.
    pub(super) fn write_snapshot(&mut self) -> DiskResult<()> {
        let offset = self.producers.map_end_offset();
        let no_data = self.segments.iter().all(|segment| segment.bytes == 0) && self.producers.is_empty();
        if no_data || self.snapshots.contains(&offset) {
            return Ok(());
        }
        let content = self.producers.encode_snapshot();
        if content.len() as u64 > SNAPSHOT_BYTES_MAX {
            // Too many producers for a snapshot that we would read again: the next start replays the log instead.
            return Ok(());
        }
        // First, and so durable first: a snapshot that is believed has its windows.
        let windows = self.producers.encode_windows(&content);
        if let Some(windows) = windows.filter(|windows| windows.len() as u64 <= WINDOW_BYTES_MAX) {
            self.replace_file(&offset_file(offset, FileKind::Window), &windows)?;
        }
        self.replace_file(&offset_file(offset, FileKind::Snapshot), &content)?;
        self.snapshots.insert(offset);
        Ok(())
    }

    /// Loads the newest usable snapshot at or below `offset` into the producer state, which it replaces; without one the
    /// state is that of nobody at the beginning of the log. Unreadable ones are removed. Replaying the log from
    /// the answered offset on completes it.
    pub(super) fn load_snapshot_below(&mut self, offset: Offset, now: Millis) -> DiskResult<Offset> {
        let candidates: Vec<Offset> = self.snapshots.range(..=offset).rev().copied().collect();
        for candidate in candidates {
            let path = self.path(&offset_file(candidate, FileKind::Snapshot));
            let content = read_whole(&*self.disk, &path, SNAPSHOT_BYTES_MAX)?;
            let expiration_ms = self.config.producer_id_expiration_ms;
            let loaded = content.filter(|content| {
                self.producers.load_snapshot(content, candidate, now, expiration_ms).is_ok()
            });
            if let Some(content) = loaded {
                self.load_windows(candidate, &content)?;
                return Ok(candidate);
            }
            self.report.rebuilt.push(path);
            self.remove_snapshot(candidate)?;
        }
        let start = self.segments.first().map_or(self.log_start_offset, |segment| segment.base_offset);
        self.producers.clear(start);
        Ok(start)
    }

    /// Completes the state that was loaded from `snapshot` with the windows noted beside it. Without usable ones the newest
    /// batch of each producer is known, as with Kafka: a retry of an older one is then refused, never written again. Damage
    /// takes nothing more with it, since the snapshot may be all that is left of producers whose records are gone.
    fn load_windows(&mut self, offset: Offset, snapshot: &[u8]) -> DiskResult<()> {
        let path = self.path(&offset_file(offset, FileKind::Window));
        let loaded = match self.disk.open(&path) {
            Err(error) if error.kind == DiskErrorKind::NotFound => Ok(()),
            opened => {
                let file = opened?;
                let bytes = file.bytes()?.min(WINDOW_BYTES_MAX);
                self.producers.load_windows(&file.read(0, bytes as usize)?, snapshot)
            }
        };
        self.unusable_windows = loaded.err().map(|error| (path, error));
        Ok(())
    }

    /// What the newest snapshot at or above `offset` knows, if it can be read.
    pub(super) fn read_snapshot_above(&self, offset: Offset) -> DiskResult<Option<ProducerSnapshot>> {
        let Some(found) = self.snapshots.range(offset..).next() else { return Ok(None) };
        read_snapshot(&*self.disk, &self.directory, *found)
    }

    pub(super) fn remove_snapshot(&mut self, offset: Offset) -> DiskResult<()> {
        self.snapshots.remove(&offset);
        remove_if_there(&*self.disk, &self.path(&offset_file(offset, FileKind::Snapshot)))?;
        remove_if_there(&*self.disk, &self.path(&offset_file(offset, FileKind::Window)))
    }

    /// Takes a snapshot out, with the windows beside it.
    pub(super) fn retire_snapshot(&self, offset: Offset, retired: &mut Retired) -> DiskResult<()> {
        [FileKind::Snapshot, FileKind::Window]
            .into_iter()
            .try_for_each(|kind| self.retire_file(self.path(&offset_file(offset, kind)), retired))
    }

    /// Removes the snapshots above `offset`.
    pub(super) fn remove_snapshots_above(&mut self, offset: Offset) -> DiskResult<()> {
        let above = self.snapshots.split_off(&offset.next());
        above.into_iter().try_for_each(|offset| self.remove_snapshot(offset))
    }

    /// Keeps one snapshot for each segment, and the newest if it lies beyond the last segment's base.
    pub(super) fn remove_stray_snapshots(&mut self) -> DiskResult<()> {
        let bases: BTreeSet<Offset> = self.segments.iter().map(|segment| segment.base_offset).collect();
        let newest = self.snapshots.last().copied().filter(|newest| Some(newest) > bases.last());
        let stray = |offset: &Offset| !bases.contains(offset) && Some(*offset) != newest;
        let strays: Vec<Offset> = self.snapshots.iter().copied().filter(stray).collect();
        strays.into_iter().try_for_each(|offset| self.remove_snapshot(offset))
    }
}

/// What the snapshot of an offset knows, if it is there and can be read.
pub(crate) fn read_snapshot(
    disk: &dyn Disk,
    directory: &str,
    offset: Offset,
) -> DiskResult<Option<ProducerSnapshot>> {
    let path = join(directory, &offset_file(offset, FileKind::Snapshot));
    let content = read_whole(disk, &path, SNAPSHOT_BYTES_MAX)?;
    Ok(content.and_then(|content| ProducerSnapshot::decode(&content).ok()))
}
