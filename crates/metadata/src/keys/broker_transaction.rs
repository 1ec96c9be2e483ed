//! Keys of the broker for transactions and idempotent producers.

use super::Kind::{Boolean, Int, Short};
use super::Rule::{Any, AtLeast};
use super::Update::{ClusterWide, ReadOnly};
use super::{Key, key};

/// The keys, in order of name.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("add.partitions.to.txn.retry.backoff.max.ms", Int, Some("100"), AtLeast(0), ReadOnly,
        "Longest the broker keeps retrying to add a partition to a transaction on the producer's behalf."),
    key("add.partitions.to.txn.retry.backoff.ms", Int, Some("20"), AtLeast(1), ReadOnly,
        "Pause between the broker's own attempts to add a partition to a transaction."),
    key("producer.id.expiration.check.interval.ms", Int, Some("600000"), AtLeast(1), ReadOnly,
        "How often producers are checked for expiry.").used().internal(),
    key("producer.id.expiration.ms", Int, Some("86400000"), AtLeast(1), ClusterWide,
        "Idle time after which a partition forgets a producer.").used(),
    key("producer.purgatory.purge.interval.requests", Int, Some("1000"), Any, ReadOnly,
        "Finished Produce requests collected before they are purged."),
    key("transaction.abort.timed.out.transaction.cleanup.interval.ms", Int, Some("10000"), AtLeast(1), ReadOnly,
        "How often Kafka looks for transactions that timed out; Fencepost acts when they do."),
    key("transaction.max.timeout.ms", Int, Some("900000"), AtLeast(1), ReadOnly,
        "Longest timeout a transactional producer may ask for.").used(),
    key("transaction.partition.verification.enable", Boolean, Some("true"), Any, ClusterWide,
        "Whether a transactional batch is checked with the coordinator before it is appended.").used(),
    key("transaction.remove.expired.transaction.cleanup.interval.ms", Int, Some("3600000"), AtLeast(1), ReadOnly,
        "How often Kafka looks for transactional ids that expired; Fencepost acts when they do."),
    key("transaction.state.log.load.buffer.size", Int, Some("5242880"), AtLeast(1), ReadOnly,
        "Read size while transaction state is loaded."),
    key("transaction.state.log.min.isr", Int, Some("1"), AtLeast(1), ReadOnly,
        "In-sync replicas the transaction topic needs.").used().differs(Some("2")),
    key("transaction.state.log.num.partitions", Int, Some("50"), AtLeast(1), ReadOnly,
        "Partitions of the transaction topic; never to be changed once it exists.").used(),
    key("transaction.state.log.replication.factor", Short, Some("1"), AtLeast(1), ReadOnly,
        "Replicas of the transaction topic.").used().differs(Some("3")),
    key("transaction.state.log.segment.bytes", Int, Some("104857600"), AtLeast(1), ReadOnly,
        "Size at which segments of the transaction topic are closed.").used(),
    key("transaction.two.phase.commit.enable", Boolean, Some("false"), Any, ReadOnly,
        "Whether producers may take part in external two-phase commits.").used(),
    key("transactional.id.expiration.ms", Int, Some("604800000"), AtLeast(1), ReadOnly,
        "Idle time after which a transactional id is forgotten.").used(),
];
