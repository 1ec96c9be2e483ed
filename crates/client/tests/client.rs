//! The client against a listener in this process: which versions it asks in, and what it makes of odd answers.

mod fake;

use fake::{Answer, Reply, listen};
use fencepost_client::requests::Identity;
use fencepost_client::{ClientError, Connection, Options, TransactionalProducer, committed};
use fencepost_protocol::messages::fetch_response::{AbortedTransactions, Partitions};
use fencepost_protocol::messages::{self as m, produce_response};
use fencepost_protocol::{ApiKey, RequestBody, ResponseBody};
use fencepost_records::EndTxnMarker;
use fencepost_types::{
    CoordinatorEpoch, ErrorCode, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence,
    TopicPartition, TransactionResult, TransactionVersion,
};

/// Says yes to everything a transactional producer asks. The first `later` answers to Produce say "later".
fn agreeable(mut later: u32) -> Answer {
    Box::new(move |_, body| {
        Reply::Body(match body {
            RequestBody::InitProducerId(request) => {
                assert_eq!((request.producer_id, request.producer_epoch), (-1, -1), "a new instance");
                let response =
                    m::InitProducerIdResponse { producer_id: 7, producer_epoch: 3, ..Default::default() };
                ResponseBody::InitProducerId(response)
            }
            RequestBody::AddPartitionsToTxn(_) => ResponseBody::AddPartitionsToTxn(Default::default()),
            RequestBody::AddOffsetsToTxn(_) => ResponseBody::AddOffsetsToTxn(Default::default()),
            RequestBody::TxnOffsetCommit(_) => ResponseBody::TxnOffsetCommit(Default::default()),
            RequestBody::Produce(_) => {
                let error_code = if later > 0 { ErrorCode::NotEnoughReplicas.code() } else { 0 };
                later = later.saturating_sub(1);
                let partition_responses = vec![produce_response::PartitionResponses {
                    error_code,
                    base_offset: 40,
                    ..Default::default()
                }];
                let responses =
                    vec![produce_response::Responses { partition_responses, ..Default::default() }];
                ResponseBody::Produce(m::ProduceResponse { responses, ..Default::default() })
            }
            RequestBody::EndTxn(request) => ResponseBody::EndTxn(m::EndTxnResponse {
                producer_id: request.producer_id,
                producer_epoch: request.producer_epoch + 1,
                ..Default::default()
            }),
            other => panic!("nobody asks for {other:?}"),
        })
    })
}

fn run_transaction(fake: &fake::Fake) -> (TransactionalProducer, Offset) {
    let connection = Connection::open(fake.address, &Options::default()).expect("connects");
    let mut producer = TransactionalProducer::open(connection, "id", 1_000, None).expect("is given an id");
    let partition = TopicPartition::new("t", 0);
    let offset = producer.send(&partition, Millis(1), &[(Some(b"k"), Some(b"v"))]).expect("is written");
    producer.send_offsets("g", &[(partition, Offset(9))]).expect("is written");
    producer.end(TransactionResult::Commit).expect("commits");
    (producer, offset)
}

/// Under version 2 nothing is added beforehand, and the next epoch comes from EndTxn (wire-apis §4, KIP-890).
#[test]
fn version_2_adds_by_writing_and_takes_its_epoch_from_end_txn() {
    let fake = listen(2, true, agreeable(0));
    let (producer, offset) = run_transaction(&fake);
    assert_eq!(producer.version(), TransactionVersion::V2);
    assert_eq!(producer.identity().producer_epoch, ProducerEpoch(4));
    assert_eq!(offset, Offset(40));
    drop(producer);
    let seen: Vec<_> = fake.seen.iter().collect();
    let expected = [
        (ApiKey::ApiVersions, 3),
        (ApiKey::InitProducerId, 5),
        (ApiKey::Produce, 12),
        (ApiKey::TxnOffsetCommit, 5),
        (ApiKey::EndTxn, 5),
    ];
    assert_eq!(seen, expected);
}

/// Below version 2 partitions and offsets are added first, the versions stay below those of version 2, and the epoch
/// stays (wire-apis §4).
#[test]
fn version_1_adds_first_and_keeps_its_epoch() {
    let fake = listen(1, true, agreeable(0));
    let (producer, _) = run_transaction(&fake);
    assert_eq!(producer.identity().producer_epoch, ProducerEpoch(3));
    drop(producer);
    let seen: Vec<_> = fake.seen.iter().collect();
    let expected = [
        (ApiKey::ApiVersions, 3),
        (ApiKey::InitProducerId, 5),
        (ApiKey::AddPartitionsToTxn, 3),
        (ApiKey::Produce, 11),
        (ApiKey::AddOffsetsToTxn, 4),
        (ApiKey::TxnOffsetCommit, 4),
        (ApiKey::EndTxn, 4),
    ];
    assert_eq!(seen, expected);
}

