//! Commands of a transcript, as requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_group::*;
use fencepost_types::{
    KeptBytes, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName, Uuid,
};

use super::driver::Mask;

/// A line of a transcript: words, and `name=value` among them.
pub struct Line<'a> {
    pub words: Vec<&'a str>,
    pub options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    pub fn parse(text: &'a str) -> Self {
        let (mut words, mut options) = (Vec::new(), BTreeMap::new());
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) if !name.contains('/') => {
                    options.insert(name, value);
                }
                _ => words.push(word),
            }
        }
        Self { words, options }
    }

    pub fn group(&self) -> GroupId {
        text(self.words.get(1).copied().unwrap_or("-"))
    }

    pub fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> T {
        match self.options.get(name) {
            Some(value) => value.parse().unwrap_or_else(|_| panic!("{name} is a number, not {value}")),
            None => default,
        }
    }

    pub fn text(&self, name: &str) -> Option<Arc<str>> {
        self.options.get(name).filter(|value| **value != "null").map(|value| text(value))
    }

    pub fn list(&self, name: &str) -> Vec<Arc<str>> {
        list(self.options.get(name).copied().unwrap_or(""))
    }
}

/// `-` is the empty text.
pub fn text(value: &str) -> Arc<str> {
    Arc::from(if value == "-" { "" } else { value })
}

fn list(value: &str) -> Vec<Arc<str>> {
    value.split(',').filter(|item| !item.is_empty() && *item != "-").map(Arc::from).collect()
}

/// What commands refer to.
pub struct World {
    pub mask: Mask,
    pub topics: Arc<Topics>,
    pub fresh: u128,
    /// The id of a member that has just asked to join, if it had none.
    pub newcomer: Option<String>,
    pub topic_ids: BTreeMap<TopicName, Uuid>,
}

impl World {
    fn fresh(&mut self) -> Uuid {
        self.fresh += 1;
        Uuid::from_random(self.fresh << 64)
    }

    fn member(&self, line: &Line<'_>) -> MemberId {
        Arc::from(self.mask.id(&line.text("m").unwrap_or_else(|| text("-"))).as_str())
    }

    fn topic_id(&self, topic: &str) -> Uuid {
        self.topic_ids.get(topic).copied().unwrap_or(Uuid::ZERO)
    }

    fn client(line: &Line<'_>) -> Client {
        Client { id: line.text("client").unwrap_or_else(|| text("c")), host: text("/127.0.0.1") }
    }

    pub fn join(&mut self, line: &Line<'_>) -> Request {
        let protocols = line.options.get("p").copied().unwrap_or("range:-");
        let protocols = protocols.split(',').filter(|item| !item.is_empty()).map(|item| {
            let (name, metadata) = item.split_once(':').expect("name:metadata");
            (Arc::from(name), metadata_bytes(metadata))
        });
        let fresh_member_suffix = self.fresh();
        let prefix = line.text("i").unwrap_or_else(|| Self::client(line).id);
        self.newcomer = (!line.options.contains_key("m")).then(|| member_id(&prefix, fresh_member_suffix));
        Request::JoinGroup(JoinGroup {
            api_version: line.number("v", 5),
            client: Self::client(line),
            fresh_member_suffix,
            group: line.group(),
            member_id: self.member(line),
            instance_id: line.text("i"),
            session_timeout_ms: line.number("session", 30_000),
            rebalance_timeout_ms: line.number("rebalance", 30_000),
            protocol_type: line.text("type").unwrap_or_else(|| text("consumer")),
            protocols: protocols.collect(),
            topics: self.topics.clone(),
        })
    }

    /// `sync GROUP GENERATION m=MEMBER a=MEMBER:BYTES,…`
    pub fn sync(&self, line: &Line<'_>) -> Request {
        let assignments = line.list("a").into_iter().map(|item| {
            let (member, assignment) = item.split_once(':').expect("member:assignment");
            (Arc::from(self.mask.id(member).as_str()), assignment_bytes(assignment))
        });
        let named = |name: &str, default: &str| match line.options.get(name) {
            Some(_) => line.text(name),
            None => Some(text(default)),
        };
        Request::SyncGroup(SyncGroup {
            api_version: line.number("v", 5),
            group: line.group(),
            generation: line.words[2].parse().expect("a generation"),
            member_id: self.member(line),
            instance_id: line.text("i"),
            protocol_type: named("type", "consumer"),
            protocol_name: named("protocol", "range"),
            assignments: assignments.collect(),
        })
    }

    /// `beat GROUP GENERATION m=MEMBER`
    pub fn beat(&self, line: &Line<'_>) -> Request {
        Request::Heartbeat(Heartbeat {
            group: line.group(),
            generation: line.words[2].parse().expect("a generation"),
            member_id: self.member(line),
            instance_id: line.text("i"),
        })
    }

    /// `leave GROUP MEMBER[/INSTANCE]…`
    pub fn leave(&self, line: &Line<'_>) -> Request {
        let members = line.words[2..].iter().map(|word| {
            let (member, instance) = word.split_once('/').map_or((*word, None), |(m, i)| (m, Some(i)));
            let member_id = Arc::from(self.mask.id(&text(member)).as_str());
            LeavingMember { member_id, instance_id: instance.map(text) }
        });
        let members = members.collect();
        Request::LeaveGroup(LeaveGroup { api_version: line.number("v", 4), group: line.group(), members })
    }

