//! IncrementalAlterConfigs and AlterConfigs: wire-apis §7.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::image::ResourceType;
use crate::keys::Scope;

const SET: i8 = ConfigChange::SET;
const DELETE: i8 = ConfigChange::DELETE;
const APPEND: i8 = ConfigChange::APPEND;
const SUBTRACT: i8 = ConfigChange::SUBTRACT;

fn value(node: &Node, key: &str) -> String {
    let key = Scope::Topic.find(key).unwrap();
    node.controller.view().topic_value("t", key).unwrap().to_text()
}

/// What cannot be changed, and how it is refused.
#[test]
fn changes_that_cannot_be() {
    let mut node = Node::running().with_topic("t");
    let topic = || ConfigResource::topic("t");
    let resource = |kind: i8, name: &str| ConfigResource::new(ResourceType(kind), name);
    type Case<'a> = (&'a str, ConfigResource, &'a [(&'a str, i8, Option<&'a str>)], ErrorCode);
    let cases: [Case<'_>; 25] = [
        ("unknown key", topic(), &[("nonsense", SET, Some("1"))], ErrorCode::InvalidConfig),
        ("unknown key deleted", topic(), &[("nonsense", DELETE, None)], ErrorCode::None),
        ("bad value", topic(), &[("retention.ms", SET, Some("x"))], ErrorCode::InvalidConfig),
        ("null value", topic(), &[("retention.ms", SET, None)], ErrorCode::InvalidRequest),
        ("empty value", topic(), &[("retention.ms", SET, Some(""))], ErrorCode::InvalidConfig),
        (
            "a key twice",
            topic(),
            &[("retention.ms", SET, Some("1")), ("retention.ms", DELETE, None)],
            ErrorCode::InvalidRequest,
        ),
        ("operation 4", topic(), &[("retention.ms", 4, Some("1"))], ErrorCode::InvalidRequest),
        ("operation -1", topic(), &[("retention.ms", -1, Some("1"))], ErrorCode::InvalidRequest),
        ("empty key", topic(), &[("", SET, Some("1"))], ErrorCode::InvalidConfig),
        ("append to a number", topic(), &[("retention.ms", APPEND, Some("1"))], ErrorCode::InvalidConfig),
        ("unknown topic", ConfigResource::topic("none"), &[], ErrorCode::UnknownTopicOrPartition),
        ("bad topic name", ConfigResource::topic("a b"), &[], ErrorCode::InvalidTopicException),
        ("no topic name", ConfigResource::topic(""), &[], ErrorCode::InvalidRequest),
        ("nothing to do", topic(), &[], ErrorCode::None),
        (
            "read-only",
            resource(4, "1"),
            &[("socket.request.max.bytes", SET, Some("1"))],
            ErrorCode::InvalidRequest,
        ),
        (
            "one at a time",
            resource(4, ""),
            &[("ssl.keystore.location", SET, Some("x"))],
            ErrorCode::InvalidRequest,
        ),
        (
            "unknown broker",
            resource(4, "701"),
            &[("message.max.bytes", SET, Some("1"))],
            ErrorCode::InvalidRequest,
        ),
        ("no number", resource(4, "x"), &[("message.max.bytes", SET, Some("1"))], ErrorCode::InvalidRequest),
        ("unknown broker key", resource(4, ""), &[("nonsense.config", SET, Some("1"))], ErrorCode::None),
        (
            "bad broker value",
            resource(4, ""),
            &[("message.max.bytes", SET, Some("x"))],
            ErrorCode::InvalidRequest,
        ),
        // Issue 12, C21: the root logger has a level always; what other loggers have is nobody's here.
        ("root logger", resource(8, "1"), &[("root", DELETE, None)], ErrorCode::InvalidRequest),
        ("a logger", resource(8, "1"), &[("kafka", DELETE, None)], ErrorCode::None),
        ("kind 0", resource(0, "x"), &[("a", SET, Some("1"))], ErrorCode::InvalidRequest),
        ("kind 3", resource(3, "x"), &[("a", SET, Some("1"))], ErrorCode::InvalidRequest),
        ("kind 99", resource(99, "x"), &[("a", SET, Some("1"))], ErrorCode::InvalidRequest),
    ];
    for (label, resource, changes, code) in cases {
        assert_eq!(node.alter(resource, changes), code, "{label}");
    }
}

