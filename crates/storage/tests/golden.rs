//! Directories that Apache Kafka wrote: what they open to, and that the same appends give the same bytes.

mod common;

use std::sync::Arc;

use common::*;
use fencepost_partition::{DescribedProducer, ProducerSnapshot};
use fencepost_records::{
    AppendOrigin, AppendRules, Batch, EndTxnMarker, MAGIC, TimestampType, ValidatedBatch, validate,
};
use fencepost_storage::{
    AppendOutcome, Checkpoint, CleanupPolicy, Disk, Log, LogConfig, LogDir, MarkerAppend, MemoryDisk,
    MetaProperties, Recovery, StorageError,
};
use fencepost_types::{BrokerId, LeaderEpoch, Millis, Now, Offset, Uuid};
use serde_json::{Value, json};

/// The settings that a directory was written under.
fn config(set: &str) -> LogConfig {
    let (segment_bytes, index_interval_bytes) = match set {
        "idempotent/codecs-0" | "idempotent/appendtime-0" => (1_500, 300),
        "transactions/txns-0" | "transactions/txns-1" => (1_200, 200),
        "transactions/compacted-0" => (700, 200),
        "unclean" => (1_500, 200),
        "idempotent/bytime-0" => (1 << 30, 0),
        _ => (1 << 30, 4_096),
    };
    LogConfig {
        segment_bytes,
        index_interval_bytes,
        segment_ms: if set == "idempotent/bytime-0" { 1_000 } else { 604_800_000 },
        segment_index_bytes: if set == "unclean" { 1_200 } else { 10_485_760 },
        cleanup_policy: CleanupPolicy { delete: true, compact: set == "transactions/compacted-0" },
        timestamp_type: match set {
            "idempotent/appendtime-0" => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        },
        ..LogConfig::default()
    }
}

const SETS: [&str; 8] = [
    "idempotent/codecs-0",
    "idempotent/appendtime-0",
    "idempotent/bytime-0",
    "idempotent/plain-0",
    "idempotent/expired-0",
    "transactions/txns-0",
    "transactions/txns-1",
    "transactions/compacted-0",
];

fn expect_of<'a>(expected: &'a Value, set: &str) -> &'a Value {
    let (group, name) = set.split_once('/').unwrap();
    &expected[group][name]
}

fn now_of(expected: &Value) -> Now {
    at(expected["as_of_ms"].as_i64().unwrap())
}

fn directory_of(set: &str) -> &str {
    set.split_once('/').unwrap().1
}

/// What a live Kafka answered of a partition, as far as a log can say it.
fn view(log: &mut Log) -> Value {
    log.update_high_watermark(log.log_end_offset());
    let producers: Vec<Value> = log
        .producer_states()
        .describe_producers()
        .map(|producer| {
            json!({
                "producer_id": producer.producer_id.0,
                "producer_epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence.0,
                "coordinator_epoch": producer.coordinator_epoch.0,
                "current_txn_start_offset": producer.current_txn_start_offset.0,
            })
        })
        .collect();
    json!({
        "log_start_offset": log.log_start_offset().0,
        "high_watermark": log.high_watermark().0,
        "last_stable_offset": log.last_stable_offset().0,
        "producers": producers,
    })
}

fn wanted_view(live: &Value) -> Value {
    let keys = ["log_start_offset", "high_watermark", "last_stable_offset", "producers"];
    keys.iter().map(|key| ((*key).to_owned(), live[key].clone())).collect::<serde_json::Map<_, _>>().into()
}

/// Every directory opens to what Kafka said of it, after a clean stop, after a crash with everything to recover, and
/// without its snapshots (storage-formats §7.5, §10; producer-state §12).
#[test]
fn directories_open_to_what_kafka_found() {
    let expected = expected();
    for set in SETS {
        let (wanted, directory) = (expect_of(&expected, set), directory_of(set));
        let now = now_of(wanted);
        for (recovery, keep_snapshots) in
            [(clean(), true), (clean(), false), (unclean(0), true), (unclean(0), false)]
        {
            let disk = MemoryDisk::new();
            copy_in(&disk, set, directory);
            for name in names(&disk, directory) {
                if !keep_snapshots && name.ends_with(".snapshot") {
                    disk.remove(&format!("{directory}/{name}")).unwrap();
                }
            }
            let before = all_batches(&disk, directory);
            let mut log = open(&disk, directory, &config(set), recovery, now);
            assert_eq!(view(&mut log), wanted_view(&wanted["live"]), "{set} {recovery:?} {keep_snapshots}");
            assert_eq!(read_all(&log), before, "{set}: no batch is lost, none is skipped");
            assert_eq!(log.recovery_point(), log.log_end_offset());
        }
    }
}

