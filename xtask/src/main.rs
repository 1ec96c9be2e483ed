//! Every habit of the project as one command: `cargo xtask TASK`. Each says in one line at its end what it did.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

mod bench;
mod broker;
mod check;
mod ci;
mod codegen;
mod conformance;
mod dist;
mod interop;
mod mutate;
mod process;
mod python;
mod sections;
mod sim;
mod summary;
mod test;
mod workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Every habit of the project as one command")]
enum Task {
    /// Format, clippy as errors, documentation, arrows between crates, ban list, tidy, licences, generated files.
    Check {
        /// arrows, ban, tidy, licences, format, generated, clippy, docs, config; all where none is named.
        steps: Vec<String>,
    },
    /// The tests of the default members.
    Test {
        /// Only tests whose name contains this.
        filter: Option<String>,
    },
    /// The simulator of the whole engine.
    Sim(sim::Sim),
    /// Every scripted conversation with a broker; writes docs/conformance.md.
    Conformance(conformance::Conformance),
    /// Unmodified clients and Kafka's own tools against a broker.
    Interop(interop::Interop),
    /// Mistakes made on purpose, one by one: the tests that are named with them must fail.
    Mutate(mutate::Mutate),
    /// Figures beside Apache Kafka on the same machine; writes docs/performance.md.
    Bench(bench::Bench),
    /// The broker as one static file, which loads nothing else.
    Dist,
    /// Generates the codecs from the schema, and docs/configuration.md from the table of keys.
    Codegen {
        /// Only fail where generated files are stale.
        #[arg(long)]
        check: bool,
    },
    /// Check, test, sim, conformance and interop, and one line that counts.
    Ci,
    /// What conformance scenarios call to have their broker restarted.
    #[command(hide = true)]
    RestartBroker {
        /// Where the owner of the broker listens.
        socket: PathBuf,
        /// `kill` or `stop`.
        how: String,
    },
}

fn main() -> Result<ExitCode> {
    let summary = match Task::parse() {
        Task::Check { steps } => check::run(&steps)?,
        Task::Test { filter } => test::run(filter.as_deref())?,
        Task::Sim(options) => sim::run(&options)?,
        Task::Conformance(options) => conformance::run(&options)?,
        Task::Interop(options) => interop::run(&options)?,
        Task::Mutate(options) => mutate::run(&options)?,
        Task::Bench(options) => bench::run(&options)?,
        Task::Dist => dist::run()?,
        Task::Codegen { check } => generate(check)?,
        Task::Ci => ci::run(),
        Task::RestartBroker { socket, how } => return conformance::restart_broker(&socket, &how),
    };
    Ok(summary.finish())
}

fn generate(check: bool) -> Result<summary::Summary> {
    codegen::run(check)?;
    let line = match check {
        true => "codegen: generated code is fresh",
        false => {
            check::write_configuration_page()?;
            "codegen: generated code and docs/configuration.md are written"
        }
    };
    Ok(summary::Summary { line: line.into(), passed: 1, failed: 0 })
}
