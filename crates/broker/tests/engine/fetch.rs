//! Fetch: what wakes a parked one, what it gives, sessions; ListOffsets beside it.

use fencepost_broker::Outcome;
use fencepost_protocol::messages::{
    DescribeProducersRequest, FetchRequest, describe_producers_request, fetch_request,
};
use fencepost_types::wire::Reader;
use fencepost_types::{ErrorCode, Uuid};

use crate::harness::requests::{
    READ_COMMITTED, READ_UNCOMMITTED, fetch, list_offsets, long_poll, produce, read,
};
use crate::harness::{Call, Client, Producer, World, plain_batch, values_of};

fn write(client: &Client, topic: &str, partition: i32, values: &[&str]) {
    let records = plain_batch(client.world().now().wall, values);
    let answer = client.ask(9, &produce(None, -1, vec![(topic, partition, records)]));
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0, "{answer:?}");
}

fn fetched(call: &Call<FetchRequest>) -> Vec<String> {
    let answer = call.answer();
    let rows = answer.responses.into_iter().flat_map(|topic| topic.partitions);
    rows.flat_map(|row| values_of(&row.records.unwrap())).collect()
}

/// A parked Fetch is woken by data as soon as that is acknowledged, not before.
#[test]
fn data_wakes_a_fetch_once_it_is_durable() {
    let world = World::new();
    world.create_topic("t", 1);
    let parked = world.client().send(12, &long_poll("t", 0, 0, READ_UNCOMMITTED, 5_000));
    let records = plain_batch(world.now().wall, &["a"]);
    let produced = world.client().send(9, &produce(None, -1, vec![("t", 0, records)]));
    assert!(!parked.is_done() && !produced.is_done());
    assert!(world.sync_one());
    assert!(produced.is_done());
    assert_eq!(fetched(&parked), ["a"]);
}

/// Wire-apis trap 13: a commit marker wakes a parked read_committed Fetch: no new data, and the last stable offset moves.
#[test]
fn a_commit_marker_wakes_a_fetch() {
    for version in [11, 12] {
        let world = World::new();
        world.create_topic("t", 1);
        let producer = Producer::start(world.client(), "x");
        if version == 11 {
            producer.add_partition("t", 0);
        }
        producer.produce(version, "t", 0, &["a"]);
        let parked = world.client().send(12, &long_poll("t", 0, 0, READ_COMMITTED, 5_000));
        world.settle();
        assert!(!parked.is_done(), "the transaction is open");
        producer.end(if version == 11 { 4 } else { 5 }, true);
        assert_eq!(fetched(&parked), ["a"]);
        assert_eq!(parked.answer().responses[0].partitions[0].last_stable_offset, 2);
    }
}

/// Wire-apis trap 12: when the wait is over, the answer is a success with what there is: nothing. Exactly then, and not
/// a tick before.
#[test]
fn a_wait_ends_with_an_empty_success() {
    let world = World::new();
    world.create_topic("t", 1);
    let parked = world.client().send(12, &long_poll("t", 0, 0, READ_UNCOMMITTED, 500));
    world.advance_ms(499);
    assert!(!parked.is_done());
    world.advance_ms(1);
    let answer = parked.answer();
    assert_eq!(answer.error_code, 0);
    let row = &answer.responses[0].partitions[0];
    assert_eq!(
        (row.error_code, row.high_watermark, row.last_stable_offset, row.log_start_offset),
        (0, 0, 0, 0)
    );
}

/// Wire-apis traps 10 and 11: an offset above the high watermark and not above the log end is not out of range; high
/// watermark, last stable offset and log start are there on the empty path, and −1 with an error.
#[test]
fn an_offset_up_to_the_log_end_is_in_range() {
    let world = World::new();
    world.create_topic("t", 1);
    write(&world.client(), "t", 0, &["a"]);
    let records = plain_batch(world.now().wall, &["b", "c"]);
    let produced = world.client().send(9, &produce(None, -1, vec![("t", 0, records)]));
    assert_eq!(world.log_ends("t"), [3]);
    let at = |offset: i64| {
        let call = world.client().send(12, &fetch("t", 0, offset, READ_UNCOMMITTED));
        call.answer().responses[0].partitions[0].clone()
    };
    for offset in [1, 2, 3] {
        let row = at(offset);
        assert_eq!(
            (row.error_code, row.high_watermark, row.last_stable_offset, row.log_start_offset),
            (0, 1, 1, 0)
        );
        assert_eq!(row.records.unwrap().len(), 0);
    }
    let row = at(4);
    assert_eq!(row.error_code, ErrorCode::OffsetOutOfRange.code());
    assert_eq!((row.high_watermark, row.last_stable_offset, row.log_start_offset), (-1, -1, -1));
    world.settle();
    assert!(produced.is_done());
}

