//! What clients are told about brokers, topics and partitions.

use std::sync::Arc;

use fencepost_metadata::Image;
use fencepost_metadata::image::{Partition, Topic};
use fencepost_protocol::messages::metadata_response::{Partitions, Topics};
use fencepost_types::{BrokerId, ErrorCode, TopicPartition};

use crate::Broker;
use crate::connection::Listener;

/// Where a broker can be reached.
pub(crate) struct BrokerAddress {
    pub(crate) id: i32,
    pub(crate) host: String,
    pub(crate) port: i32,
    pub(crate) rack: Option<String>,
    pub(crate) is_fenced: bool,
}

/// The registered brokers, fenced ones only if wanted. A broker without that listener is left out.
pub(crate) fn addresses<'a>(
    broker: &'a Broker,
    image: &'a Image,
    listener: &'a Listener,
    with_fenced: bool,
) -> impl Iterator<Item = BrokerAddress> + 'a {
    let registered = image.brokers().values().filter(move |registered| with_fenced || registered.is_alive());
    registered.filter_map(move |registered| {
        // The edge may know better than the registration where this broker is reached: a port of 0 is picked there.
        let (host, port) = if registered.id == broker.node_id {
            (listener.host.clone(), listener.port)
        } else {
            let endpoint = registered.endpoint(&listener.name)?;
            (endpoint.host.clone(), endpoint.port)
        };
        Some(BrokerAddress {
            id: registered.id.0,
            host,
            port: i32::from(port),
            rack: registered.rack.clone(),
            is_fenced: registered.fenced,
        })
    })
}

/// A partition as clients see it: leaders that are not alive do not show.
pub(crate) struct PartitionFacts {
    pub(crate) error: ErrorCode,
    pub(crate) leader_id: i32,
    pub(crate) replicas: Vec<i32>,
    pub(crate) isr: Vec<i32>,
    pub(crate) offline_replicas: Vec<i32>,
}

/// What is told about a partition. Without a leader it has an error of its own, and the topic has none.
/// One whose log is damaged (`is_damaged`) has none, as one in a log directory that is offline.
pub(crate) fn partition_facts(image: &Image, partition: &Partition, is_damaged: bool) -> PartitionFacts {
    let is_led = !is_damaged && partition.has_leader() && image.is_alive(partition.leader);
    let offline = partition.replicas.iter().copied().filter(|id| is_damaged || !image.is_alive(*id));
    PartitionFacts {
        error: if is_led { ErrorCode::None } else { ErrorCode::LeaderNotAvailable },
        leader_id: if is_led { partition.leader.0 } else { BrokerId::NONE.0 },
        replicas: numbers(&partition.replicas),
        isr: numbers(&partition.isr),
        offline_replicas: offline.map(|id| id.0).collect(),
    }
}

/// Ids as numbers.
pub(crate) fn numbers(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

/// A topic in an answer to Metadata.
pub(super) fn topic_row(broker: &Broker, image: &Image, topic: &Arc<Topic>, operations: i32) -> Topics {
    let damaged = broker.damaged_partitions();
    let is_damaged = |partition| damaged.contains(&TopicPartition { topic: topic.name.clone(), partition });
    let partitions = topic.partitions.iter().map(|(index, partition)| {
        let facts = partition_facts(image, partition, !damaged.is_empty() && is_damaged(*index));
        Partitions {
            error_code: facts.error.code(),
            partition_index: index.0,
            leader_id: facts.leader_id,
            leader_epoch: partition.leader_epoch.0,
            replica_nodes: facts.replicas,
            isr_nodes: facts.isr,
            offline_replicas: facts.offline_replicas,
        }
    });
    Topics {
        error_code: 0,
        name: Some(topic.name.to_string()),
        topic_id: topic.id,
        is_internal: broker.is_internal(&topic.name),
        partitions: partitions.collect(),
        topic_authorized_operations: operations,
    }
}
