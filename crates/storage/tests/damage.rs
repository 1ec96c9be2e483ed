//! What is a torn tail, and what is damage (issue 12, A3). The table of `docs/storage.md` names these tests.

mod common;

use std::sync::Arc;

use common::*;
use fencepost_records::{AppendOrigin, AppendRules, BatchBuilder, validate};
use fencepost_storage::{Disk, Log, LogConfig, MemoryDisk, Recovery, StorageError};
use fencepost_types::{LeaderEpoch, Millis, Offset, Uuid};

const T: i64 = 1_700_000_000_000;
const ID: Uuid = Uuid::from_u128(77);
/// Records in the log, each in a batch of its own.
const RECORDS: i64 = 20;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 450, index_interval_bytes: 200, ..LogConfig::default() }
}

fn append(log: &mut Log) {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.append(Millis(T), None, Some(&[b'v'; 60]), &[]);
    let bytes = builder.build().unwrap().into_bytes();
    let origin = AppendOrigin::Client { produce_version: 12 };
    let batch = validate(Some(bytes), &AppendRules::default(), origin, Millis(T)).unwrap();
    log.append_as_leader(at(T), &batch, LeaderEpoch(0), None, true).unwrap();
}

/// A log that was closed, and one that was killed.
fn written(is_clean: bool) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut log = Log::open(shared, partition("t-0"), ID, config(), clean(), at(T)).unwrap();
    for _ in 0..RECORDS {
        append(&mut log);
    }
    log.update_high_watermark(Offset(RECORDS));
    if is_clean {
        log.close().unwrap();
    }
    disk
}

/// What the checkpoints of a clean stop say.
fn closed() -> Recovery {
    Recovery { clean: true, ..killed(RECORDS, RECORDS) }
}

/// What the checkpoints say after a crash.
fn killed(recovery_point: i64, high_watermark: i64) -> Recovery {
    Recovery { high_watermark: Offset(high_watermark), ..unclean(recovery_point) }
}

fn reopen(disk: &MemoryDisk, recovery: Recovery) -> Result<Log, StorageError> {
    try_open(disk, "t-0", &config(), recovery, at(T))
}

/// The log file that holds an offset, and where in it its batch begins.
fn place(disk: &MemoryDisk, offset: i64) -> (String, usize) {
    let base = *bases(disk, "t-0").iter().rfind(|base| **base <= offset).unwrap();
    let path = format!("t-0/{base:020}.log");
    let before = batches_of(disk, &path).into_iter().filter(|batch| batch.last_offset().0 < offset);
    (path, before.map(|batch| batch.bytes().len()).sum())
}

fn flip(disk: &MemoryDisk, offset: i64, byte: usize) {
    let (path, position) = place(disk, offset);
    damage(disk, &path, |content| content[position + byte] ^= 0x10);
}

fn logs(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let names = names(disk, "t-0").into_iter().filter(|name| name.ends_with(".log"));
    names.map(|name| (name.clone(), read(disk, &format!("t-0/{name}")).unwrap().to_vec())).collect()
}

/// Opening is refused with one sentence that names a file of the log, and no `.log` is touched: not at the second try either.
fn is_refused(disk: &MemoryDisk, recovery: Recovery, context: &str) {
    let before = logs(disk);
    for recovery in [recovery, Recovery { clean: false, ..recovery }] {
        let error = reopen(disk, recovery).map(|_| ()).expect_err(context).to_string();
        assert!(error.starts_with("t-0"), "{context}: {error}");
        assert!(!error.contains('\n'), "{context}: {error}");
        assert_eq!(logs(disk), before, "{context}");
    }
}

/// Bytes of a batch's header and of its payload.
const BYTES: [usize; 6] = [2, 9, 17, 23, 57, 80];

/// A broken batch below what was durable is damage, in any segment that recovery reads: nothing is cut.
#[test]
fn a_broken_batch_below_the_durable_end_is_damage() {
    for offset in 0..RECORDS {
        for byte in BYTES {
            let disk = written(false);
            flip(&disk, offset, byte);
            let context = format!("offset {offset}, byte {byte}");
            is_refused(&disk, unclean(offset + 1), &context);
        }
    }
}

/// Above everything that was noted as durable a broken batch is a torn tail: it is cut, with what follows it, and the report
/// says how many bytes, batches and offsets that were.
#[test]
fn a_broken_batch_above_the_durable_end_is_cut_and_reported() {
    for (durable_end, broken) in [(0, 0), (0, 1), (3, 3), (3, 10), (RECORDS - 1, RECORDS - 1)] {
        for byte in BYTES {
            let disk = written(false);
            let total: usize = logs(&disk).iter().map(|(_, content)| content.len()).sum();
            let (path, position) = place(&disk, broken);
            flip(&disk, broken, byte);
            let context = format!("durable to {durable_end}, offset {broken}, byte {byte}");
            let log = reopen(&disk, unclean(durable_end)).expect(&context);
            assert_eq!(log.log_end_offset(), Offset(broken), "{context}");
            let cut = log.recovery_report().cut.clone().expect(&context);
            assert_eq!((cut.path, cut.position), (path, position as u64), "{context}");
            assert_eq!(cut.bytes + log.size_bytes(), total as u64, "{context}");
            assert_eq!(cut.end_offset, Offset(broken), "{context}");
            // A header that is broken itself may hide batches, or make up offsets.
            if byte > 60 {
                assert_eq!(cut.batches, (RECORDS - broken) as u64, "{context}");
                assert_eq!(cut.previous_end_offset, Offset(RECORDS), "{context}");
            }
        }
    }
}