    fn committer(&self, line: &Line<'_>) -> Committer {
        Committer {
            generation: line.number("gen", -1),
            member_id: self.member(line),
            instance_id: line.text("i"),
        }
    }

    /// `TOPIC/PARTITION=OFFSET[:METADATA]…`
    fn offsets(&self, line: &Line<'_>) -> Vec<TopicOffsets> {
        let mut topics: Vec<TopicOffsets> = Vec::new();
        for word in &line.words[2..] {
            let Some((place, value)) = word.split_once('=') else { continue };
            let (topic, partition) = place.split_once('/').expect("topic/partition");
            let (offset, metadata) = value.split_once(':').map_or((value, ""), |pair| pair);
            let partition = PartitionOffset {
                partition: PartitionIndex(partition.parse().expect("a partition")),
                offset: Offset(offset.parse().expect("an offset")),
                leader_epoch: LeaderEpoch(line.number("leader-epoch", -1)),
                metadata: (metadata != "null").then(|| repeated(metadata)),
            };
            match topics.iter_mut().find(|known| *known.topic == *topic) {
                Some(known) => known.partitions.push(partition),
                None => topics.push(TopicOffsets {
                    topic: topic.into(),
                    topic_id: self.topic_id(topic),
                    partitions: vec![partition],
                }),
            }
        }
        topics
    }

    pub fn commit(&self, line: &Line<'_>) -> Request {
        Request::OffsetCommit(OffsetCommit {
            api_version: line.number("v", 7),
            group: line.group(),
            committer: self.committer(line),
            retention_ms: line.number("retention", -1),
            topics: self.offsets(line),
            existing: self.topics.clone(),
        })
    }

    pub fn txn_commit(&self, line: &Line<'_>) -> Request {
        Request::TxnOffsetCommit(TxnOffsetCommit {
            api_version: line.number("v", 3),
            group: line.group(),
            producer_id: ProducerId(line.number("pid", 1)),
            producer_epoch: ProducerEpoch(line.number("epoch", 0)),
            committer: self.committer(line),
            topics: self.offsets(line),
            existing: self.topics.clone(),
        })
    }

    fn partitions(&self, words: &[&str]) -> Vec<TopicPartitions> {
        let mut topics: Vec<TopicPartitions> = Vec::new();
        for (topic, partition) in words.iter().filter_map(|word| word.split_once('/')) {
            let partition = PartitionIndex(partition.parse().expect("a partition"));
            match topics.iter_mut().find(|known| *known.topic == *topic) {
                Some(known) => known.partitions.push(partition),
                None => topics.push(TopicPartitions {
                    topic: topic.into(),
                    topic_id: self.topic_id(topic),
                    partitions: vec![partition],
                }),
            }
        }
        topics
    }

    /// `fetch GROUP all|TOPIC/PARTITION… [stable]`
    pub fn fetch(&self, line: &Line<'_>) -> Request {
        let is_all = line.words.get(2) == Some(&"all");
        Request::OffsetFetch(OffsetFetch {
            group: line.group(),
            member_id: line.options.get("m").map(|name| Arc::from(self.mask.id(&text(name)).as_str())),
            member_epoch: line.number("epoch", -1),
            topics: (!is_all).then(|| self.partitions(&line.words[2..])),
            require_stable: line.words.contains(&"stable"),
            existing: self.topics.clone(),
        })
    }

    pub fn offset_delete(&self, line: &Line<'_>) -> Request {
        Request::OffsetDelete(OffsetDelete { group: line.group(), topics: self.partitions(&line.words[2..]) })
    }

    pub fn describe(&self, line: &Line<'_>) -> Request {
        let groups = line.words[1..].iter().map(|word| text(word)).collect();
        Request::DescribeGroups(DescribeGroups { api_version: line.number("v", 5), groups })
    }

    pub fn list_groups(&self, line: &Line<'_>) -> Request {
        Request::ListGroups(ListGroups { states: line.list("states"), types: line.list("types") })
    }

    pub fn delete(&self, line: &Line<'_>) -> Request {
        Request::DeleteGroups(DeleteGroups {
            groups: line.words[1..].iter().map(|word| text(word)).collect(),
        })
    }

