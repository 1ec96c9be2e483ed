//! Runs scenarios in a Python process, watches it and the broker, and replaces whichever fails.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::outcome::{Outcome, Seen};
use super::restart::{self, SharedBroker};
use crate::broker::{Broker, Setup};

/// A broker that dies closes its sockets a moment before its process is gone.
const DYING_MAX: Duration = Duration::from_millis(300);

/// Where a run takes place.
pub struct Place {
    /// The interpreter with the suite's packages.
    pub python: PathBuf,
    /// The directory of the suite.
    pub suite: PathBuf,
    /// Data directories and logs.
    pub scratch: PathBuf,
    /// How scenarios have the broker restarted.
    pub restart_command: restart::Command,
    /// How long one scenario may take.
    pub scenario_max: Duration,
    /// When what is left counts as not run.
    pub ends_at: Instant,
}

/// Runs passes over one broker each.
pub struct Runner {
    place: Place,
    broker: SharedBroker,
    seen: Seen,
    brokers_started: u32,
}

/// What ended one Python process.
enum Halt {
    Done,
    /// The scenario at the head of the queue takes too long.
    Hung,
    BrokerDied,
    TimeOver,
}

impl Runner {
    /// A runner that has seen nothing yet.
    pub fn new(place: Place) -> Runner {
        Runner { place, broker: Arc::new(Mutex::new(None)), seen: Seen::default(), brokers_started: 0 }
    }

    /// Runs scenarios, in their order, each exactly once.
    pub fn pass(&mut self, setup: &Setup, names: Vec<String>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        restart::listen(&self.place.restart_command.socket, self.broker.clone())?;
        let mut left: VecDeque<String> = names.into();
        while !left.is_empty() {
            self.ensure_broker(setup)?;
            match self.run_until_trouble(&mut left)? {
                Halt::Done => {}
                Halt::Hung => {
                    let name = left.pop_front().context("one is running")?;
                    println!("conformance: {name} hung");
                    self.seen.outcomes.insert(name, Outcome::Hung);
                    // It may have left locks or open transactions behind: the next ones get a new broker.
                    *self.broker.lock().expect("no holder panics") = None;
                }
                Halt::BrokerDied => *self.broker.lock().expect("no holder panics") = None,
                Halt::TimeOver => {
                    left.drain(..).for_each(|name| drop(self.seen.outcomes.insert(name, Outcome::NotRun)))
                }
            }
        }
        *self.broker.lock().expect("no holder panics") = None;
        Ok(())
    }

    /// What all passes have seen.
    pub fn finish(self) -> Seen {
        self.seen
    }

    /// Starts a broker on a new directory unless one is running.
    fn ensure_broker(&mut self, setup: &Setup) -> Result<()> {
        let mut broker = self.broker.lock().expect("no holder panics");
        if broker.as_mut().is_some_and(Broker::alive) {
            return Ok(());
        }
        self.brokers_started += 1;
        let data = PathBuf::from(format!("{}-{}", setup.data.display(), self.brokers_started));
        *broker = Some(Broker::start(Setup { data, ..setup.clone() })?);
        Ok(())
    }

    /// Starts the suite on what is left and takes its results, until it ends or must be ended.
    fn run_until_trouble(&mut self, left: &mut VecDeque<String>) -> Result<Halt> {
        let mut log =
            OpenOptions::new().create(true).append(true).open(self.place.scratch.join("run.log"))?;
        let (mut child, lines) = self.start_suite(left)?;
        let halt = self.take_results(left, &lines, &mut log);
        // It may have ended by itself.
        let _ = child.kill();
        child.wait()?;
        halt
    }

    fn start_suite(&self, left: &VecDeque<String>) -> Result<(Child, Receiver<String>)> {
        let address =
            self.broker.lock().expect("no holder panics").as_ref().context("a broker runs")?.address();
        let mut child = Command::new(&self.place.python)
            .arg("-B")
            .arg(self.place.suite.join("run.py"))
            .args(["--bootstrap", &address.to_string(), "--restart-cmd", &self.place.restart_command.shell()])
            .args(left)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok((child, receive))
    }

    fn take_results(
        &mut self,
        left: &mut VecDeque<String>,
        lines: &Receiver<String>,
        log: &mut File,
    ) -> Result<Halt> {
        let mut limit = Instant::now() + self.place.scenario_max;
        while !left.is_empty() {
            let now = Instant::now();
            if now > self.place.ends_at {
                return Ok(Halt::TimeOver);
            }
            let line = match lines.recv_timeout(limit.saturating_duration_since(now)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Ok(Halt::Hung),
                Err(RecvTimeoutError::Disconnected) => {
                    // The suite itself broke in this scenario; the next ones get a new process.
                    self.seen.outcomes.insert(left.pop_front().context("one was running")?, Outcome::Failed);
                    return Ok(Halt::Done);
                }
            };
            writeln!(log, "{line}")?;
            let Some((name, outcome)) = result(&line) else { continue };
            left.retain(|n| *n != name);
            limit = Instant::now() + self.place.scenario_max;
            let died = self.broker_died(&name, outcome == Outcome::Failed);
            let outcome = if died { Outcome::KilledBroker } else { outcome };
            self.seen.outcomes.insert(name.clone(), outcome);
            if died {
                println!("conformance: {name} killed the broker");
                lines.recv_timeout(DYING_MAX).iter().try_for_each(|line| writeln!(log, "{line}"))?;
                return Ok(Halt::BrokerDied);
            }
        }
        // What the last one differed in follows its result.
        while let Ok(line) = lines.recv_timeout(DYING_MAX) {
            writeln!(log, "{line}")?;
        }
        Ok(Halt::Done)
    }

    /// Looks at the broker after a scenario: its memory, and whether it is still there.
    fn broker_died(&mut self, after: &str, failed: bool) -> bool {
        let mut shared = self.broker.lock().expect("no holder panics");
        let Some(broker) = shared.as_mut() else { return true };
        let resident = broker.resident_bytes();
        if resident > self.seen.resident_bytes_max.0 {
            self.seen.resident_bytes_max = (resident, after.to_string());
        }
        if !failed || broker.answers() {
            return !broker.alive();
        }
        let since = Instant::now();
        while broker.alive() && since.elapsed() < DYING_MAX {
            thread::sleep(Duration::from_millis(10));
        }
        !broker.alive() || !broker.answers()
    }
}

/// Reads a result line of the suite: `PASS name (…)`, `FAIL name…`, `SKIP name (why)`.
fn result(line: &str) -> Option<(String, Outcome)> {
    let (word, rest) = line.split_once(' ')?;
    let (name, note) = rest.split_once(' ').unwrap_or((rest, ""));
    let outcome = match word {
        "PASS" => Outcome::Passed,
        "FAIL" => Outcome::Failed,
        "SKIP" => Outcome::Skipped(note.trim_start_matches('(').trim_end_matches(')').to_string()),
        _ => return None,
    };
    Some((name.trim_end_matches(':').to_string(), outcome))
}

/// Removes data directories; logs stay.
pub fn clear(scratch: &Path) -> Result<()> {
    for entry in fs::read_dir(scratch)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
