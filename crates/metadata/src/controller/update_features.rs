//! UpdateFeatures.
//!
//! Source: KIP-584, KIP-778, wire-apis §7, Kafka FeatureControlManager.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_records::persisted::feature_level_record::FeatureLevelRecord;
use fencepost_types::ErrorCode;

use super::{Controller, Decided, Reply};
use crate::features::{self, ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION};
use crate::image::{ConfigResource, LevelRange, ResourceType};
use crate::level::MetadataVersion;
use crate::record::MetadataRecord;

/// A level to finalize.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FeatureUpdate {
    /// The feature.
    pub feature: String,
    /// The level.
    pub level: i16,
    /// 1 up, 2 down where nothing is lost, 3 down also where something is.
    pub upgrade_type: i8,
}

/// The key that has one value for all brokers once there are eligible leader replicas.
pub(super) const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";
const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

/// Why no level is finalized.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpdateFeaturesRefusal {
    /// We have no such feature.
    UnknownFeature(String),
    /// There is no such kind of update.
    UnknownUpgradeType(i8),
    /// The level lies outside what we support.
    UnsupportedLevel {
        /// The feature.
        feature: String,
        /// The level.
        level: i16,
        /// What we support.
        supported: LevelRange,
    },
    /// The level goes down, and the kind of update says up.
    Downgrade {
        /// The feature.
        feature: String,
        /// The level in force.
        from: i16,
        /// The level asked for.
        to: i16,
    },
    /// The level goes up, and the kind of update says down.
    Upgrade {
        /// The feature.
        feature: String,
        /// The level in force.
        from: i16,
        /// The level asked for.
        to: i16,
    },
    /// Going down would lose what records say.
    LossyDowngrade {
        /// The level in force.
        from: i16,
        /// The level asked for.
        to: i16,
    },
    /// The feature needs a higher metadata.version.
    NeedsMetadataVersion {
        /// The feature.
        feature: String,
        /// The level it needs.
        needs: i16,
    },
    /// The level of the quorum changes with its control records, not here.
    KraftVersion,
}

impl Refusal for UpdateFeaturesRefusal {
    fn code(&self) -> ErrorCode {
        ErrorCode::InvalidUpdateVersion
    }
}

impl core::fmt::Display for UpdateFeaturesRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("No feature was updated: ")?;
        match self {
            Self::UnknownFeature(name) => write!(f, "there is no feature {name:?}."),
            Self::UnknownUpgradeType(kind) => write!(f, "there is no kind of update {kind}."),
            Self::UnsupportedLevel { feature, level, supported: LevelRange { min, max } } => {
                write!(f, "{feature} can be {min} to {max}, not {level}.")
            }
            Self::Downgrade { feature, from, to } => {
                write!(
                    f,
                    "{feature} would go from {from} down to {to}, which has to be asked for as a downgrade."
                )
            }
            Self::Upgrade { feature, from, to } => {
                write!(
                    f,
                    "{feature} would go from {from} up to {to}, which is not the downgrade that was asked for."
                )
            }
            Self::LossyDowngrade { from, to } => {
                write!(f, "metadata.version cannot go from {from} down to {to}: records would lose fields.")
            }
            Self::NeedsMetadataVersion { feature, needs } => {
                write!(f, "{feature} needs metadata.version {needs}.")
            }
            Self::KraftVersion => f.write_str("kraft.version is not changed this way."),
        }
    }
}

impl Controller {
    pub(super) fn update_features(
        &self,
        token: Token,
        updates: &[FeatureUpdate],
        validate_only: bool,
    ) -> Decided {
        let mut records = Vec::new();
        let mut refusal = None;
        for update in updates {
            match self.update_feature(update) {
                Ok(new) => records.extend(new),
                Err(why) => {
                    refusal = Some(why);
                    break;
                }
            }
        }
        if validate_only || refusal.is_some() {
            records.clear();
        }
        self.write(records, token, Reply::UpdateFeatures(refusal.map_or(Ok(()), Err)))
    }

