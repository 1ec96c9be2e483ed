//! Produce: order, acknowledgement, what one partition's failure means for the others.

use bytes::Bytes;
use fencepost_broker::Outcome;
use fencepost_protocol::messages::{ProduceRequest, produce_request};
use fencepost_types::{ErrorCode, Uuid};

use crate::harness::requests::{READ_UNCOMMITTED, committed_values, produce, read, transaction_state};
use crate::harness::{Producer, World, batch, plain_batch, values_of};

/// Wire-apis trap 32: acks 0 is not answered, and an error closes the connection.
#[test]
fn acks_0_is_not_answered() {
    let world = World::new();
    world.create_topic("t", 1);
    let client = world.client();
    let records = plain_batch(world.now().wall, &["a"]);
    let call = client.send(9, &produce(None, 0, vec![("t", 0, records.clone())]));
    assert_eq!(call.outcome.get(), Some(Outcome::Nothing));
    assert_eq!(client.send(9, &produce(None, 0, Vec::new())).outcome.get(), Some(Outcome::Nothing));
    let failed = client.send(9, &produce(None, 0, vec![("nowhere", 0, records)]));
    assert_eq!(failed.outcome.get(), Some(Outcome::Close));
}

/// What a connection asks after a Produce of acks 0 finds its records, though nobody waited for them (as with Kafka,
/// whose high watermark has moved by then); the requests keep their order.
#[test]
fn what_comes_after_acks_0_finds_its_records() {
    let world = World::new();
    world.create_topic("t", 1);
    let client = world.client();
    let records = plain_batch(world.now().wall, &["a"]);
    client.send(9, &produce(None, 0, vec![("t", 0, records)]));
    let first = client.send(12, &crate::harness::requests::fetch("t", 0, 0, READ_UNCOMMITTED));
    let second = client.send(1, &crate::harness::requests::list_offsets("t", -1, -1, READ_UNCOMMITTED));
    assert!(!first.is_done() && !second.is_done());
    world.settle();
    let row = &first.answer().responses[0].partitions[0];
    assert_eq!(values_of(row.records.as_ref().unwrap()), ["a"]);
    assert_eq!(second.answer().topics[0].partitions[0].offset, 1);
}

/// Several batches of one producer on one connection, while the first waits for its partition to be added to the
/// transaction: none overtakes it, and no sequence is refused.
#[test]
fn batches_keep_their_order_while_the_first_is_added() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    let values: Vec<String> = (0..5).map(|number| format!("v{number}")).collect();
    let calls: Vec<_> = values
        .iter()
        .map(|value| producer.client.send(12, &producer.produce_request("t", 0, &[value])))
        .collect();
    // The first waits for the coordinator's record to be durable; nothing is in the log yet.
    assert_eq!(world.log_ends("t"), [0, 0]);
    assert!(calls.iter().all(|call| !call.is_done()));
    // Another connection is not held up.
    let other =
        world.client().send(9, &produce(None, 1, vec![("t", 1, plain_batch(world.now().wall, &["b"]))]));
    assert_eq!(world.log_ends("t"), [0, 1]);
    world.settle();
    assert_eq!(other.answer().responses[0].partition_responses[0].error_code, 0);
    for (at, call) in calls.iter().enumerate() {
        let row = &call.answer().responses[0].partition_responses[0];
        assert_eq!((row.error_code, row.base_offset), (0, at as i64));
    }
    producer.end(5, true);
    assert_eq!(committed_values(&world.client(), "t", 0), values);
}

/// The gate of a connection opens again when what it waited for is refused, fails or goes away.
#[test]
fn the_gate_opens_on_every_path() {
    let world = World::new();
    world.create_topic("t", 1);
    world.create_topic("gone", 1);
    let producer = Producer::start(world.client(), "x");
    let plain = |topic: &str| produce(None, 1, vec![(topic, 0, plain_batch(world.now().wall, &["p"]))]);
    // Refused by the coordinator: another epoch.
    let (id, epoch) = producer.id.get();
    let stale = batch((id, epoch + 1), 0, true, world.now().wall, &["stale"]);
    let refused = producer.client.send(12, &produce(Some("x"), -1, vec![("t", 0, stale)]));
    let after_refused = producer.client.send(9, &plain("t"));
    // The topic is deleted while its partition is being added.
    let added = producer.client.send(12, &producer.produce_request("gone", 0, &["a"]));
    let after_added = producer.client.send(9, &plain("t"));
    let deleting = world.client();
    let request = fencepost_protocol::messages::DeleteTopicsRequest {
        topic_names: vec!["gone".to_owned()],
        timeout_ms: 1_000,
        ..Default::default()
    };
    let deleted = deleting.send(5, &request);
    world.settle();
    assert_eq!(deleted.answer().responses[0].error_code, 0);
    let code = |call: &crate::harness::Call<ProduceRequest>| {
        call.answer().responses[0].partition_responses[0].error_code
    };
    assert_eq!(code(&refused), ErrorCode::InvalidProducerEpoch.code());
    assert_eq!(code(&after_refused), 0);
    assert!([0, ErrorCode::UnknownTopicOrPartition.code()].contains(&code(&added)), "{}", code(&added));
    assert_eq!(code(&after_added), 0);
    // Refused as a whole.
    let whole =
        producer.client.send(9, &produce(None, 7, vec![("t", 0, plain_batch(world.now().wall, &["q"]))]));
    assert_eq!(code(&whole), ErrorCode::InvalidRequiredAcks.code());
    let last = producer.client.send(9, &plain("t"));
    world.settle();
    assert_eq!(code(&last), 0);
}

