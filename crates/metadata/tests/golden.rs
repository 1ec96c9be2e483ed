//! What Apache Kafka 4.4.0 wrote into metadata logs and snapshots: every record is read, written again to the same bytes,
//! and folded into the image that Kafka's own snapshots hold.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_coordinator::{LogPosition, Shard, Token};
use fencepost_metadata::image::{BrokerEpoch, ConfigResource, Endpoint, LeaderRecoveryState, ResourceType};
use fencepost_metadata::quorum::{QuorumState, parse_checkpoint_file_name};
use fencepost_metadata::{
    Controller, Delta, Image, ImageFold, MetadataRecord, Request, SnapshotWriter, StaticConfig,
    VersionedRecord, read_snapshot, snapshot_time,
};
use fencepost_records::{Batch, Batches};
use fencepost_types::{BrokerId, LeaderEpoch, Millis, Now, Offset, ProducerId, Uuid};
use serde_json::Value;

/// `handed-over` is a log that this controller began and that Kafka 4.4.0 went on with and stopped cleanly.
const SETS: [&str; 4] = ["static-voters", "dynamic-voters", "data-dir", "handed-over"];

fn folder(set: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/golden").join(set)
}

fn bytes_of(set: &str, file: &str) -> Bytes {
    fs::read(folder(set).join(file)).unwrap().into()
}

fn batches(bytes: Bytes) -> Vec<Batch> {
    Batches::new(bytes).map(|batch| batch.unwrap()).collect()
}

fn log(set: &str) -> Vec<Batch> {
    batches(bytes_of(set, "00000000000000000000.log"))
}

fn checkpoints(set: &str) -> Vec<(String, Bytes)> {
    let mut names: Vec<String> = fs::read_dir(folder(set))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".checkpoint"))
        .collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), bytes_of(set, &name))).collect()
}

fn values(batch: &Batch) -> Vec<(Offset, Bytes)> {
    if batch.header().is_control() {
        return Vec::new();
    }
    let base = batch.base_offset();
    batch
        .records()
        .unwrap()
        .map(|record| record.unwrap())
        .map(|record| (base.plus(i64::from(record.offset_delta)), record.value.unwrap()))
        .collect()
}

fn fold_of(batches: &[Batch]) -> ImageFold {
    let mut fold = ImageFold::default();
    for batch in batches {
        batch.verify_crc().unwrap();
        fold.replay_batch(batch).unwrap();
    }
    fold
}

/// Every record of every golden log and snapshot is read, and written to the bytes that it came from (cluster §6.1).
#[test]
fn records_are_written_to_the_same_bytes() {
    let mut count = 0;
    for set in SETS {
        let snapshots = checkpoints(set).into_iter().flat_map(|(_, bytes)| batches(bytes));
        for batch in log(set).into_iter().chain(snapshots) {
            for (offset, value) in values(&batch) {
                let record = VersionedRecord::from_value(&value).unwrap();
                assert_eq!(record.to_value(), value, "{set} at {offset}: {record:?}");
                count += 1;
            }
        }
    }
    assert!(count > 600, "{count} records");
}

/// The records are what Kafka's own decoder says: type, version and every field it prints.
#[test]
fn records_are_what_kafka_decodes() {
    for set in ["static-voters", "dynamic-voters"] {
        let expect: Value = serde_json::from_slice(&bytes_of(set, "expect.json")).unwrap();
        let mut no_ops = 0;
        let mut found = Vec::new();
        for (offset, value) in log(set).iter().flat_map(values) {
            let record = VersionedRecord::from_value(&value).unwrap();
            match record.record {
                MetadataRecord::NoOp(_) => no_ops += 1,
                _ => found.push((offset, record)),
            }
        }
        assert_eq!(no_ops, expect["no_ops"].as_i64().unwrap());
        let expected = expect["log"].as_array().unwrap();
        assert_eq!(found.len(), expected.len());
        for ((offset, record), expected) in found.iter().zip(expected) {
            assert_eq!(offset.0, expected["offset"].as_i64().unwrap());
            assert_eq!(i64::from(record.version), expected["version"].as_i64().unwrap(), "{record:?}");
            let name = expected["type"]
                .as_str()
                .unwrap()
                .trim_end_matches("_RECORD")
                .replace('_', "")
                .to_lowercase();
            assert_eq!(record.record.type_name().to_lowercase(), name);
            let shown = format!("{:?}", record.record);
            for (field, value) in expected["data"].as_object().unwrap() {
                assert_shows(&shown, field, value);
            }
        }
    }
}