/// A clean open of Kafka's directory touches none of its files, but for leftovers: what Kafka wrote is believed after a
/// look at it.
#[test]
fn a_clean_open_changes_nothing() {
    let expected = expected();
    for set in SETS {
        let directory = directory_of(set);
        let disk = MemoryDisk::new();
        copy_in(&disk, set, directory);
        let files = |disk: &MemoryDisk| {
            let names = names(disk, directory).into_iter().filter(|name| !name.ends_with(".deleted"));
            names.map(|name| (name.clone(), read(disk, &format!("{directory}/{name}")))).collect::<Vec<_>>()
        };
        let before = files(&disk);
        let mut log = open(&disk, directory, &config(set), clean(), now_of(expect_of(&expected, set)));
        // Kafka has left a snapshot of an earlier clean stop beside that of the last one; it removes it as we do.
        let strays = before.iter().filter(|(name, _)| name.ends_with(".snapshot"));
        let strays: Vec<_> =
            strays.filter(|file| !files(&disk).contains(file)).map(|(name, _)| name.clone()).collect();
        let stray: &[&str] = match set {
            "idempotent/codecs-0" => &["00000000000000000070.snapshot"],
            "idempotent/plain-0" => &["00000000000000000014.snapshot"],
            "transactions/txns-0" => &["00000000000000000049.snapshot"],
            _ => &[],
        };
        assert_eq!(strays, stray, "{set}");
        let kept: Vec<_> = before.into_iter().filter(|(name, _)| !strays.contains(name)).collect();
        assert_eq!(files(&disk), kept, "{set}");
        log.close().unwrap();
        assert_eq!(files(&disk), kept, "{set}: closing what was not appended to changes nothing either");
    }
}

/// What recovery makes of the indexes is what Kafka had made of them while appending (L1, storage-formats §9).
#[test]
fn recovery_makes_kafkas_indexes() {
    let expected = expected();
    for set in SETS {
        let directory = directory_of(set);
        let disk = MemoryDisk::new();
        copy_in(&disk, set, directory);
        let original = MemoryDisk::new();
        copy_in(&original, set, directory);
        open(&disk, directory, &config(set), unclean(0), now_of(expect_of(&expected, set)));
        for base in bases(&disk, directory) {
            // Kafka was restarted while this segment was active, which starts its count of bytes anew; and the cleaner
            // counts in its own way.
            let restarted = matches!(
                (set, base),
                ("idempotent/codecs-0", 66) | ("idempotent/plain-0", 0) | ("transactions/txns-0", 40)
            ) || set == "transactions/compacted-0";
            for suffix in ["index", "timeindex", "txnindex"] {
                let path = format!("{directory}/{base:020}.{suffix}");
                if suffix == "txnindex" || !restarted {
                    assert_eq!(read(&disk, &path), read(&original, &path), "{set} {path}");
                }
            }
        }
    }
}

/// Gives a log a batch as its leader once took it.
fn append_again(log: &mut Log, batch: &Batch, as_leader: bool) {
    let header = batch.header();
    let now = at(header.max_timestamp.0);
    let epoch = header.leader_epoch;
    if let Some(marker) = EndTxnMarker::from_batch(batch).unwrap() {
        let append = MarkerAppend {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            result: marker.result,
            coordinator_epoch: marker.coordinator_epoch,
            transaction_version: None,
        };
        assert_eq!(log.append_marker(now, append, epoch).unwrap().base_offset, header.base_offset);
    } else if as_leader {
        let appended = log.append_as_leader(now, &validated(batch), epoch, None, false).unwrap();
        let AppendOutcome::Appended(appended) = appended else { panic!("{appended:?}") };
        assert_eq!(appended.base_offset, header.base_offset);
    } else {
        let appended = log.append_as_coordinator(now, batch, epoch, None, false).unwrap();
        assert_eq!(appended.base_offset, header.base_offset);
    }
}

fn validated(batch: &Batch) -> ValidatedBatch {
    let mut bytes = batch.bytes().to_vec();
    bytes[..8].fill(0);
    let rules = AppendRules { timestamp_after_max_ms: i64::MAX, ..AppendRules::default() };
    let origin = AppendOrigin::Client { produce_version: 12 };
    validate(Some(bytes.into()), &rules, origin, Millis(0)).unwrap()
}

