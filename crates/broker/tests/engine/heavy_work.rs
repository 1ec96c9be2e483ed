//! Requests that are too much for the thread that reads them (issue 12, B10). The works of the edge are done when a test says so.

use bytes::Bytes;
use fencepost_broker::{Outcome, Span};
use fencepost_protocol::messages::*;
use fencepost_protocol::{Request, encode_request};
use fencepost_records::{BatchBuilder, Compression, CompressionType};
use fencepost_types::{LeaderEpoch, Offset};

use crate::harness::requests::{READ_UNCOMMITTED, list_offsets, produce};
use crate::harness::{Client, Producer, World, batch, plain_batch};

/// Zeros that a bomb inflates to: more than is checked where a request is read.
const BOMB_PLAIN_BYTES: usize = 8 * 1024 * 1024;
const LATEST: i64 = -1;

fn packed(world: &World, codec: CompressionType, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE).compression(Compression::new(codec));
    builder.append(world.now().wall, None, Some(value), &[]);
    builder.build().unwrap().into_bytes()
}

fn bomb(world: &World) -> Bytes {
    packed(world, CompressionType::Gzip, &vec![0; BOMB_PLAIN_BYTES])
}

/// The codes of an answer to a Produce, and the offsets.
fn rows(answer: &ProduceResponse) -> Vec<(i16, i64)> {
    let rows = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
    rows.map(|row| (row.error_code, row.base_offset)).collect()
}

fn works_of<R: Request>(world: &World, client: &Client, version: i16, request: &R) -> usize {
    let call = client.send(version, request);
    let works = world.works();
    while world.work_one().is_some() {}
    world.settle();
    assert!(call.is_done(), "{:?}", R::API_KEY);
    works
}

/// B10: a batch that inflates to much is handed on before anything is done for it; who is served by the same thread is answered at
/// once, and nothing more is read from the bomber.
#[test]
fn a_bomb_holds_up_nobody() {
    let world = World::new();
    world.create_topic("t", 2);
    world.hold_works();
    let (bomber, neighbour) = (world.client(), world.client());
    let call = bomber.send(9, &produce(None, -1, vec![("t", 0, bomb(&world))]));
    assert_eq!((world.works(), call.is_done(), bomber.is_read()), (1, false, false));
    assert_eq!(world.log_ends("t"), [0, 0]);

    let small = produce(None, -1, vec![("t", 1, plain_batch(world.now().wall, &["v"]))]);
    assert_eq!(rows(&neighbour.ask(9, &small)), [(0, 0)]);
    assert_eq!((world.works(), call.is_done(), neighbour.is_read()), (1, false, true));

    assert_eq!(world.work_one(), Some(bomber.connection()));
    assert!(bomber.is_read(), "what is waited for now is the disk");
    world.settle();
    assert_eq!(rows(&call.answer()), [(0, 0)]);
    assert_eq!(world.works(), 0);
}

/// A connection's requests keep their order around a heavy one: Produces are appended, and others are answered, behind it.
#[test]
fn what_comes_after_heavy_work_waits_for_it() {
    for acks in [-1, 0] {
        let world = World::new();
        world.create_topic("t", 1);
        let producer = Producer::start(world.client(), "x");
        world.hold_works();
        let client = &producer.client;
        let first = client.send(9, &produce(None, acks, vec![("t", 0, bomb(&world))]));
        // Read before the connection was seen to be at work.
        let second =
            client.send(9, &produce(None, -1, vec![("t", 0, plain_batch(world.now().wall, &["v"]))]));
        let end = client.send(1, &list_offsets("t", LATEST, -1, READ_UNCOMMITTED));
        world.settle();
        assert!(!first.is_done() && !second.is_done() && !end.is_done());
        world.work_one();
        world.settle();
        assert_eq!(rows(&second.answer()), [(0, 1)], "behind the heavy one");
        assert!(end.is_done() && first.is_done());
        if acks == 0 {
            assert_eq!(end.answer().topics[0].partitions[0].offset, 2);
        }
    }
}

