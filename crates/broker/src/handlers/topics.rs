//! Topics come and go: CreateTopics, DeleteTopics, CreatePartitions.

use std::sync::Arc;

use fencepost_metadata::controller::{CreatedTopic, DeletedTopic, MorePartitions, NewTopic, TopicRef};
use fencepost_metadata::{ConfigEntry, Reply, Request};
use fencepost_protocol::messages::create_topics_response::{Configs, Topics};
use fencepost_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, create_partitions_response, create_topics_request,
    delete_topics_response,
};
use fencepost_types::{BrokerId, ErrorCode, PartitionIndex, Uuid};

use super::asking::{Fault, Patience, ask_controller_within, code_and_message, has_single};
use crate::Broker;
use crate::cx::Cx;
use crate::metadata_log::METADATA_TOPIC;
use crate::respond::Exchange;

/// Creates topics, each by itself.
///
/// Source: KIP-4, KIP-464, KIP-525, KIP-516.
pub(crate) fn create_topics(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: CreateTopicsRequest,
) {
    let names: Vec<String> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let may_be_created = names.iter().filter(|name| *name != METADATA_TOPIC);
    let patience = Patience { timeout_ms: request.timeout_ms, is_needed: has_single(may_be_created) };
    let topics = request.topics.into_iter().map(|topic| new_topic(broker, topic));
    let create = Request::CreateTopics { topics: topics.collect(), validate_only: request.validate_only };
    ask_controller_within(broker, cx, patience, create, move |_, _, reply| {
        let topics = match reply {
            Ok(Reply::CreateTopics(results)) => results
                .into_iter()
                .map(|(name, result)| match result {
                    Ok(topic) => created(name, topic),
                    Err(refusal) => not_created(name, Fault::of(&refusal)),
                })
                .collect(),
            Ok(other) => unreachable!("CreateTopics was answered {other:?}"),
            Err(fault) => names.into_iter().map(|name| not_created(name, fault.clone())).collect(),
        };
        exchange.reply(CreateTopicsResponse { topics, ..Default::default() });
    });
}

fn new_topic(broker: &Broker, topic: create_topics_request::Topics) -> NewTopic {
    let assignments = topic.assignments.into_iter();
    NewTopic {
        name: topic.name,
        id: Uuid::from_random(broker.edge.random()),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments
            .map(|given| (PartitionIndex(given.partition_index), brokers(given.broker_ids)))
            .collect(),
        configs: topic.configs.into_iter().map(|config| (config.name, config.value)).collect(),
    }
}

fn brokers(ids: Vec<i32>) -> Vec<BrokerId> {
    ids.into_iter().map(BrokerId).collect()
}

fn created(name: String, topic: CreatedTopic) -> Topics {
    Topics {
        name,
        topic_id: topic.id,
        error_code: 0,
        error_message: None,
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        configs: Some(topic.configs.into_iter().map(config).collect()),
        topic_config_error_code: 0,
    }
}

fn config(entry: ConfigEntry) -> Configs {
    Configs {
        name: entry.name,
        value: entry.value,
        read_only: entry.read_only,
        config_source: entry.source.code(),
        is_sensitive: entry.is_sensitive,
    }
}

fn not_created(name: String, fault: Fault) -> Topics {
    Topics { name, error_code: fault.code.code(), error_message: fault.message, ..Default::default() }
}

/// From this version on topics are named by name or id.
const TOPIC_IDS_FROM: i16 = 6;
/// From this version on a client knows that topics may not be deleted.
const DELETION_DISABLED_FROM: i16 = 3;

