//! Delegation tokens (KIP-48): a listener without authentication has none to give, and each request for them is refused.
//!
//! Source: Kafka KafkaApis.allowTokenRequests and DelegationTokenManager, asked of version 4.4.0.

use fencepost_protocol::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse, RenewDelegationTokenResponse,
};
use fencepost_types::ErrorCode;

use crate::respond::Exchange;

/// Tokens are given to principals that have shown who they are in another way.
const REFUSED: i16 = ErrorCode::DelegationTokenRequestNotAllowed.code();
/// The principal of a client that has not authenticated.
const PRINCIPAL_TYPE: &str = "User";
const PRINCIPAL_NAME: &str = "ANONYMOUS";
/// A time that was never set.
const NO_TIMESTAMP: i64 = -1;

/// Refuses. The owner is the one that the request names, or else who asks.
pub(crate) fn create(exchange: Exchange, request: CreateDelegationTokenRequest) {
    let named =
        |given: Option<String>, own: &str| given.filter(|name| !name.is_empty()).unwrap_or(own.to_owned());
    exchange.reply(CreateDelegationTokenResponse {
        error_code: REFUSED,
        principal_type: named(request.owner_principal_type, PRINCIPAL_TYPE),
        principal_name: named(request.owner_principal_name, PRINCIPAL_NAME),
        token_requester_principal_type: PRINCIPAL_TYPE.to_owned(),
        token_requester_principal_name: PRINCIPAL_NAME.to_owned(),
        issue_timestamp_ms: NO_TIMESTAMP,
        expiry_timestamp_ms: NO_TIMESTAMP,
        max_timestamp_ms: NO_TIMESTAMP,
        ..Default::default()
    });
}

/// Refuses.
pub(crate) fn renew(exchange: Exchange) {
    exchange.reply(RenewDelegationTokenResponse {
        error_code: REFUSED,
        expiry_timestamp_ms: NO_TIMESTAMP,
        ..Default::default()
    });
}

/// Refuses.
pub(crate) fn expire(exchange: Exchange) {
    exchange.reply(ExpireDelegationTokenResponse {
        error_code: REFUSED,
        expiry_timestamp_ms: NO_TIMESTAMP,
        ..Default::default()
    });
}

/// Refuses.
pub(crate) fn describe(exchange: Exchange) {
    exchange.reply(DescribeDelegationTokenResponse { error_code: REFUSED, ..Default::default() });
}
