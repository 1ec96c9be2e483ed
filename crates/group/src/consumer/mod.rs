//! Consumer groups (KIP-848): the coordinator assigns, members reconcile one heartbeat at a time.

pub mod codec;
pub mod fencing;
pub mod group;
pub mod requests;
pub mod tombstones;
