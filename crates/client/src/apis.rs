//! What a broker says that it can do.

use std::collections::BTreeMap;

use fencepost_protocol::messages::ApiVersionsResponse;
use fencepost_protocol::{ApiKey, Request};
use fencepost_types::TransactionVersion;

use crate::ClientError;

/// The feature by whose level a producer chooses its transaction version.
const TRANSACTION_VERSION_FEATURE: &str = "transaction.version";

/// The versions of each API and the features, from an answer to ApiVersions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apis {
    ranges: BTreeMap<i16, (i16, i16)>,
    transaction_version_level: i16,
}

impl Apis {
    /// Reads the answer.
    pub fn new(response: &ApiVersionsResponse) -> Self {
        let ranges = response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version)));
        let features = response.finalized_features.iter();
        let level = features.filter(|feature| feature.name == TRANSACTION_VERSION_FEATURE);
        Self {
            ranges: ranges.collect(),
            transaction_version_level: level.map(|feature| feature.max_version_level).max().unwrap_or(0),
        }
    }

    /// The lowest and highest version that the broker serves of an API.
    pub fn range(&self, api_key: ApiKey) -> Option<(i16, i16)> {
        self.ranges.get(&api_key.code()).copied()
    }

    /// The version that a producer should run its transactions under. Source: KIP-890, wire-apis §4.
    pub fn transaction_version(&self) -> TransactionVersion {
        TransactionVersion::from_level(self.transaction_version_level)
    }

    /// The highest version up to `wanted` that both sides know (K4).
    pub fn version<R: Request>(&self, wanted: i16) -> Result<i16, ClientError> {
        let api_key = R::API_KEY;
        let missing = ClientError::NoCommonVersion { api_key, wanted };
        let Some((low, high)) = self.range(api_key) else { return Err(missing) };
        let version = high.min(R::VERSION_MAX).min(wanted);
        if version < low.max(R::VERSION_MIN) { Err(missing) } else { Ok(version) }
    }
}
