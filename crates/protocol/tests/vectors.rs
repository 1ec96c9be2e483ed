//! Bytes written by hand or confirmed by Apache Kafka, above all of what public codecs lack, and the layout traps of
//! wire-apis §15.

use bytes::Bytes;
use fencepost_protocol::messages::*;
use fencepost_protocol::{ApiKey, RequestBody, ResponseBody};
use fencepost_types::Uuid;
use fencepost_types::wire::{Piece, Reader, Writer};

fn request(body: impl Into<RequestBody>, version: i16) -> String {
    let mut w = Writer::new();
    body.into().encode(&mut w, version);
    hex::encode(w.into_bytes())
}

fn response(body: impl Into<ResponseBody>, version: i16) -> String {
    let mut w = Writer::new();
    body.into().encode(&mut w, version);
    hex::encode(w.into_bytes())
}

/// Bytes without the spaces that tell their fields apart.
fn packed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// What Kafka 4.4.0's own classes read and wrote back unchanged does the same here.
#[test]
fn what_kafka_has_confirmed_is_written_back_the_same() {
    let text = include_str!("../testdata/kafka-4.4.txt");
    let mut seen = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let [name, version, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let version = version.parse().unwrap();
        let mut r = Reader::new(hex::decode(bytes).unwrap().into());
        let key = |suffix| ApiKey::ALL.into_iter().find(|key| name.strip_suffix(suffix) == Some(key.name()));
        let again = match (key("Request"), key("Response")) {
            (Some(key), _) => request(RequestBody::decode(key, version, &mut r).expect(line), version),
            (_, Some(key)) => response(ResponseBody::decode(key, version, &mut r).expect(line), version),
            (None, None) => panic!("{line}"),
        };
        assert_eq!((again.as_str(), r.remaining()), (bytes, 0), "{name} {version}");
        seen += 1;
    }
    assert!(seen > 50);
}

/// Version 2 carries the transaction version of the marker, behind the coordinator's epoch (KIP-1228).
#[test]
fn write_txn_markers_2() {
    use write_txn_markers_request::{Markers, Topics};
    let topics = vec![Topics { name: "t".into(), partition_indexes: vec![3] }];
    let marker = Markers {
        producer_id: 5,
        producer_epoch: 6,
        transaction_result: true,
        topics,
        coordinator_epoch: 7,
        transaction_version: 2,
    };
    let body = WriteTxnMarkersRequest { markers: vec![marker] };
    let one = "02 0000000000000005 0006 01 02 0274 02 00000003 00 00000007 00 00";
    let two = "02 0000000000000005 0006 01 02 0274 02 00000003 00 00000007 02 00 00";
    assert_eq!(request(body.clone(), 1), packed(one));
    assert_eq!(request(body, 2), packed(two));
}

/// Version 5 says which broker of which cluster the client means to talk to (KIP-1242).
#[test]
fn api_versions_5() {
    let body = ApiVersionsRequest {
        client_software_name: "a".into(),
        client_software_version: "1".into(),
        cluster_id: None,
        node_id: -1,
    };
    assert_eq!(request(body.clone(), 4), packed("0261 0231 00"));
    assert_eq!(request(body, 5), packed("0261 0231 00 ffffffff 00"));
}

/// Wire-apis trap 2: the answer to an unknown version is readable as version 0, with the range of key 18 alone.
#[test]
fn api_versions_of_an_unknown_version() {
    use api_versions_response::ApiKeys;
    let api_keys = vec![ApiKeys { api_key: 18, min_version: 0, max_version: 5 }];
    let body = ApiVersionsResponse { error_code: 35, api_keys, ..Default::default() };
    assert_eq!(response(body, 0), packed("0023 00000001 0012 0000 0005"));
}

/// An INVALID_REQUEST answer keeps the encoding of the version asked for (wire-apis §2).
#[test]
fn api_versions_of_an_invalid_request() {
    let body = ApiVersionsResponse { error_code: 42, ..Default::default() };
    assert_eq!(response(body, 3), packed("002a 01 00000000 00"));
}

/// Version 6 is unstable: its fields are in the codec, and it is not among the stable versions.
#[test]
fn init_producer_id_6() {
    let body = InitProducerIdRequest {
        transactional_id: Some("x".into()),
        transaction_timeout_ms: 1,
        enable2_pc: true,
        ..Default::default()
    };
    assert_eq!(request(body.clone(), 5), packed("0278 00000001 ffffffffffffffff ffff 00"));
    assert_eq!(request(body, 6), packed("0278 00000001 ffffffffffffffff ffff 01 00 00"));
    assert_eq!(ApiKey::InitProducerId.versions(), 0..=6);
    assert_eq!(ApiKey::InitProducerId.stable_versions(), 0..=5);
}

