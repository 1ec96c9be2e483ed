//! The only way to a disk. The real one lives at the edge; the memory disk in this crate; the simulated one beside
//! the simulator. All paths are relative to the disk's root (one disk is one log directory), parts separated by `/`;
//! the empty path is the root.
//!
//! What an implementation promises
//! - A call that answers `Ok` has taken effect for every later call of this process.
//! - Content survives a crash of the machine only after [`DiskFile::sync`]; names (creation, rename, removal) only after
//!   [`Disk::sync_dir`] of the directory that holds them. Until then any part of it may be there, or none.
//! - A handle stays usable after its file was renamed or removed.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_types::Millis;

/// What went wrong, as far as anything is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskErrorKind {
    /// There is no such file or directory.
    NotFound,
    /// Another process (or another part of this one) holds the lock.
    Locked,
    /// The disk, or the quota, is full.
    NoSpace,
    /// The process, or the system, has no file handle left. Nothing was changed.
    NoHandles,
    /// Everything else. After a failed sync nothing that depended on it may be acknowledged.
    Io,
}

/// A call to the disk that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {path}: {text}")]
pub struct DiskError {
    /// What went wrong.
    pub kind: DiskErrorKind,
    /// The call that failed, as a verb.
    pub operation: &'static str,
    /// The path it was about, relative to the disk's root.
    pub path: String,
    /// The system's own words.
    pub text: String,
}

impl DiskError {
    /// Puts an error together.
    pub fn new(kind: DiskErrorKind, operation: &'static str, path: &str, text: impl Into<String>) -> Self {
        Self { kind, operation, path: path.to_owned(), text: text.into() }
    }
}

/// What calls to a disk answer.
pub type DiskResult<T> = Result<T, DiskError>;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_dir: bool,
    /// The file's length in bytes; 0 for a directory.
    pub bytes: u64,
}

/// A disk: one directory tree of our own.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens an existing file for reading and writing. [`DiskErrorKind::NotFound`] if there is none.
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>>;

    /// Creates a file, or empties the one that is there.
    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>>;

    /// Renames a file or directory, replacing a file that has the new name.
    fn rename(&self, from: &str, to: &str) -> DiskResult<()>;

    /// Removes a file. [`DiskErrorKind::NotFound`] if there is none.
    fn remove(&self, path: &str) -> DiskResult<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> DiskResult<()>;

    /// Creates a directory; one that exists is fine.
    fn create_dir(&self, path: &str) -> DiskResult<()>;

    /// What is in a directory, ordered by name.
    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &str) -> DiskResult<()>;

    /// Takes the exclusive lock that a file stands for, creating it; held until the answer is dropped.
    /// [`DiskErrorKind::Locked`] if somebody else holds it.
    fn lock(&self, path: &str) -> DiskResult<Box<dyn DiskLock>>;

    /// How much there is room for; `None` where nobody knows.
    fn space(&self) -> DiskResult<Option<DiskSpace>> {
        Ok(None)
    }
}

/// The room on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DiskSpace {
    /// What the file system holds in all, bytes.
    pub total_bytes: u64,
    /// What of it this process may still use, bytes.
    pub usable_bytes: u64,
}

/// An open file. Positions are bytes from its start.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Writes the slices one after the other from `position` on, with one call to the system where it can. Beyond the
    /// end the file grows. When it fails, any part of it may have been written.
    fn write_at(&self, position: u64, slices: &[&[u8]]) -> DiskResult<()>;

    /// Fills `buffer` from `position` on; answers how many bytes, fewer only at the end of the file.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize>;

    /// Up to `count` bytes from `position` on; fewer only at the end of the file. Allocates `count` bytes: a caller
    /// bounds it first.
    fn read(&self, position: u64, count: usize) -> DiskResult<Bytes> {
        let mut buffer = vec![0; count];
        let read = self.read_at(position, &mut buffer)?;
        buffer.truncate(read);
        Ok(buffer.into())
    }

    /// The length in bytes.
    fn bytes(&self) -> DiskResult<u64>;

    /// Cuts (or extends with zeros) to `bytes`.
    fn truncate(&self, bytes: u64) -> DiskResult<()>;

    /// Makes the content durable.
    fn sync(&self) -> DiskResult<()>;

    /// When it was last written, by the disk's clock; [`Millis::NONE`] on a disk without one.
    fn modified(&self) -> DiskResult<Millis>;
}

/// A part of a file that is read when it is wanted. It stays readable when the file is renamed or removed.
#[derive(Clone, Debug)]
pub struct FilePart {
    file: Arc<dyn DiskFile>,
    position: u64,
    bytes: usize,
}

impl FilePart {
    /// `bytes` from `position` on.
    pub fn new(file: Arc<dyn DiskFile>, position: u64, bytes: usize) -> Self {
        Self { file, position, bytes }
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fills `buffer`, which ends with the part or before, from its byte `from` on.
    ///
    /// Errors: the file's; also where it has become shorter than the part.
    pub fn read_exact(&self, from: usize, buffer: &mut [u8]) -> DiskResult<()> {
        let position = self.position + from as u64;
        let read = self.file.read_at(position, buffer)?;
        if read == buffer.len() {
            return Ok(());
        }
        let text = format!("{read} bytes at {position} where {} were", buffer.len());
        Err(DiskError::new(DiskErrorKind::Io, "read", "a part of a file", text))
    }
}

impl PartialEq for FilePart {
    fn eq(&self, other: &Self) -> bool {
        let is_same_file = std::ptr::addr_eq(Arc::as_ptr(&self.file), Arc::as_ptr(&other.file));
        is_same_file && (self.position, self.bytes) == (other.position, other.bytes)
    }
}

impl Eq for FilePart {}

/// A held lock; dropping it gives it back.
pub trait DiskLock: Send + Sync + fmt::Debug {}

/// The whole content of a file of at most `bytes_max` bytes; `None` if there is no such file. A longer one is an error:
/// a file that we read whole is never that long.
pub(crate) fn read_whole(disk: &dyn Disk, path: &str, bytes_max: u64) -> DiskResult<Option<Bytes>> {
    let file = match disk.open(path) {
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let bytes = file.bytes()?;
    if bytes > bytes_max {
        let text = format!("{bytes} bytes, more than the {bytes_max} that such a file may have");
        return Err(DiskError::new(DiskErrorKind::Io, "read", path, text));
    }
    file.read(0, bytes as usize).map(Some)
}

/// Replaces a file's content so that a crash leaves the old or the new one whole: temporary file, sync, rename, sync of
/// the directory.
pub fn write_atomically(disk: &dyn Disk, path: &str, content: &[u8]) -> DiskResult<()> {
    replace_unsynced(disk, path, content)?;
    disk.sync_dir(parent(path))
}

/// The same without the last step: whether it is the old or the new one is open until the directory is synced.
pub(crate) fn replace_unsynced(disk: &dyn Disk, path: &str, content: &[u8]) -> DiskResult<()> {
    let temporary = format!("{path}.tmp");
    let file = disk.create(&temporary)?;
    file.write_at(0, &[content])?;
    file.sync()?;
    disk.rename(&temporary, path)
}

/// Removes a file that may be gone already.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &str) -> DiskResult<()> {
    match disk.remove(path) {
        Err(error) if error.kind == DiskErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The directory that holds `path`.
pub(crate) fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..slash])
}

/// `name` within `directory`, where the empty directory is the root.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
