//! Headers, versions, what is advertised, and what clients are told about places.

use fencepost_broker::{Listener, Outcome};
use fencepost_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, CreatePartitionsRequest, CreateTopicsRequest,
    DescribeAclsRequest, FindCoordinatorRequest, MetadataRequest, UnregisterBrokerRequest,
    UpdateFeaturesRequest, create_partitions_request, create_topics_request, metadata_request,
    update_features_request,
};
use fencepost_protocol::{ApiKey, encode_request};
use fencepost_types::wire::{Reader, Writer};
use fencepost_types::{ErrorCode, Uuid};

use crate::harness::requests::fetch;
use crate::harness::{Client, World};

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1.0".to_owned(),
        node_id: -1,
        ..Default::default()
    }
}

/// Wire-apis trap 1: the answer to a flexible ApiVersions has the old header, without tags, and a flexible body.
#[test]
fn the_answer_to_api_versions_has_header_version_0() {
    let client = World::new().client();
    for version in 0..=5 {
        let frame = client.send(version, &api_versions()).outcome.frame();
        let mut reader = Reader::new(frame);
        assert_eq!(reader.i32().unwrap(), i32::from(version) + 1, "the correlation id");
        let body = ApiVersionsResponse::decode(&mut reader, version).unwrap();
        assert_eq!((body.error_code, reader.remaining()), (0, 0), "version {version}");
    }
}

/// Wire-apis trap 2: a version that is not known is answered in version 0 with error 35 and the range of this one API,
/// whatever the body holds; also version −1. Its header must be good.
#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let client = World::new().client();
    for version in [6, 99, -1] {
        let mut frame = Writer::new();
        frame.i16(ApiKey::ApiVersions.code());
        frame.i16(version);
        frame.i32(77);
        frame.nullable_string(Some("new"), false);
        frame.uvarint(0);
        frame.i64(0x5555_5555);
        let mut reader = Reader::new(client.send_frame(frame.into_bytes()).frame());
        assert_eq!(reader.i32().unwrap(), 77);
        let body = ApiVersionsResponse::decode(&mut reader, 0).unwrap();
        let rows: Vec<_> =
            body.api_keys.iter().map(|row| (row.api_key, row.min_version, row.max_version)).collect();
        assert_eq!((body.error_code, rows), (35, vec![(18, 0, 5)]));
        assert_eq!(reader.remaining(), 0);
    }
}

/// Wire-apis §2: an unknown API, a version that is not served, a body or a header that cannot be read: the connection
/// is closed, as no answer could be decoded.
#[test]
fn what_cannot_be_answered_closes_the_connection() {
    let client = World::new().client();
    let header = |api_key: i16, version: i16| {
        let mut frame = Writer::new();
        frame.i16(api_key);
        frame.i16(version);
        frame.i32(1);
        frame.nullable_string(None, false);
        frame
    };
    let whole = encode_request(1, None, 12, &fetch("t", 0, 0, 0)).into_bytes();
    let frames = [
        header(999, 0).into_bytes(),
        header(ApiKey::Produce.code(), 2).into_bytes(),
        header(ApiKey::InitProducerId.code(), 6).into_bytes(),
        header(ApiKey::Heartbeat.code(), 0).into_bytes(),
        header(ApiKey::StreamsGroupHeartbeat.code(), 2).into_bytes(),
        whole.slice(..whole.len() - 1),
        whole.slice(..6),
        bytes::Bytes::new(),
    ];
    for frame in frames {
        let outcome = client.send_frame(frame.clone()).get();
        assert_eq!(outcome, Some(Outcome::Close), "{frame:02x?}");
    }
}

/// Wire-apis trap 3: Produce is advertised from 0 and JoinGroup from 0, or old librdkafka loses compression and groups.
/// Wire-apis §3: AddPartitionsToTxn up to 3, InitProducerId up to 5.
#[test]
fn what_is_advertised_is_what_old_clients_probe_for() {
    let client = World::new().client();
    let answer = client.ask(4, &api_versions());
    let range = |key: ApiKey| {
        let row = answer.api_keys.iter().find(|row| row.api_key == key.code()).unwrap();
        (row.min_version, row.max_version)
    };
    assert_eq!(range(ApiKey::Produce), (0, 13));
    assert_eq!(range(ApiKey::JoinGroup), (0, 9));
    assert_eq!(range(ApiKey::AddPartitionsToTxn), (0, 3));
    assert_eq!(range(ApiKey::InitProducerId), (0, 5));
    let silent = ApiKey::GetTelemetrySubscriptions.code();
    assert!(answer.api_keys.iter().all(|row| row.api_key != silent));
}

