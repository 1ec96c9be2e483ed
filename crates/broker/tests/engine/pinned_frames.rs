//! What is kept beyond a request does not hold its frame (issue 12, B9): one field of ten bytes would keep twenty megabytes.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_protocol::messages::*;
use fencepost_protocol::{Request, encode_request};

use crate::amplification::hostile;
use crate::harness::requests::{commit_offset, produce};
use crate::harness::{Client, OutcomeSlot, Producer, World, plain_batch};

/// The memory of a frame; a slice of it keeps this alive.
struct Frame {
    bytes: Vec<u8>,
    _alive: Arc<()>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends a frame, and looks whether it is still held: when the request has been taken in, though it may wait, and when
/// everything has settled.
fn send(client: &Client, what: &str, bytes: Vec<u8>) -> OutcomeSlot {
    let alive = Arc::new(());
    let frame = Bytes::from_owner(Frame { bytes, _alive: Arc::clone(&alive) });
    let outcome = client.send_frame(frame);
    assert_eq!(Arc::strong_count(&alive), 1, "{what}: what waits holds the frame");
    client.world().settle();
    assert_eq!(Arc::strong_count(&alive), 1, "{what}: what is kept holds the frame");
    outcome
}

fn ask<R: Request>(client: &Client, version: i16, request: &R) -> R::Response {
    let frame = encode_request(1, Some("test"), version, request).into_bytes();
    let outcome = send(client, R::API_KEY.name(), frame.to_vec());
    read_answer::<R>(version, &outcome.frame())
}

fn read_answer<R: Request>(version: i16, frame: &[u8]) -> R::Response {
    use fencepost_protocol::{Message, ResponseHeader};
    let mut reader = fencepost_types::wire::Reader::new(Bytes::copy_from_slice(frame));
    ResponseHeader::decode(&mut reader, R::API_KEY, version).unwrap();
    R::Response::decode(&mut reader, version).unwrap()
}

fn join(group: &str, member_id: &str, metadata: &[u8]) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group.to_owned(),
        member_id: member_id.to_owned(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![join_group_request::Protocols {
            name: "range".to_owned(),
            metadata: Bytes::copy_from_slice(metadata),
        }],
        ..Default::default()
    }
}

/// A classic consumer's subscription to "t".
const SUBSCRIPTION: &[u8] = b"\0\x01\0\0\0\x01\0\x01t\xff\xff\xff\xff\0\0\0\0";

/// No API holds the frame of a request that it has taken in, whether it is answered, refused or made to wait.
#[test]
fn no_api_holds_a_frame() {
    let world = World::new();
    world.create_topic("t", 1);
    world.create_topic("many", 3);
    for hostile in hostile::all() {
        send(&world.client(), hostile.api_key.name(), hostile.frame);
    }
}

/// Members of classic groups: what they say of themselves, and what their leader says of them, in a group that is at rest and in one
/// that waits.
#[test]
fn groups_hold_no_frame() {
    let world = World::with(&[("group.initial.rebalance.delay.ms", "0")]);
    let (first, second) = (world.client(), world.client());
    let joined = ask(&first, 3, &join("g", "", SUBSCRIPTION));
    let assignment = sync_group_request::Assignments {
        member_id: joined.member_id.clone(),
        assignment: Bytes::from_static(b"an assignment"),
    };
    let sync = SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: vec![assignment],
        ..Default::default()
    };
    assert_eq!(ask(&first, 2, &sync).assignment, "an assignment");
    // It waits for the first one to join again.
    let frame = encode_request(1, Some("test"), 3, &join("g", "", SUBSCRIPTION)).into_bytes();
    assert_eq!(send(&second, "JoinGroup that waits", frame.to_vec()).get(), None);
    assert_eq!(ask(&first, 3, &join("g", &joined.member_id, SUBSCRIPTION)).members.len(), 2);
}

/// A classic consumer in a group of the new protocol, whose metadata goes to the log.
#[test]
fn a_classic_member_of_a_new_group_holds_no_frame() {
    let world = World::new();
    world.create_topic("t", 1);
    let heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: "c".to_owned(),
        member_id: "m".to_owned(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    assert_eq!(ask(&world.client(), 1, &heartbeat).error_code, 0);
    assert_eq!(ask(&world.client(), 3, &join("c", "", SUBSCRIPTION)).error_code, 0);
}

/// Records, offsets with words of the client, transactions and the users' passwords.
#[test]
fn logs_and_tables_hold_no_frame() {
    let world = World::new();
    world.create_topic("t", 1);
    let client = world.client();
    let records = plain_batch(world.now().wall, &["v"]);
    for acks in [-1, 0] {
        let request = produce(None, acks, vec![("t", 0, records.clone())]);
        let frame = encode_request(1, Some("test"), 9, &request).into_bytes();
        send(&client, "Produce", frame.to_vec());
    }
    assert_eq!(ask(&client, 8, &commit_offset("o", 1)).topics[0].partitions[0].error_code, 0);
    let producer = Producer::start(world.client(), "x");
    // The first one has to wait with its records, until its partition is in the transaction.
    producer.produce(12, "t", 0, &["first"]);
    let frame = encode_request(1, Some("test"), 12, &producer.produce_request("t", 0, &["v"])).into_bytes();
    send(&producer.client, "Produce of a transaction", frame.to_vec());
    let upsertion = alter_user_scram_credentials_request::Upsertions {
        name: "u".to_owned(),
        mechanism: 1,
        iterations: 4_096,
        salt: Bytes::from_static(b"salt"),
        salted_password: Bytes::from_static(b"salted password"),
    };
    let request = AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() };
    assert_eq!(ask(&client, 0, &request).results[0].error_code, 0);
}

/// What a broker reads at its start is cut out of a batch, too: members and users that were loaded answer what they did before.
#[test]
fn what_was_kept_is_loaded() {
    let world = World::with(&[("group.initial.rebalance.delay.ms", "0")]);
    let joined = ask(&world.client(), 3, &join("g", "", SUBSCRIPTION));
    let sync = SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: vec![sync_group_request::Assignments {
            member_id: joined.member_id,
            assignment: Bytes::from_static(b"an assignment"),
        }],
        ..Default::default()
    };
    ask(&world.client(), 2, &sync);
    let describe = |world: &Rc<World>| {
        let request = DescribeGroupsRequest { groups: vec!["g".to_owned()], ..Default::default() };
        let member = world.client().ask(5, &request).groups.remove(0).members.remove(0);
        (member.member_metadata, member.member_assignment)
    };
    let before = describe(&world);
    assert_eq!((&before.0[..], &before.1[..]), (SUBSCRIPTION, &b"an assignment"[..]));
    world.stop_and_start();
    assert_eq!(describe(&world), before);
}
