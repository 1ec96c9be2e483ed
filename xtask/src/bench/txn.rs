//! Back-to-back transactions of one record, by the clients that people use and by one that costs nothing, beside Apache Kafka.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::PAGE;
use super::{machine, median};
use crate::broker::{Broker, End, Program, Setup};
use crate::summary::Summary;
use crate::{interop, process, sections, workspace};

const STEP_MAX: Duration = Duration::from_secs(120);
/// Length of one measurement.
const SECONDS: u32 = 10;
/// The same promise for both: written to the page cache, Kafka's own rule.
const CONTENDERS: [(&str, Program, &[&str]); 3] = [
    ("Apache Kafka 4.4", Program::Kafka, &[]),
    ("Fencepost, `page-cache`", Program::Fencepost, &["fencepost.durability=page-cache"]),
    ("Fencepost, `fsync`", Program::Fencepost, &[]),
];

/// Who asks.
#[derive(Clone, Copy)]
enum Client {
    Java,
    Raw,
    Librdkafka,
}

impl Client {
    const ALL: [Client; 3] = [Client::Java, Client::Raw, Client::Librdkafka];

    fn name(self) -> &'static str {
        match self {
            Client::Java => "Java 4.4",
            Client::Raw => "raw (`crates/client`, transaction version 2)",
            Client::Librdkafka => "librdkafka (confluent-kafka for Python)",
        }
    }

    /// How many times Kafka's rate is wanted.
    fn wanted(self) -> f64 {
        match self {
            Client::Java => 20.0,
            Client::Raw => 40.0,
            Client::Librdkafka => 10.0,
        }
    }
}

/// Of one client at one broker.
#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    median_ms: f64,
    p99_ms: f64,
}

/// Measures all clients at all brokers, and writes the section. The contenders take turns, so that a busy moment of the machine
/// does not hit one alone.
pub fn run(runs: usize) -> Result<Summary> {
    let began = Instant::now();
    let scratch = workspace::scratch("bench-txn")?;
    let raw = raw_client()?;
    let mut all = vec![vec![Vec::new(); CONTENDERS.len()]; Client::ALL.len()];
    for run in 0..runs {
        for (column, (name, program, settings)) in CONTENDERS.iter().enumerate() {
            let mut broker = Broker::start(Setup {
                executable: program.prepare()?,
                data: scratch.join(format!("{column}-{run}")),
                settings: settings.iter().map(|setting| (*setting).to_string()).collect(),
                log: scratch.join("broker.log"),
            })?;
            for (row, client) in Client::ALL.into_iter().enumerate() {
                let figures = measure(client, &raw, &broker).with_context(|| client.name())?;
                println!("bench: {name}: {}: {:.0} a second", client.name(), figures.per_second);
                all[row][column].push(figures);
            }
            broker.end(End::Stop)?;
            std::fs::remove_dir_all(scratch.join(format!("{column}-{run}")))?;
        }
    }
    let table: Vec<Vec<Figures>> =
        all.into_iter().map(|row| row.into_iter().map(|runs| middle(&runs)).collect()).collect();
    sections::write(PAGE, "txn", &section(&table, &machine::describe(&scratch), runs))?;
    let met = Client::ALL.iter().zip(&table).filter(|(client, row)| ratio(row) >= client.wanted()).count();
    let line = format!(
        "bench: {met} of {} targets met, {PAGE} written; {} s",
        Client::ALL.len(),
        began.elapsed().as_secs()
    );
    Ok(Summary { line, passed: met, failed: Client::ALL.len() - met })
}

fn middle(runs: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure).collect());
    Figures { per_second: of(|f| f.per_second), median_ms: of(|f| f.median_ms), p99_ms: of(|f| f.p99_ms) }
}

/// Fencepost's rate in Kafka's durability, in Kafka's rates.
fn ratio(row: &[Figures]) -> f64 {
    row[1].per_second / row[0].per_second
}