/// Groups and client metrics have their own keys and limits.
#[test]
fn groups_and_client_metrics() {
    let mut node = Node::running();
    let group = || ConfigResource::new(ResourceType::GROUP, "g");
    let metrics = || ConfigResource::new(ResourceType::CLIENT_METRICS, "m");
    let timeout = "consumer.session.timeout.ms";
    assert_eq!(node.alter(group(), &[(timeout, SET, Some("5"))]), ErrorCode::InvalidConfig);
    assert_eq!(node.alter(group(), &[(timeout, SET, Some("50000"))]), ErrorCode::None);
    assert_eq!(node.alter(group(), &[("nonsense", SET, Some("5"))]), ErrorCode::InvalidConfig);
    let nameless = ConfigResource::new(ResourceType::GROUP, "");
    assert_eq!(node.alter(nameless, &[(timeout, SET, Some("50000"))]), ErrorCode::InvalidRequest);
    assert_eq!(node.alter(metrics(), &[("interval.ms", SET, Some("5"))]), ErrorCode::InvalidRequest);
    // Issue 12, C21: what is no number is INVALID_CONFIG, as in Kafka.
    assert_eq!(node.alter(metrics(), &[("interval.ms", SET, Some("bbb"))]), ErrorCode::InvalidConfig);
    assert_eq!(node.alter(metrics(), &[("interval.ms", SET, Some("50000"))]), ErrorCode::None);
    assert_eq!(node.alter(metrics(), &[("nonsense", SET, Some("1"))]), ErrorCode::InvalidRequest);
    assert_eq!(node.alter(metrics(), &[("match", SET, Some("x="))]), ErrorCode::InvalidConfig);
    assert_eq!(node.alter(metrics(), &[("match", SET, Some("client_id=a.*"))]), ErrorCode::None);
    let nameless = ConfigResource::new(ResourceType::CLIENT_METRICS, "");
    assert_eq!(node.alter(nameless, &[("interval.ms", SET, Some("100"))]), ErrorCode::InvalidRequest);
}

/// SET and DELETE; deleting what is not set is fine.
#[test]
fn set_and_delete() {
    let mut node = Node::running().with_topic("t");
    let topic = || ConfigResource::topic("t");
    for (change, then) in [
        (("retention.ms", SET, Some("1111")), "1111"),
        (("retention.ms", SET, Some("2222")), "2222"),
        (("retention.ms", DELETE, None), "604800000"),
        (("retention.ms", DELETE, None), "604800000"),
        (("retention.ms", DELETE, Some("x")), "604800000"),
    ] {
        assert_eq!(node.alter(topic(), &[change]), ErrorCode::None);
        assert_eq!(value(&node, "retention.ms"), then);
    }
}

/// What is set to the value it has is written for brokers alone.
#[test]
fn the_same_value_again_is_no_record() {
    let mut node = Node::running().with_topic("t");
    node.alter(ConfigResource::topic("t"), &[("retention.ms", SET, Some("5"))]);
    let before = node.log.len();
    node.alter(ConfigResource::topic("t"), &[("retention.ms", SET, Some("5"))]);
    assert_eq!(node.log.len(), before);
}

/// APPEND and SUBTRACT work on lists, and begin with what is in force.
#[test]
fn append_and_subtract() {
    let mut node = Node::running().with_topic("t");
    for (operation, item, then) in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
    ] {
        let code = node.alter(ConfigResource::topic("t"), &[("cleanup.policy", operation, Some(item))]);
        assert_eq!(code, ErrorCode::None);
        assert_eq!(value(&node, "cleanup.policy"), then);
    }
    let code = node.alter(ConfigResource::topic("t"), &[("cleanup.policy", APPEND, Some("shred"))]);
    assert_eq!(code, ErrorCode::InvalidConfig);
}

