//! Members of consumer groups, whatever they do: no partition is with two of them, and in the end all have their share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fencepost_group::*;
use fencepost_types::{PartitionIndex, TopicName, Uuid};
use proptest::prelude::*;

use crate::script::driver::Driver;

const CLIENTS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    /// A heartbeat that says what the client owns; it joins if it is no member.
    Beat {
        client: usize,
    },
    /// A heartbeat whose answer is lost.
    LostBeat {
        client: usize,
    },
    /// A heartbeat that says nothing but that the client is alive.
    Silent {
        client: usize,
    },
    /// The client gives up what it was told to.
    Revoke {
        client: usize,
    },
    Subscribe {
        client: usize,
        topics: u8,
        regex: bool,
    },
    Leave {
        client: usize,
    },
    LeaveForAWhile {
        client: usize,
    },
    Crash {
        client: usize,
    },
    Topic {
        topic: usize,
        partitions: i32,
    },
    Wait {
        ms: i64,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        8 => client.clone().prop_map(|client| Step::Beat { client }),
        2 => client.clone().prop_map(|client| Step::LostBeat { client }),
        2 => client.clone().prop_map(|client| Step::Silent { client }),
        6 => client.clone().prop_map(|client| Step::Revoke { client }),
        2 => (client.clone(), 0u8..8, any::<bool>())
            .prop_map(|(client, topics, regex)| Step::Subscribe { client, topics, regex }),
        1 => client.clone().prop_map(|client| Step::Leave { client }),
        1 => client.clone().prop_map(|client| Step::LeaveForAWhile { client }),
        1 => client.prop_map(|client| Step::Crash { client }),
        1 => (0usize..3, 1i32..5).prop_map(|(topic, partitions)| Step::Topic { topic, partitions }),
        2 => prop_oneof![Just(1i64), Just(900), Just(3_000), Just(50_000)].prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Restart),
    ]
}

type Owned = BTreeMap<Uuid, Vec<PartitionIndex>>;

struct Client {
    member_id: MemberId,
    instance_id: Option<InstanceId>,
    epoch: i32,
    /// What it works on.
    owned: Owned,
    /// What it was told to work on.
    assigned: Owned,
    topics: Vec<TopicName>,
    regex: Option<Arc<str>>,
    /// Whether the coordinator has to be told what it reads.
    has_news: bool,
    /// Whether an answer was lost: then it says everything, to hear everything.
    is_lost: bool,
}

struct World {
    driver: Driver,
    topics: Arc<Topics>,
    clients: Vec<Client>,
    lives: u32,
}

fn group() -> GroupId {
    "g".into()
}

fn name(topic: usize) -> TopicName {
    ["t", "u", "v"][topic].into()
}

impl World {
    fn new(interval_ms: i32) -> Self {
        let consumer =
            ConsumerGroupConfig { assignment_interval_ms: interval_ms, ..ConsumerGroupConfig::default() };
        let driver = Driver::new(GroupConfig { consumer, ..GroupConfig::default() });
        let facts = |topic: usize| TopicFacts { id: Uuid::from_u128(topic as u128 + 1), partition_count: 3 };
        let topics = Arc::new(Topics::new(1, (0..2).map(|topic| (name(topic), facts(topic)))));
        let clients = (0..CLIENTS).map(|client| Client {
            member_id: format!("m{client}").into(),
            instance_id: (client == 0).then(|| InstanceId::from("i")),
            epoch: 0,
            owned: Owned::new(),
            assigned: Owned::new(),
            topics: vec![name(0), name(1)],
            regex: None,
            has_news: false,
            is_lost: false,
        });
        let clients = clients.collect();
        Self { driver, topics, clients, lives: 0 }
    }

