//! Keys that are ours.

use super::Kind::String;
use super::Rule::OneOf;
use super::Update::ReadOnly;
use super::{Key, key};

/// The keys, in order of name.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("fencepost.durability", String, Some("fsync"), OneOf(&["fsync", "page-cache"]), ReadOnly,
        "What an acknowledged record survives: fsync a crash of the machine, page-cache one of the process.").used(),
];