/// One bad change of a resource spoils the others of that resource, not other resources; a resource twice fails once.
#[test]
fn all_or_nothing_by_resource() {
    let mut node = Node::running().with_topic("t").with_topic("u");
    let change = |key: &str, value: &str| ConfigChange {
        key: key.to_string(),
        operation: SET,
        value: Some(value.to_string()),
    };
    let changes = |name: &str, changes| ConfigChanges { resource: ConfigResource::topic(name), changes };
    let request = |resources| AlterConfigs { resources, mode: AlterMode::Incremental, validate_only: false };
    let codes = node.alter_all(request(Vec::from([
        changes("t", Vec::from([change("retention.ms", "7"), change("segment.ms", "x")])),
        changes("u", Vec::from([change("retention.ms", "7")])),
    ])));
    assert_eq!(codes, [ErrorCode::InvalidConfig, ErrorCode::None]);
    assert_eq!(value(&node, "retention.ms"), "604800000");
    let codes = node.alter_all(request(Vec::from([
        changes("t", Vec::from([change("retention.ms", "7")])),
        changes("t", Vec::from([change("segment.ms", "7")])),
    ])));
    assert_eq!(codes, [ErrorCode::InvalidRequest]);
    assert_eq!(value(&node, "retention.ms"), "604800000");
}

/// AlterConfigs replaces every override; validate only changes nothing.
#[test]
fn the_older_request_replaces_all() {
    let mut node = Node::running().with_topic("t");
    let topic = || ConfigResource::topic("t");
    node.alter(topic(), &[("retention.ms", SET, Some("1111")), ("segment.ms", SET, Some("2222"))]);
    let changes = Vec::from([ConfigChange {
        key: "retention.ms".to_string(),
        operation: SET,
        value: Some("3333".to_string()),
    }]);
    for (validate_only, retention, segment) in [(true, "1111", "2222"), (false, "3333", "604800000")] {
        let resources = Vec::from([ConfigChanges { resource: topic(), changes: changes.clone() }]);
        let request = AlterConfigs { resources, mode: AlterMode::ReplaceAll, validate_only };
        assert_eq!(node.alter_all(request), [ErrorCode::None]);
        assert_eq!(
            (value(&node, "retention.ms").as_str(), value(&node, "segment.ms").as_str()),
            (retention, segment)
        );
    }
}

/// With eligible leader replicas, min.insync.replicas has one value for all brokers, and a change of it empties the lists
/// of eligible leaders (cluster §7.2, §12.2, DANGER).
#[test]
fn min_insync_replicas_is_one_value() {
    let mut node = Node::running().with_topic("t");
    let key = "min.insync.replicas";
    let mine = || ConfigResource::new(ResourceType::BROKER, "1");
    assert_eq!(node.alter(mine(), &[(key, SET, Some("1"))]), ErrorCode::None);
    let updates = Vec::from([FeatureUpdate {
        feature: crate::features::ELIGIBLE_LEADER_REPLICAS_VERSION.to_string(),
        level: 1,
        upgrade_type: 1,
    }]);
    node.must(&Request::UpdateFeatures { updates, validate_only: false });
    assert_eq!(node.controller.image().configs().value(&mine(), key), None);
    assert_eq!(node.alter(mine(), &[(key, SET, Some("1"))]), ErrorCode::InvalidConfig);
    assert_eq!(node.alter(ConfigResource::all_brokers(), &[(key, DELETE, None)]), ErrorCode::InvalidConfig);
    assert_eq!(node.alter(ConfigResource::all_brokers(), &[(key, SET, Some("2"))]), ErrorCode::None);
    let last = VersionedRecord::from_value(node.log.last().unwrap().1.as_ref().unwrap()).unwrap();
    assert_eq!(last.record.type_name(), "ClearElr");
    assert_eq!(value(&node, key), "2");
}
