//! Batches, and a producer that knows its id, epoch and sequences.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use bytes::Bytes;
use fencepost_protocol::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, EndTxnResponse, ProduceRequest, TxnOffsetCommitRequest,
    add_partitions_to_txn_request, txn_offset_commit_request,
};
use fencepost_records::{BatchBuilder, Batches};
use fencepost_types::wire::Pieces;
use fencepost_types::{LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence};

use super::requests::{init, produce};
use super::{Call, Client};

/// A batch of a producer. `time` is every record's.
pub fn batch(
    (id, epoch): (i64, i16),
    base_sequence: i32,
    transactional: bool,
    time: Millis,
    values: &[&str],
) -> Bytes {
    let producer = (ProducerId(id), ProducerEpoch(epoch), Sequence(base_sequence));
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE)
        .producer(producer.0, producer.1, producer.2)
        .transactional(transactional);
    for value in values {
        builder.append(time, None, Some(value.as_bytes()), &[]);
    }
    builder.build().unwrap().into_bytes()
}

/// A batch of nobody.
pub fn plain_batch(time: Millis, values: &[&str]) -> Bytes {
    batch((-1, -1), -1, false, time, values)
}

/// The values of all data records in what a Fetch gave.
pub fn values_of(records: &Pieces) -> Vec<String> {
    let mut values = Vec::new();
    for batch in Batches::new(records.clone().into_bytes()) {
        let batch = batch.unwrap();
        if batch.header().is_control() {
            continue;
        }
        for record in batch.records().unwrap() {
            values.push(String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap());
        }
    }
    values
}

/// A transactional producer. Which transaction version it speaks is said with each request.
pub struct Producer {
    pub client: Client,
    pub transactional_id: String,
    /// Producer id and epoch.
    pub id: Cell<(i64, i16)>,
    sequences: RefCell<BTreeMap<(String, i32), i32>>,
}

impl Producer {
    /// A producer that has its id and epoch; its transactions may take a minute.
    pub fn start(client: Client, transactional_id: &str) -> Self {
        Self::start_with(client, transactional_id, 60_000)
    }

    /// [`Self::start`] with a timeout for its transactions.
    pub fn start_with(client: Client, transactional_id: &str, timeout_ms: i32) -> Self {
        let request = init(transactional_id, timeout_ms);
        let answer = client.ask(5, &request);
        assert_eq!(answer.error_code, 0, "{answer:?}");
        Self::holding(client, transactional_id, (answer.producer_id, answer.producer_epoch))
    }

    /// A producer that holds this pair, whoever gave it.
    pub fn holding(client: Client, transactional_id: &str, id: (i64, i16)) -> Self {
        let transactional_id = transactional_id.to_owned();
        Self { client, transactional_id, id: Cell::new(id), sequences: RefCell::default() }
    }

    /// The next batch for a partition; what it takes up of the sequence is taken.
    pub fn batch(&self, topic: &str, partition: i32, values: &[&str]) -> Bytes {
        let mut sequences = self.sequences.borrow_mut();
        let next = sequences.entry((topic.to_owned(), partition)).or_default();
        let base = *next;
        *next += values.len() as i32;
        batch(self.id.get(), base, true, self.client.world().now().wall, values)
    }

    /// A Produce request with one batch.
    pub fn produce_request(&self, topic: &str, partition: i32, values: &[&str]) -> ProduceRequest {
        produce(
            Some(&self.transactional_id),
            -1,
            vec![(topic, partition, self.batch(topic, partition, values))],
        )
    }

    /// Produces and sees it acknowledged. From version 12 on the partition is added by that.
    pub fn produce(&self, version: i16, topic: &str, partition: i32, values: &[&str]) {
        let request = self.produce_request(topic, partition, values);
        let answer = self.client.ask(version, &request);
        let row = &answer.responses[0].partition_responses[0];
        assert_eq!(row.error_code, 0, "{answer:?}");
    }

    /// Adds a partition as clients of the older versions do.
    pub fn add_partition(&self, topic: &str, partition: i32) {
        let answer = self.client.ask(3, &self.add_request(topic, partition));
        let row = &answer.results_by_topic_v3_and_below[0].results_by_partition[0];
        assert_eq!(row.partition_error_code, 0, "{answer:?}");
    }

    /// The request of [`Self::add_partition`].
    pub fn add_request(&self, topic: &str, partition: i32) -> AddPartitionsToTxnRequest {
        let (id, epoch) = self.id.get();
        AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.transactional_id.clone(),
            v3_and_below_producer_id: id,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: vec![add_partitions_to_txn_request::V3AndBelowTopics {
                name: topic.to_owned(),
                partitions: vec![partition],
            }],
            ..Default::default()
        }
    }

    /// A commit of one offset for a group in the transaction, as somebody who is not a member.
    pub fn offset_request(&self, group_id: &str, topic: &str, offset: i64) -> TxnOffsetCommitRequest {
        let (id, epoch) = self.id.get();
        let partition = txn_offset_commit_request::Partitions {
            partition_index: 0,
            committed_offset: offset,
            ..Default::default()
        };
        TxnOffsetCommitRequest {
            transactional_id: self.transactional_id.clone(),
            group_id: group_id.to_owned(),
            producer_id: id,
            producer_epoch: epoch,
            topics: vec![txn_offset_commit_request::Topics {
                name: topic.to_owned(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    /// The request that ends the transaction.
    pub fn end_request(&self, committed: bool) -> EndTxnRequest {
        let (id, epoch) = self.id.get();
        EndTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: id,
            producer_epoch: epoch,
            committed,
        }
    }

    /// Sends it and does nothing else.
    pub fn send_end(&self, version: i16, committed: bool) -> Call<EndTxnRequest> {
        self.client.send(version, &self.end_request(committed))
    }

    /// Takes over what an answer to EndTxn says: under version 2 a new epoch, with sequences from 0 on.
    pub fn ended(&self, answer: &EndTxnResponse) {
        assert_eq!(answer.error_code, 0, "{answer:?}");
        if answer.producer_id >= 0 {
            self.id.set((answer.producer_id, answer.producer_epoch));
            self.sequences.borrow_mut().clear();
        }
    }

    /// Ends the transaction and sees that confirmed.
    pub fn end(&self, version: i16, committed: bool) {
        let answer = self.client.ask(version, &self.end_request(committed));
        self.ended(&answer);
    }
}
