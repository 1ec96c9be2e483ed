//! CreateTopics, DeleteTopics, CreatePartitions: wire-apis §7.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::config::ConfigSource;
use fencepost_types::PartitionIndex;

/// Which names a topic may have.
#[test]
fn names() {
    let mut node = Node::running();
    let long = "a".repeat(250);
    for name in ["", ".", "..", "a b", "a/b", "a:b", "a\tb", "a*", "ä", &long] {
        assert_eq!(
            node.try_topic(|t| t.name = name.to_string()),
            ErrorCode::InvalidTopicException,
            "{name:?}"
        );
    }
    for name in ["...", &long[1..], "-", "_", "a.b-c_D9", "__mine"] {
        assert_eq!(node.try_topic(|t| t.name = name.to_string()), ErrorCode::None, "{name:?}");
    }
    assert_eq!(node.try_topic(|t| t.name = "__cluster_metadata".to_string()), ErrorCode::InvalidRequest);
}

/// A name that exists wins over every other error.
#[test]
fn a_name_that_exists_wins() {
    let mut node = Node::running().with_topic("t");
    let exists = |change: fn(&mut NewTopic), node: &mut Node| {
        node.try_topic(|topic| {
            topic.name = "t".to_string();
            change(topic);
        })
    };
    for change in [
        (|_| {}) as fn(&mut NewTopic),
        |topic| topic.replication_factor = 9,
        |topic| topic.num_partitions = 0,
        |topic| topic.configs = Vec::from([("nonsense".to_string(), Some("1".to_string()))]),
    ] {
        assert_eq!(exists(change, &mut node), ErrorCode::TopicAlreadyExists);
    }
}

/// Names that differ by dots and underscores collide with existing topics, not within one request.
#[test]
fn dots_and_underscores_collide() {
    let mut node = Node::running().with_topic("a.b");
    assert_eq!(node.try_topic(|t| t.name = "a_b".to_string()), ErrorCode::InvalidTopicException);
    let both = Vec::from([node.topic("x.y"), node.topic("x_y")]);
    assert!(node.create(both, true).iter().all(|(_, code)| code.is_none()));
}

/// Counts: −1 is the default, 0 and below −1 are refused; more replicas than brokers are refused.
#[test]
fn counts() {
    let mut node = Node::running();
    for (count, code) in
        [(-1, ErrorCode::None), (0, ErrorCode::InvalidPartitions), (-2, ErrorCode::InvalidPartitions)]
    {
        assert_eq!(node.try_topic(|t| t.num_partitions = count), code, "{count}");
    }
    assert_eq!(node.try_topic(|t| t.num_partitions = 10_001), ErrorCode::PolicyViolation);
    for (count, code) in [
        (-1, ErrorCode::None),
        (0, ErrorCode::InvalidReplicationFactor),
        (-2, ErrorCode::InvalidReplicationFactor),
        (1, ErrorCode::None),
        (2, ErrorCode::InvalidReplicationFactor),
        (i16::MAX, ErrorCode::InvalidReplicationFactor),
    ] {
        assert_eq!(node.try_topic(|t| t.replication_factor = count), code, "{count}");
    }
}

/// Assignments by hand: counts must be −1, partitions 0..n−1, brokers known and different.
#[test]
fn assignments() {
    let mut node = Node::running();
    let mut attempt = |parts: &[(i32, &[i32])], partitions: i32, replicas: i16| {
        node.try_topic(|topic| {
            topic.num_partitions = partitions;
            topic.replication_factor = replicas;
            topic.assignments = parts
                .iter()
                .map(|(index, ids)| (PartitionIndex(*index), ids.iter().copied().map(BrokerId).collect()))
                .collect();
        })
    };
    assert_eq!(attempt(&[(0, &[1])], -1, -1), ErrorCode::None);
    assert_eq!(attempt(&[(1, &[1]), (0, &[1])], -1, -1), ErrorCode::None);
    assert_eq!(attempt(&[(0, &[1])], 1, -1), ErrorCode::InvalidRequest);
    assert_eq!(attempt(&[(0, &[1])], -1, 1), ErrorCode::InvalidRequest);
    let wrong: [&[(i32, &[i32])]; 9] = [
        &[(0, &[1]), (2, &[1])],
        &[(1, &[1])],
        &[(-1, &[1])],
        &[(0, &[701])],
        &[(0, &[-1])],
        &[(0, &[1, 1])],
        &[(0, &[])],
        &[(0, &[1]), (1, &[1, 701])],
        &[(0, &[1]), (0, &[1])],
    ];
    for parts in wrong {
        assert_eq!(attempt(parts, -1, -1), ErrorCode::InvalidReplicaAssignment, "{parts:?}");
    }
}

