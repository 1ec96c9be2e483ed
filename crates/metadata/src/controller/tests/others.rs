//! Features, quotas, SCRAM credentials, elections, reassignments: wire-apis §7.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::image::ScramMechanism;
use fencepost_types::PartitionIndex;

fn feature(node: &mut Node, updates: &[(&str, i16, i8)], validate_only: bool) -> ErrorCode {
    let updates = updates
        .iter()
        .map(|(feature, level, upgrade_type)| FeatureUpdate {
            feature: feature.to_string(),
            level: *level,
            upgrade_type: *upgrade_type,
        })
        .collect();
    match node.must(&Request::UpdateFeatures { updates, validate_only }) {
        Reply::UpdateFeatures(result) => code_of(&result),
        other => panic!("{other:?}"),
    }
}

/// Kind 1 only goes up, 2 and 3 only down; every fault is INVALID_UPDATE_VERSION for the whole request.
#[test]
fn features() {
    let mut node = Node::running();
    let wrong = ErrorCode::InvalidUpdateVersion;
    let name = "transaction.version";
    for (level, codes) in [
        (2, [ErrorCode::None; 3]),
        (1, [wrong, ErrorCode::None, ErrorCode::None]),
        (0, [wrong, ErrorCode::None, ErrorCode::None]),
        (3, [wrong; 3]),
        (-1, [wrong; 3]),
    ] {
        for (kind, code) in (1..).zip(codes) {
            assert_eq!(feature(&mut node, &[(name, level, kind)], true), code, "level {level} kind {kind}");
        }
    }
    for update in
        [("nonsense.version", 1, 1), ("nonsense.version", 0, 3), ("", 1, 1), (name, 1, 0), (name, 1, 9)]
    {
        assert_eq!(feature(&mut node, &[update], true), wrong, "{update:?}");
    }
    assert_eq!(feature(&mut node, &[], false), ErrorCode::None);
    assert_eq!(feature(&mut node, &[(name, 2, 1), (name, 2, 1)], false), ErrorCode::None);
    assert_eq!(feature(&mut node, &[(name, 1, 2), ("nonsense.version", 2, 1)], false), wrong);
    assert_eq!(node.controller.image().feature_level(name), 2);
    assert_eq!(feature(&mut node, &[(name, 1, 2)], false), ErrorCode::None);
    assert_eq!(node.controller.image().feature_level(name), 1);
    for (kind, code) in [(1, ErrorCode::None), (2, wrong), (3, wrong)] {
        assert_eq!(feature(&mut node, &[(name, 2, kind)], true), code, "up to 2 by kind {kind}");
        assert_eq!(
            feature(&mut node, &[(name, 1, kind)], true),
            ErrorCode::None,
            "to where it is, kind {kind}"
        );
    }
}

/// metadata.version goes up to what we read, and down only as far as no record loses a field (cluster §2.1).
#[test]
fn the_metadata_version() {
    let mut node = Node::running();
    let wrong = ErrorCode::InvalidUpdateVersion;
    for (level, kind, code) in [(34, 1, wrong), (22, 2, wrong), (22, 3, wrong), (25, 2, ErrorCode::None)] {
        assert_eq!(feature(&mut node, &[("metadata.version", level, kind)], true), code, "{level}");
    }
    assert_eq!(feature(&mut node, &[("metadata.version", 33, 1)], false), ErrorCode::None);
    node.start(BrokerEpoch::NONE);
    let versions: Vec<i16> = node
        .log
        .iter()
        .map(|(_, value)| VersionedRecord::from_value(value.as_ref().unwrap()).unwrap())
        .filter(|record| record.record.type_name() == "RegisterBroker")
        .map(|record| record.version)
        .collect();
    assert_eq!(versions, [3, 4], "the level takes effect for the records after it");
    assert_eq!(feature(&mut node, &[("metadata.version", 32, 2)], true), wrong);
    assert_eq!(feature(&mut node, &[("kraft.version", 0, 2)], true), wrong);
}

fn quota(node: &mut Node, entity: &[(&str, Option<&str>)], changes: &[(&str, Option<f64>)]) -> ErrorCode {
    let entity = entity.iter().map(|(kind, name)| (kind.to_string(), name.map(str::to_string))).collect();
    let changes =
        changes.iter().map(|(key, value)| QuotaChange { key: key.to_string(), value: *value }).collect();
    let entries = Vec::from([QuotaChanges { entity, changes }]);
    match node.must(&Request::AlterClientQuotas { entries, validate_only: false }) {
        Reply::AlterClientQuotas(results) => code_of(&results[0].1),
        other => panic!("{other:?}"),
    }
}

