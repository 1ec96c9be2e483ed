//! What operators ask about transactions: DescribeProducers, DescribeTransactions, ListTransactions.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_group::{Alphabet, NamePattern};
use fencepost_protocol::messages::describe_producers_response::{ActiveProducers, Partitions, Topics};
use fencepost_protocol::messages::describe_transactions_response::{
    Topics as DescribedTopics, TransactionStates as DescribedStates,
};
use fencepost_protocol::messages::list_transactions_response::TransactionStates as ListedStates;
use fencepost_protocol::messages::{
    DescribeProducersRequest, DescribeProducersResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, ListTransactionsRequest, ListTransactionsResponse,
};
use fencepost_transaction::{
    ListFilter, Reply, Request, StateFilter, TransactionDescription, TransactionListing,
};
use fencepost_types::{ErrorCode, PartitionIndex, ProducerId, TopicName, TopicPartition};

use super::repeats::{Repeats, without_repeats};
use crate::Broker;
use crate::cx::Cx;
use crate::gather::Gather;
use crate::respond::Exchange;

/// Producers that one answer describes, some 20 MB of it: partitions that come after them are to be asked for in another
/// request.
const PRODUCERS_DESCRIBED_MAX: usize = 500_000;

/// The producers that a partition knows. Needs nothing from a coordinator.
///
/// Source: KIP-664, `producer-state §15`.
pub(crate) fn describe_producers(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: DescribeProducersRequest,
) {
    let (mut repeats, mut rows) = (Repeats::new(), 0);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let topic_name = TopicName::from(topic.name.as_str());
        let partitions = topic.partition_indexes.iter().filter_map(|index| {
            let name = TopicPartition { topic: topic_name.clone(), partition: PartitionIndex(*index) };
            let is_asked = repeats.allow(name.clone());
            if is_asked && rows >= PRODUCERS_DESCRIBED_MAX {
                return Some(producers_refused(&name, ErrorCode::InvalidRequest));
            }
            let row = is_asked.then(|| producers_of(broker, &name))?;
            rows += row.active_producers.len();
            Some(row)
        });
        topics.push(Topics { partitions: partitions.collect(), name: topic.name });
    }
    exchange.reply(DescribeProducersResponse { topics, ..Default::default() });
}

fn producers_refused(name: &TopicPartition, code: ErrorCode) -> Partitions {
    Partitions { partition_index: name.partition.0, error_code: code.code(), ..Default::default() }
}

fn producers_of(broker: &Arc<Broker>, name: &TopicPartition) -> Partitions {
    let refused = |code: ErrorCode| producers_refused(name, code);
    if let Err(fault) = fencepost_metadata::check_topic_name(&name.topic) {
        let error_message = Some(fault.to_string());
        return Partitions { error_message, ..refused(ErrorCode::InvalidTopicException) };
    }
    let Some(partition) = broker.partitions.get(name) else {
        let code = ErrorCode::UnknownTopicOrPartition;
        // As in Kafka a topic that is not there has a sentence, and a partition that its topic does not have has none.
        let is_topic = broker.image().topic_by_name(&name.topic).is_some();
        let error_message = (!is_topic).then(|| code.sentence().to_owned());
        return Partitions { error_message, ..refused(code) };
    };
    let described = partition.with(|state| {
        let producers = state.log.producer_states().describe_producers();
        producers
            .map(|producer| ActiveProducers {
                producer_id: producer.producer_id.0,
                producer_epoch: producer.producer_epoch,
                last_sequence: producer.last_sequence.0,
                last_timestamp: producer.last_timestamp.0,
                coordinator_epoch: producer.coordinator_epoch.0,
                current_txn_start_offset: producer.current_txn_start_offset.0,
            })
            .collect()
    });
    match described {
        Err(code) => refused(code),
        Ok(active_producers) => {
            Partitions { partition_index: name.partition.0, active_producers, ..Default::default() }
        }
    }
}

