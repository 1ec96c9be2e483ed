//! The binary. It parses the command line, starts what was asked for, and says what went wrong in one sentence.
//!
//! ```text
//! serve ─► settings (file < environment < -X) ─► fencepost_server::Server ─► "fencepost ready HOST:PORT" ─► signal ─► clean stop
//! ```
//!
//! Invariants
//! - M1: stdout carries the ready line and what a command was asked to print; everything else goes to stderr.
//! - M2: SIGTERM and SIGINT stop cleanly, exit code 0; a start or a broker that fails is one sentence and exit code 1. A
//!   second one ends the process at once. SIGHUP reads the settings again, SIGQUIT and SIGUSR1 log the state, SIGUSR2 does
//!   nothing.
//! - M3: neither stdout nor stderr, closed, full or read by nobody, ends the process or makes a client wait.

mod dump_log;
mod memory;
mod serve;

use std::io::Write;

use clap::{Parser, Subcommand};

/// A Kafka-compatible broker whose heart is exactly-once.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the broker.
    Serve(serve::ServeArguments),
    /// Shows what is in the files of a log directory, and what is wrong with them.
    DumpLog(dump_log::DumpLogArguments),
    /// Prints the page of configuration keys.
    #[command(hide = true)]
    ConfigDoc,
}

fn main() -> std::process::ExitCode {
    memory::give_large_buffers_back();
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::DumpLog(arguments) => dump_log::run(&arguments),
        Command::ConfigDoc => {
            let page = fencepost_server::configuration_page();
            std::io::stdout().write_all(page.as_bytes()).map_err(Into::into)
        }
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is closed, the exit code says it alone.
            let _ = writeln!(std::io::stderr(), "fencepost: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
