//! A disk in memory that fails when it is told to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fencepost_storage::{
    DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult, MemoryDisk,
};
use fencepost_types::Millis;

/// What goes wrong from now on. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    switches: Arc<Switches>,
}

#[derive(Debug, Default)]
struct Switches {
    syncs: AtomicBool,
    writes: Mutex<Option<String>>,
    refused_writes: AtomicUsize,
}

impl Faults {
    /// Every sync of a file fails, or none.
    pub fn fail_syncs(&self, fail: bool) {
        self.switches.syncs.store(fail, Ordering::Relaxed);
    }

    /// Writes fail as on a full disk, of files whose path begins so; with `None` none does.
    pub fn fail_writes(&self, prefix: Option<&str>) {
        *self.switches.writes.lock().unwrap() = prefix.map(str::to_owned);
    }

    /// How many writes have failed so far.
    pub fn refused_writes(&self) -> usize {
        self.switches.refused_writes.load(Ordering::Relaxed)
    }

    fn check_write(&self, path: &str) -> DiskResult<()> {
        let prefix = self.switches.writes.lock().unwrap();
        if prefix.as_ref().is_none_or(|prefix| !path.starts_with(prefix)) {
            return Ok(());
        }
        self.switches.refused_writes.fetch_add(1, Ordering::Relaxed);
        Err(DiskError::new(DiskErrorKind::NoSpace, "write", path, "the test's disk is full"))
    }

    fn check_sync(&self, path: &str) -> DiskResult<()> {
        if self.switches.syncs.load(Ordering::Relaxed) {
            return Err(DiskError::new(DiskErrorKind::Io, "sync", path, "the test's disk does not sync"));
        }
        Ok(())
    }
}

/// A memory disk with [`Faults`].
#[derive(Clone, Debug, Default)]
pub struct TestDisk {
    memory: MemoryDisk,
    /// What goes wrong.
    pub faults: Faults,
}

impl TestDisk {
    fn wrap(&self, path: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(TestFile { file, path: path.to_owned(), faults: self.faults.clone() })
    }
}

impl Disk for TestDisk {
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        self.memory.open(path).map(|file| self.wrap(path, file))
    }

    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        self.memory.create(path).map(|file| self.wrap(path, file))
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.memory.rename(from, to)
    }

    fn remove(&self, path: &str) -> DiskResult<()> {
        self.memory.remove(path)
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.memory.remove_dir(path)
    }

    fn create_dir(&self, path: &str) -> DiskResult<()> {
        self.memory.create_dir(path)
    }

    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>> {
        self.memory.list(path)
    }

    fn sync_dir(&self, path: &str) -> DiskResult<()> {
        self.memory.sync_dir(path)
    }

    fn lock(&self, path: &str) -> DiskResult<Box<dyn DiskLock>> {
        self.memory.lock(path)
    }
}

#[derive(Debug)]
struct TestFile {
    file: Arc<dyn DiskFile>,
    path: String,
    faults: Faults,
}

impl DiskFile for TestFile {
    fn write_at(&self, position: u64, slices: &[&[u8]]) -> DiskResult<()> {
        self.faults.check_write(&self.path)?;
        self.file.write_at(position, slices)
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        self.file.read_at(position, buffer)
    }

    fn bytes(&self) -> DiskResult<u64> {
        self.file.bytes()
    }

    fn truncate(&self, bytes: u64) -> DiskResult<()> {
        self.file.truncate(bytes)
    }

    fn sync(&self) -> DiskResult<()> {
        self.faults.check_sync(&self.path)?;
        self.file.sync()
    }

    fn modified(&self) -> DiskResult<Millis> {
        self.file.modified()
    }
}
