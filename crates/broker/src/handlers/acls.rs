//! DescribeAcls, CreateAcls, DeleteAcls: without an authorizer each of them says so.

use fencepost_protocol::messages::create_acls_response::Results;
use fencepost_protocol::messages::delete_acls_response::FilterResults;
use fencepost_protocol::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};
use fencepost_types::ErrorCode;

use crate::respond::Exchange;

const DISABLED: &str = "No Authorizer is configured.";
/// Kafka has another text for each of the two ways.
const DISABLED_ON_BROKER: &str = "No Authorizer is configured on the broker";

/// Refuses.
pub(crate) fn describe_acls(exchange: Exchange, _: DescribeAclsRequest) {
    exchange.reply(DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(DISABLED_ON_BROKER.to_owned()),
        ..Default::default()
    });
}

/// Refuses each.
pub(crate) fn create_acls(exchange: Exchange, request: CreateAclsRequest) {
    let refused =
        Results { error_code: ErrorCode::SecurityDisabled.code(), error_message: Some(DISABLED.to_owned()) };
    let results = vec![refused; request.creations.len()];
    exchange.reply(CreateAclsResponse { results, ..Default::default() });
}

/// Refuses each.
pub(crate) fn delete_acls(exchange: Exchange, request: DeleteAclsRequest) {
    let refused = FilterResults {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(DISABLED.to_owned()),
        matching_acls: Vec::new(),
    };
    let filter_results = vec![refused; request.filters.len()];
    exchange.reply(DeleteAclsResponse { filter_results, ..Default::default() });
}
