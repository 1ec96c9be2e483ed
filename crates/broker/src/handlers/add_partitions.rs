//! AddPartitionsToTxn: one transaction of a client (up to version 3), or a batch between brokers (from version 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_protocol::messages::AddPartitionsToTxnRequest;
use fencepost_protocol::messages::add_partitions_to_txn_request::Transactions;
use fencepost_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnResponse, ResultsByPartition, ResultsByTransaction, TopicResults,
};
use fencepost_transaction::{CoordinatorApi, Step, code_for_version};
use fencepost_types::{ErrorCode, ProducerEpoch, ProducerId, TopicName, TopicPartition, TransactionVersion};

use super::transactions::Add;
use crate::Broker;
use crate::connection::Connection;
use crate::cx::Cx;
use crate::gather::Gather;
use crate::respond::Exchange;

/// Versions below this carry one transaction, of a client.
const BATCH_FROM: i16 = 4;

/// Topics with the code of each partition.
type Codes = Vec<(String, Vec<(i32, ErrorCode)>)>;

/// Adds (or verifies) partitions.
///
/// Source: KIP-98, KIP-890. Differs from Kafka: each entry of a batch is treated by itself, and an empty batch is
/// answered (`coordinator §7.1`).
pub(crate) fn add_partitions_to_txn(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: AddPartitionsToTxnRequest,
) {
    let version = exchange.version();
    let transactions = if version >= BATCH_FROM { request.transactions } else { vec![single(request)] };
    let ids: Vec<String> = transactions.iter().map(|entry| entry.transactional_id.clone()).collect();
    let connection = Arc::clone(&exchange.connection);
    let gather = Gather::new(broker, cx, transactions.len(), move |_, _, results: Vec<Codes>| {
        reply(exchange, ids, results);
    });
    // Between brokers there is nobody who could leave a connection.
    let client = (version < BATCH_FROM).then_some(connection);
    for (at, entry) in transactions.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        one(
            broker,
            cx,
            entry,
            client.as_deref(),
            Box::new(move |broker, cx, codes| gather.put(broker, cx, at, codes)),
        );
    }
}

/// A client's request in the form of a batch entry.
fn single(request: AddPartitionsToTxnRequest) -> Transactions {
    use fencepost_protocol::messages::add_partitions_to_txn_request as wire;
    let topics = request.v3_and_below_topics.into_iter();
    Transactions {
        transactional_id: request.v3_and_below_transactional_id,
        producer_id: request.v3_and_below_producer_id,
        producer_epoch: request.v3_and_below_producer_epoch,
        verify_only: false,
        topics: topics.map(|topic| wire::Topics { name: topic.name, partitions: topic.partitions }).collect(),
    }
}

type Done = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Codes) + Send>;

