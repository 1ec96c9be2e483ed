//! Transactions against time and order: commits that race an abort, and requests that come too late.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::{Checks, PART_MAX, check, interpreter, java, python_program};
use crate::broker::{Broker, End, Program, Setup};
use crate::process;

/// Commits of each race.
const ROUNDS: u32 = 100;
/// Commits at each point of an abort, by each cause of it.
const HELD_ROUNDS: u32 = 5;
/// Points of an abort that named ids come to, and causes of it.
const POINTS: usize = 5 * 2;
/// What a producer does next whose producer id has been replaced.
const DEEDS: usize = 4;
/// New transactional ids begin with the last epoch that a client can hold.
const LAST_EPOCH: &str = "fencepost.test.initial.producer.epoch=32766";
/// Where there is no such setting: so many ids for each race are brought to it by as many new instances.
const EXHAUSTED: usize = 3;
/// The schedules of `delayed_requests.py` in which Kafka lets a request of the previous transaction in; each is run with two
/// versions of Produce.
const HARMED: [&str; 7] = ["commit", "abort", "torn", "batch-after-add", "batch-in-open", "offsets", "add"];

/// What an application that was fenced says.
const FENCED: &str = "goes on after ProducerFencedException";

/// Whether the commit comes before or after the abort, by so many milliseconds: from, to.
type Span = (i32, i32);

/// KAFKA-20785: Fencepost fences, which an application survives; Kafka 4.4.0 says something that ends it.
pub fn late_commit(mut setup: Setup, program: Program) -> Result<Checks> {
    // Kafka looks for timeouts so often; Fencepost knows them.
    setup.settings.push("transaction.abort.timed.out.transaction.cleanup.interval.ms=200".into());
    let after_timeout: Span = match program {
        Program::Fencepost => (-20, 60),
        Program::Kafka => (-20, 400),
    };
    // A new instance looks for its coordinator first.
    let after_instance: Span = (0, 400);
    let state = setup.data.join("streams");
    let last_epoch = Setup {
        data: setup.data.join("last-epoch"),
        settings: setup.settings.iter().cloned().chain([LAST_EPOCH.into()]).collect(),
        ..setup.clone()
    };
    let mut broker = Broker::start(Setup { data: setup.data.join("broker"), ..setup })?;
    let mut checks = Checks::new();
    let plain = Ids::Fresh;
    checks.push(race(program, &broker, "timeout", after_timeout, &plain)?);
    checks.push(race(program, &broker, "new-instance", after_instance, &plain)?);
    checks.push(held(program, &mut broker, &plain)?);
    checks.push(late_task(program, &broker, &state)?);
    match program {
        Program::Fencepost => {
            drop(broker);
            let mut broker = Broker::start(last_epoch)?;
            checks.push(race(program, &broker, "timeout", after_timeout, &Ids::BornAtTheEnd)?);
            checks.push(race(program, &broker, "new-instance", after_instance, &Ids::BornAtTheEnd)?);
            checks.push(held(program, &mut broker, &Ids::BornAtTheEnd)?);
            checks.push(replaced(program, &broker, &Ids::BornAtTheEnd)?);
        }
        Program::Kafka => {
            let ids = exhaust(&broker, "timeout", EXHAUSTED)?;
            checks.push(race(program, &broker, "timeout", (1_000, 1_001), &ids)?);
            let ids = exhaust(&broker, "instance", EXHAUSTED)?;
            checks.push(race(program, &broker, "new-instance", (1_000, 1_001), &ids)?);
            let ids = exhaust(&broker, "held", POINTS)?;
            checks.push(held(program, &mut broker, &ids)?);
            let ids = exhaust(&broker, "replaced", DEEDS)?;
            checks.push(replaced(program, &broker, &ids)?);
        }
    }
    Ok(checks)
}

/// Which transactional ids commit.
enum Ids {
    /// New ones, at epoch 0.
    Fresh,
    /// New ones, at the last epoch.
    BornAtTheEnd,
    /// These, which were brought there.
    Exhausted(Vec<String>),
}

impl Ids {
    fn words(&self) -> &'static str {
        match self {
            Ids::Fresh => "",
            Ids::BornAtTheEnd | Ids::Exhausted(_) => ", at the last epoch",
        }
    }

    fn hand_to(&self, command: &mut Command) {
        if let Ids::Exhausted(names) = self {
            command.args(["--ids", &names.join(",")]);
        }
    }
}

