//! `cargo xtask interop`: unmodified clients and Kafka's own tools against a broker of this tree.

mod bounce;
mod connections;
mod crash;
mod dump;
mod hostile;
mod java;
mod kafka_tests;
mod matrix;
mod races;
mod streams;
mod swap;
mod versions;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;

use crate::broker::{Broker, Program, Setup};
use crate::conformance::REQUIREMENTS as SUITE_REQUIREMENTS;
use crate::summary::Summary;
use crate::{process, python, workspace};

pub use java::command as java_command;

const CLIENT_REQUIREMENTS: &str = "testing/interop/python/requirements.txt";
/// One part of the quick run.
const PART_MAX: Duration = Duration::from_secs(240);
/// One round of restarts.
const RESTART_MAX: Duration = Duration::from_secs(60);
/// One flipped bit: two starts, and everything read twice.
const FLIP_MAX: Duration = Duration::from_secs(10);
/// One sequence beside Kafka.
const SEQUENCE_MAX: Duration = Duration::from_secs(5);
/// All three suites, the building of them included.
const SUITES_MAX: Duration = Duration::from_secs(4 * 3600);
/// Rounds where no number is given.
const ROUNDS: u32 = 10;
/// Flipped bits where no number is given.
const FLIPS: u32 = 200;
/// What runs where no part is named.
const QUICK: [&str; 7] = ["python", "java", "tools", "connections", "swap", "dump", "quick-matrix"];
/// Parts that are about Fencepost's files.
const FILES: [&str; 2] = ["swap", "dump"];

/// What to run.
#[derive(Args, Debug, Default)]
pub struct Interop {
    /// python, java, tools, connections, swap, dump, quick-matrix (all of them where none is named), matrix, which runs every
    /// client and writes docs/clients.md, late-commit, delayed-requests, differential, transactions-tool, groups-tool, features, two-phase,
    /// full-disk, which mounts one, damage, bounce, hostile, or streams, suites and kafka-tests (or quick-kafka-tests), which are other people's tests, crash,
    /// epochs and restarts, the long ones.
    names: Vec<String>,
    /// The broker to talk to.
    #[arg(long, value_enum, default_value = "fencepost")]
    against: Program,
    /// Use this executable, which knows `serve`, instead of building one.
    #[arg(long)]
    executable: Option<PathBuf>,
    /// Rounds of crash, for each client, of restarts, sequences of differential, and of kills in each scenario of streams: 10; restarts
    /// in each scenario of bounce: 20; flipped bits of damage: 200.
    #[arg(long)]
    rounds: Option<u32>,
    /// Clients of the crash runner, of the matrix or of the suites; all where none is named.
    #[arg(long = "client")]
    clients: Vec<String>,
    /// Classes of Apache Kafka's tests; all of kafka-tests or quick-kafka-tests where none is named.
    #[arg(long = "class")]
    classes: Vec<String>,
    /// Of these classes only the methods whose name this regular expression finds.
    #[arg(short = 'm', long)]
    methods: Option<String>,
    /// The one scenario of streams or of bounce to run, or the cases of hostile (B6).
    #[arg(long)]
    scenario: Option<String>,
    /// How often Fencepost and Apache Kafka change places: 20 where swap is named, 4 where all parts run.
    #[arg(long)]
    swaps: Option<u32>,
    /// Where the crash runner, the swaps, the restarts, damage and the differential run begin their random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Interop {
    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(ROUNDS)
    }
}

/// An interpreter with the clients and the suite's packages.
pub fn interpreter() -> Result<PathBuf> {
    python::environment(&[SUITE_REQUIREMENTS, CLIENT_REQUIREMENTS])
}

