//! The clients of the matrix, and how the program of each is built.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::at;
use crate::workspace;

const PROGRAMS: &str = "testing/interop/matrix";

/// One client.
pub struct Client {
    /// What `--client` takes, and the name of the file of its results.
    pub name: &'static str,
    /// Whether it belongs to the run of all parts.
    pub quick: bool,
    /// Builds its program, and gives the command that wants an address, a prefix and capabilities.
    pub command: fn(&str) -> Result<Command>,
}

/// All of them, in the order of the table.
pub const CLIENTS: [Client; 3] = [
    Client { name: "franz-go", quick: true, command: |_| go("franzgo") },
    Client { name: "sarama", quick: false, command: |_| go("sarama") },
    Client { name: "kafka-go", quick: false, command: |_| go("kafkago") },
];

fn built(language: &str) -> PathBuf {
    workspace::target_dir().join("xtask").join("matrix").join(language)
}

fn go(package: &str) -> Result<Command> {
    let program = built("go").join(package);
    let mut command = Command::new("go");
    command.current_dir(at(PROGRAMS).join("go")).args(["build", "-mod=readonly", "-o"]);
    command.arg(&program).arg(format!("./{package}"));
    let status = command.status().context("go is missing: it builds the programs of the Go clients")?;
    ensure!(status.success(), "building {package} failed");
    Ok(Command::new(program))
}
