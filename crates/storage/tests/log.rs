//! The rules of a log, one by one.

mod common;

use std::sync::Arc;

use common::crash_disk::CrashDisk;
use common::*;
use fencepost_partition::MarkerRefusal;
use fencepost_records::{
    AppendOrigin, AppendRules, Batch, BatchBuilder, Batches, TimestampType, ValidatedBatch, validate,
};
use fencepost_storage::{
    AppendError, AppendOutcome, CleanupPolicy, Disk, FlushScope, Log, LogConfig, MarkerAppend, MemoryDisk,
    ReadError, Recovery, RetentionReason, StorageError,
};
use fencepost_types::{
    CoordinatorEpoch, ErrorCode, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence,
    TransactionResult, Uuid,
};

const T: i64 = 1_700_000_000_000;
const EPOCH: LeaderEpoch = LeaderEpoch(3);
const ID: Uuid = Uuid::from_u128(77);

/// A log on a disk of its own.
struct Kept {
    disk: MemoryDisk,
    log: Log,
}

impl Kept {
    fn new(config: LogConfig) -> Self {
        let disk = MemoryDisk::new();
        let log = open_at(&disk, &config, clean());
        Self { disk, log }
    }

    fn reopen(&mut self, recovery: Recovery) {
        self.log = open_at(&self.disk, &self.log.config().clone(), recovery);
    }

    /// Appends `count` records at `timestamp`, each of about 100 bytes; answers the base offset.
    fn append(&mut self, count: i32, timestamp: i64) -> Offset {
        let batch = plain(count, timestamp, 30);
        let outcome = self.log.append_as_leader(at(timestamp), &batch, EPOCH, None, false).unwrap();
        let AppendOutcome::Appended(appended) = outcome else { panic!("{outcome:?}") };
        self.log.update_high_watermark(self.log.log_end_offset());
        appended.base_offset
    }

    fn data(&mut self, producer: i64, epoch: i16, sequence: i32) -> Result<AppendOutcome, AppendError> {
        let batch = produced(producer, epoch, sequence, true);
        self.log.append_as_leader(at(T), &batch, EPOCH, None, false)
    }

    fn marker(&mut self, producer: i64, epoch: i16, version: i8) -> Result<Offset, AppendError> {
        let marker = MarkerAppend {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(epoch),
            result: TransactionResult::Abort,
            coordinator_epoch: CoordinatorEpoch(0),
            transaction_version: Some(version),
        };
        self.log.append_marker(at(T), marker, EPOCH).map(|appended| appended.base_offset)
    }

    fn bases(&self) -> Vec<i64> {
        bases(&self.disk, "t-0")
    }
}

fn open_at(disk: &MemoryDisk, config: &LogConfig, recovery: Recovery) -> Log {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(shared, partition("t-0"), ID, config.clone(), recovery, at(T)).unwrap()
}

fn validated(builder: BatchBuilder) -> ValidatedBatch {
    let rules = AppendRules { timestamp_after_max_ms: i64::MAX, ..AppendRules::default() };
    let bytes = builder.build().unwrap().into_bytes();
    validate(Some(bytes), &rules, AppendOrigin::Client { produce_version: 12 }, Millis(T)).unwrap()
}

fn plain(count: i32, timestamp: i64, value_bytes: usize) -> ValidatedBatch {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    for _ in 0..count {
        builder.append(Millis(timestamp), None, Some(&vec![b'v'; value_bytes]), &[]);
    }
    validated(builder)
}

fn produced(producer: i64, epoch: i16, sequence: i32, transactional: bool) -> ValidatedBatch {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE)
        .producer(ProducerId(producer), ProducerEpoch(epoch), Sequence(sequence))
        .transactional(transactional);
    builder.append(Millis(T), None, Some(b"v"), &[]);
    validated(builder)
}

fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 300, ..LogConfig::default() }
}

