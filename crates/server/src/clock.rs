//! The real clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_types::{Millis, Nanos, Now};

/// Wall time of the system, and monotonic time since this clock was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose monotonic time starts now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The present.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        Now { wall: Millis(wall), mono: Nanos(self.origin.elapsed().as_nanos() as u64) }
    }

    /// How long it is until monotonic time `at`; nothing when that has been.
    pub(crate) fn until(&self, at: Nanos) -> Duration {
        Duration::from_nanos(at.0).saturating_sub(self.origin.elapsed())
    }
}
