//! DescribeConfigs and CreateTopics against what Apache Kafka 4.4.0 answered (testdata/conformance).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use fencepost_coordinator::{LogPosition, Refusal, Shard, Token};
use fencepost_metadata::config::{DescribeRefusal, describe};
use fencepost_metadata::controller::{
    AlterConfigs, AlterMode, ConfigChange, ConfigChanges, NewTopic, RegisterBroker,
};
use fencepost_metadata::image::{BrokerEpoch, ConfigResource, ResourceType};
use fencepost_metadata::{ConfigEntry, ConfigView, Controller, Reply, Request, StaticConfig};
use fencepost_types::{BrokerId, ErrorCode, Now, Uuid};
use serde_json::{Value, json};

struct Node {
    controller: Controller,
    statics: Arc<StaticConfig>,
}

impl Node {
    fn with_topic(configs: &[(&str, &str)]) -> Self {
        let statics = Arc::new(StaticConfig::default());
        let mut node = Self { controller: Controller::new(BrokerId(1), statics.clone()), statics };
        node.ask(&Request::Bootstrap);
        node.ask(&Request::RegisterBroker(RegisterBroker {
            incarnation_id: Uuid::from_random(1),
            endpoints: Vec::new(),
            rack: None,
            directories: vec![Uuid::from_random(2)],
            previous_epoch: BrokerEpoch::NONE,
        }));
        node.ask(&Request::UnfenceBroker);
        let configs = configs.iter().map(|(key, value)| (key.to_string(), Some(value.to_string()))).collect();
        assert_eq!(node.create("t", configs, false), ErrorCode::None);
        node
    }

    fn ask(&mut self, request: &Request) -> Reply {
        let mut decision = self.controller.decide(Now::default(), Token(0), request).unwrap();
        for record in &decision.records {
            let at = LogPosition::plain(self.controller.next_offset());
            self.controller.replay(at, record);
        }
        decision.replies.remove(0).1
    }

    fn create(
        &mut self,
        name: &str,
        configs: Vec<(String, Option<String>)>,
        validate_only: bool,
    ) -> ErrorCode {
        let topic = NewTopic {
            name: name.to_string(),
            id: Uuid::from_random(name.len() as u128 + 1000),
            num_partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs,
        };
        match self.ask(&Request::CreateTopics { topics: vec![topic], validate_only }) {
            Reply::CreateTopics(results) => match &results[0].1 {
                Ok(_) => ErrorCode::None,
                Err(refusal) => refusal.code(),
            },
            other => panic!("{other:?}"),
        }
    }

    fn set(&mut self, kind: ResourceType, name: &str, key: &str, value: Option<&str>) {
        let operation = if value.is_some() { ConfigChange::SET } else { ConfigChange::DELETE };
        let changes = vec![ConfigChange {
            key: key.to_string(),
            operation,
            value: value.map(|value| value.to_string()),
        }];
        let resources = vec![ConfigChanges { resource: ConfigResource::new(kind, name), changes }];
        let reply = self.ask(&Request::AlterConfigs(AlterConfigs {
            resources,
            mode: AlterMode::Incremental,
            validate_only: false,
        }));
        let Reply::AlterConfigs(results) = reply else { panic!("another reply") };
        assert!(results[0].1.is_ok(), "{results:?}");
    }

    fn describe(
        &self,
        kind: ResourceType,
        name: &str,
        keys: Option<&[&str]>,
    ) -> Result<Vec<ConfigEntry>, DescribeRefusal> {
        let image = self.controller.image();
        let view = ConfigView { statics: &self.statics, configs: image.configs(), node_id: BrokerId(1) };
        let keys: Option<Vec<String>> = keys.map(|keys| keys.iter().map(|key| key.to_string()).collect());
        describe(image, view, &ConfigResource::new(kind, name), keys.as_deref())
    }
}

fn golden(name: &str) -> BTreeMap<String, Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/conformance").join(name);
    let notes: Vec<(String, Value)> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    notes.into_iter().collect()
}

fn entry(e: &ConfigEntry) -> Value {
    json!([e.value, e.kind.code(), e.source.code(), e.read_only, e.is_sensitive])
}

