//! ApiVersions: what this broker can do, and the features of the cluster.

use std::sync::Arc;

use fencepost_metadata::features;
use fencepost_protocol::ApiKey;
use fencepost_protocol::messages::api_versions_response::{ApiKeys, FinalizedFeatures, SupportedFeatures};
use fencepost_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use fencepost_types::ErrorCode;

use crate::Broker;
use crate::respond::Exchange;

/// From this version on the client says who it is.
const SOFTWARE_NAME_FROM: i16 = 3;
/// Below this version features whose lowest level is 0 are left out: old clients choke on them (KAFKA-17011).
const LEVEL_0_FROM: i16 = 4;
/// From this version on the client may say whom it expects (KIP-1242).
const EXPECTED_NODE_FROM: i16 = 5;

/// Answers with the versions of every API that is served, and the features.
pub(crate) fn api_versions(broker: &Arc<Broker>, exchange: Exchange, request: ApiVersionsRequest) {
    let version = exchange.version();
    if let Err(code) = check(broker, version, &request) {
        return exchange.reply(ApiVersionsResponse { error_code: code.code(), ..no_features() });
    }
    let image = broker.image();
    let shown = |name: &str, lowest: i16| version >= LEVEL_0_FROM || (lowest > 0 && !name.is_empty());
    // Only what can be finalized: what a registration claims beyond that would be offered in vain.
    let supported = features::SUPPORTED.iter().filter(|(name, range)| shown(name, range.min));
    let finalized = image.finalized_features().into_iter().filter(|(_, level)| *level > 0);
    exchange.reply(ApiVersionsResponse {
        api_keys: broker
            .apis
            .advertised()
            .map(|(key, range)| row(key, *range.start(), *range.end()))
            .collect(),
        supported_features: supported
            .map(|&(name, range)| SupportedFeatures {
                name: name.to_owned(),
                min_version: range.min,
                max_version: range.max,
            })
            .collect(),
        finalized_features_epoch: image.offset().0,
        finalized_features: finalized
            .map(|(name, level)| FinalizedFeatures {
                name,
                max_version_level: level,
                min_version_level: level,
            })
            .collect(),
        ..no_features()
    });
}

/// A version that is not known here is answered in version 0, with the versions of this one API: the client then asks
/// again (wire-apis §2, trap 2).
pub(crate) fn unknown_version(broker: &Broker, exchange: Exchange) {
    let range = broker.apis.advertised_versions(ApiKey::ApiVersions);
    exchange.reply_in_version(
        0,
        ApiVersionsResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            api_keys: vec![row(ApiKey::ApiVersions, *range.start(), *range.end())],
            ..no_features()
        },
    );
}

fn row(api_key: ApiKey, min_version: i16, max_version: i16) -> ApiKeys {
    ApiKeys { api_key: api_key.code(), min_version, max_version }
}

/// An answer without features, which is also one with an error.
fn no_features() -> ApiVersionsResponse {
    ApiVersionsResponse { finalized_features_epoch: -1, ..Default::default() }
}

fn check(broker: &Broker, version: i16, request: &ApiVersionsRequest) -> Result<(), ErrorCode> {
    if version >= SOFTWARE_NAME_FROM
        && !(is_software_name(&request.client_software_name)
            && is_software_name(&request.client_software_version))
    {
        return Err(ErrorCode::InvalidRequest);
    }
    if version < EXPECTED_NODE_FROM {
        return Ok(());
    }
    match (&request.cluster_id, request.node_id) {
        (None, -1) => Ok(()),
        (Some(cluster_id), node_id) if node_id != -1 => {
            let is_us = *cluster_id == broker.cluster_id && node_id == broker.node_id.0;
            if is_us { Ok(()) } else { Err(ErrorCode::RebootstrapRequired) }
        }
        (None | Some(_), _) => Err(ErrorCode::InvalidRequest),
    }
}

/// `[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?`
fn is_software_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
}
