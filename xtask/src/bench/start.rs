//! Start to first committed transaction, memory, and back-to-back transactions of one record, beside Apache Kafka.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::PAGE;
use super::{machine, median, page};
use crate::broker::{Broker, Program, Setup};
use crate::summary::Summary;
use crate::{interop, process, sections, workspace};

const STEP_MAX: Duration = Duration::from_secs(900);
/// How long a broker is left alone before its idle memory is read.
const IDLE: Duration = Duration::from_secs(5);
/// Length of a throughput run after the first.
const RUN_SECONDS: u32 = 10;

/// One column of the table.
pub struct Contender {
    pub name: &'static str,
    program: Program,
    settings: &'static [&'static str],
}

/// The same promise first: both leave the sync to the page cache, as Kafka does by default.
const CONTENDERS: [Contender; 3] = [
    Contender { name: "Apache Kafka 4.4", program: Program::Kafka, settings: &[] },
    Contender {
        name: "Fencepost, `page-cache`",
        program: Program::Fencepost,
        settings: &["fencepost.durability=page-cache"],
    },
    Contender { name: "Fencepost, `fsync`", program: Program::Fencepost, settings: &[] },
];

/// The medians of one contender.
pub struct Figures {
    pub port_ms: f64,
    pub commit_ms: f64,
    pub idle_mib: f64,
    pub busy_mib: f64,
    pub per_second: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
}

/// Measures all contenders and writes the page.
pub fn run(runs: usize, transactions: u32) -> Result<Summary> {
    let began = Instant::now();
    let scratch = workspace::scratch("bench")?;
    let mut columns = Vec::new();
    for (n, contender) in CONTENDERS.iter().enumerate() {
        let setup = Setup {
            executable: contender.program.prepare()?,
            data: scratch.join(n.to_string()),
            settings: contender.settings.iter().map(|s| (*s).to_string()).collect(),
            log: scratch.join("broker.log"),
        };
        let figures = measure(contender, setup, runs, transactions).with_context(|| contender.name)?;
        println!(
            "bench: {}: first commit {:.0} ms, {:.0} MiB idle, {:.0} MiB after, {:.0} transactions a second",
            contender.name, figures.commit_ms, figures.idle_mib, figures.busy_mib, figures.per_second
        );
        columns.push((contender.name, figures));
    }
    let text = page::page(&columns, &machine::describe(&scratch), runs, transactions);
    sections::write(PAGE, "start", &text)?;
    for entry in fs::read_dir(&scratch)?.flatten().filter(|entry| entry.path().is_dir()) {
        fs::remove_dir_all(entry.path())?;
    }
    let (missed, held) = page::targets(&columns).into_iter().partition::<Vec<_>, _>(|target| !target.met);
    let line = format!(
        "bench: {} of {} targets met, {PAGE} written; {} s",
        held.len(),
        held.len() + missed.len(),
        began.elapsed().as_secs()
    );
    Ok(Summary { line, passed: held.len(), failed: missed.len() })
}

fn measure(contender: &Contender, setup: Setup, runs: usize, transactions: u32) -> Result<Figures> {
    let starts: Vec<Value> = (0..runs).map(|n| first_commit(contender, &setup, n)).collect::<Result<_>>()?;
    let broker = Broker::start(setup)?;
    thread::sleep(IDLE);
    let idle_mib = mib(broker.resident_bytes());
    let mut rates = vec![transact(&broker, &["--transactions", &transactions.to_string()])?];
    let busy_mib = mib(broker.resident_bytes());
    for _ in 1..runs {
        rates.push(transact(&broker, &["--seconds", &RUN_SECONDS.to_string()])?);
    }
    let of = |values: &[Value], name: &str| median(values.iter().filter_map(|v| v[name].as_f64()).collect());
    Ok(Figures {
        port_ms: of(&starts, "port_ms"),
        commit_ms: of(&starts, "commit_ms"),
        idle_mib,
        busy_mib,
        per_second: of(&rates, "per_second"),
        median_ms: of(&rates, "median_ms"),
        p99_ms: of(&rates, "p99_ms"),
    })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Starts the broker on a new directory. Kafka's is formatted first, which is not counted.
fn first_commit(contender: &Contender, setup: &Setup, run: usize) -> Result<Value> {
    let data = PathBuf::from(format!("{}-start-{run}", setup.data.display()));
    let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let arguments = |command: &mut Command, verb: &str| {
        command.arg(verb).arg("--data").arg(&data).args(["--listen", &listen]);
        for setting in &setup.settings {
            command.args(["-X", setting]);
        }
    };
    match contender.program {
        Program::Kafka => {
            let mut format = Command::new(&setup.executable);
            arguments(&mut format, "format");
            ensure!(process::succeeds(&mut format, STEP_MAX)?, "formatting Kafka's directory failed");
        }
        Program::Fencepost => {}
    }
    let mut command = Command::new(interop::interpreter()?);
    command.arg("-B").arg(workspace::root().join("testing/bench/first_commit.py")).arg(&setup.executable);
    arguments(&mut command, "serve");
    read(&mut command)
}

fn transact(broker: &Broker, limit: &[&str]) -> Result<Value> {
    let mut command = interop::java_command("transactions")?;
    read(command.args(["--bootstrap", &broker.address().to_string()]).args(limit))
}

fn read(command: &mut Command) -> Result<Value> {
    let said = process::output(command, STEP_MAX)?;
    serde_json::from_str(&said).with_context(|| said)
}
