//! `cargo xtask sim`: the simulator of the whole engine, built in release mode.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::Result;
use clap::Args;

use crate::summary::Summary;
use crate::workspace;

/// What to run.
#[derive(Args, Debug)]
pub struct Sim {
    /// How many fresh seeds of each scenario; all saved ones run as well.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first fresh seed.
    #[arg(long, default_value_t = 0)]
    base: u64,
    /// One seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// One scenario alone.
    #[arg(long)]
    scenario: Option<String>,
    /// With --seed: print what happens, line by line.
    #[arg(long)]
    trace: bool,
}

impl Default for Sim {
    fn default() -> Self {
        Sim { seeds: 200, base: 0, seed: None, scenario: None, trace: false }
    }
}

/// Runs it; the simulator prints failing seeds and how to replay them.
pub fn run(options: &Sim) -> Result<Summary> {
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--release", "--locked", "--package", "fencepost-sim", "--"]);
    match options.seed {
        Some(seed) => command.args(["--seed", &seed.to_string()]),
        None => command.args(["--seeds", &options.seeds.to_string(), "--base", &options.base.to_string()]),
    };
    if let Some(scenario) = &options.scenario {
        command.args(["--scenario", scenario]);
    }
    if options.trace {
        command.arg("--trace");
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut last = String::new();
    for line in BufReader::new(stdout).lines() {
        last = line?;
        if counts(&last).is_none() {
            println!("{last}");
        }
    }
    let success = child.wait()?.success();
    let (passed, failed) = counts(&last).unwrap_or((0, 0));
    // A simulator that failed without counting, or passed nothing, has failed.
    let failed = if success && passed > 0 { failed } else { failed.max(1) };
    Ok(Summary { line: format!("sim: {passed} seeds passed, {failed} failed"), passed, failed })
}

/// Passed and failed of the simulator's closing line, `N seeds: N passed, N failed`.
fn counts(line: &str) -> Option<(usize, usize)> {
    let (_, rest) = line.split_once(" seeds: ")?;
    let (passed, failed) = rest.split_once(" passed, ")?;
    Some((passed.parse().ok()?, failed.strip_suffix(" failed")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::counts;

    // Only the closing line counts.
    #[test]
    fn the_closing_line() {
        assert_eq!(counts("212 seeds: 210 passed, 2 failed"), Some((210, 2)));
        assert_eq!(counts("fresh seeds 0 to 199, each twice"), None);
    }
}