/// L4: nothing is on the disk before the first batch, and then `partition.metadata` comes first (storage-formats trap 20).
#[test]
fn a_directory_comes_with_the_first_batch() {
    let mut kept = Kept::new(LogConfig::default());
    assert!(names(&kept.disk, "").is_empty());
    assert!(kept.log.dirty(FlushScope::All).is_none());
    assert_eq!(kept.log.close().unwrap(), Offset(0));
    assert!(names(&kept.disk, "").is_empty(), "an empty log is closed without a trace");
    assert_eq!(kept.append(1, T), Offset(0));
    let metadata = read(&kept.disk, "t-0/partition.metadata").unwrap();
    assert_eq!(metadata, format!("version: 0\ntopic_id: {ID}"));
    assert_eq!(read(&kept.disk, "t-0/leader-epoch-checkpoint").unwrap(), "0\n1\n3 0\n");

    for calls in 0..12 {
        let disk = CrashDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut log = Log::open(shared, partition("t-0"), ID, LogConfig::default(), clean(), at(T)).unwrap();
        disk.fail_after(Some(calls));
        let failed = log.append_as_leader(at(T), &plain(1, T, 1), EPOCH, None, false).is_err();
        let there = if names(&disk, "").is_empty() { Vec::new() } else { names(&disk, "t-0") };
        let has = |name: &str| there.iter().any(|there| there == name);
        assert!(
            !has("00000000000000000000.log") || has("partition.metadata"),
            "after {calls} calls: {there:?}"
        );
        // It goes on once the disk does, or after a restart where it could not clean up.
        disk.fail_after(None);
        if failed && log.append_as_leader(at(T), &plain(1, T, 1), EPOCH, None, false).is_err() {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            log = Log::open(shared, partition("t-0"), ID, LogConfig::default(), unclean(0), at(T)).unwrap();
            log.append_as_leader(at(T), &plain(1, T, 1), EPOCH, None, false).unwrap();
        }
        assert_eq!(log.log_end_offset(), Offset(1));
    }
}

/// A directory of another topic of the same name is not touched (storage-formats §7.7).
#[test]
fn another_topics_directory_is_refused() {
    let mut kept = Kept::new(LogConfig::default());
    kept.append(1, T);
    let shared: Arc<dyn Disk> = Arc::new(kept.disk.clone());
    let other = Uuid::from_u128(78);
    let opened = Log::open(shared, partition("t-0"), other, LogConfig::default(), clean(), at(T));
    let wanted = StorageError::TopicId { directory: "t-0".into(), expected: other, found: ID };
    assert_eq!(opened.unwrap_err(), wanted);
}

/// A segment is rolled before the batch that would make it too large, and a snapshot of that offset stands beside the new
/// one (storage-formats §9, §7.5).
#[test]
fn segments_roll_by_size() {
    let mut kept = Kept::new(small_segments());
    let bytes = plain(1, T, 30).total_bytes() as u64;
    for _ in 0..7 {
        kept.append(1, T);
    }
    let in_one = (300 / bytes) as i64;
    assert_eq!(kept.bases(), [0, in_one, 2 * in_one]);
    let snapshot = format!("t-0/{in_one:020}.snapshot");
    assert_eq!(read(&kept.disk, &snapshot).unwrap().len(), 10, "no producers");
    assert_eq!(kept.log.size_bytes(), 7 * bytes);
    assert_eq!(kept.log.active_segment_base(), Offset(2 * in_one));
}

