//! Kafka's vocabulary as types: ids, offsets, epochs, sequences, times, error codes, limits, and the primitives of
//! its encoding. Every other crate speaks in these; this crate imports none of ours.
//!
//! ```text
//! bytes ─► wire::Reader ─► fields ─► ids, offsets, epochs (newtypes) ─► the other crates
//!                                                                          │
//! bytes ◄─ wire::Writer ◄─ fields ◄───────────────────────────────────────┘
//! ```
//!
//! Invariants
//! - T1: ids, offsets, epochs and sequences are newtypes; mixing two is a compile error.
//! - T2: a [`Sequence`] is never negative once it counts records; after `i32::MAX` comes 0.
//! - T3: no clock and no randomness live here. Time arrives as [`Now`].
//! - T4: [`wire::Reader`] never allocates from an announced length before the bytes are there, and never panics.
//! - T5: what outlives the frame or the file that it was read from is copied out of it: a [`KeptBytes`].

#![no_std]

extern crate alloc;

mod error_code;
mod error_sentence;
mod hash;
mod ids;
mod kept;
pub mod limits;
mod shared_map;
mod time;
mod uuid;
pub mod wire;

pub use error_code::ErrorCode;
pub use hash::{java_string_hash, partition_for};
pub use ids::{
    BrokerId, CoordinatorEpoch, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence,
    TopicName, TopicPartition, TransactionResult, TransactionVersion,
};
pub use kept::KeptBytes;
pub use shared_map::{SharedMap, SharedSet};
pub use time::{Deadline, Millis, Nanos, Now};
pub use uuid::Uuid;
