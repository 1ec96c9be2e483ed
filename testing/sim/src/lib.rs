//! The simulator: rings 1 and 2 as they are, on a simulated disk, network and clock, single-threaded, all from one seed.
//!
//! ```text
//!  scenario: actors (async, one at a time) and checkers
//!     │ frames            ▲ answers            seed ──► rng ──► everything
//!     ▼                   │
//!  network: latency, loss, repetition         world: events in order of time
//!     │                   ▲                    │ tick, sync, accident, restart
//!     ▼                   │                    ▼
//!  Broker (production code) ◄─── Edge ─── clock, deadlines, the thread that syncs
//!     │
//!     ▼
//!  disk: loses what was not synced
//! ```
//!
//! Invariants
//! - S1: the same seed gives the same trace, down to the bytes of every answer and of the disk at the end.
//! - S2: nothing above [`disk`], clock and transport is mocked.
//! - S3: what the engine does not ask its edge for (a sync, a look at the next deadline) does not happen.
//! - S4: a world is as hostile as the promise allows, and no more: see [`network`] for what may come late, and
//!   [`faults::Accident::covered_by`] for what an acknowledged record survives.

pub mod actors;
pub mod client;
pub mod disk;
mod edge;
pub mod faults;
pub mod network;
mod power;
pub mod rng;
pub mod runner;
pub mod scenarios;
pub mod trace;
pub mod world;
