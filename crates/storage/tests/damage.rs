//! What is a torn tail, and what is damage (issue 12, A3). The table of `docs/storage.md` names these tests.

mod common;

use std::sync::Arc;

use common::*;
use fencepost_records::{AppendOrigin, AppendRules, BatchBuilder, validate};
use fencepost_storage::{CleanupPolicy, Disk, Log, LogConfig, MemoryDisk, Recovery, StorageError};
use fencepost_types::{LeaderEpoch, Millis, Offset, Uuid};

const T: i64 = 1_700_000_000_000;
const ID: Uuid = Uuid::from_u128(77);
/// Records in the log, each in a batch of its own.
const RECORDS: i64 = 20;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 450, index_interval_bytes: 200, ..LogConfig::default() }
}

fn append(log: &mut Log) {
    append_of(log, 60);
}

fn append_of(log: &mut Log, value_bytes: usize) {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.append(Millis(T), None, Some(&vec![b'v'; value_bytes]), &[]);
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
    flip_bit(disk, offset, byte, 4);
}

fn flip_bit(disk: &MemoryDisk, offset: i64, byte: usize, bit: u32) {
    let (path, position) = place(disk, offset);
    damage(disk, &path, |content| content[position + byte] ^= 1 << bit);
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

/// Above everything that was noted as durable, too: every byte is there, so the batch was whole once, and may have been acknowledged.
/// A torn tail is told by what was never written.
#[test]
fn a_changed_byte_above_the_durable_end_is_damage() {
    for offset in 0..RECORDS {
        for byte in BYTES {
            let disk = written(false);
            flip(&disk, offset, byte);
            for durable_end in [0, offset] {
                let context = format!("durable to {durable_end}, offset {offset}, byte {byte}");
                is_refused(&disk, unclean(durable_end), &context);
            }
        }
    }
}

/// What an operator does who has no copy and wants what is before the damage: the file is cut at the byte that the error names, later
/// files go, and the log begins to be judged anew.
#[test]
fn a_log_that_is_cut_by_hand_is_served() {
    let disk = written(false);
    flip(&disk, 10, 80);
    let (path, position) = place(&disk, 10);
    let error = reopen(&disk, unclean(0)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(&path) && error.contains(&format!("byte {position}")), "{error}");
    damage(&disk, &path, |content| content.truncate(position));
    for base in bases(&disk, "t-0").into_iter().filter(|base| *base > 10) {
        disk.remove(&format!("t-0/{base:020}.log")).unwrap();
    }
    assert_eq!(reopen(&disk, unclean(0)).unwrap().log_end_offset(), Offset(10));
}

/// A batch that was never written, whatever stands behind it, above everything that was noted as durable: the log is cut there,
/// and the report says how many bytes, batches and offsets that were.
#[test]
fn a_hole_above_the_durable_end_is_cut_and_reported() {
    for (durable_end, lost) in [(0, 0), (0, 1), (3, 3), (3, 10), (RECORDS - 1, RECORDS - 1)] {
        let disk = written(false);
        let total: usize = logs(&disk).iter().map(|(_, content)| content.len()).sum();
        let (path, position) = place(&disk, lost);
        let bytes = batches_of(&disk, &path).last().unwrap().bytes().len();
        damage(&disk, &path, |content| content[position..position + bytes].fill(0));
        let context = format!("durable to {durable_end}, offset {lost}");
        let log = reopen(&disk, unclean(durable_end)).expect(&context);
        assert_eq!(log.log_end_offset(), Offset(lost), "{context}");
        let cut = log.recovery_report().cut.clone().expect(&context);
        assert_eq!((cut.path, cut.position), (path, position as u64), "{context}");
        assert_eq!(cut.bytes + log.size_bytes(), total as u64, "{context}");
        assert_eq!(cut.batches, (RECORDS - lost - 1) as u64, "{context}");
        let reached = if lost == RECORDS - 1 { lost } else { RECORDS };
        assert_eq!((cut.end_offset, cut.previous_end_offset), (Offset(lost), Offset(reached)), "{context}");
    }
}

/// One segment with batches of these sizes, killed.
fn written_with(values: &[usize]) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let large = LogConfig { segment_bytes: 1 << 20, ..config() };
    let mut log = Log::open(shared, partition("t-0"), ID, large, clean(), at(T)).unwrap();
    values.iter().for_each(|value_bytes| append_of(&mut log, *value_bytes));
    disk
}

/// A medium writes whole sectors, in any order: one that is zeros in the midst of a batch was not written, whether whole batches stand
/// behind it or not. One byte less, or the same somewhere else, is no such sector.
#[test]
fn a_sector_that_was_not_written_is_a_hole() {
    const SECTOR: usize = 512;
    for values in [&[60, 3_000, 60][..], &[60, 3_000]] {
        for (from, to, is_torn) in [
            (2 * SECTOR, 3 * SECTOR, true),
            (SECTOR, 4 * SECTOR, true),
            (2 * SECTOR + 1, 3 * SECTOR, false),
            (2 * SECTOR + 1, 3 * SECTOR + 1, false),
        ] {
            let disk = written_with(values);
            let (path, _) = place(&disk, 0);
            damage(&disk, &path, |content| content[from..to].fill(0));
            let context = format!("{values:?}, {from} to {to}");
            if is_torn {
                assert_eq!(
                    reopen(&disk, unclean(0)).expect(&context).log_end_offset(),
                    Offset(1),
                    "{context}"
                );
            } else {
                is_refused(&disk, unclean(0), &context);
            }
        }
    }
}

