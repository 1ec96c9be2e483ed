//! A topic is deleted while a transaction is open in it, and perhaps made again under its name before the transaction ends.

use std::rc::Rc;

use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_COMMITTED, READ_UNCOMMITTED, committed_values, read, transaction_state};
use crate::harness::{Producer, World, values_of};

/// How the transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    Abort,
    Timeout,
}

/// When the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    Never,
    /// When the topic has been deleted, and made again.
    Deleted,
    /// When the end was asked for, after so many syncs.
    Ending(usize),
}

const CRASHES: [Crash; 6] =
    [Crash::Never, Crash::Deleted, Crash::Ending(0), Crash::Ending(1), Crash::Ending(2), Crash::Ending(3)];

/// A transaction with a record in `gone-0` and one in `kept-0`; then `gone` is deleted and, if asked for, made again.
fn deleted(is_made_again: bool) -> (Rc<World>, Producer) {
    let world = World::new();
    world.create_topic("gone", 1);
    world.create_topic("kept", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "gone", 0, &["old"]);
    producer.produce(12, "kept", 0, &["k"]);
    assert_eq!(world.delete_topic("gone"), 0);
    if is_made_again {
        world.create_topic("gone", 1);
    }
    world.settle();
    (world, producer)
}

fn end(world: &Rc<World>, producer: &mut Producer, end: End, crash: Crash) {
    if crash == Crash::Deleted {
        world.restart();
        producer.client = world.client();
    }
    let asked = match end {
        End::Commit => Some(producer.send_end(5, true)),
        End::Abort => Some(producer.send_end(5, false)),
        End::Timeout => {
            world.advance_ms(60_001);
            None
        }
    };
    if let Crash::Ending(syncs) = crash {
        for _ in 0..syncs {
            world.sync_one();
        }
        world.restart();
        producer.client = world.client();
    }
    world.settle();
    // Who got no answer asks again.
    let answer = match asked {
        None => return,
        Some(asked) if asked.is_done() => asked.answer(),
        Some(_) => producer.client.ask(5, &producer.end_request(end == End::Commit)),
    };
    producer.ended(&answer);
    world.settle();
}

/// Coordinator trap 34: the transaction completes, whichever way it ends, and the other partition gets its marker. Of the
/// deleted topic there is nothing left, and in the one that was made again nothing of it appears: no record, no open
/// transaction, no aborted one.
#[test]
fn a_transaction_ends_without_its_topic() {
    for is_made_again in [false, true] {
        for how in [End::Commit, End::Abort, End::Timeout] {
            for crash in CRASHES {
                let what = format!("made again: {is_made_again}, {how:?}, {crash:?}");
                let (world, mut producer) = deleted(is_made_again);
                end(&world, &mut producer, how, crash);
                let expected = if how == End::Commit { "CompleteCommit" } else { "CompleteAbort" };
                assert_eq!(transaction_state(&world.client(), "x"), expected, "{what}");
                let row = read(&world.client(), "kept", 0, 0, READ_COMMITTED);
                // A crash may have the marker written again (producer-state trap 6).
                assert!(row.last_stable_offset >= 2, "{what}");
                assert_eq!(row.last_stable_offset, row.high_watermark, "{what}");
                assert_eq!(row.aborted_transactions.unwrap().is_empty(), how == End::Commit, "{what}");
                assert_eq!(values_of(&row.records.unwrap()), ["k"], "{what}");
                check_gone(&world, is_made_again, &what);
                world.restart();
                check_gone(&world, is_made_again, &what);
            }
        }
    }
}

fn check_gone(world: &Rc<World>, is_made_again: bool, what: &str) {
    let row = read(&world.client(), "gone", 0, 0, READ_UNCOMMITTED);
    if !is_made_again {
        assert_eq!(row.error_code, ErrorCode::UnknownTopicOrPartition as i16, "{what}");
        return;
    }
    assert_eq!(row.error_code, 0, "{what}");
    assert_eq!(values_of(&row.records.unwrap_or_default()), Vec::<String>::new(), "{what}");
    assert_eq!(committed_values(&world.client(), "gone", 0), Vec::<String>::new(), "{what}");
    let standing = world.standing("gone", 0);
    assert_eq!(standing.log_start_offset.0, 0, "{what}");
    assert_eq!(standing.last_stable_offset, standing.log_end_offset, "{what}");
    assert_eq!(standing.open_transactions, 0, "{what}");
}

/// The topic that was made again can be written to in the next transaction and by others at once, while the old transaction
/// is still open, and what is written there is that transaction's own.
#[test]
fn a_topic_made_again_begins_anew() {
    for crash in [Crash::Never, Crash::Deleted] {
        for how in [End::Commit, End::Abort] {
            let what = format!("{how:?}, {crash:?}");
            let (world, mut producer) = deleted(true);
            let other = Producer::start(world.client(), "y");
            other.produce(12, "gone", 0, &["y"]);
            other.end(5, true);
            assert_eq!(committed_values(&world.client(), "gone", 0), ["y"], "{what}: nobody waits for x");
            drop(other);
            end(&world, &mut producer, how, crash);
            assert_eq!(committed_values(&world.client(), "gone", 0), ["y"], "{what}");
            producer.produce(12, "gone", 0, &["new"]);
            let row = read(&world.client(), "gone", 0, 0, READ_COMMITTED);
            assert!(row.last_stable_offset < row.high_watermark, "{what}");
            producer.end(5, true);
            assert_eq!(committed_values(&world.client(), "gone", 0), ["y", "new"], "{what}");
        }
    }
}

/// A transaction whose only topic is gone ends too, with nobody to tell.
#[test]
fn a_transaction_may_lose_all_its_partitions() {
    for how in [End::Commit, End::Abort, End::Timeout] {
        for crash in CRASHES {
            let world = World::new();
            world.create_topic("gone", 3);
            let mut producer = Producer::start(world.client(), "x");
            (0..3).for_each(|partition| producer.produce(12, "gone", partition, &["old"]));
            assert_eq!(world.delete_topic("gone"), 0);
            end(&world, &mut producer, how, crash);
            let expected = if how == End::Commit { "CompleteCommit" } else { "CompleteAbort" };
            assert_eq!(transaction_state(&world.client(), "x"), expected, "{how:?}, {crash:?}");
        }
    }
}
