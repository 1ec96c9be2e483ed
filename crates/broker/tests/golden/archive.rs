//! Directories out of `testdata/golden`, on a memory disk.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use fencepost_records::CompressionType;
use fencepost_records::compression::decompress;
use fencepost_storage::{Disk, MemoryDisk};
use serde_json::Value;

/// Size of a block of a tar file.
const BLOCK_BYTES: usize = 512;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden").join(name)
}

/// A file as it is.
pub fn bytes(name: &str) -> bytes::Bytes {
    std::fs::read(testdata(name)).unwrap().into()
}

/// What a reader must find in a set.
pub fn expected(set: &str) -> Value {
    let text = std::fs::read_to_string(testdata(&format!("{set}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The directory `folder` of a set's archive (the empty one is all of it), as the root of a disk.
pub fn disk(set: &str, folder: &str) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let files = copy_in(&disk, set, folder, "");
    assert!(files > 0, "{set} has no {folder}");
    disk
}

/// Copies the directory `folder` of a set's archive to `target` on a disk; answers the number of files.
pub fn copy_in(disk: &dyn Disk, set: &str, folder: &str, target: &str) -> usize {
    let packed = std::fs::read(testdata(&format!("{set}.tar.gz"))).unwrap();
    let tar = decompress(CompressionType::Gzip, &packed).unwrap();
    let mut files = 0;
    let mut at = 0;
    while tar[at] != 0 {
        let header = &tar[at..at + BLOCK_BYTES];
        let size = octal(&header[124..136]);
        let content = &tar[at + BLOCK_BYTES..at + BLOCK_BYTES + size];
        at += BLOCK_BYTES + size.next_multiple_of(BLOCK_BYTES);
        let name = text(&header[..100]);
        assert_eq!(text(&header[345..500]), "", "a name that is longer than this reader knows: {name}");
        let path = name.strip_prefix("./").unwrap().trim_end_matches('/');
        let Some(path) = within(path, folder) else { continue };
        let path = [target, path].join("/").trim_matches('/').to_owned();
        match header[156] {
            b'5' => disk.create_dir(&path).unwrap(),
            b'0' => {
                disk.create(&path).unwrap().write_at(0, &[content]).unwrap();
                files += 1;
            }
            other => panic!("{name} is of type {other}"),
        }
    }
    files
}

fn within<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if folder.is_empty() || path == folder {
        return Some(path.strip_prefix(folder).unwrap());
    }
    path.strip_prefix(folder)?.strip_prefix('/')
}

fn text(field: &[u8]) -> &str {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    std::str::from_utf8(&field[..end]).unwrap()
}

fn octal(field: &[u8]) -> usize {
    usize::from_str_radix(text(field).trim(), 8).unwrap()
}

/// A whole file as text; `None` if there is none.
pub fn read_text(disk: &dyn Disk, path: &str) -> Option<String> {
    let file = disk.open(path).ok()?;
    let content = file.read(0, file.bytes().unwrap() as usize).unwrap();
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// Names of the directories at the root of a disk, in order.
pub fn directories(disk: &dyn Disk) -> Vec<String> {
    let entries = disk.list("").unwrap().into_iter();
    entries.filter(|entry| entry.is_dir).map(|entry| entry.name).collect()
}
