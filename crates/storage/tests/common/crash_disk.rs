//! A disk that forgets: what was not synced may be there after a crash, in part, torn, or not at all. It can also be full,
//! and fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use fencepost_storage::{DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult};
use fencepost_types::Millis;

/// A medium writes whole sectors of this size, in any order.
const SECTOR_BYTES: usize = 512;

/// The disk. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct CrashDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, Node>,
    durable_names: BTreeMap<String, Node>,
    /// Changes of names since the directory that they are in was synced, in order.
    pending_names: Vec<NameChange>,
    files: Vec<FileState>,
    /// Bytes that may still be written; `None` is no limit.
    free_bytes: Option<u64>,
    /// Calls that change something until one fails; `None` is never.
    fail_after: Option<u64>,
    syncs: u64,
}

/// A directory, or the number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Link(String, Node),
    Unlink(String),
    Rename(String, String),
}

impl NameChange {
    fn directory(&self) -> &str {
        match self {
            Self::Link(path, _) | Self::Unlink(path) | Self::Rename(path, _) => parent(path),
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Link(path, node) => {
                names.insert(path.clone(), *node);
            }
            Self::Unlink(path) => {
                names.remove(path);
            }
            Self::Rename(from, to) => {
                let prefix = format!("{from}/");
                let below: Vec<String> =
                    names.keys().filter(|path| path.starts_with(&prefix)).cloned().collect();
                for path in below {
                    let child = names.remove(&path).unwrap();
                    names.insert(format!("{to}/{}", &path[prefix.len()..]), child);
                }
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct FileState {
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last sync, in order.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { position, bytes } => {
                let end = position + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*position..end].copy_from_slice(bytes);
            }
            Self::Truncate(bytes) => content.resize(*bytes, 0),
        }
    }
}

/// Numbers out of a seed (xorshift).
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }

    /// True once in `of`.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

impl CrashDisk {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Loses power: of what was not synced any part is kept. Answers the disk as the next start finds it.
    pub fn crash(&self, dice: &mut Dice) -> Self {
        self.crash_with(dice, true)
    }

    /// The same on a disk that does not even keep the order in which the names in a directory changed.
    pub fn crash_out_of_order(&self, dice: &mut Dice) -> Self {
        self.crash_with(dice, false)
    }

    fn crash_with(&self, dice: &mut Dice, in_order: bool) -> Self {
        let state = self.state();
        let mut names = state.durable_names.clone();
        // Where a directory keeps the order of its changes, some first ones are kept.
        let directories: std::collections::BTreeSet<&str> =
            state.pending_names.iter().map(NameChange::directory).collect();
        for directory in directories {
            let changes: Vec<_> =
                state.pending_names.iter().filter(|change| change.directory() == directory).collect();
            let kept = dice.below(changes.len() as u64 + 1) as usize;
            for (at, change) in changes.iter().enumerate() {
                if if in_order { at < kept } else { dice.one_in(2) } {
                    change.apply(&mut names);
                }
            }
        }
        // What lies in a directory that is gone is gone.
        let paths: Vec<String> = names.keys().cloned().collect();
        for path in paths {
            if let Some((directory, _)) = path.rsplit_once('/')
                && names.get(directory) != Some(&Node::Directory)
            {
                names.remove(&path);
            }
        }
        let files = state.files.iter().map(|file| file.crash(dice)).collect();
        let fresh = State { durable_names: names.clone(), names, files, ..State::default() };
        Self { state: Arc::new(Mutex::new(fresh)) }
    }

    /// Kills the process: the system keeps everything.
    pub fn kill(&self) -> Self {
        let state = self.state();
        let files = state.files.iter().map(|file| FileState {
            content: file.content.clone(),
            durable: file.durable.clone(),
            pending: file.pending.clone(),
        });
        let fresh = State {
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            pending_names: state.pending_names.clone(),
            files: files.collect(),
            ..State::default()
        };
        Self { state: Arc::new(Mutex::new(fresh)) }
    }

    /// From now on only so many bytes can be written.
    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        self.state().free_bytes = free_bytes;
    }

    /// The call that changes something after so many others fails, and all after it.
    pub fn fail_after(&self, calls: Option<u64>) {
        self.state().fail_after = calls;
    }

    /// How many syncs there were.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }
}

impl FileState {
    fn crash(&self, dice: &mut Dice) -> Self {
        let content = if dice.one_in(4) { self.any_sectors(dice) } else { self.first_changes(dice) };
        Self { durable: content.clone(), content, pending: Vec::new() }
    }

    /// Some of the first changes, and of the next one a part: the file ends anywhere.
    fn first_changes(&self, dice: &mut Dice) -> Vec<u8> {
        let mut content = self.durable.clone();
        let count = dice.below(self.pending.len() as u64 + 1) as usize;
        self.pending[..count].iter().for_each(|change| change.apply(&mut content));
        if let Some(Change::Write { position, bytes }) = self.pending.get(count) {
            let torn = bytes[..dice.below(bytes.len() as u64 + 1) as usize].to_vec();
            Change::Write { position: *position, bytes: torn }.apply(&mut content);
        }
        content
    }

    /// Each sector as it was after some of the changes, and the size after some of them.
    fn any_sectors(&self, dice: &mut Dice) -> Vec<u8> {
        let mut states = vec![self.durable.clone()];
        for change in &self.pending {
            let mut content = states[states.len() - 1].clone();
            change.apply(&mut content);
            states.push(content);
        }
        let any = |dice: &mut Dice| &states[dice.below(states.len() as u64) as usize];
        let mut content = vec![0; any(dice).len()];
        for from in (0..content.len()).step_by(SECTOR_BYTES) {
            let state = any(dice);
            let to = content.len().min(from + SECTOR_BYTES).min(state.len());
            if from < to {
                content[from..to].copy_from_slice(&state[from..to]);
            }
        }
        content
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.content);
        self.pending.push(change);
    }
}

