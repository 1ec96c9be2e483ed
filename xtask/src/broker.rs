//! A broker as a child process: Fencepost, or Apache Kafka behind the same command line.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};

use crate::{dist, workspace};

/// How long a broker may take until it says that it is ready.
const READY_MAX: Duration = Duration::from_secs(180);
/// How long a broker may take to stop after SIGTERM. Fencepost promises a second; Kafka takes a few.
const STOP_MAX: Duration = Duration::from_secs(30);

/// Which broker a task drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// This project's, as it is given to people.
    #[default]
    Fencepost,
    /// Apache Kafka 4.4 from its Maven jars: the oracle and the peer.
    Kafka,
}

impl Program {
    /// Builds or fetches what the program needs, and returns its executable, which knows `serve`.
    pub fn prepare(self) -> Result<PathBuf> {
        match self {
            Program::Fencepost => dist::build(),
            Program::Kafka => {
                let script = workspace::root().join("testing/interop/kafka.sh");
                ensure!(
                    Command::new(&script).arg("install").status()?.success(),
                    "fetching Apache Kafka failed"
                );
                Ok(script)
            }
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Program::Fencepost => "Fencepost",
            Program::Kafka => "Apache Kafka",
        }
    }
}

/// How a broker is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGKILL: the process has no chance to write anything.
    Kill,
    /// SIGTERM: a clean stop.
    Stop,
}

/// What a broker is started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The executable, from [`Program::prepare`].
    pub executable: PathBuf,
    /// Its data directory.
    pub data: PathBuf,
    /// Kafka properties, as `name=value`.
    pub settings: Vec<String>,
    /// The file that its standard error is appended to.
    pub log: PathBuf,
}

/// A running broker. Dropping it kills the process.
pub struct Broker {
    setup: Setup,
    address: SocketAddr,
    child: Child,
}

impl Broker {
    /// Starts a broker on a free port of 127.0.0.1 and waits until it is ready.
    pub fn start(setup: Setup) -> Result<Broker> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (child, address) = launch(&setup, any)?;
        Ok(Broker { setup, address, child })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the process.
    pub fn end(&mut self, how: End) -> Result<()> {
        if self.alive() {
            let signal = match how {
                End::Kill => Signal::KILL,
                End::Stop => Signal::TERM,
            };
            let pid = Pid::from_child(&self.child);
            kill_process(pid, signal).context("signalling the broker")?;
        }
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if began.elapsed() > STOP_MAX {
                bail!("the broker did not stop within {} s", STOP_MAX.as_secs());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Starts an ended broker again on the same data and the same port.
    pub fn start_again(&mut self) -> Result<()> {
        let (child, address) = launch(&self.setup, self.address)?;
        ensure!(address == self.address, "the broker came back on {address}, not on {}", self.address);
        self.child = child;
        Ok(())
    }

    /// Ends the broker and starts it again on the same data and the same port.
    pub fn restart(&mut self, how: End) -> Result<()> {
        self.end(how)?;
        self.start_again()
    }

    /// Whether the process is still there.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether it takes connections.
    pub fn answers(&self) -> bool {
        TcpStream::connect_timeout(&self.address, Duration::from_secs(2)).is_ok()
    }

    /// Resident memory in bytes; 0 when the process is gone.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The process may be gone already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(setup: &Setup, listen: SocketAddr) -> Result<(Child, SocketAddr)> {
    let log = OpenOptions::new().create(true).append(true).open(&setup.log)?;
    let mut command = Command::new(&setup.executable);
    command.arg("serve").arg("--data").arg(&setup.data).arg("--listen").arg(listen.to_string());
    for setting in &setup.settings {
        command.args(["-X", setting]);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let stdout = child.stdout.take().expect("stdout is piped");
    match ready_line(stdout) {
        Ok(address) => Ok((child, address)),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            Err(error
                .context(format!("the broker did not start; the end of its log:\n{}", tail(&setup.log, 20))))
        }
    }
}

/// Waits for `fencepost ready HOST:PORT`, and keeps the pipe drained afterwards.
fn ready_line(stdout: ChildStdout) -> Result<SocketAddr> {
    let (told, tells) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(stdout);
        let mut first = String::new();
        let read = lines.read_line(&mut first).map(|_| first);
        if told.send(read).is_ok() {
            // Nothing more is expected; what comes all the same must not block the broker.
            let _ = std::io::copy(&mut lines, &mut std::io::sink());
        }
    });
    let line = tells.recv_timeout(READY_MAX).context("no ready line in time")??;
    let address = line.trim_end().strip_prefix("fencepost ready ");
    address
        .with_context(|| format!("expected a ready line, got {line:?}"))?
        .parse()
        .context("address of the ready line")
}

/// The last lines of a file.
pub fn tail(path: &Path, lines: usize) -> String {
    let mut text = String::new();
    let opened = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    if opened.is_err() {
        return String::new();
    }
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