/// By time: the batch's largest timestamp against the first batch's; without timestamps, the clock against the creation
/// (storage-formats §9).
#[test]
fn segments_roll_by_time() {
    let config = LogConfig { segment_ms: 1_000, ..LogConfig::default() };
    let mut kept = Kept::new(config.clone());
    kept.append(1, T);
    kept.append(1, T + 1_000);
    assert_eq!(kept.bases(), [0]);
    kept.append(1, T + 1_001);
    assert_eq!(kept.bases(), [0, 2]);
    kept.append(1, T - 10_000);
    assert_eq!(kept.bases(), [0, 2], "an old batch waits for nothing");

    let mut kept = Kept::new(config.clone());
    let untimed = plain(1, -1, 1);
    for (now, bases) in [(T, vec![0]), (T + 1_000, vec![0]), (T + 1_001, vec![0, 2])] {
        kept.log.append_as_leader(at(now), &untimed, EPOCH, None, false).unwrap();
        assert_eq!(kept.bases(), bases, "at {now}");
    }

    let compacted = LogConfig {
        max_compaction_lag_ms: 100,
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        ..config.clone()
    };
    let mut kept = Kept::new(compacted);
    kept.append(1, T);
    kept.append(1, T + 101);
    assert_eq!(kept.bases(), [0, 1], "a compacted log is rolled by max.compaction.lag.ms");

    let jittered = LogConfig { segment_jitter_ms: 1_000, ..config };
    let mut kept = Kept::new(jittered);
    kept.append(1, T);
    kept.append(1, T + 1_000);
    assert_eq!(kept.bases(), [0, 1], "jitter takes something off");
}

/// A full index ends a segment: `.index` at its size, `.timeindex` one entry before (storage-formats §7.3, §9).
#[test]
fn segments_roll_by_full_indexes() {
    let config = LogConfig { index_interval_bytes: 0, segment_index_bytes: 24, ..LogConfig::default() };
    let mut kept = Kept::new(config.clone());
    for _ in 0..5 {
        kept.append(1, -1);
    }
    assert_eq!(kept.bases(), [0, 4], "three entries of .index, the first batch having none");
    let mut kept = Kept::new(config);
    for at in 0..3 {
        kept.append(1, T + at);
    }
    assert_eq!(kept.bases(), [0, 2], "two entries fill a .timeindex of two, one slot being reserved");
}

/// A segment never spans more offsets than an i32 counts (storage-formats trap 13).
#[test]
fn segments_roll_before_offsets_overflow() {
    let mut kept = Kept::new(LogConfig::default());
    kept.append(1, T);
    // A batch that claims many offsets, as compaction leaves them.
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.append_at(i32::MAX - 1, Millis(T), None, None, &[]);
    let batch = builder.build().unwrap();
    kept.log.append_as_coordinator(at(T), &batch, EPOCH, None, false).unwrap();
    assert_eq!(kept.bases(), [0], "the last offset is i32::MAX above the base");
    kept.log.append_as_coordinator(at(T), &plain(1, T, 1).to_batch(), EPOCH, None, false).unwrap();
    assert_eq!(kept.bases(), [0, i64::from(i32::MAX) + 1]);
}

/// A batch that is larger than a segment is refused, with the code that Kafka has for it.
#[test]
fn a_batch_larger_than_a_segment_is_refused() {
    let mut kept = Kept::new(small_segments());
    let refused = kept.log.append_as_leader(at(T), &plain(1, T, 300), EPOCH, None, false).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::RecordListTooLarge);
    assert!(!kept.log.has_directory());
}

/// A retry is answered with the original and writes nothing; the append time is −1 in a CreateTime topic
/// (producer-state trap 14, §2).
#[test]
fn a_duplicate_is_not_written() {
    let mut kept = Kept::new(LogConfig::default());
    let batch = produced(7, 0, 0, false);
    kept.log.append_as_leader(at(T), &batch, EPOCH, None, false).unwrap();
    let again = kept.log.append_as_leader(at(T + 5), &batch, EPOCH, None, false).unwrap();
    let wanted = AppendOutcome::Duplicate {
        base_offset: Offset(0),
        last_offset: Offset(0),
        log_append_time: Millis::NONE,
    };
    assert_eq!(again, wanted);
    assert_eq!(kept.log.log_end_offset(), Offset(1));
}

