//! A handful of seeds in the ordinary tests; `cargo xtask sim` plays many.

use std::path::Path;

use fencepost_sim::runner::{self, Run};
use fencepost_sim::scenarios::Scenario;
use fencepost_sim::trace::Trace;

/// Fresh seeds that are played here.
const SEEDS: u64 = 5;

/// A few seeds find nothing, and the same seed gives the same trace (S1).
#[test]
fn a_few_seeds_find_nothing_and_repeat_themselves() {
    for seed in 0..SEEDS {
        let run = Run { scenario: Scenario::Bank, seed };
        println!("{}", run.command());
        run.play_twice();
    }
}

/// Different seeds give different worlds, and across a few of them everything happens that the scenario is about:
/// commits, aborts, outcomes that stay unknown, accidents.
#[test]
fn seeds_differ_and_everything_happens() {
    let play = |seed| Scenario::Bank.run(seed, Trace::new(false));
    let summaries: Vec<_> = (100..100 + SEEDS).map(play).collect();
    assert!(summaries.windows(2).all(|pair| pair[0].fingerprint != pair[1].fingerprint));
    assert!(summaries.iter().any(|summary| summary.committed > 0));
    assert!(summaries.iter().any(|summary| summary.aborted > 0));
    assert!(summaries.iter().any(|summary| summary.unknown > 0));
    assert!(summaries.iter().all(|summary| summary.accidents > 0));
}

/// Every saved seed can be read.
#[test]
fn saved_seeds_can_be_read() {
    let saved = runner::saved(&Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds"));
    assert!(saved.is_ok(), "{saved:?}");
}