/// A name twice in one request fails, once in the answer, and does not spoil the others.
#[test]
fn a_name_twice_fails_alone() {
    let mut node = Node::running();
    let topics = Vec::from([node.topic("a"), node.topic("b"), node.topic("a")]);
    let expected = [("a".to_string(), ErrorCode::InvalidRequest), ("b".to_string(), ErrorCode::None)];
    assert_eq!(node.create(topics, false), expected);
    assert!(node.controller.image().topic_by_name("a").is_none());
    assert!(node.controller.image().topic_by_name("b").is_some());
}

/// A created topic tells its id, counts and settings; epochs begin at 0, the directory is filled in (cluster §23).
#[test]
fn a_created_topic() {
    let mut node = Node::running();
    let mut topic = node.topic("t");
    topic.num_partitions = 3;
    topic.configs = Vec::from([
        ("retention.ms".to_string(), Some("10".to_string())),
        ("retention.ms".to_string(), Some(" 20 ".to_string())),
    ]);
    let id = topic.id;
    let Reply::CreateTopics(mut results) =
        node.must(&Request::CreateTopics { topics: Vec::from([topic]), validate_only: false })
    else {
        panic!("another reply")
    };
    let created = results.remove(0).1.unwrap();
    assert_eq!((created.id, created.num_partitions, created.replication_factor), (id, 3, 1));
    assert_eq!(created.configs.len(), 37);
    let retention = created.configs.iter().find(|entry| entry.name == "retention.ms").unwrap();
    assert_eq!((retention.value.as_deref(), retention.source), (Some("20"), ConfigSource::Topic));
    let image = node.controller.image();
    for index in 0..3 {
        let partition = image.partition("t", index).unwrap();
        assert_eq!((partition.leader, partition.leader_epoch.0, partition.partition_epoch.0), (ME, 0, 0));
        assert_eq!(partition.directories, image.broker(ME).unwrap().directories);
    }
}

/// Validate only answers like a creation and writes nothing.
#[test]
fn validate_only_writes_nothing() {
    let mut node = Node::running();
    let before = node.log.len();
    assert_eq!(node.try_topic(|_| {}), ErrorCode::None);
    assert_eq!(node.log.len(), before);
}

