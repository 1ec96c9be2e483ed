//! `transaction.version` raised and lowered while transactions are in flight; clients of both kinds on one id.

use std::rc::Rc;

use fencepost_protocol::messages::InitProducerIdRequest;
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_COMMITTED, committed_values, init, read, transaction_state};
use crate::harness::{Producer, World};

fn world_at(level: i16) -> Rc<World> {
    let world = World::new();
    world.create_topic("t", 2);
    world.set_transaction_version(level);
    world
}

/// Opens a transaction of two partitions as a client of this kind does.
fn open(producer: &Producer, is_version_2: bool, value: &str) {
    for partition in 0..2 {
        if !is_version_2 {
            producer.add_partition("t", partition);
        }
        producer.produce(if is_version_2 { 12 } else { 11 }, "t", partition, &[value]);
    }
}

fn end_version(is_version_2: bool) -> i16 {
    if is_version_2 { 5 } else { 4 }
}

/// Every change of the level, under an open transaction of either kind, with a restart before or after it or none: the
/// client's own version decides how its transaction ends, and nothing is lost.
#[test]
fn a_level_changes_under_an_open_transaction() {
    for from in 0..=2 {
        for to in (0..=2).filter(|to| *to != from) {
            for is_version_2 in [false, true] {
                for restart_at in 0..3 {
                    for committed in [true, false] {
                        let what = format!(
                            "{from} to {to}, version 2: {is_version_2}, restart {restart_at}, {committed}"
                        );
                        let world = world_at(from);
                        let mut producer = Producer::start(world.client(), "x");
                        let before = producer.id.get();
                        open(&producer, is_version_2, "a");
                        if restart_at == 1 {
                            world.restart();
                        }
                        world.set_transaction_version(to);
                        if restart_at == 2 {
                            world.restart();
                        }
                        producer.client = world.client();
                        producer.end(end_version(is_version_2), committed);
                        let bumped = if is_version_2 { (before.0, before.1 + 1) } else { before };
                        assert_eq!(producer.id.get(), bumped, "{what}");
                        assert_ended(&world, committed, &what);
                        // And the next one, of the same kind.
                        open(&producer, is_version_2, "b");
                        producer.end(end_version(is_version_2), true);
                    }
                }
            }
        }
    }
}

fn assert_ended(world: &Rc<World>, committed: bool, what: &str) {
    let expected = if committed { "CompleteCommit" } else { "CompleteAbort" };
    assert_eq!(transaction_state(&world.client(), "x"), expected, "{what}");
    for partition in 0..2 {
        let row = read(&world.client(), "t", partition, 0, READ_COMMITTED);
        assert_eq!(row.last_stable_offset, row.high_watermark, "{what}");
        assert_eq!(row.aborted_transactions.unwrap().is_empty(), committed, "{what}");
    }
}

/// The level changes between the decision and its markers, with a crash or without: the decision stands, every partition
/// gets its marker, the same pair comes back to who asks again.
#[test]
fn a_level_changes_under_a_completing_transaction() {
    for (from, to) in [(2, 0), (2, 1), (1, 2), (0, 2)] {
        for is_version_2 in [false, true] {
            for committed in [true, false] {
                for restarts in [false, true] {
                    let what = format!(
                        "{from} to {to}, version 2: {is_version_2}, {committed}, restarts: {restarts}"
                    );
                    let world = world_at(from);
                    let mut producer = Producer::start(world.client(), "x");
                    open(&producer, is_version_2, "a");
                    let request = producer.end_request(committed);
                    let ended = producer.send_end(end_version(is_version_2), committed);
                    world.sync_until(|| ended.is_done());
                    assert_eq!(ended.answer().error_code, 0, "{what}");
                    let update = world.client().send(1, &World::transaction_version_request(to));
                    if restarts {
                        world.restart();
                    }
                    world.settle();
                    assert!(restarts || update.answer().error_code == 0, "{what}");
                    assert_ended(&world, committed, &what);
                    let again = world.client().ask(end_version(is_version_2), &request);
                    assert_eq!(again, ended.answer(), "{what}");
                    producer.client = world.client();
                    producer.ended(&again);
                    open(&producer, is_version_2, "b");
                    producer.end(end_version(is_version_2), true);
                }
            }
        }
    }
}

