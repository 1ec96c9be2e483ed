//! `cargo xtask interop swap`: Fencepost and Apache Kafka take turns on one directory under load, and nobody notices.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Checks, check_within, interpreter, python_program};
use crate::broker::{Program, Setup};

/// Swaps where the part is asked for by name.
pub const LONG: u32 = 20;
/// Swaps in the run of all parts.
pub const SHORT: u32 = 4;
/// A swap with its load takes five seconds on an idle machine, and reading everything at the end as long as a few swaps.
const SWAP_MAX: Duration = Duration::from_secs(30);
const END_MAX: Duration = Duration::from_secs(300);

/// Runs the script on a new directory.
pub fn run(setup: &Setup, against: Program, swaps: u32, seed: u64) -> Result<Checks> {
    ensure!(against == Program::Fencepost, "a swap needs Fencepost: it runs both programs by itself");
    Program::Kafka.prepare()?;
    let mut command = python_program(&interpreter()?, "testing/interop/swap/swap.py");
    command.arg("--fencepost").arg(&setup.executable).arg("--data").arg(&setup.data);
    command.args(["--swaps", &swaps.to_string(), "--seed", &seed.to_string()]);
    let what = format!("swap ({swaps} times, --seed {seed})");
    let mut own = python_program(&interpreter()?, "testing/interop/swap/own.py");
    own.arg("--fencepost").arg(&setup.executable).arg("--data").arg(setup.data.join("own"));
    let mut snapshot = python_program(&interpreter()?, "testing/interop/swap/snapshot.py");
    snapshot.arg("--fencepost").arg(&setup.executable).arg("--data").arg(setup.data.join("snapshot"));
    Ok(vec![
        check_within("Kafka on a snapshot", &mut snapshot, END_MAX),
        check_within("what Kafka does not know", &mut own, END_MAX),
        check_within(&what, &mut command, SWAP_MAX * swaps + END_MAX),
    ])
}