/// Offset, length and leader epoch lie before what the checksum covers. A batch that a crash has kept without them, since a sector ends
/// there, is no batch: it would end its transaction at an offset where no reader looks for it.
#[test]
fn a_batch_torn_before_its_checksum_is_cut() {
    for before in 8..=21 {
        for behind in [&[][..], &[60]] {
            let overhead = place(&written_with(&[300, 60]), 1).1 - 300;
            let disk = written_with(&[&[512 - before - overhead, 60], behind].concat());
            let (path, position) = place(&disk, 1);
            assert_eq!(position, 512 - before);
            damage(&disk, &path, |content| content[position..512].fill(0));
            let log = reopen(&disk, unclean(0)).unwrap();
            assert_eq!(log.log_end_offset(), Offset(1), "{before} bytes, {behind:?} behind");
        }
    }
}

/// In a compacted log offsets may be missing, and a base offset that a flipped bit has moved ahead may look like that. It is
/// never the reason to cut away what follows, nor the end of the log: not beyond the next segment, not across what was durable.
#[test]
fn a_leap_of_offsets_in_a_compacted_log_cuts_nothing() {
    let compacted = LogConfig { cleanup_policy: CleanupPolicy { delete: false, compact: true }, ..config() };
    for offset in 0..RECORDS {
        for (byte, bit) in [(2, 6), (4, 0), (4, 6), (6, 1), (7, 5), (7, 6)] {
            for is_clean in [true, false] {
                let disk = written(is_clean);
                flip_bit(&disk, offset, byte, bit);
                let before = logs(&disk);
                for recovery in [Recovery { clean: is_clean, ..closed() }, killed(RECORDS, RECORDS)] {
                    let opened = try_open(&disk, "t-0", &compacted, recovery, at(T));
                    let context = format!("offset {offset}, bit {bit} of byte {byte}: {opened:?}");
                    assert!(
                        opened.is_err() || opened.unwrap().log_end_offset() == Offset(RECORDS),
                        "{context}"
                    );
                    assert_eq!(logs(&disk), before, "{context}");
                }
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

/// The same further below, and after a clean stop: each segment goes on where the one before it ends.
#[test]
fn a_missing_segment_in_the_middle_is_damage() {
    for is_clean in [true, false] {
        let count = bases(&written(is_clean), "t-0").len();
        assert!(count > 3);
        for at in 1..count - 1 {
            let disk = written(is_clean);
            let base = bases(&disk, "t-0")[at];
            for name in
                names(&disk, "t-0").into_iter().filter(|name| name.starts_with(&format!("{base:020}")))
            {
                disk.remove(&format!("t-0/{name}")).unwrap();
            }
            let recovery = if is_clean { closed() } else { killed(RECORDS, RECORDS) };
            is_refused(&disk, recovery, &format!("segment {base}, clean: {is_clean}"));
            // Below the log start it is of no interest, and a cleaner may take what it likes.
            let next = Offset(bases(&disk, "t-0")[at]);
            for recovery in [
                Recovery { log_start_offset: next, ..recovery },
                Recovery { cleaner_checkpoint: Some(next), ..recovery },
            ] {
                assert_eq!(reopen(&disk, recovery).unwrap().log_end_offset(), Offset(RECORDS));
            }
        }
    }
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

/// Without the file of leader epochs they are read out of the batches, and what is wrong there is damage: an epoch that rises and falls,
/// an offset that does not follow. Neither stands below the checksum.
#[test]
fn epochs_are_not_made_anew_out_of_damaged_batches() {
    for (byte, bit) in [(15, 0), (12, 3), (7, 4), (3, 1)] {
        let disk = written(true);
        flip_bit(&disk, 2, byte, bit);
        disk.remove("t-0/leader-epoch-checkpoint").unwrap();
        is_refused(&disk, closed(), &format!("bit {bit} of byte {byte}"));
    }
}

/// A replacement that was interrupted says itself what it replaces, by where its batches end. One that is not whole replaces nothing:
/// no file goes.
#[test]
fn a_damaged_replacement_replaces_nothing() {
    for byte in [0, 3, 7, 9, 17, 57, 80] {
        let disk = written(true);
        let first = "t-0/00000000000000000000.log";
        write(&disk, &format!("{first}.swap"), &read(&disk, first).unwrap());
        let swap = reopen(&disk, closed()).map(|log| log.log_end_offset()).unwrap();
        assert_eq!(swap, Offset(RECORDS), "a whole one is taken over");
        write(&disk, &format!("{first}.swap"), &read(&disk, first).unwrap());
        damage(&disk, &format!("{first}.swap"), |content| content[byte] ^= 0x40);
        let before = names(&disk, "t-0");
        is_refused(&disk, closed(), &format!("byte {byte}"));
        assert_eq!(names(&disk, "t-0"), before, "byte {byte}");
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
