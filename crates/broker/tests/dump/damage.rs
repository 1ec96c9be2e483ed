//! What is said to damage: each fault done to a directory as Kafka left it after a kill.

use fencepost_broker::dump::{DumpOptions, Summary};

use crate::files::{Format, disk_with, files_of, problems, run};

type Files = Vec<(String, Vec<u8>)>;

/// The problems that a change to the directory brings, file by file.
fn found(change: impl FnOnce(&mut Files)) -> Vec<(String, String)> {
    let mut files = files_of("unclean/faults/as-killed-0");
    change(&mut files);
    problems(&disk_with("t-0", &files), &["t-0"])
}

fn bytes<'a>(files: &'a mut Files, name: &str) -> &'a mut Vec<u8> {
    &mut files.iter_mut().find(|(file, _)| file == name).unwrap_or_else(|| panic!("no {name}")).1
}

fn remove(files: &mut Files, name: &str) {
    let before = files.len();
    files.retain(|(file, _)| file != name);
    assert_eq!(files.len(), before - 1, "{name}");
}

fn one(file: &str, problem: &str) -> Vec<(String, String)> {
    vec![(file.to_owned(), problem.to_owned())]
}

const FIRST: &str = "00000000000000000000.log";
const LAST: &str = "00000000000000000054.log";

/// A torn last batch, a flipped bit, zeros and garbage at the end, a batch twice, a length and a format that cannot be.
#[test]
fn damaged_logs() {
    assert_eq!(found(|files| bytes(files, LAST).truncate(439)), one(LAST, "trailing-bytes"));
    assert_eq!(found(|files| bytes(files, LAST).truncate(389)), one(LAST, "trailing-bytes"));
    assert_eq!(found(|files| bytes(files, LAST)[439] ^= 1)[0], one(LAST, "bad-crc")[0]);
    assert_eq!(found(|files| bytes(files, LAST).extend([0; 1000])), one(LAST, "trailing-bytes"));
    assert_eq!(found(|files| bytes(files, LAST).extend([0xa5; 300])), one(LAST, "trailing-bytes"));
    let twice = found(|files| {
        let log = bytes(files, LAST);
        log.extend_from_within(379..449);
    });
    assert_eq!(twice, one(LAST, "offsets-go-back"));
    assert_eq!(found(|files| bytes(files, LAST)[379 + 16] = 9), one(LAST, "unknown-format"));
    assert_eq!(found(|files| bytes(files, LAST)[379 + 16] = 1), one(LAST, "trailing-bytes"));
    let short = found(|files| bytes(files, LAST)[379 + 11] = 20);
    assert_eq!(short, [one(LAST, "bad-length"), one(LAST, "trailing-bytes")].concat());
    let lost = found(|files| drop(bytes(files, FIRST).drain(138..276)));
    assert!(lost.contains(&one(FIRST, "gaps")[0]), "{lost:?}");
    let below = found(|files| bytes(files, LAST)[7] = 53);
    assert!(below.contains(&one(LAST, "impossible-offsets")[0]), "{below:?}");
    let renamed = found(|files| {
        for (name, _) in files.iter_mut().filter(|(name, _)| name.starts_with("00000000000000000054.")) {
            *name = name.replace("54.", "44.");
        }
    });
    assert!(renamed.contains(&one("00000000000000000044.log", "segments-overlap")[0]), "{renamed:?}");
}

/// An index that is missing, odd in size, full of ones, or off by one (storage-formats trap 1); the last is what makes
/// Kafka skip offsets.
#[test]
fn damaged_indexes() {
    let index = "00000000000000000000.index";
    assert_eq!(found(|files| remove(files, index)), one("t-0", "missing-file"));
    assert_eq!(found(|files| bytes(files, index).truncate(39)), one(index, "bad-size"));
    let shifted = found(|files| bytes(files, index).chunks_mut(8).for_each(|entry| entry[7] += 1));
    assert!(shifted.contains(&one(index, "no-batch-there")[0]), "{shifted:?}");
    let garbage = found(|files| bytes(files, index).fill(0xff));
    assert!(garbage.contains(&one(index, "entries-go-back")[0]), "{garbage:?}");
    // The base offset of the batch instead of its last one.
    assert_eq!(found(|files| bytes(files, index)[3] -= 1), one(index, "index-mismatch"));

    let times = "00000000000000000000.timeindex";
    assert_eq!(found(|files| remove(files, times)), one("t-0", "missing-file"));
    assert_eq!(found(|files| bytes(files, times)[7] ^= 1), one(times, "timestamp-mismatch"));
    assert_eq!(found(|files| bytes(files, times)[11] -= 1), one(times, "offset-not-found"));
    let backwards = found(|files| {
        let index = bytes(files, times);
        let first: Vec<u8> = index[..12].to_vec();
        index.extend(first);
    });
    assert_eq!(backwards, one(times, "timestamps-go-back"));
    // An index whose segment is gone cannot be compared.
    let alone = found(|files| remove(files, LAST));
    assert!(alone.contains(&one("00000000000000000054.index", "missing-file")[0]), "{alone:?}");
}

