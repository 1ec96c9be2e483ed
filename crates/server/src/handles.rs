//! The file handles of this process: how many the system grants, and the cache of open files that keeps the log
//! directory below its share of them.
//!
//! A file of the log directory is a [`CachedFile`]. Its handle is opened when the file is used and closed when the
//! cache is full and others were used since. A handle that was closed is opened again by the file's present name, so
//! renames are told to the cache; a file whose name is removed keeps its handle.
//!
//! A file is closed only after what was written to it has been synced: a write that the system could not bring to the
//! disk is reported to a handle that was open at the time, and to no other.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit is raised to the hard one, but not beyond this: a system without a limit has one of about this size.
const HANDLES_MAX: u64 = 1 << 20;
/// Files of the log directory that are open at once where the limit allows it. More would not make anything faster.
const OPEN_FILES_MAX: u64 = 16_384;
/// Files that may be open however low the limit is: below it nothing works.
const OPEN_FILES_MIN: u64 = 32;
/// Handles that are neither files of the log directory nor connections: listeners, directories being listed or synced,
/// checkpoints being written, the runtime's own.
const HANDLES_RESERVED: u64 = 64;
/// Files that are closed at once when the system has no handle left.
const RELEASED_AT_ONCE: usize = 8;
/// A call that found no handle is tried again this often, each time after other files were closed.
const OPEN_TRIES: usize = 8;

/// What the system grants and how it is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandleLimits {
    /// Handles that the process may have.
    pub(crate) handles_max: u64,
    /// Files of the log directory that the cache keeps open.
    pub(crate) open_files_max: usize,
    /// Connections that there are handles for.
    pub(crate) connections_max: usize,
}

impl HandleLimits {
    /// Raises the soft limit of this process to its hard limit; answers what it is now. Where that is refused the soft
    /// limit stays.
    pub(crate) fn raise() -> Self {
        let before = getrlimit(Resource::Nofile);
        let wanted = before.maximum.map_or(HANDLES_MAX, |hard| hard.min(HANDLES_MAX));
        let current = before.current.unwrap_or(HANDLES_MAX);
        if current >= wanted {
            return Self::of(current);
        }
        match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: before.maximum }) {
            Ok(()) => Self::of(wanted),
            Err(error) => {
                tracing::warn!(%error, limit = current, "the limit of open files could not be raised");
                Self::of(current)
            }
        }
    }

    /// What the process may have as things are.
    pub(crate) fn current() -> Self {
        Self::of(getrlimit(Resource::Nofile).current.unwrap_or(HANDLES_MAX))
    }

    /// Says in the log how many there are, and how they are shared out.
    pub(crate) fn tell(&self) {
        let Self { handles_max, open_files_max, connections_max } = self;
        tracing::info!(handles_max, open_files_max, connections_max, "file handles");
    }

    /// Half of the handles are the log directory's, up to [`OPEN_FILES_MAX`]; the rest are the connections'.
    fn of(handles_max: u64) -> Self {
        let open_files_max = (handles_max / 2).clamp(OPEN_FILES_MIN, OPEN_FILES_MAX);
        let connections_max = handles_max.saturating_sub(open_files_max + HANDLES_RESERVED).max(1);
        Self {
            handles_max,
            open_files_max: open_files_max as usize,
            connections_max: usize::try_from(connections_max).unwrap_or(usize::MAX),
        }
    }
}

/// Whether a call failed because the process, or the system, has no file handle left.
pub(crate) fn is_out_of_handles(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    code == Some(Errno::MFILE) || code == Some(Errno::NFILE)
}

/// The cache of open files of one log directory.
#[derive(Debug)]
pub(crate) struct Handles {
    root: Arc<Path>,
    open_max: usize,
    /// Files that are open now.
    open: AtomicUsize,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    /// The files that somebody holds, by name. Those that nobody holds any more are dropped from time to time.
    files: BTreeMap<String, Weak<CachedFile>>,
    /// The files that are open, in the order in which they are looked at when one has to be closed.
    ring: VecDeque<Weak<CachedFile>>,
}

/// A file of the log directory, open or not.
#[derive(Debug)]
pub(crate) struct CachedFile {
    handles: Arc<Handles>,
    name: Mutex<String>,
    file: RwLock<Option<Arc<File>>>,
    /// Used since the cache last looked at it.
    is_used: AtomicBool,
    /// Written since the last sync began.
    is_dirty: AtomicBool,
    /// Synced since it was opened by its name, and therefore since every write of an earlier process.
    is_synced: AtomicBool,
    /// Its name is gone, so it could not be opened again.
    is_nameless: AtomicBool,
    /// A sync has failed: none may succeed from then on.
    failed: Mutex<Option<Failure>>,
}

/// What an error was, to be told again.
#[derive(Clone, Debug)]
struct Failure {
    kind: io::ErrorKind,
    text: String,
}

impl Handles {
    /// A cache that keeps `open_max` files open, for the directory at `root`.
    pub(crate) fn new(root: Arc<Path>, open_max: usize) -> Arc<Self> {
        Arc::new(Self { root, open_max: open_max.max(1), open: AtomicUsize::new(0), names: Mutex::default() })
    }