/// Where no records were looked for in a log there is no list of aborted transactions either, whatever the isolation: what the
/// log itself refuses, and a diverging epoch, have null. A partition that is not there has an empty list.
/// Source: Kafka ReplicaManager.readFromLog, FetchResponse.partitionResponse.
#[test]
fn a_refusal_of_the_log_has_no_list_of_aborted_transactions() {
    let world = World::new();
    world.create_topic("t", 1);
    for isolation in [READ_UNCOMMITTED, READ_COMMITTED] {
        let aborted = |version: i16, change: &dyn Fn(&mut fetch_request::Partitions)| {
            let mut request = fetch("t", 0, 0, isolation);
            change(&mut request.topics[0].partitions[0]);
            let row = world.client().ask(version, &request).responses[0].partitions[0].clone();
            (ErrorCode::from_code(row.error_code).unwrap(), row.aborted_transactions.map(|list| list.len()))
        };
        let out_of_range = aborted(11, &|row| row.fetch_offset = 9);
        assert_eq!(out_of_range, (ErrorCode::OffsetOutOfRange, None));
        let unknown_epoch = aborted(11, &|row| row.current_leader_epoch = 9);
        assert_eq!(unknown_epoch, (ErrorCode::UnknownLeaderEpoch, None));
        let diverging = aborted(12, &|row| {
            row.fetch_offset = 9;
            row.last_fetched_epoch = 0;
        });
        assert_eq!(diverging, (ErrorCode::None, None));
        let not_there = aborted(11, &|row| row.partition = 9);
        assert_eq!(not_there, (ErrorCode::UnknownTopicOrPartition, Some(0)));
        let nothing_yet = aborted(11, &|_| {});
        assert_eq!(nothing_yet, (ErrorCode::None, (isolation == READ_COMMITTED).then_some(0)));
    }
}

/// Wire-apis trap 30: the first partition that has data gives a whole batch, however small the limits; the next gives
/// none beyond them.
#[test]
fn the_first_batch_comes_whatever_its_size() {
    let world = World::new();
    world.create_topic("t", 2);
    let large = "x".repeat(5_000);
    write(&world.client(), "t", 0, &[&large]);
    write(&world.client(), "t", 1, &[&large]);
    let mut request = fetch("t", 0, 0, READ_UNCOMMITTED);
    request.max_bytes = 1;
    request.topics[0].partitions[0].partition_max_bytes = 0;
    let mut second = request.topics[0].partitions[0].clone();
    second.partition = 1;
    request.topics[0].partitions.push(second);
    let answer = world.client().ask(12, &request);
    let sizes: Vec<_> = answer.responses[0]
        .partitions
        .iter()
        .map(|row| values_of(row.records.as_ref().unwrap()).len())
        .collect();
    assert_eq!(sizes, [1, 0]);
}

/// Issue 12, B8: an answer holds little of what it shows, however many partitions it has; the rest stays in the files.
#[test]
fn an_answer_holds_little() {
    const PARTITIONS: i32 = 100;
    let world = World::new();
    world.create_topic("t", PARTITIONS);
    let client = world.client();
    let value = |partition: i32| format!("{partition} {}", "x".repeat(1_000 * (1 + partition as usize % 40)));
    for partition in 0..PARTITIONS {
        write(&client, "t", partition, &[&value(partition)]);
    }
    let mut request = fetch("t", 0, 0, READ_UNCOMMITTED);
    let one = request.topics[0].partitions[0].clone();
    let others = (1..PARTITIONS).map(|partition| fetch_request::Partitions { partition, ..one.clone() });
    request.topics[0].partitions.extend(others);
    let call = client.send(12, &request);
    world.settle();
    let Some(Outcome::Frame(frame)) = call.outcome.get() else { panic!("no answer") };
    let expected: Vec<_> = (0..PARTITIONS).map(value).collect();
    assert!(frame.bytes() > expected.iter().map(String::len).sum());
    assert!(frame.held_bytes() < 80 * 1024, "{} bytes are held", frame.held_bytes());
    assert_eq!(fetched(&call), expected);
}

