//! The binary: `fencepost serve` runs the broker.

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
    /// Prints the page of configuration keys.
    #[command(hide = true)]
    ConfigDoc,
}

fn main() -> std::process::ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
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
