//! Kafka's last pass over `transactions/compacted-0`: the files that it replaced are still there as `.deleted`.

use fencepost_storage::{CleanerConfig, CleanupPolicy, Disk, LogConfig, MemoryDisk};
use fencepost_types::Offset;

use crate::common::*;
use crate::views::newest_values;
use crate::writer::cleaner;

/// Kafka's `delete.retention.ms` there, and the time of its pass: it set horizons of 1795997922376.
const DELETE_RETENTION_MS: i64 = 3_600_000;
const PASS_AT_MS: i64 = 1_795_997_922_376 - DELETE_RETENTION_MS;
/// The pass before had come so far.
const FIRST_DIRTY: Offset = Offset(43);

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 700,
        index_interval_bytes: 200,
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        ..LogConfig::default()
    }
}

/// The directory as it was before the pass: `.deleted` files live again, and what they had become is gone.
fn before(disk: &MemoryDisk) {
    copy_in(disk, "transactions/compacted-0", "compacted-0");
    let all = names(disk, "compacted-0");
    let path = |name: &str| format!("compacted-0/{name}");
    for name in all.iter().filter(|name| name.ends_with(".deleted")) {
        disk.rename(&path(name), &path(name.strip_suffix(".deleted").unwrap())).unwrap();
    }
}

/// Our pass over the same segments, at the same time, writes what Kafka's wrote, byte for byte: logs, indexes, no
/// transaction index. But for C4: the last batch of a replacement stays, emptied.
#[test]
fn kafkas_pass_again() {
    let disk = MemoryDisk::new();
    before(&disk);
    let mut log = open(&disk, "compacted-0", &config(), clean(), at(PASS_AT_MS));
    log.update_high_watermark(log.log_end_offset());
    log.set_cleaner_checkpoint(Some(FIRST_DIRTY));
    let values = newest_values(&log, 1 << 20);
    let kafkas = MemoryDisk::new();
    copy_in(&kafkas, "transactions/compacted-0", "compacted-0");

    let cleaner = CleanerConfig { delete_retention_ms: DELETE_RETENTION_MS, ..cleaner() };
    let cleanable = log.cleanable(at(PASS_AT_MS), &cleaner).unwrap();
    assert_eq!((cleanable.first_dirty_offset, cleanable.end_offset), (FIRST_DIRTY, Offset(49)));
    let mut cleaning = log.start_cleaning(at(PASS_AT_MS), &cleaner).unwrap().unwrap();
    run_on(&mut cleaning, &mut log);
    let retired = cleaning.take_retired();
    assert_eq!(log.cleaner_checkpoint(), Some(Offset(49)));

    let live = |disk: &MemoryDisk| -> Vec<String> {
        names(disk, "compacted-0").into_iter().filter(|name| !name.ends_with(".deleted")).collect()
    };
    assert_eq!(live(&disk), live(&kafkas), "the same files stay, and none is left over");
    for name in live(&kafkas) {
        let path = format!("compacted-0/{name}");
        let (ours, wanted) = (read(&disk, &path).unwrap(), read(&kafkas, &path).unwrap());
        if name == "00000000000000000024.log" {
            assert_eq!(ours[..wanted.len()], wanted[..], "{name}");
            let last = batches_of(&disk, &path).pop().unwrap();
            assert_eq!((last.base_offset(), last.header().next_offset()), (Offset(42), Offset(43)));
            assert_eq!((last.header().record_count, ours.len() - wanted.len()), (0, 61));
        } else {
            assert_eq!(ours, wanted, "{name}");
        }
    }
    let kafka_retired = names(&kafkas, "compacted-0").into_iter().filter(|name| {
        // What an earlier pass of Kafka's had left is not of this one.
        name.ends_with(".deleted")
    });
    assert_eq!(retired.len(), kafka_retired.count());
    assert_eq!(newest_values(&log, 1 << 20), values);
}

fn run_on(cleaning: &mut fencepost_storage::Cleaning, log: &mut fencepost_storage::Log) {
    use fencepost_storage::{CleaningStep, CleaningTurn};
    loop {
        match cleaning.step(100).unwrap() {
            CleaningStep::More => {}
            CleaningStep::WantsLog => match cleaning.with_log(log).unwrap() {
                CleaningTurn::GoOn => {}
                CleaningTurn::Done => return,
                CleaningTurn::Stale => panic!("nothing else happens to the log"),
            },
        }
    }
}