    /// Files that are open now.
    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// The file called `name`, opened with `options`.
    pub(crate) fn open(self: &Arc<Self>, name: &str, options: &OpenOptions) -> io::Result<Arc<CachedFile>> {
        let opened = self.with_room(|| {
            let mut names = self.lock();
            let file = options.open(self.root.join(name))?;
            // Two that hold the same file are one. It may just have been emptied.
            if let Some(known) = names.files.get(name).and_then(Weak::upgrade) {
                if known.held().is_none() {
                    self.put(&mut names, &known, Arc::new(file));
                }
                known.is_synced.store(false, Ordering::SeqCst);
                return Ok(known);
            }
            let cached = Arc::new(CachedFile {
                handles: Arc::clone(self),
                name: Mutex::new(name.to_owned()),
                file: RwLock::new(None),
                is_used: AtomicBool::new(true),
                is_dirty: AtomicBool::new(false),
                is_synced: AtomicBool::new(false),
                is_nameless: AtomicBool::new(false),
                failed: Mutex::new(None),
            });
            names.insert(name.to_owned(), &cached);
            self.put(&mut names, &cached, Arc::new(file));
            Ok(cached)
        })?;
        self.shrink(&opened);
        Ok(opened)
    }

    /// Renames a file or directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = self.lock();
        if let Some(replaced) = names.files.remove(to).as_ref().and_then(Weak::upgrade) {
            self.keep_open(&mut names, &replaced);
        }
        std::fs::rename(self.root.join(from), self.root.join(to))?;
        let within = format!("{from}/");
        let below = names.files.range(within.clone()..).take_while(|(name, _)| name.starts_with(&within));
        let mut moved: Vec<String> = below.map(|(name, _)| name.clone()).collect();
        moved.extend(names.files.contains_key(from).then(|| from.to_owned()));
        for old in moved {
            let Some(cached) = names.files.remove(&old).as_ref().and_then(Weak::upgrade) else { continue };
            let new = format!("{to}{}", &old[from.len()..]);
            cached.name().clone_from(&new);
            names.files.insert(new, Arc::downgrade(&cached));
        }
        Ok(())
    }

    /// Removes a file's name.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let mut names = self.lock();
        if let Some(removed) = names.files.remove(name).as_ref().and_then(Weak::upgrade) {
            self.keep_open(&mut names, &removed);
        }
        // Removing a large file takes its time, and needs no name of another.
        drop(names);
        std::fs::remove_file(self.root.join(name))
    }

    /// Makes a call that needs a handle for a moment, or for good. When there is none, files are closed for it.
    pub(crate) fn with_room<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        for _ in 0..OPEN_TRIES {
            match call() {
                Err(error) if is_out_of_handles(&error) => {
                    if self.release(RELEASED_AT_ONCE, None) == 0 {
                        return Err(error);
                    }
                }
                called => return called,
            }
        }
        call()
    }

    /// Opens a file that was closed.
    fn reopen(&self, cached: &Arc<CachedFile>) -> io::Result<Arc<File>> {
        let opened = self.with_room(|| {
            // Under the lock, so that it is not renamed between the look at its name and the opening.
            let mut names = self.lock();
            if let Some(file) = cached.held() {
                return Ok(file);
            }
            if cached.is_nameless.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let path = self.root.join(&*cached.name());
            let file = Arc::new(OpenOptions::new().read(true).write(true).open(path)?);
            self.put(&mut names, cached, Arc::clone(&file));
            Ok(file)
        })?;
        self.shrink(cached);
        Ok(opened)
    }

    fn put(&self, names: &mut Names, cached: &Arc<CachedFile>, file: Arc<File>) {
        *cached.file.write().expect("no holder of this lock panics") = Some(file);
        cached.is_used.store(true, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::SeqCst);
        if names.ring.len() > 2 * self.open_max {
            names.ring.retain(|entry| entry.strong_count() > 0);
        }
        names.ring.push_back(Arc::downgrade(cached));
    }

    /// A file is about to lose its name. Whoever reads it goes on; where it cannot be opened now, that read fails.
    fn keep_open(&self, names: &mut Names, cached: &Arc<CachedFile>) {
        if cached.held().is_none() {
            let path = self.root.join(&*cached.name());
            if let Ok(file) = OpenOptions::new().read(true).write(true).open(path) {
                self.put(names, cached, Arc::new(file));
            }
        }
        cached.is_nameless.store(true, Ordering::SeqCst);
    }

    /// Closes files until no more are open than may be, but not the one that was just opened.
    fn shrink(&self, newest: &CachedFile) {
        // One call opens one file, so few have to go; those in use stay.
        for _ in 0..RELEASED_AT_ONCE {
            if self.open.load(Ordering::SeqCst) <= self.open_max || self.release(1, Some(newest)) == 0 {
                return;
            }
        }
    }

    /// Closes up to `count` files, but not `spared`; answers how many.
    fn release(&self, count: usize, spared: Option<&CachedFile>) -> usize {
        (0..count).take_while(|_| self.close_one(spared)).count()
    }

    fn close_one(&self, spared: Option<&CachedFile>) -> bool {
        for _ in 0..OPEN_TRIES {
            let victim = self.lock().victim(spared);
            let Some(victim) = victim else { return false };
            if victim.close() {
                return true;
            }
            self.lock().ring.push_back(Arc::downgrade(&victim));
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().expect("no holder of this lock panics")
    }
}

