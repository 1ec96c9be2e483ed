//! The HTTP side of the admin listener: few connections, each for a short time, so that a client that never finishes a
//! request, or never reads its answer, keeps nothing for long.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a client of the admin listener may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLimits {
    /// Connections at once; the next one is closed.
    pub(crate) connections_max: usize,
    /// From the first moment of waiting for a request until its head has come.
    pub(crate) head_max: Duration,
    /// From the accept to the end, whatever happens on the connection.
    pub(crate) connection_max: Duration,
    /// After a failed accept (no file handles left) the listener rests this long.
    pub(crate) accept_retry: Duration,
}

impl HttpLimits {
    /// Scrapers ask every few seconds, a person now and then; both come again.
    pub(crate) const DEFAULT: Self = Self {
        connections_max: 64,
        head_max: Duration::from_secs(10),
        connection_max: Duration::from_secs(300),
        accept_retry: Duration::from_millis(50),
    };
}

/// Serves `router` until `stop` changes.
pub(crate) async fn serve(
    socket: TcpListener,
    router: Router,
    limits: HttpLimits,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_max);
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) if connections.len() < limits.connections_max => {
                    let service = TowerToHyperService::new(router.clone());
                    let connection = http.serve_connection(TokioIo::new(stream), service);
                    connections.spawn(tokio::time::timeout(limits.connection_max, connection));
                }
                Ok(_) => tracing::debug!(limit = limits.connections_max, "too many admin connections: closed one"),
                Err(error) => {
                    tracing::debug!(%error, "an admin connection could not be accepted");
                    tokio::time::sleep(limits.accept_retry).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use axum::routing::get;

    use super::*;

    /// Everything that a broken limit could hang on ends within this.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn served(limits: HttpLimits) -> (tokio::runtime::Runtime, SocketAddr, watch::Sender<bool>) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let socket = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = socket.local_addr().unwrap();
        let (stopping, stop) = watch::channel(false);
        // An answer that no socket buffer takes whole.
        let router = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/large", get(|| async { vec![b'x'; 64 << 20] }));
        runtime.spawn(serve(socket, router, limits, stop));
        (runtime, address, stopping)
    }

    fn connect(address: SocketAddr, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// Whether the server has closed it: an end, or a reset, and no silence.
    fn is_closed(mut stream: TcpStream) -> bool {
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Asks, again and again, until a whole answer comes.
    fn is_served_in_the_end(address: SocketAddr) -> bool {
        let begun = std::time::Instant::now();
        let ask = || {
            let mut answer = String::new();
            let mut stream = TcpStream::connect(address).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
            stream.read_to_string(&mut answer).ok()?;
            answer.ends_with("here").then_some(())
        };
        std::iter::from_fn(|| (begun.elapsed() < PATIENCE).then(ask)).any(|served| served.is_some())
    }

    /// Issue 12, B12: half a request, none at all, and silence after an answer end after the time for a head. Others are
    /// served meanwhile.
    #[test]
    fn half_requests_are_closed() {
        let limits = HttpLimits { head_max: Duration::from_millis(300), ..HttpLimits::DEFAULT };
        let (_runtime, address, _stopping) = served(limits);
        let whole = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let waiting = ["", "GET / HT", &whole[..whole.len() - 2], whole].map(|head| connect(address, head));
        assert!(is_served_in_the_end(address));
        for stream in waiting {
            assert!(is_closed(stream));
        }
    }

    /// Issue 12, B12: a client that never reads its answer holds a connection, the only one here, for so long and no longer.
    #[test]
    fn a_reader_that_never_reads_is_cut_off() {
        let limits = HttpLimits {
            connections_max: 1,
            connection_max: Duration::from_millis(300),
            ..HttpLimits::DEFAULT
        };
        let (_runtime, address, _stopping) = served(limits);
        let deaf = connect(address, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(is_served_in_the_end(address));
        drop(deaf);
    }

    /// Beyond the limit a connection is closed at once, and one is free again when another ends.
    #[test]
    fn connections_are_counted() {
        let (_runtime, address, _stopping) = served(HttpLimits { connections_max: 1, ..HttpLimits::DEFAULT });
        let mut first = connect(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut some = [0; 8];
        first.read_exact(&mut some).unwrap();
        assert!(is_closed(connect(address, "")));
        drop(first);
        assert!(is_served_in_the_end(address));
    }
}
