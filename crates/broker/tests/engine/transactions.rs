//! Transactions over the wire: timeouts, batches between brokers, markers, fencing across connections.

use fencepost_protocol::messages::add_partitions_to_txn_response::TopicResults;
use fencepost_protocol::messages::{InitProducerIdRequest, add_partitions_to_txn_request};
use fencepost_types::ErrorCode;

use crate::harness::requests::{
    READ_COMMITTED, add_batch, batch_entry, committed_values, init, marker, produce, read, transaction_state,
    write_markers,
};
use crate::harness::{Producer, World, batch};

/// Invariant 7 of the design, coordinator trap 15: a transaction is aborted once it is more than its timeout old, to the
/// tick, and its partitions' last stable offset moves.
#[test]
fn a_timeout_is_exact_to_the_tick() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start_with(world.client(), "x", 5_000);
    producer.produce(12, "t", 0, &["a"]);
    world.advance_ms(5_000);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "Ongoing");
    world.advance_ms(1);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteAbort");
    let row = read(&world.client(), "t", 0, 0, READ_COMMITTED);
    assert_eq!((row.last_stable_offset, row.aborted_transactions.unwrap().len()), (2, 1));
    // Producer-state trap 3: the late batch is told of its epoch, and the producer can go on.
    let answer = producer.client.ask(12, &producer.produce_request("t", 0, &["late"]));
    let code = answer.responses[0].partition_responses[0].error_code;
    assert_eq!(code, ErrorCode::InvalidProducerEpoch.code());
}

/// Many transactions with one timeout end on one tick, each by itself.
#[test]
fn timeouts_of_many_come_together() {
    let world = World::new();
    world.create_topic("t", 1);
    let producers: Vec<_> =
        (0..20).map(|number| Producer::start_with(world.client(), &format!("x{number}"), 5_000)).collect();
    for producer in &producers {
        producer.produce(12, "t", 0, &["a"]);
    }
    assert_eq!(world.standing("t", 0).open_transactions, 20);
    world.advance_ms(5_000);
    world.settle();
    assert_eq!(world.standing("t", 0).open_transactions, 20);
    world.advance_ms(1);
    world.settle();
    assert_eq!(world.standing("t", 0).open_transactions, 0);
    for producer in &producers {
        assert_eq!(transaction_state(&world.client(), &producer.transactional_id), "CompleteAbort");
    }
}

/// Wire-apis trap 27: a producer id without an epoch, or the reverse, is INVALID_REQUEST, with a transactional id or
/// without one; so is an empty transactional id.
#[test]
fn half_a_producer_is_refused() {
    let client = World::new().client();
    for transactional_id in [Some("x".to_owned()), None] {
        for (producer_id, producer_epoch) in [(5, -1), (-1, 5)] {
            let transactional_id = transactional_id.clone();
            let request =
                InitProducerIdRequest { transactional_id, producer_id, producer_epoch, ..init("x", 1_000) };
            assert_eq!(client.ask(4, &request).error_code, ErrorCode::InvalidRequest.code());
        }
    }
    assert_eq!(client.ask(4, &init("", 1_000)).error_code, ErrorCode::InvalidRequest.code());
}

/// Coordinator trap 22: in a batch between brokers one bad partition fails its transaction (the others of it are not
/// attempted) and not the batch; the answer waits for every transaction. `coordinator §7.1`: an empty batch is answered,
/// and two entries of one id are treated one by one.
#[test]
fn a_batch_of_transactions_fails_one_by_one() {
    let world = World::new();
    world.create_topic("t", 3);
    let first = Producer::start(world.client(), "first");
    let second = Producer::start(world.client(), "second");
    let client = world.client();
    let request = add_batch(vec![
        batch_entry("first", first.id.get(), false, &[("t", 0), ("t", 9)]),
        batch_entry("second", second.id.get(), false, &[("t", 1)]),
        batch_entry("unknown", (77, 0), false, &[("t", 0)]),
        batch_entry("second", second.id.get(), false, &[("t", 2)]),
        batch_entry("second", second.id.get(), true, &[("t", 0)]),
    ]);
    let call = client.send(4, &request);
    assert!(!call.is_done(), "the second one's record is not durable");
    world.settle();
    let rows: Vec<_> = call
        .answer()
        .results_by_transaction
        .iter()
        .map(|row| {
            let partitions = row.topic_results.iter().flat_map(|topic| &topic.results_by_partition);
            let codes: Vec<_> = partitions.map(|partition| partition.partition_error_code).collect();
            (row.transactional_id.clone(), codes)
        })
        .collect();
    let code = |code: ErrorCode| code.code();
    assert_eq!(
        rows,
        [
            (
                "first".to_owned(),
                vec![code(ErrorCode::OperationNotAttempted), code(ErrorCode::UnknownTopicOrPartition)]
            ),
            ("second".to_owned(), vec![0]),
            ("unknown".to_owned(), vec![code(ErrorCode::InvalidProducerIdMapping)]),
            ("second".to_owned(), vec![0]),
            ("second".to_owned(), vec![code(ErrorCode::TransactionAbortable)]),
        ]
    );
    assert_eq!(transaction_state(&client, "first"), "Empty");
    assert!(client.ask(4, &add_batch(Vec::new())).results_by_transaction.is_empty());
}

