//! `transaction.version` and producer epochs, with real clients of both protocols.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Checks, check, check_within, interpreter, java, python_program};
use crate::broker::{Broker, Program, Setup};

/// Three clients, each some times over the last epoch.
const EPOCHS_MAX: Duration = Duration::from_secs(900);

/// Kafka's features tool, each sub-command; then the level raised and lowered under clients of both kinds.
pub fn features(setup: Setup, program: Program) -> Result<Checks> {
    Program::Kafka.prepare()?;
    let python = interpreter()?;
    let broker = Broker::start(setup)?;
    let bootstrap = ["--bootstrap".to_string(), broker.address().to_string()];
    let mut tool = python_program(&python, "testing/interop/features.py");
    let mut levels = python_program(&python, "testing/interop/levels.py");
    levels.args(&bootstrap).args(java::both_classpaths()?);
    if program == Program::Kafka {
        // It cannot write transactions of version 2 at level 0.
        levels.arg("--without-raw");
    }
    Ok(vec![check("features tool", tool.args(&bootstrap)), check("levels", &mut levels)])
}

/// Real clients over the last producer epoch; only Fencepost can begin shortly before it.
pub fn epochs(setup: &Setup, program: Program) -> Result<Checks> {
    ensure!(program == Program::Fencepost, "epochs needs fencepost.test.initial.producer.epoch");
    let mut command = python_program(&interpreter()?, "testing/interop/epochs.py");
    command.args([&setup.executable, &setup.data]).args(java::both_classpaths()?);
    Ok(vec![check_within("epochs", &mut command, EPOCHS_MAX)])
}

/// Two-phase commit as far as Kafka 4.4.0 has it, where it is allowed and where it is not.
pub fn two_phase(setup: &Setup) -> Result<Checks> {
    let python = interpreter()?;
    let mut checks = Checks::new();
    for (enabled, value) in [("yes", "true"), ("no", "false")] {
        let mut setup = Setup { data: setup.data.join(enabled), ..setup.clone() };
        // Without it InitProducerId 6 is not there to be asked.
        setup.settings.push("unstable.api.versions.enable=true".into());
        setup.settings.push(format!("transaction.two.phase.commit.enable={value}"));
        let broker = Broker::start(setup)?;
        let mut command = python_program(&python, "testing/interop/two_phase.py");
        command.args(["--bootstrap", &broker.address().to_string(), "--enabled", enabled]);
        checks.push(check(&format!("two-phase commit, enabled {enabled}"), &mut command));
    }
    Ok(checks)
}
