//! A disk that loses what was not synced, tears and reorders writes, fills up and fails, all from one seed.
//!
//! ```text
//!   write_at, truncate ──► current (what reads answer) ──sync────► durable ──┐
//!   create, rename, remove ► current names            ──sync_dir─► durable ──┤
//!                              │ pending: in order, each change by itself    │
//!                              └───────────────── crash ── a random part ───►┴──► both, after the crash
//! ```
//!
//! - A file's synced content survives a crash if its name does; of the rest, any part survives, file by file, in writes
//!   or parts of writes, down to a byte. Names likewise, directory by directory; a rename is never half done.
//! - A sync that fails loses what it should have written: a later sync succeeds and does not bring it.
//! - Handles and locks of before a crash (or a [`SimDisk::kill`]) are dead: their calls fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fencepost_storage::{DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult};
use fencepost_types::Millis;

use crate::rng::Rng;

mod content;
mod directory;
mod handle;
#[cfg(test)]
mod tests;

use directory::{DirectoryCell, FileCell, Node};
use handle::{SimFile, SimLock};

/// What goes wrong while the machine stays up. Nothing, by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of 1000 writes, truncations and changes of names, how many fail; a failed write may have written a part.
    pub write_error_permille: u32,
    /// Of 1000 syncs that have something to do, how many fail.
    pub sync_error_permille: u32,
    /// Of 1000 reads, how many fail.
    pub read_error_permille: u32,
    /// The most bytes that all files together may have; a write beyond it fails with
    /// [`DiskErrorKind::NoSpace`], and may have written what still fitted.
    pub capacity_bytes: Option<u64>,
}

/// How often the disk was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Writes, truncations, creations, renames, removals: everything that changes something.
    pub changes: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
}

/// A simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    machine: Arc<Mutex<Machine>>,
}

struct Machine {
    root: Arc<DirectoryCell>,
    rng: Rng,
    faults: Faults,
    calls: Calls,
    /// Changes and syncs until the power fails, if it is to.
    power_left: Option<u64>,
    /// Raised by every crash and kill: handles of an older one are dead.
    generation: u64,
    locked: BTreeSet<String>,
    now: Millis,
}

impl SimDisk {
    /// An empty disk; `seed` decides its faults and what a crash leaves.
    pub fn new(seed: u64) -> Self {
        let machine = Machine {
            root: Arc::default(),
            rng: Rng::new(seed),
            faults: Faults::default(),
            calls: Calls::default(),
            power_left: None,
            generation: 0,
            locked: BTreeSet::new(),
            now: Millis(0),
        };
        Self { machine: Arc::new(Mutex::new(machine)) }
    }

    /// What is to go wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.machine().faults = faults;
    }

    /// The disk's clock, which files are stamped by.
    pub fn set_now(&self, now: Millis) {
        self.machine().now = now;
    }

    /// Lets the power fail after this many further changes and syncs: each call after them fails until
    /// [`SimDisk::crash`]. With every number in turn, a test meets every crash point.
    pub fn power_off_after(&self, calls: u64) {
        self.machine().power_left = Some(calls);
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.machine().power_left == Some(0)
    }

    /// How often the disk was called.
    pub fn calls(&self) -> Calls {
        self.machine().calls
    }

    /// The machine goes down and comes up again: of what was not synced, a random part is lost.
    pub fn crash(&self) {
        let mut machine = self.machine();
        machine.restart();
        let root = machine.root.clone();
        root.crash(&mut machine.rng);
    }

    /// The process dies and the machine does not: nothing is lost, nothing becomes durable, handles are dead.
    pub fn kill(&self) {
        self.machine().restart();
    }

    /// Flips the bits of `mask` in one byte of a file, as a medium that has gone bad does. Panics if there is no such
    /// byte: the test then damages nothing.
    pub fn flip_bits(&self, path: &str, position: u64, mask: u8) {
        let machine = self.machine();
        let file = machine.file("flip", path).expect("a file to damage");
        let mut state = file.state();
        assert!(position < state.content.bytes(), "{path} has no byte {position}");
        state.content.flip(position, mask);
    }

    /// Every file as reads see it, by path.
    pub fn files(&self) -> BTreeMap<String, Bytes> {
        let mut files = BTreeMap::new();
        self.machine().root.collect("", &mut files);
        files
    }

    /// Whether a crash would lose nothing.
    pub fn is_durable(&self) -> bool {
        self.machine().root.is_durable()
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, machine: &Machine, path: &str, file: Arc<FileCell>) -> Arc<dyn DiskFile> {
        let path = path.to_owned();
        Arc::new(SimFile { disk: self.clone(), generation: machine.generation, path, file })
    }
}