/// Acks and internal topics are looked at by the append, when the coordinator has been asked (`producer-state §2`): an
/// older client that has not added the partition is told so first, and a version 2 client's partition stays added.
#[test]
fn the_coordinator_is_asked_before_acks_and_internal_topics() {
    let world = World::new();
    world.create_topic("t", 1);
    let code = |version, producer: &Producer, acks, topic: &str| {
        let request = produce(Some("x"), acks, vec![(topic, 0, producer.batch(topic, 0, &["a"]))]);
        producer.client.ask(version, &request).responses[0].partition_responses[0].error_code
    };
    let internal = "__transaction_state";
    for (acks, topic) in [(2, "t"), (-1, internal)] {
        let producer = Producer::start(world.client(), "x");
        assert_eq!(code(11, &producer, acks, topic), ErrorCode::TransactionAbortable.code());
        assert_eq!(transaction_state(&producer.client, "x"), "Empty");
        let stale = Producer::holding(world.client(), "x", (producer.id.get().0, 77));
        assert_eq!(code(12, &stale, acks, topic), ErrorCode::InvalidProducerEpoch.code());
        let refused =
            if acks == 2 { ErrorCode::InvalidRequiredAcks } else { ErrorCode::InvalidTopicException };
        assert_eq!(code(12, &producer, acks, topic), refused.code());
        assert_eq!(transaction_state(&producer.client, "x"), "Ongoing");
        // Its marker is written, there as anywhere.
        producer.end(5, false);
        assert_eq!(world.standing(topic, 0).open_transactions, 0);
        assert_eq!(transaction_state(&producer.client, "x"), "CompleteAbort");
    }
    let plain = produce(None, -1, vec![(internal, 0, plain_batch(world.now().wall, &["q"]))]);
    let answer = world.client().ask(9, &plain);
    assert_eq!(
        answer.responses[0].partition_responses[0].error_code,
        ErrorCode::InvalidTopicException.code()
    );
}

/// Producer-state trap 37: one failing partition does not fail the others; two producers in one request fail it all.
#[test]
fn one_failing_partition_is_alone_two_producers_are_not() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    let good = producer.batch("t", 0, &["a"]);
    let gap = batch(producer.id.get(), 7, true, world.now().wall, &["b"]);
    let unknown = producer.batch("t", 9, &["c"]);
    let request = produce(Some("x"), -1, vec![("t", 0, good), ("t", 1, gap), ("t", 9, unknown)]);
    let answer = producer.client.ask(12, &request);
    let codes: Vec<_> =
        answer.responses.iter().map(|topic| topic.partition_responses[0].error_code).collect();
    let expected = [ErrorCode::None, ErrorCode::OutOfOrderSequenceNumber, ErrorCode::UnknownTopicOrPartition];
    assert_eq!(codes, expected.map(|code| code.code()));

    let (id, epoch) = producer.id.get();
    let now = world.now().wall;
    let first = batch((id, epoch), 1, true, now, &["d"]);
    let second = batch((id, epoch + 1), 0, true, now, &["e"]);
    let request = produce(Some("x"), -1, vec![("t", 0, first), ("t", 1, second)]);
    let answer = producer.client.ask(12, &request);
    for topic in &answer.responses {
        assert_eq!(topic.partition_responses[0].error_code, ErrorCode::InvalidProducerIdMapping.code());
    }
    assert_eq!(world.log_ends("t"), [1, 0]);
}