/// Appending what Kafka appended, with its settings and restarts, gives Kafka's directory, file for file and byte for byte:
/// rolls by size and by time, all indexes, markers, snapshots, epochs (storage-formats §7, §9). The one file of our own, with
/// the windows of producers, stands beside a snapshot.
#[test]
fn the_same_appends_give_the_same_directory() {
    let sets: [(&str, &[i64], bool); 7] = [
        ("idempotent/codecs-0", &[70], true),
        ("idempotent/appendtime-0", &[70], false),
        ("idempotent/bytime-0", &[8], true),
        ("idempotent/plain-0", &[14], true),
        ("idempotent/expired-0", &[3], true),
        ("transactions/txns-0", &[49], true),
        ("transactions/txns-1", &[6], true),
    ];
    for (set, restarts, as_leader) in sets {
        let directory = directory_of(set);
        let original = MemoryDisk::new();
        copy_in(&original, set, directory);
        let disk = MemoryDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let id = topic_id(&original, directory);
        let open = |recovery, now| {
            Log::open(shared.clone(), partition(directory), id, config(set), recovery, now).unwrap()
        };
        let batches = all_batches(&original, directory);
        let mut log = open(clean(), at(batches[0].header().max_timestamp.0));
        // A directory comes with its first epoch, which begins at 0.
        log.assign_leader_epoch(LeaderEpoch(0));
        for batch in &batches {
            if restarts.contains(&batch.base_offset().0) {
                log.close().unwrap();
                log = open(clean(), at(batch.header().max_timestamp.0));
            }
            append_again(&mut log, batch, as_leader);
        }
        if restarts.contains(&log.log_end_offset().0) {
            log.close().unwrap();
            log = open(clean(), at(batches[0].header().max_timestamp.0));
            log.assign_leader_epoch(LeaderEpoch(2));
        }
        log.close().unwrap();
        let wanted = names(&original, directory);
        let (windows, ours): (Vec<_>, Vec<_>) =
            names(&disk, directory).into_iter().partition(|name| name.ends_with(".window"));
        assert_eq!(ours, wanted, "{set}");
        let is_beside_snapshot = |name: &String| wanted.contains(&name.replace(".window", ".snapshot"));
        assert!(windows.iter().all(is_beside_snapshot), "{set}: {windows:?}");
        for name in wanted {
            let path = format!("{directory}/{name}");
            let (ours, kafkas) = (read(&disk, &path).unwrap(), read(&original, &path).unwrap());
            if name.ends_with(".snapshot") {
                assert_eq!(snapshot(&ours), snapshot(&kafkas), "{set} {name}");
            } else {
                assert_eq!(ours, kafkas, "{set} {name}");
            }
        }
    }
}

/// The entries of a snapshot in an order of their own: Kafka's means nothing.
fn snapshot(content: &[u8]) -> ProducerSnapshot {
    let mut snapshot = ProducerSnapshot::decode(content).unwrap();
    snapshot.entries.sort_by_key(|entry| entry.producer_id);
    snapshot
}

/// A topic that Kafka has compacted and that only deletes by now: what its cleaner left gaps in is not taken for torn.
#[test]
fn gaps_below_the_cleaners_checkpoint_are_no_damage() {
    let expected = expected();
    let (set, directory) = ("transactions/compacted-0", "compacted-0");
    let wanted = expect_of(&expected, set);
    let end = Offset(wanted["live"]["high_watermark"].as_i64().unwrap());
    let opened = |checkpoint: Option<Offset>| {
        let disk = MemoryDisk::new();
        copy_in(&disk, set, directory);
        let config =
            LogConfig { cleanup_policy: CleanupPolicy { delete: true, compact: false }, ..config(set) };
        let recovery = Recovery { cleaner_checkpoint: checkpoint, ..unclean(0) };
        try_open(&disk, directory, &config, recovery, now_of(wanted)).map(|log| log.log_end_offset())
    };
    assert_eq!(opened(Some(end)).unwrap(), end);
    opened(Some(Offset(0))).expect_err("beyond the checkpoint a gap is a loss");
}