/// A refused batch may have rolled nothing and changed nothing; one that was accepted after it goes on as if it had not been
/// (producer-state trap 34).
#[test]
fn a_refused_batch_changes_nothing() {
    let mut kept = Kept::new(small_segments());
    kept.data(7, 0, 0).unwrap();
    let refused = kept.data(7, 0, 5).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::OutOfOrderSequenceNumber);
    let before = read(&kept.disk, "t-0/00000000000000000000.log");
    assert_eq!(kept.log.log_end_offset(), Offset(1));
    kept.data(7, 0, 1).unwrap();
    assert_ne!(read(&kept.disk, "t-0/00000000000000000000.log"), before);
}

/// A marker sent again is written again; a late one of version 2 is not (storage-formats trap 29; producer-state traps 4, 6).
#[test]
fn a_marker_is_written_again() {
    let mut kept = Kept::new(LogConfig::default());
    kept.data(7, 0, 0).unwrap();
    assert_eq!(kept.marker(7, 1, 2), Ok(Offset(1)));
    assert_eq!(kept.marker(7, 1, 2), Ok(Offset(2)));
    let (current, found) = (ProducerEpoch(1), ProducerEpoch(0));
    let late = AppendError::Marker(MarkerRefusal::InvalidProducerEpoch { current, found });
    assert_eq!(kept.marker(7, 0, 2), Err(late));
    let all = kept.log.aborted_transactions_in(Offset(0), Offset(9));
    assert_eq!(all.len(), 1, "the second one ended nothing");
}

/// In a topic with LogAppendTime markers say so: attributes 0x38 and a checksum that fits (storage-formats §3).
#[test]
fn markers_carry_the_topics_timestamp_type() {
    let config = LogConfig { timestamp_type: TimestampType::LogAppendTime, ..LogConfig::default() };
    let mut kept = Kept::new(config);
    kept.marker(7, 0, 0).unwrap();
    let batch = &batches_of(&kept.disk, "t-0/00000000000000000000.log")[0];
    assert_eq!(batch.header().attributes.0, 0x38);
    assert_eq!(batch.bytes().len(), 78);
    batch.verify_crc().unwrap();
}

/// The last stable offset waits for the marker to be acknowledged, and is exclusive (storage-formats trap 11; producer-state
/// trap 1).
#[test]
fn the_last_stable_offset_waits_for_the_marker() {
    let mut kept = Kept::new(LogConfig::default());
    kept.data(7, 0, 0).unwrap();
    kept.log.update_high_watermark(Offset(1));
    assert_eq!(kept.log.last_stable_offset(), Offset(0));
    kept.marker(7, 0, 0).unwrap();
    assert_eq!(kept.log.last_stable_offset(), Offset(0), "written, not acknowledged");
    kept.log.update_high_watermark(Offset(2));
    assert_eq!(kept.log.last_stable_offset(), Offset(2));
}

/// Retention by time and by size: oldest first, stops at the first that stays, never above the high watermark
/// (storage-formats §11).
#[test]
fn retention_by_time_and_size() {
    let config = LogConfig { retention_ms: 1_000, ..small_segments() };
    let mut kept = Kept::new(config.clone());
    for n in 0..9 {
        kept.append(1, T + n * 100);
    }
    assert_eq!(kept.bases(), [0, 3, 6]);
    assert!(kept.log.apply_retention(at(T + 1_200)).unwrap().files.is_empty(), "not older than the limit");
    let retired = kept.log.apply_retention(at(T + 1_201)).unwrap();
    assert_eq!(retired.segments, [(Offset(0), RetentionReason::Time)]);
    assert_eq!(kept.log.log_start_offset(), Offset(3));
    assert!(retired.files.iter().all(|file| file.ends_with(".deleted")));
    assert_eq!(kept.bases(), [3, 6]);
    assert_eq!(kept.log.leader_epochs(), [(EPOCH, Offset(3))]);
    let below = kept.log.read(Offset(2), 1, Offset(9), true).unwrap_err();
    assert_eq!(below.code(), ErrorCode::OffsetOutOfRange);

    kept.log.update_config(LogConfig { retention_ms: -1, retention_bytes: 200, ..config.clone() });
    let retired = kept.log.apply_retention(at(T)).unwrap();
    assert_eq!(retired.segments, [(Offset(3), RetentionReason::Size)]);

    // A record stamped in the future keeps its segment and all later ones.
    let mut kept = Kept::new(config);
    kept.append(1, T + 1_000_000);
    for _ in 0..5 {
        kept.append(1, T);
    }
    assert!(kept.log.apply_retention(at(T + 500_000)).unwrap().segments.is_empty());
}

