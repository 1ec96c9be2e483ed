//! FindCoordinator: which broker coordinates a group or a transactional id. Alone, that is always this one.

use std::sync::Arc;

use fencepost_protocol::messages::find_coordinator_response::Coordinators;
use fencepost_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use fencepost_types::ErrorCode;

use super::repeats::without_repeats;
use crate::Broker;
use crate::respond::Exchange;

/// From this version on a request names several keys.
const BATCH_FROM: i16 = 4;
/// From this version on the key has a kind.
const KEY_TYPE_FROM: i16 = 1;
const KEY_TYPE_GROUP: i8 = 0;
const KEY_TYPE_TRANSACTION: i8 = 1;
/// Share groups, which this broker does not serve.
const KEY_TYPE_SHARE: i8 = 2;
/// The sentence of versions 1 to 3 beside a coordinator; later it is empty.
const NO_ERROR: &str = "NONE";

/// Answers each key in order, a few repeats included. An unknown kind of key is refused for each.
pub(crate) fn find_coordinator(
    broker: &Arc<Broker>,
    exchange: Exchange,
    mut request: FindCoordinatorRequest,
) {
    let version = exchange.version();
    let key_type = if version < KEY_TYPE_FROM { KEY_TYPE_GROUP } else { request.key_type };
    if version >= BATCH_FROM {
        without_repeats(&mut request.coordinator_keys);
        let keys = request.coordinator_keys.into_iter();
        let coordinators = keys.map(|key| find(broker, &exchange, key_type, key)).collect();
        return exchange.reply(FindCoordinatorResponse { coordinators, ..Default::default() });
    }
    let found = find(broker, &exchange, key_type, request.key);
    let error_message = if found.error_code == 0 { Some(NO_ERROR.to_owned()) } else { found.error_message };
    exchange.reply(FindCoordinatorResponse {
        error_code: found.error_code,
        error_message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..Default::default()
    });
}

fn find(broker: &Arc<Broker>, exchange: &Exchange, key_type: i8, key: String) -> Coordinators {
    let found = match key_type {
        KEY_TYPE_GROUP => broker.groups.cell_for(&key).map(|_| ()),
        KEY_TYPE_TRANSACTION => broker.transactions.cell_for(&key).map(|_| ()),
        _ => Err(ErrorCode::InvalidRequest),
    };
    // Each is ours, but for one whose log is damaged: nobody leads that.
    let found = found.map_err(|code| match code {
        ErrorCode::NotCoordinator => ErrorCode::CoordinatorNotAvailable,
        code => code,
    });
    match found {
        Ok(()) => {
            let listener = &exchange.connection.listener;
            Coordinators {
                key,
                node_id: broker.node_id.0,
                host: listener.host.clone(),
                port: i32::from(listener.port),
                error_code: 0,
                error_message: Some(String::new()),
            }
        }
        Err(code) => {
            // Kafka says nothing about the keys of share groups, which it takes from version 4 on.
            let is_told = key_type != KEY_TYPE_SHARE || exchange.version() < BATCH_FROM;
            Coordinators {
                key,
                node_id: -1,
                host: String::new(),
                port: -1,
                error_code: code.code(),
                error_message: Some(if is_told { code.sentence().to_owned() } else { String::new() }),
            }
        }
    }
}
