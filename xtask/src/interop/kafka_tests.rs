//! `cargo xtask interop kafka-tests`: Apache Kafka's own compiled integration tests, with a process in the place of its brokers.

use std::time::Duration;

use anyhow::Result;

use super::{Checks, Interop, check_within, interpreter, python_program};
use crate::broker::Setup;
use crate::workspace;

/// All classes, one after the other; half of that on an idle machine.
const ALL_MAX: Duration = Duration::from_secs(4 * 3600);

/// Runs the classes that are named, or the quick set, or all.
pub fn run(setup: &Setup, options: &Interop, quick: bool) -> Result<Checks> {
    let mut command = python_program(&interpreter()?, "testing/interop/kafka-tests/run.py");
    command.arg("--executable").arg(&setup.executable);
    command.arg("--work").arg(workspace::target_dir().join("xtask").join("kafka-tests"));
    if quick {
        command.arg("--quick");
    }
    if let Some(methods) = &options.methods {
        command.args(["--methods", methods]);
    }
    command.args(&options.classes);
    Ok(vec![check_within("Apache Kafka's tests", &mut command, ALL_MAX)])
}
