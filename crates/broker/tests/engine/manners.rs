//! How clients are treated beside the answer itself: sessions, versions that an operator takes back, throttling, topics made on the
//! way, SASL where there is none.

use fencepost_broker::Outcome;
use fencepost_protocol::messages::{
    ApiVersionsRequest, FetchRequest, FindCoordinatorRequest, InitProducerIdRequest, ListOffsetsRequest,
    MetadataRequest, OffsetCommitRequest, SaslAuthenticateRequest, SaslHandshakeRequest, metadata_request,
};
use fencepost_protocol::{ApiKey, Request, encode_request};
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_UNCOMMITTED, fetch, init, produce};
use crate::harness::{Client, Producer, World, plain_batch};

/// How many fetch sessions there may be.
const SESSIONS: usize = 1_000;

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1.0".to_owned(),
        node_id: -1,
        ..Default::default()
    }
}

fn range(client: &Client, key: ApiKey) -> (i16, i16) {
    let answer = client.ask(4, &api_versions());
    let row = answer.api_keys.iter().find(|row| row.api_key == key.code()).unwrap();
    (row.min_version, row.max_version)
}

/// A Fetch in a session, of whatever the session remembers and `topics`.
fn in_session(id: i32, epoch: i32, request: FetchRequest) -> FetchRequest {
    FetchRequest { session_id: id, session_epoch: epoch, rack_id: "r".to_owned(), ..request }
}

fn nothing_more() -> FetchRequest {
    FetchRequest { topics: Vec::new(), ..fetch("t", 0, 0, READ_UNCOMMITTED) }
}

/// Wire-apis trap 7: nobody is preferred over the leader here, and every answer says so, the first of a session and the
/// incremental ones, also to a client that names its rack.
#[test]
fn no_answer_sends_a_consumer_elsewhere() {
    let world = World::with(&[("broker.rack", "r")]);
    world.create_topic("t", 1);
    let client = world.client();
    let first = client.ask(12, &in_session(0, 0, fetch("t", 0, 0, READ_UNCOMMITTED)));
    assert_eq!(first.responses[0].partitions[0].preferred_read_replica, -1);
    let records = plain_batch(world.now().wall, &["a"]);
    world.client().ask(9, &produce(None, -1, vec![("t", 0, records)]));
    let next = client.ask(12, &in_session(first.session_id, 1, nothing_more()));
    let row = &next.responses[0].partitions[0];
    assert_eq!((row.preferred_read_replica, row.high_watermark), (-1, 1));
}

/// Wire-apis trap 16 (KAFKA-19367): a new instance over an open transaction of version 2 raises the epoch once for the abort and
/// once for itself, however often it has to ask.
#[test]
fn a_fence_and_its_retries_raise_the_epoch_once_each() {
    let world = World::new();
    world.create_topic("t", 1);
    let mut producer = Producer::start(world.client(), "x");
    for _ in 0..10 {
        let (id, before) = producer.id.get();
        producer.produce(12, "t", 0, &["open"]);
        let client = world.client();
        let mut asked = 0;
        let answer = loop {
            asked += 1;
            let answer = client.ask(5, &init("x", 60_000));
            if answer.error_code != ErrorCode::ConcurrentTransactions.code() {
                break answer;
            }
            assert!(asked < 5, "CONCURRENT_TRANSACTIONS for ever");
        };
        assert_eq!((answer.error_code, answer.producer_id, answer.producer_epoch), (0, id, before + 2));
        producer = Producer::holding(client, "x", (id, before + 2));
    }
}

/// Wire-apis trap 17 (KAFKA-9600): an EndTxn with a newer epoch than the stored one is fenced like one with an older.
#[test]
fn an_end_needs_the_very_epoch() {
    for (version, fenced) in [(1, ErrorCode::InvalidProducerEpoch), (4, ErrorCode::ProducerFenced)] {
        let world = World::new();
        world.create_topic("t", 1);
        let producer = Producer::start(world.client(), "x");
        producer.add_partition("t", 0);
        let (id, right) = producer.id.get();
        for wrong in [right + 1, right + 2, i16::MAX] {
            producer.id.set((id, wrong));
            let answer = producer.client.ask(version, &producer.end_request(true));
            assert_eq!(answer.error_code, fenced.code(), "version {version}, epoch {wrong}");
        }
        producer.id.set((id, right));
        producer.end(version, true);
    }
}