/// The active segment goes too, once it is rolled; producers and open transactions stay (storage-formats trap 21;
/// producer-state trap 32, §12), also over a clean restart of the empty log.
#[test]
fn retention_of_everything_keeps_producers() {
    let mut kept = Kept::new(LogConfig { retention_ms: 1_000, ..LogConfig::default() });
    kept.data(7, 2, 0).unwrap();
    assert!(kept.log.apply_retention(at(T + 5_000)).unwrap().segments.is_empty(), "not acknowledged");
    kept.log.update_high_watermark(Offset(1));
    let retired = kept.log.apply_retention(at(T + 5_000)).unwrap();
    assert_eq!(retired.segments, [(Offset(0), RetentionReason::Time)]);
    assert_eq!((kept.log.log_start_offset(), kept.log.log_end_offset()), (Offset(1), Offset(1)));
    assert_eq!(kept.bases(), [1]);
    assert!(kept.log.apply_retention(at(T + 5_000)).unwrap().segments.is_empty(), "an empty segment stays");
    for recovery in [clean(), unclean(1)] {
        assert_eq!(kept.log.producer_states().open_transaction_count(), 1);
        assert_eq!(kept.log.last_stable_offset(), Offset(1), "clamped to the log start");
        let fenced = kept.data(7, 1, 0).unwrap_err();
        assert_eq!(fenced.code(), ErrorCode::InvalidProducerEpoch);
        kept.log.close().unwrap();
        kept.reopen(recovery);
    }
}

/// `compact` alone deletes only what lies below the log start (storage-formats §11).
#[test]
fn a_compacted_log_is_not_aged() {
    let config = LogConfig {
        retention_ms: 1,
        retention_bytes: 1,
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        ..small_segments()
    };
    let mut kept = Kept::new(config);
    for _ in 0..9 {
        kept.append(1, T);
    }
    assert!(kept.log.apply_retention(at(T + 5_000)).unwrap().segments.is_empty());
    kept.log.delete_records(Offset(7)).unwrap();
    let retired = kept.log.apply_retention(at(T + 5_000)).unwrap();
    let wanted = [(Offset(0), RetentionReason::LogStart), (Offset(3), RetentionReason::LogStart)];
    assert_eq!(retired.segments, wanted);
    assert_eq!(kept.log.log_start_offset(), Offset(7));
    assert_eq!(kept.bases(), [6]);
}

/// DeleteRecords: not above the high watermark, never back; inside a batch the whole batch is still served.
#[test]
fn delete_records() {
    let mut kept = Kept::new(LogConfig::default());
    kept.append(4, T);
    kept.append(4, T + 1);
    let above = kept.log.delete_records(Offset(9)).unwrap_err();
    assert!(matches!(above, ReadError::OffsetOutOfRange { .. }));
    assert_eq!(kept.log.delete_records(Offset(2)).unwrap(), Offset(2));
    assert_eq!(kept.log.delete_records(Offset(1)).unwrap(), Offset(2));
    let slice = kept.log.read(Offset(2), 1, Offset(8), true).unwrap();
    assert_eq!((slice.base_offset, slice.next_offset), (Some(Offset(0)), Offset(4)));
    let found = kept.log.offset_for_timestamp(Millis(T)).unwrap().unwrap();
    assert_eq!((found.offset, found.leader_epoch), (Offset(2), EPOCH));
    kept.log.delete_records(Offset(6)).unwrap();
    assert_eq!(kept.log.max_timestamp().unwrap().unwrap().offset, Offset(6));
    kept.log.delete_records(Offset(8)).unwrap();
    assert_eq!(kept.log.max_timestamp().unwrap(), None, "no record can be read");
    assert_eq!(kept.log.offset_for_timestamp(Millis(0)).unwrap(), None);
}

