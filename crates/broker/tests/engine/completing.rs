//! Requests that meet a transaction which is completing: parked, answered when it has completed, within a limit.

use fencepost_protocol::messages::{AddOffsetsToTxnRequest, EndTxnResponse};
use fencepost_types::ErrorCode;

use crate::harness::requests::{
    READ_COMMITTED, committed_offset, init, marker, read, transaction_state, write_markers,
};
use crate::harness::{Producer, World, values_of};

/// How long a request is parked at most.
const PARKED_MS_MAX: i64 = 1_000;

fn completing_world() -> (std::rc::Rc<World>, Producer) {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    (world, producer)
}

/// Coordinator trap 4: EndTxn is answered once its decision is durable. The marker comes after that: here it is not
/// durable yet, and the transaction is completing.
#[test]
fn end_txn_is_answered_at_the_commit_point() {
    let (world, producer) = completing_world();
    let ended = producer.send_end(5, true);
    assert!(!ended.is_done(), "B3: the decision is not durable");
    assert_eq!(world.log_ends("t"), [1, 0], "no marker before the decision is durable");
    world.sync_until(|| ended.is_done());
    assert_eq!(ended.answer().error_code, 0);
    let standing = world.standing("t", 0);
    assert_eq!((standing.log_end_offset.0, standing.high_watermark.0), (2, 1), "the marker is on its way");
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit");
}

/// Whatever meets a completing transaction waits and is answered as soon as it has completed, on the same tick: the next
/// batch (adding its partition by itself), a partition that is added, a new instance, a repeated EndTxn.
#[test]
fn who_meets_a_completing_transaction_is_answered_when_it_has_completed() {
    let (world, producer) = completing_world();
    let ended = producer.send_end(5, true);
    let repeated = producer.send_end(5, true);
    world.sync_until(|| ended.is_done());
    producer.ended(&ended.answer());
    let next = producer.client.send(12, &producer.produce_request("t", 1, &["b"]));
    let added = world.client().send(3, &producer.add_request("t", 0));
    let started = world.client().send(5, &init("x", 60_000));
    assert!(!repeated.is_done() && !next.is_done() && !added.is_done() && !started.is_done());
    let now = world.now();
    world.settle();
    assert_eq!(world.now(), now, "nobody waited for a clock");
    assert_eq!(repeated.answer(), ended.answer());
    assert_eq!(next.answer().responses[0].partition_responses[0].error_code, 0);
    let row = &added.answer().results_by_topic_v3_and_below[0].results_by_partition[0];
    assert_eq!(row.partition_error_code, 0);
    // The new instance came last: it finds an open transaction, and fences it.
    assert_eq!(started.answer().error_code, ErrorCode::ConcurrentTransactions.code());
    let again = world.client().ask(5, &init("x", 60_000));
    assert_eq!(again.error_code, 0);
    // The last look whether a completion is durable.
    world.advance_ms(5);
    assert_eq!(world.broker().next_deadline(), housekeeping_only(&world), "no deadline is left behind");
}

/// Offsets in the next transaction wait like everything else, with their partition added by the commit itself (version 5)
/// or by the producer before.
#[test]
fn offsets_of_the_next_transaction_wait() {
    let (world, producer) = completing_world();
    let ended = producer.send_end(5, true);
    world.sync_until(|| ended.is_done());
    producer.ended(&ended.answer());
    let offsets = producer.client.send(5, &producer.offset_request("g", "t", 7));
    let (id, epoch) = producer.id.get();
    let add = AddOffsetsToTxnRequest {
        transactional_id: "x".to_owned(),
        producer_id: id,
        producer_epoch: epoch,
        group_id: "g".to_owned(),
    };
    let added = world.client().send(3, &add);
    assert!(!offsets.is_done() && !added.is_done());
    world.settle();
    assert_eq!(offsets.answer().topics[0].partitions[0].error_code, 0);
    assert_eq!(added.answer().error_code, 0);
    producer.end(5, true);
    assert_eq!(committed_offset(&world.client(), "g", "t", true), (7, 0));
}

/// The next deadline of a broker to which nothing happens.
fn housekeeping_only(world: &World) -> Option<fencepost_types::Nanos> {
    let idle = World::new();
    idle.advance_ms((world.now().wall.0 - idle.now().wall.0).max(0));
    idle.broker().next_deadline()
}

