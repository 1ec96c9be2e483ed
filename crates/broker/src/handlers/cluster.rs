//! The cluster as a whole: DescribeCluster, DescribeQuorum, UpdateFeatures.

use std::sync::Arc;

use fencepost_metadata::controller::FeatureUpdate;
use fencepost_metadata::{Image, Reply, Request};
use fencepost_protocol::messages::describe_cluster_response::Brokers;
use fencepost_protocol::messages::describe_quorum_response::{
    CurrentVoters, Listeners, Nodes, Partitions, Topics,
};
use fencepost_protocol::messages::update_features_response::Results;
use fencepost_protocol::messages::{
    DescribeClusterRequest, DescribeClusterResponse, DescribeQuorumRequest, DescribeQuorumResponse,
    UpdateFeaturesRequest, UpdateFeaturesResponse, update_features_request,
};
use fencepost_types::{ErrorCode, Uuid};

use super::asking::{Fault, ask_controller, code_and_message};
use super::metadata::addresses;
use super::operations::{OPERATIONS_OF_CLUSTER, if_asked};
use crate::Broker;
use crate::cx::Cx;
use crate::respond::Exchange;

/// Kinds of endpoints (KIP-919).
const ENDPOINTS_OF_BROKERS: i8 = 1;
const ENDPOINTS_OF_CONTROLLERS: i8 = 2;

/// The cluster's brokers with their addresses on the listener that the client came to.
///
/// Source: KIP-700, KIP-919, KIP-1073.
pub(crate) fn describe_cluster(broker: &Arc<Broker>, exchange: Exchange, request: DescribeClusterRequest) {
    if let Err(fault) = check_endpoint_type(request.endpoint_type) {
        return exchange.reply(DescribeClusterResponse {
            error_code: fault.code.code(),
            error_message: fault.message,
            endpoint_type: request.endpoint_type,
            ..Default::default()
        });
    }
    let image = broker.image();
    let listener = &exchange.connection.listener;
    let brokers =
        addresses(broker, &image, listener, request.include_fenced_brokers).map(|address| Brokers {
            broker_id: address.id,
            host: address.host,
            port: address.port,
            rack: address.rack,
            is_fenced: address.is_fenced,
        });
    let response = DescribeClusterResponse {
        endpoint_type: request.endpoint_type,
        cluster_id: broker.cluster_id.clone(),
        controller_id: broker.node_id.0,
        brokers: brokers.collect(),
        cluster_authorized_operations: if_asked(
            request.include_cluster_authorized_operations,
            OPERATIONS_OF_CLUSTER,
        ),
        ..Default::default()
    };
    exchange.reply(response);
}

fn check_endpoint_type(endpoint_type: i8) -> Result<(), Fault> {
    match endpoint_type {
        ENDPOINTS_OF_BROKERS => Ok(()),
        ENDPOINTS_OF_CONTROLLERS => Err(Fault::new(
            ErrorCode::MismatchedEndpointType,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )),
        other => {
            Err(Fault::new(ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}")))
        }
    }
}

/// The quorum of the metadata log: alone, this node.
///
/// Source: KIP-595, KIP-836, KIP-853.
pub(crate) fn describe_quorum(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: DescribeQuorumRequest,
) {
    let image = broker.image();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let metadata_log = &broker.controller().partition().name;
            let is_metadata =
                *topic.topic_name == *metadata_log.topic && asked.partition_index == metadata_log.partition.0;
            if is_metadata {
                metadata_partition(broker, &image, cx)
            } else {
                Partitions {
                    partition_index: asked.partition_index,
                    error_code: ErrorCode::UnknownTopicOrPartition.code(),
                    error_message: Some(ErrorCode::UnknownTopicOrPartition.sentence().to_owned()),
                    ..Default::default()
                }
            }
        });
        Topics { partitions: partitions.collect(), topic_name: topic.topic_name }
    });
    exchange.reply(DescribeQuorumResponse {
        topics: topics.collect(),
        nodes: nodes(&image),
        ..Default::default()
    });
}