/// Cutting into a batch removes all of it, and the log still ends where it was cut to (storage-formats trap 23); state
/// is that of what is left, and an aborted transaction whose marker went is open again (producer-state §12).
#[test]
fn truncation_inside_a_batch() {
    let mut kept = Kept::new(small_segments());
    kept.data(7, 0, 0).unwrap();
    kept.append(2, T);
    kept.marker(7, 0, 0).unwrap();
    kept.append(1, T);
    kept.log.update_high_watermark(Offset(0));
    assert_eq!(kept.log.aborted_transactions_in(Offset(0), Offset(9)).len(), 1);
    let retired = kept.log.truncate_to(Offset(2), at(T)).unwrap();
    assert_eq!(kept.log.log_end_offset(), Offset(2));
    assert!(kept.log.aborted_transactions_in(Offset(0), Offset(9)).is_empty());
    assert_eq!(kept.log.producer_states().open_transaction_count(), 1);
    assert_eq!(kept.log.producer_states().map_end_offset(), Offset(2));
    assert_eq!(read_all(&kept.log).len(), 1);
    assert!(!retired.files.is_empty(), "the segments above");
    assert_eq!(kept.append(1, T), Offset(2));
    assert_eq!(
        kept.log.truncate_to(Offset(3), at(T)).unwrap().files,
        [""; 0],
        "nothing beyond the end to cut"
    );
}

/// Starting anew leaves nothing: no producers, no epochs, no snapshots (storage-formats §11).
#[test]
fn truncation_of_everything() {
    let mut kept = Kept::new(small_segments());
    for n in 0..5 {
        kept.data(7, 0, n).unwrap();
    }
    kept.log.truncate_fully_and_start_at(Offset(100), at(T)).unwrap();
    assert_eq!((kept.log.log_start_offset(), kept.log.log_end_offset()), (Offset(100), Offset(100)));
    assert!(kept.log.producer_states().is_empty());
    assert!(kept.log.leader_epochs().is_empty());
    assert_eq!(kept.append(1, T), Offset(100));
    kept.log.close().unwrap();
    kept.reopen(clean());
    assert_eq!(kept.log.log_start_offset(), Offset(100));
    assert_eq!(kept.log.log_end_offset(), Offset(101));
}

/// A leader's epoch is noted with or without data, and answers OffsetForLeaderEpoch (storage-formats §7.6).
#[test]
fn leader_epochs_answer_where_they_end() {
    let mut kept = Kept::new(LogConfig::default());
    kept.append(2, T);
    kept.log.assign_leader_epoch(LeaderEpoch(5));
    kept.log.assign_leader_epoch(LeaderEpoch(7));
    kept.log.append_as_leader(at(T), &plain(1, T, 1), LeaderEpoch(7), None, false).unwrap();
    let end = |epoch| kept.log.end_offset_for_epoch(LeaderEpoch(epoch)).map(|(epoch, end)| (epoch.0, end.0));
    assert_eq!((end(3), end(5), end(7), end(8)), (Some((3, 2)), Some((3, 2)), Some((7, 3)), None));
    assert_eq!(kept.log.leader_epoch_for(Offset(1)), Some(EPOCH));
    kept.log.close().unwrap();
    assert_eq!(read(&kept.disk, "t-0/leader-epoch-checkpoint").unwrap(), "0\n2\n3 0\n7 2\n");
}

