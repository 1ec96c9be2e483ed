//! `cargo xtask sim`: the simulator of the whole engine, built in release mode.

use anyhow::{Result, ensure};
use clap::Args;

use crate::summary::Summary;
use crate::workspace;

/// What to run.
#[derive(Args, Debug)]
pub struct Sim {
    /// How many seeds, from 0 or from `--seed` on.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// One seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// The scenario of that seed; all where none is given.
    #[arg(long)]
    scenario: Option<String>,
    /// Print what happens, line by line.
    #[arg(long)]
    trace: bool,
}

impl Default for Sim {
    fn default() -> Self {
        Sim { seeds: 200, seed: None, scenario: None, trace: false }
    }
}

/// Runs it; the simulator prints failing seeds itself.
pub fn run(options: &Sim) -> Result<Summary> {
    let mut command = workspace::cargo();
    command.args([
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "fencepost-sim",
        "--bin",
        "fencepost-sim",
        "--",
    ]);
    let seeds = match options.seed {
        Some(seed) => {
            command.args(["--seed", &seed.to_string()]);
            1
        }
        None => {
            command.args(["--seeds", &options.seeds.to_string()]);
            options.seeds
        }
    };
    if let Some(scenario) = &options.scenario {
        command.args(["--scenario", scenario]);
    }
    if options.trace {
        command.arg("--trace");
    }
    let status = command.status()?;
    ensure!(status.code().is_some(), "the simulator was ended by a signal");
    let (passed, failed) = if status.success() { (seeds as usize, 0) } else { (0, 1) };
    let outcome = if failed == 0 { "nothing found" } else { "a seed failed, see above" };
    Ok(Summary { line: format!("sim: {seeds} seeds, {outcome}"), passed, failed })
}
