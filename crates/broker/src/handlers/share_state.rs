//! The state of share groups, which brokers keep for each other: with `share.version` 0 no broker is a coordinator of it.
//!
//! Source: KIP-932; Kafka ShareCoordinatorService while it is not active.

use fencepost_protocol::messages::{
    DeleteShareGroupStateRequest, DeleteShareGroupStateResponse, InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse, ReadShareGroupStateRequest, ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse, WriteShareGroupStateRequest,
    WriteShareGroupStateResponse, delete_share_group_state_response, initialize_share_group_state_response,
    read_share_group_state_response, read_share_group_state_summary_response,
    write_share_group_state_response,
};
use fencepost_types::ErrorCode;

use crate::respond::Exchange;

const REFUSED: i16 = ErrorCode::NotCoordinator.code();

fn text(what: &str) -> Option<String> {
    Some(format!("Unable to {what}: This is not the correct coordinator."))
}

/// A handler that refuses each partition of each topic. The last argument is what an answer holds besides.
macro_rules! refuse {
    ($name:ident, $request:ty, $response:ident, $module:ident, $what:literal $(, $rest:expr)?) => {
        /// Refuses each partition.
        pub(crate) fn $name(exchange: Exchange, request: $request) {
            let results = request.topics.into_iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|asked| $module::Partitions {
                    partition: asked.partition,
                    error_code: REFUSED,
                    error_message: text($what),
                    $(..$rest)?
                });
                $module::Results { topic_id: topic.topic_id, partitions: partitions.collect() }
            });
            exchange.reply($response { results: results.collect() });
        }
    };
}

refuse!(
    initialize,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    initialize_share_group_state_response,
    "initialize share group state"
);
refuse!(
    read,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    read_share_group_state_response,
    "read share group state",
    Default::default()
);
refuse!(
    write,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    write_share_group_state_response,
    "write share group state"
);
refuse!(
    delete,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    delete_share_group_state_response,
    "delete share group state"
);
refuse!(
    read_summary,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    read_share_group_state_summary_response,
    "read share group state summary",
    Default::default()
);