/// A read is whole batches below its bound; the first comes whatever its size only if that is asked for.
#[test]
fn reads_are_bounded() {
    let mut kept = Kept::new(LogConfig::default());
    for _ in 0..4 {
        kept.append(2, T);
    }
    let bytes = plain(2, T, 30).total_bytes();
    let read = |offset, bytes_max, bound, one| {
        let slice = kept.log.read(Offset(offset), bytes_max, Offset(bound), one).unwrap();
        Batches::new(slice.records).map(|batch| batch.unwrap().base_offset().0).collect::<Vec<_>>()
    };
    assert_eq!(read(0, 1 << 20, 8, true), [0, 2, 4, 6]);
    assert_eq!(read(3, 2 * bytes + 1, 8, true), [2, 4]);
    assert_eq!(read(3, 1, 8, true), [2]);
    assert_eq!(read(3, 1, 8, false), [0i64; 0]);
    assert_eq!(read(0, 1 << 20, 4, true), [0, 2]);
    assert_eq!(read(0, 1 << 20, 5, true), [0, 2], "a batch that reaches over the bound stays out");
    assert_eq!(read(8, 1 << 20, 8, true), [0i64; 0]);
    assert_eq!(read(4, 1 << 20, 2, true), [0i64; 0]);
    let beyond = kept.log.read(Offset(9), 1, Offset(9), true).unwrap_err();
    let wanted = ReadError::OffsetOutOfRange {
        offset: Offset(9),
        log_start_offset: Offset(0),
        log_end_offset: Offset(8),
    };
    assert_eq!(beyond, wanted);
}

/// A ticket taken before a roll and one taken after it: each says no more than it synced, in whatever order they are
/// handed back (L3).
#[test]
fn tickets_say_what_they_synced() {
    let mut kept = Kept::new(small_segments());
    for _ in 0..2 {
        kept.append(1, T);
    }
    let early = kept.log.dirty(FlushScope::All).unwrap();
    for _ in 0..2 {
        kept.append(1, T);
    }
    assert_eq!(kept.bases(), [0, 3]);
    let rolled = kept.log.dirty(FlushScope::RolledSegments).unwrap();
    assert_eq!((early.end_offset(), rolled.end_offset()), (Offset(2), Offset(3)));
    rolled.run().unwrap();
    assert_eq!(kept.log.mark_synced(&rolled), Offset(3));
    early.run().unwrap();
    assert_eq!(kept.log.mark_synced(&early), Offset(3), "an older ticket takes nothing back");
    assert_eq!(kept.log.recovery_point(), Offset(3));
    assert!(kept.log.dirty(FlushScope::RolledSegments).is_none());
    let rest = kept.log.dirty(FlushScope::All).unwrap();
    kept.log.truncate_to(Offset(3), at(T)).unwrap();
    kept.append(1, T);
    rest.run().unwrap();
    assert_eq!(kept.log.mark_synced(&rest), Offset(3), "what was cut says nothing of what came after");
}

/// In between two syncs the recovery point does not reach over a segment whose indexes are not durable, and never stands
/// at the end of the active one (L3).
#[test]
fn the_recovery_point_waits_for_indexes() {
    let mut kept = Kept::new(small_segments());
    for _ in 0..3 {
        kept.append(1, T);
    }
    let ticket = kept.log.dirty(FlushScope::All).unwrap();
    ticket.run().unwrap();
    assert_eq!(kept.log.mark_synced(&ticket), Offset(3));
    assert_eq!(kept.log.recovery_point(), Offset(2));
    kept.append(1, T);
    assert_eq!(kept.bases(), [0, 3]);
    assert_eq!(kept.log.recovery_point(), Offset(0), "the segment that was rolled is not settled");
    kept.log.close().unwrap();
    assert_eq!(kept.log.recovery_point(), Offset(4));
}

