//! `cargo xtask interop dump`: Kafka's own dump tool reads every file of ours without a complaint, and prints what ours prints.

use anyhow::{Result, ensure};

use super::{Checks, check, interpreter, python_program};
use crate::broker::{Broker, End, Program, Setup};

/// Few partitions for the coordinators' topics, a cleaner that does not wait, and snapshots of the metadata.
const SETTINGS: [&str; 5] = [
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "log.cleaner.backoff.ms=200",
    "log.cleaner.min.cleanable.ratio=0.01",
    "metadata.log.max.record.bytes.between.snapshots=500",
];

/// Fills a new directory, stops the broker and compares the tools.
pub fn run(mut setup: Setup, against: Program) -> Result<Checks> {
    ensure!(against == Program::Fencepost, "the files to be read are Fencepost's");
    Program::Kafka.prepare()?;
    let python = interpreter()?;
    setup.settings.extend(SETTINGS.map(String::from));
    let (executable, data) = (setup.executable.clone(), setup.data.clone());
    let mut broker = Broker::start(setup)?;
    let mut load = python_program(&python, "testing/interop/dump_load.py");
    load.args(["--bootstrap", &broker.address().to_string(), "--data"]).arg(&data);
    let filled = check("dump load", &mut load);
    broker.end(End::Stop)?;
    let mut compare = python_program(&python, "testing/interop/dump_log.py");
    compare.arg("--fencepost").arg(executable).arg(data);
    Ok(vec![filled, check("dump", &mut compare)])
}
