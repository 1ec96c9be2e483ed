//! Time and transactions: timeouts run on the monotonic clock, whatever happens to the wall clock; ids expire by the wall
//! clock, and a step of it leaves none for ever.

use std::rc::Rc;

use crate::harness::requests::{READ_COMMITTED, read, transaction_state};
use crate::harness::{Producer, World};

/// An hour.
const HOUR_MS: i64 = 3_600_000;
/// A timeout of a minute is over after this long: it must have been exceeded.
const OVER_MS: i64 = 60_001;

fn open_transaction() -> (Rc<World>, Producer) {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start_with(world.client(), "x", 60_000);
    producer.produce(12, "t", 0, &["a"]);
    (world, producer)
}

fn assert_open(world: &Rc<World>, what: &str) {
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "Ongoing", "{what}");
    assert_eq!(read(&world.client(), "t", 0, 0, READ_COMMITTED).last_stable_offset, 0, "{what}");
}

fn assert_aborted(world: &Rc<World>, what: &str) {
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteAbort", "{what}");
    let row = read(&world.client(), "t", 0, 0, READ_COMMITTED);
    assert_eq!(
        row.last_stable_offset, row.high_watermark,
        "{what}: the last stable offset moves with the abort"
    );
}

/// Somebody sets the wall clock by an hour, or by years, while a transaction is open: it is aborted on the tick after its
/// timeout as if nothing had happened, and so is the next one.
#[test]
fn a_step_of_the_wall_clock_aborts_nothing_early_and_nothing_late() {
    for step_ms in [-HOUR_MS, HOUR_MS, -20_000 * HOUR_MS, 20_000 * HOUR_MS] {
        let what = format!("a step by {step_ms} ms");
        let (world, mut producer) = open_transaction();
        world.advance_ms(20_000);
        world.step_wall_ms(step_ms);
        world.advance_ms(OVER_MS - 20_000 - 1);
        assert_open(&world, &what);
        world.advance_ms(1);
        assert_aborted(&world, &what);
        // A transaction that starts after the step, with a step back in the middle of it.
        producer = Producer::start_with(producer.client, "x", 60_000);
        producer.produce(12, "t", 0, &["b"]);
        world.step_wall_ms(-step_ms);
        world.advance_ms(OVER_MS - 1);
        assert_ne!(transaction_state(&world.client(), "x"), "CompleteAbort", "{what}");
        world.advance_ms(1);
        assert_aborted(&world, &what);
    }
}

/// Nobody needs to come by: no request, only the clock, and the step does not put the deadline off.
#[test]
fn a_step_back_keeps_no_transaction() {
    let (world, _producer) = open_transaction();
    world.step_wall_ms(-HOUR_MS);
    world.advance_ms(OVER_MS);
    assert_aborted(&world, "after a step back");
}

/// At a restart the wall clock is all there is. One that was set back has the start in the future: the transaction is kept
/// for its timeout, from the restart, and no longer. One that is right has it aborted when it would have been.
#[test]
fn a_restart_after_a_step_keeps_no_transaction_for_ever() {
    let (world, _producer) = open_transaction();
    world.advance_ms(20_000);
    world.step_wall_ms(-HOUR_MS);
    world.restart();
    world.advance_ms(OVER_MS - 1);
    assert_open(&world, "set back, then restarted");
    world.advance_ms(1);
    assert_aborted(&world, "set back, then restarted");

    let (world, _producer) = open_transaction();
    world.step_wall_ms(HOUR_MS);
    world.advance_ms(20_000);
    world.step_wall_ms(-HOUR_MS);
    world.restart();
    world.advance_ms(OVER_MS - 20_000 - 1);
    assert_open(&world, "set right again, then restarted");
    world.advance_ms(1);
    assert_aborted(&world, "set right again, then restarted");
}

/// `coordinator §14`: an unused id is forgotten by the wall clock. A clock that ran years behind and is set right is
/// noticed within minutes, though no request comes and no deadline was near; one that is set back is waited for.
#[test]
fn ids_expire_by_the_wall_clock_wherever_it_goes() {
    const EXPIRATION_MS: i64 = 2 * HOUR_MS;
    const LOOK_AGAIN_MS: i64 = 600_000;
    let expiration = EXPIRATION_MS.to_string();
    let settings = [("transactional.id.expiration.ms", expiration.as_str())];
    let world = World::with(&settings);
    Producer::start(world.client(), "x");
    world.step_wall_ms(EXPIRATION_MS);
    world.advance_ms(LOOK_AGAIN_MS);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "", "two hours later, says the clock");

    let world = World::with(&settings);
    Producer::start(world.client(), "x");
    world.step_wall_ms(-HOUR_MS);
    world.advance_ms(EXPIRATION_MS);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "Empty", "not yet, says the clock");
    world.advance_ms(HOUR_MS);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "");
}

/// The deadline is the transaction's own: two hundred with timeouts of all lengths end each on its own tick.
#[test]
fn two_hundred_timeouts_are_exact() {
    let world = World::new();
    world.create_topic("t", 1);
    let mut due: Vec<(i64, String)> = (0..200_i64)
        .map(|number| {
            let timeout_ms = 1 + (number * 7_919) % 5_003;
            let id = format!("x{number}");
            // The clock stands still: every transaction starts now.
            let producer = Producer::start_with(world.client(), &id, timeout_ms as i32);
            producer.produce(12, "t", 0, &["a"]);
            (timeout_ms + 1, id)
        })
        .collect();
    due.sort();
    let mut passed_ms = 0;
    for (index, (at_ms, id)) in due.iter().enumerate() {
        if *at_ms > passed_ms {
            world.advance_ms(at_ms - 1 - passed_ms);
            world.settle();
            assert_eq!(transaction_state(&world.client(), id), "Ongoing", "{id}");
            world.advance_ms(1);
            world.settle();
            passed_ms = *at_ms;
        }
        assert_eq!(transaction_state(&world.client(), id), "CompleteAbort", "{id}");
        assert!(world.standing("t", 0).open_transactions < due.len() - index);
    }
    assert_eq!(world.standing("t", 0).open_transactions, 0);
}
