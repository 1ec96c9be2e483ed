//! `cargo xtask interop matrix`: what every client that people use can do with the broker, shown by doing it.
//!
//! Each client has a program in `testing/interop/matrix` that takes an address, a prefix for its names, and capabilities; it
//! does the real thing, compares what came of it by content, and prints one line of JSON for each capability. Each runs on a
//! broker of its own. The lines are kept in `testing/interop/matrix/results`, one file for each client and broker, and
//! `docs/clients.md` is written from all of them: also from those that other tasks leave there.

mod clients;
mod page;
mod results;

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use self::clients::{CLIENTS, Client};
use self::results::{Line, Outcome};
use super::Checks;
use crate::broker::{Broker, Program, Setup, tail};
use crate::process::{self, Guarded};
use crate::sections;

/// What a client is asked for, in the order of the table.
const CAPABILITIES: [&str; 9] =
    ["produce", "idempotent", "commit", "abort", "fencing", "offsets", "classic", "consumer", "admin"];
/// All capabilities of one client; each bounds itself to 40 seconds.
const CLIENT_MAX: Duration = Duration::from_secs(300);
/// How many clients of the quick run go at the same time: they wait more than they work.
const TOGETHER: usize = 4;
/// Heartbeats that do not make a rebalance wait.
const SETTINGS: [&str; 2] =
    ["group.consumer.heartbeat.interval.ms=300", "group.consumer.min.heartbeat.interval.ms=300"];

/// Runs the chosen clients; the page is written where the part was asked for by name.
pub fn run(setup: &Setup, against: Program, chosen: &[String], quick: bool) -> Result<Checks> {
    for name in chosen {
        let known = CLIENTS.iter().any(|client| client.name == name);
        let all: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        ensure!(known, "no client named {name}; there are {}", all.join(", "));
    }
    let wanted = |client: &&Client| match chosen.is_empty() {
        true => client.quick || !quick,
        false => chosen.iter().any(|name| name == client.name),
    };
    let clients: Vec<&Client> = CLIENTS.iter().filter(wanted).collect();
    let mut checks = Checks::new();
    for some in clients.chunks(if quick { TOGETHER } else { 1 }) {
        // Building is not done at the same time: two clients may share what is built.
        let built: Vec<_> = some.iter().map(|client| (*client, (client.command)())).collect();
        checks.extend(thread::scope(|scope| {
            let running: Vec<_> = built
                .into_iter()
                .map(|(client, command)| {
                    (client, scope.spawn(move || shown(setup, against, client, command, quick)))
                })
                .collect();
            let ended = |(client, run): (&Client, thread::ScopedJoinHandle<'_, Result<()>>)| {
                (format!("matrix {}", client.name), run.join().expect("running a client does not panic"))
            };
            running.into_iter().map(ended).collect::<Checks>()
        }));
    }
    if !quick {
        sections::write(page::PAGE, "matrix", &page::table(&results::read()?))?;
        println!("{} is written", page::PAGE);
    }
    Ok(checks)
}

/// Runs one client, prints its lines, and keeps them.
fn shown(
    setup: &Setup,
    against: Program,
    client: &Client,
    command: Result<Command>,
    quick: bool,
) -> Result<()> {
    let lines = one(setup, against, client, command)?;
    let text: String = lines.iter().map(|line| format!("{}: {line}\n", against.name())).collect();
    print!("{text}");
    if !quick {
        results::write(against, client.name, &lines)?;
    }
    verdict(against, client.name, &lines)
}

/// Fails where a capability fails that Apache Kafka gives the same client.
fn verdict(against: Program, client: &str, lines: &[Line]) -> Result<()> {
    let peer = results::of(Program::Kafka, client)?;
    let own = |line: &&Line| {
        let fails_there = peer.iter().any(|p| p.capability == line.capability && p.outcome == Outcome::Fail);
        line.outcome == Outcome::Fail && (against == Program::Kafka || !fails_there)
    };
    let failed: Vec<&str> = lines.iter().filter(own).map(|line| line.capability.as_str()).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// One client on a broker of its own: a line for each capability, and one for what the broker had to say.
fn one(setup: &Setup, against: Program, client: &Client, command: Result<Command>) -> Result<Vec<Line>> {
    let mut setup = setup.clone();
    setup.data = setup.data.join(client.name);
    setup.log = setup.log.with_file_name(format!("matrix-{}.log", client.name));
    setup.settings.extend(SETTINGS.map(String::from));
    fs::create_dir_all(&setup.data)?;
    let mut lines = match command {
        Ok(command) => {
            let mut broker = Broker::start(setup.clone())?;
            let lines = ask(command, &broker, &setup, client.capabilities)?;
            ensure!(broker.alive(), "the broker is gone; the end of its log:\n{}", tail(&setup.log, 20));
            lines
        }
        Err(error) => vec![Line::without(client.name, &format!("{error:#}"))],
    };
    for capability in client.capabilities {
        if !lines.iter().any(|line| line.capability == *capability) {
            let why = lines.last().map_or("", |line| line.detail.as_str());
            let line = Line::failed(client.name, capability, &format!("no result, after: {why}"));
            lines.push(line);
        }
    }
    if against == Program::Fencepost {
        warnings(&setup, client.name);
    }
    Ok(lines)
}

fn ask(mut command: Command, broker: &Broker, setup: &Setup, capabilities: &[&str]) -> Result<Vec<Line>> {
    let (said, errors) = (setup.log.with_extension("said"), setup.log.with_extension("err"));
    command.args([&broker.address().to_string(), "matrix"]).args(capabilities);
    command.stdin(Stdio::null()).stdout(File::create(&said)?).stderr(File::create(&errors)?);
    let mut child = Guarded(command.spawn().with_context(|| format!("{:?}", command.get_program()))?);
    let ended = process::wait(&mut child, CLIENT_MAX);
    let text = fs::read_to_string(&said)?;
    let lines = text.lines().map(Line::parse).collect::<Result<Vec<_>>>()?;
    match ended {
        Ok(status) if status.success() => {}
        Ok(status) => println!("{status}; the end of what it said:\n{}", tail(&errors, 20)),
        Err(error) => println!("{error:#}; the end of what it said:\n{}", tail(&errors, 20)),
    }
    if lines.is_empty() {
        bail!("the program printed nothing; the end of what it said:\n{}", tail(&errors, 20));
    }
    Ok(lines)
}

/// Shows what the broker had to complain about: none of these clients does anything that it should warn of.
fn warnings(setup: &Setup, client: &str) {
    let text = fs::read_to_string(&setup.log).unwrap_or_default();
    let complaints = text.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
    for line in complaints.take(20) {
        println!("the broker's log with {client}: {line}");
    }
}
