//! Whatever is asked in whatever order: the live image equals the image replayed from the log, and equals a snapshot of it
//! read back (M1).

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::delta::Delta;
use crate::log::{SnapshotWriter, read_snapshot};

#[derive(Clone, Debug)]
enum Step {
    Create(u8, i32, Option<&'static str>),
    Delete(u8),
    Grow(u8, i32),
    Set(u8, &'static str, &'static str),
    Unset(u8, &'static str),
    ProducerIds,
    Elr(i16),
    CleanRestart,
    Crash,
    Quota(u8, Option<f64>),
    NoOp,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..4u8;
    let pair = prop_oneof![
        Just(("retention.ms", "7")),
        Just(("cleanup.policy", "compact")),
        Just(("min.insync.replicas", "1")),
        Just(("retention.ms", "x")),
    ];
    prop_oneof![
        (name.clone(), -2..4i32, prop_oneof![Just(None), Just(Some("compact"))])
            .prop_map(|(name, count, policy)| Step::Create(name, count, policy)),
        name.clone().prop_map(Step::Delete),
        (name.clone(), 0..6i32).prop_map(|(name, count)| Step::Grow(name, count)),
        (name.clone(), pair).prop_map(|(name, (key, value))| Step::Set(name, key, value)),
        (name.clone(), prop_oneof![Just("retention.ms"), Just("min.insync.replicas")])
            .prop_map(|(name, key)| Step::Unset(name, key)),
        Just(Step::ProducerIds),
        (0..2i16).prop_map(Step::Elr),
        Just(Step::CleanRestart),
        Just(Step::Crash),
        (0..2u8, prop_oneof![Just(None), Just(Some(5.0))]).prop_map(|(user, value)| Step::Quota(user, value)),
        Just(Step::NoOp),
    ]
}

fn run(node: &mut Node, step: &Step) {
    let name = |n: u8| ["a", "b", "c.d", "c_d"][usize::from(n)];
    match step {
        Step::Create(n, count, policy) => {
            let mut topic = node.topic(name(*n));
            topic.num_partitions = *count;
            topic.configs =
                policy.iter().map(|value| ("cleanup.policy".to_string(), Some(value.to_string()))).collect();
            node.create(Vec::from([topic]), false);
        }
        Step::Delete(n) => {
            let topics = Vec::from([TopicRef { name: Some(name(*n).to_string()), id: Uuid::ZERO }]);
            node.must(&Request::DeleteTopics(topics));
        }
        Step::Grow(n, count) => {
            let topics =
                Vec::from([MorePartitions { name: name(*n).to_string(), count: *count, assignments: None }]);
            node.must(&Request::CreatePartitions { topics, validate_only: false });
        }
        Step::Set(n, key, value) => {
            node.alter(ConfigResource::topic(name(*n)), &[(key, ConfigChange::SET, Some(value))]);
        }
        Step::Unset(n, key) => {
            node.alter(ConfigResource::topic(name(*n)), &[(key, ConfigChange::DELETE, None)]);
        }
        Step::ProducerIds => {
            node.must(&Request::AllocateProducerIds);
        }
        Step::Elr(level) => {
            let feature = crate::features::ELIGIBLE_LEADER_REPLICAS_VERSION.to_string();
            let updates = Vec::from([FeatureUpdate { feature, level: *level, upgrade_type: 2 }]);
            node.must(&Request::UpdateFeatures { updates, validate_only: false });
        }
        Step::CleanRestart => {
            let epoch = node.controller.image().broker(ME).unwrap().epoch;
            node.must(&Request::ShutDownBroker);
            node.start(epoch);
        }
        Step::Crash => node.start(BrokerEpoch::NONE),
        Step::Quota(user, value) => {
            let entity = Vec::from([("user".to_string(), Some(user.to_string()))]);
            let changes = Vec::from([QuotaChange { key: "request_percentage".to_string(), value: *value }]);
            let entries = Vec::from([QuotaChanges { entity, changes }]);
            node.must(&Request::AlterClientQuotas { entries, validate_only: false });
        }
        Step::NoOp => {
            node.must(&Request::NoOp);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Live equals replayed equals snapshot; every partition of a running node is led; epochs never go back; the delta of
    /// all steps is the sum of what changed.
    #[test]
    fn live_equals_replayed(steps in proptest::collection::vec(step(), 1..30)) {
        let mut node = Node::running();
        for step in &steps {
            let before = node.controller.image().clone();
            run(&mut node, step);
            let live = node.controller.image();
            for topic in live.topics().iter() {
                for (index, partition) in &topic.partitions {
                    prop_assert_eq!(partition.leader, ME);
                    let old = before.topic(topic.id).and_then(|old| old.partitions.get(index));
                    if let Some(old) = old {
                        prop_assert!(partition.leader_epoch >= old.leader_epoch);
                        prop_assert!(partition.partition_epoch >= old.partition_epoch);
                    }
                }
            }
            let delta = Delta::between(&before, live);
            prop_assert_eq!(
                live.topics().len() + delta.topics_deleted.len(),
                before.topics().len() + delta.topics_created.len()
            );
        }
        let live = node.controller.image();
        let mut replayed = node.replayed();
        // Control records are not in this log.
        replayed.epoch = live.epoch;
        replayed.kraft_version = live.kraft_version;
        prop_assert_eq!(live, &replayed);
        let snapshot: Vec<u8> =
            SnapshotWriter::new(live.clone(), Millis(0)).flat_map(|batch| batch.bytes().to_vec()).collect();
        let read = read_snapshot(snapshot.into(), live.offset().next(), live.epoch()).unwrap();
        prop_assert_eq!(live, &read);
    }
}