/// Runs the named parts, each on its own broker.
pub fn run(options: &Interop) -> Result<Summary> {
    let began = Instant::now();
    let executable = match &options.executable {
        Some(path) => workspace::root().join(path),
        None => options.against.prepare()?,
    };
    let scratch = workspace::scratch("interop")?;
    let names: Vec<&str> = match options.names.is_empty() {
        true => {
            let ours = options.against == Program::Fencepost;
            QUICK.into_iter().filter(|name| ours || !FILES.contains(name)).collect()
        }
        false => options.names.iter().map(String::as_str).collect(),
    };
    let (mut passed, mut failed) = (0, Vec::new());
    for name in &names {
        let setup = Setup {
            executable: executable.clone(),
            data: scratch.join(name),
            // New groups start at once; Kafka's own quick start has the same.
            settings: vec!["group.initial.rebalance.delay.ms=0".into()],
            log: scratch.join("broker.log"),
        };
        for (what, done) in part(name, setup, options)? {
            match done {
                Ok(()) => passed += 1,
                Err(error) => {
                    println!("FAIL {what}: {error:#}");
                    failed.push(what);
                }
            }
        }
    }
    let outcome = if failed.is_empty() {
        "all as wanted".into()
    } else {
        format!("not as wanted: {}", failed.join(", "))
    };
    let line = format!(
        "interop: {} against {}: {passed} of {} checks passed, {outcome}; {} s",
        names.join(", "),
        options.against.name(),
        passed + failed.len(),
        began.elapsed().as_secs()
    );
    Ok(Summary { line, passed, failed: failed.len() })
}

type Checks = Vec<(String, Result<()>)>;

fn part(name: &str, setup: Setup, options: &Interop) -> Result<Checks> {
    match name {
        "python" => python_pipelines(&Broker::start(setup)?),
        "java" => java_pipelines(&Broker::start(setup)?),
        "tools" => kafka_tools(&Broker::start(setup)?),
        "connections" => {
            let mut broker = Broker::start(setup)?;
            Ok(vec![("200 connections".into(), connections::check(&mut broker))])
        }
        "full-disk" => {
            let mut command = python_program(&interpreter()?, "testing/interop/full_disk.py");
            Ok(vec![check("full disk", command.arg(&setup.executable))])
        }
        "swap" => {
            let default = if options.names.is_empty() { swap::SHORT } else { swap::LONG };
            swap::run(&setup, options.against, options.swaps.unwrap_or(default), options.seed)
        }
        "dump" => dump::run(setup, options.against),
        "matrix" => matrix::run(&setup, options.against, &options.clients, false),
        "quick-matrix" => matrix::run(&setup, options.against, &options.clients, true),
        "groups-tool" => {
            Program::Kafka.prepare()?;
            let broker = Broker::start(setup)?;
            let mut command = python_program(&interpreter()?, "testing/interop/groups_tool.py");
            command.args(["--bootstrap", &broker.address().to_string()]);
            Ok(vec![check("groups tool", &mut command)])
        }
        "transactions-tool" => {
            Program::Kafka.prepare()?;
            let mut setup = setup;
            // Only without verification can a transaction be made to hang.
            setup.settings.push("transaction.partition.verification.enable=false".into());
            let broker = Broker::start(setup)?;
            let mut command = python_program(&interpreter()?, "testing/interop/transactions_tool.py");
            command.args(["--bootstrap", &broker.address().to_string()]);
            Ok(vec![check("transactions tool", &mut command)])
        }
        "features" => versions::features(setup, options.against),
        "two-phase" => versions::two_phase(&setup),
        "epochs" => versions::epochs(&setup, options.against),
        "late-commit" => races::late_commit(setup, options.against),
        "delayed-requests" => races::delayed_requests(setup, options.against),
        "differential" => differential(&setup, options),
        "restarts" => {
            let mut command = python_program(&interpreter()?, "testing/interop/restarts.py");
            command.args([&setup.executable, &setup.data]).args(["--rounds", &options.rounds().to_string()]);
            command.args(["--seed", &options.seed.to_string()]);
            Ok(vec![check_within("restarts", &mut command, RESTART_MAX * options.rounds())])
        }
        "damage" => damage(&setup, options),
        "bounce" => bounce::run(&setup, options),
        "hostile" => hostile::run(&setup, options),
        "streams" => streams::run(&setup, options),
        "suites" => suites(&setup, options),
        "kafka-tests" => kafka_tests::run(&setup, options, false),
        "quick-kafka-tests" => kafka_tests::run(&setup, options, true),
        "crash" => crash::run(setup, options.rounds(), options.seed, &options.clients),
        other => bail!(
            "no part named {other}; there are {}, late-commit, delayed-requests, differential, transactions-tool, groups-tool, features, two-phase, full-disk, damage, bounce, hostile, streams, suites, kafka-tests, quick-kafka-tests, crash, epochs, restarts",
            QUICK.join(", ")
        ),
    }
}

