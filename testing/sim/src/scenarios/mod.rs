//! What is played, and what is asked of it.

pub mod bank;

use crate::trace::{Fingerprint, Trace};

/// Everything that can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Transfers between two accounts: see [`bank`].
    Bank,
}

/// What a run has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// By which two runs of one seed are compared.
    pub fingerprint: Fingerprint,
    /// How often the process came to an end.
    pub accidents: u64,
    /// Transactions whose commit was acknowledged.
    pub committed: u64,
    /// Transactions whose outcome their client never learned.
    pub unknown: u64,
    /// All other transactions.
    pub aborted: u64,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::Bank];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bank => "bank",
        }
    }

    /// From its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// Plays it from a seed. Panics when something is found.
    pub fn run(self, seed: u64, trace: Trace) -> Summary {
        match self {
            Self::Bank => bank::run(seed, trace),
        }
    }
}
