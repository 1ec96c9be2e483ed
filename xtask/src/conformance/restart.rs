//! How a scenario has its broker restarted: it calls this program, which asks the task that owns the broker.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::{env, fs, process, thread};

use anyhow::{Context, Result};

use crate::broker::{Broker, End};

/// The broker of the current pass, shared with the thread that restarts it.
pub type SharedBroker = Arc<Mutex<Option<Broker>>>;

/// The command line for the scenarios.
pub struct Command {
    /// This program.
    pub program: PathBuf,
    /// Where the owner of the broker listens.
    pub socket: PathBuf,
}

impl Command {
    /// As one shell command that is given `kill` or `stop`.
    pub fn shell(&self) -> String {
        format!("'{}' restart-broker '{}'", self.program.display(), self.socket.display())
    }
}

/// A short path: the length of a socket's address is limited.
pub fn socket_path(scratch: &Path) -> PathBuf {
    let inside = scratch.join("restart.sock");
    if inside.as_os_str().len() < 100 {
        inside
    } else {
        let lane = scratch.file_name().unwrap_or_default().display();
        env::temp_dir().join(format!("fencepost-{}-{lane}.sock", process::id()))
    }
}

/// Listens and restarts the broker when asked.
pub fn listen(socket: &Path, broker: SharedBroker) -> Result<()> {
    // A socket of an earlier run may be there.
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).with_context(|| socket.display().to_string())?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Err(error) = serve(stream, &broker) {
                eprintln!("conformance: a restart failed: {error:#}");
            }
        }
    });
    Ok(())
}

fn serve(mut stream: UnixStream, broker: &SharedBroker) -> Result<()> {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let how = if line.trim() == "stop" { End::Stop } else { End::Kill };
    let done = match broker.lock().expect("no holder panics").as_mut() {
        Some(broker) => broker.restart(how),
        None => Err(anyhow::anyhow!("no broker is running")),
    };
    let answer = done.as_ref().map_or_else(|error| format!("{error:#}"), |()| "ok".into());
    writeln!(stream, "{}", answer.replace('\n', " | "))?;
    done
}

/// The other side: asks and waits for the broker to be back.
pub fn ask(socket: &Path, how: &str) -> Result<ExitCode> {
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{how}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.trim() == "ok" {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{}", answer.trim());
    Ok(ExitCode::FAILURE)
}