/// Wire-apis trap 19: under version 1 a late batch of an ended transaction is not taken into the next one: its partition is not in
/// that, and the leader asks the coordinator. Under version 2 it has the epoch of before.
#[test]
fn a_late_batch_does_not_join_the_next_transaction() {
    let world = World::new();
    world.create_topic("t", 2);
    let late = |producer: &Producer, version: i16| {
        let request = producer.produce_request("t", 0, &["late"]);
        producer.client.ask(version, &request).responses[0].partition_responses[0].error_code
    };
    let producer = Producer::start(world.client(), "old");
    producer.add_partition("t", 0);
    producer.produce(11, "t", 0, &["first"]);
    producer.end(4, true);
    producer.add_partition("t", 1);
    assert_eq!(late(&producer, 11), ErrorCode::TransactionAbortable.code());
    assert_eq!(late(&producer, 9), ErrorCode::InvalidTxnState.code());
    producer.end(4, true);
    let producer = Producer::start(world.client(), "new");
    let before = producer.id.get();
    producer.produce(12, "t", 0, &["first"]);
    producer.end(5, true);
    producer.produce(12, "t", 1, &["next"]);
    producer.id.set(before);
    assert_eq!(late(&producer, 12), ErrorCode::InvalidProducerEpoch.code());
}

/// Wire-apis trap 22: for tools that a new version breaks an operator takes it back: it is neither shown nor served. What is no
/// version of an API stops the start with a sentence.
#[test]
fn an_operator_can_take_versions_back() {
    let world = World::with(&[("fencepost.api.versions.max", "OffsetCommit:9, ApiVersions:4,Produce:9")]);
    let client = world.client();
    assert_eq!(range(&client, ApiKey::OffsetCommit), (2, 9));
    assert_eq!(range(&client, ApiKey::Produce), (0, 9));
    assert_eq!(range(&client, ApiKey::OffsetFetch), (1, 10));
    let frame = |version: i16| {
        encode_request(
            1,
            None,
            version,
            &OffsetCommitRequest { group_id: "g".to_owned(), ..Default::default() },
        )
    };
    assert_eq!(client.send_frame(frame(10).into_bytes()).get(), Some(Outcome::Close));
    assert!(matches!(client.send_frame(frame(9).into_bytes()).get(), Some(Outcome::Frame(_))));
    // A client that asks for the version that was taken back is told the range, as with one that never was.
    let mut reader = fencepost_types::wire::Reader::new(client.send(5, &api_versions()).outcome.frame());
    assert_eq!(reader.i32().unwrap(), 4, "the correlation id");
    let body = <ApiVersionsRequest as Request>::Response::decode(&mut reader, 0).unwrap();
    assert_eq!((body.error_code, body.api_keys[0].max_version), (35, 4));
    for wrong in ["OffsetCommit", "OffsetCommit:11", "OffsetCommit:x", "Nothing:1", "InitProducerId:6"] {
        let sentence = World::refusal(&[("fencepost.api.versions.max", wrong)]);
        assert!(sentence.contains(wrong), "{sentence}");
    }
}

/// Wire-apis §6: a session that was dropped, by its client or for another, is FETCH_SESSION_ID_NOT_FOUND; one that is asked out of turn
/// is INVALID_FETCH_SESSION_EPOCH and lives on; without a slot a client is served all the same, with session id 0.
#[test]
fn a_client_without_a_session_is_served() {
    let world = World::new();
    world.create_topic("t", 1);
    let open = |client: &Client| client.ask(12, &in_session(0, 0, fetch("t", 0, 0, READ_UNCOMMITTED)));
    let (first, second) = (world.client(), world.client());
    let session = open(&first).session_id;
    assert!(session != 0);
    let crowd = world.client();
    let of_crowd: Vec<i32> = (1..SESSIONS).map(|_| open(&crowd).session_id).collect();
    assert!(!of_crowd.contains(&0));
    world.advance_ms(1);
    let served = open(&second);
    assert_eq!((served.error_code, served.session_id, served.responses.len()), (0, 0, 1));
    let code = |client: &Client, id: i32, epoch: i32| {
        client.ask(12, &in_session(id, epoch, nothing_more())).error_code
    };
    assert_eq!(code(&first, session, 5), ErrorCode::InvalidFetchSessionEpoch.code());
    assert_eq!(code(&first, session, 1), 0);
    assert_eq!(open(&second).session_id, 0);
    // What is unused for two minutes makes room, and what was used since stays.
    world.advance_ms(119_999);
    let taken = open(&second).session_id;
    assert!(taken != 0 && taken != session);
    let gone = of_crowd.iter().filter(|id| code(&crowd, **id, 1) == ErrorCode::FetchSessionIdNotFound.code());
    assert_eq!(gone.count(), 1);
    assert_eq!(code(&first, session, 2), 0);
    // Closed by its client, and never made.
    client_closes(&second, taken);
    assert_eq!(code(&second, taken, 1), ErrorCode::FetchSessionIdNotFound.code());
    assert_eq!(code(&second, 0, 3), ErrorCode::FetchSessionIdNotFound.code());
}

