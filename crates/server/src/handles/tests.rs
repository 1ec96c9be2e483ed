//! The cache of open files, on a real directory.

use std::sync::Arc;

use fencepost_storage::{Disk, DiskErrorKind, DiskFile};

use super::*;
use crate::disk::RealDisk;

/// A disk that keeps so many files open.
fn disk(open_files_max: usize) -> (tempfile::TempDir, RealDisk) {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::open_within(directory.path(), open_files_max).unwrap();
    (directory, disk)
}

fn create(disk: &RealDisk, count: usize) -> Vec<Arc<dyn DiskFile>> {
    let files = (0..count).map(|number| disk.create(&format!("{number}")).unwrap());
    files.collect()
}

/// Issue 12, B12: many more files than may be open are written, read and synced, and no more are open than may be.
#[test]
fn no_more_are_open_than_may_be() {
    let (_directory, disk) = disk(10);
    let files = create(&disk, 200);
    for round in 0..3_u8 {
        for (number, file) in files.iter().enumerate() {
            file.write_at(u64::from(round), &[&[number as u8]]).unwrap();
            assert!(disk.handles().open_count() <= 10, "{} are open", disk.handles().open_count());
        }
    }
    for (number, file) in files.iter().enumerate() {
        file.sync().unwrap();
        assert_eq!(file.read(0, 9).unwrap(), vec![number as u8; 3]);
        assert_eq!(file.bytes().unwrap(), 3);
    }
    assert!(disk.handles().open_count() <= 10);
    drop(files);
    assert_eq!(disk.handles().open_count(), 0, "what nobody holds is closed");
}

/// A file that was closed is found under the name that it has now: renamed itself, or with its directory. One whose name
/// was removed or given to another is read as it was.
#[test]
fn names_change_while_a_file_is_closed() {
    let (_directory, disk) = disk(1);
    disk.create_dir("d").unwrap();
    let names = ["a", "d/b", "removed", "replaced", "new"];
    let files = names.map(|name| {
        let file = disk.create(name).unwrap();
        file.write_at(0, &[name.as_bytes()]).unwrap();
        file
    });
    disk.rename("a", "A").unwrap();
    disk.rename("d", "D").unwrap();
    disk.remove("removed").unwrap();
    disk.rename("new", "replaced").unwrap();
    disk.create("removed").unwrap().write_at(0, &[b"another"]).unwrap();
    create(&disk, 20);
    for (name, file) in names.iter().zip(&files) {
        assert_eq!(file.read(0, 99).unwrap(), name.as_bytes());
    }
    assert_eq!(disk.open("replaced").unwrap().read(0, 99).unwrap(), &b"new"[..]);
    assert_eq!(disk.open("D/b").unwrap().read(0, 99).unwrap(), &b"d/b"[..]);
    assert_eq!(disk.open("removed").unwrap().read(0, 99).unwrap(), &b"another"[..]);
    files[0].write_at(0, &[b"z"]).unwrap();
    create(&disk, 20);
    assert_eq!(disk.open("A").unwrap().read(0, 99).unwrap(), &b"z"[..]);
}

/// What was written is synced before its file is closed, and of two files the one without anything to sync is closed. A
/// file emptied by a second opening while it was closed is empty.
#[test]
fn a_written_file_is_synced_before_it_is_closed() {
    let (_directory, disk) = disk(2);
    let cache = disk.handles();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let written = cache.open("written", &options).unwrap();
    let clean = cache.open("clean", &options).unwrap();
    written.get_to_write().unwrap();
    let third = cache.open("third", &options).unwrap();
    assert!(written.held().is_some() && clean.held().is_none() && third.held().is_some());
    third.get_to_write().unwrap();
    cache.open("fourth", &options).unwrap();
    cache.open("fifth", &options).unwrap();
    for file in [&written, &third] {
        assert!(file.held().is_some() || !file.is_dirty.load(Ordering::SeqCst), "closed without a sync");
    }
    let file = disk.create("0").unwrap();
    file.write_at(0, &[b"old"]).unwrap();
    create(&disk, 9);
    assert_eq!(file.bytes().unwrap(), 0);
}

/// The shares of a limit: half for files, the rest for connections but for a reserve; never nothing.
#[test]
fn a_limit_is_shared_out() {
    let of = |handles| {
        let limits = HandleLimits::of(handles);
        (limits.open_files_max, limits.connections_max)
    };
    assert_eq!(of(1_024), (512, 448));
    assert_eq!(of(20), (32, 1));
    assert_eq!(of(1 << 20), (16_384, (1 << 20) - 16_384 - 64));
}

/// EMFILE and ENFILE are a lack of handles and nothing else; the disk says so by a kind of its own.
#[test]
fn a_lack_of_handles_is_told_apart() {
    let error = |code: Errno| io::Error::from_raw_os_error(code.raw_os_error());
    assert!(is_out_of_handles(&error(Errno::MFILE)) && is_out_of_handles(&error(Errno::NFILE)));
    assert!(!is_out_of_handles(&error(Errno::IO)) && !is_out_of_handles(&error(Errno::NOSPC)));
    assert!(!is_out_of_handles(&io::Error::other("x")));
    let kind = |code| crate::disk::disk_error("open", "x", &error(code)).kind;
    assert_eq!(kind(Errno::MFILE), DiskErrorKind::NoHandles);
    assert_eq!(kind(Errno::IO), DiskErrorKind::Io);
}
