//! A disk in memory that fails when it is told to, and forgets in a crash what was not synced.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fencepost_broker::{Broker, Edge, StartError};
use fencepost_storage::{DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult};
use fencepost_types::Millis;

use super::{World, listener};
use crash_disk::{CrashDisk, Dice};

#[allow(dead_code)]
#[path = "../../../../storage/tests/common/crash_disk.rs"]
mod crash_disk;

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
    read_bytes: AtomicUsize,
    /// Every so manieth call that needs a handle finds none; 0: all find one.
    no_handle_every: AtomicUsize,
    handle_calls: AtomicUsize,
    power: Mutex<Power>,
}

/// When the power fails, counted in calls that change something or sync.
#[derive(Debug, Default)]
struct Power {
    calls: u64,
    /// The call at which it fails, counted from 0, and whether that call is still made.
    fails_at: Option<(u64, bool)>,
    is_off: bool,
}

impl Faults {
    /// How many calls have changed something, or synced.
    pub fn calls(&self) -> u64 {
        self.power().calls
    }

    /// The power fails at the call that comes after so many from now on: before it is made, or right after it.
    pub fn power_off_at(&self, calls: u64, is_made: bool) {
        let mut power = self.power();
        power.fails_at = Some((power.calls + calls, is_made));
    }

    /// Whether the power has failed: nothing changes any more, and no answer leaves.
    pub fn is_off(&self) -> bool {
        self.power().is_off
    }

    /// The power is back, and stays.
    pub fn power_on(&self) {
        let mut power = self.power();
        power.fails_at = None;
        power.is_off = false;
    }

    fn power(&self) -> MutexGuard<'_, Power> {
        self.switches.power.lock().unwrap()
    }

    /// One call that changes something or syncs.
    fn spend<T>(&self, path: &str, call: impl FnOnce() -> DiskResult<T>) -> DiskResult<T> {
        let is_last = {
            let mut power = self.power();
            let is_here = power.fails_at.filter(|(at, _)| *at == power.calls);
            power.is_off |= matches!(is_here, Some((_, false)));
            if power.is_off {
                return Err(DiskError::new(DiskErrorKind::Io, "change", path, "the power has failed"));
            }
            power.calls += 1;
            is_here.is_some()
        };
        let done = call();
        self.power().is_off |= is_last;
        done
    }

    /// Every sync of a file fails, or none.
    pub fn fail_syncs(&self, fail: bool) {
        self.switches.syncs.store(fail, Ordering::Relaxed);
    }

    /// Writes fail as on a full disk, of files whose path begins so; with `None` none does.
    pub fn fail_writes(&self, prefix: Option<&str>) {
        *self.switches.writes.lock().unwrap() = prefix.map(str::to_owned);
    }

    /// How many bytes have been read so far.
    pub fn read_bytes(&self) -> usize {
        self.switches.read_bytes.load(Ordering::Relaxed)
    }

    /// How many writes have failed so far.
    pub fn refused_writes(&self) -> usize {
        self.switches.refused_writes.load(Ordering::Relaxed)
    }

    /// Every `every`th call that needs a file handle finds none, and changes nothing; with 0 all find one.
    pub fn lack_handles(&self, every: usize) {
        self.switches.no_handle_every.store(every, Ordering::Relaxed);
    }

    fn check_handle(&self, operation: &'static str, path: &str) -> DiskResult<()> {
        let every = self.switches.no_handle_every.load(Ordering::Relaxed);
        if every == 0
            || !(self.switches.handle_calls.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every)
        {
            return Ok(());
        }
        Err(DiskError::new(DiskErrorKind::NoHandles, operation, path, "too many open files"))
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

/// A disk in memory with [`Faults`]. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct TestDisk {
    memory: Arc<Mutex<CrashDisk>>,
    /// What goes wrong.
    pub faults: Faults,
}

impl TestDisk {
    fn memory(&self) -> CrashDisk {
        self.memory.lock().unwrap().clone()
    }

    /// The call that changes something after so many others fails with an input/output error, and all after it.
    pub fn fail_after(&self, calls: u64) {
        self.memory().fail_after(Some(calls));
    }