    fn request(&self, client: usize, epoch: i32, says_owned: bool) -> Request {
        let me = &self.clients[client];
        let is_joining = epoch == 0;
        let says_all = is_joining || me.has_news || me.is_lost;
        Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
            api_version: 1,
            client: fencepost_group::Client { id: "c".into(), host: "/127.0.0.1".into() },
            fresh_member_id: Uuid::ZERO,
            group: group(),
            member_id: me.member_id.clone(),
            member_epoch: epoch,
            instance_id: me.instance_id.clone(),
            rack_id: None,
            rebalance_timeout_ms: if is_joining || me.is_lost { 2_000 } else { -1 },
            subscribed_topic_names: says_all.then(|| me.topics.clone()),
            subscribed_topic_regex: says_all.then(|| me.regex.clone().unwrap_or_else(|| "".into())),
            server_assignor: None,
            owned_partitions: (is_joining || me.is_lost || says_owned).then(|| me.owned.clone()),
            topics: self.topics.clone(),
        })
    }

    /// Sends a heartbeat; the client hears the answer, or not. A client that starts anew owns nothing.
    fn beat(&mut self, client: usize, says_owned: bool, hears: bool) {
        if self.clients[client].epoch <= 0 {
            self.clients[client].epoch = 0;
            self.clients[client].owned.clear();
        }
        let request = self.request(client, self.clients[client].epoch, says_owned);
        let answer = self.driver.ask(&request);
        let replies = std::mem::take(&mut self.driver.answers);
        let me = &mut self.clients[client];
        match answer {
            Ok(_) if !hears => me.is_lost = true,
            Ok(_) => {
                let Some((_, Reply::ConsumerHeartbeat(reply))) = replies.into_iter().next() else {
                    panic!("a heartbeat is answered at once")
                };
                assert!(reply.member_epoch >= me.epoch, "G5: a member's epoch does not go back");
                me.epoch = reply.member_epoch;
                me.has_news = false;
                me.is_lost = false;
                if let Some(assignment) = reply.assignment {
                    me.assigned = assignment;
                    // New partitions are worked on at once, others are given up when the client gets to it.
                    for (topic, partitions) in &me.assigned {
                        let owned = me.owned.entry(*topic).or_default();
                        owned.extend(partitions);
                        owned.sort();
                        owned.dedup();
                    }
                }
            }
            Err(_) => self.forget(client),
        }
    }

    fn forget(&mut self, client: usize) {
        let me = &mut self.clients[client];
        me.epoch = 0;
        me.owned.clear();
        me.assigned.clear();
    }

    fn revoke(&mut self, client: usize) {
        let me = &mut self.clients[client];
        me.owned = me.assigned.clone();
    }

    fn leave(&mut self, client: usize, epoch: i32) {
        let request = self.request(client, epoch, false);
        let _ = self.driver.ask(&request);
        self.driver.answers.clear();
        self.forget(client);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Beat { client } => self.beat(client, true, true),
            Step::LostBeat { client } => self.beat(client, true, false),
            Step::Silent { client } => self.beat(client, false, true),
            Step::Revoke { client } => self.revoke(client),
            Step::Subscribe { client, topics, regex } => {
                let me = &mut self.clients[client];
                me.topics = (0..3).filter(|topic| topics & (1 << topic) != 0).map(name).collect();
                me.regex = regex.then(|| "[tv]".into());
                me.has_news = true;
            }
            Step::Leave { client } => self.leave(client, -1),
            Step::LeaveForAWhile { client } => {
                if self.clients[client].instance_id.is_some() {
                    self.leave(client, -2);
                    // It comes back as somebody else.
                    self.lives += 1;
                    self.clients[client].member_id = format!("m{client}-{}", self.lives).into();
                }
            }
            Step::Crash { client } => {
                self.forget(client);
                self.lives += 1;
                self.clients[client].member_id = format!("m{client}-{}", self.lives).into();
            }
            Step::Topic { topic, partitions } => {
                let mut all: BTreeMap<TopicName, TopicFacts> =
                    self.topics.iter().map(|(name, facts)| (name.clone(), *facts)).collect();
                let facts =
                    TopicFacts { id: Uuid::from_u128(topic as u128 + 1), partition_count: partitions };
                let known = all.get(&name(topic)).map_or(0, |facts| facts.partition_count);
                if partitions > known {
                    all.insert(name(topic), facts);
                } else {
                    all.remove(&name(topic));
                }
                self.topics = Arc::new(Topics::new(self.topics.version() + 1, all));
            }
            Step::Wait { ms } => {
                self.driver.wait(ms);
            }
            Step::Restart => self.driver.restart(),
        }
        self.check();
    }

    fn members(&self) -> BTreeSet<MemberId> {
        match self.driver.shard.durable().groups.get(&group()) {
            Some(Group::Consumer(group)) => group.members.keys().cloned().collect(),
            Some(Group::Classic(_)) | None => BTreeSet::new(),
        }
    }

    /// G6, as the clients see it: who is a member works on nothing that another member works on.
    fn check(&self) {
        let members = self.members();
        let mut owners: BTreeMap<(Uuid, PartitionIndex), &MemberId> = BTreeMap::new();
        for client in self.clients.iter().filter(|client| members.contains(&client.member_id)) {
            for (topic, partitions) in &client.owned {
                for partition in partitions {
                    let other = owners.insert((*topic, *partition), &client.member_id);
                    assert_eq!(other, None, "{partition} is with {} as well", client.member_id);
                }
            }
        }
    }

    /// Everyone plays by the rules until nothing changes any more, and crashed members' sessions are over.
    fn settle(&mut self) {
        for _ in 0..60 {
            self.driver.wait(1_000);
            for client in 0..CLIENTS {
                self.revoke(client);
                self.beat(client, true, true);
                self.check();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// G5, G6: whatever members do, and then each partition that somebody reads is with one that reads it.
    #[test]
    fn partitions_are_never_shared_and_finally_assigned(
        steps in prop::collection::vec(step(), 1..70),
        interval_ms in prop_oneof![Just(0), Just(1_000)],
    ) {
        let mut world = World::new(interval_ms);
        for step in &steps {
            world.step(step);
        }
        world.settle();
        let mut wanted: BTreeSet<(Uuid, i32)> = BTreeSet::new();
        let mut found: BTreeSet<(Uuid, i32)> = BTreeSet::new();
        for client in &world.clients {
            for (name, facts) in world.topics.iter() {
                let by_regex = client.regex.is_some() && matches!(&**name, "t" | "v");
                if by_regex || client.topics.contains(name) {
                    wanted.extend((0..facts.partition_count).map(|partition| (facts.id, partition)));
                }
            }
            for (topic, partitions) in &client.owned {
                found.extend(partitions.iter().map(|partition| (*topic, partition.0)));
            }
        }
        prop_assert_eq!(found, wanted);
    }
}
