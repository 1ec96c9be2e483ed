//! What came of the scenarios: a table, and the lines for the matrix of clients.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::super::Checks;
use super::stage::Recoveries;
use crate::broker::Program;
use crate::workspace;

const CLIENT: &str = "Kafka Streams";
const VERSION: &str = "4.4.0";
/// The columns of the matrix. The application uses all but one of them in every scenario.
const CAPABILITIES: [&str; 9] =
    ["produce", "idempotent", "commit", "abort", "fencing", "offsets", "classic", "consumer", "admin"];
/// Where the lines for the matrix are kept.
const RESULTS: &str = "testing/interop/matrix/results";
/// How many scenarios make a whole run.
const ALL: usize = 6;
const OWN_PROTOCOL: &str = "the library has a protocol of its own instead: group.protocol=streams (KIP-1071)";
const OWN_PROTOCOL_REFUSED: &str = "the library has a protocol of its own instead: group.protocol=streams (KIP-1071), which Fencepost refuses \
     (UnsupportedVersionException)";

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
    text.lines().filter(|line| [" WARN", "ERROR"].iter().any(|level| line.contains(level))).count()
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
    pub fn finish(self) -> Result<Checks> {
        println!(
            "| scenario | recoveries | result | first output s | whole s | mean recovery s | longest s | warnings of the broker |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        self.rows.iter().for_each(|row| println!("{row}"));
        if self.checks.len() == ALL {
            let name = match self.against {
                Program::Fencepost => "fencepost",
                Program::Kafka => "kafka",
            };
            let directory = workspace::root().join(RESULTS).join(name);
            fs::create_dir_all(&directory)?;
            fs::write(directory.join("streams.jsonl"), self.lines()).context("the lines for the matrix")?;
        }
        Ok(self.checks)
    }

    /// One JSON object for each capability of the matrix of clients.
    fn lines(&self) -> String {
        let (classic, protocol) = self.checks.split_at(self.checks.len() - 1);
        let failed: Vec<&str> =
            classic.iter().filter(|(_, done)| done.is_err()).map(|(what, _)| what.as_str()).collect();
        let (result, detail) = match (failed.is_empty(), &protocol[0].1) {
            (false, _) => ("fail", failed.join(", ")),
            (true, Err(error)) => ("fail", format!("{error:#}")),
            (true, Ok(())) => ("pass", "exactly_once_v2, exact counts in every scenario".to_string()),
        };
        let own = match self.against {
            Program::Fencepost => OWN_PROTOCOL_REFUSED,
            Program::Kafka => OWN_PROTOCOL,
        };
        let line = |capability: &str| {
            let (result, detail) =
                if capability == "consumer" { ("none", own) } else { (result, detail.as_str()) };
            json!({
                "client": CLIENT, "version": VERSION, "capability": capability, "result": result, "detail": detail,
            })
        };
        CAPABILITIES.iter().map(|capability| format!("{}\n", line(capability))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(failing: Option<usize>) -> Report {
        let mut report = Report::new(Program::Fencepost);
        for number in 0..ALL {
            let done = if failing == Some(number) { Err(anyhow::anyhow!("lost")) } else { Ok(()) };
            report.checks.push((format!("streams {number}"), done));
        }
        report
    }

    // Each column of the matrix has a line; the one that the library has no use for is none of its failures.
    #[test]
    fn a_line_for_each_capability() {
        let lines = report(None).lines();
        let results: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(results.len(), CAPABILITIES.len());
        for (line, capability) in results.iter().zip(CAPABILITIES) {
            assert_eq!(line["capability"], capability);
            assert_eq!(line["result"], if capability == "consumer" { "none" } else { "pass" });
        }
    }

    // One scenario that failed is told in every column, by its name or by what was said.
    #[test]
    fn a_failure_is_told() {
        assert!(report(Some(2)).lines().contains(r#""detail":"streams 2""#));
        assert!(report(Some(ALL - 1)).lines().contains(r#""detail":"lost""#));
    }
}
