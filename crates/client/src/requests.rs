//! The requests of a transactional client as values, and what their answers say. No I/O.

use bytes::Bytes;
use fencepost_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest,
    FetchRequest, InitProducerIdRequest, ProduceRequest, ProduceResponse, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse, add_partitions_to_txn_request, fetch_request, produce_request,
    txn_offset_commit_request,
};
use fencepost_records::BatchBuilder;
use fencepost_types::{
    ErrorCode, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TopicPartition,
    TransactionResult, TransactionVersion,
};

/// Produce is acknowledged when the high watermark has passed it.
const ACKS_ALL: i16 = -1;
/// Reading stops at the last stable offset.
const READ_COMMITTED: i8 = 1;
/// The most bytes that one Fetch asks for.
const FETCH_BYTES_MAX: i32 = 16 << 20;
/// The newest Fetch that names topics; later ones take topic ids alone.
pub const FETCH_VERSION: i16 = 12;
/// AddPartitionsToTxn of clients; later versions are between brokers.
pub const ADD_PARTITIONS_VERSION: i16 = 3;
/// The newest stable InitProducerId.
pub const INIT_PRODUCER_ID_VERSION: i16 = 5;

/// The highest versions that a producer of one transaction version uses. Source: KIP-890, wire-apis §4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Of Produce. Version 13 is left out: it names topics by id.
    pub produce: i16,
    /// Of TxnOffsetCommit.
    pub txn_offset_commit: i16,
    /// Of EndTxn.
    pub end_txn: i16,
}

impl Versions {
    /// Those of `version`.
    pub fn of(version: TransactionVersion) -> Self {
        if version.bumps_epoch() {
            Self { produce: 12, txn_offset_commit: 5, end_txn: 5 }
        } else {
            Self { produce: 11, txn_offset_commit: 4, end_txn: 4 }
        }
    }
}

/// Who a transactional producer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name that survives restarts.
    pub transactional_id: String,
    /// The producer id, given by InitProducerId.
    pub producer_id: ProducerId,
    /// The epoch, given by InitProducerId or, under version 2, by EndTxn.
    pub producer_epoch: ProducerEpoch,
}

impl Identity {
    /// Before InitProducerId.
    pub fn new(transactional_id: impl Into<String>) -> Self {
        let (producer_id, producer_epoch) = (ProducerId::NONE, ProducerEpoch::NONE);
        Self { transactional_id: transactional_id.into(), producer_id, producer_epoch }
    }

    /// Asks for producer id and epoch: for the next epoch of the present ones where there are any, else as a new instance.
    pub fn init_producer_id(&self, timeout_ms: i32) -> InitProducerIdRequest {
        InitProducerIdRequest {
            transactional_id: Some(self.transactional_id.clone()),
            transaction_timeout_ms: timeout_ms,
            producer_id: self.producer_id.0,
            producer_epoch: self.producer_epoch.0,
            ..InitProducerIdRequest::default()
        }
    }