/// Wire-apis trap 9: aborted transactions are listed by their first offset, whatever the order of their markers.
/// Producer-state trap 30: the list is null for read_uncommitted, and empty for read_committed where there is none.
#[test]
fn aborted_transactions_are_listed_by_first_offset() {
    let world = World::new();
    world.create_topic("t", 1);
    let client = world.client();
    assert_eq!(read(&client, "t", 0, 0, READ_COMMITTED).aborted_transactions, Some(Vec::new()));
    let first = Producer::start(world.client(), "first");
    let second = Producer::start(world.client(), "second");
    first.produce(12, "t", 0, &["a"]);
    second.produce(12, "t", 0, &["b"]);
    let (first_id, second_id) = (first.id.get().0, second.id.get().0);
    second.end(5, false);
    first.end(5, false);
    let row = read(&client, "t", 0, 0, READ_COMMITTED);
    let aborted: Vec<_> =
        row.aborted_transactions.unwrap().iter().map(|txn| (txn.producer_id, txn.first_offset)).collect();
    assert_eq!(aborted, [(first_id, 0), (second_id, 1)]);
    assert_eq!(read(&client, "t", 0, 0, READ_UNCOMMITTED).aborted_transactions, None);
}

/// Wire-apis trap 6: in version 11 the preferred replica stands between the aborted transactions and the records.
#[test]
fn the_fields_of_version_11_are_in_their_places() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    let producer_id = producer.id.get().0;
    producer.end(5, false);
    let frame = world.client().send(11, &fetch("t", 0, 0, READ_COMMITTED)).outcome.frame();
    let mut reader = Reader::new(frame);
    let _correlation_id = reader.i32().unwrap();
    let (throttle, code, session) = (reader.i32().unwrap(), reader.i16().unwrap(), reader.i32().unwrap());
    assert_eq!((throttle, code, session), (0, 0, 0));
    assert_eq!(reader.i32().unwrap(), 1, "topics");
    assert_eq!(reader.nullable_string(false).unwrap().as_deref(), Some("t"));
    assert_eq!(reader.i32().unwrap(), 1, "partitions");
    assert_eq!((reader.i32().unwrap(), reader.i16().unwrap()), (0, 0), "index, code");
    let offsets = (reader.i64().unwrap(), reader.i64().unwrap(), reader.i64().unwrap());
    assert_eq!(offsets, (2, 2, 0), "high watermark, last stable offset, log start");
    assert_eq!(reader.i32().unwrap(), 1, "aborted transactions");
    assert_eq!((reader.i64().unwrap(), reader.i64().unwrap()), (producer_id, 0));
    assert_eq!(reader.i32().unwrap(), -1, "preferred replica");
    let size = reader.i32().unwrap();
    assert_eq!(reader.remaining(), size as usize, "records");
}

/// Producer-state trap 28: the upper bound of the look-up comes from the bytes that are returned: an abort beyond them is
/// not listed, and one that overlaps them is, though the first segment is left behind by a fetch that begins in a later one.
#[test]
fn aborted_transactions_are_those_of_the_bytes_returned() {
    let world = World::new();
    world.create_topic_with("t", 1, &[("index.interval.bytes", "1"), ("segment.bytes", "1048576")]);
    let filler = "x".repeat(2_000);
    let early = Producer::start(world.client(), "early");
    let early_id = early.id.get().0;
    early.produce(12, "t", 0, &["a"]);
    early.end(5, false);
    for _ in 0..4 {
        write(&world.client(), "t", 0, &[&filler]);
    }
    let late = Producer::start(world.client(), "late");
    let (late_id, late_start) = (late.id.get().0, world.log_ends("t")[0]);
    late.produce(12, "t", 0, &["b"]);
    late.end(5, false);
    let aborted = |offset: i64, bytes: i32| {
        let mut request = fetch("t", 0, offset, READ_COMMITTED);
        request.topics[0].partitions[0].partition_max_bytes = bytes;
        let answer = world.client().ask(12, &request);
        let row = answer.responses[0].partitions[0].clone();
        let listed = row.aborted_transactions.unwrap().into_iter();
        listed.map(|txn| (txn.producer_id, txn.first_offset)).collect::<Vec<_>>()
    };
    assert_eq!(aborted(0, 1 << 20), [(early_id, 0), (late_id, late_start)]);
    assert_eq!(aborted(0, 200), [(early_id, 0)]);
    assert_eq!(aborted(2, 2_200), []);
    assert_eq!(aborted(late_start, 1 << 20), [(late_id, late_start)]);
}

