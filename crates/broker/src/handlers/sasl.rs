//! SaslHandshake and SaslAuthenticate on a listener without SASL: each is out of place there, and says so.

use fencepost_protocol::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};
use fencepost_types::ErrorCode;

use crate::respond::Exchange;

/// Refuses, and names no mechanism.
pub(crate) fn handshake(exchange: Exchange) {
    let error_code = ErrorCode::IllegalSaslState.code();
    exchange.reply(SaslHandshakeResponse { error_code, ..Default::default() });
}

/// Refuses.
pub(crate) fn authenticate(exchange: Exchange) {
    exchange.reply(SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some("this listener has no SASL".to_owned()),
        ..Default::default()
    });
}
