//! The end of a connection when the server stops: everything that was taken from the client is answered, in order, and
//! nothing more is taken.
//!
//! A producer has several batches in flight. One that is appended and not answered is sent again to the next life of the
//! server; so the reading ends first of all, and the answers are waited for. The client's bytes are read and thrown away
//! meanwhile: closing a socket with unread bytes resets the connection, and the peer's system may then drop answers that
//! have arrived.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Why a connection is closed whose client has done nothing.
pub(crate) const STOPPED: &str = "the server stops";
/// So long a stop waits for the answers to what was taken in: syncs, and markers with syncs of their own. Milliseconds, on a
/// disk that is busy seconds; the parked have been answered before.
const ANSWERS_GRACE: Duration = Duration::from_secs(5);
/// A client that has said its last word, or hears that of the server, is given so long to take what it had asked for.
pub(crate) const LINGER: Duration = Duration::from_millis(1_000);
/// After its last answer a client is given so long to close. Most do at once, when they see that nothing more comes.
const CLOSE_GRACE: Duration = Duration::from_millis(500);
/// The longest that a connection lives when the server stops.
pub(crate) const FAREWELL_MAX: Duration = ANSWERS_GRACE.saturating_add(CLOSE_GRACE);
/// Bytes that are thrown away at a time.
const DISCARD_BYTES: usize = 16 * 1024;

/// Knows when the server stops.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Hears of it from `told`.
    pub(crate) fn new(told: watch::Receiver<bool>) -> Self {
        Self(told)
    }

    /// Resolves once the stop has begun. A server that is gone has stopped.
    pub(crate) async fn begun(&mut self) {
        let _ = self.0.wait_for(|begun| *begun).await;
    }

    /// Resolves `grace` after the stop has begun, or after this was called if that is later.
    pub(crate) async fn begun_since(&mut self, grace: Duration) {
        self.begun().await;
        tokio::time::sleep(grace).await;
    }
}

/// Waits until `writer` has written the last answers, and then until the client has closed, each for a limited time.
pub(crate) async fn say_farewell(reading: &mut OwnedReadHalf, writer: &mut JoinHandle<()>) {
    let discarded = discard(reading);
    tokio::pin!(discarded);
    let answered = timeout(ANSWERS_GRACE, writer);
    tokio::pin!(answered);
    let is_closed = tokio::select! {
        _ = &mut answered => false,
        () = &mut discarded => true,
    };
    if is_closed {
        // Perhaps its own direction only: it may still read.
        let _ = answered.await;
    } else {
        let _ = timeout(CLOSE_GRACE, discarded).await;
    }
}

/// Reads and forgets until the client closes.
async fn discard(reading: &mut OwnedReadHalf) {
    let mut bytes = vec![0; DISCARD_BYTES];
    while reading.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}