    /// `beat848 GROUP EPOCH m=MEMBER [topics=t,u] [regex=…] [owned=t:0+1,u:0]`
    pub fn beat848(&mut self, line: &Line<'_>) -> Request {
        let owned = line
            .options
            .get("owned")
            .map(|_| line.list("owned").iter().map(|item| self.owned(item)).collect::<BTreeMap<_, _>>());
        let topics = line.options.get("topics").map(|_| line.list("topics"));
        Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
            api_version: line.number("v", 1),
            client: Self::client(line),
            fresh_member_id: self.fresh(),
            group: line.options.get("group").map_or_else(|| line.group(), |_| Arc::from("  ")),
            member_id: self.member(line),
            member_epoch: line.words[2].parse().expect("an epoch"),
            instance_id: line.text("i"),
            rack_id: line.text("rack"),
            rebalance_timeout_ms: line.number("rebalance", -1),
            subscribed_topic_names: topics,
            subscribed_topic_regex: line.text("regex"),
            server_assignor: line.text("assignor"),
            owned_partitions: owned,
            topics: self.topics.clone(),
        })
    }

    fn owned(&self, item: &str) -> (Uuid, Vec<PartitionIndex>) {
        let (topic, partitions) = item.split_once(':').expect("topic:partitions");
        let partitions =
            partitions.split('+').map(|number| PartitionIndex(number.parse().expect("a partition")));
        (self.topic_id(topic), partitions.collect())
    }

    pub fn describe848(&self, line: &Line<'_>) -> Request {
        let groups = line.words[1..].iter().map(|word| text(word)).collect();
        Request::ConsumerGroupDescribe(ConsumerGroupDescribe { groups, topics: self.topics.clone() })
    }

    /// `topic NAME PARTITIONS`: there is such a topic from now on; 0 partitions: there is none any more, and the
    /// coordinator is told, unless it happens `quietly`.
    pub fn topic(&mut self, line: &Line<'_>) -> Option<Request> {
        let (name, count): (TopicName, i32) = (line.words[1].into(), line.words[2].parse().expect("a count"));
        let mut facts: BTreeMap<TopicName, TopicFacts> =
            self.topics.iter().map(|(name, facts)| (name.clone(), *facts)).collect();
        let version = self.topics.version() + 1;
        if count == 0 {
            facts.remove(&name);
        } else {
            let id = facts.get(&name).map_or(Uuid::from_u128(1_000 + version as u128), |known| known.id);
            facts.insert(name.clone(), TopicFacts { id, partition_count: count });
        }
        self.topics = Arc::new(Topics::new(version, facts));
        self.topic_ids = self.topics.iter().map(|(name, facts)| (name.clone(), facts.id)).collect();
        let existing = self.topics.clone();
        (count == 0 && !line.words.contains(&"quietly"))
            .then(|| Request::TopicsDeleted(TopicsDeleted { names: vec![name], existing, after: None }))
    }
}

/// How a member id looks.
fn member_id(prefix: &str, suffix: Uuid) -> String {
    let hex: String = suffix.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// `x*4096` is 4096 times x.
fn repeated(metadata: &str) -> Arc<str> {
    match metadata.split_once('*') {
        Some((unit, count)) => unit.repeat(count.parse().expect("a count")).into(),
        None => metadata.into(),
    }
}

/// `sub+t+u/0/1` is the subscription of a classic consumer, version 1, that owns two partitions of u; `-` is nothing.
fn metadata_bytes(metadata: &str) -> KeptBytes {
    let Some(topics) = metadata.strip_prefix("sub+") else {
        return KeptBytes::copy_of(text(metadata).as_bytes());
    };
    let topics: Vec<&str> = topics.split('+').collect();
    let mut bytes = vec![0, 1];
    bytes.extend((topics.len() as i32).to_be_bytes());
    let name = |topic: &str| {
        let name = topic.split('/').next().unwrap_or_default();
        let mut bytes = Vec::from((name.len() as i16).to_be_bytes());
        bytes.extend(name.as_bytes());
        bytes
    };
    topics.iter().for_each(|topic| bytes.extend(name(topic)));
    bytes.extend([0xff; 4]);
    let owned: Vec<_> = topics.iter().filter_map(|topic| Some((topic, topic.split_once('/')?.1))).collect();
    bytes.extend((owned.len() as i32).to_be_bytes());
    for (topic, partitions) in owned {
        let partitions: Vec<i32> =
            partitions.split('/').map(|one| one.parse().expect("a partition")).collect();
        bytes.extend(name(topic));
        bytes.extend((partitions.len() as i32).to_be_bytes());
        partitions.iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
    }
    KeptBytes::copy_of(&bytes)
}

/// `asg+t+0+1` is the assignment of a classic consumer: partitions 0 and 1 of t.
fn assignment_bytes(assignment: &str) -> KeptBytes {
    let (rest, user_data): (_, &[u8]) = match assignment.split_once('+') {
        Some(("asg", rest)) => (rest, &[0xff; 4]),
        Some(("asg-with-data", rest)) => (rest, &[0, 0, 0, 1, 7]),
        Some(("asg-with-no-data", rest)) => (rest, &[0; 4]),
        Some(_) | None => return KeptBytes::copy_of(text(assignment).as_bytes()),
    };
    let mut parts = rest.split('+');
    let topic = parts.next().expect("a topic");
    let partitions: Vec<i32> = parts.map(|part| part.parse().expect("a partition")).collect();
    let mut bytes = vec![0, 1, 0, 0, 0, 1];
    bytes.extend((topic.len() as i16).to_be_bytes());
    bytes.extend(topic.as_bytes());
    bytes.extend((partitions.len() as i32).to_be_bytes());
    partitions.iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
    bytes.extend(user_data);
    KeptBytes::copy_of(&bytes)
}
