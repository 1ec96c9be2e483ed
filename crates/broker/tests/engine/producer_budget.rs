//! The budget of producer entries: what makes room, what is refused, and what is counted.

use std::rc::Rc;

use fencepost_types::ErrorCode;

use crate::harness::requests::{committed_values, produce};
use crate::harness::{Producer, World, batch};

const REFUSED: i16 = ErrorCode::NotEnoughReplicas as i16;
/// `PRODUCER_EVICTION_IDLE_MIN_MS`.
const IDLE_MS: i64 = 300_000;

/// One batch of an idempotent producer; answers the code.
fn write(world: &Rc<World>, topic: &str, producer_id: i64, sequence: i32) -> i16 {
    let batch = batch((producer_id, 0), sequence, false, world.now().wall, &["v"]);
    let answer = world.client().ask(9, &produce(None, -1, vec![(topic, 0, batch)]));
    answer.responses[0].partition_responses[0].error_code
}

/// A partition that is full refuses who is new, in a way that clients retry, and nobody else; once somebody has been silent
/// long enough, the longest silent makes room. A transaction's producer never does.
#[test]
fn a_full_partition() {
    let world = World::with(&[("fencepost.producer.entries.partition.max", "3")]);
    world.create_topic("t", 1);
    let open = Producer::start_with(world.client(), "x", 800_000);
    open.produce(12, "t", 0, &["a"]);
    assert_eq!((write(&world, "t", 101, 0), write(&world, "t", 102, 0)), (0, 0));
    assert_eq!(write(&world, "t", 103, 0), REFUSED);
    assert_eq!((write(&world, "t", 101, 1), write(&world, "t", 102, 1)), (0, 0));
    let broker = world.broker();
    assert_eq!((broker.producers_refused(), broker.producers_evicted()), (1, 0));
    drop(broker);
    world.advance_ms(IDLE_MS - 1);
    assert_eq!(write(&world, "t", 102, 2), 0);
    assert_eq!(write(&world, "t", 103, 0), REFUSED);
    world.advance_ms(1);
    assert_eq!(write(&world, "t", 103, 0), 0);
    // 101 went: it is unknown. 102 is known: its retry is recognised, and writes nothing.
    let end = world.log_ends("t");
    assert_eq!(write(&world, "t", 102, 2), 0);
    assert_eq!(world.log_ends("t"), end);
    assert_eq!(world.broker().producers_evicted(), 1);
    open.end(5, true);
    assert!(committed_values(&world.client(), "t", 0).contains(&"a".to_owned()));
}

/// A broker that is full makes room in other partitions, for the retry of who was refused.
#[test]
fn a_full_broker() {
    let world = World::with(&[("fencepost.producer.entries.max", "3")]);
    world.create_topic("t", 1);
    world.create_topic("u", 1);
    for producer_id in 101..104 {
        assert_eq!(write(&world, "t", producer_id, 0), 0);
    }
    assert_eq!(world.broker().producer_entries(), 3);
    assert_eq!(write(&world, "u", 105, 0), REFUSED);
    world.advance_ms(IDLE_MS + 10_000);
    assert_eq!(write(&world, "u", 105, 0), REFUSED);
    assert!(world.broker().producers_evicted() > 0, "u has nobody, but t has");
    assert_eq!(write(&world, "u", 105, 0), 0);
    assert!(world.broker().producer_entries() <= 3);
    // What a topic held is given back with it, and a restart counts anew.
    assert_eq!(world.delete_topic("t"), 0);
    assert_eq!(world.broker().producer_entries(), 1);
    world.restart();
    assert_eq!(world.broker().producer_entries(), 1);
}

/// A marker is never refused: a transaction ends, whatever the table holds.
#[test]
fn a_marker_is_never_refused() {
    let world = World::with(&[("fencepost.producer.entries.partition.max", "1")]);
    world.create_topic("t", 1);
    let open = Producer::start(world.client(), "x");
    open.produce(12, "t", 0, &["a"]);
    assert_eq!(write(&world, "t", 101, 0), REFUSED);
    open.end(5, true);
    assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
}
