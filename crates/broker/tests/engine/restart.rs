//! What a restart on the same disk finds and finishes.

use fencepost_protocol::messages::{
    DeleteTopicsRequest, MetadataRequest, OffsetFetchRequest, delete_topics_request, metadata_request,
};
use fencepost_types::ErrorCode;

use crate::harness::requests::{
    READ_COMMITTED, committed_offset, committed_values, init, produce, read, transaction_state,
};
use crate::harness::{Producer, World, plain_batch, values_of};

/// A transaction of two partitions under either version, not ended yet.
fn open_transaction(end_version: i16) -> (std::rc::Rc<World>, Producer) {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    let produce_version = if end_version >= 5 { 12 } else { 11 };
    for partition in 0..2 {
        if end_version < 5 {
            producer.add_partition("t", partition);
        }
        producer.produce(produce_version, "t", partition, &["a"]);
    }
    (world, producer)
}

/// Coordinator traps 27 and 35: a decision that is in the log gets all its markers after a restart (a kill, or a clean
/// stop), whatever had been done about it before: nothing, one partition, or everything but the completion.
#[test]
fn a_decided_transaction_gets_its_markers_after_a_restart() {
    for end_version in [4, 5] {
        for (committed, is_clean) in [(true, false), (true, true), (false, false), (false, true)] {
            for syncs in 0..4 {
                restart_when_decided(end_version, committed, is_clean, syncs);
            }
        }
    }
}

fn restart_when_decided(end_version: i16, committed: bool, is_clean: bool, syncs: usize) {
    let (world, producer) = open_transaction(end_version);
    let ended = producer.send_end(end_version, committed);
    for _ in 0..syncs {
        world.sync_one();
    }
    if is_clean {
        world.stop_and_start();
    } else {
        world.restart();
    }
    world.settle();
    let client = world.client();
    let expected = if committed { "CompleteCommit" } else { "CompleteAbort" };
    assert_eq!(transaction_state(&client, "x"), expected, "after {syncs} syncs");
    for partition in 0..2 {
        let row = read(&client, "t", partition, 0, READ_COMMITTED);
        assert_eq!(row.last_stable_offset, row.high_watermark, "after {syncs} syncs");
        assert_eq!(row.aborted_transactions.unwrap().is_empty(), committed);
        assert_eq!(values_of(&row.records.unwrap()), ["a"]);
    }
    assert!(ended.is_done() || syncs == 0);
}

/// The retry of an EndTxn whose answer was lost with the process gets the answer of the first.
#[test]
fn a_repeated_end_finds_its_outcome_after_a_restart() {
    let (world, producer) = open_transaction(5);
    let request = producer.end_request(true);
    producer.send_end(5, true);
    world.restart();
    let repeated = world.client().send(5, &request);
    world.settle();
    let answer = repeated.answer();
    let (id, epoch) = producer.id.get();
    assert_eq!((answer.error_code, answer.producer_id, answer.producer_epoch), (0, id, epoch + 1));
}

/// The clock of an open transaction goes on over a restart: it times out when it would have.
#[test]
fn a_timeout_is_not_begun_anew() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start_with(world.client(), "x", 10_000);
    producer.produce(12, "t", 0, &["a"]);
    world.advance_ms(9_000);
    world.restart();
    world.advance_ms(1_000);
    assert_eq!(transaction_state(&world.client(), "x"), "Ongoing");
    world.advance_ms(1);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteAbort");
    // And one whose time is over while nobody runs is aborted at once.
    let producer = Producer::start_with(world.client(), "x", 10_000);
    producer.produce(12, "t", 0, &["b"]);
    world.advance_ms(10_000);
    world.restart();
    world.advance_ms(1);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteAbort");
}

/// A clean stop and a kill come to the same: records, producers, offsets, topics are as they were.
#[test]
fn a_stop_and_a_kill_lose_nothing() {
    for is_clean in [true, false] {
        let (world, mut producer) = open_transaction(5);
        let client = world.client();
        let answer = client.ask(5, &producer.offset_request("g", "t", 9));
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        producer.end(5, true);
        producer.produce(12, "t", 0, &["b"]);
        if is_clean {
            world.stop_and_start();
        } else {
            world.restart();
        }
        let client = world.client();
        assert_eq!(committed_values(&client, "t", 0), ["a"]);
        assert_eq!(committed_offset(&client, "g", "t", true), (9, 0));
        assert_eq!(transaction_state(&client, "x"), "Ongoing");
        // The same producer goes on where it was.
        producer.client = world.client();
        producer.produce(12, "t", 0, &["c"]);
        producer.end(5, true);
        assert_eq!(committed_values(&world.client(), "t", 0), ["a", "b", "c"]);
    }
}

