//! Issue 12, B7: what a small request can cost. Each API gets a request that names one thing as often as fits into 100 kB;
//! the answer's bytes, and the memory that is held at once while it is made, stay within so many times the request's.

pub mod hostile;

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use fencepost_broker::Outcome;
use fencepost_protocol::messages::{
    ApiVersionsRequest, ConsumerGroupHeartbeatRequest, JoinGroupRequest, OffsetCommitRequest,
    OffsetDeleteRequest, SyncGroupRequest, join_group_request, offset_commit_request, offset_delete_request,
    sync_group_request,
};
use fencepost_protocol::{ApiKey, encode_request};

use fencepost_types::limits::DECODED_ELEMENTS_MAX;

use crate::allocations;
use crate::harness::{Producer, World};

/// The page that shows the table.
const PAGE: &str = include_str!("../../../../../docs/limits.md");
/// An answer may always be this long: what there is, told once, and a few times more.
const ANSWER_BYTES_FREE: usize = 2_000_000;
/// Memory that any request may hold.
const MEMORY_BYTES_FREE: usize = 8_000_000;

/// Memory for the most names that a request can have, those of the dearest API.
const NAMES_MEMORY_BYTES_MAX: usize = 300_000_000;

/// Producers of partition 0 of "t", partitions of "many".
const PRODUCERS: usize = 300;
const PARTITIONS: i32 = 100;

/// A world in which there is much to tell of little: a partition with many producers, a transaction with many partitions,
/// groups with much to say, offsets with long words.
fn world() -> Rc<World> {
    let world = World::with(&[("group.initial.rebalance.delay.ms", "0")]);
    world.create_topic("t", 1);
    world.create_topic("many", PARTITIONS);
    for number in 0..PRODUCERS {
        let producer = Producer::start(world.client(), &format!("p{number}"));
        producer.produce(12, "t", 0, &["v"]);
    }
    let transactional = Producer::start(world.client(), "x");
    (0..PARTITIONS).for_each(|index| transactional.add_partition("many", index));
    let rows = (0..PARTITIONS).map(|partition_index| offset_commit_request::Partitions {
        partition_index,
        committed_offset: 1,
        committed_metadata: Some("m".repeat(4_000)),
        ..Default::default()
    });
    let topic = offset_commit_request::Topics {
        name: "many".to_owned(),
        partitions: rows.collect(),
        ..Default::default()
    };
    let commit = OffsetCommitRequest {
        group_id: "o".to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    world.client().ask(9, &commit);
    let join = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![join_group_request::Protocols {
            name: "range".to_owned(),
            metadata: Bytes::from(vec![7; 200_000]),
        }],
        ..Default::default()
    };
    let joined = world.client().ask(3, &join);
    let assignment = sync_group_request::Assignments {
        member_id: joined.member_id.clone(),
        assignment: Bytes::from(vec![7; 100]),
    };
    let sync = SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id,
        assignments: vec![assignment],
        ..Default::default()
    };
    assert_eq!(world.client().ask(2, &sync).error_code, 0);
    let heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: "c".to_owned(),
        member_id: "m".to_owned(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(
            (0..500).map(|number| format!("{number}-{}", "n".repeat(200))).collect(),
        ),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    assert_eq!(world.client().ask(1, &heartbeat).error_code, 0);
    world
}

/// Bytes of the answer (none where the connection was closed), and of the memory held at once.
fn measure(world: &Rc<World>, frame: &[u8]) -> (usize, usize) {
    let frame = Bytes::copy_from_slice(frame);
    let client = world.client();
    let before = allocations::start_peak();
    let outcome = client.send_frame(frame);
    // What comes later is the world's own: its checks copy much.
    let memory = allocations::peak_since(before);
    world.settle();
    if outcome.get().is_none() {
        world.advance_ms(2_000);
        world.settle();
    }
    let answer = match outcome.get() {
        Some(Outcome::Frame(frame)) => frame.bytes(),
        Some(Outcome::Nothing | Outcome::Close) | None => 0,
    };
    (answer, memory)
}