/// Issue 12, C22: what is advertised is what a combined node of Kafka 4.4.0 advertises, API by API and version by version, but for
/// AddPartitionsToTxn, whose later versions are for brokers. Tools guess a broker's version from this list.
#[test]
fn what_is_advertised_is_what_kafka_advertises() {
    let recorded = include_str!("../../../../testing/conformance/api-versions.json");
    let row = |line: &str| -> Option<(i16, i16, i16)> {
        let inner = line.trim().trim_end_matches(',').strip_prefix('[')?.strip_suffix(']')?;
        let parts: Vec<&str> = inner.split(", ").collect();
        let number = |at: usize| parts.get(at)?.parse().ok();
        Some((number(0)?, number(2)?, number(3)?))
    };
    let mut kafka: Vec<_> = recorded.lines().filter_map(row).collect();
    assert!(kafka.len() > 70, "{}", kafka.len());
    for (key, _, max) in &mut kafka {
        if *key == ApiKey::AddPartitionsToTxn.code() {
            *max = 3;
        }
    }
    let answer = World::new().client().ask(4, &api_versions());
    let ours: Vec<_> =
        answer.api_keys.iter().map(|row| (row.api_key, row.min_version, row.max_version)).collect();
    assert_eq!(ours, kafka);
}

/// `unstable.api.versions.enable` offers InitProducerId 6, and answers it; without it the connection is closed.
#[test]
fn unstable_versions_are_served_where_they_are_enabled() {
    let init = crate::harness::requests::init("x", 60_000);
    let world = World::with(&[("unstable.api.versions.enable", "true")]);
    let client = world.client();
    let answer = client.ask(4, &api_versions());
    let row = |key: ApiKey| answer.api_keys.iter().find(|row| row.api_key == key.code()).unwrap();
    assert_eq!(row(ApiKey::InitProducerId).max_version, 6);
    assert_eq!(row(ApiKey::EndTxn).max_version, 5);
    let told = client.ask(6, &init);
    assert_eq!((told.error_code, told.ongoing_txn_producer_id), (0, -1), "{told:?}");
    let frame = encode_request(1, None, 6, &init).into_bytes();
    assert_eq!(World::new().client().send_frame(frame).get(), Some(Outcome::Close));
}

/// Wire-apis trap 4: features whose lowest level is 0 are kept from request version 3, which cannot bear them.
#[test]
fn features_from_level_0_are_kept_from_version_3() {
    let client = World::new().client();
    let old = client.ask(3, &api_versions());
    assert!(old.supported_features.iter().all(|feature| feature.min_version > 0), "{old:?}");
    let new = client.ask(4, &api_versions());
    assert!(new.supported_features.iter().any(|feature| feature.min_version == 0), "{new:?}");
    for answer in [old, new] {
        let version = answer.finalized_features.iter().find(|feature| feature.name == "transaction.version");
        assert_eq!(
            version.map(|feature| feature.max_version_level),
            Some(2),
            "the switch of transactions V2"
        );
        assert!(answer.finalized_features.iter().all(|feature| feature.max_version_level > 0));
    }
}

/// A feature that is said to be supported can be finalized at every level that is said: a tool that raises what it sees
/// is not refused. What this broker only tolerates in a log of others is no such feature.
#[test]
fn what_is_said_to_be_supported_can_be_finalized() {
    let client = World::new().client();
    let told = client.ask(4, &api_versions());
    let level = |name: &str| {
        let found = told.finalized_features.iter().find(|feature| feature.name == name);
        found.map_or(0, |feature| feature.max_version_level)
    };
    for feature in told.supported_features.iter().filter(|feature| feature.name != "kraft.version") {
        if level(&feature.name) < feature.max_version {
            let update = update_features_request::FeatureUpdates {
                feature: feature.name.clone(),
                max_version_level: feature.max_version,
                ..Default::default()
            };
            let request = UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() };
            let answer = client.ask(1, &request);
            assert_eq!(answer.error_code, 0, "{}: {:?}", feature.name, answer.error_message);
        }
    }
}

