//! Committed offsets over the wire: every version, and the moment in which those of a transaction count.

use fencepost_protocol::messages::{
    DeleteTopicsRequest, OffsetCommitRequest, OffsetFetchRequest, offset_fetch_request,
};
use fencepost_types::{ErrorCode, Uuid};

use crate::harness::requests::{commit_offset, committed_offset, marker, write_markers};
use crate::harness::{Client, Producer, World};

fn commit(id: Uuid, offset: i64) -> OffsetCommitRequest {
    let mut request = commit_offset("g", offset);
    request.topics[0].topic_id = id;
    request
}

/// The offset of partition 0 of `t`, as this version tells it.
fn fetched(client: &Client, version: i16, id: Uuid) -> i64 {
    let (group_id, name) = ("g".to_owned(), "t".to_owned());
    if version < 8 {
        let topics = vec![offset_fetch_request::Topics { name, partition_indexes: vec![0] }];
        let request = OffsetFetchRequest { group_id, topics: Some(topics), ..Default::default() };
        return client.ask(version, &request).topics[0].partitions[0].committed_offset;
    }
    let topic = offset_fetch_request::GroupsTopics { name, topic_id: id, partition_indexes: vec![0] };
    let group = offset_fetch_request::Groups {
        group_id,
        member_id: None,
        member_epoch: -1,
        topics: Some(vec![topic]),
    };
    let answer = client.ask(version, &OffsetFetchRequest { groups: vec![group], ..Default::default() });
    let topic = &answer.groups[0].topics[0];
    if version >= 10 {
        assert_eq!(topic.topic_id, id);
    }
    topic.partitions[0].committed_offset
}

/// Wire-apis §1: OffsetCommit 2 to 10 and TxnOffsetCommit 0 to 6 write what OffsetFetch 1 to 10 reads, the last of each by the
/// topic's id alone.
#[test]
fn every_version_commits_and_fetches() {
    let world = World::new();
    let id = world.create_topic("t", 1);
    let client = world.client();
    for version in 2..=10 {
        let answer = client.ask(version, &commit(id, i64::from(version)));
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "OffsetCommit {version}");
        for reading in 1..=10 {
            assert_eq!(fetched(&client, reading, id), i64::from(version), "OffsetFetch {reading}");
        }
    }
    let producer = Producer::start(world.client(), "x");
    for version in 0..=6 {
        if version < 5 {
            let request = fencepost_protocol::messages::AddOffsetsToTxnRequest {
                transactional_id: "x".to_owned(),
                producer_id: producer.id.get().0,
                producer_epoch: producer.id.get().1,
                group_id: "g".to_owned(),
            };
            assert_eq!(producer.client.ask(3, &request).error_code, 0);
        }
        let mut request = producer.offset_request("g", "t", 100 + i64::from(version));
        request.generation_id_or_member_epoch = -1;
        request.topics[0].topic_id = id;
        let answer = producer.client.ask(version, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "TxnOffsetCommit {version}");
        producer.end(if version < 5 { 4 } else { 5 }, true);
        assert_eq!(committed_offset(&world.client(), "g", "t", true), (100 + i64::from(version), 0));
    }
}

/// KAFKA-17507, `coordinator §11.4`: a marker is answered when the offsets of its transaction are there for everyone, and not
/// before it is durable; until then they are unstable, and a reader of the last stable ones is told so.
#[test]
fn a_marker_is_answered_when_its_offsets_are_there() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    let mut request = producer.offset_request("g", "t", 5);
    request.generation_id_or_member_epoch = -1;
    assert_eq!(producer.client.ask(5, &request).topics[0].partitions[0].error_code, 0);
    let unstable = ErrorCode::UnstableOffsetCommit.code();
    assert_eq!(committed_offset(&world.client(), "g", "t", true), (-1, unstable));
    assert_eq!(committed_offset(&world.client(), "g", "t", false), (-1, 0));
    let both = [("__consumer_offsets", 0), ("__consumer_offsets", 1)];
    let sender = world.client();
    let answered = sender.send(2, &write_markers(vec![marker(producer.id.get(), true, 0, &both)]));
    assert!(!answered.is_done(), "a marker that is not durable is not answered");
    world.sync_until(|| answered.is_done());
    // On the tick of the answer, without another sync.
    let reader = world.client();
    let groups = offset_fetch_request::Groups {
        group_id: "g".to_owned(),
        member_epoch: -1,
        topics: Some(vec![offset_fetch_request::GroupsTopics {
            name: "t".to_owned(),
            partition_indexes: vec![0],
            ..Default::default()
        }]),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![groups], require_stable: true, ..Default::default() };
    let read = reader.send(9, &request);
    assert!(read.is_done(), "nothing is waited for any more");
    let row = read.answer().groups[0].topics[0].partitions[0].clone();
    assert_eq!((row.committed_offset, row.error_code), (5, 0));
    world.settle();
}

/// Issue 12, A4: a crash comes between a deletion and the tombstones of its offsets. The next start writes them, for offsets that
/// are committed and for those of an open transaction, and leaves the others.
#[test]
fn the_tombstones_that_a_crash_prevented_are_written_at_the_start() {
    let world = World::new();
    world.create_topic("t", 1);
    world.create_topic("kept", 1);
    let client = world.client();
    assert_eq!(client.ask(9, &commit_offset("g", 5)).topics[0].partitions[0].error_code, 0);
    let producer = Producer::start(world.client(), "x");
    for (topic, offset) in [("t", 6), ("kept", 7)] {
        let answer = producer.client.ask(5, &producer.offset_request("h", topic, offset));
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    }
    let logs_before = world.log_ends("__consumer_offsets");
    let deletion =
        DeleteTopicsRequest { topic_names: vec!["t".to_owned()], timeout_ms: 1_000, ..Default::default() };
    let asked = world.client().send(5, &deletion);
    // The record of the deletion is written and the process dies before anything follows from it.
    assert!(!asked.is_done());
    drop((asked, client));
    world.restart();
    world.settle();
    let written: i64 =
        world.log_ends("__consumer_offsets").iter().sum::<i64>() - logs_before.iter().sum::<i64>();
    assert_eq!(written, 2, "a tombstone for each group's offset of the topic");
    assert_eq!(
        committed_offset(&world.client(), "h", "kept", true),
        (-1, ErrorCode::UnstableOffsetCommit.code())
    );
    world.restart();
    world.settle();
    let again: i64 =
        world.log_ends("__consumer_offsets").iter().sum::<i64>() - logs_before.iter().sum::<i64>();
    assert_eq!(again, 2, "there is nothing left to write");
}
