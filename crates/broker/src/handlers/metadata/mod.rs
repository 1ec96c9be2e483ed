//! Metadata and DescribeTopicPartitions: what there is, and where.

mod describe;
mod rows;

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_metadata::controller::NewTopic;
use fencepost_metadata::image::Topic;
use fencepost_metadata::{Image, Request, is_valid_topic_name};
use fencepost_protocol::messages::metadata_request;
use fencepost_protocol::messages::metadata_response::{Brokers, Topics};
use fencepost_protocol::messages::{MetadataRequest, MetadataResponse};
use fencepost_types::{ErrorCode, Uuid};

use super::asking::ask_controller;
use super::operations::{OPERATIONS_OF_CLUSTER, OPERATIONS_OF_TOPIC, if_asked};
use crate::Broker;
use crate::connection::Listener;
use crate::cx::Cx;
use crate::respond::Exchange;
pub(crate) use describe::describe_topic_partitions;
pub(crate) use rows::{addresses, numbers};

/// Below this version an empty list of topics means all of them, as null does later.
const NULL_IS_ALL_FROM: i16 = 1;
/// From this version on topics can be named by id.
const TOPIC_IDS_FROM: i16 = 12;
/// In place of a count: the broker's default.
const DEFAULT_COUNT: i32 = -1;

/// What a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    These(Vec<Named>),
}

/// One topic of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Name(String),
    Id(Uuid),
    /// By neither, or by an id before ids could be looked up.
    Wrongly(Option<String>, Uuid),
}

/// Answers with brokers and topics. An unknown topic that may be created is, and the client finds it when it asks again.
///
/// Source: wire-apis §7, KIP-516.
pub(crate) fn metadata(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: MetadataRequest) {
    let wanted = wanted(exchange.version(), request.topics);
    let asked = Asked {
        topic_operations: if_asked(request.include_topic_authorized_operations, OPERATIONS_OF_TOPIC),
        cluster_operations: if_asked(request.include_cluster_authorized_operations, OPERATIONS_OF_CLUSTER),
        wanted,
    };
    let may_create = request.allow_auto_topic_creation && broker.config().auto_create_topics_enable;
    let missing = if may_create { missing(&broker.image(), &asked.wanted) } else { Vec::new() };
    if missing.is_empty() {
        return answer(broker, exchange, &asked, &BTreeSet::new());
    }
    let created: BTreeSet<String> = missing.iter().cloned().collect();
    let topics = missing.into_iter().map(|name| auto_created(broker, name)).collect();
    let create = Request::CreateTopics { topics, validate_only: false };
    // As in Kafka the topics stay unknown in this answer, whether or not they could be created; the next request finds those
    // that could for certain.
    ask_controller(broker, cx, create, move |broker, _, _| answer(broker, exchange, &asked, &created));
}

/// What a request asks for.
struct Asked {
    wanted: Wanted,
    topic_operations: i32,
    cluster_operations: i32,
}

/// The topics that a request names, each once, in its order.
fn wanted(version: i16, topics: Option<Vec<metadata_request::Topics>>) -> Wanted {
    let Some(topics) = topics else { return Wanted::All };
    if version < NULL_IS_ALL_FROM && topics.is_empty() {
        return Wanted::All;
    }
    let mut seen = BTreeSet::new();
    let named = topics.into_iter().map(|topic| match (topic.name, topic.topic_id) {
        // An id goes before a name.
        (_, id) if !id.is_zero() && version >= TOPIC_IDS_FROM => Named::Id(id),
        (Some(name), id) if id.is_zero() => Named::Name(name),
        (name, id) => Named::Wrongly(name, id),
    });
    Wanted::These(named.filter(|named| seen.insert(named.clone())).collect())
}

/// The names that no topic has and that a topic could have.
fn missing(image: &Image, wanted: &Wanted) -> Vec<String> {
    let Wanted::These(named) = wanted else { return Vec::new() };
    let names = named.iter().filter_map(|named| match named {
        Named::Name(name) => Some(name),
        Named::Id(_) | Named::Wrongly(_, _) => None,
    });
    names.filter(|name| image.topic_by_name(name).is_none() && is_valid_topic_name(name)).cloned().collect()
}

