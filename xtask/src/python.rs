//! A Python environment below the build directory, with what a requirements file asks for.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The interpreter of an environment that has the packages of the requirements files, made when they have changed.
pub fn environment(requirements: &[&str]) -> Result<PathBuf> {
    let directory = workspace::target_dir().join("xtask").join("python");
    let mark = directory.join("installed.txt");
    let mut wanted = String::new();
    for file in requirements {
        wanted += &fs::read_to_string(workspace::root().join(file)).with_context(|| (*file).to_string())?;
    }
    let python = directory.join("bin").join("python");
    let kept = fs::read_to_string(&mark).unwrap_or_default();
    if python.exists() && wanted.lines().all(|line| kept.lines().any(|k| k == line)) {
        return Ok(python);
    }
    if !python.exists() {
        let made =
            Command::new("python3").args(["-m", "venv"]).arg(&directory).status().context("python3")?;
        ensure!(made.success(), "python3 -m venv failed (Debian: python3-venv)");
    }
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .current_dir(workspace::root());
    for file in requirements {
        install.args(["-r", file]);
    }
    ensure!(install.status()?.success(), "pip install failed");
    fs::write(&mark, kept + &wanted)?;
    Ok(python)
}
