//! Which broker keys a topic's or group's key falls back to, and which broker keys mean the same in another unit.
//!
//! Source: Kafka ServerTopicConfigSynonyms, DynamicBrokerConfig.brokerConfigSynonyms, GroupConfig.

use alloc::format;
use alloc::string::String;

use super::{Key, Kind, Scope};

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// A key that supplies another's value, after multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Synonym {
    /// The broker key.
    pub name: &'static str,
    /// What a number is multiplied with to get the unit of the key it stands for.
    pub factor: i64,
}

const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1 }
}

const fn times(name: &'static str, factor: i64) -> Synonym {
    Synonym { name, factor }
}

/// In order of name.
static TOPIC: &[(&str, &[Synonym])] = &[
    ("cleanup.policy", &[same("log.cleanup.policy")]),
    ("compression.gzip.level", &[same("compression.gzip.level")]),
    ("compression.lz4.level", &[same("compression.lz4.level")]),
    ("compression.type", &[same("compression.type")]),
    ("compression.zstd.level", &[same("compression.zstd.level")]),
    ("delete.retention.ms", &[same("log.cleaner.delete.retention.ms")]),
    ("file.delete.delay.ms", &[same("log.segment.delete.delay.ms")]),
    ("flush.messages", &[same("log.flush.interval.messages")]),
    ("flush.ms", &[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")]),
    ("index.interval.bytes", &[same("log.index.interval.bytes")]),
    ("local.retention.bytes", &[same("log.local.retention.bytes")]),
    ("local.retention.ms", &[same("log.local.retention.ms")]),
    ("max.compaction.lag.ms", &[same("log.cleaner.max.compaction.lag.ms")]),
    ("max.decompressed.message.bytes", &[same("max.decompressed.message.bytes")]),
    ("max.message.bytes", &[same("message.max.bytes")]),
    ("message.timestamp.after.max.ms", &[same("log.message.timestamp.after.max.ms")]),
    ("message.timestamp.before.max.ms", &[same("log.message.timestamp.before.max.ms")]),
    ("message.timestamp.type", &[same("log.message.timestamp.type")]),
    ("min.cleanable.dirty.ratio", &[same("log.cleaner.min.cleanable.ratio")]),
    ("min.compaction.lag.ms", &[same("log.cleaner.min.compaction.lag.ms")]),
    ("min.insync.replicas", &[same("min.insync.replicas")]),
    ("preallocate", &[same("log.preallocate")]),
    ("remote.copy.lag.bytes", &[same("log.remote.copy.lag.bytes")]),
    ("remote.copy.lag.ms", &[same("log.remote.copy.lag.ms")]),
    ("retention.bytes", &[same("log.retention.bytes")]),
    ("retention.ms", RETENTION),
    ("segment.bytes", &[same("log.segment.bytes")]),
    ("segment.index.bytes", &[same("log.index.size.max.bytes")]),
    ("segment.jitter.ms", JITTER),
    ("segment.ms", ROLL),
    ("unclean.leader.election.enable", &[same("unclean.leader.election.enable")]),
];

const RETENTION: &[Synonym] = &[
    same("log.retention.ms"),
    times("log.retention.minutes", MINUTE_MS),
    times("log.retention.hours", HOUR_MS),
];
const ROLL: &[Synonym] = &[same("log.roll.ms"), times("log.roll.hours", HOUR_MS)];
const JITTER: &[Synonym] = &[same("log.roll.jitter.ms"), times("log.roll.jitter.hours", HOUR_MS)];

/// The broker keys that a topic's key falls back to, the first that has a value winning. Empty: it has its own default.
pub fn topic_synonyms(name: &str) -> &'static [Synonym] {
    TOPIC.binary_search_by(|(topic, _)| (*topic).cmp(name)).map_or(&[], |at| TOPIC[at].1)
}

/// The broker keys that say the same as this one in another unit, itself first.
pub(crate) fn broker_synonyms(key: &'static Key) -> BrokerSynonyms {
    let chain = match key.name {
        "log.retention.ms" => RETENTION,
        "log.roll.ms" => ROLL,
        "log.roll.jitter.ms" => JITTER,
        "log.flush.interval.ms" => topic_synonyms("flush.ms"),
        _ => return BrokerSynonyms::Itself(Synonym { name: key.name, factor: 1 }),
    };
    BrokerSynonyms::Chain(chain)
}

/// A chain of synonyms, possibly of one.
pub(crate) enum BrokerSynonyms {
    /// The key alone.
    Itself(Synonym),
    /// The key and others.
    Chain(&'static [Synonym]),
}

impl BrokerSynonyms {
    /// The chain.
    pub(crate) fn as_slice(&self) -> &[Synonym] {
        match self {
            Self::Itself(one) => core::slice::from_ref(one),
            Self::Chain(chain) => chain,
        }
    }
}

/// The broker key that a group's key falls back to. The assignor falls back to the first of the broker's list.
pub fn group_synonym(key: &Key) -> Option<&'static Key> {
    let name: String = match key.name {
        "streams.assignor.name" => "group.streams.assignors".into(),
        name => format!("group.{name}"),
    };
    Scope::Broker.find(&name)
}

/// Multiplies a number by a synonym's factor; other values stay as they are. Saturates.
pub(crate) fn scaled(kind: Kind, text: &str, factor: i64) -> String {
    let counts = matches!(kind, Kind::Int | Kind::Long) && factor != 1;
    match text.trim().parse::<i64>() {
        Ok(number) if counts && number >= 0 => format!("{}", number.saturating_mul(factor)),
        Ok(_) | Err(_) => text.into(),
    }
}
