//! Compaction: Kafka's own pass again, a test per rule, random lives, and a crash at every call to the disk.

#[path = "../common/mod.rs"]
mod common;

mod crash;
mod golden;
mod lives;
mod rules;
mod views;
mod writer;
