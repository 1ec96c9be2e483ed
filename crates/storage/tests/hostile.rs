//! No content of a file makes this crate panic (L6): Kafka's files with anything done to them, checksums put right again.

mod common;

use std::sync::Arc;

use common::crash_disk::Dice;
use common::*;
use fencepost_records::{BatchHeader, HEADER_BYTES};
use fencepost_storage::{Disk, Log, LogConfig, LogDir, MemoryDisk, MetaProperties, Recovery};
use fencepost_types::{BrokerId, Millis, Offset, Uuid};
use proptest::prelude::*;

const SOURCES: [&str; 5] = [
    "unclean/as-killed-0",
    "unclean/swap-0",
    "unclean/leftovers-0",
    "transactions/txns-0",
    "transactions/compacted-0",
];

/// Changes a few bytes, cuts, or lengthens.
fn spoil(content: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(6) {
        0 => content.truncate(dice.below(content.len() as u64 + 1) as usize),
        1 => content.extend((0..dice.below(100)).map(|_| dice.below(256) as u8)),
        2 => content.fill(dice.below(256) as u8),
        _ => {
            for _ in 0..=dice.below(8) {
                if !content.is_empty() {
                    let at = dice.below(content.len() as u64) as usize;
                    // Numbers are most wrong at their limits.
                    content[at] = [0, 0xff, 0x7f, 0x80, dice.below(256) as u8][dice.below(5) as usize];
                }
            }
        }
    }
}

/// Puts the checksums of the batches right, as far as they can be told apart.
fn mend_checksums(content: &mut [u8]) {
    let mut at = 0;
    while let Some(Ok(header)) = content.get(at..).map(BatchHeader::parse) {
        let end = at + header.total_bytes();
        let Some(payload) = content.get(at + HEADER_BYTES..end) else { break };
        let crc = header.compute_crc(payload);
        content[at + 17..at + 21].copy_from_slice(&crc.to_be_bytes());
        at = end;
    }
}

/// Asks a log everything.
fn use_up(log: &mut Log) {
    log.update_high_watermark(log.log_end_offset());
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    let mut at = start;
    for _ in 0..200 {
        let Ok(slice) = common::read_both(log, at, 500, end, true) else { break };
        let _ = log.aborted_transactions(at, &slice);
        assert!(slice.records.is_empty() || slice.next_offset > at || at >= end, "reading goes on");
        at = slice.next_offset;
        if slice.records.is_empty() {
            break;
        }
    }
    let _ = log.last_stable_offset();
    for timestamp in [0, 1_795_992_000_000, i64::MAX] {
        let _ = log.offset_for_timestamp(Millis(timestamp));
    }
    let _ = log.max_timestamp();
    let _ = log.producer_states().describe_producers().count();
    let _ = log.apply_retention(at_end());
    let _ = log.truncate_to(Offset(start.0.saturating_add(3)), at_end());
    let _ = log.close();
}

fn at_end() -> fencepost_types::Now {
    common::at(1_795_995_000_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the files of a partition hold, opening it, and using what opened, ends.
    #[test]
    fn partition_directories(seed: u64, mend: bool, clean: bool, recovery_point in 0i64..60) {
        let mut dice = Dice::new(seed);
        let disk = MemoryDisk::new();
        copy_in(&disk, SOURCES[dice.below(SOURCES.len() as u64) as usize], "t-0");
        let id = topic_id(&disk, "t-0");
        for name in names(&disk, "t-0") {
            if dice.one_in(4) {
                let path = format!("t-0/{name}");
                damage(&disk, &path, |content| spoil(content, &mut dice));
                if mend && name.ends_with(".log") {
                    damage(&disk, &path, |content| mend_checksums(content));
                }
            }
        }
        let config = LogConfig { segment_bytes: 1_500, index_interval_bytes: 200, ..LogConfig::default() };
        let log_start_offset = Offset(dice.below(3) as i64 * 20);
        let recovery =
            Recovery { clean, recovery_point: Offset(recovery_point), log_start_offset, ..Recovery::default() };
        for recovery in [recovery, unclean(0)] {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            if let Ok(mut log) = Log::open(shared, partition("t-0"), id, config.clone(), recovery, at_end()) {
                use_up(&mut log);
            }
        }
    }

    /// Whatever the files of a log directory hold, opening it ends.
    #[test]
    fn log_directories(seed: u64) {
        let mut dice = Dice::new(seed);
        let disk = MemoryDisk::new();
        copy_in(&disk, "data-dir", "");
        for entry in disk.list("").unwrap().into_iter().filter(|entry| !entry.is_dir) {
            if dice.one_in(3) {
                damage(&disk, &entry.name, |content| spoil(content, &mut dice));
            }
        }
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let meta = MetaProperties::new("c", BrokerId(1), Uuid::from_u128(7));
        if let Ok(log_dir) = LogDir::open(shared, meta) {
            for found in log_dir.partitions().unwrap() {
                let id = found.topic_id.unwrap_or(Uuid::from_u128(5));
                if let Ok(mut log) = log_dir.open_log(found.partition, id, LogConfig::default(), at_end()) {
                    use_up(&mut log);
                }
            }
        }
    }
}