/// A request is parked for a second, to the tick; then it gets CONCURRENT_TRANSACTIONS, and is answered that once.
#[test]
fn parking_is_bounded() {
    let (world, producer) = completing_world();
    let ended = producer.send_end(5, true);
    world.sync_until(|| ended.is_done());
    let started = world.client().send(5, &init("x", 60_000));
    world.advance_ms(PARKED_MS_MAX - 1);
    assert!(!started.is_done());
    world.advance_ms(1);
    assert_eq!(started.answer().error_code, ErrorCode::ConcurrentTransactions.code());
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit");
    assert_eq!(read(&world.client(), "t", 0, 0, READ_COMMITTED).last_stable_offset, 2);
}

/// The second begins when the request comes, also if it meets one completing transaction after another.
#[test]
fn parking_is_bounded_over_several_transactions() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.add_partition("t", 0);
    producer.produce(11, "t", 0, &["a"]);
    let ended = producer.send_end(4, true);
    world.sync_until(|| ended.is_done());
    // Parked in this order; the first two make the third meet the next transaction's end.
    let added = world.client().send(3, &producer.add_request("t", 0));
    let ended_again = world.client().send(4, &producer.end_request(true));
    let unlucky = world.client().send(3, &producer.add_request("t", 0));
    world.advance_ms(PARKED_MS_MAX - 100);
    assert!(!added.is_done() && !ended_again.is_done() && !unlucky.is_done());
    // The marker becomes durable, the transaction completes, and the next one is decided at once.
    assert!(world.sync_one());
    world.advance_ms(99);
    assert!(!unlucky.is_done());
    world.advance_ms(1);
    let row = unlucky.answer().results_by_topic_v3_and_below[0].results_by_partition[0].clone();
    assert_eq!(row.partition_error_code, ErrorCode::ConcurrentTransactions.code());
    world.settle();
    assert_eq!(
        added.answer().results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        0
    );
    assert_eq!(ended_again.answer().error_code, 0);
}

/// Only so many wait for one transactional id; the next is answered at once.
#[test]
fn only_so_many_are_parked() {
    const PARKED_PER_ID_MAX: usize = 64;
    let (world, producer) = completing_world();
    let ended = producer.send_end(5, true);
    world.sync_until(|| ended.is_done());
    let parked: Vec<_> = (0..PARKED_PER_ID_MAX).map(|_| world.client().send(5, &init("x", 60_000))).collect();
    assert!(parked.iter().all(|call| !call.is_done()));
    let one_more = world.client().send(5, &init("x", 60_000));
    assert_eq!(one_more.answer().error_code, ErrorCode::ConcurrentTransactions.code());
    // Other transactional ids are none of this.
    let other = Producer::start(world.client(), "other");
    assert!(other.id.get().0 >= 0);
    world.settle();
    assert!(parked.iter().all(|call| call.answer().error_code == 0));
}

/// Coordinator trap 18: a marker that is refused for good leaves the transaction completing until the next load. Who
/// waits for it is told so at once, and so is who comes later; a restart sends the marker again, to no better effect, and
/// the decision stays.
#[test]
fn nobody_waits_for_a_marker_that_was_given_up() {
    let (world, producer) = completing_world();
    let (id, epoch) = producer.id.get();
    let fence = write_markers(vec![marker((id, epoch + 100), false, 0, &[("t", 0)])]);
    let fenced = world.client().ask(1, &fence);
    assert_eq!(fenced.markers[0].topics[0].partitions[0].error_code, 0);
    let ended = producer.send_end(5, true);
    let early = world.client().send(5, &init("x", 60_000));
    assert!(!early.is_done(), "parked: the marker has not been refused yet");
    world.settle();
    let response = EndTxnResponse { producer_id: id, producer_epoch: epoch + 1, ..Default::default() };
    assert_eq!(ended.answer(), response);
    let given_up = ErrorCode::ConcurrentTransactions.code();
    assert_eq!(early.answer().error_code, given_up);
    let late = world.client().send(5, &init("x", 60_000));
    assert_eq!(late.answer().error_code, given_up);
    assert_eq!(transaction_state(&world.client(), "x"), "PrepareCommit");
    world.restart();
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "PrepareCommit");
}

/// A broker that stops while requests are parked answers none of them, and the next one finishes what was decided.
#[test]
fn a_restart_forgets_who_was_parked_and_not_what_was_decided() {
    let (world, producer) = completing_world();
    let ended = producer.send_end(5, true);
    world.sync_until(|| ended.is_done());
    let started = world.client().send(5, &init("x", 60_000));
    world.restart();
    assert!(!started.is_done());
    world.settle();
    let row = read(&world.client(), "t", 0, 0, READ_COMMITTED);
    assert_eq!(values_of(&row.records.unwrap()), ["a"]);
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit");
}
