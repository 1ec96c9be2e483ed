//! A file of entries of one size, kept in memory and appended to the file: what the three indexes of a segment share.
//!
//! The entries in memory are the truth while the log is open; the file follows. An entry that could not be written stays
//! pending and is tried again with the next one, because an index can always be made again from its log.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile, DiskResult, read_whole, remove_if_there};

/// No index file is ever longer than this: `segment.index.bytes` cannot be set higher than an i32.
const INDEX_BYTES_MAX: u64 = i32::MAX as u64;

/// An entry of an index.
pub(crate) trait Entry: Copy + PartialEq + std::fmt::Debug {
    /// Bytes of one entry.
    const BYTES: usize;

    fn encode(&self, out: &mut Vec<u8>);

    /// Reads [`Self::BYTES`] bytes; `None` if their version is unknown.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// The entries of one index and how far its file has them.
#[derive(Debug)]
pub(crate) struct EntryFile<E> {
    path: String,
    entries: Vec<E>,
    /// Leading entries that the file holds; beyond them it holds nothing.
    written: usize,
    handle: Option<Arc<dyn DiskFile>>,
    /// Whether the file exists even without entries.
    exists: bool,
}

/// What a file held.
#[derive(Debug)]
pub(crate) struct LoadedEntries<E> {
    pub(crate) file: EntryFile<E>,
    /// Whether every byte belonged to an entry of a known version.
    pub(crate) is_whole: bool,
}

impl<E: Entry> EntryFile<E> {
    /// No entries and no file yet.
    pub(crate) fn absent(path: String) -> Self {
        Self { path, entries: Vec::new(), written: 0, handle: None, exists: false }
    }

    /// What was loaded, or no entries where there was no file.
    pub(crate) fn or_absent(loaded: Option<LoadedEntries<E>>, path: String) -> Self {
        loaded.map_or_else(|| Self::absent(path), |loaded| loaded.file)
    }

    /// Reads a file; `None` if there is none.
    pub(crate) fn load(disk: &dyn Disk, path: String) -> DiskResult<Option<LoadedEntries<E>>> {
        let Some(bytes) = read_whole(disk, &path, INDEX_BYTES_MAX)? else { return Ok(None) };
        let mut entries = Vec::with_capacity(bytes.len() / E::BYTES);
        let mut is_whole = bytes.len().is_multiple_of(E::BYTES);
        for entry in bytes.chunks_exact(E::BYTES) {
            match E::decode(entry) {
                Some(entry) => entries.push(entry),
                None => {
                    is_whole = false;
                    break;
                }
            }
        }
        let written = entries.len();
        let file = Self { path, entries, written, handle: None, exists: true };
        Ok(Some(LoadedEntries { file, is_whole }))
    }

    pub(crate) fn entries(&self) -> &[E] {
        &self.entries
    }

    /// Adds an entry in memory; [`Self::write_pending`] brings it to the file.
    pub(crate) fn push(&mut self, entry: E) {
        self.entries.push(entry);
    }

    /// Writes the entries that the file does not have yet.
    pub(crate) fn write_pending(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        if self.written == self.entries.len() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity((self.entries.len() - self.written) * E::BYTES);
        self.entries[self.written..].iter().for_each(|entry| entry.encode(&mut bytes));
        let position = (self.written * E::BYTES) as u64;
        self.handle(disk)?.write_at(position, &[&bytes])?;
        self.written = self.entries.len();
        Ok(())
    }

    /// Creates the file if there is none.
    pub(crate) fn ensure_exists(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        if !self.exists {
            self.handle(disk)?;
        }
        Ok(())
    }

    /// Keeps the first `count` entries, in memory and in the file.
    pub(crate) fn truncate(&mut self, disk: &dyn Disk, count: usize) -> DiskResult<()> {
        self.entries.truncate(count);
        self.written = self.written.min(count);
        if self.exists {
            let bytes = (self.written * E::BYTES) as u64;
            self.handle(disk)?.truncate(bytes)?;
        }
        Ok(())
    }

    /// The open file, for syncing; `None` if there is no file.
    pub(crate) fn handle_to_sync(&mut self, disk: &dyn Disk) -> DiskResult<Option<Arc<dyn DiskFile>>> {
        if self.exists { self.handle(disk).map(Some) } else { Ok(None) }
    }

    /// Closes the file; the next write opens it again.
    pub(crate) fn close(&mut self) {
        self.handle = None;
    }

    /// Removes the file, if there is one, and all entries.
    pub(crate) fn remove(&mut self, disk: &dyn Disk) -> DiskResult<()> {
        self.entries.clear();
        self.written = 0;
        self.handle = None;
        self.exists = false;
        remove_if_there(disk, &self.path)
    }

    /// Gives the file another name, if there is one; the next one to be created gets it otherwise.
    pub(crate) fn rename(&mut self, disk: &dyn Disk, path: String) -> DiskResult<()> {
        if self.exists {
            disk.rename(&self.path, &path)?;
        }
        self.path = path;
        Ok(())
    }

    /// The file's path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn handle(&mut self, disk: &dyn Disk) -> DiskResult<Arc<dyn DiskFile>> {
        if let Some(handle) = &self.handle {
            return Ok(handle.clone());
        }
        let handle = if self.exists { disk.open(&self.path)? } else { disk.create(&self.path)? };
        self.exists = true;
        self.handle = Some(handle.clone());
        Ok(handle)
    }
}