impl State {
    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    fn may_change(&mut self, operation: &'static str, path: &str) -> DiskResult<()> {
        match &mut self.fail_after {
            Some(0) => Err(DiskError::new(DiskErrorKind::Io, operation, path, "input/output error")),
            Some(calls) => {
                *calls -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn find(&self, operation: &'static str, path: &str) -> DiskResult<Node> {
        let found = self.names.get(path).copied();
        found.ok_or_else(|| DiskError::new(DiskErrorKind::NotFound, operation, path, "no such file"))
    }

    fn expect_directory(&self, operation: &'static str, path: &str) -> DiskResult<()> {
        if path.is_empty() {
            return Ok(());
        }
        match self.find(operation, path)? {
            Node::Directory => Ok(()),
            Node::File(_) => Err(DiskError::new(DiskErrorKind::Io, operation, path, "not a directory")),
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn is_child(directory: &str, path: &str) -> bool {
    parent(path) == directory
}

impl Disk for CrashDisk {
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        match self.state().find("open", path)? {
            Node::File(number) => Ok(Arc::new(CrashFile { disk: self.clone(), number, path: path.into() })),
            Node::Directory => Err(DiskError::new(DiskErrorKind::Io, "open", path, "is a directory")),
        }
    }

    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.may_change("create", path)?;
        state.expect_directory("create", parent(path))?;
        let number = match state.names.get(path) {
            Some(Node::File(number)) => {
                let number = *number;
                state.files[number].change(Change::Truncate(0));
                number
            }
            _ => {
                state.files.push(FileState::default());
                let number = state.files.len() - 1;
                state.change_name(NameChange::Link(path.to_owned(), Node::File(number)));
                number
            }
        };
        Ok(Arc::new(CrashFile { disk: self.clone(), number, path: path.into() }))
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        let mut state = self.state();
        state.may_change("rename", from)?;
        state.find("rename", from)?;
        assert_eq!(parent(from), parent(to), "files stay in their directory");
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &str) -> DiskResult<()> {
        let mut state = self.state();
        state.may_change("remove", path)?;
        state.find("remove", path)?;
        state.change_name(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.remove(path)
    }

    fn create_dir(&self, path: &str) -> DiskResult<()> {
        let mut state = self.state();
        state.may_change("create", path)?;
        if !path.is_empty() && !state.names.contains_key(path) {
            state.change_name(NameChange::Link(path.to_owned(), Node::Directory));
        }
        Ok(())
    }

    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>> {
        let state = self.state();
        state.expect_directory("list", path)?;
        let entry = |(name, node): (&String, &Node)| {
            let bytes = match node {
                Node::Directory => 0,
                Node::File(number) => state.files[*number].content.len() as u64,
            };
            let name = name.rsplit('/').next().unwrap().to_owned();
            DirEntry { name, is_dir: *node == Node::Directory, bytes }
        };
        Ok(state.names.iter().filter(|(name, _)| is_child(path, name)).map(entry).collect())
    }

    fn sync_dir(&self, path: &str) -> DiskResult<()> {
        let mut state = self.state();
        state.may_change("sync", path)?;
        state.expect_directory("sync", path)?;
        state.syncs += 1;
        let pending = std::mem::take(&mut state.pending_names);
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|change| change.directory() == path);
        here.iter().for_each(|change| change.apply(&mut state.durable_names));
        state.pending_names = elsewhere;
        Ok(())
    }

    fn lock(&self, _path: &str) -> DiskResult<Box<dyn DiskLock>> {
        Ok(Box::new(Held))
    }
}

#[derive(Debug)]
struct Held;

impl DiskLock for Held {}

#[derive(Debug)]
struct CrashFile {
    disk: CrashDisk,
    number: usize,
    path: Box<str>,
}

impl DiskFile for CrashFile {
    fn write_at(&self, position: u64, slices: &[&[u8]]) -> DiskResult<()> {
        let mut state = self.disk.state();
        state.may_change("write", &self.path)?;
        let mut bytes = slices.concat();
        let wanted = bytes.len() as u64;
        if let Some(free) = &mut state.free_bytes {
            bytes.truncate((*free).min(wanted) as usize);
            *free -= bytes.len() as u64;
        }
        let written = bytes.len() as u64;
        if written > 0 {
            let position = position as usize;
            state.files[self.number].change(Change::Write { position, bytes });
        }
        if written < wanted {
            return Err(DiskError::new(
                DiskErrorKind::NoSpace,
                "write",
                &self.path,
                "no space left on device",
            ));
        }
        Ok(())
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        let state = self.disk.state();
        let content = &state.files[self.number].content;
        let rest = content.get(position as usize..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn bytes(&self) -> DiskResult<u64> {
        Ok(self.disk.state().files[self.number].content.len() as u64)
    }

    fn truncate(&self, bytes: u64) -> DiskResult<()> {
        let mut state = self.disk.state();
        state.may_change("truncate", &self.path)?;
        state.files[self.number].change(Change::Truncate(bytes as usize));
        Ok(())
    }

    fn sync(&self) -> DiskResult<()> {
        let mut state = self.disk.state();
        state.may_change("sync", &self.path)?;
        state.syncs += 1;
        let file = &mut state.files[self.number];
        file.durable = file.content.clone();
        file.pending.clear();
        Ok(())
    }

    fn modified(&self) -> DiskResult<Millis> {
        Ok(Millis::NONE)
    }
}
