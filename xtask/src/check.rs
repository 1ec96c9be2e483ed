//! `cargo xtask check`: format, compiler warnings, documentation, arrows, ban list, tidy, licences, generated files.

mod arrows;
mod ban;
mod catch_all;
mod keys;
mod licences;
mod rust_text;
mod tidy;

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::summary::Summary;
use crate::{codegen, workspace};

type Step = (&'static str, fn() -> Result<()>);

/// The quick ones first.
const STEPS: [Step; 10] = [
    ("arrows", arrows),
    ("ban", ban_list),
    ("tidy", tidy),
    ("keys", keys),
    ("licences", licences),
    ("format", format),
    ("generated", generated_code),
    ("clippy", clippy),
    ("docs", documentation),
    ("config", configuration_page),
];

/// Runs the named steps, all where none is named, and each also after one has failed.
pub fn run(names: &[String]) -> Result<Summary> {
    let known: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
    for name in names {
        ensure!(known.contains(&name.as_str()), "no step named {name}; there are {}", known.join(", "));
    }
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, step) in STEPS.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name)) {
        match step() {
            Ok(()) => passed += 1,
            Err(error) => {
                println!("check {name}:\n{error:#}\n");
                failed.push(*name);
            }
        }
    }
    let line = match failed.is_empty() {
        true => format!("check: {passed} steps, none complains"),
        false => format!(
            "check: {} of {} steps complain: {}",
            failed.len(),
            passed + failed.len(),
            failed.join(", ")
        ),
    };
    Ok(Summary { line, passed, failed: failed.len() })
}

fn none(violations: &[String]) -> Result<()> {
    ensure!(violations.is_empty(), "{}", violations.join("\n"));
    Ok(())
}

fn arrows() -> Result<()> {
    none(&arrows::violations(&workspace::metadata()?)?)
}

fn ban_list() -> Result<()> {
    none(&ban::violations(&workspace::files()?))
}

fn tidy() -> Result<()> {
    let files = workspace::files()?;
    let mut found = tidy::violations(&files);
    found.extend(catch_all::violations(&files));
    none(&found)
}

fn keys() -> Result<()> {
    none(&keys::violations(&workspace::files()?))
}

fn licences() -> Result<()> {
    let deny = fs::read_to_string(workspace::root().join("deny.toml")).context("deny.toml")?;
    none(&licences::violations(&workspace::metadata()?, &licences::allow_list(&deny)?))
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let status = workspace::cargo().args(arguments).envs(environment.iter().copied()).status()?;
    ensure!(status.success(), "`cargo {}` complains", arguments.join(" "));
    Ok(())
}

fn format() -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])
}

fn clippy() -> Result<()> {
    cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])
}

fn documentation() -> Result<()> {
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--locked", "--document-private-items"], &strict)
}

fn generated_code() -> Result<()> {
    codegen::run(true)
}

const CONFIGURATION_PAGE: &str = "docs/configuration.md";

fn configuration_page() -> Result<()> {
    let page = render_configuration_page()?;
    let kept = fs::read_to_string(workspace::root().join(CONFIGURATION_PAGE)).unwrap_or_default();
    ensure!(page == kept, "{CONFIGURATION_PAGE} is stale, run `cargo xtask codegen`");
    Ok(())
}

/// Writes the page of configuration keys from the table in the code.
pub fn write_configuration_page() -> Result<()> {
    fs::write(workspace::root().join(CONFIGURATION_PAGE), render_configuration_page()?)
        .context(CONFIGURATION_PAGE)
}

fn render_configuration_page() -> Result<String> {
    let out = workspace::cargo()
        .args(["run", "--quiet", "--locked", "--package", "fencepost", "--", "config-doc"])
        .output()?;
    if !out.status.success() {
        bail!("`fencepost config-doc`: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8(out.stdout)?)
}
