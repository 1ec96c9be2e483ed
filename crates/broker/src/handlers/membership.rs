//! Who belongs to the cluster: UnregisterBroker, UnregisterController, AddRaftVoter, RemoveRaftVoter.
//!
//! One node is its own quorum, written down in its settings: `kraft.version` is 0, no voter comes or goes.

use std::sync::Arc;

use fencepost_metadata::{Reply, Request};
use fencepost_protocol::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, RemoveRaftVoterRequest, RemoveRaftVoterResponse,
    UnregisterBrokerRequest, UnregisterBrokerResponse, UnregisterControllerRequest,
    UnregisterControllerResponse,
};
use fencepost_types::{BrokerId, ErrorCode, Uuid};

use super::asking::{Fault, ask_controller};
use crate::Broker;
use crate::cx::Cx;
use crate::respond::Exchange;

/// The listener of controllers, by which a new voter would be reached.
const CONTROLLER_LISTENER: &str = "CONTROLLER";

/// Forgets a broker that will not come back.
///
/// Differs from Kafka: a broker that is running, and so this one, is not forgotten (decision 26).
///
/// Source: KIP-746; Kafka ClusterControlManager.unregisterBroker.
pub(crate) fn unregister_broker(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: UnregisterBrokerRequest,
) {
    let unregister = Request::UnregisterBroker(BrokerId(request.broker_id));
    ask_controller(broker, cx, unregister, move |_, _, reply| {
        let (error_code, error_message) = match reply {
            Ok(Reply::Done) => (ErrorCode::None, Some(String::new())),
            Ok(other) => unreachable!("UnregisterBroker was answered {other:?}"),
            Err(fault) => (fault.code, fault.message),
        };
        let error_code = error_code.code();
        exchange.reply(UnregisterBrokerResponse { error_code, error_message, ..Default::default() });
    });
}

/// Refuses: the only controller is this node, and it is active.
///
/// Source: Kafka ClusterControlManager.unregisterController.
pub(crate) fn unregister_controller(
    broker: &Broker,
    exchange: Exchange,
    request: UnregisterControllerRequest,
) {
    let id = request.controller_id;
    let (code, text) = if id == broker.node_id.0 {
        (ErrorCode::InvalidRequest, "Controller cannot unregister itself while it is active.".to_owned())
    } else {
        let text = format!("Controller ID {id} is not currently registered.");
        (ErrorCode::ControllerIdNotRegistered, text)
    };
    exchange.reply(UnregisterControllerResponse {
        error_code: code.code(),
        error_message: Some(text),
        ..Default::default()
    });
}

/// Refuses.
///
/// Source: KIP-853; Kafka KafkaRaftClient.handleAddVoterRequest and AddVoterHandler, in their order.
pub(crate) fn add_voter(broker: &Broker, exchange: Exchange, request: AddRaftVoterRequest) {
    let valid = request.voter_id >= 0 && request.voter_directory_id != Uuid::ZERO;
    let is_reachable = request.listeners.iter().any(|listener| listener.name == CONTROLLER_LISTENER);
    let fault = if let Some(fault) = foreign_cluster(broker, request.cluster_id.as_deref()) {
        fault
    } else if !valid {
        Fault::new(ErrorCode::InvalidRequest, "Add voter request didn't include a valid voter")
    } else if !is_reachable {
        let text = format!(
            "Add voter request didn't include the endpoint for the default listener {CONTROLLER_LISTENER}"
        );
        Fault::new(ErrorCode::InvalidRequest, text)
    } else {
        unchangeable("adding")
    };
    exchange.reply(AddRaftVoterResponse {
        error_code: fault.code.code(),
        error_message: fault.message,
        ..Default::default()
    });
}

/// Refuses.
///
/// Source: KIP-853; Kafka KafkaRaftClient.handleRemoveVoterRequest and RemoveVoterHandler, in their order.
pub(crate) fn remove_voter(broker: &Broker, exchange: Exchange, request: RemoveRaftVoterRequest) {
    let valid = request.voter_id >= 0 && request.voter_directory_id != Uuid::ZERO;
    let fault = if let Some(fault) = foreign_cluster(broker, request.cluster_id.as_deref()) {
        fault
    } else if !valid {
        Fault::new(ErrorCode::InvalidRequest, "Remove voter request didn't include a valid voter")
    } else {
        unchangeable("removing")
    };
    exchange.reply(RemoveRaftVoterResponse {
        error_code: fault.code.code(),
        error_message: fault.message,
        ..Default::default()
    });
}

fn foreign_cluster(broker: &Broker, named: Option<&str>) -> Option<Fault> {
    let own = &broker.cluster_id;
    let named = named.filter(|named| named != own)?;
    let text = format!("The given id \"{named}\" doesn't match the cluster id \"{own}\"");
    Some(Fault::new(ErrorCode::InconsistentClusterId, text))
}

fn unchangeable(what: &str) -> Fault {
    let text = format!("Cluster doesn't support {what} voter because the kraft.version feature is 0");
    Fault::new(ErrorCode::UnsupportedVersion, text)
}