/// B10: what may take seconds is told from what takes a moment, so that the edge does not let one wait for the other: by the
/// bytes that a batch can inflate to, and by the size of a list of names.
#[test]
fn long_work_is_told_from_short() {
    let world = World::new();
    world.create_topic("t", 1);
    world.hold_works();
    let client = world.client();
    let span_of = |records: Bytes| {
        let call = client.send(9, &produce(None, -1, vec![("t", 0, records)]));
        let span = world.span_of_work();
        while world.work_one().is_some() {}
        world.settle();
        assert_eq!(rows(&call.answer())[0].0, 0);
        span
    };
    assert_eq!(span_of(bomb(&world)), Some(Span::Short));
    let large = packed(&world, CompressionType::Gzip, &vec![0; 10 * BOMB_PLAIN_BYTES]);
    assert_eq!(span_of(large), Some(Span::Long));
    // Plain records are what they are.
    let plain = packed(&world, CompressionType::None, &vec![0; BOMB_PLAIN_BYTES / 10]);
    assert_eq!(span_of(plain), None);
    let names = |count: usize| FindCoordinatorRequest {
        coordinator_keys: (0..count).map(|number| format!("{number:0>100}")).collect(),
        ..Default::default()
    };
    for (count, span) in [(100, None), (1_000, Some(Span::Short)), (11_000, Some(Span::Long))] {
        let call = client.send(4, &names(count));
        assert_eq!(world.span_of_work(), span, "{count} names");
        while world.work_one().is_some() {}
        world.settle();
        assert!(call.is_done());
    }
}

/// The batches of one request are checked one by one, and connections take turns between them.
#[test]
fn connections_take_turns() {
    let world = World::new();
    world.create_topic("t", 3);
    world.hold_works();
    let (greedy, modest) = (world.client(), world.client());
    let batches = (0..3).map(|partition| ("t", partition, bomb(&world))).collect();
    let many = greedy.send(9, &produce(None, -1, batches));
    let one = modest.send(9, &produce(None, -1, vec![("t", 0, bomb(&world))]));
    let (a, b) = (greedy.connection(), modest.connection());
    let turns: Vec<_> = std::iter::from_fn(|| world.work_one()).collect();
    assert_eq!(turns, [a, b, a, a]);
    world.settle();
    assert_eq!(rows(&many.answer()), [(0, 0); 3]);
    assert_eq!(rows(&one.answer()), [(0, 1)]);
}

/// The batches of an idempotent producer stay in the order of their sequences, whichever of them are heavy.
#[test]
fn sequences_keep_their_order() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    world.hold_works();
    let (id, epoch) = producer.id.get();
    let value = "0".repeat(5 * 1024 * 1024);
    let plain = |sequence: i32, value: &str| batch((id, epoch), sequence, false, world.now().wall, &[value]);
    let client = world.client();
    // Such a frame is not even read where it came in.
    let calls = [
        client.send(9, &produce(None, -1, vec![("t", 0, plain(0, "v"))])),
        client.send(9, &produce(None, -1, vec![("t", 0, plain(1, &value))])),
        client.send(9, &produce(None, -1, vec![("t", 0, plain(2, "v"))])),
        client.send(9, &produce(None, -1, vec![("t", 0, plain(3, &value))])),
    ];
    while world.work_one().is_some() {}
    world.settle();
    let codes: Vec<_> = calls.iter().map(|call| rows(&call.answer())[0].0).collect();
    // They are larger than a topic takes; what is between them is not held up by that, nor takes their place.
    assert_eq!(codes, [0, 10, 45, 10]);
}

/// A large frame is read by the work, too. One that cannot be read closes its connection, and a Produce of that kind gives its turn
/// away.
#[test]
fn a_large_frame_is_not_read_here() {
    let world = World::new();
    world.create_topic("t", 1);
    world.hold_works();
    let client = world.client();
    let names: Vec<String> = (0..2_000).map(|number| format!("nowhere-{number}")).collect();
    let request = DescribeGroupsRequest { groups: names, ..Default::default() };
    assert_eq!(works_of(&world, &client, 5, &request), 1);

    let torn = |bytes: usize, frame: Bytes| {
        let mut frame = frame.to_vec();
        frame.resize(bytes, 0xff);
        Bytes::from(frame)
    };
    let join = encode_request(1, Some("test"), 5, &JoinGroupRequest::default()).into_bytes();
    let closed = world.client().send_frame(torn(20_000, join.slice(..20)));
    assert_eq!((closed.get(), world.works()), (None, 1));
    world.work_one();
    assert_eq!(closed.get(), Some(Outcome::Close));

    let records = plain_batch(world.now().wall, &["v"]);
    let produce = produce(None, -1, vec![("t", 0, records)]);
    let frame = encode_request(1, Some("test"), 9, &produce).into_bytes();
    let closed = client.send_frame(torn(2_000_000, frame.slice(..20)));
    let next = client.send(9, &produce);
    world.work_one();
    assert_eq!(closed.get(), Some(Outcome::Close));
    world.settle();
    assert_eq!(rows(&next.answer()), [(0, 0)], "it had its turn");
}

