//! The real disk: one log directory of the operating system, by `std` and `rustix`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use fencepost_storage::{
    DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult, DiskSpace,
};
use fencepost_types::Millis;
use rustix::fs::{FlockOperation, fcntl_lock, statvfs};

use crate::handles::{CachedFile, HandleLimits, Handles, is_out_of_handles};

/// A directory of the operating system. Clones are the same directory.
#[derive(Clone, Debug)]
pub struct RealDisk {
    root: Arc<Path>,
    handles: Arc<Handles>,
}

impl RealDisk {
    /// The directory at `root`; it and its parents are created where they are missing. It keeps as many files open as its
    /// share of the process's handles allows.
    pub fn open(root: impl AsRef<Path>) -> DiskResult<Self> {
        Self::open_within(root, HandleLimits::current().open_files_max)
    }

    /// The same, with `open_files_max` files open at a time.
    pub(crate) fn open_within(root: impl AsRef<Path>, open_files_max: usize) -> DiskResult<Self> {
        let root = root.as_ref();
        let failed = |error: io::Error| disk_error("open", &root.display().to_string(), &error);
        fs::create_dir_all(root).map_err(failed)?;
        let root = root.canonicalize().map_err(failed)?;
        if let Some(parent) = root.parent() {
            // So that a directory just made is still there after a crash. A parent that may not be opened is not ours.
            let _ = File::open(parent).and_then(|parent| parent.sync_all());
        }
        let root: Arc<Path> = root.into();
        let handles = Handles::new(Arc::clone(&root), open_files_max);
        Ok(Self { root, handles })
    }

    /// The cache of its open files.
    #[cfg(test)]
    pub(crate) fn handles(&self) -> Arc<Handles> {
        Arc::clone(&self.handles)
    }

