//! How hostile a world is.

use fencepost_broker::Durability;

use crate::rng::Rng;

/// What can happen to the machine or the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accident {
    /// The machine goes down between two steps of the engine: what was not synced is lost in part.
    MachineCrash,
    /// The machine goes down between two calls to the disk.
    MachineCrashMidStep,
    /// The process dies between two steps of the engine; the machine stays, and so does what was written.
    ProcessKill,
    /// The process dies between two calls to the disk.
    ProcessKillMidStep,
    /// The process is asked to stop, and does so cleanly.
    CleanStop,
}

impl Accident {
    /// What an acknowledged record survives under `durability`.
    pub fn covered_by(durability: Durability) -> &'static [Self] {
        match durability {
            Durability::Fsync => &[
                Self::MachineCrash,
                Self::MachineCrash,
                Self::MachineCrashMidStep,
                Self::MachineCrashMidStep,
                Self::ProcessKill,
                Self::CleanStop,
            ],
            Durability::PageCache => {
                &[Self::ProcessKill, Self::ProcessKill, Self::ProcessKillMidStep, Self::CleanStop]
            }
        }
    }

    /// Whether what was not synced may be lost.
    pub fn takes_the_machine(self) -> bool {
        match self {
            Self::MachineCrash | Self::MachineCrashMidStep => true,
            Self::ProcessKill | Self::ProcessKillMidStep | Self::CleanStop => false,
        }
    }
}

/// What goes wrong. Chances are "once in so many times"; 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// A request is lost on its way.
    pub lose_request: u64,
    /// An answer is lost on its way back.
    pub lose_answer: u64,
    /// A request arrives twice.
    pub repeat_request: u64,
    /// How much later the second one may arrive, where the client's protocol can bear it.
    pub late_ms_max: u64,
    /// Steps of the engine between two accidents, at most; 0 is no accident. Only steps count that leave something to be
    /// synced: then there is something to lose.
    pub accident_every_steps: u64,
    /// An accident comes right after an answer went out while something was still to be synced.
    pub accident_after_answer: u64,
    /// How long a sync takes, at most.
    pub sync_us_max: u64,
    /// A sync of the disk fails, which stops the broker. Only with [`Durability::Fsync`].
    pub fail_sync_permille: u32,
}

impl Faults {
    /// A friendly world.
    pub const NONE: Self = Self {
        lose_request: 0,
        lose_answer: 0,
        repeat_request: 0,
        late_ms_max: 0,
        accident_every_steps: 0,
        accident_after_answer: 0,
        sync_us_max: 1_000,
        fail_sync_permille: 0,
    };

    /// Some mixture: every kind of fault is missing from some worlds and frequent in others.
    pub fn any(rng: &mut Rng, durability: Durability) -> Self {
        let fail_sync_permille = match durability {
            Durability::Fsync => rng.pick(&[0, 0, 0, 0, 2]),
            Durability::PageCache => 0,
        };
        Self {
            lose_request: rng.pick(&[0, 0, 200, 40, 15]),
            lose_answer: rng.pick(&[0, 0, 200, 40, 15]),
            repeat_request: rng.pick(&[0, 0, 100, 20]),
            late_ms_max: rng.pick(&[2, 20, 300, 3_000]),
            accident_every_steps: rng.pick(&[0, 1_000, 300, 100, 50, 25]),
            accident_after_answer: rng.pick(&[0, 0, 200, 50]),
            sync_us_max: rng.pick(&[1_000, 1_000, 8_000, 60_000]),
            fail_sync_permille,
        }
    }
}