/// Kafka's own answers to Fetch at many offsets and sizes: the same batches, and at least the aborted transactions that the
/// data needs (storage-formats §7.4, producer-state traps 27, 28).
#[test]
fn reads_are_kafkas() {
    let expected = expected();
    let (mut same, mut lists) = (0, 0);
    for set in ["transactions/txns-0", "transactions/txns-1", "transactions/compacted-0"] {
        let (wanted, directory) = (expect_of(&expected, set), directory_of(set));
        let disk = MemoryDisk::new();
        copy_in(&disk, set, directory);
        let mut log = open(&disk, directory, &config(set), clean(), now_of(wanted));
        log.update_high_watermark(log.log_end_offset());
        for fetch in wanted["live"]["fetches"].as_array().unwrap() {
            let offset = Offset(fetch["offset"].as_i64().unwrap());
            let committed = fetch["isolation"] == 1;
            let bound = if committed { log.last_stable_offset() } else { log.high_watermark() };
            let bytes_max = fetch["max_bytes"].as_u64().unwrap() as usize;
            let slice = log.read(offset, bytes_max, bound, true).unwrap();
            let found: Vec<Batch> =
                fencepost_records::Batches::new(slice.records.clone()).map(Result::unwrap).collect();
            let found_bases: Vec<i64> = found.iter().map(|batch| batch.base_offset().0).collect();
            assert_eq!(json!(found_bases), fetch["batches"], "{set} {fetch}");
            if !committed {
                continue;
            }
            let aborted = log.aborted_transactions(offset, &slice);
            let needed = |aborted: &&fencepost_partition::AbortedTxn| {
                found.iter().any(|batch| {
                    let header = batch.header();
                    header.producer_id == aborted.producer_id
                        && header.is_transactional()
                        && !header.is_control()
                        && (aborted.first_offset..aborted.last_offset).contains(&header.base_offset)
                })
            };
            let all = log.aborted_transactions_in(log.log_start_offset(), log.log_end_offset());
            for needed in all.iter().filter(needed) {
                assert!(aborted.contains(needed), "{set} {fetch}: {needed:?} is missing");
            }
            let mut kafkas: Vec<(i64, i64)> = serde_json::from_value(fetch["aborted"].clone()).unwrap();
            kafkas.sort_by_key(|(_, first)| *first);
            let ours: Vec<(i64, i64)> =
                aborted.iter().map(|aborted| (aborted.producer_id.0, aborted.first_offset.0)).collect();
            lists += 1;
            same += usize::from(ours == kafkas);
        }
    }
    // On an exact match Kafka's search of the offset index may land one entry later, and then lists more.
    assert!(same * 10 >= lists * 9, "{same} of {lists} lists are Kafka's");
}

/// Kafka's own answers to ListOffsets by time and for the largest timestamp.
#[test]
fn offsets_by_time_are_kafkas() {
    let expected = expected();
    for set in ["idempotent/bytime-0", "idempotent/plain-0", "idempotent/expired-0", "idempotent/codecs-0"] {
        let (wanted, directory) = (expect_of(&expected, set), directory_of(set));
        let disk = MemoryDisk::new();
        copy_in(&disk, set, directory);
        let log = open(&disk, directory, &config(set), clean(), now_of(wanted));
        for (timestamp, offset) in wanted["live"]["offset_for_time"].as_object().unwrap() {
            let timestamp = Millis(timestamp.parse().unwrap());
            let found = log.offset_for_timestamp(timestamp).unwrap();
            assert_eq!(json!(found.map_or(-1, |found| found.offset.0)), *offset, "{set} at {timestamp}");
        }
        let largest = log.max_timestamp().unwrap().unwrap();
        assert_eq!(json!(largest.offset.0), wanted["live"]["max_timestamp"], "{set}");
    }
}

