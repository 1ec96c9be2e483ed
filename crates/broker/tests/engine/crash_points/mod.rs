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
    let thread = std::thread::current();
    let test = thread.name().and_then(|name| name.rsplit("::").next()).expect("a test's thread has its name");
    assert!(
        documented(test).contains(&points),
        "{test}: {points} crash points, not as docs/transactions.md has it"
    );
}

/// How many crash points the table of docs/transactions.md gives a test: a number for each of its runs.
fn documented(test: &str) -> Vec<usize> {
    let page = include_str!("../../../../../docs/transactions.md");
    let row = page.lines().find(|line| line.ends_with(&format!("| `{test}` |")));
    let cells: Vec<&str> = row.unwrap_or_default().split(" | ").collect();
    cells
        .get(1)
        .map_or_else(Vec::new, |cell| cell.split(" + ").filter_map(|number| number.parse().ok()).collect())
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
