//! What stands outside a batch's checksum (its base offset, its length, its leader epoch), and the entries of transaction
//! indexes: a flipped bit there is an error or is made good, and no reader gets other records than were written (issue 12, A3).

mod common;

use std::sync::Arc;

use common::crash_disk::Dice;
use common::*;
use fencepost_records::{AppendOrigin, AppendRules, Batch, BatchBuilder, Batches, validate};
use fencepost_storage::{
    CleanupPolicy, Disk, Log, LogConfig, MarkerAppend, MemoryDisk, ReadError, Recovery, StorageError,
};
use fencepost_types::{
    CoordinatorEpoch, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
    Uuid,
};

const T: i64 = 1_700_000_000_000;
const ID: Uuid = Uuid::from_u128(77);
const NAME: &str = "t-0";
/// Transactions in the log: three batches and a marker each, every third one aborted, two at a time.
const TRANSACTIONS: i64 = 16;
/// Seeded flips of each kind of file.
const FLIPS: u64 = 2_000;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 1_800, index_interval_bytes: 200, ..LogConfig::default() }
}

fn append(log: &mut Log, producer_id: i64, sequence: i32, records: usize, in_transaction: bool) {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE)
        .producer(ProducerId(producer_id), ProducerEpoch(0), Sequence(sequence))
        .transactional(in_transaction);
    (0..records).for_each(|_| builder.append(Millis(T), None, Some(&[b'v'; 40]), &[]));
    let bytes = builder.build().unwrap().into_bytes();
    let origin = AppendOrigin::Client { produce_version: 12 };
    let batch = validate(Some(bytes), &AppendRules::default(), origin, Millis(T)).unwrap();
    log.append_as_leader(at(T), &batch, LeaderEpoch(1), None, false).unwrap();
}

fn marker(log: &mut Log, producer_id: i64) {
    let result = if producer_id % 3 == 2 { TransactionResult::Abort } else { TransactionResult::Commit };
    let marker = MarkerAppend {
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(0),
        result,
        coordinator_epoch: CoordinatorEpoch(0),
        transaction_version: None,
    };
    log.append_marker(at(T), marker, LeaderEpoch(1)).unwrap();
}

/// A disk with a log that was stopped cleanly, and its batches. Where there are transactions a start reads more of it.
fn stopped(with_transactions: bool) -> (MemoryDisk, Vec<Batch>) {
    let disk = MemoryDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut log = Log::open(shared, partition(NAME), ID, config(), clean(), at(T)).unwrap();
    for pair in 0..TRANSACTIONS / 2 {
        let both = [2 * pair, 2 * pair + 1];
        for records in [1, 3, 2] {
            let sequence = [0, 0, 4, 1][records];
            both.iter()
                .for_each(|producer| append(&mut log, *producer, sequence, records, with_transactions));
        }
        if with_transactions {
            both.iter().for_each(|producer| marker(&mut log, *producer));
        }
    }
    log.update_high_watermark(log.log_end_offset());
    log.close().unwrap();
    let batches = all_batches(&disk, NAME);
    assert!(bases(&disk, NAME).len() > 3, "there are segments");
    (disk, batches)
}

/// The same files on a disk of their own.
fn copied(from: &MemoryDisk) -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_dir(NAME).unwrap();
    for name in names(from, NAME) {
        let path = format!("{NAME}/{name}");
        write(&disk, &path, &read(from, &path).unwrap());
    }
    disk
}

/// Flips one bit of one file whose name ends so; answers where.
fn flip(disk: &MemoryDisk, ending: &str, dice: &mut Dice) -> String {
    let paths = names(disk, NAME).into_iter().filter(|name| name.ends_with(ending));
    let paths: Vec<String> = paths.map(|name| format!("{NAME}/{name}")).collect();
    let full: Vec<&String> = paths.iter().filter(|path| !read(disk, path).unwrap().is_empty()).collect();
    let path = full[dice.below(full.len() as u64) as usize];
    let byte = dice.below(read(disk, path).unwrap().len() as u64) as usize;
    let bit = dice.below(8);
    damage(disk, path, |content| content[byte] ^= 1 << bit);
    format!("{path} byte {byte} bit {bit}")
}

fn reopen(disk: &MemoryDisk, end: Offset, config: &LogConfig) -> Result<Log, StorageError> {
    let recovery = Recovery { recovery_point: end, high_watermark: end, ..clean() };
    try_open(disk, NAME, config, recovery, at(T))
}

fn end_of(batches: &[Batch]) -> Offset {
    batches.last().unwrap().header().next_offset()
}

/// A read of `offset` gives the batches as they were written, from the one that holds it on, or an error. A client checks
/// checksums: a batch whose own is wrong is an error, too. Answers whether it was one.
fn read_is_right(log: &Log, offset: Offset, bytes_max: usize, batches: &[Batch], context: &str) -> bool {
    let slice = match read_both(log, offset, bytes_max, log.log_end_offset(), true) {
        Ok(slice) => slice,
        Err(ReadError::Storage(StorageError::Corrupt { .. })) => return false,
        Err(error) => panic!("{context}, read of {offset}: {error}"),
    };
    let from = batches.iter().position(|batch| batch.last_offset() >= offset).unwrap();
    let mut expected = batches[from..].iter();
    let mut count = 0;
    for batch in Batches::new(slice.records) {
        let Ok(batch) = batch else { return false };
        if batch.verify_crc().is_err() {
            return false;
        }
        let original = expected.next().unwrap();
        assert_eq!(batch.header().base_offset, original.header().base_offset, "{context}, read of {offset}");
        assert_eq!(batch.bytes()[21..], original.bytes()[21..], "{context}, read of {offset}");
        count += 1;
    }
    assert!(count > 0, "{context}, read of {offset}: nothing, and no error");
    true
}

