//! Metadata logs of Kafka's, with its snapshots.
