//! Features: names, the levels that are supported, claimed and finalized in a new log.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::image::LevelRange;
use crate::level::MetadataVersion;

/// Finalized levels by feature.
pub type Features = BTreeMap<String, i16>;

/// The feature that selects records.
pub const METADATA_VERSION: &str = "metadata.version";
/// The feature of the quorum; its level stands in control records.
pub const KRAFT_VERSION: &str = "kraft.version";
/// The feature that selects the transaction protocol (KIP-890).
pub const TRANSACTION_VERSION: &str = "transaction.version";
/// The feature of consumer groups (KIP-848).
pub const GROUP_VERSION: &str = "group.version";
/// The feature of eligible leader replicas (KIP-966).
pub const ELIGIBLE_LEADER_REPLICAS_VERSION: &str = "eligible.leader.replicas.version";
/// The feature of share groups (KIP-932).
pub const SHARE_VERSION: &str = "share.version";
/// The feature of streams groups (KIP-1071).
pub const STREAMS_VERSION: &str = "streams.version";

const fn range(min: i16, max: i16) -> LevelRange {
    LevelRange { min, max }
}

/// What we serve, in order of name: the supported features of ApiVersions. An operator can finalize these levels.
pub static SUPPORTED: [(&str, LevelRange); 5] = [
    (ELIGIBLE_LEADER_REPLICAS_VERSION, range(0, 1)),
    (GROUP_VERSION, range(0, 1)),
    (KRAFT_VERSION, range(0, 1)),
    (METADATA_VERSION, range(MetadataVersion::MIN.0, MetadataVersion::MAX.0)),
    (TRANSACTION_VERSION, range(0, 2)),
];

/// What a registration claims beside [`SUPPORTED`]: without it, a log in which these are finalized would not be ours
/// to serve. Groups of these kinds are refused; nothing else depends on them (cluster §2.2).
pub static CLAIMED_UNSERVED: [(&str, LevelRange); 2] =
    [(SHARE_VERSION, range(0, 2)), (STREAMS_VERSION, range(0, 1))];

/// The levels that a new log is bootstrapped with, `metadata.version` first (cluster §23). `kraft.version` 1 is said
/// by control records.
pub static BOOTSTRAP: [(&str, i16); 3] =
    [(METADATA_VERSION, MetadataVersion::BOOTSTRAP.0), (GROUP_VERSION, 1), (TRANSACTION_VERSION, 2)];

/// The level of `kraft.version` in a new log: with it, voters can be added and removed.
pub const BOOTSTRAP_KRAFT_VERSION: i16 = 1;

/// The range of a feature that we serve.
pub fn supported(name: &str) -> Option<LevelRange> {
    SUPPORTED.iter().find(|(feature, _)| *feature == name).map(|(_, range)| *range)
}

/// What a registration claims.
pub fn claimed() -> BTreeMap<String, LevelRange> {
    SUPPORTED.iter().chain(&CLAIMED_UNSERVED).map(|(name, range)| (String::from(*name), *range)).collect()
}
