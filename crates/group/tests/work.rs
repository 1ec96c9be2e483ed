//! What a request of one member costs in a large group, under an allocator that counts.
// The allocator below is the only way to see that; it adds nothing but a counter.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use fencepost_coordinator::{LogPosition, Shard, Token};
use fencepost_group::{
    Client, ConsumerGroupHeartbeat, GroupConfig, GroupShard, JoinGroup, Reply, Request, TopicFacts, Topics,
};
use fencepost_types::{ErrorCode, KeptBytes, Millis, Nanos, Now, Offset, ProducerEpoch, ProducerId, Uuid};

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends allocates, too.
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A coordinator whose records are durable at once.
struct Coordinator {
    shard: GroupShard,
    now: Now,
    count: u64,
    topics: Arc<Topics>,
}

impl Coordinator {
    fn new() -> Self {
        let facts = TopicFacts { id: Uuid::from_u128(9), partition_count: 8 };
        let topics = Arc::new(Topics::new(1, [("t".into(), facts)]));
        let now = Now { wall: Millis(1_700_000_000_000), mono: Nanos(1_000_000_000) };
        let shard = GroupShard::new(Arc::new(GroupConfig::default()));
        let mut coordinator = Self { shard, now, count: 0, topics };
        coordinator.ask(&GroupShard::tick());
        coordinator
    }

    /// The answers, and how many bytes were allocated for them.
    fn ask(&mut self, request: &Request) -> (Vec<Reply>, usize) {
        self.count += 1;
        let before = BYTES.get();
        let decision = self.shard.decide(self.now, Token(self.count), request).expect("nobody is refused");
        for record in &decision.records {
            let at = LogPosition {
                offset: Offset(self.count as i64),
                producer_id: ProducerId::NONE,
                producer_epoch: ProducerEpoch::NONE,
                is_transactional: false,
            };
            self.shard.replay(at, record);
        }
        decision.soft.into_iter().for_each(|soft| self.shard.absorb(self.now, soft));
        let replies = decision.replies.into_iter().map(|(_, reply)| reply).collect();
        (replies, BYTES.get() - before)
    }

    /// A JoinGroup; an older version is let in without an id.
    fn join(&mut self, api_version: i16, member_id: &str) -> (Vec<Reply>, usize) {
        self.count += 1;
        let request = Request::JoinGroup(JoinGroup {
            api_version,
            client: client(),
            fresh_member_suffix: Uuid::from_u128(u128::from(self.count) << 64),
            group: "g".into(),
            member_id: member_id.into(),
            instance_id: None,
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer".into(),
            protocols: vec![("range".into(), KeptBytes::copy_of(b"m"))],
            topics: self.topics.clone(),
        });
        self.ask(&request)
    }

    /// A member joins by the consumer protocol.
    fn join848(&mut self) -> (Vec<Reply>, usize) {
        let member_id = self.count.to_string();
        let request = Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
            api_version: 1,
            client: client(),
            fresh_member_id: Uuid::ZERO,
            group: "c".into(),
            member_id: member_id.into(),
            member_epoch: 0,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: 30_000,
            subscribed_topic_names: Some(vec!["t".into()]),
            subscribed_topic_regex: None,
            server_assignor: None,
            owned_partitions: Some(Default::default()),
            topics: self.topics.clone(),
        });
        self.ask(&request)
    }
}

fn client() -> Client {
    Client { id: "c".into(), host: "/127.0.0.1".into() }
}

/// What one more costs when there are a hundred, and when there are `many`. One in some hundred grows a table
/// or splits a node; the middle of several does not.
fn costs(many: usize, mut one_more: impl FnMut() -> usize) -> (usize, usize) {
    const FEW: usize = 100;
    let mut costs: Vec<usize> = (0..many).map(|_| one_more()).collect();
    let mut middle = |range: std::ops::Range<usize>| {
        let costs = &mut costs[range];
        costs.sort_unstable();
        costs[costs.len() / 2]
    };
    (middle(FEW - 50..FEW), middle(many - 50..many))
}

/// A tree of a hundred times as many has seven levels more (twice as many if it is out of balance), each of which is a node
/// that is copied.
fn assert_grows_as_a_tree(what: &str, (few, many): (usize, usize)) {
    const NODE_BYTES_MAX: usize = 200;
    const LEVELS_MORE: usize = 2 * 7;
    const TREES: usize = 4;
    assert!(many <= few + NODE_BYTES_MAX * LEVELS_MORE * TREES, "{what}: {few} bytes, then {many} bytes");
}

/// Issue 12, B11: to hand out one more member id costs the same, however many wait to be used.
#[test]
fn one_more_member_id_costs_no_copy_of_the_group() {
    let mut coordinator = Coordinator::new();
    let costs = costs(10_000, || {
        let (replies, bytes) = coordinator.join(5, "");
        assert!(matches!(&replies[..], [Reply::Join(reply)] if reply.error == ErrorCode::MemberIdRequired));
        bytes
    });
    assert_grows_as_a_tree("an id", costs);
}

/// Issue 12, B11: one more member that joins, and waits, costs the same, however many wait already.
#[test]
fn one_more_member_costs_no_copy_of_the_group() {
    let mut coordinator = Coordinator::new();
    let costs = costs(10_000, || {
        let (replies, bytes) = coordinator.join(3, "");
        assert!(replies.is_empty(), "it waits for the first rebalance");
        bytes
    });
    assert_grows_as_a_tree("a member", costs);
}

/// Issue 12, B11: the same by the consumer protocol, between two assignments, which are made at most once in a while.
#[test]
fn one_more_consumer_costs_no_copy_of_the_group() {
    let mut coordinator = Coordinator::new();
    let costs = costs(2_000, || {
        let (replies, bytes) = coordinator.join848();
        assert!(matches!(&replies[..], [Reply::ConsumerHeartbeat(_)]));
        bytes
    });
    assert_grows_as_a_tree("a consumer", costs);
}

/// Issue 12, B11: so many ids are handed out in one group, and no more: who asks for one more is told to ask again; when they are
/// forgotten there is room again.
#[test]
fn ids_that_nobody_uses_are_bounded() {
    const PENDING_MEMBERS_MAX: usize = 100_000;
    let mut coordinator = Coordinator::new();
    let code = |coordinator: &mut Coordinator| match &coordinator.join(5, "").0[..] {
        [Reply::Join(reply)] => reply.error,
        other => panic!("{other:?}"),
    };
    for _ in 0..PENDING_MEMBERS_MAX {
        assert_eq!(code(&mut coordinator), ErrorCode::MemberIdRequired);
    }
    assert_eq!(code(&mut coordinator), ErrorCode::RebalanceInProgress);
    coordinator.now.mono = coordinator.now.mono.plus_ms(30_000);
    coordinator.ask(&GroupShard::tick());
    assert_eq!(code(&mut coordinator), ErrorCode::MemberIdRequired);
    assert_eq!(code(&mut coordinator), ErrorCode::RebalanceInProgress);
}
