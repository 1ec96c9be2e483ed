//! The whole log directory of a node that Kafka stopped cleanly, with two transactions open.

use bytes::Bytes;
use fencepost_protocol::messages::{
    DescribeConfigsRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest, describe_configs_request,
    produce_request,
};
use fencepost_records::BatchBuilder;
use fencepost_types::{LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence};
use serde_json::{Value, json};

use crate::archive;
use crate::node::{Node, READ_COMMITTED, READ_UNCOMMITTED};

const SET: &str = "data-dir";
/// Produce from this version on adds the partition to the transaction; EndTxn from 5 on raises the epoch.
const PRODUCE_TV2: i16 = 12;
const PRODUCE_TV1: i16 = 11;
const END_TV2: i16 = 5;
const END_TV1: i16 = 4;
const CONCURRENT_TRANSACTIONS: i16 = 51;

fn as_of(expected: &Value) -> i64 {
    expected["as_of_ms"].as_i64().unwrap()
}

fn served(expected: &Value) -> Node {
    Node::start(archive::disk(SET, ""), as_of(expected))
}

/// Everything that Kafka said of its own directory, asked of this broker.
fn check_all(node: &Node, expected: &Value) {
    for (name, wanted) in expected["partitions"].as_object().unwrap() {
        let (topic, partition) = name.rsplit_once('-').unwrap();
        let partition = partition.parse().unwrap();
        let mut view = node.view(topic, partition);
        if wanted.get("read_committed").is_some() {
            view["read_committed"] = json!(node.consume(topic, partition, READ_COMMITTED));
            view["read_uncommitted"] = json!(node.consume(topic, partition, READ_UNCOMMITTED));
        }
        assert_eq!(view, *wanted, "{name}");
    }
    for (group, wanted) in expected["groups"].as_object().unwrap() {
        let offsets = node.offsets(group, "events", &[0, 1]);
        for (partition, row) in wanted.as_object().unwrap() {
            assert_eq!(row[0], "NONE");
            assert_eq!(offsets[partition], (0, row[1].as_i64().unwrap()), "{group} {partition}");
        }
    }
    for (transactional_id, wanted) in expected["transactions"].as_object().unwrap() {
        assert_eq!(node.transaction(transactional_id), *wanted, "{transactional_id}");
    }
}

/// A directory that Kafka stopped cleanly is served: offsets, stable offsets, producers, what each kind of reader reads,
/// groups, transactions. So it is after a kill, after a clean stop, and without the mark of the clean stop (storage-formats
/// §8, §10, §15).
#[test]
fn kafkas_directory_is_served() {
    let expected = archive::expected(SET);
    let node = served(&expected);
    check_all(&node, &expected);
    let node = Node::start(node.kill(), as_of(&expected));
    check_all(&node, &expected);
    let node = Node::start(node.stop(), as_of(&expected));
    check_all(&node, &expected);
    node.stop();

    let disk = archive::disk(SET, "");
    fencepost_storage::Disk::remove(&disk, ".kafka_cleanshutdown").unwrap();
    check_all(&Node::start(disk, as_of(&expected)), &expected);
}