    /// Where it lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.to_path_buf() } else { self.root.join(path) }
    }

    fn file(
        &self,
        operation: &'static str,
        path: &str,
        options: &OpenOptions,
    ) -> DiskResult<Arc<dyn DiskFile>> {
        let file = self.handles.open(path, options).map_err(|error| disk_error(operation, path, &error))?;
        Ok(Arc::new(RealFile { file }))
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        self.file("open", path, OpenOptions::new().read(true).write(true))
    }

    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        self.file("create", path, OpenOptions::new().read(true).write(true).create(true).truncate(true))
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.handles.rename(from, to).map_err(|error| disk_error("rename", from, &error))
    }

    fn remove(&self, path: &str) -> DiskResult<()> {
        self.handles.remove(path).map_err(|error| disk_error("remove", path, &error))
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        fs::remove_dir(self.at(path)).map_err(|error| disk_error("remove", path, &error))
    }

    fn create_dir(&self, path: &str) -> DiskResult<()> {
        match fs::create_dir(self.at(path)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && self.at(path).is_dir() => Ok(()),
            created => created.map_err(|error| disk_error("create", path, &error)),
        }
    }

    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>> {
        let failed = |error: io::Error| disk_error("list", path, &error);
        let mut entries = Vec::new();
        for entry in self.handles.with_room(|| fs::read_dir(self.at(path))).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // What is gone by now was not there.
            let Ok(metadata) = fs::metadata(entry.path()) else { continue };
            let is_dir = metadata.is_dir();
            let bytes = if is_dir { 0 } else { metadata.len() };
            entries.push(DirEntry { name: entry.file_name().to_string_lossy().into_owned(), is_dir, bytes });
        }
        entries.sort();
        Ok(entries)
    }

    fn sync_dir(&self, path: &str) -> DiskResult<()> {
        let opened = self.handles.with_room(|| File::open(self.at(path)));
        opened.and_then(|directory| directory.sync_all()).map_err(|error| disk_error("sync", path, &error))
    }

    fn lock(&self, path: &str) -> DiskResult<Box<dyn DiskLock>> {
        let failed = |error: io::Error| disk_error("lock", path, &error);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let file = self.handles.with_room(|| options.open(self.at(path))).map_err(failed)?;
        let held = || DiskError::new(DiskErrorKind::Locked, "lock", path, "held by another process");
        // Two kinds of lock that do not see one another: this one excludes a second holder within the process …
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held()),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // … and this one is what a Java process takes.
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Box::new(RealLock { _file: file })),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Err(held()),
            Err(error) => Err(failed(error.into())),
        }
    }

    fn space(&self) -> DiskResult<Option<DiskSpace>> {
        let room = statvfs(&*self.root).map_err(|error| disk_error("measure", "", &error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(room.f_frsize);
        Ok(Some(DiskSpace { total_bytes: bytes(room.f_blocks), usable_bytes: bytes(room.f_bavail) }))
    }
}

/// Closing the file gives the lock back.
#[derive(Debug)]
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

#[derive(Debug)]
struct RealFile {
    file: Arc<CachedFile>,
}

impl RealFile {
    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> DiskError {
        move |error| disk_error(operation, &self.file.name(), &error)
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, mut position: u64, slices: &[&[u8]]) -> DiskResult<()> {
        let mut slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
        let mut rest = &mut slices[..];
        // Takes the empty slices away, so that "wrote nothing" below means a disk that takes nothing.
        IoSlice::advance_slices(&mut rest, 0);
        if rest.is_empty() {
            return Ok(());
        }
        let file = self.file.get_to_write().map_err(self.failed("write"))?;
        while !rest.is_empty() {
            match rustix::io::pwritev(&*file, rest, position) {
                Ok(0) => {
                    return Err(DiskError::new(
                        DiskErrorKind::Io,
                        "write",
                        &self.file.name(),
                        "nothing was written",
                    ));
                }
                Ok(written) => {
                    IoSlice::advance_slices(&mut rest, written);
                    position += written as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.failed("write")(error.into())),
            }
        }
        Ok(())
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        let file = self.file.get().map_err(self.failed("read"))?;
        let mut read = 0;
        while read < buffer.len() {
            match file.read_at(&mut buffer[read..], position + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read")(error)),
            }
        }
        Ok(read)
    }

    fn bytes(&self) -> DiskResult<u64> {
        let metadata = self.file.get().and_then(|file| file.metadata());
        metadata.map(|metadata| metadata.len()).map_err(self.failed("look at"))
    }

    fn truncate(&self, bytes: u64) -> DiskResult<()> {
        self.file.get_to_write().and_then(|file| file.set_len(bytes)).map_err(self.failed("truncate"))
    }

    fn sync(&self) -> DiskResult<()> {
        self.file.sync().map_err(self.failed("sync"))
    }

    fn modified(&self) -> DiskResult<Millis> {
        let metadata = self.file.get().and_then(|file| file.metadata());
        let modified = metadata.and_then(|metadata| metadata.modified());
        let modified = modified.map_err(self.failed("look at"))?;
        let since_epoch = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)))
    }
}