fn exhaust(broker: &Broker, name: &str, count: usize) -> Result<Ids> {
    let names: Vec<String> = (0..count).map(|n| format!("exhausted-{name}-{n}")).collect();
    let mut command = python_program(&interpreter()?, "testing/interop/exhaust_epochs.py");
    command.args(["--bootstrap", &broker.address().to_string()]).args(&names);
    ensure!(process::succeeds(&mut command, PART_MAX)?, "the epochs are not exhausted");
    Ok(Ids::Exhausted(names))
}

fn race(
    program: Program,
    broker: &Broker,
    race: &str,
    (from_ms, to_ms): Span,
    ids: &Ids,
) -> Result<(String, Result<()>)> {
    let what = format!("late commit, {race}{}", ids.words());
    let mut command = java::command("late-commit")?;
    command.args(["--bootstrap", &broker.address().to_string(), "--race", race]);
    command.args(["--from-ms", &from_ms.to_string(), "--to-ms", &to_ms.to_string()]);
    command.args(["--rounds", &ROUNDS.to_string()]);
    ids.hand_to(&mut command);
    let said = process::output(&mut command, PART_MAX);
    Ok((what.clone(), said.and_then(|said| judge(program, &what, &said, FENCED))))
}

/// Commits that are kept back until the abort has come to a certain point. In the midst of it the broker starts again.
fn held(program: Program, broker: &mut Broker, ids: &Ids) -> Result<(String, Result<()>)> {
    let what = format!("held commits{}", ids.words());
    let mut command = java::command("held-commit")?;
    let rounds = match ids {
        Ids::Fresh | Ids::BornAtTheEnd => HELD_ROUNDS,
        Ids::Exhausted(names) => (names.len() / POINTS) as u32,
    };
    command.args(["--bootstrap", &broker.address().to_string(), "--rounds", &rounds.to_string()]);
    ids.hand_to(&mut command);
    let how = match program {
        Program::Fencepost => End::Kill,
        Program::Kafka => End::Stop,
    };
    let said = process::output_granting(&mut command, PART_MAX, "restart", || broker.restart(how));
    let said = said.map(|said| format!("\n{}", said.trim_end()));
    Ok((what.clone(), said.and_then(|said| judge(program, &what, &said, FENCED))))
}

/// Each thing that a producer can do next once a new instance has replaced its producer id.
fn replaced(program: Program, broker: &Broker, ids: &Ids) -> Result<(String, Result<()>)> {
    let what = format!("a producer that was replaced{}", ids.words());
    let mut command = java::command("replaced")?;
    command.args(["--bootstrap", &broker.address().to_string()]);
    ids.hand_to(&mut command);
    let said = process::output(&mut command, PART_MAX).map(|said| format!("\n{}", said.trim_end()));
    Ok((what.clone(), said.and_then(|said| judge(program, &what, &said, FENCED))))
}

fn late_task(program: Program, broker: &Broker, state: &Path) -> Result<(String, Result<()>)> {
    let mut command = java::main("streams", "fencepost.streams.Main", "late-commit")?;
    command.args(["--bootstrap", &broker.address().to_string(), "--state-dir"]).arg(state);
    let said = process::output(&mut command, PART_MAX);
    Ok((
        "late task".into(),
        said.and_then(|said| judge(program, "late task", &said, "every count is there once")),
    ))
}

/// Whether the program said what is wanted of the broker: with Fencepost that its application goes on and nothing else
/// that is not a commit, with Kafka that it ends.
fn judge(program: Program, what: &str, said: &str, goes_on: &str) -> Result<()> {
    println!("{}, {what}: {}", program.name(), said.trim_end());
    match program {
        Program::Fencepost => {
            ensure!(said.contains(goes_on), "wanted: {goes_on}");
            ensure!(!said.contains("ended by"), "an application was ended");
        }
        Program::Kafka => ensure!(said.contains("ended by Invalid"), "Kafka ends nobody"),
    }
    Ok(())
}

/// KAFKA-17754: requests of older clients that arrive in the middle of the next transaction.
pub fn delayed_requests(setup: Setup, program: Program) -> Result<Checks> {
    let broker = Broker::start(setup)?;
    let harmed: Vec<String> = match program {
        Program::Fencepost => Vec::new(),
        Program::Kafka => {
            let each = HARMED.iter().flat_map(|name| [9, 11].map(|version| format!("{name}-{version}")));
            each.chain(["librdkafka".into()]).collect()
        }
    };
    let mut command = python_program(&interpreter()?, "testing/interop/delayed_requests.py");
    command.args(["--bootstrap", &broker.address().to_string(), "--harmed", &harmed.join(",")]);
    Ok(vec![check("delayed requests", &mut command)])
}