/// Deletes topics, each by itself.
///
/// Source: KIP-4, KIP-516.
pub(crate) fn delete_topics(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: DeleteTopicsRequest,
) {
    let (version, timeout_ms) = (exchange.version(), request.timeout_ms);
    let topics = named(version, request);
    let well_named = topics.iter().filter(|topic| topic.name.is_some() == (topic.id == Uuid::ZERO));
    let patience = Patience { timeout_ms, is_needed: has_single(well_named) };
    let asked = topics.clone();
    ask_controller_within(broker, cx, patience, Request::DeleteTopics(topics), move |_, _, reply| {
        let responses = match reply {
            Ok(Reply::DeleteTopics(results)) => results
                .into_iter()
                .map(|DeletedTopic { name, id, result }| {
                    deleted(version, name, id, result.map_err(|refusal| Fault::of(&refusal)))
                })
                .collect(),
            Ok(other) => unreachable!("DeleteTopics was answered {other:?}"),
            Err(fault) => asked
                .into_iter()
                .map(|topic| deleted(version, topic.name, topic.id, Err(fault.clone())))
                .collect(),
        };
        exchange.reply(DeleteTopicsResponse { responses, ..Default::default() });
    });
}

fn named(version: i16, request: DeleteTopicsRequest) -> Vec<TopicRef> {
    if version < TOPIC_IDS_FROM {
        let names = request.topic_names.into_iter();
        return names.map(|name| TopicRef { name: Some(name), id: Uuid::ZERO }).collect();
    }
    request.topics.into_iter().map(|topic| TopicRef { name: topic.name, id: topic.topic_id }).collect()
}

fn deleted(
    version: i16,
    name: Option<String>,
    topic_id: Uuid,
    result: Result<(), Fault>,
) -> delete_topics_response::Responses {
    let result = result.map_err(|fault| match fault.code {
        ErrorCode::TopicDeletionDisabled if version < DELETION_DISABLED_FROM => {
            Fault { code: ErrorCode::InvalidRequest, ..fault }
        }
        _ => fault,
    });
    let (error_code, error_message) = code_and_message(result);
    delete_topics_response::Responses { name, topic_id, error_code, error_message }
}

/// Adds partitions to topics, each by itself.
///
/// Source: KIP-195.
pub(crate) fn create_partitions(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: CreatePartitionsRequest,
) {
    let names: Vec<String> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let patience = Patience { timeout_ms: request.timeout_ms, is_needed: has_single(names.iter()) };
    let topics = request.topics.into_iter().map(|topic| MorePartitions {
        name: topic.name,
        count: topic.count,
        assignments: topic
            .assignments
            .map(|given| given.into_iter().map(|replicas| brokers(replicas.broker_ids)).collect()),
    });
    let create = Request::CreatePartitions { topics: topics.collect(), validate_only: request.validate_only };
    ask_controller_within(broker, cx, patience, create, move |_, _, reply| {
        let results = match reply {
            Ok(Reply::CreatePartitions(results)) => results
                .into_iter()
                .map(|(name, result)| grown(name, result.map_err(|refusal| Fault::unless_plain(&refusal))))
                .collect(),
            Ok(other) => unreachable!("CreatePartitions was answered {other:?}"),
            Err(fault) => names.into_iter().map(|name| grown(name, Err(fault.clone()))).collect(),
        };
        exchange.reply(CreatePartitionsResponse { results, ..Default::default() });
    });
}

fn grown(name: String, result: Result<(), Fault>) -> create_partitions_response::Results {
    let (error_code, error_message) = code_and_message(result);
    create_partitions_response::Results { name, error_code, error_message }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients before version 3 do not know TOPIC_DELETION_DISABLED (KIP-322).
    #[test]
    fn disabled_deletion_for_old_clients() {
        let code = |version| {
            let disabled = Err(ErrorCode::TopicDeletionDisabled.into());
            deleted(version, None, Uuid::ZERO, disabled).error_code
        };
        assert_eq!(code(2), ErrorCode::InvalidRequest.code());
        assert_eq!(code(3), ErrorCode::TopicDeletionDisabled.code());
    }

    /// Up to version 5 topics are named by name only.
    #[test]
    fn topics_by_name_before_version_6() {
        let request = || DeleteTopicsRequest { topic_names: vec!["a".to_owned()], ..Default::default() };
        assert_eq!(named(5, request()), vec![TopicRef { name: Some("a".to_owned()), id: Uuid::ZERO }]);
        assert_eq!(named(6, request()), Vec::new());
    }
}