    /// Adds partitions to the transaction, before anything is written to them. Versions below 2 alone.
    pub fn add_partitions(&self, partitions: &[TopicPartition]) -> AddPartitionsToTxnRequest {
        let topic = |partition: &TopicPartition| add_partitions_to_txn_request::V3AndBelowTopics {
            name: partition.topic.to_string(),
            partitions: vec![partition.partition.0],
        };
        AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.transactional_id.clone(),
            v3_and_below_producer_id: self.producer_id.0,
            v3_and_below_producer_epoch: self.producer_epoch.0,
            v3_and_below_topics: partitions.iter().map(topic).collect(),
            ..AddPartitionsToTxnRequest::default()
        }
    }

    /// One transactional batch of keys and values.
    pub fn batch(
        &self,
        base_sequence: Sequence,
        time: Millis,
        records: &[(Option<&[u8]>, Option<&[u8]>)],
    ) -> Bytes {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE)
            .producer(self.producer_id, self.producer_epoch, base_sequence)
            .transactional(true);
        for (key, value) in records {
            builder.append(time, *key, *value, &[]);
        }
        builder.build().expect("a plain batch needs no codec").into_bytes()
    }

    /// Writes batches, one to each partition.
    pub fn produce(&self, batches: &[(TopicPartition, Bytes)], timeout_ms: i32) -> ProduceRequest {
        let topic = |(partition, batch): &(TopicPartition, Bytes)| produce_request::TopicData {
            name: partition.topic.to_string(),
            partition_data: vec![produce_request::PartitionData {
                index: partition.partition.0,
                records: Some(batch.clone()),
            }],
            ..produce_request::TopicData::default()
        };
        ProduceRequest {
            transactional_id: Some(self.transactional_id.clone()),
            acks: ACKS_ALL,
            timeout_ms,
            topic_data: batches.iter().map(topic).collect(),
        }
    }

    /// Adds the group's offsets to the transaction. Versions below 2 alone.
    pub fn add_offsets(&self, group_id: &str) -> AddOffsetsToTxnRequest {
        AddOffsetsToTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.producer_id.0,
            producer_epoch: self.producer_epoch.0,
            group_id: group_id.to_owned(),
        }
    }

    /// Writes offsets of a group in the transaction, as somebody who is not a member.
    pub fn txn_offset_commit(
        &self,
        group_id: &str,
        offsets: &[(TopicPartition, Offset)],
    ) -> TxnOffsetCommitRequest {
        let topic = |(partition, offset): &(TopicPartition, Offset)| txn_offset_commit_request::Topics {
            name: partition.topic.to_string(),
            partitions: vec![txn_offset_commit_request::Partitions {
                partition_index: partition.partition.0,
                committed_offset: offset.0,
                ..txn_offset_commit_request::Partitions::default()
            }],
            ..txn_offset_commit_request::Topics::default()
        };
        TxnOffsetCommitRequest {
            transactional_id: self.transactional_id.clone(),
            group_id: group_id.to_owned(),
            producer_id: self.producer_id.0,
            producer_epoch: self.producer_epoch.0,
            topics: offsets.iter().map(topic).collect(),
            ..TxnOffsetCommitRequest::default()
        }
    }

    /// Ends the transaction.
    pub fn end_txn(&self, result: TransactionResult) -> EndTxnRequest {
        EndTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.producer_id.0,
            producer_epoch: self.producer_epoch.0,
            committed: result.is_commit(),
        }
    }
}

/// Reads one partition up to its last stable offset, waiting up to `max_wait_ms` for data.
pub fn fetch_committed(partition: &TopicPartition, offset: Offset, max_wait_ms: i32) -> FetchRequest {
    let partitions = vec![fetch_request::Partitions {
        partition: partition.partition.0,
        fetch_offset: offset.0,
        partition_max_bytes: FETCH_BYTES_MAX,
        ..fetch_request::Partitions::default()
    }];
    let topic = fetch_request::Topics {
        topic: partition.topic.to_string(),
        partitions,
        ..fetch_request::Topics::default()
    };
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: FETCH_BYTES_MAX,
        isolation_level: READ_COMMITTED,
        session_epoch: -1,
        topics: vec![topic],
        ..FetchRequest::default()
    }
}

/// A code off the wire; one that nobody knows counts as an error without a name.
pub fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}

/// The first error among the partitions of an answer to Produce.
pub fn produce_code(response: &ProduceResponse) -> ErrorCode {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    first_error(partitions.map(|partition| partition.error_code))
}

/// The first error among the partitions of an answer to AddPartitionsToTxn, version 3 and below.
pub fn add_partitions_code(response: &AddPartitionsToTxnResponse) -> ErrorCode {
    let topics = response.results_by_topic_v3_and_below.iter();
    let partitions = topics.flat_map(|topic| &topic.results_by_partition);
    first_error(partitions.map(|partition| partition.partition_error_code))
}

/// The first error among the partitions of an answer to TxnOffsetCommit.
pub fn txn_offset_commit_code(response: &TxnOffsetCommitResponse) -> ErrorCode {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    first_error(partitions.map(|partition| partition.error_code))
}

fn first_error(mut codes: impl Iterator<Item = i16>) -> ErrorCode {
    code(codes.find(|code| *code != 0).unwrap_or(0))
}
