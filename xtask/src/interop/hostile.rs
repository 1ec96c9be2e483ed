//! `cargo xtask interop hostile`: strangers and heavy users against a broker, with a well-behaved neighbour beside each.

use std::time::Duration;

use anyhow::Result;

use super::{Checks, Interop, check_within, interpreter, python_program};
use crate::broker::{Program, Setup};

/// All cases, each with a broker of its own.
const ALL_MAX: Duration = Duration::from_secs(300);

/// Every case, or those of the scenario that is named (B6 to B15).
pub fn run(setup: &Setup, options: &Interop) -> Result<Checks> {
    let name = match options.against {
        Program::Fencepost => "fencepost",
        Program::Kafka => "kafka",
    };
    let mut command = python_program(&interpreter()?, "testing/interop/hostile/run.py");
    command.args([&setup.executable, &setup.data]).args(["--against", name]);
    if let Some(case) = &options.scenario {
        command.args(["--case", case]);
    }
    Ok(vec![check_within("hostile", &mut command, ALL_MAX)])
}
