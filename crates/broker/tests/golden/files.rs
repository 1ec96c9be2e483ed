//! Every file of a partition, field by field: what this reads in Kafka's is what Kafka's tool and an independent reader found
//! there, what recovery makes of Kafka's logs are Kafka's files, and what it makes of damaged ones is what Kafka made of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_partition::{ProducerSnapshot, decode_aborted_index};
use fencepost_records::compression::decompress;
use fencepost_records::{Batch, Batches, CompressionType, TimestampType};
use fencepost_storage::{CleanupPolicy, Disk, Log, LogConfig, MemoryDisk, Recovery};
use fencepost_types::{Millis, Nanos, Now, Offset, TopicPartition, Uuid, partition_for};
use serde_json::{Map, Value, json};

use crate::archive;
use crate::node::Node;
use crate::unclean::OFFLINE;

const SET: &str = "partitions";
/// When the unclean directories were looked at.
const UNCLEAN_AS_OF_MS: i64 = 1_795_995_960_000;
/// Just after the last record of the coordinators' logs.
const COORDINATORS_AS_OF_MS: i64 = 1_795_994_730_000;

/// What is in the files of every partition directory.
fn expected() -> Value {
    let packed = archive::bytes("files.json.gz");
    let text = decompress(CompressionType::Gzip, &packed).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn read(disk: &dyn Disk, path: &str) -> bytes::Bytes {
    let file = disk.open(path).unwrap();
    file.read(0, file.bytes().unwrap() as usize).unwrap()
}

fn number(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

/// Entries of an index, up to the zeros that Kafka leaves behind them.
fn entries(content: &[u8], first_bytes: usize, entry_bytes: usize) -> Value {
    let entries = content.chunks_exact(entry_bytes).enumerate();
    let used = entries
        .take_while(|(at, entry)| *at == 0 && content.len() < 1_000 || entry.iter().any(|byte| *byte != 0));
    used.map(|(_, entry)| json!([number(&entry[..first_bytes]), number(&entry[first_bytes..])])).collect()
}

fn batch(position: usize, batch: &Batch) -> Value {
    let header = batch.header();
    let codec = match header.compression().unwrap() {
        CompressionType::None => "none",
        CompressionType::Gzip => "gzip",
        CompressionType::Snappy => "snappy",
        CompressionType::Lz4 => "lz4",
        CompressionType::Zstd => "zstd",
    };
    let timestamp_type = match header.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    json!({
        "position": position,
        "size": batch.bytes().len(),
        "base_offset": header.base_offset.0,
        "last_offset": header.last_offset().0,
        "leader_epoch": header.leader_epoch.0,
        "magic": batch.bytes()[16],
        "crc": header.crc,
        "crc_ok": batch.verify_crc().is_ok(),
        "codec": codec,
        "timestamp_type": timestamp_type,
        "transactional": header.is_transactional(),
        "control": header.is_control(),
        "delete_horizon": header.delete_horizon().is_some(),
        "base_timestamp": header.base_timestamp.0,
        "max_timestamp": header.max_timestamp.0,
        "producer_id": header.producer_id.0,
        "producer_epoch": header.producer_epoch.0,
        "base_sequence": header.base_sequence.0,
        "count": header.record_count,
    })
}

fn batches(content: bytes::Bytes) -> Value {
    let mut position = 0;
    let mut found = Vec::new();
    for next in Batches::new(content).map_while(Result::ok) {
        found.push(batch(position, &next));
        position += next.bytes().len();
    }
    found.into()
}

fn snapshot(content: &[u8]) -> Value {
    let entries = ProducerSnapshot::decode(content).unwrap().entries.into_iter().map(|entry| {
        json!({
            "producer_id": entry.producer_id.0,
            "producer_epoch": entry.producer_epoch.0,
            "last_sequence": entry.last_sequence.0,
            "last_offset": entry.last_offset.0,
            "offset_delta": entry.offset_delta,
            "timestamp": entry.timestamp.0,
            "coordinator_epoch": entry.coordinator_epoch.0,
            "current_txn_first_offset": entry.current_txn_first_offset.0,
        })
    });
    entries.collect()
}

fn aborted(content: &[u8]) -> Value {
    let entries = decode_aborted_index(content, Offset(0)).unwrap().into_iter().map(|entry| {
        json!({
            "version": 0,
            "producer_id": entry.producer_id.0,
            "first_offset": entry.first_offset.0,
            "last_offset": entry.last_offset.0,
            "last_stable_offset": entry.last_stable_offset.0,
        })
    });
    entries.collect()
}

/// What this reads in one file.
fn content(disk: &dyn Disk, directory: &str, name: &str) -> Value {
    let content = read(disk, &format!("{directory}/{name}"));
    match name.rsplit_once('.').map(|(_, kind)| kind) {
        Some("deleted") => json!({ "bytes": content.len() }),
        Some("index") => json!({ "bytes": content.len(), "entries": entries(&content, 4, 8) }),
        Some("timeindex") => json!({ "bytes": content.len(), "entries": entries(&content, 8, 12) }),
        Some("log") => batches(content),
        Some("snapshot") => snapshot(&content),
        Some("txnindex") => aborted(&content),
        Some("metadata") => String::from_utf8(content.to_vec()).unwrap().into(),
        _ => epochs(&content),
    }
}

fn epochs(content: &[u8]) -> Value {
    let lines = std::str::from_utf8(content).unwrap().lines().skip(2);
    let pair = |line: &str| {
        let (epoch, offset) = line.split_once(' ').unwrap();
        json!([epoch.parse::<i64>().unwrap(), offset.parse::<i64>().unwrap()])
    };
    lines.map(pair).collect()
}

/// The files of a directory by name.
fn files(disk: &dyn Disk, directory: &str) -> Map<String, Value> {
    let names = disk.list(directory).unwrap().into_iter().map(|entry| entry.name);
    // Ours alone: Kafka has no such file, and leaves it alone.
    let names = names.filter(|name| !name.ends_with(".window"));
    names.map(|name| (name.clone(), content(disk, directory, &name))).collect()
}

/// Entries of snapshots in an order of their own: Kafka's means nothing.
fn sorted(mut files: Map<String, Value>) -> Map<String, Value> {
    for (name, content) in &mut files {
        if name.ends_with(".snapshot") {
            content.as_array_mut().unwrap().sort_by_key(|entry| entry["producer_id"].as_i64());
        }
    }
    files
}

fn assert_same(found: Map<String, Value>, wanted: &Map<String, Value>, what: &str) {
    let (found, wanted) = (sorted(found), sorted(wanted.clone()));
    for (name, content) in &wanted {
        assert_eq!(found.get(name), Some(content), "{what}: {name}");
    }
    assert_eq!(found.len(), wanted.len(), "{what}: {:?}", found.keys());
}

/// Every file of every directory, read by this.
#[test]
fn every_file_is_read_as_expected() {
    let expected = expected();
    let disk = archive::disk(SET, "");
    let whole = archive::disk("data-dir", "");
    let mut count = 0;
    for (set, disk) in [("partitions", &disk), ("data-dir", &whole)] {
        for (directory, wanted) in expected[set].as_object().unwrap() {
            let wanted = wanted.as_object().unwrap();
            assert_same(files(disk, directory), wanted, directory);
            count += wanted.len();
        }
    }
    assert!(count > 250, "{count} files");
}

/// A partition's log, all of it acknowledged.
fn open(disk: &MemoryDisk, directory: &str, id: Uuid, recovery: Recovery, wall_ms: i64) -> Log {
    let (topic, _) = directory.rsplit_once('-').unwrap();
    let now = Now { wall: Millis(wall_ms), mono: Nanos(0) };
    let shared = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let partition = TopicPartition::new(topic, directory[topic.len() + 1..].parse().unwrap());
    let compact = matches!(topic, "compacted" | "__consumer_offsets");
    let config =
        LogConfig { cleanup_policy: CleanupPolicy { delete: true, compact }, ..LogConfig::default() };
    let mut log = Log::open(shared, partition, id, config, recovery, now).unwrap();
    log.update_high_watermark(log.log_end_offset());
    log
}

/// What a live broker says of a log.
fn view(log: &Log) -> Value {
    let producers = log.producer_states().describe_producers().map(|row| {
        json!({
            "producer_id": row.producer_id.0,
            "producer_epoch": row.producer_epoch,
            "last_sequence": row.last_sequence.0,
            "coordinator_epoch": row.coordinator_epoch.0,
            "current_txn_start_offset": row.current_txn_start_offset.0,
        })
    });
    json!({
        "log_start_offset": log.log_start_offset().0,
        "high_watermark": log.high_watermark().0,
        "last_stable_offset": log.last_stable_offset().0,
        "producers": producers.collect::<Vec<_>>(),
    })
}

/// Every partition of user data, opened after a clean stop and after a crash: offsets, producers, and every look-up by time, are
/// what a live Kafka said. (What it said to fetches is compared in `crates/storage/tests/golden.rs`.)
#[test]
fn logs_open_to_what_kafka_said() {
    let expected = expected();
    let mut count = 0;
    for (directory, live) in expected["live"].as_object().unwrap() {
        let Some(as_of_ms) = live["as_of_ms"].as_i64() else { continue };
        let metadata = expected["partitions"][directory]["partition.metadata"].as_str().unwrap();
        let id = Uuid::parse(metadata.rsplit(' ').next().unwrap()).unwrap();
        for clean in [true, false] {
            let disk = archive::disk(SET, "");
            let log = open(&disk, directory, id, Recovery { clean, ..Recovery::default() }, as_of_ms);
            for (key, found) in view(&log).as_object().unwrap() {
                assert_eq!(found, &live[key], "{directory}, clean: {clean}: {key}");
            }
            let Some(by_time) = live["offset_for_time"].as_object() else { continue };
            for (timestamp, offset) in by_time {
                let found = log.offset_for_timestamp(Millis(timestamp.parse().unwrap())).unwrap();
                assert_eq!(
                    json!(found.map_or(-1, |found| found.offset.0)),
                    *offset,
                    "{directory}: {timestamp}"
                );
            }
            let largest = log.max_timestamp().unwrap().unwrap();
            assert_eq!(json!(largest.offset.0), live["max_timestamp"], "{directory}");
            count += 1;
        }
    }
    assert_eq!(count, 12, "six directories, twice");
}

/// The log of a partition of `__consumer_offsets`, with all its side files gone: offsets and producers are what a live Kafka
/// said, transaction indexes and the last snapshot are Kafka's.
#[test]
fn the_coordinators_log_recovers() {
    const DIRECTORY: &str = "__consumer_offsets-0";
    let expected = expected();
    let (wanted, live) = (&expected["partitions"][DIRECTORY], &expected["live"][DIRECTORY]);
    let disk = archive::disk(SET, "");
    for entry in disk.list(DIRECTORY).unwrap() {
        if !entry.name.ends_with(".log") && entry.name != "partition.metadata" {
            disk.remove(&format!("{DIRECTORY}/{}", entry.name)).unwrap();
        }
    }
    let id = wanted["partition.metadata"].as_str().unwrap().rsplit(' ').next().unwrap();
    let mut log =
        open(&disk, DIRECTORY, Uuid::parse(id).unwrap(), Recovery::default(), COORDINATORS_AS_OF_MS);
    assert_eq!(view(&log), *live);
    log.close().unwrap();
    let found = sorted(files(&disk, DIRECTORY));
    let wanted = sorted(wanted.as_object().unwrap().clone());
    for name in
        wanted.keys().filter(|name| name.ends_with(".txnindex") || name.starts_with("00000000000000000145"))
    {
        assert_eq!(found.get(name), wanted.get(name), "{name}");
    }
}

/// Sizes of indexes are those of a stopped broker: Kafka was looked at while it ran, with indexes of their full size.
fn without_sizes(mut files: Map<String, Value>) -> Map<String, Value> {
    for (name, content) in &mut files {
        if name.ends_with("index") && content.is_object() {
            content.as_object_mut().unwrap().remove("bytes");
        }
    }
    sorted(files)
}

/// Files in which a recovered directory is another one here: what Kafka lost, kept damaged, or has yet to remove.
const DIFFERENT: [(&str, &str); 9] = [
    // Repaired; Kafka keeps a format number that nobody can read.
    ("bad-magic", "00000000000000000054.log"),
    // Indexes below the recovery point are made anew; Kafka believes them, or begins them empty.
    ("garbage-index", "00000000000000000000.index"),
    ("garbage-index", "00000000000000000000.timeindex"),
    ("no-txnindex", "00000000000000000000.txnindex"),
    ("odd-index", "00000000000000000000.index"),
    ("odd-txnindex", "00000000000000000000.txnindex"),
    ("shifted-index", "00000000000000000000.index"),
    ("swap", "00000000000000000000.txnindex"),
    // All epochs of the log; Kafka has those of the recovered part.
    ("no-epochs", "leader-epoch-checkpoint"),
];

/// Each fault but damage, recovered and stopped: its files are those that Kafka made of it, but for the list above; there they are those
/// of the undamaged directory.
#[test]
fn faults_recover_to_kafkas_files() {
    let expected = expected();
    let faults = expected["faults"].as_object().unwrap();
    let undamaged = without_sizes(faults["as-killed"].as_object().unwrap().clone());
    let node = Node::start(archive::disk("unclean", "faults"), UNCLEAN_AS_OF_MS);
    let disk = node.stop();
    let mut different = BTreeSet::new();
    for (topic, wanted) in faults.iter().filter(|(topic, _)| !OFFLINE.contains(&topic.as_str())) {
        let wanted = without_sizes(wanted.as_object().unwrap().clone());
        let found = without_sizes(files(&disk, &format!("{topic}-0")));
        for name in wanted.keys().chain(found.keys()) {
            if found.get(name) == wanted.get(name) {
                continue;
            }
            different.insert((&**topic, name.clone()));
            // Positions and offsets are the same in all of them; the times of markers are not.
            if name.ends_with(".index") || name.ends_with(".txnindex") || name.starts_with("leader") {
                assert_eq!(found.get(name), undamaged.get(name), "{topic}: {name}");
            }
        }
    }
    let known = DIFFERENT.map(|(topic, name)| (topic, name.to_owned()));
    assert_eq!(different, known.into());
}

/// The control records of a snapshot of the metadata log: offset, type, and the value's bytes.
fn control_records(content: bytes::Bytes) -> Value {
    let mut found = Vec::new();
    for batch in Batches::new(content).map(Result::unwrap).filter(|batch| batch.header().is_control()) {
        for record in batch.records().unwrap().map(Result::unwrap) {
            let (key, value) = (record.key.unwrap(), record.value.unwrap());
            let value: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            let offset = batch.header().record_offset(record.offset_delta).0;
            found.push(json!([offset, number(&key[..2]), number(&key[2..4]), format!("hex:{value}")]));
        }
    }
    found.into()
}

/// The metadata log: its batches, what `quorum-state` says, and the control records around each snapshot. (The records themselves
/// are compared in `crates/metadata/tests/golden.rs`.)
#[test]
fn the_metadata_log_is_read_as_expected() {
    for (voters, wanted) in expected()["cluster-metadata"].as_object().unwrap() {
        let disk = archive::disk("cluster-metadata", voters);
        let path = |name: &str| format!("__cluster_metadata-0/{name}");
        assert_eq!(batches(read(&disk, &path(&format!("{:020}.log", 0)))), wanted["log_batches"], "{voters}");
        let state: Value = serde_json::from_slice(&read(&disk, &path("quorum-state"))).unwrap();
        assert_eq!(state, wanted["quorum-state"], "{voters}");
        for (name, control) in wanted["control"].as_object().unwrap() {
            let rows = control.as_array().unwrap().iter();
            let rows = rows.map(|row| json!([row["offset"], row["key_version"], row["type"], row["value"]]));
            assert_eq!(
                control_records(read(&disk, &path(name))),
                rows.collect::<Value>(),
                "{voters}: {name}"
            );
        }
    }
}

/// Groups and transactional ids live in the partitions where Kafka looked for them.
#[test]
fn ids_live_where_kafka_looks_for_them() {
    let expected = expected();
    let partition_of = expected["partition_of"].as_object().unwrap();
    for (id, partition) in partition_of {
        assert_eq!(json!(partition_for(id, 50).0), *partition, "{id}");
    }
    assert!(partition_of.len() > 50);
}
