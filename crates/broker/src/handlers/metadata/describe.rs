//! DescribeTopicPartitions: topics in order of name, page by page.
//!
//! Source: KIP-966, wire-apis §7.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_metadata::image::Topic;
use fencepost_metadata::{Image, is_valid_topic_name};
use fencepost_protocol::messages::describe_topic_partitions_request::Cursor;
use fencepost_protocol::messages::describe_topic_partitions_response::{NextCursor, Partitions, Topics};
use fencepost_protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use fencepost_types::{ErrorCode, PartitionIndex, TopicPartition};

use super::super::operations::OPERATIONS_OF_TOPIC;
use super::rows::{numbers, partition_facts};
use crate::Broker;
use crate::respond::Exchange;

/// `max.request.partition.size.limit` is 2000 by default; a request may ask for fewer.
const PARTITIONS_MIN: usize = 1;

/// Answers with a page of partitions, and where the next one begins.
pub(crate) fn describe_topic_partitions(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: DescribeTopicPartitionsRequest,
) {
    let image = broker.image();
    let is_internal = |name: &str| broker.is_internal(name);
    let configured = usize::try_from(broker.config().max_request_partition_size_limit).unwrap_or(0);
    let limit = page_limit(request.response_partition_limit, configured);
    let response = page(&image, &request, limit, is_internal, &broker.damaged_partitions());
    exchange.reply(response);
}

fn page_limit(asked: i32, configured: usize) -> usize {
    usize::try_from(asked).unwrap_or(0).min(configured).max(PARTITIONS_MIN)
}

fn page(
    image: &Image,
    request: &DescribeTopicPartitionsRequest,
    limit: usize,
    is_internal: impl Fn(&str) -> bool,
    damaged: &BTreeSet<TopicPartition>,
) -> DescribeTopicPartitionsResponse {
    let names: BTreeSet<&str> = if request.topics.is_empty() {
        image.topics().iter().map(|topic| topic.name.as_ref()).collect()
    } else {
        request.topics.iter().map(|topic| topic.name.as_str()).collect()
    };
    let cursor = request.cursor.as_ref();
    if cursor.is_some_and(|cursor| !fits(cursor, request, &names)) {
        let refused =
            request.topics.iter().map(|topic| without_partitions(&topic.name, ErrorCode::InvalidRequest));
        return DescribeTopicPartitionsResponse { topics: refused.collect(), ..Default::default() };
    }
    let from = cursor.map_or("", |cursor| cursor.topic_name.as_str());
    let mut response = DescribeTopicPartitionsResponse::default();
    let mut left = limit;
    for name in names.range(from..) {
        if left == 0 {
            response.next_cursor = next_cursor(name, PartitionIndex(0));
            break;
        }
        let Some(topic) = image.topic_by_name(name) else {
            let code = if is_valid_topic_name(name) {
                ErrorCode::UnknownTopicOrPartition
            } else {
                // Differs from Kafka, which answers UNKNOWN_SERVER_ERROR.
                ErrorCode::InvalidTopicException
            };
            response.topics.push(Topics { is_internal: is_internal(name), ..without_partitions(name, code) });
            continue;
        };
        let first = match cursor {
            Some(cursor) if cursor.topic_name == *name => PartitionIndex(cursor.partition_index),
            Some(_) | None => PartitionIndex(0),
        };
        let mut rest = topic.partitions.range(first..);
        let partitions: Vec<Partitions> =
            rest.by_ref().take(left).map(|(index, _)| row(image, topic, *index, damaged)).collect();
        left -= partitions.len();
        response.topics.push(Topics {
            error_code: 0,
            name: Some((*name).to_owned()),
            topic_id: topic.id,
            is_internal: is_internal(name),
            partitions,
            topic_authorized_operations: OPERATIONS_OF_TOPIC,
        });
        if let Some((index, _)) = rest.next() {
            response.next_cursor = next_cursor(name, *index);
            break;
        }
    }
    response
}

/// A cursor points to a topic that was asked for, or to anywhere when all are.
fn fits(cursor: &Cursor, request: &DescribeTopicPartitionsRequest, names: &BTreeSet<&str>) -> bool {
    let asks_for_all = request.topics.is_empty();
    cursor.partition_index >= 0 && (asks_for_all || names.contains(cursor.topic_name.as_str()))
}

fn next_cursor(name: &str, index: PartitionIndex) -> Option<NextCursor> {
    Some(NextCursor { topic_name: name.to_owned(), partition_index: index.0 })
}

fn without_partitions(name: &str, code: ErrorCode) -> Topics {
    Topics { error_code: code.code(), name: Some(name.to_owned()), ..Default::default() }
}

fn row(
    image: &Image,
    topic: &Topic,
    index: PartitionIndex,
    damaged: &BTreeSet<TopicPartition>,
) -> Partitions {
    let partition = &topic.partitions[&index];
    let name = TopicPartition { topic: topic.name.clone(), partition: index };
    let facts = partition_facts(image, partition, damaged.contains(&name));
    Partitions {
        error_code: facts.error.code(),
        partition_index: index.0,
        leader_id: facts.leader_id,
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: facts.replicas,
        isr_nodes: facts.isr,
        eligible_leader_replicas: Some(numbers(&partition.eligible_leader_replicas)),
        last_known_elr: Some(numbers(&partition.last_known_elr)),
        offline_replicas: facts.offline_replicas,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit below 1 counts as 1, and the broker's own limit bounds it.
    #[test]
    fn limits() {
        assert_eq!(page_limit(0, 2000), 1);
        assert_eq!(page_limit(-1, 2000), 1);
        assert_eq!(page_limit(7, 2000), 7);
        assert_eq!(page_limit(i32::MAX, 2000), 2000);
    }
}