/// What ordinary clients send is handled where it is read: small batches in every codec, and what groups and transactions say.
#[test]
fn ordinary_requests_make_no_hop() {
    let world = World::new();
    world.create_topic("t", 1);
    world.hold_works();
    let client = world.client();
    // 16 kB of text, the batch of a default producer.
    let text: String =
        (0..1_500).map(|number: u32| format!("{:>5},{:>4};", number, number * 7 % 1_009)).collect();
    for codec in CompressionType::ALL {
        let small = if codec == CompressionType::Gzip { &text[..8_000] } else { &text[..] };
        let records = packed(&world, codec, small.as_bytes());
        let request = produce(None, -1, vec![("t", 0, records)]);
        assert_eq!(works_of(&world, &client, 9, &request), 0, "{codec}");
    }
    let large = plain_batch(world.now().wall, &["0".repeat(1_000_000).as_str()]);
    assert_eq!(works_of(&world, &client, 9, &produce(None, -1, vec![("t", 0, large)])), 0);
    let one = metadata_request::Topics { name: Some("t".to_owned()), ..Default::default() };
    for topics in [None, Some(vec![one])] {
        let request = MetadataRequest { topics, ..Default::default() };
        assert_eq!(works_of(&world, &client, 9, &request), 0);
    }
}

/// Plain records that the topic wants compressed are heavy long before they are many.
#[test]
fn compressing_is_heavy() {
    let world = World::new();
    world.create_topic_with("z", 1, &[("compression.type", "zstd")]);
    world.hold_works();
    let client = world.client();
    let value = |bytes| plain_batch(world.now().wall, &["0".repeat(bytes).as_str()]);
    for (bytes, works) in [(1_000, 0), (100_000, 1), (1_000_000, 1)] {
        let request = produce(None, -1, vec![("z", 0, value(bytes))]);
        assert_eq!(works_of(&world, &client, 9, &request), works, "{bytes}");
    }
    let packed = packed(&world, CompressionType::Zstd, "0".repeat(100_000).as_bytes());
    assert_eq!(works_of(&world, &client, 9, &produce(None, -1, vec![("z", 0, packed)])), 0);
}

/// Requests that are small and ask for everything there is are handed on.
#[test]
fn questions_about_everything_are_heavy() {
    let world = World::new();
    world.create_topic("many", 1_200);
    world.hold_works();
    let client = world.client();
    let works = |works: usize, what: &str| assert_eq!(works, 1, "{what}");
    let many = metadata_request::Topics { name: Some("many".to_owned()), ..Default::default() };
    for topics in [None, Some(vec![many])] {
        works(works_of(&world, &client, 9, &MetadataRequest { topics, ..Default::default() }), "Metadata");
    }
    works(works_of(&world, &client, 4, &ListGroupsRequest::default()), "ListGroups");
    works(works_of(&world, &client, 1, &ListTransactionsRequest::default()), "ListTransactions");
    works(works_of(&world, &client, 1, &DescribeLogDirsRequest::default()), "DescribeLogDirs");
    let group = offset_fetch_request::Groups { group_id: "g".to_owned(), topics: None, ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    works(works_of(&world, &client, 8, &request), "OffsetFetch");
    let request = OffsetFetchRequest { group_id: "g".to_owned(), topics: None, ..Default::default() };
    works(works_of(&world, &client, 5, &request), "OffsetFetch of a former version");
    let heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: "c".to_owned(),
        member_id: "m".to_owned(),
        rebalance_timeout_ms: 1_000,
        subscribed_topic_regex: Some("m.*".to_owned()),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    works(works_of(&world, &client, 1, &heartbeat), "ConsumerGroupHeartbeat");
}