/// Transactions in full, one row for each id asked for, in that order.
///
/// Source: KIP-664, `coordinator §13`.
pub(crate) fn describe_transactions(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: DescribeTransactionsRequest,
) {
    let mut ids = request.transactional_ids;
    without_repeats(&mut ids);
    let gather = Gather::new(broker, cx, ids.len(), move |_, _, transaction_states: Vec<DescribedStates>| {
        exchange.reply(DescribeTransactionsResponse { transaction_states, ..Default::default() });
    });
    for (at, id) in ids.into_iter().enumerate() {
        let cell =
            if id.is_empty() { Err(ErrorCode::InvalidRequest) } else { broker.transactions.cell_for(&id) };
        let cell = match cell {
            Ok(cell) => cell,
            Err(code) => {
                gather.put(broker, cx, at, not_described(id, code));
                continue;
            }
        };
        let gather = Arc::clone(&gather);
        let request = Request::Describe { transactional_id: id.as_str().into() };
        cell.ask(
            broker,
            cx,
            request,
            Box::new(move |broker, cx, answer| {
                let row = match answer {
                    Ok(Reply::Described(description)) => described(description),
                    Ok(other) => unreachable!("Describe was answered {other:?}"),
                    Err(error) => not_described(id, error.code()),
                };
                gather.put(broker, cx, at, row);
            }),
        );
    }
}

/// A row with an error has zeros, not −1 (`coordinator §13`).
fn not_described(transactional_id: String, code: ErrorCode) -> DescribedStates {
    DescribedStates {
        error_code: code.code(),
        transactional_id,
        transaction_state: String::new(),
        transaction_timeout_ms: 0,
        transaction_start_time_ms: 0,
        producer_id: 0,
        producer_epoch: 0,
        topics: Vec::new(),
    }
}

fn described(description: TransactionDescription) -> DescribedStates {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for name in &description.partitions {
        topics.entry(&name.topic).or_default().push(name.partition.0);
    }
    let topics = topics.into_iter();
    DescribedStates {
        error_code: 0,
        transactional_id: description.transactional_id.to_string(),
        transaction_state: description.state.name().to_owned(),
        transaction_timeout_ms: description.timeout_ms,
        transaction_start_time_ms: description.start.0,
        producer_id: description.producer_id.0,
        producer_epoch: description.producer_epoch.0,
        topics: topics
            .map(|(topic, partitions)| DescribedTopics { topic: topic.to_owned(), partitions })
            .collect(),
    }
}

/// All transactional ids that this broker coordinates and that pass the filters.
///
/// Source: KIP-664, KIP-994, KIP-1152.
pub(crate) fn list_transactions(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: ListTransactionsRequest,
) {
    let refuse = |exchange: Exchange, code: ErrorCode| {
        exchange.reply(ListTransactionsResponse { error_code: code.code(), ..Default::default() });
    };
    let pattern = match id_pattern(request.transactional_id_pattern.as_deref()) {
        Ok(pattern) => pattern,
        Err(code) => return refuse(exchange, code),
    };
    let (states, unknown) = StateFilter::from_names(request.state_filters.iter().map(String::as_str));
    let filter = ListFilter {
        producer_ids: request.producer_id_filters.into_iter().map(ProducerId).collect(),
        states,
        duration_ms: request.duration_filter,
    };
    let cells = broker.transactions.all();
    let count = cells.len();
    type Rows = Result<Vec<TransactionListing>, ErrorCode>;
    let gather = Gather::new(broker, cx, count, move |_, _, answers: Vec<Rows>| {
        let rows = answers.into_iter().collect::<Result<Vec<_>, _>>();
        match rows {
            Err(code) => refuse(exchange, code),
            Ok(rows) => {
                let rows = rows.into_iter().flatten();
                let matching = rows.filter(|row| {
                    pattern.as_ref().is_none_or(|pattern| pattern.matches(&row.transactional_id))
                });
                exchange.reply(ListTransactionsResponse {
                    unknown_state_filters: unknown.into_iter().collect(),
                    transaction_states: matching.map(listed).collect(),
                    ..Default::default()
                });
            }
        }
    });
    for (at, cell) in cells.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        cell.ask(
            broker,
            cx,
            Request::List(filter.clone()),
            Box::new(move |broker, cx, answer| {
                let rows = match answer {
                    Ok(Reply::Listed(rows)) => Ok(rows),
                    Ok(other) => unreachable!("List was answered {other:?}"),
                    Err(error) => Err(error.code()),
                };
                gather.put(broker, cx, at, rows);
            }),
        );
    }
}

/// The pattern as a whole-string match; null and empty are no filter.
fn id_pattern(pattern: Option<&str>) -> Result<Option<NamePattern>, ErrorCode> {
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else { return Ok(None) };
    let read = NamePattern::new(pattern, Alphabet::Unicode);
    read.map(Some).map_err(|_| ErrorCode::InvalidRegularExpression)
}

fn listed(row: TransactionListing) -> ListedStates {
    ListedStates {
        transactional_id: row.transactional_id.to_string(),
        producer_id: row.producer_id.0,
        transaction_state: row.state.name().to_owned(),
    }
}
