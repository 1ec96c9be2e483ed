use std::collections::BTreeSet;

use super::*;

const SEEDS: u64 = 300;

/// A disk with one durable directory, and one durable file in it that holds `content`.
fn disk_with(content: &[u8]) -> SimDisk {
    let disk = SimDisk::new(1);
    disk.create_dir("t-0").unwrap();
    disk.sync_dir("").unwrap();
    let file = disk.create("t-0/a").unwrap();
    file.write_at(0, &[content]).unwrap();
    file.sync().unwrap();
    disk.sync_dir("t-0").unwrap();
    assert!(disk.is_durable());
    disk
}

/// A crash whose damage `seed` decides.
fn crash(disk: &SimDisk, seed: u64) {
    disk.machine().rng = Rng::new(seed);
    disk.crash();
}

fn content(disk: &SimDisk, path: &str) -> Option<Bytes> {
    disk.files().get(path).cloned()
}

fn kind<T: fmt::Debug>(answer: DiskResult<T>) -> DiskErrorKind {
    answer.unwrap_err().kind
}

/// A call takes effect for every later call of the same process, before any sync.
#[test]
fn calls_take_effect_at_once() {
    let disk = disk_with(b"one two");
    let file = disk.open("t-0/a").unwrap();
    file.write_at(4, &[b"thr", b"ee"]).unwrap();
    assert_eq!(file.read(0, 100).unwrap(), &b"one three"[..]);
    file.write_at(11, &[b"x"]).unwrap();
    assert_eq!(file.read(8, 100).unwrap(), &b"e\0\0x"[..]);
    file.truncate(3).unwrap();
    assert_eq!(file.bytes().unwrap(), 3);
    disk.create("t-0/b").unwrap();
    disk.rename("t-0/b", "t-0/c").unwrap();
    let names: Vec<_> =
        disk.list("t-0").unwrap().into_iter().map(|entry| (entry.name, entry.bytes)).collect();
    assert_eq!(names, [("a".to_owned(), 3), ("c".to_owned(), 0)]);
    assert_eq!(disk.list("").unwrap(), [DirEntry { name: "t-0".into(), is_dir: true, bytes: 0 }]);
}

/// The errors that the trait promises.
#[test]
fn missing_and_wrong_things_are_errors() {
    let disk = disk_with(b"");
    assert_eq!(kind(disk.open("t-0/b")), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.open("t-1/b")), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.create("t-1/b")), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.remove("t-0/b")), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.rename("t-0/b", "t-0/c")), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.list("t-1")), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.sync_dir("t-1")), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.open("t-0")), DiskErrorKind::Io);
    assert_eq!(kind(disk.remove_dir("t-0")), DiskErrorKind::Io);
    assert_eq!(kind(disk.create_dir("t-0/a")), DiskErrorKind::Io);
    assert_eq!(disk.create_dir("t-0"), Ok(()));
    assert_eq!(disk.create_dir(""), Ok(()));
}

/// A handle outlives the name of its file, and a renamed directory takes its files along.
#[test]
fn handles_outlive_names() {
    let disk = disk_with(b"abc");
    let file = disk.open("t-0/a").unwrap();
    disk.rename("t-0", "t-0-delete").unwrap();
    assert_eq!(content(&disk, "t-0-delete/a").unwrap(), &b"abc"[..]);
    disk.remove("t-0-delete/a").unwrap();
    disk.remove_dir("t-0-delete").unwrap();
    assert!(disk.files().is_empty());
    file.write_at(3, &[b"d"]).unwrap();
    assert_eq!(file.read(0, 9).unwrap(), &b"abcd"[..]);
}

/// What was synced survives every crash; what came after it survives in part: nothing, all, torn at any byte.
#[test]
fn synced_content_survives() {
    let mut lengths = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk_with(b"synced");
        let file = disk.open("t-0/a").unwrap();
        file.write_at(6, &[&[b'x'; 10]]).unwrap();
        crash(&disk, seed);
        let content = content(&disk, "t-0/a").unwrap();
        assert!(content.starts_with(b"synced"), "seed {seed}");
        assert!(content[6..].iter().all(|byte| *byte == b'x'), "seed {seed}");
        lengths.insert(content.len());
        assert!(disk.is_durable());
    }
    assert!(lengths.contains(&6) && lengths.contains(&16) && lengths.len() > 8, "{lengths:?}");
}

