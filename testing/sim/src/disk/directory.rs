//! One directory's names: as every caller sees them, as they lie on the medium, and what is between the two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fencepost_types::Millis;

use super::chance;
use super::content::Content;
use crate::rng::Rng;

/// A file, shared by its names and handles. The machine's lock is always held around this one.
#[derive(Debug, Default)]
pub(super) struct FileCell(Mutex<FileState>);

/// What there is to a file beside its names.
#[derive(Debug, Default)]
pub(super) struct FileState {
    pub(super) content: Content,
    pub(super) modified: Millis,
}

/// A directory, shared by its names.
#[derive(Debug, Default)]
pub(super) struct DirectoryCell(Mutex<Directory>);

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<FileCell>),
    Directory(Arc<DirectoryCell>),
}

/// One change to a directory that no sync of it has followed yet.
#[derive(Clone, Debug)]
enum Change {
    Put { name: String, node: Node },
    Remove { name: String },
    Move { to: String, node: Node },
}

/// The names in one directory.
#[derive(Debug, Default)]
pub(super) struct Directory {
    current: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    pending: Vec<Change>,
}

impl FileCell {
    pub(super) fn state(&self) -> MutexGuard<'_, FileState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirectoryCell {
    pub(super) fn names(&self) -> MutexGuard<'_, Directory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn crash(&self, rng: &mut Rng) {
        self.names().crash(rng);
        for node in self.names().names().values() {
            match node {
                Node::File(file) => file.state().content.crash(rng),
                Node::Directory(directory) => directory.crash(rng),
            }
        }
    }

    pub(super) fn is_durable(&self) -> bool {
        let names = self.names();
        names.is_durable()
            && names.names().values().all(|node| match node {
                Node::File(file) => file.state().content.is_durable(),
                Node::Directory(directory) => directory.is_durable(),
            })
    }

    pub(super) fn bytes(&self) -> u64 {
        let size = |node: &Node| match node {
            Node::File(file) => file.state().content.bytes(),
            Node::Directory(directory) => directory.bytes(),
        };
        self.names().names().values().map(size).sum()
    }

    pub(super) fn collect(&self, prefix: &str, files: &mut BTreeMap<String, Bytes>) {
        for (name, node) in self.names().names() {
            let path = format!("{prefix}{name}");
            match node {
                Node::File(file) => {
                    files.insert(path, Bytes::copy_from_slice(file.state().content.current()));
                }
                Node::Directory(directory) => directory.collect(&format!("{path}/"), files),
            }
        }
    }
}

impl Directory {
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.current.get(name)
    }

    pub(super) fn names(&self) -> &BTreeMap<String, Node> {
        &self.current
    }

    pub(super) fn put(&mut self, name: &str, node: Node) {
        self.change(Change::Put { name: name.to_owned(), node });
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.change(Change::Remove { name: name.to_owned() });
    }

    pub(super) fn rename(&mut self, to: &str, node: Node) {
        self.change(Change::Move { to: to.to_owned(), node });
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.pending.push(change);
    }

    pub(super) fn is_synced(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the medium has what callers see; after a failed sync it has not, though nothing is pending.
    fn is_durable(&self) -> bool {
        let same = |((name, node), (other_name, other)): ((&String, &Node), (&String, &Node))| {
            name == other_name && node.is(other)
        };
        self.is_synced()
            && self.current.len() == self.durable.len()
            && self.current.iter().zip(&self.durable).all(same)
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A sync that failed: as for a file, some changes are on the medium and the rest is given up.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        let pending = std::mem::take(&mut self.pending);
        let mode = rng.range(0, 4);
        let first = rng.range(0, pending.len() as u64 + 1) as usize;
        for (at, change) in pending.into_iter().enumerate() {
            let survives = match mode {
                0 => false,
                1 => true,
                2 => at < first,
                _ => chance(rng, 500),
            };
            if survives {
                change.apply(&mut self.durable);
            }
        }
    }

    /// The machine went down: some names changed, some did not. A rename happened whole or not at all.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        self.fail_sync(rng);
        self.current.clone_from(&self.durable);
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Put { name, node } => {
                names.insert(name.clone(), node.clone());
            }
            Self::Remove { name } => {
                names.remove(name);
            }
            // Whatever name it had, it has this one now: an earlier rename may be lost.
            Self::Move { to, node } => {
                names.retain(|_, other| !other.is(node));
                names.insert(to.clone(), node.clone());
            }
        }
    }
}

impl Node {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(two)) => Arc::ptr_eq(one, two),
            (Self::Directory(one), Self::Directory(two)) => Arc::ptr_eq(one, two),
            (Self::File(_), Self::Directory(_)) | (Self::Directory(_), Self::File(_)) => false,
        }
    }
}