/// Wire-apis trap 5: the epoch of the finalized features is never −1, grows with every change, and outlives a restart.
#[test]
fn the_epoch_of_features_grows() {
    let world = World::new();
    let epoch = |client: &Client| client.ask(4, &api_versions()).finalized_features_epoch;
    let first = epoch(&world.client());
    assert!(first >= 0);
    world.create_topic("t", 1);
    let second = epoch(&world.client());
    assert!(second > first);
    world.restart();
    assert!(epoch(&world.client()) > second);
}

/// Wire-apis trap 24: a node id without a cluster id (and the reverse) is INVALID_REQUEST; the wrong cluster or node is
/// REBOOTSTRAP_REQUIRED; ours is fine.
#[test]
fn api_versions_checks_whom_the_client_expects() {
    let client = World::new().client();
    let cluster = client.ask(1, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() });
    let node = cluster.brokers[0].node_id;
    let cluster_id =
        client.ask(2, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).cluster_id;
    let code = |cluster_id: Option<String>, node_id: i32| {
        client.ask(5, &ApiVersionsRequest { cluster_id, node_id, ..api_versions() }).error_code
    };
    assert_eq!(code(None, 0), ErrorCode::InvalidRequest.code());
    assert_eq!(code(cluster_id.clone(), -1), ErrorCode::InvalidRequest.code());
    assert_eq!(code(Some("another".to_owned()), node), ErrorCode::RebootstrapRequired.code());
    assert_eq!(code(cluster_id.clone(), node + 1), ErrorCode::RebootstrapRequired.code());
    assert_eq!(code(cluster_id, node), 0);
}

/// Wire-apis trap 33: who comes by a listener is told that listener's address, by Metadata and by FindCoordinator.
#[test]
fn clients_are_told_the_address_of_their_own_listener() {
    let world = World::new();
    let outside = Listener { name: "OUTSIDE".to_owned(), host: "broker.example".to_owned(), port: 19092 };
    for (client, host, port) in
        [(world.client(), "localhost", 9092), (world.client_via(outside), "broker.example", 19092)]
    {
        let metadata = client.ask(12, &MetadataRequest { topics: None, ..Default::default() });
        let brokers: Vec<_> =
            metadata.brokers.iter().map(|broker| (broker.host.as_str(), broker.port)).collect();
        assert_eq!(brokers, [(host, port)]);
        let keys = vec!["g".to_owned()];
        let found = client.ask(4, &FindCoordinatorRequest { coordinator_keys: keys, ..Default::default() });
        assert_eq!((found.coordinators[0].host.as_str(), found.coordinators[0].port), (host, port));
    }
}

/// Wire-apis trap 20: the node that a KIP-951 hint names is in the answer's endpoints, at the address that Metadata
/// gives.
#[test]
fn a_leader_hint_comes_with_its_endpoint() {
    let world = World::new();
    let id = world.create_topic("t", 1);
    world.restart();
    let client = world.client();
    let mut request = fetch("t", 0, 0, 0);
    request.topics[0].topic_id = id;
    // The leader epoch went up with the restart, or is 0: one below the current one is fenced.
    let metadata = client.ask(12, &MetadataRequest { topics: None, ..Default::default() });
    let topic = metadata.topics.iter().find(|topic| topic.name.as_deref() == Some("t")).unwrap();
    let epoch = topic.partitions[0].leader_epoch;
    assert!(epoch > 0, "a restart is a new leadership");
    request.topics[0].partitions[0].current_leader_epoch = epoch - 1;
    let answer = client.ask(16, &request);
    let row = &answer.responses[0].partitions[0];
    assert_eq!(row.error_code, ErrorCode::FencedLeaderEpoch.code());
    assert_eq!(
        (row.current_leader.leader_id, row.current_leader.leader_epoch),
        (metadata.brokers[0].node_id, epoch)
    );
    let endpoint = &answer.node_endpoints[0];
    let broker = &metadata.brokers[0];
    assert_eq!(
        (endpoint.node_id, endpoint.host.as_str(), endpoint.port),
        (broker.node_id, broker.host.as_str(), broker.port)
    );
    // UNKNOWN_LEADER_EPOCH never carries one.
    request.topics[0].partitions[0].current_leader_epoch = epoch + 1;
    let answer = client.ask(16, &request);
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::UnknownLeaderEpoch.code());
    assert_eq!(answer.responses[0].partitions[0].current_leader.leader_id, -1);
    assert!(answer.node_endpoints.is_empty());
}

