//! Keys of client metrics subscriptions.

use super::Kind::{Int, List};
use super::Rule::Any;
use super::Update::Resource;
use super::{Key, key};

/// The keys, in order of name.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("interval.ms", Int, Some("300000"), Any, Resource,
        "How often clients push metrics."),
    key("match", List, Some(""), Any, Resource,
        "Patterns that choose which clients push."),
    key("metrics", List, Some(""), Any, Resource,
        "Prefixes of the metrics that are pushed."),
];