/// Topics with their ids, and settings; every partition is led by this node, two leader epochs after Kafka's last
/// (storage-formats §7.6). Deleted topics are gone, and nothing is taken for a stray.
#[test]
fn topics_and_configs_are_kafkas() {
    let expected = archive::expected(SET);
    let node = served(&expected);
    let metadata = node.metadata();
    assert_eq!(metadata.cluster_id.as_deref(), Some("ZmVuY2Vwb3N0LXBlZXIwMAo"));
    let topics: Vec<(String, usize)> =
        metadata.topics.iter().map(|topic| (topic.name.clone().unwrap(), topic.partitions.len())).collect();
    let wanted = [
        ("__consumer_offsets", 3),
        ("__transaction_state", 3),
        ("compacted", 1),
        ("empty", 1),
        ("events", 2),
        ("trimmed", 1),
        ("txns", 1),
    ];
    assert_eq!(topics, wanted.map(|(name, count)| (name.to_owned(), count)));
    for topic in &metadata.topics {
        for partition in &topic.partitions {
            assert_eq!((partition.leader_id, partition.leader_epoch), (1, 2), "{:?}", topic.name);
            assert_eq!(partition.isr_nodes, [1]);
        }
        let path = format!("{}-0/partition.metadata", topic.name.as_deref().unwrap());
        let text = archive::read_text(&node.disk, &path).unwrap();
        assert_eq!(text, format!("version: 0\ntopic_id: {}", topic.topic_id));
    }
    let config = |topic: &str, key: &str| {
        let resource = describe_configs_request::Resources {
            resource_type: 2,
            resource_name: topic.to_owned(),
            configuration_keys: Some(vec![key.to_owned()]),
        };
        let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
        node.ask(4, &request).results[0].configs[0].value.clone().unwrap()
    };
    assert_eq!(config("events", "retention.ms"), "-1");
    assert_eq!(config("compacted", "cleanup.policy"), "compact");
    assert_eq!(config("compacted", "min.cleanable.dirty.ratio"), "0.01");
    let directories = archive::directories(&node.disk);
    assert!(
        !directories.iter().any(|name| name.contains("stray") || name.contains("deleted")),
        "{directories:?}"
    );
}

fn batch(producer: (i64, i16), base_sequence: i32, time: i64, values: &[&str]) -> Bytes {
    let (id, epoch) = (ProducerId(producer.0), ProducerEpoch(producer.1));
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE)
        .producer(id, epoch, Sequence(base_sequence))
        .transactional(true);
    for value in values {
        builder.append(Millis(time), None, Some(value.as_bytes()), &[]);
    }
    builder.build().unwrap().into_bytes()
}

/// Produces within a transaction; answers code and base offset.
fn produce(
    node: &Node,
    version: i16,
    transactional_id: &str,
    producer: (i64, i16),
    base_sequence: i32,
    values: &[&str],
) -> (i16, i64) {
    let records = batch(producer, base_sequence, node.wall_ms(), values);
    let request = ProduceRequest {
        transactional_id: Some(transactional_id.to_owned()),
        acks: -1,
        timeout_ms: 1_000,
        topic_data: vec![produce_request::TopicData {
            name: "txns".to_owned(),
            partition_data: vec![produce_request::PartitionData { index: 0, records: Some(records) }],
            ..Default::default()
        }],
    };
    let answer = node.ask(version, &request);
    let row = &answer.responses[0].partition_responses[0];
    (row.error_code, row.base_offset)
}

/// Ends a transaction; answers the producer's id and epoch from here on.
fn end(
    node: &Node,
    version: i16,
    transactional_id: &str,
    producer: (i64, i16),
    committed: bool,
) -> (i64, i16) {
    let request = EndTxnRequest {
        transactional_id: transactional_id.to_owned(),
        producer_id: producer.0,
        producer_epoch: producer.1,
        committed,
    };
    let answer = node.ask(version, &request);
    assert_eq!(answer.error_code, 0, "{answer:?}");
    (answer.producer_id, answer.producer_epoch)
}

