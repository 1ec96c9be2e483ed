//! A disk in memory: for tests, and for a broker that keeps nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_types::Millis;

use crate::disk::{DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult, parent};

/// Files grow in steps of this size, so that a large one is never moved as a whole.
const CHUNK_BYTES: usize = 256 * 1024;

/// A disk in memory. Nothing is ever lost while it lives; syncs do nothing. Clones share the content.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    tree: Arc<Mutex<Tree>>,
}

#[derive(Debug, Default)]
struct Tree {
    /// Every file and directory by its path; the root has no entry.
    nodes: BTreeMap<String, Node>,
    locked: BTreeSet<String>,
}

#[derive(Clone, Debug)]
enum Node {
    Directory,
    File(Arc<MemoryFile>),
}

impl MemoryDisk {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree {
    fn file(&self, operation: &'static str, path: &str) -> DiskResult<Arc<MemoryFile>> {
        match self.nodes.get(path) {
            Some(Node::File(file)) => Ok(file.clone()),
            Some(Node::Directory) => {
                Err(DiskError::new(DiskErrorKind::Io, operation, path, "is a directory"))
            }
            None => Err(not_found(operation, path)),
        }
    }

    fn expect_directory(&self, operation: &'static str, path: &str) -> DiskResult<()> {
        match self.nodes.get(path) {
            _ if path.is_empty() => Ok(()),
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => {
                Err(DiskError::new(DiskErrorKind::Io, operation, path, "is not a directory"))
            }
            None => Err(not_found(operation, path)),
        }
    }

    /// The paths below a directory, at any depth.
    fn below(&self, path: &str) -> Vec<String> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let from = self.nodes.range(prefix.clone()..).map(|(path, _)| path);
        from.take_while(|path| path.starts_with(&prefix)).cloned().collect()
    }
}

fn not_found(operation: &'static str, path: &str) -> DiskError {
    DiskError::new(DiskErrorKind::NotFound, operation, path, "no such file or directory")
}

impl Disk for MemoryDisk {
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        Ok(self.tree().file("open", path)?)
    }

    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        let mut tree = self.tree();
        tree.expect_directory("create", parent(path))?;
        if let Some(Node::File(file)) = tree.nodes.get(path) {
            file.truncate(0)?;
            return Ok(file.clone());
        }
        let file = Arc::new(MemoryFile::default());
        tree.nodes.insert(path.to_owned(), Node::File(file.clone()));
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        let mut tree = self.tree();
        tree.expect_directory("rename", parent(to))?;
        let node = tree.nodes.remove(from).ok_or_else(|| not_found("rename", from))?;
        for path in tree.below(from) {
            let moved = format!("{to}{}", &path[from.len()..]);
            let node = tree.nodes.remove(&path);
            tree.nodes.extend(node.map(|node| (moved, node)));
        }
        tree.nodes.insert(to.to_owned(), node);
        Ok(())
    }

    fn remove(&self, path: &str) -> DiskResult<()> {
        let mut tree = self.tree();
        tree.file("remove", path)?;
        tree.nodes.remove(path);
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        let mut tree = self.tree();
        tree.expect_directory("remove", path)?;
        if !tree.below(path).is_empty() {
            return Err(DiskError::new(DiskErrorKind::Io, "remove", path, "directory not empty"));
        }
        tree.nodes.remove(path);
        Ok(())
    }

    fn create_dir(&self, path: &str) -> DiskResult<()> {
        let mut tree = self.tree();
        tree.expect_directory("create", parent(path))?;
        if !path.is_empty() && !matches!(tree.nodes.get(path), Some(Node::Directory)) {
            tree.nodes.insert(path.to_owned(), Node::Directory);
        }
        Ok(())
    }

    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>> {
        let tree = self.tree();
        tree.expect_directory("list", path)?;
        let skip = if path.is_empty() { 0 } else { path.len() + 1 };
        let children = tree.below(path).into_iter().filter(|child| !child[skip..].contains('/'));
        let entry = |child: String| match &tree.nodes[&child] {
            Node::Directory => DirEntry { name: child[skip..].to_owned(), is_dir: true, bytes: 0 },
            Node::File(file) => {
                DirEntry { name: child[skip..].to_owned(), is_dir: false, bytes: file.content().bytes }
            }
        };
        Ok(children.map(entry).collect())
    }

    fn sync_dir(&self, path: &str) -> DiskResult<()> {
        self.tree().expect_directory("sync", path)
    }

    fn lock(&self, path: &str) -> DiskResult<Box<dyn DiskLock>> {
        let _ = self.create(path)?;
        if !self.tree().locked.insert(path.to_owned()) {
            return Err(DiskError::new(DiskErrorKind::Locked, "lock", path, "held by another log directory"));
        }
        Ok(Box::new(MemoryLock { disk: self.clone(), path: path.to_owned() }))
    }
}

#[derive(Debug)]
struct MemoryLock {
    disk: MemoryDisk,
    path: String,
}

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.disk.tree().locked.remove(&self.path);
    }
}

/// A file in memory.
#[derive(Default)]
struct MemoryFile {
    content: Mutex<Content>,
}

/// Bytes in chunks; every chunk but the last is full.
#[derive(Default)]
struct Content {
    chunks: Vec<Vec<u8>>,
    bytes: u64,
}

impl MemoryFile {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryFile({} bytes)", self.content().bytes)
    }
}