impl Machine {
    fn restart(&mut self) {
        self.generation += 1;
        self.power_left = None;
        self.locked.clear();
    }

    /// Before every call: there is no disk without power.
    fn check_power(&self, operation: &'static str, path: &str) -> DiskResult<()> {
        if self.power_left == Some(0) {
            return Err(DiskError::new(DiskErrorKind::Io, operation, path, "the power has failed"));
        }
        Ok(())
    }

    fn spend_power(&mut self) {
        if let Some(left) = &mut self.power_left {
            *left -= 1;
        }
    }

    fn check_read(&mut self, operation: &'static str, path: &str) -> DiskResult<()> {
        self.check_power(operation, path)?;
        if chance(&mut self.rng, self.faults.read_error_permille) {
            return Err(input_output(operation, path));
        }
        Ok(())
    }

    /// Before every change, unless a part of it may happen (see `write_at`).
    fn check_change(&mut self, operation: &'static str, path: &str) -> DiskResult<()> {
        self.check_power(operation, path)?;
        self.calls.changes += 1;
        self.spend_power();
        if chance(&mut self.rng, self.faults.write_error_permille) {
            return Err(input_output(operation, path));
        }
        Ok(())
    }

    /// Before every sync; answers whether it fails.
    fn sync_fails(&mut self, path: &str, is_synced: bool) -> DiskResult<bool> {
        self.check_power("sync", path)?;
        self.calls.syncs += 1;
        self.spend_power();
        Ok(!is_synced && chance(&mut self.rng, self.faults.sync_error_permille))
    }

    fn directory(&self, operation: &'static str, path: &str) -> DiskResult<Arc<DirectoryCell>> {
        let mut at = self.root.clone();
        for name in path.split('/').filter(|_| !path.is_empty()) {
            let node = at.names().get(name).cloned();
            at = match node {
                Some(Node::Directory(directory)) => directory,
                Some(Node::File(_)) => {
                    return Err(DiskError::new(DiskErrorKind::Io, operation, path, "is not a directory"));
                }
                None => return Err(not_found(operation, path)),
            };
        }
        Ok(at)
    }

    fn file(&self, operation: &'static str, path: &str) -> DiskResult<Arc<FileCell>> {
        let (parent, name) = split(path);
        let node = self.directory(operation, parent)?.names().get(name).cloned();
        match node {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory(_)) => {
                Err(DiskError::new(DiskErrorKind::Io, operation, path, "is a directory"))
            }
            None => Err(not_found(operation, path)),
        }
    }

    /// Bytes that may still be written. Files that have lost their name are not counted.
    fn room(&self) -> u64 {
        let Some(capacity) = self.faults.capacity_bytes else { return u64::MAX };
        capacity.saturating_sub(self.root.bytes())
    }
}

/// True in `permille` of 1000 cases; draws nothing where it never is.
fn chance(rng: &mut Rng, permille: u32) -> bool {
    permille > 0 && rng.range(0, 1000) < u64::from(permille)
}

/// The directory and the name within it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn not_found(operation: &'static str, path: &str) -> DiskError {
    DiskError::new(DiskErrorKind::NotFound, operation, path, "no such file or directory")
}

fn input_output(operation: &'static str, path: &str) -> DiskError {
    DiskError::new(DiskErrorKind::Io, operation, path, "simulated input/output error")
}

fn no_space(operation: &'static str, path: &str) -> DiskError {
    DiskError::new(DiskErrorKind::NoSpace, operation, path, "the simulated disk is full")
}

