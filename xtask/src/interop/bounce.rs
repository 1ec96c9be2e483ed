//! `cargo xtask interop bounce`: a producer with five requests in flight, and the broker stopped or killed under it, again and again.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Checks, Interop, PART_MAX, java};
use crate::broker::{Broker, End, Program, Setup};
use crate::process;

/// Restarts of each run where no number is given.
const ROUNDS: u32 = 20;
/// One restart, with the time until the next.
const ROUND_MAX: Duration = Duration::from_secs(30);

/// The kinds of producers, and how the broker goes.
const RUNS: [(&str, &str, &str, End); 4] = [
    ("plain-stopped", "plain", "stopped", End::Stop),
    ("plain-killed", "plain", "killed", End::Kill),
    ("transactional-stopped", "transactional", "stopped", End::Stop),
    ("transactional-killed", "transactional", "killed", End::Kill),
];

/// Every run, or the one that is named, each on a broker of its own.
pub fn run(setup: &Setup, options: &Interop) -> Result<Checks> {
    let rounds = options.rounds.unwrap_or(ROUNDS);
    let wanted = |name: &str| options.scenario.as_ref().is_none_or(|only| name == only);
    let mut checks = Checks::new();
    for (name, kind, how, end) in RUNS.into_iter().filter(|(name, ..)| wanted(name)) {
        let broker = Broker::start(Setup { data: setup.data.join(name), ..setup.clone() })?;
        let said = bounce(broker, kind, end, rounds, options.seed);
        if let Ok(said) = &said {
            println!("{}, {kind}, {how} {rounds} times: {}", options.against.name(), said.trim_end());
        }
        checks.push((format!("bounce {name}"), said.and_then(|said| judge(options.against, &said))));
    }
    ensure!(!checks.is_empty(), "bounce has no such scenario");
    Ok(checks)
}

fn bounce(mut broker: Broker, kind: &str, end: End, rounds: u32, seed: u64) -> Result<String> {
    let mut command = java::command("bounce")?;
    command.args(["--bootstrap", &broker.address().to_string(), "--kind", kind]);
    command.args(["--rounds", &rounds.to_string(), "--seed", &seed.to_string()]);
    let limit = PART_MAX + ROUND_MAX * rounds;
    process::output_granting(&mut command, limit, "restart", || broker.restart(end))
}

/// What is there twice or lost has failed already. Of Fencepost the client hears of no error either.
fn judge(program: Program, said: &str) -> Result<()> {
    match program {
        Program::Fencepost => ensure!(said.contains("errors {}"), "the client was told of errors: {said}"),
        Program::Kafka => {}
    }
    Ok(())
}
