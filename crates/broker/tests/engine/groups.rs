//! Groups over the wire: members, offsets in transactions, where a group lives.

use bytes::Bytes;
use fencepost_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    OffsetCommitRequest, SyncGroupRequest, UpdateFeaturesRequest, join_group_request, offset_commit_request,
    update_features_request,
};
use fencepost_types::{ErrorCode, Uuid};

use crate::harness::requests::{commit_offset, committed_offset};
use crate::harness::{Client, Producer, World};

fn join(group_id: &str, member_id: &str) -> JoinGroupRequest {
    let protocol =
        join_group_request::Protocols { name: "range".to_owned(), metadata: Bytes::from_static(b"m") };
    JoinGroupRequest {
        group_id: group_id.to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        member_id: member_id.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

/// Joins a group of one, and settles it.
fn join_alone(client: &Client, group_id: &str) -> JoinGroupResponse {
    let named = client.ask(5, &join(group_id, ""));
    assert_eq!(named.error_code, ErrorCode::MemberIdRequired.code());
    let joined = client.ask(5, &join(group_id, &named.member_id));
    assert_eq!((joined.error_code, &joined.member_id), (0, &named.member_id));
    let sync = SyncGroupRequest {
        group_id: group_id.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    assert_eq!(client.ask(3, &sync).error_code, 0);
    joined
}

/// Wire-apis trap 25: a first JoinGroup without a member id is sent back with one from version 4 on; older versions are
/// let in directly.
#[test]
fn old_clients_join_without_a_member_id() {
    let world = World::new();
    for version in [0, 3] {
        let joined = world.client().ask(version, &join(&format!("old{version}"), ""));
        assert_eq!(joined.error_code, 0);
        assert!(!joined.member_id.is_empty());
    }
    let refused = world.client().ask(4, &join("new", ""));
    assert_eq!(refused.error_code, ErrorCode::MemberIdRequired.code());
    assert!(!refused.member_id.is_empty());
}

/// Wire-apis trap 15 (KIP-447): offsets in a transaction are fenced by generation and member.
#[test]
fn offsets_of_a_zombie_are_refused() {
    let world = World::new();
    world.create_topic("t", 1);
    let member = join_alone(&world.client(), "g");
    let producer = Producer::start(world.client(), "x");
    let code = |generation: i32, member_id: &str| {
        let mut request = producer.offset_request("g", "t", 5);
        request.generation_id_or_member_epoch = generation;
        request.member_id = member_id.to_owned();
        producer.client.ask(5, &request).topics[0].partitions[0].error_code
    };
    let generation = member.generation_id;
    assert_eq!(code(generation + 1, &member.member_id), ErrorCode::IllegalGeneration.code());
    assert_eq!(code(generation, "zombie"), ErrorCode::UnknownMemberId.code());
    assert_eq!(code(-1, &member.member_id), ErrorCode::IllegalGeneration.code());
    assert_eq!(code(generation, &member.member_id), 0);
    producer.end(5, true);
    assert_eq!(committed_offset(&world.client(), "g", "t", true), (5, 0));
}

/// Wire-apis trap 26: for a group of the new protocol, too, a commit in a transaction may name no member.
#[test]
fn a_commit_without_a_member_is_let_into_a_new_group() {
    let world = World::new();
    world.create_topic("t", 1);
    let heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: "m".to_owned(),
        member_epoch: 0,
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    assert_eq!(world.client().ask(1, &heartbeat).error_code, 0);
    let producer = Producer::start(world.client(), "x");
    let mut request = producer.offset_request("g", "t", 5);
    request.generation_id_or_member_epoch = -1;
    let answer = producer.client.ask(5, &request);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    producer.end(5, true);
    assert_eq!(committed_offset(&world.client(), "g", "t", true), (5, 0));
}

/// What does not exist is told as it is, beside what is committed, in the order of the request: by name, and in the
/// versions that have ids alone by id (`coordinator §11.1`, wire-apis §3).
#[test]
fn what_does_not_exist_is_told_beside_what_is_committed() {
    let world = World::new();
    let (id, unknown_id) = (world.create_topic("t", 1), Uuid::from_random(42));
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    for (version, unknown_topic) in [(8, unknown), (10, ErrorCode::UnknownTopicId.code())] {
        let topic = |name: &str, topic_id: Uuid, partitions: &[i32]| offset_commit_request::Topics {
            name: name.to_owned(),
            topic_id,
            partitions: partitions
                .iter()
                .map(|index| offset_commit_request::Partitions {
                    partition_index: *index,
                    committed_offset: 7,
                    ..Default::default()
                })
                .collect(),
        };
        let request = OffsetCommitRequest {
            group_id: "g".to_owned(),
            generation_id_or_member_epoch: -1,
            topics: vec![topic("nowhere", unknown_id, &[0]), topic("t", id, &[9, 0])],
            ..Default::default()
        };
        let answer = world.client().ask(version, &request);
        let rows: Vec<Vec<_>> = answer
            .topics
            .iter()
            .map(|topic| topic.partitions.iter().map(|row| (row.partition_index, row.error_code)).collect())
            .collect();
        assert_eq!(rows, [vec![(0, unknown_topic)], vec![(9, unknown), (0, 0)]], "OffsetCommit {version}");
    }
    let producer = Producer::start(world.client(), "x");
    for (version, unknown_topic) in [(3, unknown), (5, unknown), (6, ErrorCode::UnknownTopicId.code())] {
        let mut request = producer.offset_request("g", "nowhere", 7);
        request.generation_id_or_member_epoch = -1;
        request.topics[0].topic_id = unknown_id;
        let mut known = request.topics[0].clone();
        (known.name, known.topic_id) = ("t".to_owned(), id);
        let mut beyond = known.partitions[0].clone();
        beyond.partition_index = 9;
        known.partitions.insert(0, beyond);
        request.topics.push(known);
        let answer = producer.client.ask(version, &request);
        let rows: Vec<Vec<_>> = answer
            .topics
            .iter()
            .map(|topic| topic.partitions.iter().map(|row| (row.partition_index, row.error_code)).collect())
            .collect();
        // Version 3 does not add the partition of the offsets: what exists is refused, in the words of old clients.
        let committed = if version < 5 { ErrorCode::InvalidTxnState.code() } else { 0 };
        assert_eq!(rows, [vec![(0, unknown_topic)], vec![(9, unknown), (0, committed)]], "version {version}");
    }
}

/// A second member waits in the rebalance until the first has joined again, or has had its time.
#[test]
fn a_join_waits_for_the_others() {
    let world = World::new();
    let first = join_alone(&world.client(), "g");
    let named = world.client().ask(5, &join("g", ""));
    let second_client = world.client();
    let second = second_client.send(5, &join("g", &named.member_id));
    world.settle();
    assert!(!second.is_done());
    let again = world.client().send(5, &join("g", &first.member_id));
    world.settle();
    assert_eq!((second.answer().error_code, again.answer().error_code), (0, 0));
    assert_eq!(second.answer().generation_id, first.generation_id + 1);
    assert_eq!(again.answer().members.len(), 2);
    // The first does not come back: the third joins when the rebalance timeout is over, and not before.
    let named = world.client().ask(5, &join("g", ""));
    let third_client = world.client();
    let third = third_client.send(5, &join("g", &named.member_id));
    world.settle();
    world.advance_ms(9_000);
    assert!(!third.is_done());
    world.advance_ms(20_000);
    world.settle();
    assert_eq!(third.answer().error_code, 0);
}

/// Storage-formats trap 25, coordinator trap 1: a group lives in the partition that Java's hash of its UTF-16 units gives.
#[test]
fn a_group_lives_where_java_would_look_for_it() {
    // What Java says: `Math.abs("my-app-1".hashCode()) % 50`, of a negative hash, for which a mask would give 44; of UTF-8
    // bytes the second has another hash; the hash of the last is `Integer.MIN_VALUE`, which counts as 0.
    let java = [("my-app-1", 4), ("grüße-\u{10400}", 5), ("plain", 12), ("", 0), ("polygenelubricants", 0)];
    let world = World::with(&[("offsets.topic.num.partitions", "50")]);
    world.create_topic("t", 1);
    for (group, partition_of_group) in java {
        let before = world.log_ends("__consumer_offsets");
        let answer = world.client().ask(8, &commit_offset(group, 7));
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        let after = world.log_ends("__consumer_offsets");
        let grown: Vec<_> = (0..50).filter(|at| after[*at] > before[*at]).collect();
        assert_eq!(grown, [partition_of_group], "{group:?}");
    }
}

/// What a member that joins by the consumer protocol hears, and what who describes its group does, each group for itself.
fn consumer_protocol(world: &std::rc::Rc<World>) -> (i16, Vec<(String, i16)>) {
    let join = ConsumerGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: "m".to_owned(),
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let joined = world.client().ask(1, &join).error_code;
    let ids = vec!["g".to_owned(), "h".to_owned()];
    let describe = ConsumerGroupDescribeRequest { group_ids: ids, ..Default::default() };
    let groups = world.client().ask(1, &describe).groups.into_iter();
    (joined, groups.map(|group| (group.group_id, group.error_code)).collect())
}

/// Issue 12, C19: where the consumer protocol is not among `group.coordinator.rebalance.protocols`, or `group.version` is
/// 0, nobody speaks it: UNSUPPORTED_VERSION, for each group described. Classic members are served, and a group that is
/// there is not lost.
#[test]
fn the_consumer_protocol_can_be_switched_off() {
    let named = |code: i16| vec![("g".to_owned(), code), ("h".to_owned(), code)];
    let off = (ErrorCode::UnsupportedVersion.code(), named(ErrorCode::UnsupportedVersion.code()));
    let on = (0, vec![("g".to_owned(), 0), ("h".to_owned(), ErrorCode::GroupIdNotFound.code())]);

    let world = World::with(&[("group.coordinator.rebalance.protocols", "classic")]);
    assert_eq!(consumer_protocol(&world), off);
    join_alone(&world.client(), "classic");

    let world = World::with(&[("group.coordinator.rebalance.protocols", "consumer,classic")]);
    assert_eq!(consumer_protocol(&world), on);
    for (level, upgrade_type, expected) in [(0, 2, &off), (1, 1, &on)] {
        let update = update_features_request::FeatureUpdates {
            feature: "group.version".to_owned(),
            max_version_level: level,
            upgrade_type,
            ..Default::default()
        };
        let request = UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() };
        assert_eq!(world.client().ask(1, &request).error_code, 0);
        assert_eq!(consumer_protocol(&world), *expected, "level {level}");
    }
}