/// From version 6 (TxnOffsetCommit) and 10 (OffsetCommit) on, topics go by id alone.
#[test]
fn topic_ids_in_place_of_names() {
    use txn_offset_commit_response::{Partitions, Topics};
    let topic_id = Uuid::from_u128(9);
    let partitions = vec![Partitions { partition_index: 1, error_code: 0 }];
    let body = TxnOffsetCommitResponse {
        throttle_time_ms: 0,
        topics: vec![Topics { topic_id, name: "t".into(), partitions }],
    };
    assert_eq!(response(body.clone(), 5), packed("00000000 02 0274 02 00000001 0000 00 00 00"));
    let with_id = "00000000 02 00000000000000000000000000000009 02 00000001 0000 00 00 00";
    assert_eq!(response(body, 6), packed(with_id));
}

/// Wire-apis trap 31: DescribeProducers has the producer epoch as four bytes.
#[test]
fn describe_producers_has_a_wide_epoch() {
    use describe_producers_response::ActiveProducers;
    let producer = ActiveProducers {
        producer_id: 1,
        producer_epoch: 2,
        last_sequence: 3,
        last_timestamp: 4,
        coordinator_epoch: 5,
        current_txn_start_offset: 6,
    };
    let partition = describe_producers_response::Partitions {
        active_producers: vec![producer],
        error_message: None,
        ..Default::default()
    };
    let topic = describe_producers_response::Topics { name: "t".into(), partitions: vec![partition] };
    let body = DescribeProducersResponse { throttle_time_ms: 0, topics: vec![topic] };
    let bytes = "00000000 02 0274 02 00000000 0000 00 02 \
        0000000000000001 00000002 00000003 0000000000000004 00000005 0000000000000006 00 00 00 00";
    assert_eq!(response(body, 0), packed(bytes));
}

/// Wire-apis trap 6: the preferred read replica stands between the aborted transactions and the records, from
/// version 11 on.
#[test]
fn fetch_has_the_preferred_replica_before_the_records() {
    use fetch_response::{AbortedTransactions, Partitions, Responses};
    let partition = Partitions {
        aborted_transactions: Some(vec![AbortedTransactions { producer_id: 1, first_offset: 2 }]),
        preferred_read_replica: 7,
        records: Some([Bytes::from_static(b"ab"), Bytes::from_static(b"c")].into_iter().collect()),
        ..Default::default()
    };
    let body = FetchResponse {
        responses: vec![Responses { topic: "t".into(), partitions: vec![partition], ..Default::default() }],
        ..Default::default()
    };
    let before = "00000000 0000 00000000 00000001 0001 74 00000001 00000000 0000 0000000000000000 ffffffffffffffff \
        ffffffffffffffff 00000001 0000000000000001 0000000000000002";
    let after = "00000003 616263";
    assert_eq!(response(body.clone(), 10), packed(&format!("{before} {after}")));
    assert_eq!(response(body, 11), packed(&format!("{before} 00000007 {after}")));
}

/// Records of a Fetch answer leave as the slices they are.
#[test]
fn records_are_not_copied() {
    let batch = Bytes::from(vec![7; 4096]);
    let partition = fetch_response::Partitions {
        records: Some([batch.clone(), batch.clone()].into_iter().collect()),
        ..Default::default()
    };
    let topic = fetch_response::Responses { partitions: vec![partition], ..Default::default() };
    let body = FetchResponse { responses: vec![topic], ..Default::default() };
    let mut w = Writer::new();
    ResponseBody::from(body).encode(&mut w, 18);
    let is_it = |piece: &Piece| matches!(piece, Piece::Held(held) if held.as_ptr() == batch.as_ptr());
    assert_eq!(w.into_pieces().iter().filter(|piece| is_it(piece)).count(), 2);
}

/// And records of a Produce request are slices of the frame.
#[test]
fn produced_records_are_slices_of_the_frame() {
    let text = "ffff ffff 000003e8 00000001 0001 74 00000001 00000000 00000004 01020304";
    let frame = Bytes::from(hex::decode(packed(text)).unwrap());
    let body = ProduceRequest::decode(&mut Reader::new(frame.clone()), 3).unwrap();
    let records = body.topic_data[0].partition_data[0].records.clone().unwrap();
    assert_eq!(records.as_ptr(), frame[frame.len() - 4..].as_ptr());
}

/// A null that a version does not know is written as an empty value.
#[test]
fn null_where_a_version_has_none_is_written_empty() {
    let topic = metadata_response::Topics { name: None, error_code: 3, ..Default::default() };
    let body = MetadataResponse { topics: vec![topic], cluster_id: None, ..Default::default() };
    assert_eq!(response(body, 0), packed("00000000 00000001 0003 0000 00000000"));
    let all = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(request(all.clone(), 0), packed("00000000"));
    assert_eq!(request(all, 1), packed("ffffffff"));
}
