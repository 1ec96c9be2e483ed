//! Transactions against time and order: commits that race an abort, and requests that come too late.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::{Checks, PART_MAX, check, interpreter, java, python_program};
use crate::broker::{Broker, Program, Setup};
use crate::process;

/// Commits of each race.
const ROUNDS: u32 = 100;
/// New transactional ids begin with the last epoch that a client can hold.
const LAST_EPOCH: &str = "fencepost.test.initial.producer.epoch=32766";
/// Where there is no such setting: ids that are brought to it by as many new instances.
const EXHAUSTED: [&str; 3] = ["exhausted-1", "exhausted-2", "exhausted-3"];
/// The schedules of `delayed_requests.py` in which Kafka lets a request of the previous transaction in; each is run with two
/// versions of Produce.
const HARMED: [&str; 7] = ["commit", "abort", "torn", "batch-after-add", "batch-in-open", "offsets", "add"];

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
    let at_last_epoch = match program {
        Program::Fencepost => Some(Setup {
            data: setup.data.join("last-epoch"),
            settings: setup.settings.iter().cloned().chain([LAST_EPOCH.into()]).collect(),
            ..setup.clone()
        }),
        Program::Kafka => None,
    };
    let broker = Broker::start(Setup { data: setup.data.join("broker"), ..setup })?;
    let mut checks = Checks::new();
    checks.push(race(program, &broker, "timeout", after_timeout, None)?);
    checks.push(race(program, &broker, "new-instance", after_instance, None)?);
    match at_last_epoch {
        Some(setup) => {
            let broker = Broker::start(setup)?;
            checks.push(race(program, &broker, "timeout", after_timeout, Some("at the last epoch"))?);
        }
        None => {
            let mut command = python_program(&interpreter()?, "testing/interop/exhaust_epochs.py");
            command.args(["--bootstrap", &broker.address().to_string()]).args(EXHAUSTED);
            ensure!(process::succeeds(&mut command, PART_MAX)?, "the epochs are not exhausted");
            checks.push(race(program, &broker, "timeout", (1_000, 1_001), Some("of exhausted ids"))?);
        }
    }
    checks.push(late_task(program, &broker, &state)?);
    Ok(checks)
}

fn race(
    program: Program,
    broker: &Broker,
    race: &str,
    (from_ms, to_ms): Span,
    which: Option<&str>,
) -> Result<(String, Result<()>)> {
    let what = format!("late commit, {race}{}", which.map(|which| format!(", {which}")).unwrap_or_default());
    let mut command = java::command("late-commit")?;
    command.args(["--bootstrap", &broker.address().to_string(), "--race", race]);
    command.args(["--from-ms", &from_ms.to_string(), "--to-ms", &to_ms.to_string()]);
    command.args(["--rounds", &ROUNDS.to_string()]);
    if program == Program::Kafka && which.is_some() {
        command.args(["--ids", &EXHAUSTED.join(",")]);
    }
    Ok((what.clone(), said(program, &what, &mut command, "goes on after ProducerFencedException")))
}

fn late_task(program: Program, broker: &Broker, state: &Path) -> Result<(String, Result<()>)> {
    let mut command = java::main("streams", "fencepost.streams.Main", "late-commit")?;
    command.args(["--bootstrap", &broker.address().to_string(), "--state-dir"]).arg(state);
    Ok(("late task".into(), said(program, "late task", &mut command, "every count is there once")))
}

/// Whether the program said what is wanted of the broker: with Fencepost that its application goes on and nothing else
/// that is not a commit, with Kafka that it ends.
fn said(program: Program, what: &str, command: &mut Command, goes_on: &str) -> Result<()> {
    let said = process::output(command, PART_MAX)?;
    println!("{}, {what}: {}", program.name(), said.trim());
    match program {
        Program::Fencepost => {
            ensure!(said.contains(goes_on), "wanted: {goes_on}");
            ensure!(!said.contains("ended by"), "an application was ended");
        }
        Program::Kafka => ensure!(said.contains("ended by InvalidTxnStateException"), "Kafka ends nobody"),
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
