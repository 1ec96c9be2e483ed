//! The clients of the matrix, and how the program of each is built.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::{at, python_program};
use crate::{python, workspace};

const PROGRAMS: &str = "testing/interop/matrix";

/// One client.
pub struct Client {
    /// What `--client` takes, and the name of the file of its results.
    pub name: &'static str,
    /// Whether it belongs to the run of all parts.
    pub quick: bool,
    /// Builds its program, and gives the command that wants an address, a prefix and capabilities.
    pub command: fn() -> Result<Command>,
}

const fn client(name: &'static str, command: fn() -> Result<Command>) -> Client {
    Client { name, quick: false, command }
}

const fn quick(name: &'static str, command: fn() -> Result<Command>) -> Client {
    Client { name, quick: true, command }
}

/// All of them, in the order of the table.
pub const CLIENTS: [Client; 7] = [
    quick("librdkafka", || python("confluent")),
    quick("aiokafka", || python("aiokafka")),
    client("kafka-python", || python("kafka-python")),
    quick("franz-go", || go("franzgo")),
    client("sarama", || go("sarama")),
    client("kafka-go", || go("kafkago")),
    client("kcat", || python("kcat")),
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

fn python(client: &str) -> Result<Command> {
    let interpreter = python::environment(&["testing/interop/matrix/python/requirements.txt"])?;
    let mut command = python_program(&interpreter, "testing/interop/matrix/python/main.py");
    command.arg(client);
    Ok(command)
}
