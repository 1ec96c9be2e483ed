//! Many clients at once, each with work of its own: nothing is lost between them.

use std::net::SocketAddr;

use fencepost_protocol::messages::{
    AddPartitionsToTxnRequest, DeleteTopicsRequest, EndTxnRequest, InitProducerIdRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, add_partitions_to_txn_request, metadata_request,
    offset_commit_request, offset_fetch_request,
};
use fencepost_types::ErrorCode;

use crate::support::{SocketClient, TestServer, batch};

/// Clients of each kind.
const CLIENTS: usize = 3;
/// What each of them does, so many times.
const ROUNDS: usize = 25;

/// Topics come and go, transactions begin and end, offsets are committed and records written, all at once: every answer
/// finds what the same client was told before.
#[test]
fn everybody_finds_what_they_were_told() {
    for durability in ["fsync", "page-cache"] {
        let server = TestServer::with(&[("fencepost.durability", durability)]);
        let address = server.address();
        assert_eq!(server.client().create_topic("shared", 4), 0);
        let mut threads = Vec::new();
        for number in 0..CLIENTS {
            for work in [make_and_drop_topics, run_transactions, commit_offsets, write_records] {
                threads.push(std::thread::spawn(move || work(address, number)));
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        server.stop().unwrap();
    }
}

fn topic_code(client: &mut SocketClient, name: &str) -> i16 {
    let topic = metadata_request::Topics { name: Some(name.to_owned()), ..Default::default() };
    let request =
        MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: false, ..Default::default() };
    client.ask(12, &request).topics[0].error_code
}

/// A topic is there as soon as its creation is confirmed, and gone as soon as its deletion is.
fn make_and_drop_topics(address: SocketAddr, number: usize) {
    let mut client = SocketClient::connect(address);
    for round in 0..ROUNDS {
        let name = format!("topic-{number}-{round}");
        assert_eq!(client.create_topic(&name, 1), 0);
        assert_eq!(topic_code(&mut client, &name), 0, "{name}");
        assert_eq!(client.write(&name, 0, batch(b"value")), 0, "{name}");
        let delete =
            DeleteTopicsRequest { topic_names: vec![name.clone()], timeout_ms: 1_000, ..Default::default() };
        assert_eq!(client.ask(5, &delete).responses[0].error_code, 0);
        assert_eq!(topic_code(&mut client, &name), ErrorCode::UnknownTopicOrPartition.code(), "{name}");
    }
}

/// Transactions of one id follow one another without a single refusal: who comes early waits.
fn run_transactions(address: SocketAddr, number: usize) {
    let mut client = SocketClient::connect(address);
    let transactional_id = format!("id-{number}");
    let init = InitProducerIdRequest {
        transactional_id: Some(transactional_id.clone()),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let started = client.ask(4, &init);
    assert_eq!(started.error_code, 0);
    for round in 0..ROUNDS {
        let add = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: transactional_id.clone(),
            v3_and_below_producer_id: started.producer_id,
            v3_and_below_producer_epoch: started.producer_epoch,
            v3_and_below_topics: vec![add_partitions_to_txn_request::V3AndBelowTopics {
                name: "shared".to_owned(),
                partitions: (0..4).collect(),
            }],
            ..Default::default()
        };
        let added = client.ask(3, &add);
        for row in &added.results_by_topic_v3_and_below[0].results_by_partition {
            assert_eq!(row.partition_error_code, 0, "round {round}");
        }
        let end = EndTxnRequest {
            transactional_id: transactional_id.clone(),
            producer_id: started.producer_id,
            producer_epoch: started.producer_epoch,
            committed: round % 2 == 0,
        };
        assert_eq!(client.ask(4, &end).error_code, 0, "round {round}");
    }
}

/// An offset is what was committed last.
fn commit_offsets(address: SocketAddr, number: usize) {
    let mut client = SocketClient::connect(address);
    let group_id = format!("group-{number}");
    for round in 0..ROUNDS as i64 {
        let partition = offset_commit_request::Partitions { committed_offset: round, ..Default::default() };
        let commit = OffsetCommitRequest {
            group_id: group_id.clone(),
            generation_id_or_member_epoch: -1,
            topics: vec![offset_commit_request::Topics {
                name: "shared".to_owned(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(client.ask(8, &commit).topics[0].partitions[0].error_code, 0);
        let fetch = OffsetFetchRequest {
            group_id: group_id.clone(),
            topics: Some(vec![offset_fetch_request::Topics {
                name: "shared".to_owned(),
                partition_indexes: vec![0],
            }]),
            ..Default::default()
        };
        assert_eq!(client.ask(5, &fetch).topics[0].partitions[0].committed_offset, round);
    }
}

/// Records of several writers get offsets of their own.
fn write_records(address: SocketAddr, number: usize) {
    let mut client = SocketClient::connect(address);
    for _ in 0..ROUNDS {
        assert_eq!(client.write("shared", (number % 4) as i32, batch(b"value")), 0);
    }
}