impl Disk for SimDisk {
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        let mut machine = self.machine();
        machine.check_read("open", path)?;
        let file = machine.file("open", path)?;
        Ok(self.handle(&machine, path, file))
    }

    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        let mut machine = self.machine();
        machine.check_change("create", path)?;
        let (parent, name) = split(path);
        let directory = machine.directory("create", parent)?;
        let there = directory.names().get(name).cloned();
        let file = match there {
            Some(Node::Directory(_)) => {
                return Err(DiskError::new(DiskErrorKind::Io, "create", path, "is a directory"));
            }
            Some(Node::File(file)) => {
                file.state().content.truncate(0);
                file
            }
            None => {
                let file = Arc::<FileCell>::default();
                directory.names().put(name, Node::File(file.clone()));
                file
            }
        };
        file.state().modified = machine.now;
        Ok(self.handle(&machine, path, file))
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        let mut machine = self.machine();
        machine.check_change("rename", from)?;
        let ((parent, name), (other, new_name)) = (split(from), split(to));
        // Nobody needs it, and what a crash leaves of it differs from one file system to the next.
        assert_eq!(parent, other, "a rename stays within one directory");
        let directory = machine.directory("rename", parent)?;
        let mut names = directory.names();
        let node = names.get(name).cloned().ok_or_else(|| not_found("rename", from))?;
        names.rename(new_name, node);
        Ok(())
    }

    fn remove(&self, path: &str) -> DiskResult<()> {
        let mut machine = self.machine();
        machine.check_change("remove", path)?;
        machine.file("remove", path)?;
        let (parent, name) = split(path);
        machine.directory("remove", parent)?.names().remove(name);
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        let mut machine = self.machine();
        machine.check_change("remove", path)?;
        if !machine.directory("remove", path)?.names().names().is_empty() {
            return Err(DiskError::new(DiskErrorKind::Io, "remove", path, "directory not empty"));
        }
        let (parent, name) = split(path);
        machine.directory("remove", parent)?.names().remove(name);
        Ok(())
    }

    fn create_dir(&self, path: &str) -> DiskResult<()> {
        let mut machine = self.machine();
        machine.check_change("create", path)?;
        let (parent, name) = split(path);
        let directory = machine.directory("create", parent)?;
        let mut names = directory.names();
        match names.get(name).cloned() {
            Some(Node::Directory(_)) => {}
            Some(Node::File(_)) => {
                return Err(DiskError::new(DiskErrorKind::Io, "create", path, "is not a directory"));
            }
            None if path.is_empty() => {}
            None => names.put(name, Node::Directory(Arc::default())),
        }
        Ok(())
    }

    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>> {
        let mut machine = self.machine();
        machine.check_read("list", path)?;
        let entry = |(name, node): (&String, &Node)| match node {
            Node::File(file) => {
                DirEntry { name: name.clone(), is_dir: false, bytes: file.state().content.bytes() }
            }
            Node::Directory(_) => DirEntry { name: name.clone(), is_dir: true, bytes: 0 },
        };
        let directory = machine.directory("list", path)?;
        let entries = directory.names().names().iter().map(entry).collect();
        Ok(entries)
    }

    fn sync_dir(&self, path: &str) -> DiskResult<()> {
        let mut machine = self.machine();
        machine.check_power("sync", path)?;
        let directory = machine.directory("sync", path)?;
        let mut names = directory.names();
        if machine.sync_fails(path, names.is_synced())? {
            names.fail_sync(&mut machine.rng);
            return Err(input_output("sync", path));
        }
        names.sync();
        Ok(())
    }

    fn lock(&self, path: &str) -> DiskResult<Box<dyn DiskLock>> {
        drop(self.create(path)?);
        let mut machine = self.machine();
        if !machine.locked.insert(path.to_owned()) {
            return Err(DiskError::new(DiskErrorKind::Locked, "lock", path, "held by another"));
        }
        let generation = machine.generation;
        Ok(Box::new(SimLock { disk: self.clone(), generation, path: path.to_owned() }))
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}
