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

/// The topics of the cluster that wrote the log, as far as its offsets name them.
fn existing() -> Arc<Topics> {
    let decoded = records().into_iter().filter_map(|(_, key, value)| {
        match GroupRecord::decode(key.as_ref(), value.as_ref()).expect("well-formed") {
            Some(GroupRecord::OffsetCommit { topic, value: Some(value), .. }) => {
                Some((topic, TopicFacts { id: value.topic_id, partition_count: 2 }))
            }
            Some(_) | None => None,
        }
    });
    Arc::new(Topics::new(1, decoded.filter(|(_, facts)| !facts.id.is_zero())))
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
                existing: existing(),
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

/// A consumer's member is stable at 0, and so on; groups of Kafka Streams, whose states begin at 1, are not read as such
/// (storage-formats trap 26).
#[test]
fn a_stable_member_has_state_0() {
    /// Behind the value's version and two epochs.
    const STATE_AT: usize = 2 + 4 + 4;
    let mut states = Vec::new();
    for (_, key, value) in records() {
        let decoded = GroupRecord::decode(key.as_ref(), value.as_ref()).unwrap();
        let Some(record) = decoded else { continue };
        let GroupRecord::CurrentAssignment { value: Some(current), .. } = &record else {
            continue;
        };
        let wanted = match value.unwrap()[STATE_AT] {
            0 => MemberState::Stable,
            1 => MemberState::UnrevokedPartitions,
            2 => MemberState::UnreleasedPartitions,
            other => panic!("Kafka has no state {other}"),
        };
        assert_eq!(current.state, wanted);
        let written = record.encode().1.unwrap();
        states.push(written[STATE_AT]);
        assert_eq!(written[STATE_AT], wanted as u8);
    }
    assert!(states.contains(&0) && states.len() > 5, "{states:?}");
    let streams = records().into_iter().filter(|(_, key, _)| (17..=23).contains(&key.as_ref().unwrap()[1]));
    let read: Vec<_> =
        streams.map(|(_, key, value)| GroupRecord::decode(key.as_ref(), value.as_ref()).unwrap()).collect();
    assert!(!read.is_empty() && read.iter().all(Option::is_none));
}

/// Committed offsets of every version are read: 1 with an expiry, 3 with a leader epoch, 4 with the topic's id in a tag, among
/// tags that are not known. A later version is not guessed at (storage-formats trap 28, §17).
#[test]
fn offsets_of_every_version_are_read() {
    const KEY: &[u8] = b"\0\x01\0\x01g\0\x06orders\0\0\0\0";
    const TIME: [u8; 8] = 1_700_000_000_000i64.to_be_bytes();
    let id: Vec<u8> = (0..16).collect();
    let offset = 42i64.to_be_bytes();
    let (no_metadata, epoch) = ([0, 0], 5i32.to_be_bytes());
    let expiry = 1_700_000_000_009i64.to_be_bytes();
    let version_1 = [&[0, 1][..], &offset, &no_metadata, &TIME, &expiry].concat();
    let version_3 = [&[0, 3][..], &offset, &epoch, &no_metadata, &TIME].concat();
    let version_4 = [&[0, 4][..], &offset, &epoch, &[1], &TIME, &[1, 0, 16], &id].concat();
    let with_others = [&[0, 4][..], &offset, &epoch, &[1], &TIME, &[2, 0, 16], &id, &[9, 2, 7, 7]].concat();
    let later = [&[0, 5][..], &version_4[2..]].concat();
    let read = |value: &[u8]| {
        let value = Bytes::copy_from_slice(value);
        GroupRecord::decode(Some(&Bytes::from_static(KEY)), Some(&value)).unwrap()
    };
    let id = Uuid::from_u128(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f);
    for (bytes, epoch, topic_id) in [
        (&version_1, -1, Uuid::ZERO),
        (&version_3, 5, Uuid::ZERO),
        (&version_4, 5, id),
        (&with_others, 5, id),
    ] {
        let Some(GroupRecord::OffsetCommit { value: Some(found), partition, .. }) = read(bytes) else {
            panic!("{bytes:?}")
        };
        assert_eq!((found.offset.0, found.leader_epoch.0, found.topic_id), (42, epoch, topic_id));
        assert_eq!((found.commit_timestamp, partition), (Millis(1_700_000_000_000), PartitionIndex(0)));
        assert_eq!(found.expire_timestamp.is_some(), bytes[1] == 1);
    }
    for bytes in [&version_3, &version_4] {
        let written = read(bytes).unwrap().encode().1.unwrap();
        // Version 4 is what is written: without an id it has no tags.
        assert_eq!(written[1], 4);
        assert_eq!(GroupRecord::decode(Some(&Bytes::from_static(KEY)), Some(&written)).unwrap(), read(bytes));
    }
    assert_eq!(read(&later), None);
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
