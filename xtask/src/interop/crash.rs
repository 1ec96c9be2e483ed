//! `cargo xtask interop crash`: workers and the broker are killed in the middle of transactions, and nothing is lost or comes twice.
//!
//! For each client: a directory, a topic to copy from and one to copy to. A round adds records, starts a worker, kills it (SIGKILL) after
//! a few commits, starts the next, kills the broker after a few more, starts the broker again on the same directory, lets the
//! worker finish (or the next one, when it gave up), and compares the two topics. In every third round both are killed at once.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Checks, interpreter, java, python_program};
use crate::broker::{Broker, End, Setup};
use crate::process::{self, Guarded};

const CLIENTS: [&str; 3] = ["confluent", "aiokafka", "java"];
/// 60 transactions of five records.
const ROUND_RECORDS: u32 = 300;
const ROUND_MAX: Duration = Duration::from_secs(120);
const STEP_MAX: Duration = Duration::from_secs(60);
/// Workers that give up in one round; more means that none makes progress.
const WORKERS_MAX: u32 = 12;

/// Runs every client on a broker and directory of its own.
pub fn run(setup: Setup, rounds: u32, seed: u64, clients: &[String]) -> Result<Checks> {
    let chosen = CLIENTS.iter().filter(|c| clients.is_empty() || clients.iter().any(|name| name == *c));
    let mut checks = Checks::new();
    for client in chosen {
        let data = setup.data.with_file_name(format!("crash-{client}"));
        let setup = Setup { data, ..setup.clone() };
        let done = one_client(setup, client, rounds, seed);
        checks.push((format!("crash {client} (--seed {seed})"), done));
    }
    ensure!(!checks.is_empty(), "no such client; there are {}", CLIENTS.join(", "));
    Ok(checks)
}

fn one_client(setup: Setup, client: &str, rounds: u32, seed: u64) -> Result<()> {
    let mut crash =
        Crash { broker: Broker::start(setup)?, client, random: Random::new(seed), kills: Kills::default() };
    let began = Instant::now();
    let mut said = String::new();
    for round in 0..rounds {
        said = crash.round(round).with_context(|| format!("round {round}"))?;
        println!("crash {client}: round {round}: {said}");
    }
    println!("OK crash {client}: {rounds} rounds, {}, {said}; {} s", crash.kills, began.elapsed().as_secs());
    Ok(())
}

#[derive(Default)]
struct Kills {
    workers: u32,
    brokers: u32,
    gave_up: u32,
}

impl fmt::Display for Kills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} workers and {} brokers killed, {} workers gave up",
            self.workers, self.brokers, self.gave_up
        )
    }
}

struct Crash<'a> {
    broker: Broker,
    client: &'a str,
    random: Random,
    kills: Kills,
}

impl Crash<'_> {
    fn round(&mut self, round: u32) -> Result<String> {
        let deadline = Instant::now() + ROUND_MAX;
        let first = (round * ROUND_RECORDS).to_string();
        process::output(
            self.command("fill")?.args(["--first", &first, "--count", &ROUND_RECORDS.to_string()]),
            STEP_MAX,
        )?;
        // Static members take over at once, dynamic ones when the session of the killed one is over.
        let is_static = round % 2 == 1;

        let mut worker = self.worker(is_static)?;
        self.some_commits(&mut worker, is_static, deadline)?;
        if round % 3 == 2 {
            self.broker.end(End::Kill)?;
            self.kills.brokers += 1;
        }
        drop(worker);
        self.kills.workers += 1;
        if !self.broker.alive() {
            self.broker.start_again()?;
        }

        let mut worker = self.worker(is_static)?;
        self.some_commits(&mut worker, is_static, deadline)?;
        self.broker.restart(End::Kill)?;
        self.kills.brokers += 1;

        self.finish(worker, is_static, deadline)?;
        Ok(process::output(&mut self.command("verify")?, STEP_MAX)?.trim().to_string())
    }

    /// Waits for a few commits and a moment more, so that the kill comes anywhere in a transaction.
    fn some_commits(&mut self, worker: &mut Worker, is_static: bool, deadline: Instant) -> Result<()> {
        let mut wanted = 2 + self.random.below(8);
        while wanted > 0 {
            match worker.next_line(deadline)? {
                Some(line) if line.starts_with("committed ") => wanted -= 1,
                Some(line) if line == "end" => bail!("the worker was done before it could be killed"),
                Some(_) => {}
                None => {
                    self.gave_up()?;
                    *worker = self.worker(is_static)?;
                }
            }
        }
        thread::sleep(Duration::from_millis(self.random.below(20)));
        Ok(())
    }

    /// Lets workers run until one has reached the end.
    fn finish(&mut self, mut worker: Worker, is_static: bool, deadline: Instant) -> Result<()> {
        loop {
            match worker.next_line(deadline)? {
                Some(line) if line == "end" => return Ok(()),
                Some(_) => {}
                None => {
                    self.gave_up()?;
                    worker = self.worker(is_static)?;
                }
            }
        }
    }

    fn gave_up(&mut self) -> Result<()> {
        self.kills.gave_up += 1;
        ensure!(
            self.kills.gave_up < WORKERS_MAX * (self.kills.workers + 1),
            "workers give up again and again"
        );
        Ok(())
    }

    fn worker(&self, is_static: bool) -> Result<Worker> {
        let mut command = self.command("work")?;
        command.args(["--txn", "crash-txn"]);
        if is_static {
            command.args(["--instance", "crash-instance"]);
        }
        Worker::start(command)
    }

    fn command(&self, step: &str) -> Result<Command> {
        let mut command = match self.client {
            "java" => java::command(step)?,
            client => {
                let mut command = python_program(&interpreter()?, "testing/interop/python/crash.py");
                command.args([step, "--client", client]);
                command
            }
        };
        command.args(["--bootstrap", &self.broker.address().to_string()]);
        command.args(["--source", "crash-in", "--target", "crash-out", "--group", "crash-group"]);
        Ok(command)
    }
}

/// A worker process and its lines. Dropping it kills the process.
struct Worker {
    _process: Guarded,
    lines: Receiver<String>,
}

impl Worker {
    fn start(mut command: Command) -> Result<Worker> {
        let mut process =
            Guarded(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
        let stdout = process.0.stdout.take().expect("stdout is piped");
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { _process: process, lines })
    }

    /// The next line; none when the process has ended without reaching the end.
    fn next_line(&mut self, deadline: Instant) -> Result<Option<String>> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Ok(None),
            Err(mpsc::RecvTimeoutError::Timeout) => bail!("no end within {} s", ROUND_MAX.as_secs()),
        }
    }
}

/// A small generator of repeatable choices (splitmix64).
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number from 0 to below the end.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}
