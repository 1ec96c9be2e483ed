//! Time as a value. Nothing in the inner rings reads a clock.

use core::fmt;

/// Milliseconds since the Unix epoch (a point), or a span of milliseconds; −1 is none where Kafka says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

impl Millis {
    /// No time.
    pub const NONE: Self = Self(-1);

    /// The point `span_ms` milliseconds later, saturating.
    pub fn plus(self, span_ms: i64) -> Self {
        Self(self.0.saturating_add(span_ms))
    }

    /// Milliseconds from `earlier` to this point, saturating.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Nanoseconds on a monotonic clock of this process; its zero means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The point `span_ms` milliseconds later, saturating. A negative span counts as 0.
    pub fn plus_ms(self, span_ms: i64) -> Self {
        Self(self.0.saturating_add((span_ms.max(0) as u64).saturating_mul(1_000_000)))
    }
}

/// The present, as the edge (or the simulator) says it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now {
    /// Wall time: goes into records, and is compared where Kafka persists the time it compares with.
    pub wall: Millis,
    /// Monotonic time: everything that is waited for in memory.
    pub mono: Nanos,
}

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deadline {
    /// Due once the wall clock shows this time (what expires after days: its start is persisted).
    Wall(Millis),
    /// Due once the monotonic clock shows this time.
    Mono(Nanos),
    /// Two things, one on each clock: due once either is.
    Either {
        /// Due once the wall clock shows this time.
        wall: Millis,
        /// Due once the monotonic clock shows this time.
        mono: Nanos,
    },
}

impl Deadline {
    /// Whether it is due. The tick itself counts.
    pub fn is_due(self, now: Now) -> bool {
        match self {
            Self::Wall(at) => now.wall >= at,
            Self::Mono(at) => now.mono >= at,
            Self::Either { wall, mono } => now.wall >= wall || now.mono >= mono,
        }
    }

    /// The same deadline on the monotonic clock, as seen from `now`.
    pub fn on_mono(self, now: Now) -> Nanos {
        match self {
            Self::Wall(at) => now.mono.plus_ms(at.since(now.wall)),
            Self::Mono(at) => at,
            Self::Either { wall, mono } => Self::Wall(wall).on_mono(now).min(mono),
        }
    }
}
