//! Any sequence of requests: live state equals replayed state, invariants hold, and whoever waits is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fencepost_coordinator::Token;
use fencepost_group::*;
use fencepost_types::{
    ErrorCode, KeptBytes, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TransactionResult,
    Uuid,
};
use proptest::prelude::*;

use crate::script::driver::Driver;

const GROUPS: usize = 2;
const CLIENTS: usize = 4;

/// What a client may do next. Clients follow the protocol with what they were last told, mostly.
#[derive(Clone, Debug)]
enum Step {
    Join {
        group: usize,
        client: usize,
        version: i16,
        is_static: bool,
        protocols: u8,
        forgets_id: bool,
    },
    Sync {
        group: usize,
        client: usize,
    },
    Beat {
        group: usize,
        client: usize,
    },
    Leave {
        group: usize,
        client: usize,
    },
    Commit {
        group: usize,
        client: usize,
        offset: i64,
        as_member: bool,
    },
    TxnCommit {
        group: usize,
        client: usize,
        producer: i64,
        offset: i64,
        as_member: bool,
    },
    Marker {
        producer: i64,
        commit: bool,
    },
    /// A heartbeat of a KIP-848 member: it joins, is alive or leaves.
    Beat848 {
        group: usize,
        client: usize,
        leaves: bool,
    },
    OffsetDelete {
        group: usize,
    },
    Delete {
        group: usize,
    },
    TopicDeleted,
    Wait {
        ms: i64,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (group, client) = (0..GROUPS, 0..CLIENTS);
    let pair = (group.clone(), client.clone());
    prop_oneof![
        6 => (pair.clone(), prop_oneof![Just(0i16), Just(3), Just(5), Just(9)], any::<bool>(), 1u8..4, any::<bool>())
            .prop_map(|((group, client), version, is_static, protocols, forgets_id)| Step::Join {
                group, client, version, is_static: is_static && client == 0, protocols, forgets_id
            }),
        6 => pair.clone().prop_map(|(group, client)| Step::Sync { group, client }),
        3 => pair.clone().prop_map(|(group, client)| Step::Beat { group, client }),
        1 => pair.clone().prop_map(|(group, client)| Step::Leave { group, client }),
        2 => (pair.clone(), 0i64..9, any::<bool>())
            .prop_map(|((group, client), offset, as_member)| Step::Commit { group, client, offset, as_member }),
        2 => (pair, 0i64..3, 0i64..9, any::<bool>()).prop_map(|((group, client), producer, offset, as_member)| {
            Step::TxnCommit { group, client, producer, offset, as_member }
        }),
        2 => (group.clone(), 0..2usize, 0..4u8)
            .prop_map(|(group, client, luck)| Step::Beat848 { group, client, leaves: luck == 0 }),
        2 => (0i64..3, any::<bool>()).prop_map(|(producer, commit)| Step::Marker { producer, commit }),
        1 => group.clone().prop_map(|group| Step::OffsetDelete { group }),
        1 => group.prop_map(|group| Step::Delete { group }),
        1 => Just(Step::TopicDeleted),
        4 => prop_oneof![Just(1i64), Just(500), Just(3_000), Just(7_000), Just(700_000)]
            .prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Restart),
    ]
}

/// What a client was last told.
#[derive(Clone, Default)]
struct Known {
    member_id: MemberId0,
    generation: i32,
    members: Vec<MemberId>,
    is_static: bool,
}

/// A member id, empty at first.
#[derive(Clone)]
struct MemberId0(MemberId);

impl Default for MemberId0 {
    fn default() -> Self {
        Self(MemberId::from(""))
    }
}

struct Clients {
    driver: Driver,
    known: BTreeMap<(usize, usize), Known>,
    waiting: BTreeMap<Token, (usize, usize)>,
    fresh: u128,
    /// The epoch of each KIP-848 member, and what it owns.
    epochs: BTreeMap<(usize, usize), (i32, PartitionsByTopic)>,
    topics: Arc<Topics>,
    /// Groups that KIP-848 members have been in.
    mixed: BTreeSet<usize>,
    /// The highest generation seen since the group was made.
    generations: BTreeMap<usize, i32>,
}

impl Clients {
    fn new() -> Self {
        let config = GroupConfig {
            initial_rebalance_delay_ms: 500,
            offsets_retention_ms: 1_000_000,
            max_size: 3,
            ..GroupConfig::default()
        };
        let facts = TopicFacts { id: Uuid::from_u128(5), partition_count: 4 };
        Self {
            driver: Driver::new(config),
            known: BTreeMap::new(),
            waiting: BTreeMap::new(),
            fresh: 0,
            epochs: BTreeMap::new(),
            topics: Arc::new(Topics::new(1, [("t".into(), facts)])),
            mixed: BTreeSet::new(),
            generations: BTreeMap::new(),
        }
    }

