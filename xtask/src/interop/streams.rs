//! `cargo xtask interop streams`: Kafka Streams under `exactly_once_v2`, with its instances and the broker killed, and exact counts.
//!
//! The application counts words (a repartition topic, a changelog) and joins two topics over a window (two repartition topics, two
//! changelogs), whose pairs are counted by window (one more of each). Every update is written out, so that an output which is not
//! 1, 2, 3, … for each word and window, or a pair that is missing or comes twice, shows what went wrong. Both brokers run the same.

mod report;
mod stage;
mod talker;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Checks, Interop};
use crate::broker::{End, Program, Setup};
use report::{Outcome, Report};
use stage::{Manner, Stage};

/// How long the plain run feeds.
const PLAIN: Duration = Duration::from_secs(10);

const CLASSIC: Manner = Manner { standbys: 0, protocol: "classic" };
const STANDBY: Manner = Manner { standbys: 1, protocol: "classic" };
const STREAMS: Manner = Manner { standbys: 0, protocol: "streams" };

const PROTOCOL: &str = "group.protocol=streams";

type Scenario = fn(&mut Stage, u32) -> Result<()>;

/// Name, manner, and what happens while records are fed.
const SCENARIOS: [(&str, Manner, Scenario); 5] = [
    ("plain", CLASSIC, plain),
    ("application killed", CLASSIC, application_killed),
    ("broker killed", CLASSIC, broker_killed),
    ("both killed", CLASSIC, both_killed),
    ("standby", STANDBY, standby),
];

/// Runs every scenario, or the one that is named, each on a new directory.
pub fn run(setup: &Setup, options: &Interop) -> Result<Checks> {
    let (rounds, seed) = (options.rounds(), options.seed);
    let wanted = |name: &str| options.scenario.as_ref().is_none_or(|only| name == only);
    // Built now: the time of the first scenario is its own.
    stage::program("run")?;
    let mut report = Report::new(options.against);
    for (name, manner, play) in SCENARIOS.into_iter().filter(|(name, ..)| wanted(name)) {
        report.take(name, one(setup, name, manner, play, rounds, seed));
    }
    if !wanted(PROTOCOL) {
        return report.finish();
    }
    let protocol = match options.against {
        Program::Kafka => one(setup, PROTOCOL, STREAMS, plain, rounds, seed),
        Program::Fencepost => refused(setup),
    };
    report.take(PROTOCOL, protocol);
    report.finish()
}

fn one(setup: &Setup, name: &str, manner: Manner, play: Scenario, rounds: u32, seed: u64) -> Result<Outcome> {
    println!("streams {name}:");
    let setup = named(setup, name);
    let log = setup.log.clone();
    let began = Instant::now();
    let mut stage = Stage::open(setup, manner, seed)?;
    stage.start("a")?;
    stage.progress().context("at the start")?;
    let first = began.elapsed();
    play(&mut stage, rounds)?;
    let recoveries = stage.recoveries;
    let said = stage.close()?;
    Ok(Outcome { said, first, took: began.elapsed(), recoveries, warnings: report::warnings(&log) })
}

fn named(setup: &Setup, name: &str) -> Setup {
    let word = format!("streams-{}", name.replace([' ', '.', '='], "-"));
    let log = setup.log.with_file_name(format!("{word}.broker.log"));
    let mut settings = setup.settings.clone();
    // Changelogs are to be compacted while the application writes and restores from them.
    settings.push("log.cleaner.backoff.ms=200".into());
    Setup { data: setup.data.with_file_name(word), log, settings, ..setup.clone() }
}

fn plain(stage: &mut Stage, _rounds: u32) -> Result<()> {
    stage.run_for(PLAIN)
}

/// Every other time the killed instance has lost its disk too: its stores come from the changelogs, and it has another transactional id,
/// so that the transaction it left open is ended by its timeout only.
fn application_killed(stage: &mut Stage, rounds: u32) -> Result<()> {
    for round in 0..rounds {
        stage.run_a_while()?;
        let killed = Instant::now();
        stage.kill("a");
        let wiped = round % 2 == 1;
        if wiped {
            stage.wipe("a")?;
        }
        stage.start("a")?;
        let what = if wiped { "killed, its disk lost" } else { "killed" };
        stage.recovered(what, killed)?;
    }
    Ok(())
}

fn broker_killed(stage: &mut Stage, rounds: u32) -> Result<()> {
    for _ in 0..rounds {
        stage.run_a_while()?;
        let killed = Instant::now();
        stage.broker.restart(End::Kill)?;
        stage.recovered("broker killed", killed)?;
    }
    Ok(())
}

/// Both at once, and the broker again while the application joins its group, ends what it left open and restores from changelogs.
fn both_killed(stage: &mut Stage, rounds: u32) -> Result<()> {
    for _ in 0..rounds {
        stage.run_a_while()?;
        let killed = Instant::now();
        stage.broker.end(End::Kill)?;
        stage.kill("a");
        stage.wipe("a")?;
        stage.broker.start_again()?;
        stage.start("a")?;
        let wait = Duration::from_millis(stage.random.below(12_000));
        stage.run_for(wait)?;
        stage.broker.restart(End::Kill)?;
        stage.recovered("both killed, the disk lost, the broker killed again", killed)?;
    }
    Ok(())
}

/// Two instances with standbys for each other: the second joins, and then they are killed and come back in turn.
fn standby(stage: &mut Stage, rounds: u32) -> Result<()> {
    let joined = Instant::now();
    stage.start("b")?;
    stage.until("b", "state RUNNING")?;
    stage.recovered("second instance joined", joined)?;
    for round in 0..rounds {
        let name = if round % 2 == 0 { "a" } else { "b" };
        stage.run_a_while()?;
        let killed = Instant::now();
        stage.kill(name);
        stage.recovered("one of two killed", killed)?;
        let back = Instant::now();
        stage.start(name)?;
        stage.until(name, "state RUNNING")?;
        stage.recovered("it came back", back)?;
    }
    Ok(())
}

/// What the application is told by a broker without the protocol of KIP-1071: an error that says so, and no endless loop.
fn refused(setup: &Setup) -> Result<Outcome> {
    println!("streams group.protocol=streams:");
    let began = Instant::now();
    let setup = named(setup, PROTOCOL);
    let log = setup.log.clone();
    let mut stage = Stage::open(setup, STREAMS, 1)?;
    stage.start("a")?;
    let error = match stage.progress() {
        Ok(()) => anyhow::bail!("the application works, though the broker does not announce the protocol"),
        Err(error) => error.to_string(),
    };
    anyhow::ensure!(error.contains("UnsupportedVersionException"), "the application was told: {error}");
    Ok(Outcome {
        said: format!("refused: {error}"),
        first: began.elapsed(),
        took: began.elapsed(),
        recoveries: stage.recoveries,
        warnings: report::warnings(&log),
    })
}