fn auto_created(broker: &Broker, name: String) -> NewTopic {
    NewTopic {
        name,
        id: Uuid::from_random(broker.edge.random()),
        num_partitions: DEFAULT_COUNT,
        replication_factor: DEFAULT_COUNT as i16,
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

/// Answers; the topics of `created` are not told.
fn answer(broker: &Arc<Broker>, exchange: Exchange, asked: &Asked, created: &BTreeSet<String>) {
    let image = broker.image();
    let version = exchange.version();
    let known = |topic| rows::topic_row(broker, &image, topic, asked.topic_operations);
    let topics = match &asked.wanted {
        Wanted::All => image.topics().iter().map(known).collect(),
        Wanted::These(named) => {
            let mut told = BTreeSet::new();
            let rows = named.iter().filter_map(|named| match find(&image, version, created, named) {
                // Named by id and by name, a topic is told once.
                Ok(topic) => told.insert(topic.id).then(|| known(topic)),
                Err(row) => {
                    let is_internal = row.name.as_deref().is_some_and(|name| broker.is_internal(name));
                    Some(Topics { is_internal, ..row })
                }
            });
            rows.collect()
        }
    };
    let brokers = alive_brokers(broker, &image, &exchange.connection.listener);
    exchange.reply(MetadataResponse {
        brokers,
        cluster_id: Some(broker.cluster_id.clone()),
        controller_id: broker.node_id.0,
        topics,
        cluster_authorized_operations: asked.cluster_operations,
        ..Default::default()
    });
}

/// The topic that is named, or the row that says why there is none.
fn find<'a>(
    image: &'a Image,
    version: i16,
    created: &BTreeSet<String>,
    named: &Named,
) -> Result<&'a Arc<Topic>, Topics> {
    match named {
        Named::Name(name) => match image.topic_by_name(name).filter(|_| !created.contains(name)) {
            Some(topic) => Ok(topic),
            None if is_valid_topic_name(name) => Err(unknown_name(name, ErrorCode::UnknownTopicOrPartition)),
            None => Err(unknown_name(name, ErrorCode::InvalidTopicException)),
        },
        Named::Id(id) => image.topic(*id).ok_or_else(|| unknown_id(*id)),
        Named::Wrongly(name, id) => Err(named_wrongly(version, name.clone(), *id)),
    }
}

fn unknown_name(name: &str, code: ErrorCode) -> Topics {
    Topics { error_code: code.code(), name: Some(name.to_owned()), ..Default::default() }
}

fn unknown_id(topic_id: Uuid) -> Topics {
    Topics { error_code: ErrorCode::UnknownTopicId.code(), name: None, topic_id, ..Default::default() }
}

/// Differs from Kafka, which answers `UNKNOWN_SERVER_ERROR` to a topic without name and id.
fn named_wrongly(version: i16, name: Option<String>, topic_id: Uuid) -> Topics {
    // Names cannot be null before topics can be named by id.
    let name = if version < TOPIC_IDS_FROM { Some(name.unwrap_or_default()) } else { name };
    Topics { error_code: ErrorCode::InvalidRequest.code(), name, topic_id, ..Default::default() }
}

/// Live brokers with their addresses on the listener that the client came to (wire-apis trap 33).
fn alive_brokers(broker: &Broker, image: &Image, listener: &Listener) -> Vec<Brokers> {
    rows::addresses(broker, image, listener, false)
        .map(|address| Brokers {
            node_id: address.id,
            host: address.host,
            port: address.port,
            rack: address.rack,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: Option<&str>, id: u128) -> metadata_request::Topics {
        metadata_request::Topics { name: name.map(str::to_owned), topic_id: Uuid::from_u128(id) }
    }

    fn name(name: &str) -> Named {
        Named::Name(name.to_owned())
    }

    /// An empty list is all topics in version 0 and none later; null is all.
    #[test]
    fn empty_is_all_in_version_0_only() {
        assert_eq!(wanted(0, Some(Vec::new())), Wanted::All);
        assert_eq!(wanted(1, Some(Vec::new())), Wanted::These(Vec::new()));
        assert_eq!(wanted(1, None), Wanted::All);
    }

    /// A topic named twice is answered once, in the place of the first.
    #[test]
    fn names_count_once() {
        let topics = vec![topic(Some("b"), 0), topic(Some("a"), 0), topic(Some("b"), 0)];
        assert_eq!(wanted(9, Some(topics)), Wanted::These(vec![name("b"), name("a")]));
    }

    /// From version 12 on an id goes before a name; before, an id cannot be looked up (KIP-516).
    #[test]
    fn ids_from_version_12() {
        let both = || Some(vec![topic(Some("a"), 7)]);
        assert_eq!(wanted(12, both()), Wanted::These(vec![Named::Id(Uuid::from_u128(7))]));
        let wrongly = Named::Wrongly(Some("a".to_owned()), Uuid::from_u128(7));
        assert_eq!(wanted(11, both()), Wanted::These(vec![wrongly]));
        let neither = Named::Wrongly(None, Uuid::ZERO);
        assert_eq!(wanted(13, Some(vec![topic(None, 0)])), Wanted::These(vec![neither]));
    }

    /// Versions whose names cannot be null get an empty one beside the error.
    #[test]
    fn old_versions_get_an_empty_name() {
        assert_eq!(named_wrongly(11, None, Uuid::ZERO).name, Some(String::new()));
        assert_eq!(named_wrongly(12, None, Uuid::ZERO).name, None);
    }
}