    fn ask(&mut self, group: usize, client: usize, request: &Request) -> Option<GroupRefusal> {
        match self.driver.ask(request) {
            Ok(token) => {
                self.waiting.insert(token, (group, client));
                self.listen();
                None
            }
            Err(refusal) => Some(refusal),
        }
    }

    /// Everyone hears what they are told. Nobody is told twice, nor without having asked.
    fn listen(&mut self) {
        for (token, reply) in std::mem::take(&mut self.driver.answers) {
            let who = self.waiting.remove(&token).expect("who is answered has asked, once");
            let known = self.known.entry(who).or_default();
            match reply {
                Reply::Join(reply) if reply.error.is_none() => {
                    known.member_id = MemberId0(reply.member_id);
                    known.generation = reply.generation;
                    known.members = reply.members.into_iter().map(|member| member.member_id).collect();
                    let highest = self.generations.entry(who.0).or_default();
                    let may_restart = self.mixed.contains(&who.0);
                    assert!(may_restart || reply.generation >= *highest, "G5: generations do not go back");
                    *highest = reply.generation;
                }
                Reply::Join(reply) if reply.error == ErrorCode::MemberIdRequired => {
                    known.member_id = MemberId0(reply.member_id);
                }
                Reply::Join(reply) if reply.error == ErrorCode::UnknownMemberId => {
                    known.member_id = MemberId0::default();
                }
                Reply::Delete(groups) if groups[0].1.is_none() => {
                    self.generations.remove(&who.0);
                }
                _ => {}
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match step.clone() {
            Step::Join { group, client, version, is_static, protocols, forgets_id } => {
                self.join(group, client, version, is_static, protocols, forgets_id);
            }
            Step::Sync { group, client } => {
                let known = self.known.entry((group, client)).or_default().clone();
                let assignments = known.members.iter().map(|member| (member.clone(), assignment()));
                let request = Request::SyncGroup(SyncGroup {
                    api_version: 4,
                    group: name(group),
                    generation: known.generation,
                    member_id: known.member_id.0.clone(),
                    instance_id: None,
                    protocol_type: None,
                    protocol_name: None,
                    assignments: assignments.collect(),
                });
                self.ask(group, client, &request);
            }
            Step::Beat { group, client } => {
                let known = self.known.entry((group, client)).or_default().clone();
                let request = Request::Heartbeat(Heartbeat {
                    group: name(group),
                    generation: known.generation,
                    member_id: known.member_id.0.clone(),
                    instance_id: None,
                });
                self.ask(group, client, &request);
            }
            Step::Leave { group, client } => {
                let member_id = self.known.entry((group, client)).or_default().member_id.0.clone();
                let members = vec![LeavingMember { member_id, instance_id: None }];
                let request = LeaveGroup { api_version: 4, group: name(group), members };
                self.ask(group, client, &Request::LeaveGroup(request));
            }
            Step::Commit { group, client, offset, as_member } => {
                let request = Request::OffsetCommit(OffsetCommit {
                    api_version: 7,
                    group: name(group),
                    committer: self.committer(group, client, as_member),
                    retention_ms: if offset == 8 { 1_000 } else { -1 },
                    topics: offsets(offset),
                    existing: existing(),
                });
                self.ask(group, client, &request);
            }
            Step::TxnCommit { group, client, producer, offset, as_member } => {
                let request = Request::TxnOffsetCommit(TxnOffsetCommit {
                    api_version: 3,
                    group: name(group),
                    producer_id: ProducerId(producer),
                    producer_epoch: ProducerEpoch(0),
                    committer: self.committer(group, client, as_member),
                    topics: offsets(offset),
                    existing: existing(),
                });
                self.ask(group, client, &request);
            }
            Step::Marker { producer, commit } => {
                self.driver.marker(ProducerId(producer), TransactionResult::from_committed(commit));
            }
            Step::Beat848 { group, client, leaves } => self.beat848(group, client, leaves),
            Step::OffsetDelete { group } => {
                let partitions = vec![PartitionIndex(0), PartitionIndex(1)];
                let topics = vec![TopicPartitions { topic: "t".into(), topic_id: Uuid::ZERO, partitions }];
                self.ask(group, 0, &Request::OffsetDelete(OffsetDelete { group: name(group), topics }));
            }
            Step::Delete { group } => {
                self.ask(group, 0, &Request::DeleteGroups(DeleteGroups { groups: vec![name(group)] }));
            }
            Step::TopicDeleted => {
                let request = TopicsDeleted { names: vec!["t".into()], ..TopicsDeleted::default() };
                self.ask(0, 0, &Request::TopicsDeleted(request));
            }
            Step::Wait { ms } => {
                self.driver.wait(ms);
                self.listen();
                // Groups that have nothing left are forgotten with the offsets.
                let there: BTreeSet<GroupId> = self.driver.shard.groups().cloned().collect();
                self.generations.retain(|group, _| there.contains(&name(*group)));
            }
            Step::Restart => {
                self.waiting.clear();
                self.driver.restart();
                // What was not written is forgotten: the group may hand out a generation again.
                self.generations.clear();
            }
        }
    }

    fn join(
        &mut self,
        group: usize,
        client: usize,
        version: i16,
        is_static: bool,
        protocols: u8,
        forgets: bool,
    ) {
        let known = self.known.entry((group, client)).or_default();
        if forgets || known.is_static != is_static {
            known.member_id = MemberId0::default();
        }
        known.is_static = is_static;
        let member_id = known.member_id.0.clone();
        self.fresh += 1;
        let names = ["range", "sticky"].iter().enumerate().filter(|(at, _)| protocols & (1 << at) != 0);
        let protocols = names.map(|(_, name)| (Arc::from(*name), subscription())).collect();
        let request = Request::JoinGroup(JoinGroup {
            api_version: version,
            client: Client { id: "c".into(), host: "/127.0.0.1".into() },
            fresh_member_suffix: Uuid::from_u128(self.fresh),
            group: name(group),
            member_id,
            instance_id: is_static.then(|| InstanceId::from("i")),
            session_timeout_ms: 6_000,
            rebalance_timeout_ms: 4_000,
            protocol_type: "consumer".into(),
            protocols,
            topics: self.topics.clone(),
        });
        if let Some(GroupRefusal::UnknownMemberId { .. } | GroupRefusal::FencedInstanceId { .. }) =
            self.ask(group, client, &request)
        {
            self.known.insert((group, client), Known::default());
        }
    }

    fn beat848(&mut self, group: usize, client: usize, leaves: bool) {
        let (epoch, owned) = self.epochs.get(&(group, client)).cloned().unwrap_or_default();
        let is_joining = epoch == 0;
        let request = Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
            api_version: 1,
            client: Client { id: "k".into(), host: "/127.0.0.1".into() },
            fresh_member_id: Uuid::ZERO,
            group: name(group),
            member_id: format!("k{client}").into(),
            member_epoch: if leaves { -1 } else { epoch },
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: if is_joining { 4_000 } else { -1 },
            subscribed_topic_names: is_joining.then(|| vec!["t".into()]),
            subscribed_topic_regex: None,
            server_assignor: None,
            owned_partitions: Some(if is_joining { PartitionsByTopic::new() } else { owned }),
            topics: self.topics.clone(),
        });
        match self.driver.ask(&request) {
            Ok(token) => {
                let at = self.driver.answers.iter().position(|(answered, _)| *answered == token);
                let (_, reply) = self.driver.answers.remove(at.expect("heartbeats are answered at once"));
                let Reply::ConsumerHeartbeat(reply) = reply else { panic!("a heartbeat is answered as one") };
                let known = self.epochs.entry((group, client)).or_default();
                known.0 = reply.member_epoch.max(0);
                known.1 = reply.assignment.unwrap_or_else(|| core::mem::take(&mut known.1));
                self.listen();
            }
            Err(_) => {
                self.epochs.remove(&(group, client));
            }
        }
        // A group that has been empty starts its numbers anew when it changes its type.
        self.mixed.insert(group);
    }

