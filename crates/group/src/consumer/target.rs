//! The target assignment: what the members of a group shall own.

use alloc::collections::{BTreeMap, BTreeSet};

use fencepost_types::{TopicName, Uuid};

use crate::consumer::assignor::{MemberSpec, Specs, assign};
use crate::consumer::group::ConsumerGroup;
use crate::{Assignment, Assignor, ConsumerMemberMetadata, GroupConfig, MemberId, Topics};

impl ConsumerGroup {
    /// What every member shall own, as its assignor sees it.
    pub fn new_target(&self, config: &GroupConfig, topics: &Topics) -> BTreeMap<MemberId, Assignment> {
        let members: Specs<'_> = self.members.keys().map(|id| (id, self.spec(id, topics))).collect();
        let read: BTreeSet<Uuid> =
            members.values().flat_map(|member| member.topics.iter().copied()).collect();
        let counted = read.into_iter().filter_map(|id| {
            let facts = topics.name(id).and_then(|name| topics.get(name))?;
            Some((id, facts.partition_count))
        });
        assign(self.assignor(config), &members, &counted.collect())
    }

    fn spec<'a>(&'a self, member_id: &MemberId, topics: &Topics) -> MemberSpec<'a> {
        let member = &self.members[member_id];
        MemberSpec {
            instance_id: member.metadata.instance_id.as_ref(),
            topics: self.topic_ids_of(&member.metadata, topics),
            target: self.targets.get(member_id).map(|target| &**target),
        }
    }

    /// The ids of the topics that a member with this description reads, of those there are.
    pub fn topic_ids_of(&self, metadata: &ConsumerMemberMetadata, topics: &Topics) -> BTreeSet<Uuid> {
        self.topics_of(metadata).filter_map(|name| topics.get(name)).map(|facts| facts.id).collect()
    }

    /// The assignor that most members name, of those that name one; the settings' first one if none does, and
    /// between two that are named as often.
    pub fn assignor(&self, config: &GroupConfig) -> Assignor {
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for name in self.members.values().filter_map(|member| member.metadata.server_assignor.as_ref()) {
            if let Some(assignor) = config.assignor(name) {
                *votes.entry(assignor).or_default() += 1;
            }
        }
        let most = votes.values().copied().max();
        let mut chosen = config
            .consumer_assignors
            .iter()
            .copied()
            .filter(|it| votes.get(it).copied() == most && most.is_some());
        chosen.next().unwrap_or_else(|| config.default_assignor())
    }

    /// A number that changes when a topic that the group reads comes, goes, is made again or gets partitions; 0 if it
    /// reads none that exists. Kafka has a number of its own here: after a change of brokers between the two a group
    /// makes one assignment more than it had to.
    pub fn metadata_hash(&self, topics: &Topics) -> i64 {
        let mut hash = Fnv::default();
        let mut is_empty = true;
        for name in self.subscribed_topics() {
            if let Some(facts) = topics.get(&name) {
                is_empty = false;
                hash.topic(&name, facts.id, facts.partition_count);
            }
        }
        if is_empty { 0 } else { hash.0 as i64 }
    }
}

/// The hash of Fowler, Noll and Vo, 64 bits, variant 1a.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn topic(&mut self, name: &TopicName, id: Uuid, partition_count: i32) {
        self.bytes(name.as_bytes());
        // No name has this byte, so that where one ends is seen.
        self.bytes(&[0xff]);
        self.bytes(&id.0);
        self.bytes(&partition_count.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
