//! Requests that many tests send.

use bytes::Bytes;
use fencepost_protocol::messages::{
    AddPartitionsToTxnRequest, DescribeTransactionsRequest, FetchRequest, InitProducerIdRequest,
    ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, WriteTxnMarkersRequest,
    add_partitions_to_txn_request, fetch_request, fetch_response, list_offsets_request,
    offset_commit_request, offset_fetch_request, produce_request, write_txn_markers_request,
};

use super::{Client, values_of};

/// Reads everything.
pub const READ_UNCOMMITTED: i8 = 0;
/// Reads up to the last stable offset.
pub const READ_COMMITTED: i8 = 1;

/// An InitProducerId of a new instance.
pub fn init(transactional_id: &str, timeout_ms: i32) -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: Some(transactional_id.to_owned()),
        transaction_timeout_ms: timeout_ms,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    }
}

/// A Produce request with one batch for each place.
pub fn produce(
    transactional_id: Option<&str>,
    acks: i16,
    batches: Vec<(&str, i32, Bytes)>,
) -> ProduceRequest {
    let topic = |(name, index, records): (&str, i32, Bytes)| produce_request::TopicData {
        name: name.to_owned(),
        partition_data: vec![produce_request::PartitionData { index, records: Some(records) }],
        ..Default::default()
    };
    ProduceRequest {
        transactional_id: transactional_id.map(str::to_owned),
        acks,
        timeout_ms: 1_000,
        topic_data: batches.into_iter().map(topic).collect(),
    }
}

/// A Fetch without a session that waits for nothing.
pub fn fetch(topic: &str, partition: i32, offset: i64, isolation_level: i8) -> FetchRequest {
    FetchRequest {
        max_bytes: i32::MAX,
        isolation_level,
        session_epoch: -1,
        topics: vec![fetch_request::Topics {
            topic: topic.to_owned(),
            partitions: vec![fetch_request::Partitions {
                partition,
                fetch_offset: offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// [`fetch`], waiting up to `max_wait_ms` for one byte.
pub fn long_poll(
    topic: &str,
    partition: i32,
    offset: i64,
    isolation_level: i8,
    max_wait_ms: i32,
) -> FetchRequest {
    FetchRequest { max_wait_ms, min_bytes: 1, ..fetch(topic, partition, offset, isolation_level) }
}

/// Reads a partition from `offset` on, in version 12; answers the one row.
pub fn read(
    client: &Client,
    topic: &str,
    partition: i32,
    offset: i64,
    isolation_level: i8,
) -> fetch_response::Partitions {
    let mut answer = client.ask(12, &fetch(topic, partition, offset, isolation_level));
    assert_eq!(answer.error_code, 0);
    answer.responses.remove(0).partitions.remove(0)
}

/// The values that a read_committed consumer gets of a partition, from its start to the last stable offset.
pub fn committed_values(client: &Client, topic: &str, partition: i32) -> Vec<String> {
    let row = read(client, topic, partition, 0, READ_COMMITTED);
    assert_eq!(row.error_code, 0);
    let aborted = row.aborted_transactions.unwrap();
    assert_eq!(aborted, [], "this reader does not filter");
    values_of(&row.records.unwrap())
}

/// A ListOffsets of one partition.
pub fn list_offsets(topic: &str, timestamp: i64, replica_id: i32, isolation_level: i8) -> ListOffsetsRequest {
    ListOffsetsRequest {
        replica_id,
        isolation_level,
        topics: vec![list_offsets_request::Topics {
            name: topic.to_owned(),
            partitions: vec![list_offsets_request::Partitions {
                partition_index: 0,
                current_leader_epoch: -1,
                timestamp,
            }],
        }],
        ..Default::default()
    }
}

/// An OffsetCommit of partition 0 of the topic `t`, by nobody of the group.
pub fn commit_offset(group_id: &str, offset: i64) -> OffsetCommitRequest {
    let partition = offset_commit_request::Partitions { committed_offset: offset, ..Default::default() };
    OffsetCommitRequest {
        group_id: group_id.to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::Topics {
            name: "t".to_owned(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// An OffsetFetch of partition 0 of a topic, in version 9; answers offset and code.
pub fn committed_offset(client: &Client, group_id: &str, topic: &str, require_stable: bool) -> (i64, i16) {
    let request = OffsetFetchRequest {
        groups: vec![offset_fetch_request::Groups {
            group_id: group_id.to_owned(),
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![offset_fetch_request::GroupsTopics {
                name: topic.to_owned(),
                partition_indexes: vec![0],
                ..Default::default()
            }]),
        }],
        require_stable,
        ..Default::default()
    };
    let answer = client.ask(9, &request);
    assert_eq!(answer.groups[0].error_code, 0, "{answer:?}");
    let row = &answer.groups[0].topics[0].partitions[0];
    (row.committed_offset, row.error_code)
}

/// An OffsetFetch of everything that a group has committed, in version 9: topics with the offset of their first partition.
pub fn all_committed_offsets(client: &Client, group_id: &str, require_stable: bool) -> Vec<(String, i64)> {
    let group = offset_fetch_request::Groups {
        group_id: group_id.to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: None,
    };
    let request = OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() };
    let answer = client.ask(9, &request);
    assert_eq!(answer.groups[0].error_code, 0, "{answer:?}");
    let topics = answer.groups[0].topics.iter();
    topics.map(|topic| (topic.name.clone(), topic.partitions[0].committed_offset)).collect()
}

/// One marker of a WriteTxnMarkers.
pub fn marker(
    (producer_id, producer_epoch): (i64, i16),
    committed: bool,
    transaction_version: i8,
    partitions: &[(&str, i32)],
) -> write_txn_markers_request::Markers {
    let topics = partitions.iter().map(|(name, index)| write_txn_markers_request::Topics {
        name: (*name).to_owned(),
        partition_indexes: vec![*index],
    });
    write_txn_markers_request::Markers {
        producer_id,
        producer_epoch,
        transaction_result: committed,
        topics: topics.collect(),
        coordinator_epoch: 0,
        transaction_version,
    }
}

/// A WriteTxnMarkers.
pub fn write_markers(markers: Vec<write_txn_markers_request::Markers>) -> WriteTxnMarkersRequest {
    WriteTxnMarkersRequest { markers }
}

/// One transaction of an AddPartitionsToTxn between brokers.
pub fn batch_entry(
    transactional_id: &str,
    (producer_id, producer_epoch): (i64, i16),
    verify_only: bool,
    partitions: &[(&str, i32)],
) -> add_partitions_to_txn_request::Transactions {
    let topics = partitions.iter().map(|(name, index)| add_partitions_to_txn_request::Topics {
        name: (*name).to_owned(),
        partitions: vec![*index],
    });
    add_partitions_to_txn_request::Transactions {
        transactional_id: transactional_id.to_owned(),
        producer_id,
        producer_epoch,
        verify_only,
        topics: topics.collect(),
    }
}

/// An AddPartitionsToTxn between brokers.
pub fn add_batch(
    transactions: Vec<add_partitions_to_txn_request::Transactions>,
) -> AddPartitionsToTxnRequest {
    AddPartitionsToTxnRequest { transactions, ..Default::default() }
}

/// The state of a transactional id by its name, as DescribeTransactions says.
pub fn transaction_state(client: &Client, transactional_id: &str) -> String {
    let request = DescribeTransactionsRequest { transactional_ids: vec![transactional_id.to_owned()] };
    client.ask(0, &request).transaction_states.remove(0).transaction_state
}