/// Writes that were not synced reach the medium in any order: a later one may be there without an earlier one, with
/// zeros before it, and one may be there in some of its sectors.
#[test]
fn writes_are_reordered_and_torn() {
    let (mut is_later_alone, mut is_middle_missing) = (false, false);
    for seed in 0..SEEDS {
        let disk = disk_with(b"");
        let file = disk.open("t-0/a").unwrap();
        file.write_at(0, &[&[1; 2048]]).unwrap();
        file.write_at(2048, &[&[2; 100]]).unwrap();
        crash(&disk, seed);
        let content = content(&disk, "t-0/a").unwrap();
        is_later_alone |= content.len() == 2148 && content[..2048].iter().all(|byte| *byte == 0);
        let sectors: Vec<_> = content.chunks(512).map(|sector| sector[0]).collect();
        is_middle_missing |= sectors.windows(3).any(|window| window == [1, 0, 1]);
    }
    assert!(is_later_alone && is_middle_missing);
}

/// An overwrite that was not synced leaves old bytes where it did not arrive.
#[test]
fn an_overwrite_leaves_old_bytes() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk_with(b"oooo");
        disk.open("t-0/a").unwrap().write_at(0, &[b"nnnn"]).unwrap();
        crash(&disk, seed);
        seen.insert(content(&disk, "t-0/a").unwrap());
    }
    assert!(
        seen.contains(&b"oooo"[..]) && seen.contains(&b"nnnn"[..]) && seen.contains(&b"nooo"[..]),
        "{seen:?}"
    );
}

/// A truncation that was not synced may come back.
#[test]
fn a_truncation_may_be_lost() {
    let mut lengths = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk_with(b"123456");
        disk.open("t-0/a").unwrap().truncate(2).unwrap();
        crash(&disk, seed);
        lengths.insert(content(&disk, "t-0/a").unwrap().len());
    }
    assert_eq!(lengths, BTreeSet::from([2, 6]));
}

/// A name needs a sync of its directory, however well the file was synced; and so does the directory's own name.
#[test]
fn names_need_a_sync_of_their_directory() {
    for outer in [false, true] {
        let mut outcomes = BTreeSet::new();
        for seed in 0..SEEDS {
            let disk = disk_with(b"");
            let path = if outer { "t-1/b" } else { "t-0/b" };
            disk.create_dir("t-1").unwrap();
            let file = disk.create(path).unwrap();
            file.write_at(0, &[b"content"]).unwrap();
            file.sync().unwrap();
            if outer {
                disk.sync_dir("t-1").unwrap();
            }
            crash(&disk, seed);
            outcomes.insert(content(&disk, path));
        }
        assert_eq!(outcomes, BTreeSet::from([None, Some(Bytes::from_static(b"content"))]));
    }
}

/// A rename over a file leaves the old or the new one, whole; a removal may come back.
#[test]
fn a_rename_is_never_half_done() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk_with(b"old");
        let file = disk.create("t-0/a.tmp").unwrap();
        file.write_at(0, &[b"new"]).unwrap();
        file.sync().unwrap();
        disk.rename("t-0/a.tmp", "t-0/a").unwrap();
        crash(&disk, seed);
        let left = content(&disk, "t-0/a").unwrap();
        let temporary = content(&disk, "t-0/a.tmp");
        assert!(left == b"new"[..] || left == b"old"[..], "seed {seed}");
        assert!(!(left == b"new"[..] && temporary.is_some()), "seed {seed}: one file, two names");
        outcomes.insert((left, temporary.is_some()));
    }
    assert_eq!(outcomes.len(), 3);

    let mut is_back = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk_with(b"old");
        disk.remove("t-0/a").unwrap();
        crash(&disk, seed);
        is_back.insert(content(&disk, "t-0/a").is_some());
    }
    assert_eq!(is_back.len(), 2);
}

