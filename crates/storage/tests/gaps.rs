//! Segments that are missing in the middle of a log that no cleaner has touched: what is known to have been acknowledged stays,
//! what a crash may have torn away takes what follows with it (L7).

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::*;
use fencepost_records::{AppendOrigin, AppendRules, BatchBuilder, validate};
use fencepost_storage::{
    Checkpoint, Disk, Log, LogConfig, LogDir, LogOffsets, MemoryDisk, MetaProperties, Recovery,
};
use fencepost_types::{BrokerId, LeaderEpoch, Millis, Offset, TopicPartition, Uuid};

const T: i64 = 1_700_000_000_000;
const ID: Uuid = Uuid::from_u128(77);
/// Records in the log, each in a batch of its own.
const RECORDS: i64 = 20;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 450, ..LogConfig::default() }
}

fn append(log: &mut Log) {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.append(Millis(T), None, Some(&[b'v'; 60]), &[]);
    let bytes = builder.build().unwrap().into_bytes();
    let origin = AppendOrigin::Client { produce_version: 12 };
    let batch = validate(Some(bytes), &AppendRules::default(), origin, Millis(T)).unwrap();
    log.append_as_leader(at(T), &batch, LeaderEpoch(0), None, true).unwrap();
}

fn filled(log: &mut Log) {
    for _ in 0..RECORDS {
        append(log);
    }
    log.update_high_watermark(Offset(RECORDS));
}

/// A killed log without its second segment: the disk, where the gap begins, and where it ends.
fn with_gap() -> (MemoryDisk, i64, i64) {
    let disk = MemoryDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut log = Log::open(shared, partition("t-0"), ID, config(), clean(), at(T)).unwrap();
    filled(&mut log);
    drop(log);
    let (begin, end) = take_second_segment(&disk);
    (disk, begin, end)
}

fn take_second_segment(disk: &MemoryDisk) -> (i64, i64) {
    let bases = bases(disk, "t-0");
    assert!(bases.len() > 3, "{bases:?}");
    let prefix = format!("{:020}", bases[1]);
    for name in names(disk, "t-0").into_iter().filter(|name| name.starts_with(&prefix)) {
        disk.remove(&format!("t-0/{name}")).unwrap();
    }
    (bases[1], bases[2])
}

fn offsets(log: &Log) -> BTreeSet<i64> {
    read_all(log).iter().map(|batch| batch.base_offset().0).collect()
}

/// What was noted as acknowledged is not cut away for a segment that somebody took before it: as with Kafka, readers go on behind
/// the gap, and offsets are not given out again. The same where the log starts behind the gap.
#[test]
fn what_was_acknowledged_stays_behind_a_gap() {
    let (disk, begin, end) = with_gap();
    let high_watermark = |offset: i64| Recovery { high_watermark: Offset(offset), ..unclean(0) };
    let log_start = Recovery { log_start_offset: Offset(end), ..unclean(0) };
    for recovery in [high_watermark(RECORDS), high_watermark(end), log_start] {
        for _ in 0..2 {
            let mut log = open(&disk, "t-0", &config(), recovery, at(T));
            assert_eq!(log.log_end_offset(), Offset(RECORDS), "{recovery:?}");
            let before_gap = if recovery.log_start_offset == Offset(0) { 0..begin } else { 0..0 };
            let expected: BTreeSet<i64> = before_gap.chain(end..RECORDS).collect();
            assert_eq!(offsets(&log), expected, "{recovery:?}");
            log.update_high_watermark(Offset(RECORDS));
            assert_eq!(log.high_watermark(), Offset(RECORDS));
        }
    }
}

/// A gap that a start has found and kept is no damage to later ones: the checkpoint of the cleaner says that it was seen.
#[test]
fn a_gap_that_was_kept_is_kept_after_a_clean_stop() {
    let (disk, begin, end) = with_gap();
    let recovery = Recovery { high_watermark: Offset(RECORDS), ..unclean(0) };
    let mut log = open(&disk, "t-0", &config(), recovery, at(T));
    assert_eq!(log.recovery_report().gaps, [(Offset(begin), Offset(end))]);
    assert_eq!(log.cleaner_checkpoint(), Some(Offset(end)));
    log.close().unwrap();
    let closed = Recovery { clean: true, recovery_point: Offset(RECORDS), ..recovery };
    let noted = Recovery { cleaner_checkpoint: Some(Offset(end)), ..closed };
    assert_eq!(open(&disk, "t-0", &config(), noted, at(T)).log_end_offset(), Offset(RECORDS));
    let forgotten = try_open(&disk, "t-0", &config(), closed, at(T));
    forgotten.map(|_| ()).expect_err("nothing says that it was seen");
}

/// What may never have been acknowledged goes: the end of a segment was lost with the power, and the beginning of the next one was
/// not. A producer sends the lost batch again, and that one must be the next.
#[test]
fn what_a_crash_may_have_torn_goes() {
    for noted in [0, 1] {
        let (disk, begin, end) = with_gap();
        let high_watermark = Offset(if noted == 0 { 0 } else { end - 1 });
        let recovery = Recovery { high_watermark, ..unclean(0) };
        let log = open(&disk, "t-0", &config(), recovery, at(T));
        assert_eq!(log.log_end_offset(), Offset(begin), "noted: {high_watermark}");
        assert_eq!(offsets(&log), (0..begin).collect());
    }
}

/// A log directory tells a log what was noted of it.
#[test]
fn a_log_directory_knows_what_was_acknowledged() {
    for noted in [false, true] {
        let disk = MemoryDisk::new();
        let name = TopicPartition::new("t", 0);
        let open = || {
            let meta = MetaProperties {
                cluster_id: "AAAAAAAAAAAAAAAAAAAAAQ".to_owned(),
                node_id: BrokerId(1),
                directory_id: Some(Uuid::from_u128(1)),
            };
            let log_dir = LogDir::open(Arc::new(disk.clone()), meta).unwrap();
            let log = log_dir.open_log(name.clone(), ID, config(), at(T)).unwrap();
            (log_dir, log)
        };
        let (log_dir, mut log) = open();
        filled(&mut log);
        if noted {
            let mut offsets = LogOffsets::default();
            offsets.add(&log);
            log_dir.write_checkpoints(&[Checkpoint::HighWatermark], || Ok(offsets)).unwrap();
        }
        drop((log_dir, log));
        let (begin, _) = take_second_segment(&disk);
        let (_log_dir, log) = open();
        assert_eq!(log.log_end_offset(), Offset(if noted { RECORDS } else { begin }));
    }
}