/// A flipped bit in a `.log` after a clean stop: the log is as long as it was and every offset reads as it was written, or there
/// is an error; nothing is left out or given under other offsets.
#[test]
fn a_flipped_bit_in_a_log_is_an_error_or_harmless() {
    let (original, batches) = stopped(false);
    let end = end_of(&batches);
    let mut dice = Dice::new(12);
    let (mut refused, mut errors) = (0, 0);
    for round in 0..FLIPS {
        let disk = copied(&original);
        let place = flip(&disk, ".log", &mut dice);
        match reopen(&disk, end, &config()) {
            Err(StorageError::Corrupt { .. }) => refused += 1,
            Err(error) => panic!("{place}: {error}"),
            Ok(log) => {
                assert_eq!(log.log_end_offset(), end, "{place}");
                for offset in 0..end.0 {
                    let bytes_max = [1, 1_000][round as usize % 2];
                    let is_right = read_is_right(&log, Offset(offset), bytes_max, &batches, &place);
                    errors += usize::from(!is_right);
                }
            }
        }
    }
    assert!(refused > 100 && errors > 100, "{refused} refused, {errors} errors");
}

/// Each low bit and some high ones of every base offset: what is read has the offsets that it was written with, whichever batch it is.
#[test]
fn no_flipped_base_offset_is_believed() {
    let (original, batches) = stopped(false);
    let end = end_of(&batches);
    for base in bases(&original, NAME) {
        let path = format!("{NAME}/{base:020}.log");
        let mut position = 0;
        for batch in batches_of(&original, &path) {
            for bit in (0..8).chain([32, 63]) {
                let disk = copied(&original);
                damage(&disk, &path, |content| content[position + 7 - bit / 8] ^= 1 << (bit % 8));
                let place = format!("{path}, batch at {position}, bit {bit}");
                let Ok(log) = reopen(&disk, end, &config()) else { continue };
                assert_eq!(log.log_end_offset(), end, "{place}");
                let own = batch.header().base_offset;
                assert!(!read_is_right(&log, own, 1, &batches, &place), "{place}: there is an error");
                for offset in 0..end.0 {
                    read_is_right(&log, Offset(offset), 1_000, &batches, &place);
                }
            }
            position += batch.bytes().len();
        }
    }
}

/// A flipped bit in a `.txnindex` after a clean stop: readers hear of the same aborted transactions.
#[test]
fn a_flipped_bit_in_a_transaction_index_is_made_good() {
    let (original, batches) = stopped(true);
    let end = end_of(&batches);
    let (_, aborted) = fold(&batches);
    let mut dice = Dice::new(13);
    for _ in 0..FLIPS {
        let disk = copied(&original);
        let place = flip(&disk, ".txnindex", &mut dice);
        let log = reopen(&disk, end, &config()).expect(&place);
        assert_eq!(log.aborted_transactions_in(Offset(0), end), aborted, "{place}");
        assert!(!log.recovery_report().rebuilt.is_empty(), "{place}: it is said");
    }
}

/// A leader epoch that falls is damage where the end of a stopped log is read: from the last index entry on.
#[test]
fn a_leader_epoch_that_falls_is_damage() {
    let (original, batches) = stopped(true);
    let disk = copied(&original);
    let path = format!("{NAME}/{:020}.log", bases(&disk, NAME).last().unwrap());
    let last = batches.last().unwrap().bytes().len();
    damage(&disk, &path, |content| {
        let position = content.len() - last;
        content[position + 15] ^= 1;
    });
    let opened = reopen(&disk, end_of(&batches), &config());
    assert!(matches!(opened, Err(StorageError::Corrupt { .. })), "{opened:?}");
}

/// What Kafka's cleaner leaves, gaps where whole batches were, and a batch that stands there twice are no damage: each read
/// gives what is there from its offset on.
#[test]
fn gaps_and_repetitions_are_no_damage() {
    let (original, batches) = stopped(false);
    let end = end_of(&batches);
    let compacted = LogConfig { cleanup_policy: CleanupPolicy { compact: true, delete: false }, ..config() };
    let bases = bases(&original, NAME);
    for base in &bases[..bases.len() - 1] {
        let path = format!("{NAME}/{base:020}.log");
        let mut position = 0;
        for batch in batches_of(&original, &path) {
            let at_end = position + batch.bytes().len();
            let disk = copied(&original);
            damage(&disk, &path, |content| drop(content.drain(position..at_end)));
            let log = reopen(&disk, end, &compacted).unwrap();
            let rest: Vec<Batch> = batches.iter().filter(|other| **other != batch).cloned().collect();
            for offset in 0..end.0 {
                let context = format!("without {}", batch.header().base_offset);
                assert!(read_is_right(&log, Offset(offset), 1_000, &rest, &context), "{context}");
            }
            let disk = copied(&original);
            damage(&disk, &path, |content| {
                let again = content[position..at_end].to_vec();
                drop(content.splice(at_end..at_end, again));
            });
            let log = reopen(&disk, end, &config()).unwrap();
            for offset in 0..end.0 {
                log.read(Offset(offset), 1_000, end, true).unwrap();
            }
            position = at_end;
        }
    }
}