impl Names {
    fn insert(&mut self, name: String, cached: &Arc<CachedFile>) {
        // Each time the number has doubled: what nobody holds any more is dropped.
        if self.files.len() > 64 && self.files.len().is_power_of_two() {
            self.files.retain(|_, entry| entry.strong_count() > 0);
        }
        self.files.insert(name, Arc::downgrade(cached));
    }

    /// Takes the file out of the ring that is to be closed: the first that was not used since it was last looked at and
    /// has nothing to sync; or else the first that was not used.
    fn victim(&mut self, spared: Option<&CachedFile>) -> Option<Arc<CachedFile>> {
        let mut dirty = None;
        for _ in 0..2 * self.ring.len() {
            let Some(cached) = self.ring.pop_front()?.upgrade() else {
                if self.ring.is_empty() {
                    break;
                }
                continue;
            };
            if cached.is_nameless.load(Ordering::SeqCst) {
                continue;
            }
            let is_spared = spared.is_some_and(|spared| std::ptr::eq(spared, &*cached)) || cached.is_busy();
            if is_spared || cached.is_used.swap(false, Ordering::Relaxed) {
                self.ring.push_back(Arc::downgrade(&cached));
            } else if !cached.is_dirty.load(Ordering::SeqCst) {
                return Some(cached);
            } else {
                self.ring.push_back(Arc::downgrade(&cached));
                dirty.get_or_insert(cached);
            }
            if self.ring.is_empty() {
                break;
            }
        }
        let dirty = dirty?;
        self.ring.retain(|entry| !std::ptr::eq(entry.as_ptr(), Arc::as_ptr(&dirty)));
        Some(dirty)
    }
}

impl CachedFile {
    /// The open file, opened if need be.
    pub(crate) fn get(self: &Arc<Self>) -> io::Result<Arc<File>> {
        match self.held() {
            Some(file) => Ok(file),
            None => self.handles.reopen(self),
        }
    }

    /// The open file, to be changed: until the next sync it is not closed without one.
    pub(crate) fn get_to_write(self: &Arc<Self>) -> io::Result<Arc<File>> {
        let file = self.get()?;
        self.is_dirty.store(true, Ordering::SeqCst);
        Ok(file)
    }

    /// Makes the content durable. A file that was closed after a sync needs no other.
    ///
    /// Errors: the system's, and every time after that, too; but where only a handle was missing the next call may
    /// succeed.
    pub(crate) fn sync(self: &Arc<Self>) -> io::Result<()> {
        match self.held() {
            Some(file) => self.sync_held(&file),
            None if self.is_synced.load(Ordering::SeqCst) => Ok(()),
            None => self.sync_held(&*self.handles.reopen(self)?),
        }
    }

    fn sync_held(&self, file: &File) -> io::Result<()> {
        if let Some(failure) = self.failure().clone() {
            return Err(io::Error::new(failure.kind, failure.text));
        }
        self.is_dirty.store(false, Ordering::SeqCst);
        match file.sync_data() {
            Ok(()) => self.is_synced.store(true, Ordering::SeqCst),
            Err(error) => {
                self.is_dirty.store(true, Ordering::SeqCst);
                *self.failure() = Some(Failure { kind: error.kind(), text: error.to_string() });
                return Err(error);
            }
        }
        Ok(())
    }

    /// Its present name, for what is said of it.
    pub(crate) fn name(&self) -> MutexGuard<'_, String> {
        self.name.lock().expect("no holder of this lock panics")
    }

    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failed.lock().expect("no holder of this lock panics")
    }

    fn held(&self) -> Option<Arc<File>> {
        let file = self.file.read().expect("no holder of this lock panics").clone()?;
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        Some(file)
    }

    /// Whether a call is using the handle now.
    fn is_busy(&self) -> bool {
        let file = self.file.read().expect("no holder of this lock panics");
        file.as_ref().is_some_and(|file| Arc::strong_count(file) > 1)
    }

    /// Syncs if need be, and closes; answers whether it is closed. One that is in use, or written meanwhile, is not.
    fn close(&self) -> bool {
        if self.is_dirty.load(Ordering::SeqCst) {
            let Some(file) = self.held() else { return false };
            if self.sync_held(&file).is_err() {
                return false;
            }
        }
        let mut held = self.file.write().expect("no holder of this lock panics");
        let is_idle = held.as_ref().is_some_and(|file| Arc::strong_count(file) == 1);
        if !is_idle || self.is_dirty.load(Ordering::SeqCst) || self.is_nameless.load(Ordering::SeqCst) {
            return false;
        }
        *held = None;
        self.handles.open.fetch_sub(1, Ordering::SeqCst);
        true
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        if self.file.get_mut().expect("no holder of this lock panics").is_some() {
            self.handles.open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests;
