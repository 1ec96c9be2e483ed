//! Directories that Apache Kafka 4.4.0 wrote, served by this broker: what a client is told of them, what recovery makes of
//! damage, and that they can be gone on with.
//!
//! `testdata/golden/*.tar.gz` are the directories, `*.json` what Kafka itself served from them.

mod archive;
mod cluster_metadata;
mod data_dir;
mod files;
mod node;
mod unclean;