/// A long name is held once, not for each of the partitions that a request names with it: a request of 100 MB would not end.
#[test]
fn a_long_name_costs_little() {
    let world = World::new();
    let mut dear = Vec::new();
    for hostile in hostile::with_long_names() {
        let request = hostile.frame.len();
        let (answer, memory) = measure(&world, &hostile.frame);
        if answer > ANSWER_BYTES_FREE.max(16 * request) || memory > MEMORY_BYTES_FREE.max(128 * request) {
            dear.push(format!("{}: an answer of {answer} bytes, {memory} at once", hostile.api_key.name()));
        }
    }
    assert!(dear.is_empty(), "{}", dear.join("\n"));
}

/// However large a frame is, what it names is counted: just so many names cost what they cost, one more closes the connection, before
/// memory is taken for them.
#[test]
fn names_are_counted() {
    let world = World::new();
    world.create_topic("t", 1);
    for count in [DECODED_ELEMENTS_MAX - 1, DECODED_ELEMENTS_MAX] {
        // With the topic that is one more.
        let is_read = count < DECODED_ELEMENTS_MAX;
        let partitions = vec![offset_delete_request::Partitions::default(); count];
        let topic = offset_delete_request::Topics { name: "t".to_owned(), partitions };
        let request = OffsetDeleteRequest { group_id: "nobody".to_owned(), topics: vec![topic] };
        let frame = encode_request(1, Some("test"), 0, &request).into_bytes();
        drop(request);
        let (answer, memory) = measure(&world, &frame);
        assert_eq!(answer > 0, is_read);
        let most = if is_read { NAMES_MEMORY_BYTES_MAX } else { 4 * frame.len() };
        println!("{count} partitions in {} bytes: {memory} bytes at once", frame.len());
        assert!(memory <= most, "{count} partitions in {} bytes: {memory} bytes at once", frame.len());
    }
}

/// The power of two at or above a ratio, so that a small change of a row leaves the table as it is.
fn rounded(bytes: usize, request_bytes: usize) -> usize {
    bytes.div_ceil(request_bytes).next_power_of_two()
}

/// Every API that is advertised is in the table of docs/limits.md with what was measured here, and stays within the bound.
#[test]
fn a_small_request_costs_little() {
    let mut table = Vec::new();
    let mut walked = BTreeSet::new();
    let world = world();
    for hostile in hostile::all() {
        walked.insert(hostile.api_key);
        let request = hostile.frame.len();
        let (answer, memory) = measure(&world, &hostile.frame);
        let name = hostile.api_key.name();
        println!("{name} {}: request {request}, answer {answer}, memory {memory}", hostile.names);
        let context = format!("{name}, {} bytes", request);
        assert!(answer <= ANSWER_BYTES_FREE.max(16 * request), "{context}: an answer of {answer} bytes");
        assert!(memory <= MEMORY_BYTES_FREE.max(128 * request), "{context}: {memory} bytes at once");
        if hostile.names.is_empty() {
            table.push(format!("| {name} | | | |"));
        } else {
            let (answer, memory) = (rounded(answer, request), rounded(memory, request));
            table.push(format!("| {name} | {} | {answer} | {memory} |", hostile.names));
        }
    }
    let advertised = world.client().ask(
        4,
        &ApiVersionsRequest {
            client_software_name: "test".to_owned(),
            client_software_version: "1".to_owned(),
            ..Default::default()
        },
    );
    for api in advertised.api_keys {
        let api_key = ApiKey::from_code(api.api_key).unwrap();
        assert!(walked.contains(&api_key), "{} has no hostile request", api_key.name());
    }
    let missing: Vec<_> = table.iter().filter(|row| !PAGE.lines().any(|line| line == row.as_str())).collect();
    assert!(missing.is_empty(), "docs/limits.md lacks:\n{}", table.join("\n"));
}
