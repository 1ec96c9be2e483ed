//! The binary. It parses the command line, starts what was asked for, and says what went wrong in one sentence.
//!
//! ```text
//! serve ─► settings (file < environment < -X) ─► fencepost_server::Server ─► "fencepost ready HOST:PORT" ─► signal ─► clean stop
//! ```
//!
//! Invariants
//! - M1: stdout carries the ready line and what a command was asked to print; everything else goes to stderr.
//! - M2: SIGTERM and SIGINT stop cleanly, exit code 0; a start or a broker that fails is one sentence and exit code 1.

mod dump_log;
mod serve;

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
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::DumpLog(arguments) => dump_log::run(&arguments),
        Command::ConfigDoc => {
            print!("{}", fencepost_server::configuration_page());
            Ok(())
        }
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fencepost: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