/// Wire-apis trap 14: an offset that waits for its transaction is unstable, also after a restart, and no longer once the
/// transaction has ended.
#[test]
fn an_unstable_offset_clears_after_a_restart() {
    const UNSTABLE: i16 = ErrorCode::UnstableOffsetCommit as i16;
    for committed in [true, false] {
        let (world, mut producer) = open_transaction(5);
        let answer = world.client().ask(5, &producer.offset_request("g", "t", 9));
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        assert_eq!(committed_offset(&world.client(), "g", "t", true), (-1, UNSTABLE));
        assert_eq!(committed_offset(&world.client(), "g", "t", false), (-1, 0));
        world.restart();
        assert_eq!(committed_offset(&world.client(), "g", "t", true), (-1, UNSTABLE));
        producer.client = world.client();
        producer.send_end(5, committed);
        world.restart();
        world.settle();
        let expected = if committed { 9 } else { -1 };
        assert_eq!(committed_offset(&world.client(), "g", "t", true), (expected, 0));
        let all = OffsetFetchRequest { group_id: "g".to_owned(), topics: None, ..Default::default() };
        assert_eq!(world.client().ask(7, &all).topics.len(), usize::from(committed));
    }
}

/// Coordinator trap 34: a partition whose topic has been deleted is owed nothing; the transaction completes.
#[test]
fn a_deleted_topic_does_not_hold_a_transaction() {
    for restarts in [false, true] {
        let (world, producer) = open_transaction(5);
        world.create_topic("gone", 1);
        producer.produce(12, "gone", 0, &["x"]);
        assert_eq!(world.delete_topic("gone"), 0);
        let ended = producer.send_end(5, true);
        if restarts {
            world.restart();
        }
        world.settle();
        assert!(restarts || ended.answer().error_code == 0);
        assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit");
        assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
    }
}

/// Coordinator trap 33: the coordinators' topics are not deleted, by name or by id: what every partition remembers of
/// coordinator epochs would be above those of a new one. What they hold goes on.
#[test]
fn internal_topics_are_not_deleted() {
    let world = World::new();
    world.create_topic("t", 1);
    // They are made when somebody asks for them first.
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    producer.client.ask(5, &producer.offset_request("g", "t", 1));
    for topic in ["__transaction_state", "__consumer_offsets"] {
        let asked = metadata_request::Topics { name: Some(topic.to_owned()), ..Default::default() };
        let metadata =
            world.client().ask(12, &MetadataRequest { topics: Some(vec![asked]), ..Default::default() });
        let found = &metadata.topics[0];
        assert_eq!((found.error_code, found.is_internal), (0, true), "{topic} is there");
        let refused = ErrorCode::InvalidRequest.code();
        assert_eq!(world.delete_topic(topic), refused, "{topic}");
        let by_id = delete_topics_request::Topics { name: None, topic_id: found.topic_id };
        let request = DeleteTopicsRequest { topics: vec![by_id], timeout_ms: 1_000, ..Default::default() };
        assert_eq!(world.client().ask(6, &request).responses[0].error_code, refused, "{topic} by id");
    }
    producer.end(5, true);
    assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
}

/// A clean stop is the last word of every log: what is asked afterwards is refused with codes that clients take elsewhere, and
/// the next start finds what the stop has left (issue 12, A1).
#[test]
fn nothing_is_appended_after_a_clean_stop() {
    let (world, producer) = open_transaction(5);
    let ends = world.log_ends("t");
    world.broker().stop(&|| world.now()).unwrap();
    let produced =
        world.client().send(9, &produce(None, -1, vec![("t", 0, plain_batch(world.now().wall, &["b"]))]));
    let ended = producer.send_end(5, true);
    let started = world.client().send(4, &init("y", 60_000));
    let code = produced.answer().responses[0].partition_responses[0].error_code;
    assert_eq!(code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!(ended.answer().error_code, ErrorCode::NotCoordinator.code());
    assert_ne!(started.answer().error_code, 0);
    drop((ended, producer));
    world.restart();
    world.settle();
    assert_eq!(world.log_ends("t"), ends);
    assert_eq!(transaction_state(&world.client(), "x"), "Ongoing");
}
