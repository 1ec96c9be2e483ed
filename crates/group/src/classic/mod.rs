//! The classic protocol: members join, one of them assigns, all sync.

pub mod draft;
pub mod group;
pub mod heartbeat;
pub mod join;
pub mod leave;
pub mod metadata;
pub mod rebalance;
pub mod subscription;
pub mod sync;