fn client_closes(client: &Client, session: i32) {
    let answer = client.ask(12, &in_session(session, -1, fetch("t", 0, 0, READ_UNCOMMITTED)));
    assert_eq!((answer.error_code, answer.session_id), (0, 0));
}

/// Wire-apis §10: nobody is throttled, and every answer that has room for it says 0.
#[test]
fn nobody_is_told_to_wait() {
    let world = World::new();
    world.create_topic("t", 1);
    let client = world.client();
    let records = plain_batch(world.now().wall, &["a"]);
    assert_eq!(client.ask(9, &produce(None, -1, vec![("t", 0, records)])).throttle_time_ms, 0);
    assert_eq!(client.ask(12, &fetch("t", 0, 0, READ_UNCOMMITTED)).throttle_time_ms, 0);
    assert_eq!(client.ask(12, &MetadataRequest { topics: None, ..Default::default() }).throttle_time_ms, 0);
    assert_eq!(client.ask(4, &api_versions()).throttle_time_ms, 0);
    assert_eq!(client.ask(4, &FindCoordinatorRequest::default()).throttle_time_ms, 0);
    assert_eq!(client.ask(5, &ListOffsetsRequest::default()).throttle_time_ms, 0);
    let alone = InitProducerIdRequest { producer_id: -1, producer_epoch: -1, ..Default::default() };
    assert_eq!(client.ask(4, &alone).throttle_time_ms, 0);
}

/// Wire-apis §7: a topic that is asked for is made where client and broker both allow it, and is there for the next
/// request; where one of them does not, it is unknown and stays so. Listing all topics makes none.
#[test]
fn topics_are_made_where_both_sides_allow_it() {
    for (broker_allows, client_allows) in [(true, true), (true, false), (false, true), (false, false)] {
        let world =
            World::with(&[("auto.create.topics.enable", if broker_allows { "true" } else { "false" })]);
        let client = world.client();
        let ask = |allow: bool| {
            let topic = metadata_request::Topics { name: Some("new".to_owned()), ..Default::default() };
            let request = MetadataRequest {
                topics: Some(vec![topic]),
                allow_auto_topic_creation: allow,
                ..Default::default()
            };
            client.ask(9, &request).topics[0].error_code
        };
        let first = ask(client_allows);
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        let both = broker_allows && client_allows;
        assert!(
            first == unknown
                || (both && first == ErrorCode::LeaderNotAvailable.code())
                || (both && first == 0)
        );
        assert_eq!(ask(false), if both { 0 } else { unknown });
    }
}

/// Wire-apis §10: on a listener without SASL a handshake is ILLEGAL_SASL_STATE and names no mechanism, and a token is
/// ILLEGAL_SASL_STATE too; the connection stays usable.
#[test]
fn sasl_is_refused_where_there_is_none() {
    let client = World::new().client();
    for version in [0, 1] {
        let request = SaslHandshakeRequest { mechanism: "PLAIN".to_owned() };
        let answer = client.ask(version, &request);
        assert_eq!(answer.error_code, ErrorCode::IllegalSaslState.code());
        assert!(answer.mechanisms.is_empty());
    }
    let answer = client.ask(2, &SaslAuthenticateRequest::default());
    assert_eq!(answer.error_code, ErrorCode::IllegalSaslState.code());
    assert_eq!(client.ask(4, &api_versions()).error_code, 0);
}
