//! Traps of the storage formats that are about a log on its disk and have no other place.

mod common;

use std::sync::Arc;

use common::crash_disk::{CrashDisk, Dice};
use common::*;
use fencepost_partition::ProducerSnapshot;
use fencepost_records::{AppendOrigin, AppendRules, BatchBuilder, ValidatedBatch, validate};
use fencepost_storage::{AppendOutcome, Disk, FlushScope, Log, LogConfig, MemoryDisk};
use fencepost_types::{LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, Uuid};
use serde_json::json;

const T: i64 = 1_700_000_000_000;
const DAY_MS: i64 = 86_400_000;
const EPOCH: LeaderEpoch = LeaderEpoch(3);
const ID: Uuid = Uuid::from_u128(77);

/// One record of a producer, in a batch that claims to come from `leader_epoch`.
fn produced(sequence: i32, leader_epoch: LeaderEpoch) -> ValidatedBatch {
    let mut builder = BatchBuilder::new(Offset(0), leader_epoch).producer(
        ProducerId(7),
        ProducerEpoch(0),
        Sequence(sequence),
    );
    builder.append(Millis(T), None, Some(&[b'v'; 60]), &[]);
    let bytes = builder.build().unwrap().into_bytes();
    let origin = AppendOrigin::Client { produce_version: 12 };
    validate(Some(bytes), &AppendRules::default(), origin, Millis(T)).unwrap()
}

fn append(log: &mut Log, batch: &ValidatedBatch) {
    let outcome = log.append_as_leader(at(T), batch, EPOCH, None, true).unwrap();
    assert!(matches!(outcome, AppendOutcome::Appended(_)));
}

fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 450, ..LogConfig::default() }
}

/// A batch is of the epoch of the leader that appends it, whatever it says itself: an epoch from the future would spoil every
/// later decision about what to cut (storage-formats trap 12).
#[test]
fn a_batch_gets_the_epoch_of_its_leader() {
    let disk = MemoryDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut log = Log::open(shared, partition("t-0"), ID, LogConfig::default(), clean(), at(T)).unwrap();
    for (sequence, claimed) in [(0, LeaderEpoch(99)), (1, LeaderEpoch::NONE), (2, LeaderEpoch(i32::MAX))] {
        append(&mut log, &produced(sequence, claimed));
    }
    assert!(read_all(&log).iter().all(|batch| batch.header().leader_epoch == EPOCH));
    assert_eq!(log.leader_epochs(), [(EPOCH, Offset(0))]);
    log.close().unwrap();
    assert_eq!(read(&disk, "t-0/leader-epoch-checkpoint").unwrap(), "0\n1\n3 0\n");
}

/// Kafka leaves the indexes of its active segment at their full size, zeros behind the entries, when it is killed. Zeros
/// are no entries for the base offset: they are cut off, and look-ups do without (storage-formats trap 13).
#[test]
fn zeros_at_the_end_of_an_index_are_no_entries() {
    let config = LogConfig { segment_bytes: 1_500, index_interval_bytes: 200, ..LogConfig::default() };
    for recovery in [clean(), unclean(24)] {
        let disk = MemoryDisk::new();
        copy_in(&disk, "unclean/as-killed-0", "t-0");
        let path = |suffix: &str| format!("t-0/{:020}.{suffix}", 54);
        for suffix in ["index", "timeindex"] {
            let content = read(&disk, &path(suffix)).unwrap();
            assert_eq!((content.len(), content.last()), (1_200, Some(&0)), "as Kafka left it");
        }
        let mut log = open(&disk, "t-0", &config, recovery, at(1_795_992_000_000));
        for offset in 0..60 {
            let slice = log.read(Offset(offset), 1, Offset(60), true).unwrap();
            assert!(slice.next_offset > Offset(offset), "{recovery:?}: offset {offset} is skipped");
        }
        log.close().unwrap();
        for (suffix, entry_bytes, offset_at) in [("index", 8, 0), ("timeindex", 12, 8)] {
            let content = read(&disk, &path(suffix)).unwrap();
            assert!(!content.is_empty() && content.len() < 1_200, "{recovery:?}: {} bytes", content.len());
            let offsets =
                content.chunks_exact(entry_bytes).map(|entry| entry[offset_at..offset_at + 4].to_vec());
            let offsets: Vec<_> = offsets.collect();
            assert!(offsets.is_sorted(), "{recovery:?}: the {suffix} rises, {offsets:?}");
        }
    }
}

/// Five batches of one producer in one segment, closed; the log of a restart on that, and the paths of the snapshot and of the
/// windows beside it.
fn five_batches() -> (MemoryDisk, [String; 2], impl Fn(&MemoryDisk) -> Log) {
    let disk = MemoryDisk::new();
    let open = |disk: &MemoryDisk| {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Log::open(shared, partition("t-0"), ID, LogConfig::default(), clean(), at(T)).unwrap()
    };
    let mut log = open(&disk);
    (0..5).for_each(|sequence| append(&mut log, &produced(sequence, EPOCH)));
    log.close().unwrap();
    let paths = ["snapshot", "window"].map(|suffix| format!("t-0/{:020}.{suffix}", 5));
    (disk, paths, open)
}

/// How many of the five batches are known as retries.
fn known(log: &mut Log) -> usize {
    let answers =
        (0..5).map(|sequence| log.append_as_leader(at(T), &produced(sequence, EPOCH), EPOCH, None, true));
    answers.filter(|answer| matches!(answer, Ok(AppendOutcome::Duplicate { .. }))).count()
}

