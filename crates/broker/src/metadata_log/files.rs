//! The small files of the metadata log, read whole: snapshots, what a format tool has left, the state of the quorum.

use bytes::Bytes;
use fencepost_metadata::quorum::{
    QUORUM_STATE_FILE, QuorumState, checkpoint_file_name, parse_checkpoint_file_name,
};
use fencepost_metadata::{Image, ImageFold, read_snapshot, snapshot_time};
use fencepost_records::Batches;
use fencepost_storage::{Disk, DiskErrorKind, StorageError};
use fencepost_types::{LeaderEpoch, Millis, Offset};

use crate::boot::StartError;

/// What Kafka's format tool left in the log directory up to version 4.3; later ones leave a snapshot that ends at 0.
const BOOTSTRAP_FILE: &str = "bootstrap.checkpoint";
/// No snapshot is longer: a million partitions take a tenth of it.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;
/// `quorum-state` is one short line.
const QUORUM_STATE_BYTES_MAX: u64 = 1 << 20;

/// What names a snapshot: the offset after its last record, and that record's epoch.
pub(super) type SnapshotId = (Offset, LeaderEpoch);

/// The snapshots in the directory, oldest first, without the one that a format tool has left.
pub(super) fn snapshots(disk: &dyn Disk, directory: &str) -> Result<Vec<SnapshotId>, StorageError> {
    let entries = match disk.list(directory) {
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let ids = entries.iter().filter_map(|entry| parse_checkpoint_file_name(&entry.name));
    let mut ids: Vec<_> = ids.filter(|(end_offset, _)| *end_offset > Offset(0)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// What a snapshot's name ends with while it is being written, and once it is to be unlinked.
pub(super) const PART_SUFFIX: &str = ".part";
const DELETED_SUFFIX: &str = ".deleted";

/// Removes snapshots that were not finished, and those that an earlier owner was about to unlink.
pub(super) fn remove_unfinished(disk: &dyn Disk, directory: &str) -> Result<(), StorageError> {
    let entries = match disk.list(directory) {
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    let goes = |name: &str| {
        let snapshot = name.strip_suffix(PART_SUFFIX).or(name.strip_suffix(DELETED_SUFFIX));
        snapshot.and_then(parse_checkpoint_file_name).is_some()
    };
    for entry in entries.iter().filter(|entry| goes(&entry.name)) {
        disk.remove(&format!("{directory}/{}", entry.name))?;
    }
    Ok(())
}

/// When the last record in a snapshot was written, and the file's length in bytes.
pub(super) fn time_and_bytes(disk: &dyn Disk, path: &str) -> Result<(Option<Millis>, u64), StorageError> {
    let file = disk.open(path)?;
    let beginning = file.read(0, SNAPSHOT_HEAD_BYTES)?;
    Ok((snapshot_time(beginning), file.bytes()?))
}

/// The first batch of a snapshot is shorter: it names the voters.
const SNAPSHOT_HEAD_BYTES: usize = 64 * 1024;

/// The path of a snapshot.
pub(super) fn snapshot_path(directory: &str, (end_offset, epoch): SnapshotId) -> String {
    format!("{directory}/{}", checkpoint_file_name(end_offset, epoch))
}

/// The newest snapshot that can be read, and what is wrong with those that are newer.
#[derive(Default)]
pub(super) struct Newest {
    pub(super) image: Option<Image>,
    /// Path and fault of each newer one.
    pub(super) unreadable: Vec<(String, String)>,
}

/// Reads the newest of these snapshots that can be read.
pub(super) fn newest_snapshot(
    disk: &dyn Disk,
    directory: &str,
    ids: &[SnapshotId],
) -> Result<Newest, StartError> {
    let mut newest = Newest::default();
    for id in ids.iter().rev() {
        let path = snapshot_path(directory, *id);
        let Some(bytes) = read_whole(disk, &path, SNAPSHOT_BYTES_MAX)? else { continue };
        match read_snapshot(bytes, id.0, id.1) {
            Ok(image) => {
                newest.image = Some(image);
                break;
            }
            Err(error) => newest.unreadable.push((path, error.to_string())),
        }
    }
    Ok(newest)
}

/// What a format tool has left for the first start.
#[derive(Default)]
pub(super) struct Formatted {
    /// Whether it has left anything.
    pub(super) is_there: bool,
    /// What the log begins with; `None` where nothing in it says a level.
    pub(super) image: Option<Image>,
}

impl Formatted {
    fn by(image: Image) -> Self {
        Self { is_there: true, image: image.metadata_version().is_some().then_some(image) }
    }
}

/// What a format tool has left for the first start.
///
/// Source: KIP-1170, Kafka BootstrapDirectory.
pub(super) fn read_bootstrap(disk: &dyn Disk, directory: &str) -> Result<Formatted, StartError> {
    let path = snapshot_path(directory, (Offset(0), LeaderEpoch(0)));
    if let Some(bytes) = read_whole(disk, &path, SNAPSHOT_BYTES_MAX)? {
        return match read_snapshot(bytes, Offset(0), LeaderEpoch(0)) {
            Ok(image) => Ok(Formatted::by(image)),
            Err(error) => Err(StartError::Metadata(format!("{path}: {error}"))),
        };
    }
    let Some(bytes) = read_whole(disk, BOOTSTRAP_FILE, SNAPSHOT_BYTES_MAX)? else {
        return Ok(Formatted::default());
    };
    let mut fold = ImageFold::default();
    let broken = |error: String| StartError::Metadata(format!("{BOOTSTRAP_FILE}: {error}"));
    for batch in Batches::new(bytes) {
        let batch = batch.map_err(|error| broken(error.to_string()))?;
        batch.verify_crc().map_err(|error| broken(error.to_string()))?;
        fold.replay_batch(&batch).map_err(|error| broken(error.to_string()))?;
    }
    Ok(Formatted::by(fold.image().clone().as_of(Offset(0), LeaderEpoch(0))))
}

/// The file `quorum-state`; `None` if there is none.
///
/// Errors: it cannot be read. It says who votes, which nothing else says of static voters: guessing is not for us.
///
/// Source: Kafka FileQuorumStateStore, which does not start either.
pub(super) fn read_state(disk: &dyn Disk, directory: &str) -> Result<Option<QuorumState>, StartError> {
    let path = format!("{directory}/{QUORUM_STATE_FILE}");
    let Some(content) = read_whole(disk, &path, QUORUM_STATE_BYTES_MAX)? else { return Ok(None) };
    match std::str::from_utf8(&content).ok().and_then(QuorumState::parse) {
        Some(state) => Ok(Some(state)),
        None => Err(StartError::Metadata(format!(
            "{path} cannot be read; no file was changed: put a backup of it in its place, or remove it if this node \
             is the only voter, and the epoch of the log counts"
        ))),
    }
}

/// A whole file of at most `bytes_max` bytes; `None` if there is none.
fn read_whole(disk: &dyn Disk, path: &str, bytes_max: u64) -> Result<Option<Bytes>, StartError> {
    let file = match disk.open(path) {
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(StorageError::from)?,
    };
    let bytes = file.bytes().map_err(StorageError::from)?;
    if bytes > bytes_max {
        return Err(StartError::Metadata(format!("{path} has {bytes} bytes, more than {bytes_max}")));
    }
    Ok(Some(file.read(0, bytes as usize).map_err(StorageError::from)?))
}