fn raw_client() -> Result<PathBuf> {
    let arguments =
        ["build", "--quiet", "--release", "--locked", "-p", "fencepost-client", "--example", "back_to_back"];
    ensure!(workspace::cargo().args(arguments).status()?.success(), "building the raw client failed");
    Ok(workspace::target_dir().join("release/examples/back_to_back"))
}

fn measure(client: Client, raw: &PathBuf, broker: &Broker) -> Result<Figures> {
    let address = broker.address().to_string();
    let python = |topic: &str, seconds: u32| -> Result<Command> {
        let mut command = Command::new(interop::interpreter()?);
        command.arg("-B").arg(workspace::root().join("testing/bench/back_to_back.py"));
        command.args([&address, topic, &seconds.to_string()]);
        Ok(command)
    };
    let mut command = match client {
        Client::Java => {
            let mut command = interop::java_command("transactions")?;
            command.args(["--bootstrap", &address, "--seconds", &SECONDS.to_string()]);
            command
        }
        Client::Raw => {
            ensure!(process::succeeds(&mut python("raw", 0)?, STEP_MAX)?, "no topic for the raw client");
            let mut command = Command::new(raw);
            command.args([&address, "raw", &SECONDS.to_string()]);
            command
        }
        Client::Librdkafka => python("librdkafka", SECONDS)?,
    };
    let said = process::output(&mut command, STEP_MAX)?;
    let figures: Value = serde_json::from_str(&said).with_context(|| said)?;
    let of = |name: &str| figures[name].as_f64().with_context(|| format!("no {name}"));
    Ok(Figures { per_second: of("per_second")?, median_ms: of("median_ms")?, p99_ms: of("p99_ms")? })
}

fn section(table: &[Vec<Figures>], machine: &str, runs: usize) -> String {
    let mut text = String::from("## Back-to-back transactions\n\n");
    text += "Written by `cargo xtask bench txn`: one producer, transactions of one record, the next one begun when the last one is answered.\n";
    let _ = writeln!(
        text,
        "Each cell: transactions a second; median / 99th percentile of one transaction in ms. Medians of {runs} runs of {SECONDS} s.\n"
    );
    let _ = writeln!(text, "Machine: {machine}.\n");
    text += "| client |";
    text += &CONTENDERS.iter().map(|(name, ..)| format!(" {name} |")).collect::<String>();
    text += " same durability, times Kafka | wanted |\n|---|";
    text += &"---:|".repeat(CONTENDERS.len() + 1);
    text += "---|\n";
    for (client, row) in Client::ALL.iter().zip(table) {
        let _ = write!(text, "| {} |", client.name());
        for Figures { per_second, median_ms, p99_ms } in row {
            let _ = write!(text, " {per_second:.0}; {median_ms:.2} / {p99_ms:.2} |");
        }
        let met = if ratio(row) >= client.wanted() { "met" } else { "**not met**" };
        let _ = writeln!(text, " {:.1} | {:.0}: {met} |", ratio(row), client.wanted());
    }
    let raw_to_java = table[1][1].per_second / table[0][0].per_second;
    let _ = writeln!(
        text,
        "\nThe raw client at Fencepost makes {raw_to_java:.1} times the transactions of the Java client at Kafka."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each row says for itself whether it is met.
    #[test]
    fn each_client_can_miss() {
        let row = |kafka: f64, ours: f64| {
            [kafka, ours, 1.0].map(|per_second| Figures { per_second, median_ms: 1.0, p99_ms: 2.0 }).to_vec()
        };
        let text = section(&[row(50.0, 1000.0), row(50.0, 1999.0), row(50.0, 500.0)], "m", 1);
        let verdicts: Vec<bool> = text
            .lines()
            .filter(|line| line.contains(": met |") || line.contains("not met"))
            .map(|line| line.contains(": met |"))
            .collect();
        assert_eq!(verdicts, [true, false, true]);
    }
}
