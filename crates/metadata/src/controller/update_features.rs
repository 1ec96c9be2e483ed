//! UpdateFeatures.
//!
//! Source: KIP-584, KIP-778, wire-apis §7, Kafka FeatureControlManager.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_records::persisted::feature_level_record::FeatureLevelRecord;
use fencepost_types::{BrokerId, ErrorCode};

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

/// Why no level is finalized: the update at fault, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpdateFeaturesRefusal {
    /// The feature.
    pub feature: String,
    /// The level asked for.
    pub level: i16,
    /// What is wrong.
    pub fault: FeatureFault,
}

/// What is wrong with the update of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FeatureFault {
    /// We have no such feature.
    UnknownFeature {
        /// This node.
        node_id: BrokerId,
    },
    /// There is no such kind of update.
    UnknownUpgradeType,
    /// Levels begin at 0.
    Negative,
    /// The level lies outside what we support.
    UnsupportedLevel {
        /// This node.
        node_id: BrokerId,
        /// What we support.
        supported: LevelRange,
    },
    /// The level goes down, and the kind of update says up.
    Downgrade,
    /// The level goes up, and the kind of update says down.
    Upgrade,
    /// Going down would lose what records say.
    LossyDowngrade {
        /// The level in force.
        from: i16,
    },
    /// The feature needs a higher metadata.version.
    NeedsMetadataVersion {
        /// The level it needs.
        needs: i16,
    },
    /// The level of the quorum goes up with its control records, not here.
    KraftUpgrade,
    /// The level of the quorum never goes down.
    KraftDowngrade,
}

impl Refusal for UpdateFeaturesRefusal {
    fn code(&self) -> ErrorCode {
        ErrorCode::InvalidUpdateVersion
    }
}

impl core::fmt::Display for UpdateFeaturesRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("The update failed for all features since the following feature had an error: ")?;
        let Self { feature, level, fault } = self;
        match fault {
            FeatureFault::LossyDowngrade { .. } => write!(f, "Invalid {METADATA_VERSION} {level}. ")?,
            FeatureFault::UnknownFeature { .. }
            | FeatureFault::UnknownUpgradeType
            | FeatureFault::Negative
            | FeatureFault::UnsupportedLevel { .. }
            | FeatureFault::Downgrade
            | FeatureFault::Upgrade
            | FeatureFault::NeedsMetadataVersion { .. }
            | FeatureFault::KraftUpgrade
            | FeatureFault::KraftDowngrade => {
                write!(f, "Invalid update version {level} for feature {feature}. ")?;
            }
        }
        match fault {
            FeatureFault::UnknownFeature { node_id } => {
                write!(f, "Local controller {node_id} does not support this feature.")
            }
            FeatureFault::UnknownUpgradeType => {
                f.write_str("The controller does not support the given upgrade type.")
            }
            FeatureFault::Negative => f.write_str("A feature version cannot be less than 0."),
            FeatureFault::UnsupportedLevel { node_id, supported: LevelRange { min, max } } => {
                write!(f, "Local controller {node_id} only supports versions {min}-{max}")
            }
            FeatureFault::Downgrade => f.write_str(
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.",
            ),
            FeatureFault::Upgrade => f.write_str("Can't downgrade to a newer version."),
            FeatureFault::LossyDowngrade { from } => {
                let (from, to) = (MetadataVersion(*from).name(), MetadataVersion(*level).name());
                write!(
                    f,
                    "Unsupported metadata.version downgrade from {from} to {to}. Refusing to perform the requested downgrade \
                     because it might delete metadata information."
                )
            }
            FeatureFault::NeedsMetadataVersion { needs } => write!(f, "It needs metadata.version {needs}."),
            FeatureFault::KraftUpgrade => f.write_str("It is not raised this way."),
            FeatureFault::KraftDowngrade => f.write_str("Can't downgrade the version of this feature."),
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
        let FeatureUpdate { feature, level, .. } = update.clone();
        self.records_of_update(update).map_err(|fault| UpdateFeaturesRefusal { feature, level, fault })
    }

    /// The checks come in Kafka's order.
    fn records_of_update(&self, update: &FeatureUpdate) -> Result<Vec<MetadataRecord>, FeatureFault> {
        let (feature, level) = (update.feature.as_str(), update.level);
        if !(UPGRADE..=UNSAFE_DOWNGRADE).contains(&update.upgrade_type) {
            return Err(FeatureFault::UnknownUpgradeType);
        }
        if level < 0 {
            return Err(FeatureFault::Negative);
        }
        let current = self.image().feature_level(feature);
        let supported = self.range_of(feature, current)?;
        if !(supported.min..=supported.max).contains(&level) {
            return Err(FeatureFault::UnsupportedLevel { node_id: self.node_id, supported });
        }
        if level == current {
            return Ok(Vec::new());
        }
        if level < current && update.upgrade_type < SAFE_DOWNGRADE {
            return Err(FeatureFault::Downgrade);
        }
        if level > current && update.upgrade_type != UPGRADE {
            return Err(FeatureFault::Upgrade);
        }
        if feature == KRAFT_VERSION {
            return Err(if level < current {
                FeatureFault::KraftDowngrade
            } else {
                FeatureFault::KraftUpgrade
            });
        }
        let is_metadata = feature == METADATA_VERSION;
        if is_metadata && level < current && !MetadataVersion(current).can_lower_to(MetadataVersion(level)) {
            return Err(FeatureFault::LossyDowngrade { from: current });
        }
        let mut records = Vec::new();
        if feature == ELIGIBLE_LEADER_REPLICAS_VERSION && level > current {
            if self.level() < MetadataVersion::ELIGIBLE_LEADER_REPLICAS {
                let needs = MetadataVersion::ELIGIBLE_LEADER_REPLICAS.0;
                return Err(FeatureFault::NeedsMetadataVersion { needs });
            }
            records.extend(self.one_min_insync_replicas());
        }
        records.push(FeatureLevelRecord { name: feature.to_string(), feature_level: level }.into());
        Ok(records)
    }

    /// What a feature can be set to: what we serve; a level that we found finalized may also stay or go down.
    fn range_of(&self, feature: &str, current: i16) -> Result<LevelRange, FeatureFault> {
        let unserved = features::CLAIMED_UNSERVED.iter().any(|(name, _)| *name == feature);
        match features::supported(feature) {
            Some(range) => Ok(range),
            None if unserved => Ok(LevelRange { min: 0, max: current }),
            None => Err(FeatureFault::UnknownFeature { node_id: self.node_id }),
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