/// Producer-state trap 23: a request may mix transactional and plain batches, in different partitions.
#[test]
fn transactional_and_plain_batches_mix() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    let transactional = producer.batch("t", 0, &["a"]);
    let plain = plain_batch(world.now().wall, &["b"]);
    let request = produce(Some("x"), -1, vec![("t", 0, transactional), ("t", 1, plain)]);
    let answer = producer.client.ask(12, &request);
    assert!(answer.responses.iter().all(|topic| topic.partition_responses[0].error_code == 0), "{answer:?}");
    let client = world.client();
    assert!(committed_values(&client, "t", 0).is_empty(), "the transaction is open");
    assert_eq!(committed_values(&client, "t", 1), ["b"]);
    producer.end(5, true);
    assert_eq!(committed_values(&client, "t", 0), ["a"]);
}

/// `producer-state §2`: a transactional batch without a transactional id fails the whole request.
#[test]
fn a_transactional_batch_needs_a_transactional_id() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    let plain = plain_batch(world.now().wall, &["b"]);
    let request = produce(None, -1, vec![("t", 0, plain), ("t", 1, producer.batch("t", 1, &["a"]))]);
    let answer = producer.client.ask(12, &request);
    for topic in &answer.responses {
        let code = topic.partition_responses[0].error_code;
        assert_eq!(code, ErrorCode::TransactionalIdAuthorizationFailed.code());
    }
    assert_eq!(world.log_ends("t"), [0, 0]);
}

/// Wire-apis trap 23: the answer carries the ids that the request did, also unknown ones, and in its order.
#[test]
fn the_answer_has_the_ids_of_the_request() {
    let world = World::new();
    let id = world.create_topic("t", 1);
    let unknown = Uuid::from_random(42);
    let topic = |topic_id: Uuid| produce_request::TopicData {
        topic_id,
        partition_data: vec![produce_request::PartitionData {
            index: 0,
            records: Some(plain_batch(world.now().wall, &["a"])),
        }],
        ..Default::default()
    };
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 1_000,
        topic_data: vec![topic(unknown), topic(id), topic(Uuid::ZERO)],
        ..Default::default()
    };
    let answer = world.client().ask(13, &request);
    let rows: Vec<_> = answer
        .responses
        .iter()
        .map(|topic| (topic.topic_id, topic.partition_responses[0].error_code))
        .collect();
    let none = ErrorCode::UnknownTopicId.code();
    assert_eq!(rows, [(unknown, none), (id, 0), (Uuid::ZERO, none)]);
}

/// Producer-state traps 14 and 25: a retry of an acknowledged batch is answered with the original's place, also as the
/// first batch of a transaction; while the original is not durable, the retry waits for it.
#[test]
fn a_duplicate_waits_for_the_original() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    let records = producer.batch("t", 0, &["a", "b"]);
    let request = produce(Some("x"), -1, vec![("t", 0, records)]);
    let first = producer.client.send(12, &request);
    world.sync_until(|| world.log_ends("t") == [2]);
    assert!(!first.is_done(), "it is in the log, and not on the disk");
    let retry = world.client().send(12, &request);
    assert!(!retry.is_done(), "B3");
    world.settle();
    for call in [&first, &retry] {
        let row = &call.answer().responses[0].partition_responses[0];
        assert_eq!((row.error_code, row.base_offset, row.log_append_time_ms), (0, 0, -1));
    }
    let again = world.client().ask(12, &request);
    assert_eq!(again.responses[0].partition_responses[0].base_offset, 0);
    assert_eq!(world.log_ends("t"), [2]);
}

/// Internal topics are written to by their coordinators, and by the one client that Kafka lets through.
#[test]
fn internal_topics_are_not_written_to() {
    let world = World::new();
    let request = produce(None, 1, vec![("__transaction_state", 0, plain_batch(world.now().wall, &["a"]))]);
    let answer = world.client().ask(9, &request);
    assert_eq!(
        answer.responses[0].partition_responses[0].error_code,
        ErrorCode::InvalidTopicException.code()
    );
}

/// A partition without records is refused for itself.
#[test]
fn null_records_are_refused() {
    let world = World::new();
    world.create_topic("t", 2);
    let topic = |index: i32, records: Option<Bytes>| produce_request::TopicData {
        name: "t".to_owned(),
        partition_data: vec![produce_request::PartitionData { index, records }],
        ..Default::default()
    };
    let request = ProduceRequest {
        acks: 1,
        topic_data: vec![topic(0, None), topic(1, Some(plain_batch(world.now().wall, &["a"])))],
        ..Default::default()
    };
    let answer = world.client().ask(9, &request);
    let codes: Vec<_> =
        answer.responses.iter().map(|topic| topic.partition_responses[0].error_code).collect();
    assert_eq!(codes, [ErrorCode::InvalidRecord.code(), 0]);
    assert_eq!(values_of(&read(&world.client(), "t", 1, 0, READ_UNCOMMITTED).records.unwrap()), ["a"]);
}
