//! How often a cause may be logged that somebody outside decides about: a stranger must not fill a disk with log lines.

use std::sync::Mutex;

use fencepost_types::Nanos;

/// Lines of one cause within [`WINDOW_MS`].
const LINES_PER_WINDOW: u32 = 10;
/// Milliseconds.
const WINDOW_MS: i64 = 10_000;

/// The limit of one cause.
#[derive(Debug, Default)]
pub struct LogLimit {
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    ends: Nanos,
    lines: u32,
    suppressed: u64,
}

/// A line that may be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// How many lines of this cause were left out since the last one that was logged before this window.
    pub suppressed: u64,
}

impl LogLimit {
    /// Whether a line may be logged at `now`; `None` leaves it out, and counts it.
    pub fn allow(&self, now: Nanos) -> Option<Allowed> {
        let mut window = self.window.lock().expect("no holder of this lock panics");
        if now >= window.ends {
            window.ends = now.plus_ms(WINDOW_MS);
            window.lines = 0;
        }
        if window.lines == LINES_PER_WINDOW {
            window.suppressed += 1;
            return None;
        }
        window.lines += 1;
        Some(Allowed { suppressed: std::mem::take(&mut window.suppressed) })
    }
}

/// The causes within the engine.
#[derive(Debug, Default)]
pub(crate) struct LogLimits {
    /// A frame that cannot be read or is not served.
    pub(crate) bad_request: LogLimit,
    /// A marker that a partition does not take.
    pub(crate) marker_not_written: LogLimit,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 12, B13: however often a cause comes, a bounded number of lines is logged, and the first line of the next window
    /// says how many were left out.
    #[test]
    fn a_cause_is_logged_a_bounded_number_of_times() {
        let (limit, start) = (LogLimit::default(), Nanos(5));
        let logged = (0..1_000_000).filter(|_| limit.allow(start).is_some()).count();
        assert_eq!(logged, LINES_PER_WINDOW as usize);
        assert_eq!(limit.allow(start.plus_ms(WINDOW_MS - 1)), None);
        let next = start.plus_ms(WINDOW_MS);
        assert_eq!(limit.allow(next), Some(Allowed { suppressed: 999_991 }));
        assert_eq!(limit.allow(next), Some(Allowed { suppressed: 0 }));
    }
}
