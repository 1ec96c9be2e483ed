//! A thread that sleeps until the next deadline of a lane. One of its own: a task of the runtime would wait for a worker,
//! which may be inside a write to the disk, and the runtime's clock goes in steps of a millisecond.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fencepost_broker::{Broker, Lane};
use fencepost_types::Nanos;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::clock::Clock;

/// The first bucket of lateness, in seconds, …
const LATENESS_BUCKET_MIN_S: f64 = 0.000_05;
/// … and how many there are, each twice the one before: up to 1.6 s.
const LATENESS_BUCKETS: u16 = 16;

/// Later than every deadline.
const NEVER: Nanos = Nanos(u64::MAX);

/// Wakes the thread of one lane.
pub(crate) struct Timer {
    signal: Mutex<Signal>,
    changed: Condvar,
    lateness: Histogram,
}

struct Signal {
    /// It sleeps, and looks again by itself at this time. [`NEVER`] while it is awake, or sleeps without end.
    looks_at: Nanos,
    look_again: bool,
    stopping: bool,
}

impl Default for Timer {
    fn default() -> Self {
        let signal = Signal { looks_at: NEVER, look_again: false, stopping: false };
        let buckets = exponential_buckets(LATENESS_BUCKET_MIN_S, 2.0, LATENESS_BUCKETS);
        Self { signal: Mutex::new(signal), changed: Condvar::new(), lateness: Histogram::new(buckets) }
    }
}

impl Timer {
    /// The earliest deadline is at `at` now. Whoever would look by then is left asleep: of a producer with one transaction
    /// after the other each timeout is the first of all, and later than the one before.
    pub(crate) fn look_again(&self, at: Nanos) {
        let mut signal = self.signal.lock().expect("no holder of this lock panics");
        if signal.looks_at <= at || signal.look_again {
            return;
        }
        signal.look_again = true;
        drop(signal);
        self.changed.notify_one();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.signal.lock().expect("no holder of this lock panics").stopping = true;
        self.changed.notify_one();
    }

    /// Seconds from a deadline until everything that was due then had been decided.
    pub(crate) fn lateness(&self) -> &Histogram {
        &self.lateness
    }

    /// Sleeps until the lane's next deadline. Answers with it, or with `None` to end.
    fn sleep(&self, next: impl Fn() -> Option<Nanos>, clock: Clock) -> Option<Nanos> {
        let mut signal = self.signal.lock().expect("no holder of this lock panics");
        loop {
            if signal.stopping {
                return None;
            }
            (signal.looks_at, signal.look_again) = (NEVER, false);
            drop(signal);
            // Without the lock: whoever changes the queue holds the queue's.
            let at = next();
            let left = at.map(|at| clock.until(at));
            if left.is_some_and(|left| left.is_zero()) {
                return at;
            }
            signal = self.signal.lock().expect("no holder of this lock panics");
            if signal.look_again || signal.stopping {
                continue;
            }
            signal.looks_at = at.unwrap_or(NEVER);
            signal = match left {
                None => self.changed.wait(signal).expect("no holder of this lock panics"),
                Some(left) => {
                    self.changed.wait_timeout(signal, left).expect("no holder of this lock panics").0
                }
            };
        }
    }
}

/// Runs what is due in `lane`, whenever it is, until the timer is stopped.
pub(crate) fn run_timer(broker: &Arc<Broker>, timer: &Timer, lane: Lane, clock: Clock) {
    while let Some(at) = timer.sleep(|| broker.next_deadline_of(lane), clock) {
        broker.tick_lane(lane, clock.now());
        let late_ns = clock.now().mono.0.saturating_sub(at.0);
        timer.lateness.observe(Duration::from_nanos(late_ns).as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
