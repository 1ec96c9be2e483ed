//! A Java program that says on stdout what happens, and is told on stdin what to do.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::Guarded;

/// How often a wait looks at the other programs.
pub const LOOK: Duration = Duration::from_millis(5);

/// The process, its lines, and its ear. Dropping it kills the process (SIGKILL).
pub struct Talker {
    name: String,
    _process: Guarded,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Talker {
    /// Starts a program; what it writes to stderr is appended to the file.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Talker> {
        let stderr = OpenOptions::new().create(true).append(true).open(log)?;
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn();
        let mut process = Guarded(spawned.with_context(|| format!("starting {name}"))?);
        let stdin = process.0.stdin.take().expect("stdin is piped");
        let stdout = process.0.stdout.take().expect("stdout is piped");
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Talker { name: name.into(), _process: process, stdin, lines })
    }

    /// Says one line to the program.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes()).with_context(|| format!("telling {}", self.name))
    }

    /// What it has said since the last look. A broken guarantee, an exception that nobody caught, and an unexpected end are errors.
    pub fn said(&mut self) -> Result<Vec<String>> {
        let mut said = Vec::new();
        loop {
            match self.lines.try_recv() {
                Ok(line) => said.push(self.judged(line)?),
                Err(mpsc::TryRecvError::Empty) => return Ok(said),
                Err(mpsc::TryRecvError::Disconnected) if said.is_empty() => bail!("{} has ended", self.name),
                Err(mpsc::TryRecvError::Disconnected) => return Ok(said),
            }
        }
    }

    /// Waits for a line that begins so, and returns it.
    pub fn wait_for(&mut self, beginning: &str, limit: Duration) -> Result<String> {
        let deadline = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with(beginning) => return Ok(line),
                Ok(line) => self.judged(line)?,
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("{} ended without saying `{beginning}`", self.name)
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("{} did not say `{beginning}` within {} s", self.name, limit.as_secs())
                }
            };
        }
    }

    fn judged(&self, line: String) -> Result<String> {
        if line.starts_with("FAIL ") || line.starts_with("uncaught ") {
            bail!("{}: {line}", self.name);
        }
        Ok(line)
    }
}