fn metadata_partition(broker: &Broker, image: &Image, cx: &Cx) -> Partitions {
    let log = broker.controller().partition();
    let voter = image.voters().iter().find(|voter| voter.id == broker.node_id);
    Partitions {
        partition_index: 0,
        leader_id: broker.node_id.0,
        leader_epoch: image.epoch().0,
        high_watermark: log.high_watermark().0,
        current_voters: vec![CurrentVoters {
            replica_id: broker.node_id.0,
            // A quorum of static voters knows no directories.
            replica_directory_id: voter.map_or(Uuid::ZERO, |voter| voter.directory_id),
            log_end_offset: log.log_end_offset().0,
            // The leader has always just caught up with itself.
            last_fetch_timestamp: cx.now.wall.0,
            last_caught_up_timestamp: cx.now.wall.0,
        }],
        ..Default::default()
    }
}

fn nodes(image: &Image) -> Vec<Nodes> {
    let voters = image.voters().iter();
    voters
        .map(|voter| {
            let listeners = voter.endpoints.iter().map(|endpoint| Listeners {
                name: endpoint.listener.clone(),
                host: endpoint.host.clone(),
                port: endpoint.port,
            });
            Nodes { node_id: voter.id.0, listeners: listeners.collect() }
        })
        .collect()
}

/// Up to this version each feature has a result of its own.
const RESULTS_UNTIL: i16 = 1;

/// Finalizes levels of features, all or none.
///
/// Source: KIP-584, KIP-778.
pub(crate) fn update_features(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: UpdateFeaturesRequest,
) {
    let version = exchange.version();
    let names: Vec<String> = request.feature_updates.iter().map(|update| update.feature.clone()).collect();
    let updates = request.feature_updates.into_iter().map(feature_update);
    let update = Request::UpdateFeatures { updates: updates.collect(), validate_only: request.validate_only };
    ask_controller(broker, cx, update, move |_, _, reply| {
        let result = match reply {
            Ok(Reply::UpdateFeatures(result)) => result.map_err(|refusal| Fault::of(&refusal)),
            Ok(other) => unreachable!("UpdateFeatures was answered {other:?}"),
            Err(fault) => Err(fault),
        };
        let is_told = version <= RESULTS_UNTIL && result.is_ok();
        let results = names.into_iter().filter(|_| is_told);
        let (error_code, error_message) = code_and_message(result);
        exchange.reply(UpdateFeaturesResponse {
            error_code,
            error_message,
            results: results.map(updated).collect(),
            ..Default::default()
        });
    });
}

/// Kafka's text of code 0.
const NO_ERROR: &str = "NONE";

fn updated(feature: String) -> Results {
    Results { feature, error_code: 0, error_message: Some(NO_ERROR.to_owned()) }
}

/// Version 0 has a flag that allows a downgrade, and no kind of update. As in Kafka the flag counts for nothing, and an update of
/// that version is an upgrade.
fn feature_update(update: update_features_request::FeatureUpdates) -> FeatureUpdate {
    FeatureUpdate {
        feature: update.feature,
        level: update.max_version_level,
        upgrade_type: update.upgrade_type,
    }
}

#[cfg(test)]
mod tests {
    use fencepost_types::wire::Reader;

    use super::*;

    /// Brokers are described here, controllers elsewhere, and other kinds nowhere (KIP-919).
    #[test]
    fn endpoint_types() {
        let code = |kind| check_endpoint_type(kind).map_err(|fault| fault.code);
        assert_eq!(code(1), Ok(()));
        assert_eq!(code(2), Err(ErrorCode::MismatchedEndpointType));
        assert_eq!(code(0), Err(ErrorCode::UnsupportedEndpointType));
        assert_eq!(code(3), Err(ErrorCode::UnsupportedEndpointType));
    }

    /// A flag of version 0 that allows a downgrade does not make one (as Kafka 4.4.0 answers).
    #[test]
    fn updates_of_version_0_are_upgrades() {
        let mut w = fencepost_types::wire::Writer::new();
        let update = update_features_request::FeatureUpdates {
            feature: "transaction.version".to_owned(),
            max_version_level: 1,
            allow_downgrade: true,
            ..Default::default()
        };
        UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() }.encode(&mut w, 0);
        let read = UpdateFeaturesRequest::decode(&mut Reader::new(w.into_bytes()), 0).unwrap();
        assert!(read.feature_updates[0].allow_downgrade);
        let updates: Vec<_> = read.feature_updates.into_iter().map(feature_update).collect();
        assert_eq!((updates[0].upgrade_type, updates[0].level), (1, 1));
    }
}