impl Content {
    fn write(&mut self, mut position: u64, mut bytes: &[u8]) {
        self.extend_to(position);
        while !bytes.is_empty() {
            let (chunk, at) =
                ((position / CHUNK_BYTES as u64) as usize, (position % CHUNK_BYTES as u64) as usize);
            let now = bytes.len().min(CHUNK_BYTES - at);
            if chunk == self.chunks.len() {
                self.chunks.push(Vec::new());
            }
            let chunk = &mut self.chunks[chunk];
            let overlap = now.min(chunk.len() - at);
            chunk[at..at + overlap].copy_from_slice(&bytes[..overlap]);
            chunk.extend_from_slice(&bytes[overlap..now]);
            bytes = &bytes[now..];
            position += now as u64;
            self.bytes = self.bytes.max(position);
        }
    }

    fn extend_to(&mut self, bytes: u64) {
        while self.bytes < bytes {
            let at = (self.bytes % CHUNK_BYTES as u64) as usize;
            let zeros = (bytes - self.bytes).min((CHUNK_BYTES - at) as u64) as usize;
            if at == 0 {
                self.chunks.push(Vec::new());
            }
            let last = self.chunks.last_mut().expect("a chunk was pushed when the last was full");
            last.resize(at + zeros, 0);
            self.bytes += zeros as u64;
        }
    }

    fn read(&self, mut position: u64, mut buffer: &mut [u8]) -> usize {
        let mut read = 0;
        while !buffer.is_empty() && position < self.bytes {
            let (chunk, at) =
                ((position / CHUNK_BYTES as u64) as usize, (position % CHUNK_BYTES as u64) as usize);
            let there = &self.chunks[chunk][at..];
            let now = there.len().min(buffer.len());
            buffer[..now].copy_from_slice(&there[..now]);
            buffer = &mut buffer[now..];
            position += now as u64;
            read += now;
        }
        read
    }

    fn truncate(&mut self, bytes: u64) {
        self.extend_to(bytes);
        self.chunks.truncate(bytes.div_ceil(CHUNK_BYTES as u64) as usize);
        let at = (bytes % CHUNK_BYTES as u64) as usize;
        if let Some(last) = self.chunks.last_mut().filter(|_| at != 0) {
            last.truncate(at);
        }
        self.bytes = bytes;
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&self, mut position: u64, slices: &[&[u8]]) -> DiskResult<()> {
        let mut content = self.content();
        for slice in slices {
            content.write(position, slice);
            position += slice.len() as u64;
        }
        Ok(())
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        Ok(self.content().read(position, buffer))
    }

    fn bytes(&self) -> DiskResult<u64> {
        Ok(self.content().bytes)
    }

    fn truncate(&self, bytes: u64) -> DiskResult<()> {
        self.content().truncate(bytes);
        Ok(())
    }

    fn sync(&self) -> DiskResult<()> {
        Ok(())
    }

    fn modified(&self) -> DiskResult<Millis> {
        Ok(Millis::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A file behaves as one run of bytes, wherever the chunks end.
        #[test]
        fn a_file_is_one_run_of_bytes(writes in proptest::collection::vec(
            (0..CHUNK_BYTES as u64 * 3, 0..CHUNK_BYTES * 2, any::<u8>(), any::<bool>()), 1..6))
        {
            let file = MemoryFile::default();
            let mut model: Vec<u8> = Vec::new();
            for (position, count, byte, cut) in writes {
                if cut {
                    file.truncate(position).unwrap();
                    model.resize(position as usize, 0);
                } else {
                    let bytes = vec![byte; count];
                    file.write_at(position, &[&bytes[..count / 2], &bytes[count / 2..]]).unwrap();
                    if count > 0 {
                        model.resize(model.len().max(position as usize + count), 0);
                        model[position as usize..position as usize + count].copy_from_slice(&bytes);
                    } else {
                        model.resize(model.len().max(position as usize), 0);
                    }
                }
                prop_assert_eq!(file.bytes().unwrap(), model.len() as u64);
            }
            prop_assert_eq!(file.read(0, model.len() + 10).unwrap(), model);
        }
    }

    /// A renamed directory takes its files along; a handle survives the removal of its file.
    #[test]
    fn names_and_handles() {
        let disk = MemoryDisk::new();
        disk.create_dir("a-0").unwrap();
        let file = disk.create("a-0/x.log").unwrap();
        file.write_at(0, &[b"one"]).unwrap();
        disk.rename("a-0", "b-0").unwrap();
        let listed = disk.list("").unwrap();
        assert_eq!(listed, [DirEntry { name: "b-0".into(), is_dir: true, bytes: 0 }]);
        assert_eq!(disk.list("b-0").unwrap()[0].bytes, 3);
        assert_eq!(disk.remove_dir("b-0").unwrap_err().kind, DiskErrorKind::Io);
        disk.remove("b-0/x.log").unwrap();
        disk.remove_dir("b-0").unwrap();
        assert_eq!(file.read(0, 9).unwrap(), &b"one"[..]);
        assert_eq!(disk.open("b-0/x.log").unwrap_err().kind, DiskErrorKind::NotFound);
        assert_eq!(disk.create("nowhere/x").unwrap_err().kind, DiskErrorKind::NotFound);
    }

    /// One log directory, one owner.
    #[test]
    fn a_lock_is_exclusive_until_dropped() {
        let disk = MemoryDisk::new();
        let held = disk.lock(".lock").unwrap();
        assert_eq!(disk.lock(".lock").unwrap_err().kind, DiskErrorKind::Locked);
        drop(held);
        assert!(disk.lock(".lock").is_ok());
    }
}