/// A deleted partition's directory gets another name at once; whoever syncs it is not in the way, and nobody can append.
#[test]
fn deletion() {
    let mut kept = Kept::new(LogConfig::default());
    kept.append(1, T);
    let ticket = kept.log.dirty(FlushScope::All).unwrap();
    let name = kept.log.delete(5).unwrap().unwrap();
    assert_eq!(name, "t-0.00000000000000000000000000000005-delete");
    assert_eq!(names(&kept.disk, ""), [name]);
    ticket.run().unwrap();
    let refused = kept.log.append_as_leader(at(T), &plain(1, T, 1), EPOCH, None, false).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::KafkaStorageError);
    assert_eq!(Kept::new(LogConfig::default()).log.delete(5).unwrap(), None, "there was no directory");
}

/// A segment that begins with a whole message of an old format is not cut as if it were torn.
#[test]
fn old_formats_are_not_destroyed() {
    let disk = MemoryDisk::new();
    disk.create_dir("t-0").unwrap();
    write(&disk, "t-0/partition.metadata", format!("version: 0\ntopic_id: {ID}").as_bytes());
    // Magic 1, no key, the value "v": offset, length, checksum, magic, attributes, timestamp, key length, value.
    let mut message = vec![1, 0];
    message.extend(T.to_be_bytes());
    message.extend((-1i32).to_be_bytes());
    message.extend(1i32.to_be_bytes());
    message.push(b'v');
    let mut log = vec![0; 8];
    log.extend((message.len() as u32 + 4).to_be_bytes());
    log.extend(0xd6ed_9c22u32.to_be_bytes());
    log.extend(&message);
    let crc = ieee(&message).to_be_bytes();
    log[12..16].copy_from_slice(&crc);
    write(&disk, "t-0/00000000000000000000.log", &log);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let opened = Log::open(shared, partition("t-0"), ID, LogConfig::default(), unclean(0), at(T));
    assert!(matches!(opened, Err(StorageError::Corrupt { .. })), "{opened:?}");
    assert_eq!(read(&disk, "t-0/00000000000000000000.log").unwrap(), log);
}

/// The checksum of the old formats.
fn ieee(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Index entries name the batch's last offset and its start, and the time index the last offset of the batch that holds the
/// maximum (storage-formats traps 1, 2).
#[test]
fn index_entries_name_the_last_offset() {
    let mut kept = Kept::new(LogConfig { index_interval_bytes: 0, ..LogConfig::default() });
    kept.append(3, T + 5);
    kept.append(3, T);
    kept.log.close().unwrap();
    let bytes = plain(3, T, 30).total_bytes() as u32;
    let index = [5u32.to_be_bytes(), bytes.to_be_bytes()].concat();
    assert_eq!(read(&kept.disk, "t-0/00000000000000000000.index").unwrap(), index);
    let time = [&(T + 5).to_be_bytes()[..], &2u32.to_be_bytes()].concat();
    assert_eq!(read(&kept.disk, "t-0/00000000000000000000.timeindex").unwrap(), time);
}

/// Coordinator batches have base sequence 0 without a producer, and −1 or 0 with one: neither is checked (storage-formats
/// trap 17; producer-state trap 26).
#[test]
fn coordinator_batches_have_no_sequences() {
    let mut kept = Kept::new(LogConfig::default());
    for sequence in [0, 0, -1] {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE)
            .producer(ProducerId(7), ProducerEpoch(0), Sequence(sequence))
            .transactional(true);
        builder.append(Millis(T), Some(b"k"), None, &[]);
        let batch: Batch = builder.build().unwrap();
        kept.log.append_as_coordinator(at(T), &batch, EPOCH, None, false).unwrap();
    }
    assert_eq!(kept.log.log_end_offset(), Offset(3));
    assert_eq!(kept.log.producer_states().open_transaction_count(), 1);
}
