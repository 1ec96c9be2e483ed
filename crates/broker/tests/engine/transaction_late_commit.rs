//! KAFKA-20785: a commit that comes after the coordinator has aborted. Whoever aborted, whatever has been written by then,
//! the producer is told PRODUCER_FENCED, which an application survives with a new producer; INVALID_TXN_STATE is fatal.

use std::rc::Rc;

use fencepost_protocol::messages::EndTxnResponse;
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_COMMITTED, committed_values, init, read, transaction_state};
use crate::harness::{Producer, World};

/// More syncs than an abort of two partitions needs to its end.
const STAGES: usize = 6;

/// Who aborts.
#[derive(Clone, Copy, Debug)]
enum Abort {
    Timeout,
    NewInstance,
}

/// An open transaction, and its abort decided: nothing of it is durable yet.
fn aborted(abort: Abort, initial_epoch: &str, is_version_2: bool) -> (Rc<World>, Producer) {
    let world = World::with(&[("fencepost.test.initial.producer.epoch", initial_epoch)]);
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    for partition in 0..2 {
        if !is_version_2 {
            producer.add_partition("t", partition);
        }
        producer.produce(if is_version_2 { 12 } else { 11 }, "t", partition, &["a"]);
    }
    match abort {
        Abort::Timeout => world.advance_ms(60_001),
        Abort::NewInstance => _ = world.client().send(5, &init("x", 60_000)),
    }
    (world, producer)
}

/// Coordinator trap 11: before the first marker, between the markers, after the last one, after the completion, and over a
/// crash at each of these; at an ordinary epoch and at the last one, where the producer id rotates.
#[test]
fn a_late_commit_is_fenced_at_every_stage() {
    for abort in [Abort::Timeout, Abort::NewInstance] {
        for initial_epoch in ["0", "32766"] {
            for is_version_2 in [true, false] {
                for stage in 0..STAGES {
                    for crashes in [false, true] {
                        let what = format!(
                            "{abort:?} at epoch {initial_epoch}, version 2: {is_version_2}, {stage} syncs, {crashes}"
                        );
                        let (world, producer) = aborted(abort, initial_epoch, is_version_2);
                        for _ in 0..stage {
                            world.sync_one();
                        }
                        if crashes {
                            world.restart();
                        }
                        assert_fenced_and_aborted(&world, &producer, is_version_2, &what);
                    }
                }
            }
        }
    }
}

fn assert_fenced_and_aborted(world: &Rc<World>, producer: &Producer, is_version_2: bool, what: &str) {
    let version = if is_version_2 { 5 } else { 4 };
    let commit = world.client().send(version, &producer.end_request(true));
    world.settle();
    let answer = commit.answer();
    assert_told(&answer, is_version_2, what);
    assert_eq!((answer.producer_id, answer.producer_epoch), (-1, -1), "{what}");
    for partition in 0..2 {
        let row = read(&world.client(), "t", partition, 0, READ_COMMITTED);
        assert_eq!(row.last_stable_offset, row.high_watermark, "{what}");
        assert_eq!(row.aborted_transactions.unwrap().len(), 1, "{what}");
    }
    // It is the same once a successor has its pair, in its transaction, and after that; and over a crash.
    let ask_again = || {
        assert_told(&world.client().ask(version, &producer.end_request(true)), is_version_2, what);
    };
    ask_again();
    let next = Producer::start(world.client(), "x");
    ask_again();
    next.produce(12, "t", 0, &["b"]);
    ask_again();
    next.end(5, true);
    ask_again();
    world.restart();
    ask_again();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit", "{what}");
}

/// Fenced. Below version 2 the holder of a producer id that has been replaced is a stranger (`coordinator §9.2`).
fn assert_told(answer: &EndTxnResponse, is_version_2: bool, what: &str) {
    let is_replaced = !is_version_2 && answer.error_code == ErrorCode::InvalidProducerIdMapping.code();
    assert!(is_replaced || answer.error_code == ErrorCode::ProducerFenced.code(), "{what}: {answer:?}");
}

/// The other order: a commit that is decided before the timeout stands, though everything else comes after it.
#[test]
fn a_commit_before_the_timeout_stands() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    world.advance_ms(60_000);
    let commit = producer.send_end(5, true);
    world.advance_ms(10_000);
    assert!(!commit.is_done(), "nothing has been synced");
    world.settle();
    assert_eq!(commit.answer().error_code, 0);
    assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
}
