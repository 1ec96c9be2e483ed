//! Every habit of the project as one command.

use clap::Parser;

mod codegen;

#[derive(Parser)]
#[command(name = "xtask")]
enum Task {
    /// Generates the codecs from the schema.
    Codegen {
        /// Only fail where generated files are stale.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Codegen { check } => codegen::run(check),
    }
}