fn delete(node: &mut Node, topics: &[(Option<&str>, Uuid)]) -> Vec<(Option<String>, ErrorCode)> {
    let topics =
        topics.iter().map(|(name, id)| TopicRef { name: name.map(str::to_string), id: *id }).collect();
    match node.must(&Request::DeleteTopics(topics)) {
        Reply::DeleteTopics(results) => {
            results.into_iter().map(|deleted| (deleted.name, code_of(&deleted.result))).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Deletion by name, by id, by both, by neither, twice.
#[test]
fn deletions() {
    let mut node = Node::running().with_topic("t").with_topic("u");
    let id = node.controller.image().topic_by_name("t").unwrap().id;
    let (t, none) = (Some("t".to_string()), Uuid::ZERO);
    assert_eq!(delete(&mut node, &[(Some("t"), id)]), [(t.clone(), ErrorCode::InvalidRequest)]);
    assert_eq!(delete(&mut node, &[(None, none)]), [(None, ErrorCode::InvalidRequest)]);
    assert_eq!(delete(&mut node, &[(Some("t"), none), (None, id)]), [(t.clone(), ErrorCode::InvalidRequest)]);
    assert_eq!(
        delete(&mut node, &[(Some("a b"), none)]),
        [(Some("a b".to_string()), ErrorCode::UnknownTopicOrPartition)]
    );
    assert_eq!(delete(&mut node, &[(None, id), (Some("x"), none)])[0], (t, ErrorCode::None));
    assert_eq!(delete(&mut node, &[(None, id)]), [(None, ErrorCode::UnknownTopicId)]);
    assert!(node.controller.image().topic_by_name("u").is_some());
}

/// Deletion takes the topic's settings along; made again, the name has another id and leader epoch 0.
#[test]
fn a_name_comes_back_as_another_topic() {
    let mut node = Node::running().with_topic("t");
    assert_eq!(node.alter(ConfigResource::topic("t"), &[("retention.ms", 0, Some("7"))]), ErrorCode::None);
    let old = node.controller.image().topic_by_name("t").unwrap().id;
    delete(&mut node, &[(Some("t"), Uuid::ZERO)]);
    assert!(node.controller.image().configs().get(&ConfigResource::topic("t")).is_none());
    let node = node.with_topic("t");
    let topic = node.controller.image().topic_by_name("t").unwrap();
    assert_ne!(topic.id, old);
    assert_eq!(topic.partitions[&PartitionIndex(0)].leader_epoch, LeaderEpoch(0));
}

/// `delete.topic.enable=false` keeps every topic.
#[test]
fn deletion_can_be_switched_off() {
    let mut node = Node::new(&[("delete.topic.enable", "false")]);
    node.begin_epoch(1);
    node.must(&Request::Bootstrap);
    node.start(BrokerEpoch::NONE);
    let mut node = node.with_topic("t");
    assert_eq!(
        delete(&mut node, &[(Some("t"), Uuid::ZERO)]),
        [(Some("t".to_string()), ErrorCode::TopicDeletionDisabled)]
    );
}

fn grow(
    node: &mut Node,
    name: &str,
    count: i32,
    assignments: Option<&[&[i32]]>,
    validate_only: bool,
) -> ErrorCode {
    let assignments = assignments
        .map(|lists| lists.iter().map(|ids| ids.iter().copied().map(BrokerId).collect()).collect());
    let topics = Vec::from([MorePartitions { name: name.to_string(), count, assignments }]);
    match node.must(&Request::CreatePartitions { topics, validate_only }) {
        Reply::CreatePartitions(results) => code_of(&results[0].1),
        other => panic!("{other:?}"),
    }
}

/// CreatePartitions only adds, and by hand needs one list of known brokers for each new partition.
#[test]
fn more_partitions() {
    let mut node = Node::running().with_topic("t").with_topic("__consumer_offsets");
    for count in [1, 0, -1, -2] {
        assert_eq!(grow(&mut node, "t", count, None, false), ErrorCode::InvalidPartitions, "{count}");
    }
    assert_eq!(grow(&mut node, "none", 3, None, false), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(grow(&mut node, "__consumer_offsets", 3, None, false), ErrorCode::InvalidPartitions);
    let wrong: [&[&[i32]]; 7] = [
        &[&[1]],
        &[&[1], &[1], &[1]],
        &[&[1], &[701]],
        &[&[1, 1], &[1]],
        &[&[], &[]],
        &[&[1, 701], &[1, 701]],
        &[],
    ];
    for lists in wrong {
        assert_eq!(
            grow(&mut node, "t", 3, Some(lists), true),
            ErrorCode::InvalidReplicaAssignment,
            "{lists:?}"
        );
    }
    assert_eq!(grow(&mut node, "t", 3, Some(&[&[1], &[1]]), true), ErrorCode::None);
    assert_eq!(node.controller.image().topic_by_name("t").unwrap().partitions.len(), 1);
    assert_eq!(grow(&mut node, "t", 3, None, false), ErrorCode::None);
    let topic = node.controller.image().topic_by_name("t").unwrap();
    assert_eq!(topic.partitions.keys().map(|index| index.0).collect::<Vec<i32>>(), [0, 1, 2]);
    let twice =
        [2, 3].map(|count| MorePartitions { name: "t".to_string(), count: count + 2, assignments: None });
    let reply = node.must(&Request::CreatePartitions { topics: twice.into(), validate_only: false });
    let Reply::CreatePartitions(results) = reply else { panic!("another reply") };
    assert_eq!(results.iter().map(|(_, r)| code_of(r)).collect::<Vec<_>>(), [ErrorCode::InvalidRequest]);
}
