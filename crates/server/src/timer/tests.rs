use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::*;

const HOUR_NS: u64 = 3_600_000_000_000;

/// A timer and its thread, which sleeps until `next` (hours) and says how often it has looked.
struct Asleep {
    timer: Arc<Timer>,
    next_ns: Arc<AtomicU64>,
    looks: Arc<AtomicU64>,
    thread: JoinHandle<Option<Nanos>>,
}

impl Asleep {
    fn until(next_ns: u64) -> Self {
        let (timer, next_ns) = (Arc::new(Timer::default()), Arc::new(AtomicU64::new(next_ns)));
        let looks = Arc::new(AtomicU64::new(0));
        let (slept, next, looked) = (Arc::clone(&timer), Arc::clone(&next_ns), Arc::clone(&looks));
        let clock = Clock::start();
        let look = move || {
            looked.fetch_add(1, Ordering::SeqCst);
            Some(Nanos(next.load(Ordering::SeqCst))).filter(|at| *at < NEVER)
        };
        let thread = std::thread::spawn(move || slept.sleep(look, clock));
        let asleep = Self { timer, next_ns, looks, thread };
        asleep.wait_for(1);
        asleep
    }

    /// Something is due at `at_ns` now, before everything else.
    fn due(&self, at_ns: u64) {
        self.next_ns.store(at_ns, Ordering::SeqCst);
        self.timer.look_again(Nanos(at_ns));
    }

    /// Returns once it has looked so often, and sleeps again if something is left to sleep for.
    fn wait_for(&self, looks: u64) {
        let is_asleep = || {
            let signal = self.timer.signal.lock().unwrap();
            !signal.look_again && signal.looks_at.0 == self.next_ns.load(Ordering::SeqCst)
        };
        while self.looks.load(Ordering::SeqCst) < looks || !(is_asleep() || self.thread.is_finished()) {
            std::thread::yield_now();
        }
        assert_eq!(self.looks.load(Ordering::SeqCst), looks);
    }
}

/// A deadline that is nearer wakes the thread; one that is not, leaves it asleep: it looks by itself before that. So the
/// timeouts of one transaction after the other cost nobody a wakening.
#[test]
fn only_what_is_nearer_wakes_it() {
    let asleep = Asleep::until(2 * HOUR_NS);
    for later in 2..1_000 {
        asleep.due(later * HOUR_NS);
    }
    assert_eq!(asleep.timer.signal.lock().unwrap().looks_at, Nanos(2 * HOUR_NS));
    assert_eq!(asleep.looks.load(Ordering::SeqCst), 1);
    asleep.due(HOUR_NS);
    asleep.wait_for(2);
    asleep.due(0);
    assert_eq!(asleep.thread.join().unwrap(), Some(Nanos(0)));
}

/// With nothing to wait for it sleeps until there is, or until it is stopped.
#[test]
fn whatever_comes_wakes_who_waits_for_nothing() {
    let asleep = Asleep::until(NEVER.0);
    asleep.due(HOUR_NS);
    asleep.wait_for(2);
    asleep.timer.stop();
    assert_eq!(asleep.thread.join().unwrap(), None);
}

/// What comes nearer while it is awake is seen before it sleeps.
#[test]
fn what_comes_while_it_looks_is_not_missed() {
    let (timer, looks) = (Timer::default(), AtomicU64::new(0));
    let look = || {
        // The first look is too early: what it sees is stale by the time it would sleep.
        if looks.fetch_add(1, Ordering::SeqCst) == 0 {
            timer.look_again(Nanos(0));
            return Some(Nanos(HOUR_NS));
        }
        Some(Nanos(0))
    };
    assert_eq!(timer.sleep(look, Clock::start()), Some(Nanos(0)));
}