/// Which quotas there can be.
#[test]
fn quotas() {
    let mut node = Node::running();
    let wrong = ErrorCode::InvalidRequest;
    let (user, rate) = (("user", Some("u")), "producer_byte_rate");
    for (entity, change, code) in [
        (&[user][..], ("nonsense", Some(1.0)), wrong),
        (&[user], (rate, Some(-1.0)), wrong),
        (&[user], (rate, Some(0.0)), wrong),
        (&[user], (rate, Some(1.5)), wrong),
        (&[user], ("request_percentage", Some(1.5)), ErrorCode::None),
        (&[("nobody", Some("u"))], (rate, Some(1.0)), wrong),
        (&[], (rate, Some(1.0)), wrong),
        (&[("user", Some(""))], (rate, Some(1.0)), wrong),
        (&[("user", None)], (rate, Some(1.0)), ErrorCode::None),
        (&[user, ("client-id", Some("c"))], (rate, Some(1.0)), ErrorCode::None),
        (&[user, ("ip", Some("127.0.0.9"))], (rate, Some(1.0)), wrong),
        (&[("ip", Some("127.0.0.9"))], (rate, Some(1.0)), wrong),
        (&[("ip", Some("127.0.0.9"))], ("connection_creation_rate", Some(1.0)), ErrorCode::None),
        (&[("ip", Some("not an ip"))], ("connection_creation_rate", Some(1.0)), wrong),
        (&[user, user], (rate, Some(1.0)), ErrorCode::None),
    ] {
        assert_eq!(quota(&mut node, entity, &[change]), code, "{entity:?} {change:?}");
    }
}

/// A quota is set, changed and removed; removing what is not set is fine.
#[test]
fn the_life_of_a_quota() {
    let mut node = Node::running();
    let user = [("user", Some("u"))];
    let steps: [(&[(&str, Option<f64>)], usize); 5] = [
        (&[("producer_byte_rate", Some(1e9)), ("request_percentage", Some(50.0))], 2),
        (&[("producer_byte_rate", Some(2e9))], 2),
        (&[("request_percentage", None)], 1),
        (&[("request_percentage", None)], 1),
        (&[("producer_byte_rate", None)], 0),
    ];
    for (changes, left) in steps {
        assert_eq!(quota(&mut node, &user, changes), ErrorCode::None);
        let quotas = node.controller.image().client_quotas();
        assert_eq!(quotas.values().map(|values| values.len()).sum::<usize>(), left);
    }
    assert!(node.controller.image().client_quotas().is_empty());
}