/// A whole log directory of a node that was stopped cleanly: lock, owner, mark, checkpoints, partitions; every log opens to
/// what Kafka said of it. The deleted partition is unlinked (storage-formats §6, §8).
#[test]
fn a_log_directory_of_kafkas() {
    let expected = &expected()["data-dir"];
    let disk = MemoryDisk::new();
    copy_in(&disk, "data-dir", "");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let ours = MetaProperties::new("not used", BrokerId(1), Uuid::from_u128(7));
    let log_dir = LogDir::open(shared.clone(), ours.clone()).unwrap();
    assert_eq!(log_dir.meta().cluster_id, "ZmVuY2Vwb3N0LXBlZXIwMAo");
    assert_eq!(Some(log_dir.directory_id()), Uuid::parse("RBiIgzqn9ZcEEUDR6ZAVJA"));
    assert_eq!(log_dir.clean_broker_epoch(), Some(22));
    assert!(log_dir.unreadable_files().is_empty());
    assert_eq!(read(&disk, ".kafka_cleanshutdown"), None, "the mark goes before any log is opened");
    assert!(!names(&disk, "").iter().any(|name| name.ends_with("-delete")));

    let partitions = log_dir.partitions().unwrap();
    assert_eq!(partitions.len(), 13);
    for found in partitions {
        let name = found.partition.to_string();
        let offset = |checkpoint| log_dir.offset(checkpoint, &found.partition).map(|offset| offset.0);
        let checkpoint = |file: &str| expected["checkpoints"][file][&name].as_i64();
        assert_eq!(offset(Checkpoint::RecoveryPoint), checkpoint("recovery-point-offset-checkpoint"));
        assert_eq!(offset(Checkpoint::HighWatermark), checkpoint("replication-offset-checkpoint"));
        assert_eq!(offset(Checkpoint::LogStart), checkpoint("log-start-offset-checkpoint"));
        assert_eq!(offset(Checkpoint::Cleaner), checkpoint("cleaner-offset-checkpoint"));
        let config = LogConfig::default();
        let mut log = log_dir
            .open_log(found.partition.clone(), found.topic_id.unwrap(), config, now_of(expected))
            .unwrap();
        let wanted = &expected["partitions"][&name];
        if name != "__cluster_metadata-0" {
            assert_eq!(log.high_watermark().0, checkpoint("replication-offset-checkpoint").unwrap());
            assert_eq!(view(&mut log), wanted_view(wanted), "{name}");
        }
        // One batch after another, from the log start on: the record that a batch begins with may lie before it.
        let reached = read_all(&log).last().map_or(log.log_end_offset(), |last| last.header().next_offset());
        assert_eq!(reached, log.log_end_offset(), "{name}");
    }
    drop(log_dir);
    let again = LogDir::open(shared, ours).unwrap();
    assert!(!again.was_clean());
}

/// The one damaged directory, whole or damaged once more; recovery point 24, as Kafka had it.
struct Damaged {
    disk: MemoryDisk,
}

impl Damaged {
    fn new(source: &str) -> Self {
        let disk = MemoryDisk::new();
        copy_in(&disk, &format!("unclean/{source}"), "t-0");
        Self { disk }
    }

    fn with(self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        damage(&self.disk, &format!("t-0/{name}"), change);
        self
    }

    fn without(self, suffix: &str) -> Self {
        for name in names(&self.disk, "t-0").into_iter().filter(|name| name.ends_with(suffix)) {
            self.disk.remove(&format!("t-0/{name}")).unwrap();
        }
        self
    }

    fn open(&self, recovery: Recovery) -> Log {
        self.try_open(recovery).unwrap()
    }

    fn try_open(&self, recovery: Recovery) -> Result<Log, StorageError> {
        try_open(&self.disk, "t-0", &config("unclean"), recovery, at(1_795_992_000_000))
    }

    /// Opens it and checks that it is what Kafka found in the undamaged one, cut at `end`; index, transaction index and
    /// epochs are those of the log in any case. Then a second time, after a clean stop.
    fn recovers_to(&self, end: i64, what: &str) {
        self.recovers_by(unclean(24), end, what);
    }

    fn recovers_by(&self, recovery: Recovery, end: i64, what: &str) {
        let mut log = self.open(recovery);
        self.check(&mut log, end, what);
        log.close().unwrap();
        let mut log = self.open(clean());
        self.check(&mut log, end, what);
    }