/// Whether a record's debug form holds a field with that value; structs inside arrays are looked for by their fields.
fn assert_shows(shown: &str, field: &str, value: &Value) {
    let name: String = field.chars().fold(String::new(), |mut name, c| {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
        name
    });
    let texts: Vec<String> = match value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for item in items {
                item.as_object().unwrap().iter().for_each(|(field, value)| assert_shows(shown, field, value));
            }
            return;
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| item.to_string().replace('"', "")).collect();
            vec![format!("[{}]", items.join(", "))]
        }
        // Ids are shown without quotes.
        Value::String(text) => vec![format!("{text:?}"), text.clone()],
        other => vec![other.to_string()],
    };
    let is_shown = texts.iter().any(|text| {
        [format!("{name}: {text}"), format!("{name}: Some({text})")]
            .iter()
            .any(|wanted| shown.contains(wanted))
            || (value.is_null() && shown.contains(&format!("{name}: None")))
    });
    assert!(is_shown, "{name} is not {value} in {shown}");
}

/// The log folded up to a snapshot's end is the image that Kafka wrote into the snapshot (M1).
#[test]
fn folding_the_log_gives_kafkas_snapshots() {
    let batches = log("static-voters");
    let mut compared = 0;
    for (name, bytes) in checkpoints("static-voters") {
        let (end_offset, epoch) = parse_checkpoint_file_name(&name).unwrap();
        if end_offset == Offset(0) {
            continue;
        }
        let last = batches.iter().find(|batch| batch.header().next_offset() == end_offset).unwrap();
        assert_eq!(snapshot_time(bytes.clone()), Some(last.header().max_timestamp), "{name}");
        let kafkas = read_snapshot(bytes, end_offset, epoch).unwrap();
        let before: Vec<Batch> = batches.iter().filter(|b| b.last_offset() < end_offset).cloned().collect();
        assert_eq!(fold_of(&before).image(), &kafkas, "{name}");
        compared += 1;
    }
    assert_eq!(compared, 7);
}

/// The last image of the static set: what was done to it is in it, what was undone is not.
#[test]
fn the_static_set_has_what_was_done() {
    let fold = fold_of(&log("static-voters"));
    let image = fold.image();
    image.check();
    assert_eq!(image.offset(), Offset(308));
    assert_eq!(image.epoch(), LeaderEpoch(1));
    assert_eq!(image.metadata_version().unwrap().0, 33);
    assert_eq!(image.kraft_version(), 0);
    let names: Vec<String> = image.topics().iter().map(|topic| topic.name.to_string()).collect();
    assert_eq!(names, ["after-snapshot", "grown", "orders"]);
    let grown = image.topic_by_name("grown").unwrap();
    assert_eq!(grown.id, Uuid::parse("pYjk2Qf1Q4OEGSkxWGFNHQ").unwrap());
    assert_eq!(grown.partitions.len(), 3);
    let orders = ConfigResource::topic("orders");
    assert_eq!(image.configs().value(&orders, "retention.ms"), Some("1000"));
    assert_eq!(image.configs().value(&orders, "cleanup.policy"), None);
    let broker = ConfigResource::new(ResourceType::BROKER, "1");
    assert_eq!(image.configs().value(&broker, "log.cleaner.threads"), Some("2"));
    assert_eq!(image.configs().value(&ConfigResource::all_brokers(), "message.max.bytes"), Some("2000000"));
    assert_eq!(image.next_producer_id(), ProducerId(1_000));
    assert_eq!(image.client_quotas().values().next().unwrap()["producer_byte_rate"].get(), 1_048_576.0);
    assert!(!image.is_alive(BrokerId(1)), "it was stopped");
}

/// A clean stop leaves partitions without a leader, with the last one eligible (storage-formats §15).
#[test]
fn a_stopped_node_has_no_leaders() {
    let fold = fold_of(&log("data-dir"));
    let partition = fold.image().partition("events", 0).unwrap();
    assert_eq!(partition.leader, BrokerId::NONE);
    assert!(partition.isr.is_empty());
    assert_eq!(partition.eligible_leader_replicas, [BrokerId(1)]);
    assert_eq!(partition.last_known_elr, [BrokerId(1)]);
    assert_eq!(partition.leader_recovery_state, LeaderRecoveryState::Recovered);
    assert_eq!(fold.image().broker(BrokerId(1)).unwrap().epoch, BrokerEpoch(22));
    assert!(fold.image().topic_by_name("deleted").is_none());
}

/// Control records say the level of kraft.version and the voters (cluster §5.5).
#[test]
fn voters_come_from_control_records() {
    let fold = fold_of(&log("dynamic-voters"));
    assert_eq!(fold.image().kraft_version(), 1);
    let [voter] = fold.image().voters() else { panic!("one voter") };
    assert_eq!(voter.id, BrokerId(1));
    assert_eq!(voter.directory_id, Uuid::parse("g4pOInyTRUWRjbARiNYuTg").unwrap());
    assert_eq!((voter.endpoints[0].listener.as_str(), voter.endpoints[0].port), ("CONTROLLER", 20601));
    assert_eq!(fold.next_offset(), fold.image().offset().next());
}

/// Both forms of `quorum-state` are read, and written to the same text.
#[test]
fn quorum_state_is_kafkas_text() {
    for set in SETS {
        let text = String::from_utf8(bytes_of(set, "quorum-state").to_vec()).unwrap();
        let state = QuorumState::parse(&text).unwrap();
        assert_eq!(state.leader_id, BrokerId(1));
        assert_eq!(state.static_voters.is_none(), ["dynamic-voters", "handed-over"].contains(&set));
        assert_eq!(state.to_json(), text, "{set}");
    }
}