/// A batch of which only a part was written is cut, at every length; and a whole log says nothing.
#[test]
fn a_half_written_batch_is_cut_and_reported() {
    let disk = written(false);
    let (path, position) = place(&disk, RECORDS - 1);
    let whole = read(&disk, &path).unwrap().to_vec();
    for bytes in position + 1..whole.len() {
        write(&disk, &path, &whole[..bytes]);
        let log = reopen(&disk, unclean(RECORDS - 1)).unwrap();
        assert_eq!(log.log_end_offset(), Offset(RECORDS - 1));
        let cut = log.recovery_report().cut.clone().unwrap();
        assert_eq!((cut.bytes, cut.batches), ((bytes - position) as u64, 0));
        assert!(!log.recovery_report().is_quiet());
    }
    for recovery in [closed(), killed(RECORDS, RECORDS)] {
        let log = reopen(&written(true), recovery).unwrap();
        assert!(log.recovery_report().is_quiet(), "{:?}", log.recovery_report());
    }
}

/// After a clean stop the newest batches are read, checksums and all: what is broken in them is damage.
#[test]
fn a_broken_tail_after_a_clean_stop_is_damage() {
    for byte in BYTES {
        let disk = written(true);
        flip(&disk, RECORDS - 1, byte);
        is_refused(&disk, closed(), &format!("byte {byte}"));
    }
}

/// A log that ends before what was durable has lost something, whatever is missing: bytes, a segment, every file.
#[test]
fn a_log_that_is_too_short_is_damage() {
    for is_clean in [true, false] {
        let recovery = if is_clean { closed() } else { killed(RECORDS, RECORDS) };
        let disk = written(is_clean);
        let (path, position) = place(&disk, RECORDS - 1);
        damage(&disk, &path, |content| content.truncate(position));
        is_refused(&disk, recovery, "the last batch");
        let disk = written(is_clean);
        disk.remove(&place(&disk, RECORDS - 1).0).unwrap();
        is_refused(&disk, recovery, "the last segment");
        let disk = written(is_clean);
        for (name, _) in logs(&disk) {
            disk.remove(&format!("t-0/{name}")).unwrap();
        }
        is_refused(&disk, recovery, "all segments");
    }
}

/// After a crash a segment that is missing below what was durable is damage.
#[test]
fn a_missing_segment_below_the_durable_end_is_damage() {
    let disk = written(false);
    let bases = bases(&disk, "t-0");
    disk.remove(&format!("t-0/{:020}.log", bases[bases.len() - 2])).unwrap();
    // The recovery point lies where the lost segment ended.
    is_refused(&disk, unclean(*bases.last().unwrap()), "a segment");
}

/// A directory with durable data and without a readable `partition.metadata` is nobody's for sure.
#[test]
fn data_of_nobody_is_damage() {
    for is_clean in [true, false] {
        let recovery = if is_clean { closed() } else { killed(RECORDS, RECORDS) };
        let disk = written(is_clean);
        write(&disk, "t-0/partition.metadata", b"version: 0\ntopic_id: AAA");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let opened = Log::open(shared, partition("t-0"), ID, config(), recovery, at(T));
        assert!(matches!(opened, Err(StorageError::Corrupt { .. })), "{opened:?}");
        assert_eq!(read(&disk, "t-0/partition.metadata").unwrap().len(), 24);
    }
}

/// Side files are made anew out of the log, and the report names them.
#[test]
fn side_files_are_made_anew_and_reported() {
    for suffix in [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"] {
        let disk = written(true);
        let named = names(&disk, "t-0")
            .into_iter()
            .rfind(|name| name.ends_with(suffix) && !read(&disk, &format!("t-0/{name}")).unwrap().is_empty());
        let path = format!("t-0/{}", named.unwrap());
        damage(&disk, &path, |content| content.truncate(content.len() - 1));
        let log = reopen(&disk, closed()).unwrap();
        assert_eq!(read_all(&log).len(), RECORDS as usize, "{suffix}");
        let rebuilt = &log.recovery_report().rebuilt;
        assert!(rebuilt.contains(&path), "{suffix}: {rebuilt:?}");
    }
}

/// A checkpoint that is too far while all else agrees with the log is not believed, and reported; one below is the safe side.
#[test]
fn a_wrong_recovery_point_is_reported() {
    for is_clean in [true, false] {
        let right = if is_clean { closed() } else { killed(RECORDS, RECORDS) };
        let disk = written(is_clean);
        let log = reopen(&disk, Recovery { recovery_point: Offset(RECORDS + 100), ..right }).unwrap();
        assert_eq!(log.log_end_offset(), Offset(RECORDS));
        assert_eq!(log.recovery_report().checkpoint_beyond_end, Some(Offset(RECORDS + 100)));
        let log = reopen(&disk, Recovery { recovery_point: Offset(1), ..right }).unwrap();
        assert_eq!(log.log_end_offset(), Offset(RECORDS));
    }
}

/// A log start beyond the end of a log that lost nothing must not empty it.
#[test]
fn a_log_start_beyond_the_end_is_damage() {
    for recovery in [closed(), killed(RECORDS, RECORDS)] {
        let disk = written(recovery.clean);
        let wrong = Recovery { log_start_offset: Offset(RECORDS + 1), ..recovery };
        is_refused(&disk, wrong, "a log start beyond the end");
    }
}
