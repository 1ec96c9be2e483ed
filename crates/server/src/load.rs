//! What connections make us hold of answers that are ready and not taken.
//!
//! Each connection has a limit of its own, beyond which nothing more is read from it. All of them together have one, too:
//! beyond it, who holds much of it and takes nothing is closed, so that memory does not grow with the number of those who do
//! not read. Records that lie in files until they are sent ([`Frame`](fencepost_broker::Frame)) take no memory and do not count.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use fencepost_broker::{LogLimit, Outcome};
use fencepost_protocol::ApiKey;
use tokio::sync::{Notify, watch};

use crate::answers::Lost;
use crate::clock::Clock;

/// While more than this is ready and not yet taken by the client, nothing more is read from it.
const UNSENT_BYTES_MAX: usize = 1024 * 1024;
/// All connections together may have this much ready and not taken before those who take nothing are closed for it.
pub(crate) const UNSENT_BYTES_TOTAL_MAX: usize = 64 * 1024 * 1024;
/// A connection that holds no more than this is never closed for it.
const UNSENT_BYTES_FREE: usize = 64 * 1024;

/// The answers of all connections that are ready and not taken.
pub(crate) struct Unsent {
    bytes: AtomicUsize,
    bytes_max: usize,
    is_over: watch::Sender<bool>,
    clock: Clock,
    lost: LogLimit,
}

impl Unsent {
    /// None yet; `bytes_max` is the limit of them all.
    pub(crate) fn new(bytes_max: usize, clock: Clock) -> Arc<Self> {
        let is_over = watch::Sender::new(false);
        Arc::new(Self { bytes: AtomicUsize::new(0), bytes_max, is_over, clock, lost: LogLimit::default() })
    }

    /// What they take of memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    fn add(&self, bytes: usize) {
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before <= self.bytes_max && before + bytes > self.bytes_max {
            self.look();
        }
    }

    fn take_away(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        if before > self.bytes_max && before - bytes <= self.bytes_max {
            self.look();
        }
    }

    /// Whoever looks last sees what all have done.
    fn look(&self) {
        self.is_over.send_modify(|is_over| *is_over = self.bytes() > self.bytes_max);
    }
}

/// What one connection makes us hold.
pub(crate) struct Load {
    all: Arc<Unsent>,
    peer: SocketAddr,
    /// Bytes of answers that are ready and not written.
    unsent_bytes: AtomicUsize,
    /// Fetches that are not answered: each walks over as much as `fetch.max.bytes`.
    fetches: AtomicUsize,
    /// Something became less.
    lighter: Notify,
}

impl Load {
    /// Nothing yet, of a new connection.
    pub(crate) fn new(all: &Arc<Unsent>, peer: SocketAddr) -> Self {
        Self {
            all: Arc::clone(all),
            peer,
            unsent_bytes: AtomicUsize::new(0),
            fetches: AtomicUsize::new(0),
            lighter: Notify::new(),
        }
    }

    fn is_light(&self, frame: &Bytes) -> bool {
        let bytes_max = if *self.all.is_over.borrow() { 0 } else { UNSENT_BYTES_MAX };
        self.unsent_bytes.load(Ordering::Acquire) <= bytes_max
            && (!is_fetch(frame) || self.fetches.load(Ordering::Acquire) == 0)
    }

    /// Resolves when `frame` may be handed in.
    pub(crate) async fn is_light_enough(&self, frame: &Bytes) {
        while !self.is_light(frame) {
            let lighter = self.lighter.notified();
            if self.is_light(frame) {
                return;
            }
            lighter.await;
        }
    }

    /// Resolves when all connections together hold too much.
    pub(crate) async fn all_hold_too_much(&self) {
        let mut is_over = self.all.is_over.subscribe();
        // The sender is here, so there is no end of it.
        let _ = is_over.wait_for(|is_over| *is_over).await;
    }

    /// Whether it is so, and this one holds more than anybody may.
    pub(crate) fn has_to_go(&self) -> bool {
        *self.all.is_over.borrow() && self.holds_much()
    }

    fn holds_much(&self) -> bool {
        self.unsent_bytes.load(Ordering::Acquire) > UNSENT_BYTES_FREE
    }

    /// Says why the rest of an answer was not sent. What clients do by themselves is no news.
    pub(crate) fn tell(&self, lost: &Lost) {
        match lost {
            Lost::Client(_) | Lost::Idle | Lost::Stopped => {
                tracing::debug!(peer = %self.peer, %lost, "an answer is lost")
            }
            Lost::TooMuch | Lost::Disk(_) => {
                if let Some(allowed) = self.all.lost.allow(self.all.clock.now().mono) {
                    let suppressed = allowed.suppressed;
                    tracing::warn!(peer = %self.peer, suppressed, "closing a connection in the middle of an answer: {lost}");
                }
            }
        }
    }

    /// A request is handed in.
    pub(crate) fn taken_in(&self, is_fetch: bool) {
        self.fetches.fetch_add(usize::from(is_fetch), Ordering::AcqRel);
    }

    /// Its answer is ready.
    pub(crate) fn answered(&self, was_fetch: bool, outcome: &Outcome) {
        self.hold(held_bytes(outcome));
        if was_fetch {
            self.fetches.fetch_sub(1, Ordering::AcqRel);
            self.lighter.notify_one();
        }
    }

    /// Its answer is with the client's system.
    pub(crate) fn written(&self, outcome: &Outcome) {
        self.let_go(held_bytes(outcome));
        self.lighter.notify_one();
    }

    fn hold(&self, bytes: usize) {
        self.unsent_bytes.fetch_add(bytes, Ordering::AcqRel);
        self.all.add(bytes);
    }

    fn let_go(&self, bytes: usize) {
        self.unsent_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.all.take_away(bytes);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.all.take_away(*self.unsent_bytes.get_mut());
    }
}

/// Whether a request is a Fetch.
pub(crate) fn is_fetch(frame: &Bytes) -> bool {
    frame.first_chunk::<2>().is_some_and(|key| i16::from_be_bytes(*key) == ApiKey::Fetch.code())
}

fn held_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Frame(frame) => frame.held_bytes(),
        Outcome::Nothing | Outcome::Close => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

    /// Whether all hold too much is what the sum of them says, whoever comes and goes.
    #[test]
    fn the_sum_decides() {
        let all = Unsent::new(1_000, Clock::start());
        let (first, second) = (Load::new(&all, PEER), Load::new(&all, PEER));
        let is_over = || *all.is_over.borrow();
        first.hold(600);
        second.hold(400);
        assert!(!is_over() && all.bytes() == 1_000);
        second.hold(1);
        assert!(is_over());
        first.let_go(1);
        assert!(!is_over());
        second.hold(5_000);
        assert!(is_over());
        drop(second);
        assert!(!is_over() && all.bytes() == 599);
        drop(first);
        assert_eq!(all.bytes(), 0);
    }

    /// While all hold too much, who holds little is left alone, but nobody who holds anything is read from.
    #[test]
    fn who_holds_little_stays() {
        let all = Unsent::new(1_000_000, Clock::start());
        let [little, nothing, much] = [UNSENT_BYTES_FREE, 0, 1_000_000].map(|bytes| {
            let load = Load::new(&all, PEER);
            load.hold(bytes);
            load
        });
        assert!(!little.has_to_go() && !nothing.has_to_go() && much.has_to_go());
        let frame = Bytes::from_static(&[0, 3]);
        assert!(!little.is_light(&frame) && nothing.is_light(&frame) && !much.is_light(&frame));
        much.let_go(1_000_000);
        assert!(little.is_light(&frame) && !much.has_to_go());
    }
}
