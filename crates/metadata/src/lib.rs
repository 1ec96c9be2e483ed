//! The cluster's metadata: the records of `__cluster_metadata-0`, the image they fold into, what changed from one image
//! to the next, the embedded controller of a node that stands alone, and the table of configuration keys.
//!
//! ```text
//! request ─► Controller::decide ─► records ─► __cluster_metadata-0
//!                                                  │ replay (the same path in a cluster, where the log is fetched)
//!                                                  ▼
//!            handlers ◄── Image (immutable, shared) ◄── ImageFold ──► Delta ──► replicas, coordinators, configs
//!                            │
//!            key table ──────┴─► BrokerConfig, TopicConfig, DescribeConfigs, docs/configuration.md
//! ```
//!
//! Invariants
//! - M1: the image is a fold of the log: live equals replayed, and equals a snapshot of it read back.
//! - M2: every change of a partition raises its partition epoch by one; naming a leader raises its leader epoch by one,
//!   even when it is the same leader. The records carry neither (cluster §7.2).
//! - M3: a change of a registration applies only to the epoch it names.
//! - M4: what lies between the records Begin and End of a metadata transaction becomes visible at once, or never.
//! - M5: a record that cannot be read, or does not fit, is never skipped: the fold stops there (cluster §6.3).
//! - M6: the controller writes only what Apache Kafka's controller could have written: topic ids are unique, epochs
//!   begin at 0, directories are filled in, the broker epoch is the offset at which its registration's write begins.
//! - M7: producer ids are handed out only in blocks that a record has taken.
//! - M8: the effective value of a key is, in this order: the resource's own, the broker's dynamic, the cluster's dynamic,
//!   the file's, the default.

#![no_std]

extern crate alloc;

pub mod config;
pub mod controller;
pub mod features;
pub mod image;
pub mod keys;
pub mod quorum;

mod delta;
mod level;
mod log;
mod record;
mod topic_name;

pub use config::{
    BrokerConfig, ConfigEntry, ConfigSource, ConfigView, Durability, StaticConfig, TopicConfig,
};
pub use controller::{Controller, ControllerRefusal, Reply, Request};
pub use delta::{Delta, LocalChange, LocalChanges, PartitionDelta};
pub use image::{Image, ImageFold};
pub use level::MetadataVersion;
pub use log::{MetadataLogError, QuorumRecord, SnapshotWriter, control_batch, read_snapshot, snapshot_time};
pub use record::{MetadataRecord, RecordError, VersionedRecord};
pub use topic_name::{TopicNameFault, check as check_topic_name, is_valid_topic_name};
