//! `fencepost serve`: settings from the file, the environment and the command line; then the broker, until a signal.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use fencepost_server::{Server, ServerSettings, Storage, settings_from};
use tokio::signal::unix::{SignalKind, signal};

/// Where the data is kept when nothing else is said.
const DEFAULT_DATA: &str = "fencepost-data";

/// What can be said on the command line.
#[derive(Args)]
pub struct ServeArguments {
    /// A file of Kafka's broker properties.
    #[arg(long, value_name = "server.properties")]
    config: Option<PathBuf>,
    /// The directory of the data [default: log.dirs of the configuration, or ./fencepost-data].
    #[arg(long, value_name = "DIR", conflicts_with = "ephemeral")]
    data: Option<PathBuf>,
    /// Keep the data in memory; it is gone with the process.
    #[arg(long)]
    ephemeral: bool,
    /// Where to listen [default: listeners of the configuration, or 127.0.0.1:9092]; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// A property by Kafka's name; goes before the environment (KAFKA_…) and the file.
    #[arg(short = 'X', value_name = "kafka.property=value")]
    properties: Vec<String>,
}

/// Runs the broker until SIGTERM or SIGINT.
pub fn run(arguments: &ServeArguments) -> anyhow::Result<()> {
    start_logging();
    let settings = settings(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(settings));
    // A connection that still waits must not hold the process.
    runtime.shutdown_background();
    result
}

/// Everything but the ready line goes to stderr.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FENCEPOST_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    lines.with_ansi(colours).with_target(false).init();
}

fn settings(arguments: &ServeArguments) -> anyhow::Result<ServerSettings> {
    let file = match &arguments.config {
        Some(path) => {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        None => String::new(),
    };
    let mut given = Vec::new();
    for property in &arguments.properties {
        let Some((key, value)) = property.split_once('=') else {
            bail!("-X takes kafka.property=value, not {property:?}");
        };
        given.push((key.trim().to_owned(), value.trim().to_owned()));
    }
    // A variable that is no UTF-8 is none of ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let storage = if arguments.ephemeral {
        Some(Storage::Ephemeral)
    } else {
        arguments.data.clone().map(Storage::Directory)
    };
    let default = Storage::Directory(DEFAULT_DATA.into());
    Ok(settings_from(&file, environment, given, storage, default, arguments.listen.clone())?)
}

async fn serve(settings: ServerSettings) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = tokio::select! {
        started = Server::start(settings) => started?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let mut stdout = std::io::stdout();
    writeln!(stdout, "fencepost ready {}", server.address())?;
    stdout.flush()?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        failure = server.failure() => return Err(failure.into()),
    }
    server.stop().await?;
    Ok(())
}
