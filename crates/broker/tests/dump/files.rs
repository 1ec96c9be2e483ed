//! Files of `testdata/dump/files` on a disk that may only be read, and runs over them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fencepost_broker::dump::render::{JsonText, KafkaText, NdjsonText, TableText};
use fencepost_broker::dump::{DumpOptions, Summary, dump};
use fencepost_storage::{DirEntry, Disk, DiskFile, DiskLock, DiskResult, MemoryDisk};

pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/dump")
}

/// The files of a directory of `testdata/dump/files`, by name.
pub fn files_of(folder: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(testdata().join("files").join(folder)).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// A disk with these files in a directory; the empty one is the root.
pub fn disk_with(directory: &str, files: &[(String, Vec<u8>)]) -> ReadDisk {
    let disk = MemoryDisk::new();
    let mut made = String::new();
    for part in directory.split('/').filter(|part| !part.is_empty()) {
        made = if made.is_empty() { part.to_owned() } else { format!("{made}/{part}") };
        disk.create_dir(&made).unwrap();
    }
    for (name, bytes) in files {
        let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
        disk.create(&path).unwrap().write_at(0, &[bytes]).unwrap();
    }
    ReadDisk(disk)
}

/// Text in one of the formats.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    Table,
    Json,
    Ndjson,
}

pub fn run(disk: &ReadDisk, paths: &[&str], options: &DumpOptions, format: Format) -> (String, Summary) {
    let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
    let mut text = String::new();
    let summary = match format {
        Format::Table => dump(disk, &paths, options, &mut TableText::new(&mut text)),
        Format::Json => dump(disk, &paths, options, &mut JsonText::new(&mut text)),
        Format::Ndjson => dump(disk, &paths, options, &mut NdjsonText::new(&mut text)),
    };
    (text, summary.unwrap())
}

/// What Kafka's tool would write, to its standard output and its standard error; and what it would die of.
pub fn run_like_kafka(
    disk: &ReadDisk,
    paths: &[&str],
    options: &DumpOptions,
) -> (String, String, Option<String>) {
    let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
    let options = DumpOptions { like_kafka: true, ..options.clone() };
    let (mut out, mut aside) = (String::new(), String::new());
    let summary = dump(disk, &paths, &options, &mut KafkaText::new(&mut out, &mut aside, &options)).unwrap();
    (out, aside, summary.died_of)
}

/// The problems of a run: their names, with the name of the file.
pub fn problems(disk: &ReadDisk, paths: &[&str]) -> Vec<(String, String)> {
    let options = DumpOptions { problems_only: true, ..DumpOptions::default() };
    let (text, _) = run(disk, paths, &options, Format::Ndjson);
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let found = lines.filter(|line| line["type"] == "problem");
    found
        .map(|line| {
            let path = line["file"].as_str().unwrap();
            let name = path.rsplit('/').next().unwrap().to_owned();
            (name, line["problem"].as_str().unwrap().to_owned())
        })
        .collect()
}

/// A disk on which every call that would change something ends the test.
#[derive(Debug)]
pub struct ReadDisk(MemoryDisk);

impl Disk for ReadDisk {
    fn open(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        Ok(Arc::new(ReadFile(self.0.open(path)?)))
    }

    fn list(&self, path: &str) -> DiskResult<Vec<DirEntry>> {
        self.0.list(path)
    }

    fn create(&self, path: &str) -> DiskResult<Arc<dyn DiskFile>> {
        panic!("create {path}")
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        panic!("rename {from} {to}")
    }

    fn remove(&self, path: &str) -> DiskResult<()> {
        panic!("remove {path}")
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        panic!("remove {path}")
    }

    fn create_dir(&self, path: &str) -> DiskResult<()> {
        panic!("create {path}")
    }

    fn sync_dir(&self, path: &str) -> DiskResult<()> {
        panic!("sync {path}")
    }

    fn lock(&self, path: &str) -> DiskResult<Box<dyn DiskLock>> {
        panic!("lock {path}")
    }
}

/// A file of such a disk. A single read is never larger than a batch may be.
#[derive(Debug)]
struct ReadFile(Arc<dyn DiskFile>);

impl DiskFile for ReadFile {
    fn write_at(&self, position: u64, _: &[&[u8]]) -> DiskResult<()> {
        panic!("write at {position}")
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        assert!(buffer.len() as u64 <= self.bytes()?.max(64 * 1024), "{} bytes at once", buffer.len());
        self.0.read_at(position, buffer)
    }

    fn bytes(&self) -> DiskResult<u64> {
        self.0.bytes()
    }

    fn truncate(&self, bytes: u64) -> DiskResult<()> {
        panic!("truncate to {bytes}")
    }

    fn sync(&self) -> DiskResult<()> {
        panic!("sync")
    }

    fn modified(&self) -> DiskResult<fencepost_types::Millis> {
        self.0.modified()
    }
}