/// Files lose their unsynced writes independently of one another.
#[test]
fn files_are_reordered_against_each_other() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk_with(b"");
        let second = disk.create("t-0/b").unwrap();
        disk.sync_dir("t-0").unwrap();
        disk.open("t-0/a").unwrap().write_at(0, &[b"1"]).unwrap();
        second.write_at(0, &[b"2"]).unwrap();
        crash(&disk, seed);
        outcomes.insert(["t-0/a", "t-0/b"].map(|path| content(&disk, path).unwrap().len()));
    }
    assert_eq!(outcomes, BTreeSet::from([[0, 0], [0, 1], [1, 0], [1, 1]]));
}

/// A killed process loses nothing and makes nothing durable; its handles and locks are dead.
#[test]
fn a_kill_loses_nothing() {
    let disk = disk_with(b"");
    let lock = disk.lock(".lock").unwrap();
    assert_eq!(kind(disk.lock(".lock")), DiskErrorKind::Locked);
    let file = disk.open("t-0/a").unwrap();
    file.write_at(0, &[b"kept"]).unwrap();
    disk.kill();
    assert_eq!(content(&disk, "t-0/a").unwrap(), &b"kept"[..]);
    assert!(!disk.is_durable());
    assert_eq!(kind(file.write_at(0, &[b"late"])), DiskErrorKind::Io);
    assert_eq!(kind(file.sync()), DiskErrorKind::Io);
    let _again = disk.lock(".lock").unwrap();
    drop(lock);
    assert_eq!(kind(disk.lock(".lock")), DiskErrorKind::Locked);
}

/// A failed sync is never made good by a later one: readers see what a crash takes away.
#[test]
fn a_failed_sync_loses_for_good() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk_with(b"");
        disk.machine().rng = Rng::new(seed);
        let file = disk.open("t-0/a").unwrap();
        file.write_at(0, &[b"data"]).unwrap();
        disk.set_faults(Faults { sync_error_permille: 1000, ..Faults::default() });
        assert_eq!(kind(file.sync()), DiskErrorKind::Io);
        disk.create("t-0/b").unwrap();
        assert_eq!(kind(disk.sync_dir("t-0")), DiskErrorKind::Io);
        disk.set_faults(Faults::default());
        file.sync().unwrap();
        disk.sync_dir("t-0").unwrap();
        assert_eq!(file.read(0, 9).unwrap(), &b"data"[..]);
        let is_durable = disk.is_durable();
        crash(&disk, seed);
        let left = content(&disk, "t-0/a").unwrap();
        let has_name = content(&disk, "t-0/b").is_some();
        assert_eq!(is_durable, left == b"data"[..] && has_name, "seed {seed}");
        outcomes.insert((left.len(), has_name));
    }
    let extremes = [(0, false), (4, false), (0, true), (4, true)];
    assert!(extremes.iter().all(|outcome| outcomes.contains(outcome)), "{outcomes:?}");
}

/// A failed write or read is an error, and a failed write may have written its beginning.
#[test]
fn writes_and_reads_fail() {
    let mut lengths = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk_with(b"");
        disk.machine().rng = Rng::new(seed);
        let file = disk.open("t-0/a").unwrap();
        disk.set_faults(Faults { write_error_permille: 1000, ..Faults::default() });
        assert_eq!(kind(file.write_at(0, &[b"12", b"34"])), DiskErrorKind::Io);
        assert_eq!(kind(file.truncate(0)), DiskErrorKind::Io);
        assert_eq!(kind(disk.create("t-0/b")), DiskErrorKind::Io);
        disk.set_faults(Faults { read_error_permille: 1000, ..Faults::default() });
        assert_eq!(kind(file.read(0, 9)), DiskErrorKind::Io);
        assert_eq!(kind(disk.list("t-0")), DiskErrorKind::Io);
        let left = content(&disk, "t-0/a").unwrap();
        assert!(b"1234".starts_with(&left));
        lengths.insert(left.len());
    }
    assert_eq!(lengths, BTreeSet::from([0, 1, 2, 3, 4]));
}