/// Wire-apis trap 21: every topic has an id other than zero, the internal ones too, and keeps it over a restart.
#[test]
fn topics_have_ids() {
    let world = World::new();
    let created = world.create_topic("t", 1);
    let ids = |client: &Client| {
        let answer = client.ask(12, &MetadataRequest { topics: None, ..Default::default() });
        let topics = answer.topics.into_iter();
        topics.map(|topic| (topic.name.unwrap(), topic.topic_id)).collect::<Vec<_>>()
    };
    let before = ids(&world.client());
    assert_eq!(before.len(), 3);
    assert!(before.iter().all(|(_, id)| *id != Uuid::ZERO), "{before:?}");
    assert!(before.contains(&("t".to_owned(), created)));
    world.restart();
    assert_eq!(ids(&world.client()), before);
    // By id, from version 12 on.
    let by_id = metadata_request::Topics { topic_id: created, name: None };
    let answer = world.client().ask(12, &MetadataRequest { topics: Some(vec![by_id]), ..Default::default() });
    assert_eq!(answer.topics[0].error_code, 0);
}

/// Decision 26; issue 12, C22: the running broker does not unregister itself and goes on to serve. Kafka's would answer NONE and be a stranger
/// to its own controller from then on.
#[test]
fn a_running_broker_is_not_unregistered() {
    let world = World::new();
    let client = world.client();
    let unregister = |broker_id| client.ask(0, &UnregisterBrokerRequest { broker_id });
    let own = unregister(1);
    assert_eq!(own.error_code, ErrorCode::InvalidRequest.code());
    let other = unregister(99);
    assert_eq!(other.error_code, ErrorCode::BrokerIdNotRegistered.code());
    assert_eq!(other.error_message.as_deref(), Some("Broker ID 99 is not currently registered"));
    world.create_topic("t", 1);
}

/// Issue 12, C21: tools look into the texts of refusals, so these are Kafka 4.4.0's, which was asked the same.
#[test]
fn refusals_are_in_the_words_that_tools_look_for() {
    let world = World::new();
    let client = world.client();
    world.create_topic("a.b", 3);
    let create = |name: &str, num_partitions| {
        let topic = create_topics_request::Topics {
            name: name.to_owned(),
            num_partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, validate_only: true };
        client.ask(7, &request).topics[0].error_message.clone().unwrap()
    };
    assert_eq!(create("a.b", 1), "Topic 'a.b' already exists.");
    assert_eq!(create("a_b", 1), "Topic 'a_b' collides with existing topic: a.b");
    assert_eq!(create("c", 0), "Number of partitions was set to an invalid non-positive value.");
    let grow = |count| {
        let topic = create_partitions_request::Topics { name: "a.b".to_owned(), count, ..Default::default() };
        let request = CreatePartitionsRequest { topics: vec![topic], timeout_ms: 1_000, validate_only: true };
        client.ask(3, &request).results[0].error_message.clone().unwrap()
    };
    assert_eq!(grow(2), "The topic a.b currently has 3 partition(s); 2 would not be an increase.");
    assert_eq!(grow(-1), "The topic a.b currently has 3 partition(s); -1 would not be an increase.");
    assert_eq!(grow(3), "Topic already has 3 partition(s).");
    let acls = client.ask(3, &DescribeAclsRequest::default());
    assert_eq!(acls.error_message.as_deref(), Some("No Authorizer is configured on the broker"));
}