/// Issue 12, A1: a restart knows all five batches; without the file beside the snapshot, or with a damaged one, the newest, as
/// Kafka does. A damaged one is told of, and never taken for something else; nor is one that Kafka's new snapshot has left
/// behind (storage-formats trap 6).
#[test]
fn windows_are_taken_or_told_of() {
    let (disk, [snapshot, windows], open) = five_batches();
    let mut log = open(&disk);
    assert_eq!(log.unusable_windows(), None);
    assert_eq!(known(&mut log), 5);
    assert_eq!(log.log_end_offset(), Offset(5));

    let (disk, ..) = five_batches();
    disk.remove(&windows).unwrap();
    let mut log = open(&disk);
    assert_eq!(log.unusable_windows(), None);
    assert_eq!(known(&mut log), 1);

    let whole = read(&five_batches().0, &windows).unwrap();
    for at in 0..whole.len() {
        let (disk, ..) = five_batches();
        damage(&disk, &windows, |content| content[at] ^= 1);
        let mut log = open(&disk);
        assert_eq!(log.unusable_windows().map(|(path, _)| path), Some(&*windows), "byte {at}");
        assert_eq!(known(&mut log), 1, "byte {at}");
    }

    // Kafka writes the snapshot of this offset anew, with another time.
    let (disk, ..) = five_batches();
    let mut entries = ProducerSnapshot::decode(&read(&disk, &snapshot).unwrap()).unwrap();
    entries.entries[0].timestamp = Millis(T + 1);
    write(&disk, &snapshot, &entries.encode());
    let mut log = open(&disk);
    assert!(log.unusable_windows().is_some());
    assert_eq!(known(&mut log), 1);
}

/// Kafka removes a snapshot and leaves what it does not know beside it: the next start takes that away.
#[test]
fn windows_without_a_snapshot_go() {
    let (disk, [snapshot, windows], open) = five_batches();
    let orphan = format!("t-0/{:020}.window", 3);
    write(&disk, &orphan, &read(&disk, &windows).unwrap());
    open(&disk);
    assert_eq!(read(&disk, &orphan), None);
    assert!(read(&disk, &windows).is_some() && read(&disk, &snapshot).is_some());
}

/// Segment, snapshot, recovery point, in this order: while the syncs of a rolled segment are not done, the recovery point
/// stays where it was, whatever becomes of them; once it has moved, no crash takes away what lies below it, producers
/// included (storage-formats trap 30).
#[test]
fn the_recovery_point_comes_last() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let disk = CrashDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut log = Log::open(shared, partition("t-0"), ID, small_segments(), clean(), at(T)).unwrap();
        (0..4).for_each(|sequence| append(&mut log, &produced(sequence, EPOCH)));
        let base = log.active_segment_base();
        assert!(base > Offset(0), "a segment was rolled");
        let before = log.recovery_point();
        assert_eq!(before, Offset(0));
        let ticket = log.dirty(FlushScope::RolledSegments).unwrap();
        assert_eq!(log.recovery_point(), before, "a ticket is no sync");

        // A sync that fails moves nothing.
        disk.fail_after(Some(dice.below(4)));
        let _ = ticket.run();
        assert_eq!(log.recovery_point(), before, "a failed sync says nothing");
        disk.fail_after(None);

        ticket.run().unwrap();
        log.mark_synced(&ticket);
        let recovery_point = log.recovery_point();
        assert_eq!(recovery_point, base);
        let crashed = disk.crash(&mut dice);
        assert!(
            names(&crashed, "t-0").contains(&format!("{:020}.snapshot", base.0)),
            "the snapshot is there"
        );
        let shared: Arc<dyn Disk> = Arc::new(crashed);
        let recovery = unclean(recovery_point.0);
        let log = Log::open(shared, partition("t-0"), ID, small_segments(), recovery, at(T)).unwrap();
        assert!(log.log_end_offset() >= recovery_point, "what the recovery point covers is there");
        assert_eq!(read_all(&log).first().unwrap().base_offset(), Offset(0));
        let last = log.producer_states().describe_producers().next().unwrap().last_sequence;
        assert_eq!(i64::from(last.0) + 1, log.log_end_offset().0, "the producer is that of the log");
    }
}

/// A producer is as old as its newest batch: read with the clock of its time Kafka's data has the producers that Kafka had, a
/// day later none but those of open transactions (storage-formats trap 36).
#[test]
fn producers_of_old_data_are_forgotten() {
    let expected = expected();
    for (group, name, kept) in
        [("idempotent", "expired-0", 0), ("idempotent", "plain-0", 0), ("transactions", "txns-0", 2)]
    {
        let wanted = &expected[group][name];
        let then = wanted["as_of_ms"].as_i64().unwrap();
        let producers = |now: i64| {
            let disk = MemoryDisk::new();
            copy_in(&disk, &format!("{group}/{name}"), name);
            let log = open(&disk, name, &LogConfig::default(), clean(), at(now));
            let described = log.producer_states().describe_producers();
            described.map(|row| (row.producer_id.0, row.current_txn_start_offset.0)).collect::<Vec<_>>()
        };
        let rows = wanted["live"]["producers"].as_array().unwrap();
        let kafkas: Vec<_> =
            rows.iter().map(|row| json!([row["producer_id"], row["current_txn_start_offset"]])).collect();
        assert_eq!(json!(producers(then)), json!(kafkas), "{name}");
        let later = producers(then + DAY_MS);
        assert_eq!(later.len(), kept, "{name}: {later:?}");
        assert!(later.iter().all(|(_, start)| *start >= 0), "{name}: {later:?}");
    }
}
