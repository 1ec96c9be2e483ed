//! Share groups and streams groups: shown, and refused, as by a node of Kafka's whose `share.version` and `streams.version` are 0.
//!
//! Source: KIP-932, KIP-1071; the answers are those of Kafka 4.4.0 with these levels.

use std::collections::BTreeSet;

use fencepost_protocol::messages::{
    AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse, ShareAcknowledgeResponse, ShareFetchResponse,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, ShareGroupHeartbeatResponse,
    StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateResponse, describe_share_group_offsets_response,
    share_group_describe_response, streams_group_describe_response,
};
use fencepost_types::ErrorCode;

use crate::respond::Exchange;

const REFUSED: i16 = ErrorCode::UnsupportedVersion.code();
/// Kafka's text of the code, which it sends where an exception became the answer.
const TEXT: &str = "The version of API is not supported.";

/// Refuses.
pub(crate) fn share_group_heartbeat(exchange: Exchange) {
    exchange.reply(ShareGroupHeartbeatResponse { error_code: REFUSED, ..Default::default() });
}

/// Refuses each group, once.
pub(crate) fn share_group_describe(exchange: Exchange, request: ShareGroupDescribeRequest) {
    let groups = once(request.group_ids).map(|group_id| share_group_describe_response::Groups {
        error_code: REFUSED,
        group_id,
        ..Default::default()
    });
    exchange.reply(ShareGroupDescribeResponse { groups: groups.collect(), ..Default::default() });
}

/// Refuses.
pub(crate) fn share_fetch(exchange: Exchange) {
    exchange.reply(ShareFetchResponse { error_code: REFUSED, ..Default::default() });
}

/// Refuses.
pub(crate) fn share_acknowledge(exchange: Exchange) {
    exchange.reply(ShareAcknowledgeResponse { error_code: REFUSED, ..Default::default() });
}

/// Refuses each group, once.
pub(crate) fn describe_share_group_offsets(exchange: Exchange, request: DescribeShareGroupOffsetsRequest) {
    let group_ids = request.groups.into_iter().map(|group| group.group_id);
    let groups = once(group_ids).map(|group_id| describe_share_group_offsets_response::Groups {
        error_code: REFUSED,
        group_id,
        ..Default::default()
    });
    exchange.reply(DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() });
}

/// Refuses.
pub(crate) fn alter_share_group_offsets(exchange: Exchange) {
    exchange.reply(AlterShareGroupOffsetsResponse {
        error_code: REFUSED,
        error_message: Some(TEXT.to_owned()),
        ..Default::default()
    });
}

/// Refuses.
pub(crate) fn delete_share_group_offsets(exchange: Exchange) {
    exchange.reply(DeleteShareGroupOffsetsResponse {
        error_code: REFUSED,
        error_message: Some(TEXT.to_owned()),
        ..Default::default()
    });
}

/// Refuses.
pub(crate) fn streams_group_heartbeat(exchange: Exchange) {
    exchange.reply(StreamsGroupHeartbeatResponse { error_code: REFUSED, ..Default::default() });
}

/// Refuses each group, once.
pub(crate) fn streams_group_describe(exchange: Exchange, request: StreamsGroupDescribeRequest) {
    let groups = once(request.group_ids).map(|group_id| streams_group_describe_response::Groups {
        error_code: REFUSED,
        group_id,
        ..Default::default()
    });
    exchange.reply(StreamsGroupDescribeResponse { groups: groups.collect(), ..Default::default() });
}

/// Refuses.
pub(crate) fn streams_group_topology(exchange: Exchange) {
    exchange
        .reply(StreamsGroupTopologyDescriptionUpdateResponse { error_code: REFUSED, ..Default::default() });
}

/// Each id as it comes first: one that is repeated costs no memory.
fn once(ids: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    ids.into_iter().filter(move |id| seen.insert(id.clone()))
}
