//! A running broker: engine, threads and listener, from start to clean stop.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_broker::metadata::config::ConfigError;
use fencepost_broker::{Broker, BrokerSettings, ConnectionId, Listener, LogLimit, Reloaded, StartError};
use fencepost_storage::{Disk, MemoryDisk};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::clock::Clock;
use crate::configuration::listening_on;
use crate::connection::{Service, serve};
use crate::disk::RealDisk;
use crate::edge::{RealEdge, Threads};
use crate::farewell::{FAREWELL_MAX, Stop};
use crate::handles::HandleLimits;
use crate::load::{HELD_BYTES_MAX, Held};
use crate::logging::{log_lines_dropped, tell_dropped};
use crate::metrics::Metrics;

/// Connections that may be open at once; the next one is closed at once.
pub(crate) const CONNECTIONS_MAX: usize = 10_000;
/// After a failed accept (no file handles left) the listener rests this long.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Where the data is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a directory.
    Directory(PathBuf),
    /// In memory, gone with the process.
    Ephemeral,
}

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where the data is kept.
    pub storage: Storage,
    /// Where to listen; port 0 picks a free one.
    pub listen: String,
    /// The host that clients are told, where it differs from the one in `listen`.
    pub advertised_host: Option<String>,
    /// The port that clients are told, where it differs from the one listened on.
    pub advertised_port: Option<u16>,
    /// The engine's settings.
    pub broker: BrokerSettings,
}

/// Why a server did not start, or stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address as it was given.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The configuration does not hold together.
    #[error("{0}")]
    Configuration(String),
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path}: {text}")]
    Data {
        /// The directory.
        path: String,
        /// The reason.
        text: String,
    },
    /// The system refused something that every server needs.
    #[error("cannot start")]
    System(#[from] std::io::Error),
    /// The engine did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The engine stopped by itself.
    #[error("stopped: {0}")]
    Failed(String),
}

/// A running server.
pub struct Server {
    broker: Arc<Broker>,
    edge: Arc<RealEdge>,
    threads: Threads,
    clock: Clock,
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    held: Arc<Held>,
    stopping: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    metrics: Option<Metrics>,
    telling: JoinHandle<()>,
}

impl Server {
    /// Binds, recovers the data, and serves. When this returns, the first request of every kind succeeds.
    pub async fn start(mut settings: ServerSettings) -> Result<Self, ServerError> {
        let clock = Clock::start();
        let limits = HandleLimits::raise();
        let listen = settings.listen.clone();
        let listen_error = |source| ServerError::Listen { address: listen.clone(), source };
        let socket = bind(&listen).await.map_err(listen_error)?;
        let address = socket.local_addr()?;
        let listener = advertised(&settings, address);
        if listen.ends_with(":0") {
            settings.broker.statics = listening_on(settings.broker.statics, &address.to_string());
        }
        let edge = Arc::new(RealEdge::new()?);
        let broker = load(settings, listener.clone(), Arc::clone(&edge), clock).await?;
        let threads = Threads::start(&broker, &edge, clock)?;
        let (stopping, stop) = watch::channel(false);
        let (connections, held) = (Arc::default(), Held::new(HELD_BYTES_MAX, clock));
        let service = Service {
            broker: Arc::clone(&broker),
            clock,
            listener,
            request_bytes_max: broker.request_bytes_max(),
            idle: Duration::from_millis(broker.connection_idle_ms_max() as u64),
            connections: Arc::clone(&connections),
            held: Arc::clone(&held),
            stop: Stop::new(stop.clone()),
        };
        let metrics = match broker.metrics_listener() {
            None => None,
            Some(listen) => {
                let serving = Metrics::serve(&broker, &edge, &listen, stop.clone()).await;
                Some(serving.map_err(|source| ServerError::Listen { address: listen, source })?)
            }
        };
        // Only now can anybody connect (E2).
        let options = broker.socket_options();
        // Accepted connections take their buffers over from the listener.
        if let Some(bytes) = options.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = options.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        let socket = socket.listen(options.backlog).map_err(listen_error)?;
        let accepting = tokio::spawn(accept(service, socket, limits.connections_max, stop));
        limits.tell();
        let telling = tell_dropped();
        Ok(Self {
            broker,
            edge,
            threads,
            clock,
            address,
            connections,
            held,
            stopping,
            accepting,
            metrics,
            telling,
        })
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|metrics| metrics.address)
    }

    /// Resolves when the engine says that it cannot go on.
    pub async fn failure(&self) -> ServerError {
        ServerError::Failed(self.edge.failure().await)
    }

    /// Takes over settings that have been read again, as far as they can change while the broker runs.
    ///
    /// Errors: as [`Broker::reload`].
    pub fn reload(&self, settings: &ServerSettings) -> Result<Reloaded, ConfigError> {
        // A port that the system has picked is no change.
        let statics = settings.broker.statics.clone();
        let is_picked = settings.listen.ends_with(":0");
        let statics = if is_picked { listening_on(statics, &self.address.to_string()) } else { statics };
        self.broker.reload(&statics)
    }

    /// The state of the broker as lines, see [`Broker::report`].
    pub fn report(&self) -> Vec<String> {
        let process = format!(
            "process {}: {} connections, {} bytes held for them, {} bytes resident, {} log lines dropped",
            std::process::id(),
            self.connections.load(Ordering::Relaxed),
            self.held.bytes(),
            resident_bytes().map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string()),
            log_lines_dropped(),
        );
        [vec![process], self.broker.report(self.clock.now())].concat()
    }

    /// Stops cleanly: nothing more is taken from clients, what was taken is answered, everything is synced, checkpoints and
    /// the clean-shutdown mark are written. Clients hold it up for `FAREWELL_MAX` at most.
    pub async fn stop(self) -> Result<(), ServerError> {
        // The listener may have ended already.
        let _ = self.stopping.send(true);
        self.broker.end_waits(self.clock.now());
        let _ = self.accepting.await;
        if let Some(metrics) = self.metrics {
            metrics.stop().await;
        }
        self.telling.abort();
        self.threads.stop();
        self.broker.stop(&|| self.clock.now()).map_err(|error| ServerError::Failed(error.to_string()))
    }
}

