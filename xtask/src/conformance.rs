//! `cargo xtask conformance`: every scripted conversation with a broker of this tree, and the page that tells how it went.
//!
//! The scenarios run one after another in a Python process (`testing/conformance/run.py`). This task owns the broker: it
//! answers the scenarios' wishes for a restart, notices a scenario that hangs or kills the broker, names it, and goes on
//! with the rest on a new broker. Most of a scenario's time is spent waiting; so several lanes run at once, each with a process and a
//! broker of its own.

mod outcome;
mod report;
mod restart;
mod runner;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::broker::{Program, Setup};
use crate::summary::Summary;
use crate::{python, workspace};

use outcome::{Outcome, Scenario, Verdict};
pub use restart::ask as restart_broker;

pub const REQUIREMENTS: &str = "testing/conformance/requirements.txt";
const SUITE: &str = "testing/conformance";
const PAGE: &str = "docs/conformance.md";
/// The slowest scenarios wait 20 s on purpose; a restart may take a while on a busy machine.
const SCENARIO_MAX: Duration = Duration::from_secs(60);
/// The whole run; what has not run by then counts as failed.
const RUN_MAX: Duration = Duration::from_secs(30 * 60);
/// Lanes against a broker that needs little of the machine.
const LANES: usize = 4;
/// Above this the broker is said to grow without bound.
const RESIDENT_BYTES_MAX: u64 = 1 << 30;

/// What to run.
#[derive(Args, Debug, Default)]
pub struct Conformance {
    /// Scenarios by name; a trailing * is a prefix. All where none is given, and then the page is written.
    names: Vec<String>,
    /// The broker to talk to.
    #[arg(long, value_enum, default_value = "fencepost")]
    against: Program,
    /// Use this executable, which knows `serve`, instead of building one.
    #[arg(long)]
    executable: Option<PathBuf>,
    /// Keep the data directories of the brokers.
    #[arg(long)]
    keep: bool,
    /// Write the list of known failures anew from this run.
    #[arg(long)]
    accept: bool,
}

/// Runs the scenarios and says how it went.
pub fn run(options: &Conformance) -> Result<Summary> {
    let began = Instant::now();
    let suite = workspace::root().join(SUITE);
    let executable = match &options.executable {
        Some(path) => workspace::root().join(path),
        None => options.against.prepare()?,
    };
    let python = python::environment(&[REQUIREMENTS])?;
    let scenarios = list(&python, &suite, &options.names)?;
    ensure!(!scenarios.is_empty(), "no scenario of that name");
    let scratch = workspace::scratch("conformance")?;
    let settings = settings(&suite)?;

    let lanes = match options.against {
        Program::Fencepost => LANES,
        Program::Kafka => 1,
    };
    let in_lane = |lane: usize| {
        let scratch = scratch.join(format!("lane-{lane}"));
        fs::create_dir_all(&scratch)?;
        let place = runner::Place {
            python: python.clone(),
            suite: suite.clone(),
            scratch: scratch.clone(),
            restart_command: restart_command(&scratch)?,
            scenario_max: SCENARIO_MAX,
            ends_at: began + RUN_MAX,
        };
        let chosen: Vec<&Scenario> = scenarios.iter().skip(lane).step_by(lanes).collect();
        run_lane(place, &executable, &settings, &chosen)
    };
    let mut seen = outcome::Seen::default();
    thread::scope(|scope| {
        let running: Vec<_> = (0..lanes).map(|lane| scope.spawn(move || in_lane(lane))).collect();
        running.into_iter().try_for_each(|lane| {
            seen.add(lane.join().expect("a lane does not panic")?);
            anyhow::Ok(())
        })
    })?;
    let verdict = judge(options, &suite, &scenarios, &seen)?;
    if options.names.is_empty() {
        let page = if options.against == Program::Fencepost {
            workspace::root().join(PAGE)
        } else {
            scratch.join("page.md")
        };
        fs::write(&page, report::page(&scenarios, &seen, &verdict))
            .with_context(|| page.display().to_string())?;
    }
    if !options.keep {
        (0..lanes).try_for_each(|lane| runner::clear(&scratch.join(format!("lane-{lane}"))))?;
    }
    println!("conformance: every result, and what differed: {}", scratch.join("lane-*/run.log").display());
    Ok(verdict.summary(&seen, began.elapsed()))
}

/// Runs some scenarios, one after the other.
fn run_lane(
    place: runner::Place,
    executable: &Path,
    settings: &[String],
    scenarios: &[&Scenario],
) -> Result<outcome::Seen> {
    let scratch = place.scratch.clone();
    let mut runner = runner::Runner::new(place);
    // The transactional ids of these expire within seconds, which would disturb the others.
    let (ids, others): (Vec<&Scenario>, Vec<&Scenario>) =
        scenarios.iter().partition(|s| s.name.starts_with("timeout-id-"));
    for (pass, chosen) in [("main", others), ("ids", ids)] {
        let mut settings = settings.to_vec();
        if pass == "ids" {
            settings.push("transactional.id.expiration.ms=3000".into());
            settings.push("transaction.remove.expired.transaction.cleanup.interval.ms=200".into());
        }
        let setup = Setup {
            executable: executable.to_owned(),
            data: scratch.join(pass),
            settings,
            log: scratch.join("broker.log"),
        };
        runner.pass(&setup, chosen.iter().map(|s| s.name.clone()).collect())?;
    }
    Ok(runner.finish())
}

/// Holds what was seen against the threshold and the list of known failures.
fn judge(
    options: &Conformance,
    suite: &Path,
    scenarios: &[Scenario],
    seen: &outcome::Seen,
) -> Result<Verdict> {
    let list = suite.join("known-failures");
    if options.accept && options.names.is_empty() {
        fs::write(&list, report::known_failures(&seen.outcomes))?;
    }
    let known = fs::read_to_string(&list).unwrap_or_default();
    let known: Vec<&str> = known.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let threshold = fs::read_to_string(suite.join("threshold")).context("testing/conformance/threshold")?;
    let whole = options.names.is_empty();
    let wanted_percent =
        if whole { threshold.trim().parse().context("the threshold is a number")? } else { 0.0 };
    let bytes_max = match options.against {
        Program::Fencepost => RESIDENT_BYTES_MAX,
        Program::Kafka => u64::MAX,
    };
    Ok(Verdict::new(scenarios, seen, &known, wanted_percent, bytes_max))
}

fn list(python: &Path, suite: &Path, names: &[String]) -> Result<Vec<Scenario>> {
    let out = Command::new(python).arg(suite.join("run.py")).arg("--list").args(names).output()?;
    ensure!(out.status.success(), "listing the scenarios: {}", String::from_utf8_lossy(&out.stderr));
    Ok(String::from_utf8(out.stdout)?.lines().filter_map(Scenario::parse).collect())
}

fn settings(suite: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(suite.join("settings"))?;
    Ok(text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).map(str::to_string).collect())
}

/// What the scenarios call to have the broker restarted: this program, by its hidden task.
fn restart_command(scratch: &Path) -> Result<restart::Command> {
    let program = env::current_exe()?;
    Ok(restart::Command { program, socket: restart::socket_path(scratch) })
}

/// Results by name of the scenario.
pub type Outcomes = BTreeMap<String, Outcome>;
