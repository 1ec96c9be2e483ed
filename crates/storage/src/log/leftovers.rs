//! What an interrupted deletion, cleaning or replacement left in a partition directory, and how it is settled before the
//! log is read (storage-formats §10, rules 1 to 3).

use std::collections::BTreeSet;

use fencepost_types::Offset;

use super::order::SEGMENT_OFFSETS_MAX;
use crate::disk::{Disk, DiskResult, join};
use crate::error::StorageError;
use crate::file_name::{FileKind, FileStage, OffsetFile, offset_file};
use crate::scan::Scan;

/// The live files of a partition directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveFiles {
    /// Bases of the segments.
    pub(crate) segments: BTreeSet<Offset>,
    /// Offsets of the snapshots.
    pub(crate) snapshots: BTreeSet<Offset>,
}

/// Settles what is left over and answers what is live.
pub(crate) fn settle(disk: &dyn Disk, directory: &str) -> Result<LiveFiles, StorageError> {
    remove_unfinished(disk, directory)?;
    finish_swaps(disk, directory)?;
    let mut live = LiveFiles::default();
    let files = offset_files(disk, directory)?;
    for (_, file) in files.iter().filter(|(_, file)| file.stage == FileStage::Live) {
        match file.kind {
            FileKind::Log => live.segments.insert(file.offset),
            FileKind::Snapshot => live.snapshots.insert(file.offset),
            FileKind::OffsetIndex | FileKind::TimeIndex | FileKind::TxnIndex | FileKind::Window => false,
        };
    }
    for (name, file) in files {
        let is_orphan = match file.kind {
            FileKind::Log | FileKind::Snapshot => false,
            FileKind::OffsetIndex | FileKind::TimeIndex | FileKind::TxnIndex => {
                !live.segments.contains(&file.offset)
            }
            // Kafka knows nothing of it when it removes a snapshot.
            FileKind::Window => !live.snapshots.contains(&file.offset),
        };
        if is_orphan {
            disk.remove(&join(directory, &name))?;
        }
    }
    Ok(live)
}

/// Removes `.deleted`, `.cleaned` and `.tmp` files, and the `.swap` files of a split that was not finished: those at or
/// above the lowest `.cleaned` one. Source: KAFKA-6264.
fn remove_unfinished(disk: &dyn Disk, directory: &str) -> DiskResult<()> {
    let files = offset_files(disk, directory)?;
    let cleaned = files.iter().filter(|(_, file)| file.stage == FileStage::Cleaned);
    let lowest_cleaned = cleaned.map(|(_, file)| file.offset).min();
    for (name, file) in &files {
        let goes = match file.stage {
            FileStage::Live => false,
            FileStage::Deleted | FileStage::Cleaned => true,
            FileStage::Swap => lowest_cleaned.is_some_and(|lowest| file.offset >= lowest),
        };
        if goes {
            disk.remove(&join(directory, name))?;
        }
    }
    let temporary =
        disk.list(directory)?.into_iter().filter(|entry| !entry.is_dir && entry.name.ends_with(".tmp"));
    temporary.into_iter().try_for_each(|entry| disk.remove(&join(directory, &entry.name)))
}

/// Completes a replacement: everything live in the range of the `.swap` logs goes, then `.swap` is taken off (storage-formats
/// trap 32).
///
/// Errors: [`StorageError::Corrupt`] where such a log is not whole. It was made durable before it got its name, and what it says of its
/// end decides what is removed.
fn finish_swaps(disk: &dyn Disk, directory: &str) -> Result<(), StorageError> {
    let files = offset_files(disk, directory)?;
    let swaps: Vec<_> = files.iter().filter(|(_, file)| file.stage == FileStage::Swap).collect();
    let mut range: Option<(Offset, Offset)> = None;
    for (name, file) in &swaps {
        if file.kind == FileKind::Log {
            let end = end_of_log(disk, &join(directory, name), file.offset)?;
            let (low, high) = range.unwrap_or((file.offset, end));
            range = Some((low.min(file.offset), high.max(end)));
        }
    }
    if let Some((low, high)) = range {
        let replaced =
            |file: &OffsetFile| file.stage == FileStage::Live && (low..high).contains(&file.offset);
        for (name, _) in files.iter().filter(|(_, file)| replaced(file)) {
            disk.remove(&join(directory, name))?;
        }
    }
    for (name, file) in swaps {
        disk.rename(&join(directory, name), &join(directory, &offset_file(file.offset, file.kind)))?;
    }
    Ok(())
}

/// The offset after the last batch of a log file that is whole.
fn end_of_log(disk: &dyn Disk, path: &str, base: Offset) -> Result<Offset, StorageError> {
    let log = disk.open(path)?;
    let bytes = log.bytes()?;
    let mut walk = Scan::walk(&*log, 0, bytes).within(base, base.plus(SEGMENT_OFFSETS_MAX));
    let (mut end, mut position) = (base, 0);
    while let Some(batch) = walk.next()? {
        if !walk.is_intact(&batch)? {
            break;
        }
        (end, position) = (end.max(batch.header.next_offset()), batch.end());
    }
    if position < bytes {
        let problem = format!("there is no batch at byte {position}, before the end at {bytes}");
        return Err(StorageError::Corrupt { path: path.to_owned(), problem });
    }
    Ok(end)
}

pub(super) fn offset_files(disk: &dyn Disk, directory: &str) -> DiskResult<Vec<(String, OffsetFile)>> {
    let names = disk.list(directory)?.into_iter().filter(|entry| !entry.is_dir).map(|entry| entry.name);
    Ok(names.filter_map(|name| OffsetFile::parse(&name).map(|file| (name, file))).collect())
}