/// A snapshot of ours, read back, is the image it was made of; its control batches are Kafka's.
#[test]
fn snapshots_of_ours_read_back() {
    for set in SETS {
        let image = fold_of(&log(set)).image().clone();
        let written: Vec<Batch> = SnapshotWriter::new(image.clone(), Millis(7)).collect();
        let bytes: Vec<u8> = written.iter().flat_map(|batch| batch.bytes().to_vec()).collect();
        let read = read_snapshot(bytes.clone().into(), image.offset().next(), image.epoch()).unwrap();
        assert_eq!(read, image, "{set}");
        assert!(Delta::between(&image, &read).is_empty());
        assert_eq!(snapshot_time(written[0].bytes().clone()), Some(Millis(7)));
        let cut = written.iter().take(written.len() - 1).flat_map(|batch| batch.bytes().to_vec());
        let cut: Vec<u8> = cut.collect();
        assert!(
            read_snapshot(cut.into(), Offset(1), LeaderEpoch(1)).is_err(),
            "without a footer it is incomplete"
        );
    }
}

/// The record of a snapshot's features comes first, metadata.version before all others.
#[test]
fn a_snapshot_begins_with_the_level() {
    let image = fold_of(&log("static-voters")).image().clone();
    let records = image.to_records();
    let MetadataRecord::FeatureLevel(first) = &records[0].record else { panic!("{:?}", records[0]) };
    assert_eq!(first.name, "metadata.version");
}

fn ask(controller: &mut Controller, request: &Request) {
    let decision = controller.decide(Now::default(), Token(0), request).unwrap();
    for record in decision.records {
        let at = LogPosition::plain(controller.next_offset());
        controller.replay(at, &record);
    }
    assert_eq!(controller.failure(), None);
    controller.check();
}

fn registration(previous_epoch: i64) -> Request {
    Request::RegisterBroker(fencepost_metadata::controller::RegisterBroker {
        incarnation_id: Uuid::from_random(77),
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".into(),
            host: "127.0.0.1".into(),
            port: 9092,
            security_protocol: 0,
        }],
        rack: None,
        directories: vec![Uuid::from_random(78)],
        previous_epoch: BrokerEpoch(previous_epoch),
    })
}

/// A directory that Kafka stopped cleanly is taken over: every partition is led again, from the eligible leader replicas,
/// two leader epochs after the last leadership (storage-formats §7.6). After a crash it is the last known leader who
/// leads.
#[test]
fn a_node_of_kafkas_is_taken_over() {
    for (set, previous_epoch) in
        [("data-dir", 22), ("data-dir", -1), ("static-voters", 27), ("dynamic-voters", 20)]
    {
        let mut controller = Controller::new(BrokerId(1), Arc::new(StaticConfig::default()));
        log(set).iter().for_each(|batch| controller.replay_batch(batch).unwrap());
        let before: Image = controller.image().clone();
        let epoch = controller.next_offset().0;
        ask(&mut controller, &registration(previous_epoch));
        assert_eq!(controller.image().broker(BrokerId(1)).unwrap().epoch, BrokerEpoch(epoch));
        ask(&mut controller, &Request::UnfenceBroker);
        let changes = Delta::between(&before, controller.image()).local_changes(BrokerId(1));
        assert!(changes.followers.is_empty() && changes.deleted.is_empty());
        for change in &changes.leaders {
            let (old, new) = (change.partition.old.as_ref().unwrap(), &change.partition.new);
            assert!(change.elected);
            assert_eq!(new.leader_epoch.0, old.leader_epoch.0 + 1, "the stop raised it by the other one");
            assert_eq!(new.isr, [BrokerId(1)]);
            assert!(new.eligible_leader_replicas.is_empty() && new.last_known_elr.is_empty());
        }
        let partitions: usize = controller.image().topics().iter().map(|topic| topic.partitions.len()).sum();
        assert_eq!(changes.leaders.len(), partitions);
    }
}

/// A node is given to Kafka and taken back: each stop and each start counted one leader epoch, the level and what we
/// wrote stayed (cluster §23).
#[test]
fn a_node_is_handed_over_and_taken_back() {
    let fold = fold_of(&log("handed-over"));
    let image = fold.image();
    assert_eq!((image.metadata_version().unwrap().0, image.kraft_version()), (27, 1));
    assert_eq!(image.epoch(), LeaderEpoch(2), "we began the first epoch, Kafka the second");
    assert_eq!(image.next_producer_id(), ProducerId(1_000));
    let orders = ConfigResource::topic("orders");
    assert_eq!(image.configs().value(&orders, "cleanup.policy"), Some("compact"));
    let partition = image.partition("orders", 2).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch), (BrokerId::NONE, LeaderEpoch(3)));
    assert_eq!(partition.isr, [BrokerId(1)], "without eligible leader replicas the last member stays");
}
