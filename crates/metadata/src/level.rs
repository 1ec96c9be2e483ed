//! Levels of `metadata.version`: which records and fields each allows.
//!
//! Source: cluster §2.1, Kafka MetadataVersion.

/// A level of the feature `metadata.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataVersion(pub i16);

impl MetadataVersion {
    /// 3.3-IV3: the lowest level that 4.x software runs at.
    pub const MIN: Self = Self(7);
    /// 3.4-IV0: registrations say whether a broker migrates.
    const IV_3_4_0: Self = Self(8);
    /// 3.7-IV2: partitions and registrations name directories.
    const IV_3_7_2: Self = Self(17);
    /// 4.0-IV1: partitions name eligible leader replicas.
    pub const ELIGIBLE_LEADER_REPLICAS: Self = Self(23);
    /// 4.1-IV1: what a new node of ours is bootstrapped with, so that any controller from 4.1 on can read its log.
    pub const BOOTSTRAP: Self = Self(27);
    /// 4.3-IV0: registrations name cordoned directories.
    const IV_4_3_0: Self = Self(30);
    /// 4.4-IV2: the highest level whose records we read.
    pub const MAX: Self = Self(33);

    /// The levels at which the records changed: a downgrade may not go below one of them.
    const CHANGED: [Self; 7] = [
        Self::MIN,
        Self::IV_3_4_0,
        Self::IV_3_7_2,
        Self::ELIGIBLE_LEADER_REPLICAS,
        Self::IV_4_3_0,
        Self(32),
        Self(33),
    ];

    /// What the levels from [`Self::MIN`] on are called.
    const NAMES: [&str; 27] = [
        "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0",
        "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2",
        "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
    ];

    /// Version of RegisterBrokerRecord.
    pub fn register_broker_version(self) -> i16 {
        match self {
            Self(30..) => 4,
            Self(17..) => 3,
            Self(8..) => 2,
            Self(_) => 1,
        }
    }

    /// Version of PartitionRecord and PartitionChangeRecord.
    pub fn partition_version(self) -> i16 {
        match self {
            Self(23..) => 2,
            Self(17..) => 1,
            Self(_) => 0,
        }
    }

    /// Kafka's name of the level; empty for one that it does not know.
    pub fn name(self) -> &'static str {
        let at = usize::try_from(i32::from(self.0) - i32::from(Self::MIN.0)).ok();
        at.and_then(|at| Self::NAMES.get(at)).copied().unwrap_or_default()
    }

    /// Whether a level may be lowered to `lower` without losing what records say.
    pub fn can_lower_to(self, lower: Self) -> bool {
        lower <= self && !Self::CHANGED.iter().any(|changed| lower < *changed && *changed <= self)
    }
}

impl core::fmt::Display for MetadataVersion {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels select the record versions of cluster §2.1.
    #[test]
    fn levels_select_record_versions() {
        let versions = |level| {
            (MetadataVersion(level).register_broker_version(), MetadataVersion(level).partition_version())
        };
        assert_eq!(versions(7), (1, 0));
        assert_eq!(versions(8), (2, 0));
        assert_eq!(versions(16), (2, 0));
        assert_eq!(versions(17), (3, 1));
        assert_eq!(versions(22), (3, 1));
        assert_eq!(versions(23), (3, 2));
        assert_eq!(versions(29), (3, 2));
        assert_eq!(versions(30), (4, 2));
        assert_eq!(versions(33), (4, 2));
    }

    /// Each level has the name that Kafka gives it.
    #[test]
    fn levels_have_names() {
        let name = |level| MetadataVersion(level).name();
        assert_eq!((name(7), name(27), name(33)), ("3.3-IV3", "4.1-IV1", "4.4-IV2"));
        assert_eq!(
            MetadataVersion::NAMES.len(),
            1 + (MetadataVersion::MAX.0 - MetadataVersion::MIN.0) as usize
        );
        assert_eq!((name(6), name(34), name(-1)), ("", "", ""));
    }

    /// A level may go down only as far as no record changed (cluster §2.1).
    #[test]
    fn a_downgrade_stops_where_records_changed() {
        assert!(MetadataVersion(29).can_lower_to(MetadataVersion(23)));
        assert!(MetadataVersion(27).can_lower_to(MetadataVersion(27)));
        assert!(!MetadataVersion(27).can_lower_to(MetadataVersion(22)));
        assert!(!MetadataVersion(33).can_lower_to(MetadataVersion(32)));
        assert!(!MetadataVersion(33).can_lower_to(MetadataVersion(27)));
        assert!(!MetadataVersion(27).can_lower_to(MetadataVersion(28)));
    }
}
