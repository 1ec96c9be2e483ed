//! What the tests of this crate share: Kafka's directories on a memory disk, and plain looks at files.
#![allow(dead_code, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fencepost_partition::{AbortedTxn, Marker, ProducerStates};
use fencepost_records::{Batch, Batches, EndTxnMarker};
use fencepost_storage::{
    Disk, Log, LogConfig, LogRecords, MemoryDisk, ReadError, ReadSlice, Recovery, StorageError, batch_facts,
};
use fencepost_types::{Millis, Nanos, Now, Offset, TopicPartition, Uuid};
use serde_json::Value;

pub mod crash_disk;

/// The clock of a test.
pub fn at(wall_ms: i64) -> Now {
    Now { wall: Millis(wall_ms), mono: Nanos(0) }
}

/// Where Kafka's directories are.
pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// What a reader must find in them.
pub fn expected() -> Value {
    let text = std::fs::read_to_string(testdata().join("expect.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A memory disk with a copy of `testdata/<source>` as its directory `name`; the empty name is the root.
pub fn copy_in(disk: &dyn Disk, source: &str, name: &str) {
    disk.create_dir(name).unwrap();
    for entry in std::fs::read_dir(testdata().join(source)).unwrap() {
        let entry = entry.unwrap();
        let file_name = entry.file_name().into_string().unwrap();
        let path = if name.is_empty() { file_name.clone() } else { format!("{name}/{file_name}") };
        if entry.file_type().unwrap().is_dir() {
            copy_in(disk, &format!("{source}/{file_name}"), &path);
        } else {
            write(disk, &path, &std::fs::read(entry.path()).unwrap());
        }
    }
}

/// Replaces a file.
pub fn write(disk: &dyn Disk, path: &str, content: &[u8]) {
    disk.create(path).unwrap().write_at(0, &[content]).unwrap();
}

/// A whole file; `None` if there is none.
pub fn read(disk: &dyn Disk, path: &str) -> Option<Bytes> {
    let file = disk.open(path).ok()?;
    Some(file.read(0, file.bytes().unwrap() as usize).unwrap())
}

/// Changes a file.
pub fn damage(disk: &dyn Disk, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut content = read(disk, path).unwrap_or_else(|| panic!("{path} is not there")).to_vec();
    change(&mut content);
    write(disk, path, &content);
}

/// Names in a directory, in order.
pub fn names(disk: &dyn Disk, path: &str) -> Vec<String> {
    disk.list(path).unwrap().into_iter().map(|entry| entry.name).collect()
}

/// Bases of the segments in a directory.
pub fn bases(disk: &dyn Disk, directory: &str) -> Vec<i64> {
    let logs = names(disk, directory).into_iter();
    logs.filter_map(|name| name.strip_suffix(".log").map(|base| base.parse().unwrap())).collect()
}

/// The batches of one log file.
pub fn batches_of(disk: &dyn Disk, path: &str) -> Vec<Batch> {
    Batches::new(read(disk, path).unwrap()).map(Result::unwrap).collect()
}

/// Every batch of a partition directory, in order.
pub fn all_batches(disk: &dyn Disk, directory: &str) -> Vec<Batch> {
    let logs = bases(disk, directory).into_iter();
    logs.flat_map(|base| batches_of(disk, &format!("{directory}/{base:020}.log"))).collect()
}

/// The topic id in a directory's `partition.metadata`.
pub fn topic_id(disk: &dyn Disk, directory: &str) -> Uuid {
    let text = read(disk, &format!("{directory}/partition.metadata")).unwrap();
    let text = std::str::from_utf8(&text).unwrap();
    Uuid::parse(text.rsplit(' ').next().unwrap()).unwrap()
}

/// Topic and number out of a directory's name.
pub fn partition(directory: &str) -> TopicPartition {
    let (topic, number) = directory.rsplit_once('-').unwrap();
    TopicPartition::new(topic, number.parse().unwrap())
}

/// How a directory is opened.
pub fn clean() -> Recovery {
    Recovery { clean: true, ..Recovery::default() }
}

/// How a directory is opened after a crash.
pub fn unclean(recovery_point: i64) -> Recovery {
    Recovery { clean: false, recovery_point: Offset(recovery_point), ..Recovery::default() }
}

/// Opens a directory that is on the disk.
pub fn open(disk: &MemoryDisk, directory: &str, config: &LogConfig, recovery: Recovery, now: Now) -> Log {
    try_open(disk, directory, config, recovery, now).unwrap()
}

/// The same where that may be refused.
pub fn try_open(
    disk: &MemoryDisk,
    directory: &str,
    config: &LogConfig,
    recovery: Recovery,
    now: Now,
) -> Result<Log, StorageError> {
    let id = topic_id(disk, directory);
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(disk, partition(directory), id, config.clone(), recovery, now)
}

/// Reads as [`Log::read`], and the same once more with the records left in the file: both ways give the same.
pub fn read_both(
    log: &Log,
    offset: Offset,
    bytes_max: usize,
    end_bound: Offset,
    min_one_message: bool,
) -> Result<ReadSlice, ReadError> {
    let held = log.read(offset, bytes_max, end_bound, min_one_message);
    let left = log.find(offset, bytes_max, end_bound, min_one_message, 0);
    match (&held, left) {
        (Ok(held), Ok(left)) => {
            let mut records = vec![0; left.records.bytes()];
            match &left.records {
                LogRecords::Held(bytes) => records.copy_from_slice(bytes),
                LogRecords::File(part) => part.read_exact(0, &mut records).unwrap(),
            }
            assert_eq!(records, held.records, "from {offset}");
            assert_eq!((left.base_offset, left.next_offset), (held.base_offset, held.next_offset));
            let [aborted, expected] =
                [log.aborted_transactions(offset, &left), log.aborted_transactions(offset, held)];
            assert_eq!(aborted, expected, "from {offset}");
        }
        (Err(held), Err(left)) => assert_eq!(held.to_string(), left.to_string()),
        (held, left) => panic!("from {offset}: {held:?}, but {left:?}"),
    }
    held
}

/// Reads a whole log, batch by batch.
pub fn read_all(log: &Log) -> Vec<Batch> {
    let (mut at, mut found) = (log.log_start_offset(), Vec::new());
    while at < log.log_end_offset() {
        let slice = read_both(log, at, 1 << 20, log.log_end_offset(), true).unwrap();
        if slice.records.is_empty() {
            break;
        }
        assert!(slice.next_offset > at, "reading goes on");
        at = slice.next_offset;
        found.extend(Batches::new(slice.records).map(Result::unwrap));
    }
    found
}

/// Producer state and aborted transactions of a history, by plain reading of its batches.
pub fn fold(batches: &[Batch]) -> (ProducerStates, Vec<AbortedTxn>) {
    let (mut states, mut aborted) = (ProducerStates::new(Offset(0)), Vec::new());
    for batch in batches {
        let marker = EndTxnMarker::from_batch(batch).unwrap();
        let marker =
            marker.map(|EndTxnMarker { result, coordinator_epoch }| Marker { result, coordinator_epoch });
        let completed = states.replay(None, &batch_facts(batch.header(), marker));
        aborted.extend(completed.and_then(|completed| states.aborted_txn(&completed)));
    }
    (states, aborted)
}