    /// From now on only so many bytes can be written: what does not fit is written in part, as far as there is room.
    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        self.memory().set_free_bytes(free_bytes);
    }

    /// The system is well again, and has kept everything.
    pub fn repair(&self) {
        let whole = self.memory().kill();
        *self.memory.lock().unwrap() = whole;
    }

    /// The machine has lost power and is back: of what was not synced any part is there, by the dice of `seed`.
    pub fn crash(&self, seed: u64) {
        let rest = self.memory().crash(&mut Dice::new(seed));
        *self.memory.lock().unwrap() = rest;
    }

    /// Every file, by its path.
    pub fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut directories = vec![String::new()];
        while let Some(directory) = directories.pop() {
            for entry in self.list(&directory).unwrap() {
                let path =
                    if directory.is_empty() { entry.name } else { format!("{directory}/{}", entry.name) };
                if entry.is_dir { &mut directories } else { &mut found }.push(path);
            }
        }
        found.sort();
        found
    }

    /// The content of a file.
    pub fn content(&self, path: &str) -> Vec<u8> {
        let file = self.memory().open(path).unwrap();
        file.read(0, file.bytes().unwrap() as usize).unwrap().to_vec()
    }

    /// Makes this the content of a file.
    pub fn put(&self, path: &str, content: &[u8]) {
        self.memory().create(path).unwrap().write_at(0, &[content]).unwrap();
    }

    /// Becomes a copy of `whole`.
    pub fn restore(&self, whole: &Self) {
        *self.memory.lock().unwrap() = whole.memory().kill();
    }

    /// A disk of its own with the same content.
    pub fn copy(&self) -> Self {
        Self { memory: Arc::new(Mutex::new(self.memory().kill())), faults: Faults::default() }
    }

    fn wrap(&self, path: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(TestFile { file, path: path.to_owned(), faults: self.faults.clone() })
    }
}

impl Disk for TestDisk {
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        self.faults.check_handle("open", path)?;
        self.memory().open(path).map(|file| self.wrap(path, file))
    }

    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        self.faults.check_handle("create", path)?;
        let file = self.faults.spend(path, || self.memory().create(path))?;
        Ok(self.wrap(path, file))
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.faults.spend(from, || self.memory().rename(from, to))
    }

    fn remove(&self, path: &str) -> DiskResult<()> {
        self.faults.spend(path, || self.memory().remove(path))
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.faults.spend(path, || self.memory().remove_dir(path))
    }

    fn create_dir(&self, path: &str) -> DiskResult<()> {
        self.faults.spend(path, || self.memory().create_dir(path))
    }

    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>> {
        self.faults.check_handle("list", path)?;
        self.memory().list(path)
    }

    fn sync_dir(&self, path: &str) -> DiskResult<()> {
        self.faults.check_handle("sync", path)?;
        self.faults.spend(path, || self.memory().sync_dir(path))
    }

    fn lock(&self, path: &str) -> DiskResult<Box<dyn DiskLock>> {
        self.memory().lock(path)
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
        self.faults.check_handle("write", &self.path)?;
        self.faults.check_write(&self.path)?;
        self.faults.spend(&self.path, || self.file.write_at(position, slices))
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        self.faults.check_handle("read", &self.path)?;
        let read = self.file.read_at(position, buffer)?;
        self.faults.switches.read_bytes.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }

    fn bytes(&self) -> DiskResult<u64> {
        self.file.bytes()
    }

    fn truncate(&self, bytes: u64) -> DiskResult<()> {
        self.faults.check_handle("truncate", &self.path)?;
        self.faults.spend(&self.path, || self.file.truncate(bytes))
    }

    fn sync(&self) -> DiskResult<()> {
        self.faults.check_handle("sync", &self.path)?;
        self.faults.check_sync(&self.path)?;
        self.faults.spend(&self.path, || self.file.sync())
    }

    fn modified(&self) -> DiskResult<Millis> {
        self.file.modified()
    }
}

impl World {
    /// Starts a broker on whatever is on the disk, which may be too little. Checks nothing yet.
    pub fn try_start(&self) -> Result<(), StartError> {
        let disk = Arc::new(self.disk.clone()) as Arc<dyn Disk>;
        let edge = Arc::clone(&self.edge) as Arc<dyn Edge>;
        let started = Broker::start(disk, edge, self.settings.clone(), listener(), &|| self.now.get())?;
        *self.broker.borrow_mut() = Some(started);
        Ok(())
    }
}