/// Producer-state trap 31: ListOffsets looks at the isolation level for latest and for timestamps, of clients alone:
/// another replica id sees the log end.
#[test]
fn list_offsets_looks_at_the_isolation_of_clients() {
    const LATEST: i64 = -1;
    let world = World::new();
    world.create_topic("t", 1);
    write(&world.client(), "t", 0, &["a"]);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["b"]);
    let time = world.now().wall.0;
    let records = plain_batch(world.now().wall, &["c"]);
    let pending = world.client().send(9, &produce(None, -1, vec![("t", 0, records)]));
    let found = |timestamp: i64, replica: i32, isolation: i8| {
        let call = world.client().send(7, &list_offsets("t", timestamp, replica, isolation));
        call.answer().topics[0].partitions[0].offset
    };
    assert_eq!(found(LATEST, -1, READ_UNCOMMITTED), 2);
    assert_eq!(found(LATEST, -1, READ_COMMITTED), 1);
    assert_eq!(found(LATEST, -2, READ_COMMITTED), 3);
    assert_eq!(found(time, -1, READ_COMMITTED), 0);
    assert_eq!(found(time + 1, -1, READ_COMMITTED), -1);
    world.settle();
    assert!(pending.is_done());
}

/// Wire-apis trap 31: DescribeProducers writes the epoch in four bytes.
#[test]
fn described_producers_have_an_epoch_of_four_bytes() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a", "b"]);
    let request = DescribeProducersRequest {
        topics: vec![describe_producers_request::Topics { name: "t".to_owned(), partition_indexes: vec![0] }],
    };
    let mut reader = Reader::new(world.client().send(0, &request).outcome.frame());
    let _correlation_id = reader.i32().unwrap();
    reader.skip_tagged_fields().unwrap();
    let _throttle = reader.i32().unwrap();
    assert_eq!(reader.uvarint().unwrap(), 2, "one topic");
    assert_eq!(reader.nullable_string(true).unwrap().as_deref(), Some("t"));
    assert_eq!(reader.uvarint().unwrap(), 2, "one partition");
    assert_eq!((reader.i32().unwrap(), reader.i16().unwrap()), (0, 0));
    assert_eq!(reader.nullable_string(true).unwrap(), None);
    assert_eq!(reader.uvarint().unwrap(), 2, "one producer");
    let (id, epoch) = producer.id.get();
    assert_eq!((reader.i64().unwrap(), reader.i32().unwrap()), (id, i32::from(epoch)));
    assert_eq!(reader.i32().unwrap(), 1, "last sequence");
    assert_eq!(reader.i64().unwrap(), world.now().wall.0, "last time");
    assert_eq!((reader.i32().unwrap(), reader.i64().unwrap()), (-1, 0), "coordinator epoch, start");
}

fn in_session(id: i32, epoch: i32, topics: Vec<fetch_request::Topics>) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        session_id: id,
        session_epoch: epoch,
        topics,
        ..fetch("t", 0, 0, READ_UNCOMMITTED)
    }
}

/// Wire-apis trap 8: an incremental Fetch with nothing new waits like any other, and then names nothing.
#[test]
fn an_empty_incremental_fetch_waits() {
    let world = World::new();
    world.create_topic("t", 1);
    let client = world.client();
    let topics = fetch("t", 0, 0, READ_UNCOMMITTED).topics;
    let opening = client.send(12, &in_session(0, 0, topics));
    world.advance_ms(500);
    let opened = opening.answer();
    let session = opened.session_id;
    assert!(session != 0 && opened.responses.len() == 1, "the first answer names every partition");
    let parked = client.send(12, &in_session(session, 1, Vec::new()));
    world.advance_ms(499);
    assert!(!parked.is_done());
    world.advance_ms(1);
    let answer = parked.answer();
    assert_eq!((answer.error_code, answer.session_id, answer.responses.len()), (0, session, 0));
    // With news it wakes up at once.
    let parked = client.send(12, &in_session(session, 2, Vec::new()));
    write(&world.client(), "t", 0, &["a"]);
    assert_eq!(fetched(&parked), ["a"]);
}