    fn check(&self, log: &mut Log, end: i64, what: &str) {
        let expected = &expected()["unclean"]["as-killed-0"];
        assert_eq!(log.log_end_offset(), Offset(end), "{what}");
        let whole = fold_of_undamaged(end);
        log.update_high_watermark(log.log_end_offset());
        // The times of the markers differ from one of Kafka's directories to the other.
        let described = |log: &Log| -> Vec<_> {
            let described = log.producer_states().describe_producers();
            described.map(|producer| DescribedProducer { last_timestamp: Millis(0), ..producer }).collect()
        };
        assert_eq!(described(log), described(&whole), "{what}");
        if end == 60 {
            assert_eq!(view(log), wanted_view(&expected["live"]), "{what}");
        }
        assert_eq!(
            log.leader_epochs(),
            [(LeaderEpoch(0), Offset(0)), (LeaderEpoch(2), Offset(24))],
            "{what}"
        );
        for offset in 0..end {
            let slice = log.read(Offset(offset), 1, Offset(end), true).unwrap();
            let found = Batch::parse(slice.records).unwrap();
            let range = found.base_offset()..=found.last_offset();
            assert!(range.contains(&Offset(offset)), "{what}: offset {offset} is skipped, {range:?} comes");
        }
        let fetch = &expected["fetch_read_committed_at_8"];
        let slice = log.read(Offset(8), 1 << 20, log.last_stable_offset(), true).unwrap();
        let found = fencepost_records::Batches::new(slice.records.clone()).map(Result::unwrap);
        let ranges: Vec<_> = found.map(|batch| [batch.base_offset().0, batch.last_offset().0]).collect();
        assert_eq!(json!(ranges), fetch["batches"], "{what}");
        let aborted = log.aborted_transactions(Offset(8), &slice).into_iter();
        let aborted: Vec<_> =
            aborted.map(|aborted| [aborted.producer_id.0, aborted.first_offset.0]).collect();
        assert_eq!(json!(aborted), fetch["aborted"], "{what}");
        let all = log.aborted_transactions_in(Offset(0), Offset(end));
        let wanted = whole.aborted_transactions_in(Offset(0), Offset(end));
        assert_eq!(all, wanted, "{what}");
    }
}

/// The undamaged log cut at `end`, appended anew: what the damaged one must be equal to.
fn fold_of_undamaged(end: i64) -> Log {
    let source = MemoryDisk::new();
    copy_in(&source, "unclean/as-killed-0", "t-0");
    let shared: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let id = topic_id(&source, "t-0");
    let mut log =
        Log::open(shared, partition("t-0"), id, config("unclean"), clean(), at(1_795_992_000_000)).unwrap();
    for batch in all_batches(&source, "t-0").iter().filter(|batch| batch.base_offset().0 < end) {
        append_again(&mut log, batch, true);
    }
    log
}

const ACTIVE: &str = "00000000000000000054.log";
/// Start of the last batch of the active segment.
fn last_batch(content: &[u8]) -> usize {
    let batches: Vec<Batch> =
        fencepost_records::Batches::new(content.to_vec().into()).map_while(Result::ok).collect();
    content.len() - batches.last().unwrap().bytes().len()
}

/// What a crash leaves above the recovery point: the log is cut at the first batch that is not whole (storage-formats §10, table).
#[test]
fn a_torn_tail_is_cut() {
    let killed = || Damaged::new("as-killed-0");
    killed().recovers_to(60, "as killed");
    killed().with(ACTIVE, |log| log.truncate(log.len() - 10)).recovers_to(59, "torn batch");
    killed().with(ACTIVE, |log| log.truncate(last_batch(log) + 20)).recovers_to(59, "torn header");
    let third_from_end = |log: &mut Vec<u8>| {
        let one = last_batch(log);
        let two = last_batch(&log[..one]);
        let three = last_batch(&log[..two]);
        log[three..two].fill(0);
    };
    killed().with(ACTIVE, third_from_end).recovers_to(57, "a batch that was not written");
    killed()
        .with("00000000000000000037.log", |log| log[..70].fill(0))
        .recovers_to(37, "the same, not in the last segment");
    killed().with(ACTIVE, |log| log.extend([0; 1_000])).recovers_to(60, "a tail of zeros");
    killed().with(ACTIVE, |log| log.extend([0xa5; 300])).recovers_to(60, "a tail of garbage");
    killed().with(ACTIVE, |log| log.extend([0xff; 30])).recovers_to(60, "a short tail of garbage");
    Damaged::new("preallocated-0").recovers_to(60, "a preallocated file");
}

/// Bytes that were changed above the recovery point are no torn tail, as with Kafka they are (issue 12, A3; decision 30).
#[test]
fn what_was_changed_is_not_cut() {
    let refused = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let damaged = Damaged::new("as-killed-0").with(name, change);
        damaged.try_open(unclean(24)).map(|_| ()).expect_err(name)
    };
    let last = |change: &dyn Fn(&mut [u8])| {
        refused(ACTIVE, &|log| {
            let at = last_batch(log);
            change(&mut log[at..]);
        })
    };
    last(&|batch| batch[8..12].copy_from_slice(&20i32.to_be_bytes()));
    last(&|batch| batch[65] ^= 1);
    last(&|batch| batch[7] = 0);
    last(&|batch| batch[12..16].fill(0));
    refused("00000000000000000037.log", &|log| log[65] ^= 1);
}