/// §9.4: an abort of the coordinator's own goes by the level at its time, whatever opened the transaction and whatever
/// the level was then: at 2 the old instance may ask what became of it, below it is fenced.
#[test]
fn the_coordinators_own_aborts_go_by_the_level_in_force() {
    for (from, to) in [(2, 1), (2, 0), (1, 2), (0, 2)] {
        for is_version_2 in [false, true] {
            for by_timeout in [false, true] {
                let what = format!("{from} to {to}, version 2: {is_version_2}, timeout: {by_timeout}");
                let world = world_at(from);
                let producer = Producer::start(world.client(), "x");
                let (id, epoch) = producer.id.get();
                open(&producer, is_version_2, "a");
                world.set_transaction_version(to);
                if by_timeout {
                    world.advance_ms(60_001);
                } else {
                    let fencing = world.client().ask(5, &init("x", 60_000));
                    assert_eq!(fencing.error_code, ErrorCode::ConcurrentTransactions.code(), "{what}");
                }
                world.settle();
                assert_ended(&world, false, &what);
                let expecting =
                    InitProducerIdRequest { producer_id: id, producer_epoch: epoch, ..init("x", 60_000) };
                let asked = world.client().ask(5, &expecting);
                if to == 2 {
                    assert_eq!((asked.error_code, asked.producer_epoch), (0, epoch + 1), "{what}");
                } else {
                    assert_eq!(asked.error_code, ErrorCode::ProducerFenced.code(), "{what}");
                }
            }
        }
    }
}

/// Coordinator trap 21: at level 0 a value has no room for what version 2 needs. It is written without it, never refused:
/// a transaction of a version 2 client commits, over a crash, at its raised epoch.
#[test]
fn level_0_serves_clients_of_version_2() {
    for syncs in 0..5 {
        let world = world_at(0);
        let mut producer = Producer::start(world.client(), "x");
        let (id, epoch) = producer.id.get();
        open(&producer, true, "a");
        producer.send_end(5, true);
        for _ in 0..syncs {
            world.sync_one();
        }
        world.restart();
        world.settle();
        assert_ended(&world, true, &format!("after {syncs} syncs"));
        producer.client = world.client();
        producer.id.set((id, epoch + 1));
        producer = Producer::holding(producer.client, "x", (id, epoch + 1));
        open(&producer, true, "b");
        producer.end(5, true);
        assert_eq!(committed_values(&world.client(), "t", 0), ["a", "b"]);
    }
}

/// KAFKA-18227: a client that upgrades takes its new epoch first, and a late request of its older self is fenced. One
/// that goes back does the same. Two instances of both kinds fence one another as two of one kind do.
#[test]
fn clients_of_both_kinds_share_an_id() {
    let world = world_at(1);
    let old = Producer::start(world.client(), "x");
    let (id, epoch) = old.id.get();
    open(&old, false, "a");
    old.end(4, true);
    world.set_transaction_version(2);
    let upgrade = InitProducerIdRequest { producer_id: id, producer_epoch: epoch, ..init("x", 60_000) };
    let upgraded = world.client().ask(5, &upgrade);
    assert_eq!((upgraded.error_code, upgraded.producer_id, upgraded.producer_epoch), (0, id, epoch + 1));
    let new = Producer::holding(world.client(), "x", (id, epoch + 1));
    open(&new, true, "b");
    // The older self, late: its end, its next partition, its batch.
    let fenced = ErrorCode::ProducerFenced.code();
    assert_eq!(world.client().ask(4, &old.end_request(true)).error_code, fenced);
    let added = world.client().ask(3, &old.add_request("t", 0));
    assert_eq!(added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, fenced);
    let late = world.client().ask(11, &old.produce_request("t", 0, &["late"]));
    let code = late.responses[0].partition_responses[0].error_code;
    assert_eq!(code, ErrorCode::InvalidProducerEpoch.code());
    new.end(5, true);
    // Back to the older kind, as a new instance: the other one is fenced.
    let back = Producer::start(world.client(), "x");
    open(&back, false, "c");
    let end = world.client().ask(5, &new.end_request(true));
    assert_eq!(end.error_code, fenced, "{end:?}");
    back.end(4, true);
    assert_eq!(committed_values(&world.client(), "t", 0), ["a", "b", "c"]);
}