/// Value, type, source, read-only and sensitive of every topic key, and their names.
#[test]
fn topic_defaults_are_kafkas() {
    let node = Node::with_topic(&[]);
    let entries = node.describe(ResourceType::TOPIC, "t", None).unwrap();
    let names: Vec<Value> = entries.iter().map(|e| e.name.clone().into()).collect();
    assert_eq!(Value::from(names), golden("admin-configs-topic-names.json")["names"]);
    let expected = golden("admin-configs-topic-defaults.json");
    for (name, expected) in expected["values"].as_object().unwrap() {
        let found = entries.iter().find(|e| e.name == *name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(&entry(found), expected, "{name}");
    }
}

/// The same of some broker keys.
#[test]
fn broker_defaults_are_kafkas() {
    let node = Node::with_topic(&[]);
    let entries = node.describe(ResourceType::BROKER, "1", None).unwrap();
    for (name, expected) in golden("admin-configs-broker.json")["configs"].as_object().unwrap() {
        let found = entries.iter().find(|e| e.name == *name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(&entry(found), expected, "{name}");
    }
    assert!(entries.iter().all(|e| !e.is_sensitive || e.value.is_none()));
}

/// Synonyms: the topic's own value, then the broker's key.
#[test]
fn synonyms_are_kafkas() {
    let node = Node::with_topic(&[("retention.ms", "1234")]);
    for (name, expected) in golden("admin-configs-synonyms.json")["asked"].as_object().unwrap() {
        let entries = node.describe(ResourceType::TOPIC, "t", Some(&[name])).unwrap();
        let found: Vec<Value> =
            entries[0].synonyms.iter().map(|s| json!([s.name, s.value, s.source.code()])).collect();
        assert_eq!(&Value::from(found), expected, "{name}");
    }
}

/// Which settings and values CreateTopics takes: 63 cases.
#[test]
fn created_configs_are_kafkas() {
    let mut node = Node::with_topic(&[]);
    let cases = golden("admin-create-configs.json");
    assert_eq!(cases.len(), 63);
    for (case, expected) in cases {
        let (key, value) = case.split_once('=').unwrap();
        let value = (value != "None").then(|| value.to_string());
        let code = node.create("c", vec![(key.to_string(), value)], true);
        assert_eq!(code.name(), expected.as_str().unwrap(), "{case}");
    }
}

/// A list of keys: unknown ones are left out, a key twice comes once, an empty list is all.
#[test]
fn keys_can_be_named() {
    let node = Node::with_topic(&[]);
    let names = |keys: &[&str]| -> Vec<String> {
        node.describe(ResourceType::TOPIC, "t", Some(keys)).unwrap().into_iter().map(|e| e.name).collect()
    };
    assert_eq!(names(&["retention.ms", "cleanup.policy"]), ["cleanup.policy", "retention.ms"]);
    assert_eq!(names(&["retention.ms", "nonsense"]), ["retention.ms"]);
    assert_eq!(names(&["retention.ms", "retention.ms"]), ["retention.ms"]);
    assert!(names(&["nonsense"]).is_empty());
    assert_eq!(names(&[]).len(), 37);
}

/// Resources that are not there.
#[test]
fn unknown_resources() {
    let node = Node::with_topic(&[]);
    for (kind, name, code) in [
        (2, "none", ErrorCode::UnknownTopicOrPartition),
        (2, "", ErrorCode::InvalidTopicException),
        (2, "a b", ErrorCode::InvalidTopicException),
        (4, "701", ErrorCode::InvalidRequest),
        (4, "x", ErrorCode::InvalidRequest),
        (4, "", ErrorCode::None),
        (32, "g", ErrorCode::None),
        (32, "", ErrorCode::InvalidRequest),
        (16, "m", ErrorCode::None),
        (16, "", ErrorCode::InvalidRequest),
        (0, "x", ErrorCode::InvalidRequest),
        (1, "x", ErrorCode::InvalidRequest),
        (3, "x", ErrorCode::InvalidRequest),
        (99, "x", ErrorCode::InvalidRequest),
    ] {
        let found = match node.describe(ResourceType(kind), name, Some(&["none of these"])) {
            Ok(entries) => {
                assert!(entries.is_empty());
                ErrorCode::None
            }
            Err(refusal) => refusal.code(),
        };
        assert_eq!(found, code, "{kind} {name:?}");
    }
}

/// A default for all brokers is seen with its source, under that of one broker, and goes with its deletion.
#[test]
fn dynamic_broker_defaults() {
    let mut node = Node::with_topic(&[]);
    let key = "log.cleaner.backoff.ms";
    let seen = |node: &Node| {
        let entry = node.describe(ResourceType::BROKER, "1", Some(&[key])).unwrap().remove(0);
        (entry.value.unwrap(), entry.source.code(), entry.synonyms.len())
    };
    assert_eq!(seen(&node), ("15000".to_string(), 5, 1));
    node.set(ResourceType::BROKER, "", key, Some("15001"));
    assert_eq!(seen(&node), ("15001".to_string(), 3, 2));
    let all = node.describe(ResourceType::BROKER, "", Some(&[key])).unwrap();
    assert_eq!((all.len(), all[0].value.as_deref(), all[0].source.code()), (1, Some("15001"), 3));
    node.set(ResourceType::BROKER, "1", key, Some("15002"));
    assert_eq!(seen(&node), ("15002".to_string(), 2, 3));
    node.set(ResourceType::BROKER, "1", key, None);
    node.set(ResourceType::BROKER, "", key, None);
    assert_eq!(seen(&node), ("15000".to_string(), 5, 1));
}