    fn update_feature(&self, update: &FeatureUpdate) -> Result<Vec<MetadataRecord>, UpdateFeaturesRefusal> {
        let feature = update.feature.clone();
        let current = self.image().feature_level(&feature);
        let supported = self.range_of(&feature, current)?;
        if !(UPGRADE..=UNSAFE_DOWNGRADE).contains(&update.upgrade_type) {
            return Err(UpdateFeaturesRefusal::UnknownUpgradeType(update.upgrade_type));
        }
        let level = update.level;
        if !(supported.min..=supported.max).contains(&level) {
            return Err(UpdateFeaturesRefusal::UnsupportedLevel { feature, level, supported });
        }
        if level == current {
            return Ok(Vec::new());
        }
        if feature == KRAFT_VERSION {
            return Err(UpdateFeaturesRefusal::KraftVersion);
        }
        if level < current && update.upgrade_type < SAFE_DOWNGRADE {
            return Err(UpdateFeaturesRefusal::Downgrade { feature, from: current, to: level });
        }
        if level > current && update.upgrade_type != UPGRADE {
            return Err(UpdateFeaturesRefusal::Upgrade { feature, from: current, to: level });
        }
        let is_metadata = feature == METADATA_VERSION;
        if is_metadata && level < current && !MetadataVersion(current).can_lower_to(MetadataVersion(level)) {
            return Err(UpdateFeaturesRefusal::LossyDowngrade { from: current, to: level });
        }
        let mut records = Vec::new();
        if feature == ELIGIBLE_LEADER_REPLICAS_VERSION && level > current {
            if self.level() < MetadataVersion::ELIGIBLE_LEADER_REPLICAS {
                let needs = MetadataVersion::ELIGIBLE_LEADER_REPLICAS.0;
                return Err(UpdateFeaturesRefusal::NeedsMetadataVersion { feature, needs });
            }
            records.extend(self.one_min_insync_replicas());
        }
        records.push(FeatureLevelRecord { name: feature, feature_level: level }.into());
        Ok(records)
    }

    /// What a feature can be set to: what we serve; a level that we found finalized may also stay or go down.
    fn range_of(&self, feature: &str, current: i16) -> Result<LevelRange, UpdateFeaturesRefusal> {
        let unserved = features::CLAIMED_UNSERVED.iter().any(|(name, _)| *name == feature);
        match features::supported(feature) {
            Some(range) => Ok(range),
            None if unserved => Ok(LevelRange { min: 0, max: current }),
            None => Err(UpdateFeaturesRefusal::UnknownFeature(feature.to_string())),
        }
    }

    /// With eligible leader replicas, min.insync.replicas has one value for all brokers, written in the log: the one in
    /// force moves there, and values of single brokers go.
    pub(super) fn one_min_insync_replicas(&self) -> Vec<MetadataRecord> {
        let configs = self.image().configs();
        let record = |resource_name: &str, value: Option<String>| {
            MetadataRecord::from(ConfigRecord {
                resource_type: ResourceType::BROKER.0,
                resource_name: resource_name.to_string(),
                name: MIN_INSYNC_REPLICAS.to_string(),
                value,
            })
        };
        let mut records = Vec::new();
        if configs.value(&ConfigResource::all_brokers(), MIN_INSYNC_REPLICAS).is_none() {
            let given = self.statics.get(MIN_INSYNC_REPLICAS).unwrap_or("1").trim().to_string();
            records.push(record("", Some(given)));
        }
        for (resource, values) in configs.iter() {
            let is_broker = resource.kind == ResourceType::BROKER && !resource.name.is_empty();
            if is_broker && values.contains_key(MIN_INSYNC_REPLICAS) {
                records.push(record(&resource.name, None));
            }
        }
        records
    }
}