/// A later segment does not outlive the cut below it, and its snapshots go too (storage-formats §10).
#[test]
fn segments_after_a_cut_are_gone() {
    let damaged = Damaged::new("as-killed-0").with("00000000000000000037.log", |log| log[..70].fill(0));
    damaged.open(unclean(24));
    assert_eq!(bases(&damaged.disk, "t-0"), [0, 20, 37]);
    let snapshots = names(&damaged.disk, "t-0").into_iter().filter(|name| name.ends_with(".snapshot"));
    assert_eq!(
        snapshots.collect::<Vec<_>>(),
        ["00000000000000000020.snapshot", "00000000000000000037.snapshot"]
    );
}

/// A bit below the recovery point is not looked for, and nothing else suffers (storage-formats §10).
#[test]
fn damage_below_the_recovery_point_is_left() {
    let damaged = Damaged::new("as-killed-0").with("00000000000000000000.log", |log| log[70] ^= 1);
    damaged.recovers_to(60, "a flipped bit below the recovery point");
    damaged.try_open(unclean(0)).map(|_| ()).expect_err("looked at, it is damage");
}

/// A format number that only damage can have made is made right: the batch is whole, and clients can read it. Kafka keeps
/// it as it is.
#[test]
fn a_flipped_format_number_is_repaired() {
    let bad_magic = |log: &mut Vec<u8>| {
        let at = last_batch(log);
        log[at + 16] = 9;
    };
    let damaged = Damaged::new("as-killed-0").with(ACTIVE, bad_magic);
    damaged.recovers_to(60, "magic 9");
    let content = read(&damaged.disk, &format!("t-0/{ACTIVE}")).unwrap();
    assert_eq!(content[last_batch(&content) + 16] as i8, MAGIC);
}

/// The last batch once more: kept, as Kafka does; the log does not end later by it (storage-formats §10, table).
#[test]
fn a_repeated_batch_is_kept() {
    let again = |log: &mut Vec<u8>| log.extend_from_within(last_batch(log)..);
    let damaged = Damaged::new("as-killed-0").with(ACTIVE, again);
    let mut log = damaged.open(unclean(24));
    assert_eq!(view(&mut log), wanted_view(&expected()["unclean"]["as-killed-0"]["live"]));
    assert_eq!(read_all(&log).len(), read_all(&fold_of_undamaged(60)).len() + 1);
}

/// Indexes that are missing or wrong, above and below the recovery point, are made anew; where Kafka believes them it skips
/// records or hands out aborted ones (storage-formats trap 34, §10; L5).
#[test]
fn wrong_indexes_are_made_anew() {
    let killed = || Damaged::new("as-killed-0");
    let first = |suffix: &str| format!("00000000000000000000.{suffix}");
    killed().without(".index").without(".timeindex").recovers_to(60, "no indexes");
    killed().without(&first("index")).recovers_to(60, "no old index");
    killed().without(&first("timeindex")).recovers_to(60, "no old time index");
    killed().with(&first("index"), |index| index.truncate(index.len() - 1)).recovers_to(60, "an odd size");
    let garbage = |index: &mut Vec<u8>| index.fill(0xff);
    killed().with(&first("index"), garbage).with(&first("timeindex"), garbage).recovers_to(60, "0xFF");
    let shift = |index: &mut Vec<u8>| index.chunks_exact_mut(8).for_each(|entry| entry[7] += 1);
    killed().with(&first("index"), shift).recovers_to(60, "every position one too high");
    killed().without(".txnindex").recovers_to(60, "no transaction index");
    killed().with(&first("txnindex"), |index| index.truncate(index.len() - 1)).recovers_to(60, "a torn one");
    killed().with(&first("txnindex"), garbage).recovers_to(60, "0xFF in one, where Kafka does not start");
    let low = |index: &mut Vec<u8>| index[18..26].fill(0);
    killed().with("00000000000000000020.txnindex", low).recovers_to(60, "a marker below the segment");
    for recovery in [clean(), unclean(24)] {
        let damaged = killed().with(ACTIVE, |log| log.truncate(449)).with(&first("index"), shift);
        damaged.recovers_by(recovery, 60, "also after a stop that looks clean");
    }
}

