//! Reading the files of a log directory without touching them: the engine's dump over the real disk, read only.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

pub use fencepost_broker::dump::{Decoder, DumpOptions, Sink, Summary, render};
use fencepost_storage::{DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult};
use fencepost_types::Millis;

/// Dumps files and directories of this machine, see [`fencepost_broker::dump::dump`]. Paths are as the process sees them.
///
/// Errors: the sink's own.
pub fn dump(
    paths: &[String],
    options: &DumpOptions,
    sink: &mut dyn Sink,
) -> Result<Summary, std::fmt::Error> {
    fencepost_broker::dump::dump(&ReadOnlyDisk, paths, options, sink)
}

/// The whole file system, to be read. Whatever would change it is an error.
#[derive(Debug)]
struct ReadOnlyDisk;

fn read_only<T>(operation: &'static str, path: &str) -> DiskResult<T> {
    Err(DiskError::new(DiskErrorKind::Io, operation, path, "the disk is only read"))
}

fn disk_error(operation: &'static str, path: &str, error: &io::Error) -> DiskError {
    let kind = if error.kind() == ErrorKind::NotFound { DiskErrorKind::NotFound } else { DiskErrorKind::Io };
    DiskError::new(kind, operation, path, error.to_string())
}

impl Disk for ReadOnlyDisk {
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        let failed = |error: io::Error| disk_error("open", path, &error);
        // Opening a pipe would wait for its writer.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(DiskError::new(DiskErrorKind::Io, "open", path, "is no regular file"));
        }
        Ok(Arc::new(ReadOnlyFile { file, path: path.into() }))
    }

    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>> {
        let failed = |error: io::Error| disk_error("list", path, &error);
        let path = if path.is_empty() { "." } else { path };
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
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

    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        read_only("create", path)
    }

    fn rename(&self, from: &str, _: &str) -> DiskResult<()> {
        read_only("rename", from)
    }

    fn remove(&self, path: &str) -> DiskResult<()> {
        read_only("remove", path)
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        read_only("remove", path)
    }

    fn create_dir(&self, path: &str) -> DiskResult<()> {
        read_only("create", path)
    }

    fn sync_dir(&self, path: &str) -> DiskResult<()> {
        read_only("sync", path)
    }

    fn lock(&self, path: &str) -> DiskResult<Box<dyn DiskLock>> {
        read_only("lock", path)
    }
}

#[derive(Debug)]
struct ReadOnlyFile {
    file: File,
    path: Box<str>,
}

impl ReadOnlyFile {
    fn metadata(&self) -> DiskResult<Metadata> {
        self.file.metadata().map_err(|error| disk_error("look at", &self.path, &error))
    }
}

impl DiskFile for ReadOnlyFile {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], position + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(disk_error("read", &self.path, &error)),
            }
        }
        Ok(read)
    }

    fn bytes(&self) -> DiskResult<u64> {
        Ok(self.metadata()?.len())
    }

    fn write_at(&self, _: u64, _: &[&[u8]]) -> DiskResult<()> {
        read_only("write", &self.path)
    }

    fn truncate(&self, _: u64) -> DiskResult<()> {
        read_only("truncate", &self.path)
    }

    fn sync(&self) -> DiskResult<()> {
        read_only("sync", &self.path)
    }

    fn modified(&self) -> DiskResult<Millis> {
        Ok(Millis::NONE)
    }
}

/// The directory that relative paths begin in, for [`DumpOptions::working_directory`].
pub fn working_directory() -> String {
    let here = std::env::current_dir().unwrap_or_else(|_| Path::new(".").to_owned());
    here.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    use super::*;

    /// Files and directories that may only be read are dumped, and are as they were; a pipe is no file.
    #[test]
    fn nothing_is_touched() {
        let directory = tempfile::tempdir().unwrap();
        let partition = directory.path().join("t-0");
        fs::create_dir(&partition).unwrap();
        let name = partition.join("partition.metadata");
        fs::write(&name, "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ").unwrap();
        fs::set_permissions(&name, fs::Permissions::from_mode(0o400)).unwrap();
        let pipe = partition.join("00000000000000000000.log");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        fs::set_permissions(&partition, fs::Permissions::from_mode(0o500)).unwrap();
        let state = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            (
                metadata.len(),
                metadata.permissions().mode(),
                metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            )
        };
        let before = [&partition, &name].map(|path| state(path));

        let mut text = String::new();
        let mut sink = render::NdjsonText::new(&mut text);
        let paths = [partition.to_str().unwrap().to_owned()];
        let summary = dump(&paths, &DumpOptions::default(), &mut sink).unwrap();

        assert!(text.contains("\"value\":\"AAAAAAAAAAAAAAAAAAAAAQ\""), "{text}");
        assert!(text.contains("is no regular file"), "{text}");
        assert!(summary.errors > 0);
        assert_eq!([&partition, &name].map(|path| state(path)), before);
        assert_eq!(fs::read_dir(&partition).unwrap().count(), 2);
        fs::set_permissions(&partition, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// Every call that would change something is refused.
    #[test]
    fn changes_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("x").to_str().unwrap().to_owned();
        fs::write(&name, "x").unwrap();
        let disk = ReadOnlyDisk;
        assert!(
            disk.create(&name).is_err() && disk.rename(&name, "y").is_err() && disk.remove(&name).is_err()
        );
        assert!(
            disk.create_dir(&name).is_err() && disk.remove_dir(&name).is_err() && disk.lock(&name).is_err()
        );
        let file = disk.open(&name).unwrap();
        assert!(file.write_at(0, &[b"y"]).is_err() && file.truncate(0).is_err() && file.sync().is_err());
        assert_eq!(fs::read(&name).unwrap(), b"x");
        assert_eq!(disk.open("no such file").unwrap_err().kind, DiskErrorKind::NotFound);
    }
}
