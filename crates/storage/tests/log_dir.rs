//! The rules of a log directory, one by one.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::crash_disk::{CrashDisk, Dice};
use common::*;
use fencepost_records::BatchBuilder;
use fencepost_storage::{
    Checkpoint, Disk, DiskErrorKind, LogConfig, LogDir, LogOffsets, MemoryDisk, MetaProperties, StorageError,
};
use fencepost_types::{BrokerId, LeaderEpoch, Millis, Offset, TopicPartition, Uuid};

const T: i64 = 1_700_000_000_000;
const ID: Uuid = Uuid::from_u128(77);

fn meta(node_id: i32) -> MetaProperties {
    MetaProperties::new("a-cluster", BrokerId(node_id), Uuid::from_u128(0x1234_5678))
}

fn open_dir(disk: &MemoryDisk) -> Result<LogDir, StorageError> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    LogDir::open(shared, meta(1))
}

fn append(log: &mut fencepost_storage::Log) {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.append(Millis(T), None, Some(b"v"), &[]);
    log.append_as_coordinator(at(T), &builder.build().unwrap(), LeaderEpoch(0), None, false).unwrap();
}

/// A new directory gets its owner and four checkpoints of no bytes (storage-formats §8).
#[test]
fn a_new_directory_becomes_ours() {
    let disk = MemoryDisk::new();
    let log_dir = open_dir(&disk).unwrap();
    assert!(!log_dir.was_clean());
    assert_eq!(log_dir.directory_id(), Uuid::from_u128(0x1234_5678));
    let wanted = [
        ".lock",
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ];
    assert_eq!(names(&disk, ""), wanted);
    assert_eq!(read(&disk, "cleaner-offset-checkpoint").unwrap().len(), 0);
    assert!(log_dir.partitions().unwrap().is_empty());
}

/// One owner at a time; another node's directory is refused, our own is taken with the ids that it has (storage-formats §8.1).
#[test]
fn owners() {
    let disk = MemoryDisk::new();
    let log_dir = open_dir(&disk).unwrap();
    let StorageError::Disk(error) = open_dir(&disk).unwrap_err() else { panic!("locked") };
    assert_eq!(error.kind, DiskErrorKind::Locked);
    drop(log_dir);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let refused = LogDir::open(shared.clone(), meta(2)).unwrap_err();
    assert!(matches!(refused, StorageError::WrongOwner { what: "node.id", .. }), "{refused}");
    let other = MetaProperties::new("another", BrokerId(1), Uuid::from_u128(99));
    assert_eq!(*LogDir::open(shared, other).unwrap().meta(), meta(1));

    write(&disk, "meta.properties", b"version=0\nbroker.id=1\ncluster.id=old\n");
    let log_dir = open_dir(&disk).unwrap();
    assert_eq!(log_dir.directory_id(), Uuid::from_u128(0x1234_5678), "one without an id gets it");
    assert_eq!(log_dir.meta().cluster_id, "old");
    drop(log_dir);
    write(&disk, "meta.properties", b"nonsense");
    assert!(matches!(open_dir(&disk), Err(StorageError::Corrupt { .. })));
}

/// The mark of a clean stop holds for one start, whatever becomes of that (storage-formats trap 19, §8.2).
#[test]
fn the_clean_mark_holds_once() {
    let disk = MemoryDisk::new();
    let log_dir = open_dir(&disk).unwrap();
    log_dir.mark_clean(22).unwrap();
    assert_eq!(read(&disk, ".kafka_cleanshutdown").unwrap(), "{\"version\":0,\"brokerEpoch\":22}");
    drop(log_dir);
    let log_dir = open_dir(&disk).unwrap();
    assert_eq!((log_dir.was_clean(), log_dir.clean_broker_epoch()), (true, Some(22)));
    drop(log_dir);
    assert!(!open_dir(&disk).unwrap().was_clean());
    write(&disk, ".kafka_cleanshutdown", b"");
    assert_eq!(open_dir(&disk).unwrap().clean_broker_epoch(), Some(-1), "from before it had content");
}

/// Checkpoints come back as they were written; one that cannot be read counts as missing and is named (storage-formats §8.3:
/// Kafka does not start).
#[test]
fn checkpoints() {
    let disk = MemoryDisk::new();
    let log_dir = open_dir(&disk).unwrap();
    let partition = TopicPartition::new("a-b", 3);
    let offsets = BTreeMap::from([(partition.clone(), Offset(42))]);
    log_dir.write_checkpoint(Checkpoint::Cleaner, || offsets).unwrap();
    assert_eq!(read(&disk, "cleaner-offset-checkpoint").unwrap(), "0\n1\na-b 3 42\n");
    write(&disk, "recovery-point-offset-checkpoint", b"0\nnonsense\n");
    write(&disk, "replication-offset-checkpoint", &[0xff; 20]);
    drop(log_dir);
    let log_dir = open_dir(&disk).unwrap();
    assert_eq!(log_dir.offset(Checkpoint::Cleaner, &partition), Some(Offset(42)));
    assert_eq!(log_dir.offset(Checkpoint::RecoveryPoint, &partition), None);
    let unreadable = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"];
    assert_eq!(log_dir.unreadable_files(), unreadable);
}

