//! `fencepost serve`: settings from the file, the environment and the command line; then the broker, until a signal.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use fencepost_server::{Server, ServerSettings, Storage, settings_from, start_logging};
use tokio::signal::unix::{Signal, SignalKind, signal};

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
    // Dropped last: what is still to be written gets a moment.
    let _logging = start_logging();
    let settings = settings(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(settings, arguments));
    // A connection that still waits must not hold the process.
    runtime.shutdown_background();
    result
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

async fn serve(settings: ServerSettings, arguments: &ServeArguments) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let begun = Instant::now();
    let starting = Server::start(settings);
    tokio::pin!(starting);
    let server = loop {
        tokio::select! {
            started = &mut starting => break started?,
            asked = signals.next() => match asked {
                Asked::End(signal) => {
                    tracing::info!(signal, "ending before it was ready");
                    return Ok(());
                }
                Asked::Reload | Asked::Report(_) | Asked::Nothing(_) => {}
            },
        }
    };
    tracing::info!(address = %server.address(), took_ms = begun.elapsed().as_millis() as u64, "ready");
    say_ready(&server);
    loop {
        tokio::select! {
            asked = signals.next() => match asked {
                Asked::End(signal) => {
                    tracing::info!(signal, "stopping");
                    return stop(server, signals).await;
                }
                Asked::Reload => reload(&server, arguments),
                Asked::Report(signal) => {
                    tracing::info!(signal, "the state of the broker:");
                    server.report().iter().for_each(|line| tracing::info!("{line}"));
                }
                Asked::Nothing(signal) => tracing::info!(signal, "this signal has no meaning here"),
            },
            failure = server.failure() => {
                tracing::error!(error = %failure, "ending: the broker cannot go on");
                return Err(failure.into());
            }
        }
    }
}

/// The ready line. Whoever started the broker may have closed stdout, or reads nothing from it: that is no reason to wait.
fn say_ready(server: &Server) {
    let line = format!("fencepost ready {}\n", server.address());
    tokio::task::spawn_blocking(move || {
        let mut stdout = std::io::stdout();
        let said = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
        if let Err(error) = said {
            tracing::warn!(%error, "the ready line could not be written to stdout");
        }
    });
}

/// Stops cleanly; a second signal ends the process at once, and the next start recovers.
async fn stop(server: Server, mut signals: Signals) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut stopping = tokio::spawn(server.stop());
    loop {
        tokio::select! {
            stopped = &mut stopping => {
                stopped.context("the stop was cut short")??;
                tracing::info!(took_ms = begun.elapsed().as_millis() as u64, "stopped");
                return Ok(());
            }
            asked = signals.next() => if let Asked::End(signal) = asked {
                bail!("ended by a second {signal} before it had stopped; the next start recovers");
            },
        }
    }
}

/// Reads the settings again, from where they were read at the start. What is wrong with them changes nothing.
fn reload(server: &Server, arguments: &ServeArguments) {
    let given = match settings(arguments) {
        Ok(given) => given,
        Err(error) => return tracing::error!("the settings stay as they are: {error:#}"),
    };
    match server.reload(&given) {
        Ok(reloaded) => {
            let list = |keys: &[String]| if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
            tracing::info!(
                "the settings were read again; in force: {}; after a restart: {}",
                list(&reloaded.applied),
                list(&reloaded.needs_restart)
            );
        }
        Err(error) => tracing::error!("the settings stay as they are: {error}"),
    }
}

/// What a signal asks for.
enum Asked {
    /// SIGTERM, SIGINT: a clean stop.
    End(&'static str),
    /// SIGHUP: the settings are read again.
    Reload,
    /// SIGQUIT, SIGUSR1: the state is logged.
    Report(&'static str),
    /// SIGUSR2.
    Nothing(&'static str),
}

/// Every signal that would otherwise end the process without a word.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    quit: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End("SIGTERM"),
            _ = self.interrupt.recv() => Asked::End("SIGINT"),
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.quit.recv() => Asked::Report("SIGQUIT"),
            _ = self.user1.recv() => Asked::Report("SIGUSR1"),
            _ = self.user2.recv() => Asked::Nothing("SIGUSR2"),
        }
    }
}