/// Wire-apis trap 23: topics are answered under the ids of the request, also unknown ones.
#[test]
fn an_unknown_id_comes_back_as_it_was() {
    let world = World::new();
    let id = world.create_topic("t", 1);
    let unknown = Uuid::from_random(42);
    let mut request = fetch("t", 0, 0, READ_UNCOMMITTED);
    request.topics[0].topic_id = unknown;
    let mut known = request.topics[0].clone();
    known.topic_id = id;
    request.topics.push(known);
    let answer = world.client().ask(13, &request);
    let rows: Vec<_> =
        answer.responses.iter().map(|topic| (topic.topic_id, topic.partitions[0].error_code)).collect();
    assert_eq!(rows, [(unknown, ErrorCode::UnknownTopicId.code()), (id, 0)]);
}

/// A topic that is deleted ends the wait of those who read it, and of those who wait for what they wrote to it.
#[test]
fn a_deleted_topic_ends_every_wait() {
    let world = World::new();
    world.create_topic("t", 1);
    let parked = world.client().send(12, &long_poll("t", 0, 0, READ_UNCOMMITTED, 60_000));
    let records = plain_batch(world.now().wall, &["a"]);
    let deleting = world.client();
    let produced;
    {
        // The deletion is durable before the record is.
        let request = fencepost_protocol::messages::DeleteTopicsRequest {
            topic_names: vec!["t".to_owned()],
            timeout_ms: 1_000,
            ..Default::default()
        };
        let deleted = deleting.send(5, &request);
        produced = world.client().send(9, &produce(None, -1, vec![("t", 0, records)]));
        world.settle();
        assert_eq!(deleted.answer().responses[0].error_code, 0);
    }
    let code = produced.answer().responses[0].partition_responses[0].error_code;
    assert_eq!(code, ErrorCode::UnknownTopicOrPartition.code());
    let row = &parked.answer().responses[0].partitions[0];
    assert_eq!(row.error_code, ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!(row.records.as_ref().map(|records| records.len()), Some(0));
}

/// Issue 12, C20: whose session has a topic that is deleted, or made again under its name, hears of it at once, although
/// the session's other topic has nothing and could be waited for. A Fetch that is parked hears that it is gone; the next
/// one, which still names the old id, that the name has another id now; with that id it reads on.
#[test]
fn a_session_hears_at_once_that_a_topic_was_made_again() {
    let world = World::new();
    let kept = world.create_topic("kept", 1);
    let old = world.create_topic("t", 1);
    let client = world.client();
    let named = |id: Uuid| {
        let mut topics = fetch("t", 0, 0, READ_UNCOMMITTED).topics;
        topics[0].topic_id = id;
        topics
    };
    let mut both = named(kept);
    both.extend(named(old));
    let opening = client.send(13, &in_session(0, 0, both));
    world.advance_ms(500);
    let session = opening.answer().session_id;
    let code_of = |call: &Call<FetchRequest>, id: Uuid| {
        let rows = call.answer().responses.into_iter().filter(|row| row.topic_id == id);
        rows.map(|row| row.partitions[0].error_code).collect::<Vec<_>>()
    };

    let parked = client.send(13, &in_session(session, 1, Vec::new()));
    assert!(!parked.is_done());
    assert_eq!(world.delete_topic("t"), 0);
    assert_eq!(code_of(&parked, old), [ErrorCode::UnknownTopicOrPartition.code()]);

    let new = world.create_topic("t", 1);
    let told = client.send(13, &in_session(session, 2, Vec::new()));
    assert!(told.is_done(), "it waits for the other topic");
    assert_eq!(code_of(&told, old), [ErrorCode::InconsistentTopicId.code()]);

    let forgets =
        fetch_request::ForgottenTopicsData { topic_id: old, partitions: vec![0], ..Default::default() };
    let request = FetchRequest { forgotten_topics_data: vec![forgets], ..in_session(session, 3, named(new)) };
    let reads = client.send(13, &request);
    assert!(!reads.is_done());
    write(&world.client(), "t", 0, &["a"]);
    assert_eq!(fetched(&reads), ["a"]);
}
