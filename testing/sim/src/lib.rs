//! The simulator: the engine on a simulated disk, network and clock, all from one seed.
//!
//! - [`disk`]: a disk that loses what was not synced, tears and reorders writes, fills up and fails.
//! - [`rng`]: where every choice comes from.

pub mod disk;
pub mod rng;
