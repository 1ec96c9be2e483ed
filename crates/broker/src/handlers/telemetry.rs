//! GetTelemetrySubscriptions: not advertised, but answered to who asks, with no subscription (wire-apis §7).

use std::sync::Arc;

use fencepost_protocol::messages::{GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse};
use fencepost_types::Uuid;

use crate::Broker;
use crate::respond::Exchange;

/// Kafka's default of how often a client would push.
const PUSH_INTERVAL_MS: i32 = 300_000;
/// Kafka's default of how much a client may push at once.
const TELEMETRY_BYTES_MAX: i32 = 1_048_576;
/// Codecs that a client may choose from: zstd, lz4, gzip, snappy.
const COMPRESSION_TYPES: [i8; 4] = [4, 3, 1, 2];

/// Gives the client an id, where it has none, and asks for no metric.
pub(crate) fn get_subscriptions(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: GetTelemetrySubscriptionsRequest,
) {
    let asked = request.client_instance_id;
    let client_instance_id = if asked.is_zero() { Uuid::from_random(broker.edge.random()) } else { asked };
    exchange.reply(GetTelemetrySubscriptionsResponse {
        client_instance_id,
        accepted_compression_types: COMPRESSION_TYPES.to_vec(),
        push_interval_ms: PUSH_INTERVAL_MS,
        telemetry_max_bytes: TELEMETRY_BYTES_MAX,
        delta_temporality: true,
        ..Default::default()
    });
}