    fn committer(&mut self, group: usize, client: usize, as_member: bool) -> Committer {
        let known = self.known.entry((group, client)).or_default();
        if as_member {
            let member_id = known.member_id.0.clone();
            Committer { generation: known.generation, member_id, instance_id: None }
        } else {
            Committer { generation: -1, member_id: "".into(), instance_id: None }
        }
    }
}

fn name(group: usize) -> GroupId {
    format!("g{group}").into()
}

/// A classic consumer that reads t.
fn subscription() -> KeptBytes {
    KeptBytes::copy_of(b"\0\x01\0\0\0\x01\0\x01t\xff\xff\xff\xff\0\0\0\0")
}

/// Partitions 0 and 1 of t, which the leader gives to everyone: a mistake that clients can make.
fn assignment() -> KeptBytes {
    KeptBytes::copy_of(b"\0\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01\xff\xff\xff\xff")
}

/// The one topic that is committed for, under both ways to name it.
fn existing() -> Arc<Topics> {
    let facts = TopicFacts { id: Uuid::from_u128(5), partition_count: 2 };
    Arc::new(Topics::new(1, [("t".into(), facts)]))
}

fn offsets(offset: i64) -> Vec<TopicOffsets> {
    let partition = PartitionOffset {
        partition: PartitionIndex((offset % 2) as i32),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(1),
        metadata: None,
    };
    let topic_id = if offset < 4 { Uuid::ZERO } else { Uuid::from_u128(5) };
    vec![TopicOffsets { topic: "t".into(), topic_id, partitions: vec![partition] }]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// G1, G2, G3, G5: after every step (see the driver), and nobody waits for ever.
    #[test]
    fn any_conversation_keeps_the_invariants(steps in prop::collection::vec(step(), 1..80)) {
        let mut clients = Clients::new();
        for step in &steps {
            clients.step(step);
        }
        clients.driver.wait(60_000);
        clients.listen();
        prop_assert!(clients.waiting.is_empty(), "{:?} wait for ever", clients.waiting);
    }
}