pub(crate) fn disk_error(operation: &'static str, path: &str, error: &io::Error) -> DiskError {
    let kind = match error.kind() {
        ErrorKind::NotFound => DiskErrorKind::NotFound,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DiskErrorKind::NoSpace,
        _ if is_out_of_handles(error) => DiskErrorKind::NoHandles,
        _ => DiskErrorKind::Io,
    };
    DiskError::new(kind, operation, path, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicI64, Ordering};

    use fencepost_storage::{Checkpoint, LogDir, MetaProperties};
    use fencepost_types::{BrokerId, Offset, TopicPartition, Uuid};

    use super::*;

    fn disk() -> (tempfile::TempDir, RealDisk) {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path().join("data")).unwrap();
        (directory, disk)
    }

    /// Slices go one after the other, at the position asked for; a file grows, is cut, and is read beyond its end.
    #[test]
    fn a_file_is_written_read_and_cut() {
        let (_directory, disk) = disk();
        disk.create_dir("a-0").unwrap();
        disk.create_dir("a-0").unwrap();
        let file = disk.create("a-0/x.log").unwrap();
        file.write_at(0, &[b"one", b"", b"two"]).unwrap();
        file.write_at(6, &[b"", b"three"]).unwrap();
        file.write_at(11, &[]).unwrap();
        file.write_at(11, &[b""]).unwrap();
        assert_eq!(file.read(3, 100).unwrap(), &b"twothree"[..]);
        assert_eq!(file.read(11, 5).unwrap(), &b""[..]);
        file.truncate(4).unwrap();
        assert_eq!(file.bytes().unwrap(), 4);
        assert!(file.modified().unwrap() > Millis(0));
        file.sync().unwrap();
        disk.sync_dir("a-0").unwrap();
        disk.sync_dir("").unwrap();
        let again = disk.open("a-0/x.log").unwrap();
        assert_eq!(again.read(0, 9).unwrap(), &b"onet"[..]);
        assert_eq!(disk.create("a-0/x.log").unwrap().bytes().unwrap(), 0);
    }

    /// More slices than one call takes still arrive whole.
    #[test]
    fn many_slices_are_written() {
        let (_directory, disk) = disk();
        let file = disk.create("x").unwrap();
        let slices = vec![&b"ab"[..]; 3_000];
        file.write_at(0, &slices).unwrap();
        assert_eq!(file.read(0, 10_000).unwrap(), b"ab".repeat(3_000));
    }

    /// Names: rename replaces, a handle outlives its name, errors say what is missing.
    #[test]
    fn names_and_handles() {
        let (_directory, disk) = disk();
        let file = disk.create("x").unwrap();
        file.write_at(0, &[b"kept"]).unwrap();
        disk.create("y").unwrap();
        disk.rename("x", "y").unwrap();
        disk.create_dir("d").unwrap();
        let listed: Vec<_> =
            disk.list("").unwrap().into_iter().map(|entry| (entry.name, entry.is_dir, entry.bytes)).collect();
        assert_eq!(listed, [("d".to_owned(), true, 0), ("y".to_owned(), false, 4)]);
        disk.remove("y").unwrap();
        disk.remove_dir("d").unwrap();
        assert_eq!(file.read(0, 9).unwrap(), &b"kept"[..]);
        assert_eq!(disk.open("y").unwrap_err().kind, DiskErrorKind::NotFound);
        assert_eq!(disk.list("d").unwrap_err().kind, DiskErrorKind::NotFound);
        assert_eq!(disk.remove("y").unwrap_err().kind, DiskErrorKind::NotFound);
    }

    /// One log directory, one owner, also within a process.
    #[test]
    fn a_lock_is_exclusive_until_dropped() {
        let (_directory, disk) = disk();
        let held = disk.lock(".lock").unwrap();
        assert_eq!(disk.lock(".lock").unwrap_err().kind, DiskErrorKind::Locked);
        drop(held);
        disk.lock(".lock").unwrap();
    }

    /// The cleaner, housekeeping and the deletion of a topic write checkpoints, each when it is due, on threads of their
    /// own. None of them may fail for another, and none may put an older view over a newer one: what was looked up last is
    /// what stays.
    #[test]
    fn checkpoints_are_written_in_turns() {
        const WRITES: i64 = 25;
        let (_directory, disk) = disk();
        let meta = MetaProperties::new("a-cluster", BrokerId(1), Uuid::from_u128(1));
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let log_dir = LogDir::open(Arc::clone(&disk), meta).unwrap();
        let partition = TopicPartition::new("a", 0);
        let (looked_up, inside) = (AtomicI64::new(0), AtomicI64::new(0));
        let offsets = || {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
            let offset = Offset(looked_up.fetch_add(1, Ordering::SeqCst));
            // Whoever would not wait for its turn gets the chance to come in between.
            (0..50).for_each(|_| std::thread::yield_now());
            inside.fetch_sub(1, Ordering::SeqCst);
            BTreeMap::from([(partition.clone(), offset)])
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..WRITES {
                        log_dir.write_checkpoint(Checkpoint::Cleaner, offsets).unwrap();
                    }
                });
            }
        });
        let written = disk.open("cleaner-offset-checkpoint").unwrap().read(0, 100).unwrap();
        assert_eq!(written, format!("0\n1\na 0 {}\n", 3 * WRITES - 1).into_bytes());
    }
}