/// A code that says "later" is obeyed, with the same request.
#[test]
fn a_retriable_refusal_is_asked_again() {
    let fake = listen(2, true, agreeable(2));
    run_transaction(&fake);
    let produced = fake.seen.iter().filter(|(api_key, _)| *api_key == ApiKey::Produce).count();
    assert_eq!(produced, 3);
}

/// A broker that does not know ApiVersions 3 is asked again in version 0 (wire-apis §2).
#[test]
fn an_older_broker_is_asked_in_version_0() {
    let fake = listen(0, false, agreeable(0));
    let connection = Connection::open(fake.address, &Options::default()).expect("connects");
    assert!(connection.apis().range(ApiKey::Produce).is_some());
    assert_eq!(connection.apis().transaction_version(), TransactionVersion::V0);
    drop(connection);
    let seen: Vec<_> = fake.seen.iter().collect();
    assert_eq!(seen, [(ApiKey::ApiVersions, 3), (ApiKey::ApiVersions, 0)]);
}

/// K1: an answer under another correlation id is nobody's answer.
#[test]
fn another_requests_answer_is_an_error() {
    let misplaced = |_: &_, _| Reply::Misplaced(ResponseBody::EndTxn(Default::default()));
    let fake = listen(2, true, Box::new(misplaced));
    let mut connection = Connection::open(fake.address, &Options::default()).expect("connects");
    let answer = connection.call(&Identity::new("id").end_txn(TransactionResult::Abort));
    assert!(matches!(answer, Err(ClientError::Correlation { expected: 1, found: 2 })), "{answer:?}");
}

/// K2: a frame that is announced larger than the limit, empty, or longer than what comes is an error.
#[test]
fn announced_lengths_are_not_believed() {
    for bytes in [vec![0x7f, 0xff, 0xff, 0xff], vec![0; 4], vec![0x06, 0, 0, 0, 1, 2, 3]] {
        let fake = listen(2, true, Box::new(move |_, _| Reply::Raw(bytes.clone())));
        let mut connection = Connection::open(fake.address, &Options::default()).expect("connects");
        let answer = connection.call(&Identity::new("id").end_txn(TransactionResult::Abort));
        assert!(matches!(answer, Err(ClientError::FrameSize(_) | ClientError::Io { .. })), "{answer:?}");
    }
}

/// K4: an API that the broker does not serve is not asked for.
#[test]
fn a_version_that_one_side_lacks_is_not_used() {
    let apis = fencepost_client::Apis::new(&m::ApiVersionsResponse::default());
    let version = apis.version::<m::EndTxnRequest>(5);
    assert!(matches!(version, Err(ClientError::NoCommonVersion { api_key: ApiKey::EndTxn, wanted: 5 })));
}

/// The batches of two producers: 7 aborts what begins at 0 and later commits, 8 commits.
fn interleaved() -> Partitions {
    let data = |id: i64, base: i64, sequence: i32, value: &[u8]| {
        let identity = Identity {
            transactional_id: String::new(),
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(0),
        };
        let mut bytes = identity.batch(Sequence(sequence), Millis(1), &[(None, Some(value))]).to_vec();
        // The base offset is the leader's to set, outside the checksum.
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes
    };
    let marker = |id: i64, base: i64, result| {
        let marker = EndTxnMarker { result, coordinator_epoch: CoordinatorEpoch(0) };
        let (id, epoch) = (ProducerId(id), ProducerEpoch(0));
        marker.to_batch(Offset(base), LeaderEpoch(0), id, epoch, Millis(1)).into_bytes().to_vec()
    };
    let log = [
        data(7, 0, 0, b"aborted"),
        data(8, 1, 0, b"committed"),
        data(7, 2, 1, b"aborted"),
        marker(7, 3, TransactionResult::Abort),
        data(7, 4, 2, b"committed later"),
        marker(8, 5, TransactionResult::Commit),
        marker(7, 6, TransactionResult::Commit),
    ];
    Partitions {
        aborted_transactions: Some(vec![AbortedTransactions { producer_id: 7, first_offset: 0 }]),
        records: Some(log.into_iter().map(Into::into).collect()),
        ..Partitions::default()
    }
}

/// What was aborted is left out from its first offset to its marker, not before and not after.
#[test]
fn aborted_records_are_left_out_up_to_their_marker() {
    let mut records = Vec::new();
    let next = committed::committed(&interleaved(), Offset(0), &mut records).expect("good batches");
    assert_eq!(next, Offset(7));
    let values: Vec<_> = records.iter().map(|record| record.value.as_deref().unwrap_or_default()).collect();
    assert_eq!(values, [b"committed".as_slice(), b"committed later"]);
}

/// Records below the offset asked for are left out: the first batch may begin before it.
#[test]
fn records_below_the_offset_asked_for_are_left_out() {
    let mut records = Vec::new();
    committed::committed(&interleaved(), Offset(2), &mut records).expect("good batches");
    assert_eq!(records.iter().map(|record| record.offset).collect::<Vec<_>>(), [Offset(4)]);
}
