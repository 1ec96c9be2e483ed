//! A partition of `__consumer_offsets` that Kafka 4.4.0 wrote: every kind of record that a group leaves, transactional
//! commits with their markers, and records of groups that are not ours to read.

use std::sync::Arc;

use bytes::Bytes;
use fencepost_coordinator::{LogPosition, Record, Shard, Token};
use fencepost_group::*;
use fencepost_records::{Batch, Batches, EndTxnMarker};
use fencepost_types::{ErrorCode, Millis, Nanos, Now, PartitionIndex, Uuid};

const LOG: &[u8] = include_bytes!("../testdata/kafka-4.4.0-consumer-offsets.log");
const OFFSET_FETCH: &str = include_str!("../testdata/kafka-4.4.0-offset-fetch.txt");
/// Just after the last record of the log.
const NOW: Now = Now { wall: Millis(1_795_994_730_000), mono: Nanos(1_000) };

fn position(batch: &Batch, delta: i32) -> LogPosition {
    let header = batch.header();
    LogPosition {
        offset: header.base_offset.plus(i64::from(delta)),
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        is_transactional: header.attributes.is_transactional(),
    }
}

fn batches() -> impl Iterator<Item = Batch> {
    Batches::new(Bytes::from_static(LOG)).map(|batch| batch.expect("Kafka's batches can be read"))
}

/// Every record of data batches: its position, key and value.
fn records() -> Vec<(LogPosition, Option<Bytes>, Option<Bytes>)> {
    let mut records = Vec::new();
    for batch in batches().filter(|batch| !batch.header().attributes.is_control()) {
        for record in batch.records().expect("not compressed") {
            let record = record.expect("Kafka's records can be read");
            records.push((position(&batch, record.offset_delta), record.key, record.value));
        }
    }
    records
}

fn loaded() -> GroupShard {
    let mut shard = GroupShard::new(Arc::new(GroupConfig::default()));
    for batch in batches() {
        if let Some(marker) = EndTxnMarker::from_batch(&batch).expect("a control batch can be read") {
            shard.replay_marker(position(&batch, 0), marker.result);
            continue;
        }
        for record in batch.records().expect("not compressed") {
            let record = record.expect("Kafka's records can be read");
            let at = position(&batch, record.offset_delta);
            let decoded = GroupRecord::decode(record.key.as_ref(), record.value.as_ref());
            if let Some(decoded) = decoded.expect("Kafka's records are well-formed") {
                shard.replay(at, &decoded);
            }
        }
        shard.check();
    }
    shard
}

fn reply(shard: &GroupShard, request: &Request) -> Reply {
    let mut decision = shard.decide(NOW, Token(1), request).expect("the request is accepted");
    decision.replies.remove(0).1
}

/// storage-formats §13: what Kafka wrote is read and written back byte for byte. Share and streams groups are skipped.
/// Within an assignment Kafka's order of topics is that of a hash map, so there only the meaning is compared.
#[test]
fn records_are_written_as_kafka_writes_them() {
    let (mut ours, mut skipped) = (0, 0);
    for (at, key, value) in records() {
        let kind = i16::from_be_bytes([key.as_ref().unwrap()[0], key.as_ref().unwrap()[1]]);
        let decoded = GroupRecord::decode(key.as_ref(), value.as_ref()).expect("well-formed");
        let Some(decoded) = decoded else {
            assert!((10..=15).contains(&kind) || (17..=23).contains(&kind), "type {kind} at {}", at.offset);
            skipped += 1;
            continue;
        };
        ours += 1;
        let written = decoded.encode();
        if matches!(kind, 7 | 8) && value.is_some() {
            let again = GroupRecord::decode(written.0.as_ref(), written.1.as_ref());
            assert_eq!(again, Ok(Some(decoded)), "at {}", at.offset);
            assert_eq!(
                written.1.map(|value| value.len()),
                value.map(|value| value.len()),
                "at {}",
                at.offset
            );
        } else {
            assert_eq!(written, (key, value), "at {}", at.offset);
        }
    }
    assert_eq!((ours, skipped), (118, 18));
}

/// Offsets after the log: committed, aborted, still pending, overtaken (coordinator trap 31), deleted.
#[test]
fn offsets_are_those_of_kafka() {
    let shard = loaded();
    let lines = OFFSET_FETCH.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (topic, partition) = words[1].rsplit_once('-').unwrap();
        for (require_stable, expected) in [(false, words[2]), (true, words[3])] {
            let asked = TopicPartitions {
                topic: topic.into(),
                topic_id: Uuid::ZERO,
                partitions: vec![PartitionIndex(partition.parse().unwrap())],
            };
            let request = Request::OffsetFetch(OffsetFetch {
                group: words[0].into(),
                member_id: None,
                member_epoch: -1,
                topics: Some(vec![asked]),
                require_stable,
            });
            let Reply::Fetch(topics) = reply(&shard, &request) else { panic!("offsets are answered") };
            let found = &topics[0].partitions[0];
            let shown = match found.error {
                ErrorCode::None => found.offset.to_string(),
                error => error.to_string(),
            };
            assert_eq!(shown, expected, "{line} stable={require_stable}");
        }
    }
}

/// The groups after the log, their types and states. (Kafka's streams group is unknown here but for its offsets.)
#[test]
fn groups_are_those_of_kafka() {
    let Reply::List(groups) = reply(&loaded(), &Request::ListGroups(ListGroups::default())) else {
        panic!("groups are listed")
    };
    let shown: Vec<String> =
        groups.iter().map(|group| format!("{}:{}:{}", group.group, group.group_type, group.state)).collect();
    let transactional = shown.iter().filter(|group| group.starts_with("by-txn-")).count();
    assert_eq!(transactional, 10);
    let others: Vec<&str> =
        shown.iter().map(String::as_str).filter(|group| !group.starts_with("by-txn-")).collect();
    assert_eq!(
        others,
        [
            "classic:classic:Stable",
            "classic-static:classic:Stable",
            "migrating:consumer:Reconciling",
            "modern:consumer:Stable",
            "modern-pattern:consumer:Stable",
            "modern-static:consumer:Reconciling",
            "old-requests:classic:Empty",
            "standalone:classic:Empty",
        ]
    );
}

/// wire-apis trap 29: no bytes in the log make the decoder panic.
#[test]
fn no_bytes_make_the_decoder_panic() {
    for (_, key, value) in records() {
        let (key, value) = (key.unwrap(), value.unwrap_or_default());
        for cut in 0..key.len() {
            let _ = GroupRecord::decode(Some(&key.slice(..cut)), Some(&value));
        }
        for cut in 0..value.len() {
            let _ = GroupRecord::decode(Some(&key), Some(&value.slice(..cut)));
            let mut flipped = value.to_vec();
            flipped[cut] ^= 0xff;
            let _ = GroupRecord::decode(Some(&key), Some(&Bytes::from(flipped)));
        }
    }
    assert!(GroupRecord::decode(None, None).is_err());
}