/// A partition that is named twice is verified, and refused, once; a topic without partitions is not in these answers. What is
/// added is answered as it was asked. Source: Kafka AddPartitionsToTxnResponse.resultForTransaction, errorResponseForTransaction.
#[test]
fn a_partition_named_twice_is_verified_once() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    let told = |verify_only: bool, partitions: &[(&str, i32)]| {
        let mut entry = batch_entry("x", producer.id.get(), verify_only, partitions);
        entry.topics.push(add_partitions_to_txn_request::Topics { name: "t".into(), partitions: vec![] });
        let call = world.client().send(5, &add_batch(vec![entry]));
        world.settle();
        let topics = call.answer().results_by_transaction.remove(0).topic_results;
        let rows = |topic: &TopicResults| {
            let rows = topic.results_by_partition.iter();
            rows.map(|row| (row.partition_index, ErrorCode::from_code(row.partition_error_code).unwrap()))
                .collect::<Vec<_>>()
        };
        topics.iter().map(rows).collect::<Vec<_>>()
    };
    use ErrorCode::{None as Good, OperationNotAttempted, TransactionAbortable, UnknownTopicOrPartition};
    let twice = [("t", 1), ("t", 0), ("t", 1)];
    assert_eq!(told(true, &twice), [[(0, TransactionAbortable), (1, TransactionAbortable)]]);
    for verify_only in [false, true] {
        let refused = told(verify_only, &[("t", 0), ("t", 0), ("t", 7)]);
        assert_eq!(refused, [[(0, OperationNotAttempted), (7, UnknownTopicOrPartition)]]);
    }
    assert_eq!(told(false, &twice).concat(), [(1, Good), (0, Good), (1, Good)]);
    assert_eq!(told(true, &twice), [[(0, Good), (1, Good)]]);
}

/// Coordinator trap 23: what a producer is told of a partition that is not in its transaction goes by the version of its
/// own request, though several of different versions wait at once.
#[test]
fn every_waiting_request_is_told_in_its_own_version() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    producer.add_partition("t", 1);
    let now = world.now().wall;
    let send = |version: i16| {
        let records = batch(producer.id.get(), 0, true, now, &["a"]);
        world.client().send(version, &produce(Some("x"), -1, vec![("t", 0, records)]))
    };
    // Something outstanding in the coordinator's log makes all of them wait.
    let outstanding = world.client().send(5, &init("x2", 60_000));
    let calls = [10, 11, 10, 9].map(|version| (version, send(version)));
    world.settle();
    assert_eq!(outstanding.answer().error_code, 0);
    for (version, call) in calls {
        let code = call.answer().responses[0].partition_responses[0].error_code;
        let expected =
            if version >= 11 { ErrorCode::TransactionAbortable } else { ErrorCode::InvalidTxnState };
        assert_eq!(code, expected.code(), "version {version}");
    }
}

