//! What came of the scenarios: a table, and the lines for the matrix of clients.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::super::Checks;
use super::stage::Recoveries;
use crate::broker::Program;

const CLIENT: &str = "Kafka Streams";
const VERSION: &str = "4.4.0";
/// Where the lines for the matrix of clients are written, below the directory of the tasks.
const LINES: &str = "streams.jsonl";
/// How many scenarios make a whole run.
const ALL: usize = 5;
const OWN_PROTOCOL: &str = "the library has no group.protocol=consumer; streams (KIP-1071) is refused with UnsupportedVersionException";

/// A scenario that went as wanted.
pub struct Outcome {
    /// What the watcher, or the application, said in the end.
    pub said: String,
    /// From the start of the broker until every output partition had a record.
    pub first: Duration,
    /// The whole scenario.
    pub took: Duration,
    /// Recoveries from kills.
    pub recoveries: Recoveries,
    /// Lines of the broker's log that warn.
    pub warnings: usize,
}

/// How many lines of a broker's log are warnings or errors.
pub fn warnings(log: &Path) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| [" WARN ", " ERROR "].iter().any(|level| line.contains(level))).count()
}

/// The scenarios so far.
pub struct Report {
    against: Program,
    checks: Checks,
    rows: Vec<String>,
}

impl Report {
    /// An empty one.
    pub fn new(against: Program) -> Report {
        Report { against, checks: Checks::new(), rows: Vec::new() }
    }

    /// Takes in one scenario.
    pub fn take(&mut self, name: &str, outcome: Result<Outcome>) {
        let what = format!("streams {name}");
        let done = outcome.map(|one| {
            let Recoveries { count, sum, longest } = one.recoveries;
            let mean = if count == 0 { Duration::ZERO } else { sum / count };
            println!("OK {what}: {}; {:.1} s", one.said, one.took.as_secs_f64());
            self.rows.push(format!(
                "| {name} | {count} | {} | {:.1} | {:.1} | {:.2} | {:.2} | {} |",
                one.said,
                one.first.as_secs_f64(),
                one.took.as_secs_f64(),
                mean.as_secs_f64(),
                longest.as_secs_f64(),
                one.warnings,
            ));
        });
        if let Err(error) = &done {
            println!("not as wanted, {what}: {error:#}");
        }
        self.checks.push((what, done));
    }

    /// Prints the table, writes the lines and returns the checks.
    pub fn finish(self, directory: &Path) -> Result<Checks> {
        println!(
            "| scenario | recoveries | result | first output s | whole s | mean recovery s | longest s | warnings of the broker |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        self.rows.iter().for_each(|row| println!("{row}"));
        if self.checks.len() == ALL {
            fs::write(directory.join(LINES), self.lines()).with_context(|| LINES.to_string())?;
        }
        Ok(self.checks)
    }

    /// One JSON object for each capability.
    fn lines(&self) -> String {
        let (classic, protocol) = self.checks.split_at(self.checks.len() - 1);
        let failed: Vec<&str> =
            classic.iter().filter(|(_, done)| done.is_err()).map(|(what, _)| what.as_str()).collect();
        let (result, detail) = match failed.is_empty() {
            true => ("pass", "exactly_once_v2, exact counts in every scenario".to_string()),
            false => ("fail", failed.join(", ")),
        };
        let own = match (&protocol[0].1, self.against) {
            (Err(error), _) => ("fail", format!("{error:#}")),
            (Ok(()), Program::Kafka) => ("pass", "group.protocol=streams (KIP-1071)".into()),
            (Ok(()), Program::Fencepost) => ("none", OWN_PROTOCOL.into()),
        };
        let mut lines = String::new();
        for capability in [
            "produce",
            "idempotent",
            "transactions",
            "offsets-in-transactions",
            "groups-classic",
            "groups-848",
            "admin",
        ] {
            let (result, detail) =
                if capability == "groups-848" { (own.0, &own.1) } else { (result, &detail) };
            let line = json!({
                "client": CLIENT, "version": VERSION, "capability": capability, "result": result, "detail": detail,
            });
            lines += &format!("{line}\n");
        }
        lines
    }
}
