//! What many offset commits and transactions leave in the two internal topics, with the cleaner and without.

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::PAGE;
use super::machine;
use crate::summary::Summary;
use crate::{process, sections, workspace};

const RUN_MAX: Duration = Duration::from_secs(1_800);
const TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];
const LIVE_KEYS: u32 = 1_000;
/// The smaller of the two runs has this part of the commits and transactions of the larger one.
const SMALLER: u32 = 10;
/// A log that is bounded by its live keys grows by less than this from the smaller run to the larger one. The last segment
/// is never cleaned, so a log may be anywhere within its dirty part.
const GROWTH_MAX: f64 = 4.0;

/// Runs the example with a tenth of `count` and with `count`, and writes the section.
pub fn run(count: u32) -> Result<Summary> {
    let began = Instant::now();
    let arguments =
        ["build", "--quiet", "--release", "--locked", "-p", "fencepost-broker", "--example", "compaction"];
    ensure!(workspace::cargo().args(arguments).status()?.success(), "building the example failed");
    let mut rows = Vec::new();
    for count in [count / SMALLER, count] {
        let mut command = Command::new(workspace::target_dir().join("release/examples/compaction"));
        command.args([count.to_string(), LIVE_KEYS.to_string()]);
        for line in process::output(&mut command, RUN_MAX)?.lines() {
            println!("bench: {line}");
            rows.push(Row::parse(line).with_context(|| line.to_owned())?);
        }
    }
    let scratch = workspace::scratch("bench-compaction")?;
    sections::write(PAGE, "compaction", &section(&rows, &machine::describe(&scratch)))?;
    let bounded = TOPICS.iter().enumerate().filter(|(at, _)| growth(&rows, *at) < GROWTH_MAX).count();
    let line = format!(
        "bench: {bounded} of {} logs bounded by their live keys, {PAGE} written; {} s",
        TOPICS.len(),
        began.elapsed().as_secs()
    );
    Ok(Summary { line, passed: bounded, failed: TOPICS.len() - bounded })
}

/// What one line of the example says.
#[derive(Clone, Copy)]
struct Row {
    is_cleaned: bool,
    count: u64,
    live_keys: u64,
    /// Bytes and records of each topic.
    logs: [(u64, u64); TOPICS.len()],
    start_ms: f64,
}

impl Row {
    fn parse(line: &str) -> Result<Self> {
        let row: Value = serde_json::from_str(line)?;
        let number = |value: &Value, name: &str| value[name].as_u64().with_context(|| format!("no {name}"));
        let mut logs = [(0, 0); TOPICS.len()];
        for (log, topic) in logs.iter_mut().zip(TOPICS) {
            *log = (number(&row[topic], "bytes")?, number(&row[topic], "records")?);
        }
        Ok(Self {
            is_cleaned: row["cleaner"].as_bool().context("no cleaner")?,
            count: number(&row, "count")?,
            live_keys: number(&row, "live_keys")?,
            logs,
            start_ms: row["start_ms"].as_f64().context("no start_ms")?,
        })
    }
}

/// How many times as large the cleaned log of a topic is in the last run as in the first.
fn growth(rows: &[Row], topic: usize) -> f64 {
    let mut bytes = rows.iter().filter(|row| row.is_cleaned).map(|row| row.logs[topic].0 as f64);
    let first = bytes.next().unwrap_or(1.0);
    bytes.next_back().unwrap_or(f64::INFINITY) / first
}

fn section(rows: &[Row], machine: &str) -> String {
    let mut text = String::from("## Compaction\n\n");
    text += "Written by `cargo xtask bench compaction`: offset commits of groups that take turns, then as many transactions (version 2, one\n";
    text += "offset commit each, every third aborted) of ids that take turns, by a whole engine on a disk in memory, whose clock goes on by a\n";
    text += "millisecond with each request. Then the process is killed and started again. One partition each, segments of 10 MiB,\n";
    text += "`log.cleaner.delete.retention.ms` of a minute: with Kafka's default of a day the markers of a day are there as well.\n\n";
    let _ = writeln!(text, "Machine: {machine}. One run of each.\n");
    text += "| commits, and transactions | live groups, and ids | cleaner |";
    text += &TOPICS.map(|topic| format!(" `{topic}`, MiB | records |")).concat();
    text += " start after the kill, ms |\n|---:|---:|---|---:|---:|---:|---:|---:|\n";
    for row in rows {
        let cleaner = if row.is_cleaned { "on" } else { "off" };
        let _ = write!(text, "| {} | {} | {cleaner} |", row.count, row.live_keys);
        for (bytes, records) in row.logs {
            let _ = write!(text, " {:.1} | {records} |", bytes as f64 / f64::from(1 << 20));
        }
        let _ = writeln!(text, " {:.0} |", row.start_ms);
    }
    text += "\n";
    for (at, topic) in TOPICS.iter().enumerate() {
        let growth = growth(rows, at);
        let verdict = if growth < GROWTH_MAX { "bounded by its live keys" } else { "**not bounded**" };
        let _ = writeln!(
            text,
            "- `{topic}`, cleaned: {growth:.1} times as large after {SMALLER} times the work: {verdict}."
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // A log that grows with the work is said to.
    #[test]
    fn growth_is_seen() {
        let line = |cleaner: bool, bytes: u64| {
            format!(
                "{{\"cleaner\":{cleaner},\"count\":9,\"live_keys\":3,\"__consumer_offsets\":{{\"bytes\":{bytes},\"records\":1}},\
                 \"__transaction_state\":{{\"bytes\":7,\"records\":2}},\"start_ms\":1.5}}"
            )
        };
        let lines = [line(false, 1), line(true, 100), line(false, 10), line(true, 1_000)];
        let rows: Vec<Row> = lines.iter().map(|line| Row::parse(line).unwrap()).collect();
        assert_eq!([growth(&rows, 0), growth(&rows, 1)], [10.0, 1.0]);
        let text = section(&rows, "m");
        assert!(text.contains("**not bounded**") && text.contains("bounded by its live keys"));
        assert!(Row::parse("{}").is_err());
    }
}
