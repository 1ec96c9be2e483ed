//! A crash before and after every call that changes the disk, in scenarios of every kind: the decision stands, every
//! partition has its marker, nobody is stuck, and no client is told two different things.
//!
//! A scenario is run once to count its calls. Then twice for each of them, with the power failing before the call and right
//! after it, taking in turn the process alone and the whole machine (of what was not synced any part is there, torn perhaps).
//! The scenario's clients ask again for what was not answered, and go on; all must end as if nothing had happened.

mod ends;
mod fences;
mod outcome;
mod run;
mod surroundings;
mod two_phase;

use outcome::Outcome;
use run::{Loss, Point, Run};

use crate::harness::{Producer, TestDisk, World};

/// A life has at least so many calls: fewer, and the scenario's point is not met.
const CALLS_MIN: u64 = 8;
/// Beyond the scenario's own calls nothing is left to crash in.
const CALLS_MAX: u64 = 400;

/// Runs a scenario with the power failing at every point. Topics "t" of two partitions and "u" of one are there, and the
/// coordinators' own.
fn every_point(settings: &[(&str, &str)], scenario: impl Fn(&mut Run) -> Outcome) {
    let disk = beginning(settings);
    let calls = one_run(&disk, settings, None, &scenario);
    assert!((CALLS_MIN..CALLS_MAX).contains(&calls), "{calls} calls");
    let mut points = 0;
    for call in 0..calls {
        // What lies between two calls is met twice, after the one and before the other: with either loss.
        let loss = if call.is_multiple_of(2) { Loss::Process } else { Loss::Machine };
        for is_made in [false, true] {
            one_run(&disk, settings, Some(Point { call, is_made, loss }), &scenario);
            points += 1;
        }
    }
    println!("{}: {points} crash points", std::thread::current().name().unwrap_or_default());
}

/// The disk on which every run begins.
fn beginning(settings: &[(&str, &str)]) -> TestDisk {
    let world = World::with(settings);
    world.create_topic("t", 2);
    world.create_topic("u", 1);
    // The coordinators' topics are made when somebody asks for them first.
    let first = Producer::start(world.client(), "somebody");
    let answer = first.client.ask(5, &first.offset_request("somebodys", "u", 1));
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    first.end(5, true);
    world.settle();
    world.broker().stop(&|| world.now()).unwrap();
    world.disk.copy()
}

fn one_run(
    disk: &TestDisk,
    settings: &[(&str, &str)],
    point: Option<Point>,
    scenario: &impl Fn(&mut Run) -> Outcome,
) -> u64 {
    let world = World::on(disk, settings);
    let mut run = Run::begin(world, point);
    let outcome = scenario(&mut run);
    run.finish();
    outcome.assert(&run);
    assert_eq!(run.deaths, usize::from(point.is_some()));
    run.calls()
}
