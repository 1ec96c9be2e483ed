//! Issue 12, C17: keys of the broker that no other test names, each with the effect that a client sees.

use std::rc::Rc;

use bytes::Bytes;
use fencepost_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DescribeTopicPartitionsRequest,
    IncrementalAlterConfigsRequest, JoinGroupRequest, describe_topic_partitions_request,
    incremental_alter_configs_request, join_group_request,
};
use fencepost_types::ErrorCode;

use crate::harness::requests::{commit_offset, committed_offset, marker, write_markers};
use crate::harness::{Producer, World};

/// A first JoinGroup, of a version that lets a member in without an id; answers the code.
fn join(world: &Rc<World>, session_timeout_ms: i32) -> i16 {
    let protocol =
        join_group_request::Protocols { name: "range".to_owned(), metadata: Bytes::from_static(b"m") };
    let request = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms,
        rebalance_timeout_ms: 20_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..Default::default()
    };
    world.client().ask(3, &request).error_code
}

/// A member of the new protocol comes in, or is refused.
fn enter(world: &Rc<World>, member_id: &str) -> ConsumerGroupHeartbeatResponse {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: member_id.to_owned(),
        member_epoch: 0,
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    world.client().ask(1, &request)
}

/// Sets a key of the group `g`; answers the code.
fn set_of_group(world: &Rc<World>, key: &str, value: i32) -> i16 {
    const GROUP: i8 = 32;
    let config = incremental_alter_configs_request::Configs {
        name: key.to_owned(),
        config_operation: 0,
        value: Some(value.to_string()),
    };
    let resource = incremental_alter_configs_request::Resources {
        resource_type: GROUP,
        resource_name: "g".to_owned(),
        configs: vec![config],
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    world.client().ask(1, &request).responses[0].error_code
}

/// `group.min.session.timeout.ms` and `group.max.session.timeout.ms` are the first and the last that are let in.
#[test]
fn session_timeouts_of_classic_groups_have_limits() {
    let settings = [("group.min.session.timeout.ms", "8000"), ("group.max.session.timeout.ms", "12000")];
    let refused = ErrorCode::InvalidSessionTimeout.code();
    for (timeout_ms, code) in [(7_999, refused), (8_000, 0), (12_000, 0), (12_001, refused)] {
        assert_eq!(join(&World::with(&settings), timeout_ms), code, "{timeout_ms}");
    }
}

/// `group.max.size`: the member beyond it is refused.
#[test]
fn a_classic_group_has_a_size() {
    let world = World::with(&[("group.max.size", "1")]);
    assert_eq!(join(&world, 10_000), 0);
    assert_eq!(join(&world, 10_000), ErrorCode::GroupMaxSizeReached.code());
}

/// `group.consumer.max.size`, and `group.consumer.session.timeout.ms`: the one place is free when its member was silent so long,
/// and not a millisecond sooner. The heartbeat interval is told to members.
#[test]
fn a_consumer_group_has_a_size_and_times() {
    let world = World::with(&[
        ("group.consumer.max.size", "1"),
        ("group.consumer.session.timeout.ms", "50000"),
        ("group.consumer.heartbeat.interval.ms", "6000"),
    ]);
    world.create_topic("t", 1);
    let first = enter(&world, "a");
    assert_eq!((first.error_code, first.heartbeat_interval_ms), (0, 6_000));
    assert_eq!(enter(&world, "b").error_code, ErrorCode::GroupMaxSizeReached.code());
    world.advance_ms(49_999);
    assert_eq!(enter(&world, "b").error_code, ErrorCode::GroupMaxSizeReached.code());
    world.advance_ms(1);
    assert_eq!(enter(&world, "b").error_code, 0);
}

/// `group.consumer.min.*` and `group.consumer.max.*`: what a group may be given of its own.
#[test]
fn own_times_of_consumer_groups_have_limits() {
    let world = World::with(&[
        ("group.consumer.session.timeout.ms", "50000"),
        ("group.consumer.min.session.timeout.ms", "46000"),
        ("group.consumer.max.session.timeout.ms", "55000"),
        ("group.consumer.heartbeat.interval.ms", "7000"),
        ("group.consumer.min.heartbeat.interval.ms", "6000"),
        ("group.consumer.max.heartbeat.interval.ms", "8000"),
        ("group.consumer.assignment.interval.ms", "1000"),
        ("group.consumer.min.assignment.interval.ms", "500"),
        ("group.consumer.max.assignment.interval.ms", "2000"),
    ]);
    for (key, least, most) in [
        ("consumer.session.timeout.ms", 46_000, 55_000),
        ("consumer.heartbeat.interval.ms", 6_000, 8_000),
        ("consumer.assignment.interval.ms", 500, 2_000),
    ] {
        let refused = ErrorCode::InvalidConfig.code();
        for (value, code) in [(least - 1, refused), (least, 0), (most, 0), (most + 1, refused)] {
            assert_eq!(set_of_group(&world, key, value), code, "{key}={value}");
        }
    }
}

/// `offset.metadata.max.bytes`: the longest text is taken, a longer one refused.
#[test]
fn text_beside_an_offset_has_a_length() {
    let world = World::with(&[("offset.metadata.max.bytes", "10")]);
    world.create_topic("t", 1);
    for (length, code) in [(10, 0), (11, ErrorCode::OffsetMetadataTooLarge.code())] {
        let mut request = commit_offset("g", 5);
        request.topics[0].partitions[0].committed_metadata = Some("x".repeat(length));
        let answer = world.client().ask(8, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, code, "{length}");
    }
}

/// `offsets.retention.minutes` and `offsets.retention.check.interval.ms`: offsets that are two minutes old go at the first check
/// after that, which is the third.
#[test]
fn offsets_expire_at_a_check() {
    let world =
        World::with(&[("offsets.retention.minutes", "2"), ("offsets.retention.check.interval.ms", "50000")]);
    world.create_topic("t", 1);
    let answer = world.client().ask(8, &commit_offset("g", 5));
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    world.advance_ms(149_999);
    world.settle();
    assert_eq!(committed_offset(&world.client(), "g", "t", false), (5, 0));
    world.advance_ms(1);
    world.settle();
    assert_eq!(committed_offset(&world.client(), "g", "t", false), (-1, 0));
}

/// `request.timeout.ms`: markers of another coordinator are waited for so long.
#[test]
fn markers_are_waited_for_so_long() {
    let world = World::with(&[("request.timeout.ms", "5000")]);
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    let sender = world.client();
    let call = sender.send(1, &write_markers(vec![marker(producer.id.get(), true, 0, &[("t", 0)])]));
    world.advance_ms(4_999);
    assert!(!call.is_done(), "nothing is durable");
    world.advance_ms(1);
    let row = call.answer().markers[0].topics[0].partitions[0].error_code;
    assert_eq!(row, ErrorCode::RequestTimedOut.code());
    world.settle();
}

/// `max.request.partition.size.limit`: a page has no more partitions, however many are asked for.
#[test]
fn a_page_of_partitions_has_a_size() {
    let world = World::with(&[("max.request.partition.size.limit", "3")]);
    world.create_topic("t", 5);
    let topics = vec![describe_topic_partitions_request::Topics { name: "t".to_owned() }];
    let answer = world.client().ask(0, &DescribeTopicPartitionsRequest { topics, ..Default::default() });
    assert_eq!(answer.topics[0].partitions.len(), 3);
    assert_eq!(answer.next_cursor.map(|cursor| cursor.partition_index), Some(3));
}
