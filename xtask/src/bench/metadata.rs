//! What many changes of the metadata cost and leave behind, among few topics and among many.

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::PAGE;
use super::machine;
use crate::summary::Summary;
use crate::{process, sections, workspace};

const RUN_MAX: Duration = Duration::from_secs(3_600);
/// Topics of the two runs.
const TOPICS: [usize; 2] = [100, 1_000];
/// Ten times the topics may make a change cost as many times as much: paths in maps grow with the logarithm, and checkpoint
/// files, which a deletion writes, have a line for each partition.
const COST_GROWTH_MAX: f64 = 2.0;
/// The metadata log and its snapshots: Kafka's `metadata.max.retention.bytes`, and a segment and two snapshots beyond.
const BYTES_MAX: f64 = 200e6;
/// The next start, whatever the past was.
const START_MS_MAX: f64 = 1_000.0;

/// Runs the example with `count` changes among few topics and among many, and writes the section.
pub fn run(count: u32) -> Result<Summary> {
    let began = Instant::now();
    let arguments =
        ["build", "--quiet", "--release", "--locked", "-p", "fencepost-broker", "--example", "metadata_log"];
    ensure!(workspace::cargo().args(arguments).status()?.success(), "building the example failed");
    let mut rows = Vec::new();
    for topics in TOPICS {
        let mut command = Command::new(workspace::target_dir().join("release/examples/metadata_log"));
        let line = process::output(command.args([count.to_string(), topics.to_string()]), RUN_MAX)?;
        println!("bench: {}", line.trim_end());
        rows.push(Row::parse(&line).with_context(|| line.clone())?);
    }
    let scratch = workspace::scratch("bench-metadata")?;
    sections::write(PAGE, "metadata", &section(&rows, &machine::describe(&scratch)))?;
    let targets = targets(&rows);
    let failed = targets.iter().filter(|(_, is_met)| !is_met).count();
    let passed = targets.len() - failed;
    let line = format!(
        "bench: metadata: {passed} of {} targets met, {PAGE} written; {} s",
        targets.len(),
        began.elapsed().as_secs()
    );
    Ok(Summary { line, passed, failed })
}

/// What one line of the example says.
#[derive(Clone, Copy)]
struct Row {
    count: f64,
    topics: f64,
    changes_s: f64,
    bytes_max: f64,
    bytes: f64,
    start_ms: f64,
}

impl Row {
    fn parse(line: &str) -> Result<Self> {
        let row: Value = serde_json::from_str(line)?;
        let number = |name: &str| row[name].as_f64().with_context(|| format!("no {name}"));
        Ok(Self {
            count: number("count")?,
            topics: number("topics")?,
            changes_s: number("changes_s")?,
            bytes_max: number("bytes_max")?,
            bytes: number("bytes")?,
            start_ms: number("start_ms")?,
        })
    }

    fn change_ms(&self) -> f64 {
        self.changes_s * 1_000.0 / self.count
    }
}

/// What is wanted, and whether it is so.
fn targets(rows: &[Row]) -> Vec<(String, bool)> {
    let most = |figure: fn(&Row) -> f64| rows.iter().map(figure).fold(0.0, f64::max);
    let bytes = most(|row| row.bytes_max.max(row.bytes));
    let start_ms = most(|row| row.start_ms);
    let growth = match rows {
        [few, .., many] => many.change_ms() / few.change_ms(),
        _ => f64::INFINITY,
    };
    vec![
        (
            format!("the directory never has more than {:.0} MB: {:.1}", BYTES_MAX / 1e6, bytes / 1e6),
            bytes <= BYTES_MAX,
        ),
        (
            format!("the next start takes less than {START_MS_MAX:.0} ms: {start_ms:.0}"),
            start_ms < START_MS_MAX,
        ),
        (
            format!(
                "ten times the topics make a change cost less than {COST_GROWTH_MAX:.0} times as much: {growth:.1}"
            ),
            growth < COST_GROWTH_MAX,
        ),
    ]
}

fn section(rows: &[Row], machine: &str) -> String {
    let mut text = String::from("## Changes of the metadata\n\n");
    text += "Written by `cargo xtask bench metadata`: settings of topics, one after the other, and one change in ten is a topic that comes\n";
    text += "or goes; by a whole engine on a disk in memory with Kafka's defaults. Then the process is killed and started again.\n\n";
    let _ = writeln!(text, "Machine: {machine}. One run of each.\n");
    text += "| topics | changes | a change, ms | metadata log and snapshots at most, MB | at the end, MB | start after the kill, ms |\n";
    text += "|---:|---:|---:|---:|---:|---:|\n";
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {:.3} | {:.1} | {:.1} | {:.0} |",
            row.topics,
            row.count,
            row.change_ms(),
            row.bytes_max / 1e6,
            row.bytes / 1e6,
            row.start_ms
        );
    }
    text += "\n";
    for (target, is_met) in targets(rows) {
        let _ = writeln!(text, "- {target}: {}.", if is_met { "met" } else { "**not met**" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each target that is missed is said to be.
    #[test]
    fn missed_targets_are_seen() {
        let row = |topics: usize, changes_s: f64, bytes: u64, start_ms: f64| {
            let line = format!(
                "{{\"count\":1000,\"topics\":{topics},\"changes_s\":{changes_s},\"bytes_max\":{bytes},\"bytes\":7,\"segments\":1,\
                 \"snapshots\":1,\"start_ms\":{start_ms}}}"
            );
            Row::parse(&line).unwrap()
        };
        let met = |rows: &[Row]| targets(rows).into_iter().map(|(_, is_met)| is_met).collect::<Vec<_>>();
        let good = row(100, 1.0, 1_000_000, 900.0);
        assert_eq!(met(&[good, row(1_000, 1.9, 200_000_000, 999.0)]), [true, true, true]);
        assert_eq!(met(&[good, row(1_000, 2.1, 200_000_001, 1_000.0)]), [false, false, false]);
        assert!(section(&[good, good], "m").contains("| 100 | 1000 | 1.000 | 1.0 | 0.0 | 900 |"));
        assert!(Row::parse("{}").is_err());
    }
}