/// What logs say of themselves goes into the checkpoints and comes back to them; the log start only where it is not the
/// first offset there is (storage-formats §8.3).
#[test]
fn logs_are_remembered() {
    let disk = MemoryDisk::new();
    let log_dir = open_dir(&disk).unwrap();
    let open = |log_dir: &LogDir, name| {
        log_dir.open_log(TopicPartition::new(name, 0), ID, LogConfig::default(), at(T)).unwrap()
    };
    let (mut a, mut b, empty) = (open(&log_dir, "a"), open(&log_dir, "b"), open(&log_dir, "empty"));
    for log in [&mut a, &mut b] {
        append(log);
        append(log);
        log.update_high_watermark(Offset(2));
    }
    a.delete_records(Offset(1)).unwrap();
    let mut offsets = LogOffsets::default();
    for log in [&mut a, &mut b] {
        log.close().unwrap();
        offsets.add(log);
    }
    offsets.add(&empty);
    log_dir.write_checkpoints(&Checkpoint::ALL, || Ok(offsets)).unwrap();
    log_dir.mark_clean(1).unwrap();
    assert_eq!(read(&disk, "log-start-offset-checkpoint").unwrap(), "0\n1\na 0 1\n");
    assert_eq!(read(&disk, "replication-offset-checkpoint").unwrap(), "0\n2\na 0 2\nb 0 2\n");
    assert_eq!(read(&disk, "recovery-point-offset-checkpoint").unwrap(), "0\n2\na 0 2\nb 0 2\n");
    drop(log_dir);
    let log_dir = open_dir(&disk).unwrap();
    let (a, b) = (open(&log_dir, "a"), open(&log_dir, "b"));
    assert_eq!((a.log_start_offset(), a.high_watermark()), (Offset(1), Offset(2)));
    assert_eq!((b.log_start_offset(), b.high_watermark()), (Offset(0), Offset(2)));
    let found: Vec<_> = log_dir.partitions().unwrap();
    assert_eq!(found.iter().map(|found| found.partition.to_string()).collect::<Vec<_>>(), ["a-0", "b-0"]);
    assert!(found.iter().all(|found| found.topic_id == Some(ID)));
}

/// The metadata log is never believed for the mark's sake: it is recovered from its recovery point (storage-formats §10).
#[test]
fn the_metadata_log_is_always_recovered() {
    let disk = MemoryDisk::new();
    let log_dir = open_dir(&disk).unwrap();
    let partition = TopicPartition::new("__cluster_metadata", 0);
    let open = |log_dir: &LogDir| {
        log_dir.open_log(partition.clone(), Uuid::METADATA_TOPIC, LogConfig::default(), at(T)).unwrap()
    };
    let mut log = open(&log_dir);
    append(&mut log);
    append(&mut log);
    log.close().unwrap();
    log_dir.mark_clean(1).unwrap();
    damage(&disk, "__cluster_metadata-0/00000000000000000000.log", |log| log.truncate(log.len() - 1));
    drop(log_dir);
    let log_dir = open_dir(&disk).unwrap();
    assert!(log_dir.was_clean());
    assert_eq!(open(&log_dir).log_end_offset(), Offset(1));
}

/// Strays are put aside and left alone, deleted partitions are unlinked at the next start, and a directory that is nobody's
/// stops it (storage-formats §6, §7.7).
#[test]
fn directories_that_are_no_live_partition() {
    let disk = MemoryDisk::new();
    let log_dir = open_dir(&disk).unwrap();
    let config = LogConfig::default;
    for name in ["a", "b"] {
        append(&mut log_dir.open_log(TopicPartition::new(name, 0), ID, config(), at(T)).unwrap());
    }
    let mut log = log_dir.open_log(TopicPartition::new("c", 0), ID, config(), at(T)).unwrap();
    append(&mut log);
    let deleted = log.delete(9).unwrap().unwrap();
    let stray = log_dir.set_aside(&TopicPartition::new("a", 0), 7).unwrap();
    assert_eq!(stray, "a-0.00000000000000000000000000000007-stray");
    let live = |log_dir: &LogDir| log_dir.partitions().map(|found| found.len());
    assert_eq!(live(&log_dir), Ok(1));
    assert!(names(&disk, "").contains(&deleted));
    drop(log_dir);
    let log_dir = open_dir(&disk).unwrap();
    assert!(!names(&disk, "").contains(&deleted));
    assert!(names(&disk, "").contains(&stray));
    disk.create_dir("remote-log-index-cache").unwrap();
    disk.create_dir("b-1").unwrap();
    let found = log_dir.partitions().unwrap();
    assert_eq!(found[1].topic_id, None, "a directory without partition.metadata");
    disk.create_dir("notes").unwrap();
    assert!(matches!(live(&log_dir), Err(StorageError::Corrupt { .. })));
}

/// A checkpoint is the old one or the new one after a crash, whole; the mark of a clean stop is there or not.
#[test]
fn checkpoints_survive_crashes() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let disk = CrashDisk::new();
        let partition = TopicPartition::new("a", 0);
        let write = |log_dir: &LogDir, offset| {
            let offsets = BTreeMap::from([(partition.clone(), Offset(offset))]);
            log_dir.write_checkpoint(Checkpoint::RecoveryPoint, || offsets)
        };
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let log_dir = LogDir::open(shared, meta(1)).unwrap();
        write(&log_dir, 1).unwrap();
        disk.fail_after(Some(dice.below(6)));
        let written = write(&log_dir, 2).is_ok();
        let after: Arc<dyn Disk> = Arc::new(disk.crash(&mut dice));
        let log_dir = LogDir::open(after, meta(1)).unwrap();
        let found = log_dir.offset(Checkpoint::RecoveryPoint, &partition).unwrap();
        assert!(found == Offset(2) || (found == Offset(1) && !written), "{found} {written}");
        assert!(log_dir.unreadable_files().is_empty());
    }
}