/// A full disk refuses what does not fit, and takes it again once there is room; overwriting needs none.
#[test]
fn a_disk_fills_up() {
    let disk = disk_with(b"12345");
    disk.set_faults(Faults { capacity_bytes: Some(8), ..Faults::default() });
    let file = disk.create("t-0/b").unwrap();
    file.write_at(0, &[b"678"]).unwrap();
    assert_eq!(kind(file.write_at(3, &[b"9"])), DiskErrorKind::NoSpace);
    assert_eq!(kind(file.truncate(4)), DiskErrorKind::NoSpace);
    file.write_at(0, &[b"abc"]).unwrap();
    assert_eq!(content(&disk, "t-0/b").unwrap(), &b"abc"[..]);
    disk.remove("t-0/a").unwrap();
    file.write_at(3, &[b"de"]).unwrap();
    assert!(kind(file.write_at(2, &[&[0; 7]])) == DiskErrorKind::NoSpace);
    assert!(file.bytes().unwrap() <= 8);
}

/// The power fails after as many calls as were asked for, and stays off until the crash.
#[test]
fn the_power_fails_when_told() {
    let disk = disk_with(b"");
    let file = disk.open("t-0/a").unwrap();
    disk.power_off_after(2);
    file.write_at(0, &[b"x"]).unwrap();
    file.sync().unwrap();
    assert!(disk.is_off());
    assert_eq!(kind(file.write_at(1, &[b"y"])), DiskErrorKind::Io);
    assert_eq!(kind(file.read(0, 1)), DiskErrorKind::Io);
    assert_eq!(kind(disk.sync_dir("")), DiskErrorKind::Io);
    assert_eq!(kind(disk.open("t-0/a")), DiskErrorKind::Io);
    disk.crash();
    assert!(!disk.is_off());
    assert_eq!(content(&disk, "t-0/a").unwrap(), &b"x"[..]);
    let calls = disk.calls();
    assert_eq!((calls.changes, calls.syncs), (4, 4));
}

/// A medium that goes bad shows it to readers, now and after a crash.
#[test]
fn bits_flip() {
    let disk = disk_with(b"abc");
    disk.flip_bits("t-0/a", 1, 0x01);
    assert_eq!(content(&disk, "t-0/a").unwrap(), &b"acc"[..]);
    disk.crash();
    assert_eq!(content(&disk, "t-0/a").unwrap(), &b"acc"[..]);
}

/// Files are stamped by the disk's clock.
#[test]
fn files_are_stamped() {
    let disk = disk_with(b"");
    disk.set_now(Millis(7));
    let file = disk.open("t-0/a").unwrap();
    assert_eq!(file.modified(), Ok(Millis(0)));
    file.write_at(0, &[b"x"]).unwrap();
    assert_eq!(file.modified(), Ok(Millis(7)));
}

/// The same seed and the same calls leave the same bytes, crash after crash.
#[test]
fn a_seed_decides_everything() {
    let run = |seed| {
        let disk = SimDisk::new(seed);
        let faults = Faults { write_error_permille: 100, sync_error_permille: 100, ..Faults::default() };
        disk.set_faults(faults);
        let mut rng = Rng::new(seed);
        for round in 0..20u64 {
            for step in 0..20u64 {
                let path = format!("f{}", rng.range(0, 4));
                if let Ok(file) = disk.open(&path).or_else(|_| disk.create(&path)) {
                    let _ = file.write_at(rng.range(0, 2000), &[&round.to_be_bytes(), &step.to_be_bytes()]);
                    let _ = if chance(&mut rng, 200) { file.sync() } else { Ok(()) };
                }
                let _ = if chance(&mut rng, 100) { disk.sync_dir("") } else { Ok(()) };
                let _ = if chance(&mut rng, 50) { disk.rename(&path, "f9") } else { Ok(()) };
            }
            disk.crash();
        }
        disk.files()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