/// Coordinator trap 24: two instances that add partitions at once are not merged: the stale one is fenced, the other is
/// served, and only its partition is in the transaction.
#[test]
fn a_stale_instance_does_not_ride_along() {
    let world = World::new();
    world.create_topic("t", 2);
    let stale = Producer::start(world.client(), "x");
    let fresh = Producer::start(world.client(), "x");
    let stale_call = stale.client.send(12, &stale.produce_request("t", 0, &["zombie"]));
    let fresh_call = fresh.client.send(12, &fresh.produce_request("t", 1, &["a"]));
    world.settle();
    let code = stale_call.answer().responses[0].partition_responses[0].error_code;
    assert_eq!(code, ErrorCode::InvalidProducerEpoch.code());
    assert_eq!(fresh_call.answer().responses[0].partition_responses[0].error_code, 0);
    fresh.end(5, true);
    assert_eq!(world.log_ends("t"), [0, 2]);
    assert_eq!(committed_values(&world.client(), "t", 1), ["a"]);
}

/// Producer-state traps 7 and 38, coordinator trap 20: WriteTxnMarkers 1 has no transaction version and goes by the old
/// rule, version 2 by the one it names. The answer comes once, after every partition of every marker is durable, the one
/// of the group coordinator among them; what does not exist is refused for itself.
#[test]
fn markers_are_counted_one_by_one() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    producer.produce(12, "t", 1, &["a"]);
    let (id, epoch) = producer.id.get();
    let offsets = "__consumer_offsets";
    let request = write_markers(vec![
        marker((id, epoch), false, 2, &[("t", 0), (offsets, 0), ("t", 9)]),
        marker((id + 500, 0), true, 2, &[("t", 1), (offsets, 7), ("nowhere", 0)]),
    ]);
    let client = world.client();
    let call = client.send(2, &request);
    let mut syncs = 0;
    while !call.is_done() {
        assert!(world.sync_one());
        syncs += 1;
    }
    assert_eq!(syncs, 2, "t-1 and the offsets partition; the marker of t-0 was refused");
    let answer = call.answer();
    let rows: Vec<_> = answer
        .markers
        .iter()
        .flat_map(|marker| &marker.topics)
        .flat_map(|topic| {
            let name = topic.name.clone();
            topic.partitions.iter().map(move |row| (name.clone(), row.partition_index, row.error_code))
        })
        .collect();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let row = |name: &str, index: i32, code: i16| (name.to_owned(), index, code);
    assert_eq!(
        rows,
        [
            row(offsets, 0, 0),
            row("t", 0, ErrorCode::InvalidProducerEpoch.code()),
            row("t", 9, unknown),
            row(offsets, 7, unknown),
            row("nowhere", 0, unknown),
            row("t", 1, 0),
        ]
    );
    // The old rule ends the transaction of the same epoch: what an operator uses.
    let old = client.ask(1, &write_markers(vec![marker((id, epoch), false, 2, &[("t", 0)])]));
    assert_eq!(old.markers[0].topics[0].partitions[0].error_code, 0);
    assert_eq!(world.standing("t", 0).open_transactions, 0);
    assert!(client.ask(2, &write_markers(Vec::new())).markers.is_empty());
}

/// Two markers of one producer in a request are both written, in order, and answered as one row, the later result
/// standing (`producer-state §7.4`).
#[test]
fn two_markers_of_one_producer_are_merged() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    let (id, epoch) = producer.id.get();
    let request = write_markers(vec![
        marker((id, epoch + 2), false, 2, &[("t", 0)]),
        marker((id, epoch + 1), true, 2, &[("t", 0)]),
    ]);
    let answer = world.client().ask(2, &request);
    assert_eq!(answer.markers.len(), 1);
    let code = answer.markers[0].topics[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::InvalidProducerEpoch.code());
    assert_eq!(world.log_ends("t"), [2]);
}

/// A producer id is handed out once, also over the end of a block of 1000 and over a restart, to however many ask at once.
#[test]
fn producer_ids_are_handed_out_once() {
    let world = World::new();
    let mut ids = std::collections::BTreeSet::new();
    let nobody = InitProducerIdRequest { transactional_id: None, ..init("", 0) };
    for _ in 0..2 {
        let calls: Vec<_> = (0..1_500).map(|_| world.client().send(4, &nobody)).collect();
        world.settle();
        for call in calls {
            let answer = call.answer();
            assert_eq!((answer.error_code, answer.producer_epoch), (0, 0));
            assert!(ids.insert(answer.producer_id), "{} twice", answer.producer_id);
        }
        world.restart();
    }
}