/// The memory of this process that is not paged out; `None` where the system does not tell.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Takes the address without listening on it yet: the port is known before the first record is written, and nobody can
/// connect before the last one is read.
async fn bind(listen: &str) -> std::io::Result<TcpSocket> {
    let mut refused = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in tokio::net::lookup_host(listen).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restarted broker must not wait for connections of its last life.
        socket.set_reuseaddr(true)?;
        match socket.bind(address) {
            Ok(()) => return Ok(socket),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Recovers the data. That may take long; who waits for it can give up.
async fn load(
    settings: ServerSettings,
    listener: Listener,
    edge: Arc<RealEdge>,
    clock: Clock,
) -> Result<Arc<Broker>, ServerError> {
    let loading = tokio::task::spawn_blocking(move || {
        let disk = open_disk(&settings.storage)?;
        Ok(Broker::start(disk, edge, settings.broker, listener, &|| clock.now())?)
    });
    loading.await.map_err(std::io::Error::from)?
}

fn open_disk(storage: &Storage) -> Result<Arc<dyn Disk>, ServerError> {
    match storage {
        Storage::Ephemeral => Ok(Arc::new(MemoryDisk::new())),
        Storage::Directory(path) => {
            let disk = RealDisk::open(path);
            let failed = |error: fencepost_storage::DiskError| ServerError::Data {
                path: path.display().to_string(),
                text: error.text,
            };
            Ok(Arc::new(disk.map_err(failed)?))
        }
    }
}

/// What clients are told: the address listened on, unless it is "any", which they could not reach.
fn advertised(settings: &ServerSettings, address: SocketAddr) -> Listener {
    let host = settings.advertised_host.clone().unwrap_or_else(|| {
        if address.ip().is_unspecified() { "localhost".to_owned() } else { address.ip().to_string() }
    });
    Listener { name: "PLAINTEXT".to_owned(), host, port: settings.advertised_port.unwrap_or(address.port()) }
}

async fn accept(service: Service, socket: TcpListener, handles: usize, mut stop: watch::Receiver<bool>) {
    let connections_max = handles.min(CONNECTIONS_MAX);
    let mut connections = JoinSet::new();
    let mut by_address = ByAddress::default();
    let mut next_id = 0;
    let (too_many, not_accepted) = (LogLimit::default(), LogLimit::default());
    loop {
        // The limits can change while the broker runs.
        let limits = service.broker.connection_limits();
        let is_full = connections.len() >= limits.connections_max;
        tokio::select! {
            () = tokio::time::sleep(ACCEPT_RETRY), if is_full => {}
            _ = stop.changed() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                by_address.ended(ended.ok());
                service.connections.store(connections.len(), Ordering::Relaxed);
            }
            accepted = socket.accept(), if !is_full => match accepted {
                Ok((_, peer)) if by_address.count(peer.ip()) >= limits.of(peer.ip()) => {
                    if let Some(allowed) = too_many.allow(service.clock.now().mono) {
                        let (limit, suppressed) = (limits.of(peer.ip()), allowed.suppressed);
                        tracing::warn!(%peer, limit, suppressed, "too many connections from one address: closed one");
                    }
                }
                Ok((stream, peer)) if connections.len() < connections_max => {
                    next_id += 1;
                    service.connections.store(connections.len() + 1, Ordering::Relaxed);
                    by_address.began(peer.ip());
                    let serving = serve(service.clone(), stream, peer, ConnectionId(next_id));
                    connections.spawn(async move {
                        serving.await;
                        peer.ip()
                    });
                }
                Ok((_, peer)) => if let Some(allowed) = too_many.allow(service.clock.now().mono) {
                    let suppressed = allowed.suppressed;
                    tracing::warn!(%peer, limit = connections_max, suppressed, "too many connections: closed one");
                },
                Err(error) => {
                    if let Some(allowed) = not_accepted.allow(service.clock.now().mono) {
                        tracing::warn!(%error, suppressed = allowed.suppressed, "a connection could not be accepted");
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    drop(socket);
    let finished = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL_MAX, finished).await;
    connections.shutdown().await;
}

/// How many connections each address has. A task of a connection does not end but by itself, so that each is counted down.
#[derive(Default)]
struct ByAddress(BTreeMap<IpAddr, usize>);

impl ByAddress {
    fn count(&self, address: IpAddr) -> usize {
        self.0.get(&address).copied().unwrap_or_default()
    }

    fn began(&mut self, address: IpAddr) {
        *self.0.entry(address).or_default() += 1;
    }

    /// `None`: the task was cut off by the end of the server.
    fn ended(&mut self, address: Option<IpAddr>) {
        let Some(address) = address else { return };
        match self.0.get_mut(&address) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                self.0.remove(&address);
            }
        }
    }
}
