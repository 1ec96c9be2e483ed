//! What connections make us hold: answers that are ready and not taken, and large requests that are not whole, or wait.
//!
//! Each connection has limits of its own, beyond which nothing more is read from it. All of them together have one, too:
//! beyond it, who makes us hold much and neither takes nor sends enough is closed, so that memory does not grow with the number of
//! those who do not go on. Records that lie in files until they are sent ([`Frame`](fencepost_broker::Frame)) do not count.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fencepost_broker::{LogLimit, Outcome};
use fencepost_protocol::ApiKey;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::answers::Lost;
use crate::clock::Clock;

/// While more than this is ready and not yet taken by the client, nothing more is read from it.
const UNSENT_BYTES_MAX: usize = 1024 * 1024;
/// All connections together may make us hold this much before those who do not go on are closed for it.
pub(crate) const HELD_BYTES_MAX: usize = 128 * 1024 * 1024;
/// A connection that makes us hold no more than this is never closed for it: less than a buffer for small requests may take.
const HELD_BYTES_FREE: usize = 256 * 1024;
/// A client goes on when it takes, or sends, this much...
const PROGRESS_BYTES: usize = 64 * 1024;
/// ...in this time.
pub(crate) const PROGRESS_WITHIN: Duration = Duration::from_millis(1_000);

/// What all connections make us hold.
pub(crate) struct Held {
    bytes: AtomicUsize,
    bytes_max: usize,
    is_over: watch::Sender<bool>,
    clock: Clock,
    lost: LogLimit,
}

impl Held {
    /// Nothing yet; `bytes_max` is the limit of them all.
    pub(crate) fn new(bytes_max: usize, clock: Clock) -> Arc<Self> {
        let is_over = watch::Sender::new(false);
        Arc::new(Self { bytes: AtomicUsize::new(0), bytes_max, is_over, clock, lost: LogLimit::default() })
    }

    /// What it takes of memory, bytes.
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

    /// The last to look sees what all have done.
    fn look(&self) {
        self.is_over.send_modify(|is_over| *is_over = self.bytes() > self.bytes_max);
    }
}

/// Whether a client goes on, in one direction.
pub(crate) struct Progress {
    since: Instant,
    bytes: usize,
}

impl Progress {
    /// It begins something.
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now(), bytes: 0 }
    }

    /// It has taken, or sent, so much.
    pub(crate) fn made(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= PROGRESS_BYTES {
            *self = Self::begin();
        }
    }

    /// Resolves when all connections together make us hold too much, this one is a part of that, and does not go on.
    pub(crate) async fn is_too_slow(&self, load: &Load) {
        loop {
            load.all_hold_too_much().await;
            tokio::time::sleep_until(self.since + PROGRESS_WITHIN).await;
            if load.has_to_go() {
                return;
            }
            tokio::time::sleep(PROGRESS_WITHIN).await;
        }
    }
}

/// What one connection makes us hold.
pub(crate) struct Load {
    all: Arc<Held>,
    peer: SocketAddr,
    /// Bytes of answers that are ready and not written, and of requests that are not handed in.
    held_bytes: AtomicUsize,
    /// Bytes of answers that are ready and not written.
    unsent_bytes: AtomicUsize,
    /// Fetches that are not answered: each walks over as much as `fetch.max.bytes`.
    fetches: AtomicUsize,
    /// Something became less.
    lighter: Notify,
}

impl Load {
    /// Nothing yet, of a new connection.
    pub(crate) fn new(all: &Arc<Held>, peer: SocketAddr) -> Self {
        Self {
            all: Arc::clone(all),
            peer,
            held_bytes: AtomicUsize::new(0),
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
    async fn all_hold_too_much(&self) {
        let mut is_over = self.all.is_over.subscribe();
        // The sender is here, so there is no end of it.
        let _ = is_over.wait_for(|is_over| *is_over).await;
    }

    /// Whether it is so, and this one holds more than anybody may.
    fn has_to_go(&self) -> bool {
        *self.all.is_over.borrow() && self.held_bytes.load(Ordering::Acquire) > HELD_BYTES_FREE
    }

    /// Says why the connection ends in the middle of an answer, or of a request. What clients do by themselves is no news.
    pub(crate) fn tell(&self, lost: &Lost) {
        match lost {
            Lost::Client(_) | Lost::Idle | Lost::Stopped => {
                tracing::debug!(peer = %self.peer, %lost, "an answer is lost")
            }
            Lost::TooMuch | Lost::Disk(_) => {
                if let Some(allowed) = self.all.lost.allow(self.all.clock.now().mono) {
                    let suppressed = allowed.suppressed;
                    tracing::warn!(peer = %self.peer, suppressed, "closing a connection: {lost}");
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
        let bytes = held_bytes(outcome);
        self.unsent_bytes.fetch_add(bytes, Ordering::AcqRel);
        self.hold(bytes);
        if was_fetch {
            self.fetches.fetch_sub(1, Ordering::AcqRel);
            self.lighter.notify_one();
        }
    }

    /// Its answer is with the client's system.
    pub(crate) fn written(&self, outcome: &Outcome) {
        let bytes = held_bytes(outcome);
        self.unsent_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.let_go(bytes);
        self.lighter.notify_one();
    }

    fn hold(&self, bytes: usize) {
        self.held_bytes.fetch_add(bytes, Ordering::AcqRel);
        self.all.add(bytes);
    }

    fn let_go(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.all.take_away(bytes);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.all.take_away(*self.held_bytes.get_mut());
    }
}

/// The memory of a request that is on its way in: nothing while it is small.
pub(crate) struct Arriving {
    load: Arc<Load>,
    bytes: usize,
}

impl Arriving {
    /// Nothing has come.
    pub(crate) fn new(load: &Arc<Load>) -> Self {
        Self { load: Arc::clone(load), bytes: 0 }
    }

    /// It takes so much now.
    pub(crate) fn takes(&mut self, bytes: usize) {
        let bytes = if bytes > HELD_BYTES_FREE { bytes } else { 0 };
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.load.hold(more),
            None => self.load.let_go(self.bytes - bytes),
        }
        self.bytes = bytes;
    }

    /// Whether it counts.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes > 0
    }

    /// Resolves when the rest of it comes too slowly for what all connections make us hold.
    pub(crate) async fn is_too_slow(&self, progress: &Progress) {
        progress.is_too_slow(&self.load).await;
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.load.let_go(self.bytes);
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

    use fencepost_broker::Frame;

    use super::*;

    const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

    fn answer(bytes: usize) -> Outcome {
        Outcome::Frame(Frame::from(Bytes::from(vec![7; bytes])))
    }

    /// Whether all hold too much is what the sum of them says, as connections come and go.
    #[test]
    fn the_sum_decides() {
        let all = Held::new(1_000, Clock::start());
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

    /// While all hold too much, a connection that holds little stays, and none that holds anything is read from.
    #[test]
    fn who_holds_little_stays() {
        let all = Held::new(1_000_000, Clock::start());
        let [little, nothing, much] = [HELD_BYTES_FREE, 0, 1_000_000].map(|bytes| {
            let load = Load::new(&all, PEER);
            load.answered(false, &answer(bytes));
            load
        });
        assert!(!little.has_to_go() && !nothing.has_to_go() && much.has_to_go());
        let frame = Bytes::from_static(&[0, 3]);
        assert!(!little.is_light(&frame) && nothing.is_light(&frame) && !much.is_light(&frame));
        much.written(&answer(1_000_000));
        assert!(little.is_light(&frame) && !much.has_to_go());
    }
}
