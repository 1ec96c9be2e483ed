//! Consumer groups (KIP-848): the coordinator assigns, members reconcile one heartbeat at a time.

pub mod assignor;
pub mod classic_member;
pub mod codec;
pub mod convert;
pub mod describe;
pub mod draft;
pub mod expire;
pub mod fencing;
pub mod group;
pub mod heartbeat;
pub mod membership;
pub mod pattern;
pub mod protocol;
pub mod reconcile;
pub mod target;
pub mod tombstones;