/// One transaction: of a client on its connection, or of another broker.
fn one(broker: &Arc<Broker>, cx: &mut Cx, entry: Transactions, client: Option<&Connection>, done: Done) {
    let image = broker.image();
    let mut partitions = Vec::new();
    let mut refused = BTreeMap::new();
    for topic in &entry.topics {
        let topic_name = TopicName::from(topic.name.as_str());
        for partition in &topic.partitions {
            let name = TopicPartition::new(topic_name.clone(), *partition);
            if client.is_some() && broker.is_internal(&topic.name) {
                // Clients add offsets through AddOffsetsToTxn; internal topics count as unauthorized.
                refused.insert(name.clone(), ErrorCode::TopicAuthorizationFailed);
            } else if image.partition(&topic.name, *partition).is_none() {
                refused.insert(name.clone(), ErrorCode::UnknownTopicOrPartition);
            }
            partitions.push(name);
        }
    }
    if !refused.is_empty() {
        let codes =
            codes(&entry, |name| refused.get(name).copied().unwrap_or(ErrorCode::OperationNotAttempted));
        return done(broker, cx, each_once(codes));
    }
    let add = Add {
        transactional_id: entry.transactional_id.clone(),
        producer_id: ProducerId(entry.producer_id),
        producer_epoch: ProducerEpoch(entry.producer_epoch),
        partitions,
        transaction_version: if client.is_some() { TransactionVersion::V0 } else { TransactionVersion::V2 },
    };
    // An answer without partitions has no place for the doubt.
    let doubted = client.filter(|_| !add.partitions.is_empty());
    if doubted.is_some_and(|connection| broker.is_doubtful(connection, add.producer(), &Step::Add)) {
        let codes = codes(&entry, |_| ErrorCode::ConcurrentTransactions);
        return done(broker, cx, codes);
    }
    if entry.verify_only {
        let verified = move |broker: &Arc<Broker>,
                             cx: &mut Cx,
                             result: Result<Vec<(TopicPartition, bool)>, ErrorCode>| {
            let codes = match result {
                Err(code) => codes(&entry, |_| code),
                Ok(partitions) => {
                    let known: BTreeMap<_, _> = partitions.into_iter().collect();
                    codes(&entry, |name| match known.get(name) {
                        Some(true) => ErrorCode::None,
                        Some(false) | None => ErrorCode::TransactionAbortable,
                    })
                }
            };
            done(broker, cx, each_once(codes));
        };
        return add.verify(broker, cx, Box::new(verified));
    }
    add.add(
        broker,
        cx,
        Box::new(move |broker, cx, result| {
            let code = result.err().unwrap_or(ErrorCode::None);
            let codes = codes(&entry, |_| code);
            done(broker, cx, codes);
        }),
    );
}

fn codes(entry: &Transactions, code: impl Fn(&TopicPartition) -> ErrorCode) -> Codes {
    let topics = entry.topics.iter();
    topics
        .map(|topic| {
            let (topic_name, partitions) = (TopicName::from(topic.name.as_str()), topic.partitions.iter());
            let coded = partitions.map(|at| (*at, code(&TopicPartition::new(topic_name.clone(), *at))));
            (topic.name.clone(), coded.collect())
        })
        .collect()
}

/// A topic that has partitions once, and each of its partitions once: a verification, and what the metadata refuses, are
/// answered so. Every other answer has the request's own shape.
///
/// Source: Kafka AddPartitionsToTxnResponse.resultForTransaction.
fn each_once(codes: Codes) -> Codes {
    let mut topics: BTreeMap<String, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
    for (name, rows) in codes.into_iter().filter(|(_, rows)| !rows.is_empty()) {
        topics.entry(name).or_default().extend(rows);
    }
    topics.into_iter().map(|(name, rows)| (name, rows.into_iter().collect())).collect()
}

fn reply(exchange: Exchange, ids: Vec<String>, results: Vec<Codes>) {
    use fencepost_protocol::messages::add_partitions_to_txn_response as wire;
    let version = exchange.version();
    let partitions = |rows: Vec<(i32, ErrorCode)>| -> Vec<ResultsByPartition> {
        rows.into_iter()
            .map(|(partition_index, code)| ResultsByPartition {
                partition_index,
                partition_error_code: code_for_version(CoordinatorApi::AddPartitionsToTxn, version, code)
                    .code(),
            })
            .collect()
    };
    let mut response = AddPartitionsToTxnResponse::default();
    if version >= BATCH_FROM {
        for (transactional_id, codes) in ids.into_iter().zip(results) {
            let topic_results = codes
                .into_iter()
                .map(|(name, rows)| TopicResults { name, results_by_partition: partitions(rows) })
                .collect();
            response.results_by_transaction.push(ResultsByTransaction { transactional_id, topic_results });
        }
    } else {
        for (name, rows) in results.into_iter().flatten() {
            response
                .results_by_topic_v3_and_below
                .push(wire::ResultsByTopicV3AndBelow { name, results_by_partition: partitions(rows) });
        }
    }
    exchange.reply(response);
}