fn scram(
    node: &mut Node,
    deletions: &[(&str, i8)],
    upsertions: &[(&str, i8, i32)],
) -> Vec<(String, ErrorCode)> {
    let key = || fencepost_types::KeptBytes::copy_of(b"key");
    let request = ScramChanges {
        deletions: deletions
            .iter()
            .map(|(user, mechanism)| ScramDeletion {
                user: user.to_string(),
                mechanism: ScramMechanism(*mechanism),
            })
            .collect(),
        upsertions: upsertions
            .iter()
            .map(|(user, mechanism, iterations)| ScramUpsertion {
                user: user.to_string(),
                mechanism: ScramMechanism(*mechanism),
                iterations: *iterations,
                salt: key(),
                stored_key: key(),
                server_key: key(),
            })
            .collect(),
    };
    match node.must(&Request::AlterScramCredentials(request)) {
        Reply::AlterScramCredentials(results) => {
            results.into_iter().map(|(user, result)| (user, code_of(&result))).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Credentials that cannot be, and one change of a user per request.
#[test]
fn scram_credentials() {
    let mut node = Node::running();
    let one = |user: &str, code| Vec::from([(user.to_string(), code)]);
    assert_eq!(scram(&mut node, &[], &[("u", 1, 4_095)]), one("u", ErrorCode::UnacceptableCredential));
    assert_eq!(scram(&mut node, &[], &[("u", 1, 16_385)]), one("u", ErrorCode::UnacceptableCredential));
    assert_eq!(scram(&mut node, &[], &[("u", 0, 4_096)]), one("u", ErrorCode::UnsupportedSaslMechanism));
    assert_eq!(scram(&mut node, &[], &[("u", 3, 4_096)]), one("u", ErrorCode::UnsupportedSaslMechanism));
    assert_eq!(scram(&mut node, &[], &[("", 1, 4_096)]), one("", ErrorCode::UnacceptableCredential));
    let twice = [("u", 1, 4_096), ("u", 1, 4_097)];
    assert_eq!(scram(&mut node, &[], &twice), one("u", ErrorCode::DuplicateResource));
    assert_eq!(scram(&mut node, &[("u", 1)], &[("u", 1, 4_096)]), one("u", ErrorCode::ResourceNotFound));
    assert_eq!(scram(&mut node, &[("u", 9)], &[]), one("u", ErrorCode::UnsupportedSaslMechanism));
    assert_eq!(scram(&mut node, &[], &[]), []);
    assert!(node.controller.image().scram().is_empty());
    assert_eq!(scram(&mut node, &[], &[("u", 1, 16_384)]), one("u", ErrorCode::None));
    assert_eq!(scram(&mut node, &[], &[("u", 2, 8_192)]), one("u", ErrorCode::None));
    let both = [("u", 1, 4_096), ("u", 2, 4_096)];
    assert_eq!(scram(&mut node, &[], &both), one("u", ErrorCode::DuplicateResource));
    assert_eq!(scram(&mut node, &[("u", 2)], &[]), one("u", ErrorCode::None));
    assert_eq!(scram(&mut node, &[("u", 2)], &[]), one("u", ErrorCode::ResourceNotFound));
    let iterations: Vec<i32> = node.controller.image().scram().values().map(|c| c.iterations).collect();
    assert_eq!(iterations, [16_384]);
}

type Elections = Vec<(String, Vec<(i32, ErrorCode)>)>;

fn elect(node: &mut Node, kind: i8, partitions: Option<&[(&str, &[i32])]>) -> (ErrorCode, Elections) {
    let partitions = partitions.map(|topics| {
        topics
            .iter()
            .map(|(name, indexes)| (name.to_string(), indexes.iter().copied().map(PartitionIndex).collect()))
            .collect()
    });
    let reply = node.must(&Request::ElectLeaders { election: ElectionType(kind), partitions });
    let Reply::ElectLeaders(outcome) = reply else { panic!("another reply") };
    let topics = outcome
        .topics
        .into_iter()
        .map(|(name, results)| (name, results.iter().map(|(index, r)| (index.0, code_of(r))).collect()))
        .collect();
    (code_of(&outcome.result), topics)
}

/// Nobody needs an election on one node; unknown kinds fail at the top and for each partition.
#[test]
fn elections() {
    let mut node = Node::running().with_topic("t");
    let asked: &[(&str, &[i32])] = &[("t", &[0, 9]), ("none", &[0])];
    let all = |t0, t9, none| {
        Vec::from([
            ("t".to_string(), Vec::from([(0, t0), (9, t9)])),
            ("none".to_string(), Vec::from([(0, none)])),
        ])
    };
    let (unknown, invalid) = (ErrorCode::UnknownTopicOrPartition, ErrorCode::InvalidRequest);
    for kind in [0, 1] {
        let expected = (ErrorCode::None, all(ErrorCode::ElectionNotNeeded, unknown, unknown));
        assert_eq!(elect(&mut node, kind, Some(asked)), expected);
        assert_eq!(
            elect(&mut node, kind, None),
            (ErrorCode::None, Vec::from([("t".to_string(), Vec::new())]))
        );
    }
    for kind in [2, -1] {
        assert_eq!(elect(&mut node, kind, Some(asked)), (invalid, all(invalid, invalid, invalid)));
    }
    assert_eq!(elect(&mut node, 0, Some(&[])), (ErrorCode::None, Vec::new()));
}

/// A partition without a leader gets one by an unclean election, once its broker is alive.
#[test]
fn an_unclean_election_elects_whom_there_is() {
    let mut node = Node::running().with_topic("t");
    node.must(&Request::ShutDownBroker);
    let only = |code| (ErrorCode::None, Vec::from([("t".to_string(), Vec::from([(0, code)]))]));
    assert_eq!(elect(&mut node, 1, Some(&[("t", &[0])])), only(ErrorCode::EligibleLeadersNotAvailable));
    assert_eq!(elect(&mut node, 0, Some(&[("t", &[0])])), only(ErrorCode::PreferredLeaderNotAvailable));
}

/// Reassignments: nothing to cancel, targets that cannot be, and the target that is.
#[test]
fn reassignments() {
    let mut node = Node::running().with_topic("t");
    let mut to = |topic: &str, partition: i32, replicas: Option<&[i32]>| {
        let request = Vec::from([Reassignment {
            topic: topic.into(),
            partition: PartitionIndex(partition),
            replicas: replicas.map(|ids| ids.iter().copied().map(BrokerId).collect()),
            may_change_replication_factor: true,
        }]);
        match node.must(&Request::AlterPartitionReassignments(request)) {
            Reply::AlterPartitionReassignments(results) => code_of(&results[0].1),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(to("t", 0, None), ErrorCode::NoReassignmentInProgress);
    for wrong in [&[][..], &[701], &[1, 1], &[-1]] {
        assert_eq!(to("t", 0, Some(wrong)), ErrorCode::InvalidReplicaAssignment, "{wrong:?}");
    }
    assert_eq!(to("t", 0, Some(&[1])), ErrorCode::None);
    assert_eq!(to("t", 9, Some(&[1])), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(to("none", 0, Some(&[1])), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(node.controller.image().partition("t", 0).unwrap().partition_epoch.0, 0, "nothing changed");
}