/// Random conversations with Fencepost and with Apache Kafka, answer by answer.
fn differential(setup: &Setup, options: &Interop) -> Result<Checks> {
    let kafka = Program::Kafka.prepare()?;
    let mut command = python_program(&interpreter()?, "testing/interop/differential.py");
    command.args([&setup.executable, &kafka, &setup.data]);
    command.args(["--rounds", &options.rounds().to_string(), "--seed", &options.seed.to_string()]);
    let limit = PART_MAX + SEQUENCE_MAX * options.rounds();
    Ok(vec![check_within("differential", &mut command, limit)])
}

/// Flipped bits in the files of a log directory, one a round.
fn damage(setup: &Setup, options: &Interop) -> Result<Checks> {
    ensure!(options.against == Program::Fencepost, "damage is about Fencepost's files");
    let rounds = options.rounds.unwrap_or(FLIPS);
    let mut command = python_program(&interpreter()?, "testing/interop/damage.py");
    command.args([&setup.executable, &setup.data]).args(["--rounds", &rounds.to_string()]);
    command.args(["--seed", &options.seed.to_string()]);
    Ok(vec![check_within("damage", &mut command, PART_MAX + FLIP_MAX * rounds)])
}

/// Other people's tests: each suite passes what is listed as passed before.
fn suites(setup: &Setup, options: &Interop) -> Result<Checks> {
    // Some of librdkafka's tests call Kafka's tools.
    Program::Kafka.prepare()?;
    let name = match options.against {
        Program::Fencepost => "fencepost",
        Program::Kafka => "kafka",
    };
    let mut command = python_program(&interpreter()?, "testing/interop/suites/run.py");
    command.args(["--against", name]).arg("--executable").arg(&setup.executable);
    command.arg("--work").arg(workspace::target_dir().join("xtask").join("suites")).args(&options.clients);
    Ok(vec![check_within("suites", &mut command, SUITES_MAX)])
}

fn check(what: &str, command: &mut Command) -> (String, Result<()>) {
    check_within(what, command, PART_MAX)
}

fn check_within(what: &str, command: &mut Command, limit: Duration) -> (String, Result<()>) {
    let done = process::succeeds(command, limit).and_then(|success| match success {
        true => Ok(()),
        false => bail!("see above"),
    });
    (what.to_string(), done)
}

fn at(path: &str) -> PathBuf {
    workspace::root().join(path)
}

fn python_program(python: &Path, program: &str) -> Command {
    let mut command = Command::new(python);
    command.arg("-B").arg(at(program));
    command
}

fn python_pipelines(broker: &Broker) -> Result<Checks> {
    let python = interpreter()?;
    let run = |client: &str| {
        let mut command = python_program(&python, "testing/conformance/clients/python_eos.py");
        check(client, command.args(["--bootstrap", &broker.address().to_string(), "--client", client]))
    };
    Ok(vec![run("confluent"), run("aiokafka")])
}

fn java_pipelines(broker: &Broker) -> Result<Checks> {
    let mut checks = Checks::new();
    for protocol in ["classic", "consumer"] {
        let mut command = java::command("pipeline")?;
        command.args(["--bootstrap", &broker.address().to_string(), "--group-protocol", protocol]);
        checks.push(check(&format!("java {protocol}"), &mut command));
    }
    Ok(checks)
}

fn kafka_tools(broker: &Broker) -> Result<Checks> {
    Program::Kafka.prepare()?;
    let mut command = python_program(&interpreter()?, "testing/interop/tools.py");
    Ok(vec![check("tools", command.args(["--bootstrap", &broker.address().to_string()]))])
}
