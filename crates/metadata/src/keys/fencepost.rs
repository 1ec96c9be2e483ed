//! Keys that are ours.

use super::Kind::{List, Long, Short, String};
use super::Rule::{Any, AtLeast, Between, OneOf};
use super::Update::{ClusterWide, ReadOnly};
use super::{Durability, Key, key};

/// The keys, in order of name.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("fencepost.api.versions.max", List, Some(""), Any, ReadOnly,
        "NAME:VERSION for each API that clients are shown, and served, up to a lower version than the broker knows.").used(),
    key("fencepost.durability", String, Some("fsync"), OneOf(Durability::NAMES), ReadOnly,
        "What an acknowledged record survives: fsync a crash of the machine, page-cache one of the process.").used(),
    key("fencepost.metrics.listener", String, None, Any, ReadOnly,
        "HOST:PORT where metrics are served over HTTP as Prometheus text, under /metrics, and the lag of groups as JSON, under /lag; without it nowhere.").used(),
    key("fencepost.producer.entries.max", Long, Some("4000000"), AtLeast(1), ReadOnly,
        "Producers that all partitions of this broker remember together; beyond it those go that were silent longest.").used(),
    key("fencepost.producer.entries.partition.max", Long, Some("1000000"), AtLeast(1), ReadOnly,
        "Producers that one partition remembers; beyond it those go that were silent longest.").used(),
    key("fencepost.test.initial.producer.epoch", Short, Some("0"), Between(0, 32_766), ReadOnly,
        "Epoch that new transactional ids begin with, for tests of exhausted epochs.").used().internal(),
    key("fencepost.transactional.ids.max", Long, Some("2000000"), AtLeast(1), ClusterWide,
        "Transactional ids that the coordinators of this broker remember together; beyond it new ones are refused.").used(),
];