/// Snapshots that are missing or wrong: state comes from older ones or from the log (storage-formats §7.5, §10).
#[test]
fn snapshots_are_not_needed() {
    let killed = || Damaged::new("as-killed-0");
    killed().without(".snapshot").recovers_to(60, "none");
    let newest = "00000000000000000054.snapshot";
    killed().with(newest, |snapshot| snapshot[12] ^= 1).recovers_to(60, "a flipped bit");
    let cut = |snapshot: &mut Vec<u8>| snapshot.truncate(5);
    let mut all_cut = killed();
    for at in [20, 24, 37, 54] {
        all_cut = all_cut.with(&format!("{at:020}.snapshot"), cut);
    }
    all_cut.recovers_to(60, "all cut to 5 bytes");
}

/// The mark of a clean stop is not believed over missing snapshots or a tail of zeros: Kafka forgets every producer, or does
/// not start (storage-formats trap 31, §10; producer-state §12).
#[test]
fn a_false_clean_mark_does_no_harm() {
    let killed = || Damaged::new("as-killed-0");
    killed().recovers_by(clean(), 60, "snapshots there");
    killed().without(".snapshot").recovers_by(clean(), 60, "no snapshots");
    killed().with(ACTIVE, |log| log.extend([0; 1_000])).recovers_by(clean(), 60, "a tail of zeros");
    Damaged::new("preallocated-0").recovers_by(clean(), 60, "preallocated");
}

/// The epoch file is made anew out of the whole log (storage-formats §10; Kafka knows only the recovered part).
#[test]
fn lost_epochs_come_from_the_log() {
    Damaged::new("as-killed-0").without("leader-epoch-checkpoint").recovers_to(60, "no epochs");
    let damaged = Damaged::new("as-killed-0").with("leader-epoch-checkpoint", |text| text.fill(0));
    damaged.recovers_to(60, "zeros for epochs");
    assert_eq!(read(&damaged.disk, "t-0/leader-epoch-checkpoint").unwrap(), "0\n2\n0 0\n2 24\n");
}

/// Leftovers of deletion and cleaning go; a replacement that had begun is completed (storage-formats trap 32, §10
/// rules 1 to 3).
#[test]
fn leftovers_are_settled() {
    let damaged = Damaged::new("leftovers-0");
    damaged.recovers_to(60, "leftovers");
    let left: Vec<_> = names(&damaged.disk, "t-0");
    assert!(!left.iter().any(|name| name.ends_with(".deleted") || name.ends_with(".cleaned")), "{left:?}");
    assert!(!left.contains(&"00000000000000000007.index".to_owned()), "an index without its log");

    let swap = Damaged::new("swap-0");
    swap.recovers_to(60, "swap");
    assert!(!names(&swap.disk, "t-0").iter().any(|name| name.ends_with(".swap")));
}

/// A recovery point far beyond the end, or a log start beyond it (storage-formats §8.3).
#[test]
fn odd_checkpoints() {
    // Everything else agrees with the end that is found: the checkpoint is wrong. Else something is missing.
    let killed = Damaged::new("as-killed-0");
    let confirmed = Recovery { high_watermark: Offset(60), ..unclean(100_000) };
    killed.recovers_by(confirmed, 60, "a recovery point beyond the end");
    for high_watermark in [0, 61] {
        let killed = Damaged::new("as-killed-0");
        let damaged = Recovery { high_watermark: Offset(high_watermark), ..unclean(100_000) };
        let opened = try_open(&killed.disk, "t-0", &config("unclean"), damaged, at(1_795_992_000_000));
        assert!(matches!(opened, Err(StorageError::Corrupt { .. })), "{high_watermark}");
    }
    let killed = Damaged::new("as-killed-0");
    let beyond = Recovery { log_start_offset: Offset(1_000), ..unclean(24) };
    // Known to have had data, it is not emptied for a checkpoint (issue 12, A3). Kafka does that.
    let opened = try_open(&killed.disk, "t-0", &config("unclean"), beyond, at(1_795_992_000_000));
    assert!(matches!(opened, Err(StorageError::Corrupt { .. })));
    let mut log = killed.open(Recovery { recovery_point: Offset(0), ..beyond });
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(1_000), Offset(1_000)));
    assert!(log.producer_states().is_empty());
    assert_eq!(log.leader_epochs(), []);
    assert_eq!(log.close().unwrap(), Offset(1_000));
    assert_eq!(bases(&killed.disk, "t-0"), [1_000]);
}