/// The aborted transactions of the log are in the index, and begin there no later (storage-formats §10: without them
/// aborted data reads as committed).
#[test]
fn damaged_transaction_indexes() {
    let index = "00000000000000000020.txnindex";
    let log = "00000000000000000020.log";
    assert_eq!(found(|files| remove(files, index)), one(log, "abort-not-indexed"));
    let torn = found(|files| bytes(files, index).truncate(33));
    assert_eq!(torn, [one(log, "abort-not-indexed"), one(index, "bad-size")].concat());
    let unknown = found(|files| bytes(files, index)[0] = 0xff);
    assert_eq!(unknown, [one(log, "abort-not-indexed"), one(index, "unknown-version")].concat());
    assert_eq!(found(|files| bytes(files, index)[17] += 1), one(log, "abort-indexed-late"));
    assert_eq!(found(|files| bytes(files, index)[17] -= 1), []);
    let other = found(|files| bytes(files, index)[9] += 1);
    assert_eq!(other, one(log, "abort-not-indexed"));
    let twice = found(|files| {
        let index = bytes(files, index);
        let entry = index.clone();
        index.extend(entry);
    });
    assert_eq!(twice, [one(log, "abort-without-marker"), one(index, "misplaced-marker")].concat());
}

/// Snapshots: cut, of another version, with a flipped bit, with one entry less.
#[test]
fn damaged_snapshots() {
    let name = "00000000000000000054.snapshot";
    assert_eq!(found(|files| bytes(files, name).truncate(5)), one(name, "snapshot-size"));
    assert_eq!(found(|files| bytes(files, name).truncate(102)), one(name, "snapshot-size"));
    assert_eq!(found(|files| bytes(files, name)[1] = 2), one(name, "unknown-version"));
    assert_eq!(found(|files| bytes(files, name)[40] ^= 1), one(name, "snapshot-crc"));
}

/// The text files: missing ones, and lines that say something else.
#[test]
fn damaged_text_files() {
    let epochs = "leader-epoch-checkpoint";
    assert_eq!(found(|files| remove(files, epochs)), one("t-0", "missing-file"));
    assert_eq!(found(|files| remove(files, "partition.metadata")), one("t-0", "missing-file"));
    let unknown = found(|files| *bytes(files, epochs) = b"0\n1\n0 0\n".to_vec());
    assert_eq!(unknown, one("00000000000000000020.log", "unknown-epoch"));
    let late = found(|files| *bytes(files, epochs) = b"0\n2\n0 0\n2 25\n".to_vec());
    assert_eq!(late, one("00000000000000000020.log", "unknown-epoch"));
    // Epochs before the first are gone with their data.
    assert_eq!(found(|files| *bytes(files, epochs) = b"0\n1\n2 24\n".to_vec()), []);
    for text in [
        "1\n2\n0 0\n2 24\n",
        "0\n3\n0 0\n2 24\n",
        "0\n2\n0 0\n2 24",
        "0\n2\n2 24\n0 0\n",
        "0\n2\nx 0\n2 24\n",
    ] {
        let found = found(|files| *bytes(files, epochs) = text.as_bytes().to_vec());
        assert!(found.contains(&one(epochs, "bad-text")[0]), "{text}: {found:?}");
    }
    for text in
        ["version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version: 0\ntopic_id: short", "version: 0", "\u{0}"]
    {
        let found = found(|files| *bytes(files, "partition.metadata") = text.as_bytes().to_vec());
        assert!(found.contains(&one("partition.metadata", "bad-text")[0]), "{text}: {found:?}");
    }
    let disk = disk_with(
        "",
        &[
            ("meta.properties".to_owned(), b"version=7\n".to_vec()),
            ("recovery-point-offset-checkpoint".to_owned(), b"0\n1\nt x 5\n".to_vec()),
            ("replication-offset-checkpoint".to_owned(), vec![0xff, 0xfe]),
            ("log-start-offset-checkpoint".to_owned(), Vec::new()),
        ],
    );
    let found = problems(&disk, &["meta.properties", "recovery-point-offset-checkpoint"]);
    assert_eq!(
        found,
        [one("meta.properties", "bad-text"), one("recovery-point-offset-checkpoint", "bad-text")].concat()
    );
    assert!(!problems(&disk, &["replication-offset-checkpoint"]).is_empty());
    assert_eq!(problems(&disk, &["log-start-offset-checkpoint"]), []);
}

/// Files that are no files of a log, that are not there, and those of the cleaner; the run goes on with the next.
#[test]
fn files_that_are_none() {
    let leftovers = found(|files| {
        let log = bytes(files, FIRST).clone();
        files.push(("00000000000000000007.log.deleted".to_owned(), log.clone()));
        files.push(("00000000000000000007.log.swap".to_owned(), log));
        files.push(("notes.txt".to_owned(), Vec::new()));
    });
    let names: Vec<&str> = leftovers.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["leftovers", "unknown-file"]);

    let disk = disk_with("", &files_of("unclean/faults/as-killed-0"));
    let paths = ["nothing.log", "x.log", FIRST, "00000000000000000000.log.deleted"];
    let (text, summary) = run(&disk, &paths, &DumpOptions::default(), Format::Ndjson);
    assert_eq!(summary, Summary { files: 4, errors: 3, notices: 0, died_of: None }, "{text}");
    assert!(text.contains("\"baseOffset\":18"), "{text}");
}