/// The transactions that were open under Kafka are gone on with here and end: one commits, one aborts, and the last stable
/// offset follows. A batch that Kafka has acknowledged is known to be a repetition.
#[test]
fn open_transactions_go_on() {
    const OPEN_AT: i64 = 20;
    let expected = archive::expected(SET);
    let node = served(&expected);
    let (tv1, tv2) = ((3, 0), (4, 0));

    // What Kafka has in its log is not written again (producer-state §5).
    assert_eq!(produce(&node, PRODUCE_TV2, "open-tv2", tv2, 0, &["open", "still"]), (0, 22));
    assert_eq!(node.view("txns", 0)["high_watermark"], 24);
    // Neither is a gap taken.
    assert_eq!(produce(&node, PRODUCE_TV2, "open-tv2", tv2, 9, &["gap"]).0, 45);

    assert_eq!(produce(&node, PRODUCE_TV2, "open-tv2", tv2, 2, &["and on"]), (0, 24));
    assert_eq!(produce(&node, PRODUCE_TV1, "open-tv1", tv1, 2, &["and on", "and gone"]), (0, 25));
    assert_eq!(end(&node, END_TV2, "open-tv2", tv2, true), (4, 1));
    // The other one is older and still open.
    assert_eq!(node.view("txns", 0)["last_stable_offset"], OPEN_AT);

    let node = Node::start(node.stop(), as_of(&expected));
    assert_eq!(node.view("txns", 0)["last_stable_offset"], OPEN_AT);
    end(&node, END_TV1, "open-tv1", tv1, false);
    let view = node.view("txns", 0);
    assert_eq!(view["last_stable_offset"], view["high_watermark"]);
    let mut wanted: Vec<(i64, String)> =
        serde_json::from_value(expected["partitions"]["txns-0"]["read_committed"].clone()).unwrap();
    wanted.extend([(22, "open"), (23, "still"), (24, "and on")].map(|(at, value)| (at, value.to_owned())));
    assert_eq!(node.consume("txns", 0, READ_COMMITTED), wanted);

    // Both go on with their next transactions; version 2 has raised the epoch.
    assert_eq!(produce(&node, PRODUCE_TV2, "open-tv2", tv2, 3, &["fenced"]).0, 47);
    assert_eq!(produce(&node, PRODUCE_TV2, "open-tv2", (4, 1), 0, &["next"]).0, 0);
    end(&node, END_TV2, "open-tv2", (4, 1), true);
    assert_eq!(node.consume("txns", 0, READ_COMMITTED).last().unwrap().1, "next");
}

/// A new instance of a producer fences the old one: its open transaction aborts, and the old epoch is refused.
#[test]
fn an_open_transaction_is_fenced() {
    let expected = archive::expected(SET);
    let node = served(&expected);
    for (transactional_id, id) in [("open-tv1", 3), ("open-tv2", 4)] {
        let request = InitProducerIdRequest {
            transactional_id: Some(transactional_id.to_owned()),
            transaction_timeout_ms: 60_000,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let mut answer = node.ask(5, &request);
        if answer.error_code == CONCURRENT_TRANSACTIONS {
            answer = node.ask(5, &request);
        }
        assert_eq!((answer.error_code, answer.producer_id), (0, id), "{answer:?}");
        assert!(answer.producer_epoch > 0, "{answer:?}");
        assert_eq!(produce(&node, PRODUCE_TV2, transactional_id, (id, 0), 2, &["late"]).0, 47);
    }
    let view = node.view("txns", 0);
    assert_eq!(view["last_stable_offset"], view["high_watermark"]);
    let wanted = &expected["partitions"]["txns-0"]["read_committed"];
    assert_eq!(json!(node.consume("txns", 0, READ_COMMITTED)), *wanted);
}

/// New producers get ids beyond the block that Kafka had taken: no id is handed out twice (M7).
#[test]
fn producer_ids_are_new() {
    let expected = archive::expected(SET);
    let node = served(&expected);
    let request = InitProducerIdRequest {
        transactional_id: None,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let answer = node.ask(5, &request);
    assert_eq!((answer.error_code, answer.producer_id, answer.producer_epoch), (0, 1_000, 0));
}

/// What nobody does anything to ends by its own timeout, counted from when it began under Kafka.
#[test]
fn open_transactions_time_out() {
    const TIMEOUT_MS: i64 = 900_000;
    let expected = archive::expected(SET);
    let node = Node::start(archive::disk(SET, ""), as_of(&expected) + TIMEOUT_MS);
    for transactional_id in ["open-tv1", "open-tv2"] {
        assert_eq!(node.transaction(transactional_id)["state"], "CompleteAbort");
    }
    let view = node.view("txns", 0);
    assert_eq!(view["last_stable_offset"], view["high_watermark"]);
}
