//! Reading of settings, and which value is in force.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::image::{ConfigResource, Configs, ResourceType};
use crate::keys::Scope;
use fencepost_types::BrokerId;

fn given(pairs: &[(&str, &str)]) -> Result<StaticConfig, ConfigError> {
    StaticConfig::new(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())))
}

/// Java's format: comments, continued lines, escapes, three kinds of separator (storage-formats §8.1).
#[test]
fn properties() {
    let text = "# a comment\n! another\n\n  key = value \nother:x\nthird  y=z\nlong=a,\\\n    b,\\\n  c\n\
                path=C\\:\\\\dir\nsp\\ ace=\\u00e4\\n\nempty\nlast=\\";
    let pairs = parse_properties(text).expect("it is good");
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(
        pairs,
        [
            ("key", "value "),
            ("other", "x"),
            ("third", "y=z"),
            ("long", "a,b,c"),
            ("path", "C:\\dir"),
            ("sp ace", "ä\n"),
            ("empty", ""),
            ("last", ""),
        ]
    );
    assert_eq!(parse_properties("a=1\nb=\\u12"), Err(PropertiesError { line: 2 }));
}

/// Lines may end as on Windows.
#[test]
fn properties_with_carriage_returns() {
    let pairs = parse_properties("a=1\r\nb=2\\\r\n3\r\n").expect("it is good");
    assert_eq!(pairs[0], ("a".to_string(), "1".to_string()));
}

/// One underscore is a dot, two are an underscore, three a dash.
#[test]
fn environment_variables() {
    for (name, key) in [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_A__B_C___D", "a_b.c-d"),
        ("KAFKA_FENCEPOST_DURABILITY", "fencepost.durability"),
    ] {
        assert_eq!(key_of_variable(name).as_deref(), Some(key));
        assert_eq!(variable_of_key(key), name);
    }
    for name in ["PATH", "KAFKA_", "KAFKA_HEAP_OPTS", "KAFKA_OPTS", "kafka_log_dirs"] {
        assert_eq!(key_of_variable(name), None, "{name}");
    }
}

/// A node without settings works: one replica of the internal topics, data beside it, on the loopback interface.
#[test]
fn defaults_work_alone() {
    let config = BrokerConfig::default();
    assert_eq!(config.offsets_topic_replication_factor, 1);
    assert_eq!(
        (config.transaction_state_log_replication_factor, config.transaction_state_log_min_isr),
        (1, 1)
    );
    assert_eq!(config.log_directories(), ["./fencepost-data"]);
    assert_eq!(config.durability, Durability::Fsync);
    let listeners = StaticConfig::default().broker_listeners().expect("they are good");
    assert_eq!((listeners[0].host.as_str(), listeners[0].port), ("127.0.0.1", 9092));
    let topic = transaction_state_topic(&config);
    assert_eq!((topic.partitions, topic.replication_factor), (50, 1));
    assert_eq!(topic.configs["min.insync.replicas"], "1");
    assert_eq!(topic.configs["segment.bytes"], "104857600");
    assert_eq!(offsets_topic(&config).configs["cleanup.policy"], "compact");
}

/// A value out of range is one sentence that names the key; secrets are not shown.
#[test]
fn faults_are_one_sentence() {
    for (key, value) in [
        ("log.segment.bytes", "5"),
        ("num.partitions", "0"),
        ("num.partitions", "many"),
        ("fencepost.durability", "never"),
        ("log.retention.ms", "0"),
        ("offsets.topic.replication.factor", "3"),
        ("transaction.state.log.min.isr", "2"),
        ("listeners", "127.0.0.1:9092"),
        ("listeners", "INTERNAL://127.0.0.1:9092"),
        ("listeners", "CONTROLLER://127.0.0.1:9093"),
        ("listener.security.protocol.map", "A:B"),
        ("process.roles", "voter"),
        // Issue 12, C17: as Kafka.
        ("connections.max.idle.ms", "0"),
        ("connections.max.idle.ms", "100"),
        ("group.consumer.assignors", ""),
        ("group.consumer.assignors", "uniform,com.example.Mine"),
        ("group.consumer.migration.policy", "sideways"),
        ("compression.type", "brotli"),
        ("log.message.timestamp.type", "createtime"),
        ("log.cleanup.policy", "compact,forget"),
        ("group.coordinator.rebalance.protocols", "classic,other"),
        ("log.roll.ms", "0"),
        ("log.roll.jitter.ms", "-1"),
        ("max.connections.per.ip.overrides", "127.0.0.1"),
        ("max.connections.per.ip.overrides", "127.0.0.1:-1"),
    ] {
        let error = given(&[(key, value)]).expect_err(key);
        let sentence = error.to_string();
        assert!(sentence.contains(key) && !sentence.contains('\n'), "{sentence}");
    }
    let error = given(&[("node.id", "1"), ("broker.id", "2")]).expect_err("two ids");
    assert_eq!(error.key, "broker.id");
}

/// Issue 12, C16: what cannot be honoured, and would weaken safety or lose data if it were ignored, stops the start.
#[test]
fn what_cannot_be_honoured_is_refused() {
    let combined = [
        ("process.roles", "broker,controller"),
        ("controller.listener.names", "CONTROLLER"),
        ("listeners", "PLAINTEXT://:9092,CONTROLLER://broker-1:9093"),
    ];
    let faults: [&[(&str, &str)]; 30] = [
        &[("listeners", "SSL://127.0.0.1:9092")],
        &[("listeners", "SASL_PLAINTEXT://127.0.0.1:9092")],
        &[("listeners", "SASL_SSL://127.0.0.1:9092")],
        &[("listeners", "OUT://127.0.0.1:9092"), ("listener.security.protocol.map", "OUT:SSL")],
        &[
            ("listeners", "PLAINTEXT://127.0.0.1:9092"),
            ("listener.security.protocol.map", "PLAINTEXT:SASL_SSL"),
        ],
        &[("listeners", "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093")],
        &[
            ("listeners", "IN://127.0.0.1:9092,OUT://127.0.0.1:9093"),
            ("listener.security.protocol.map", "IN:PLAINTEXT,OUT:PLAINTEXT"),
        ],
        &[("advertised.listeners", "SSL://a:9092")],
        &[("advertised.listeners", "PLAINTEXT://a:9092,SASL_SSL://b:9092")],
        &[("inter.broker.listener.name", "INTERNAL")],
        &[("security.inter.broker.protocol", "SSL")],
        &[("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")],
        &[("principal.builder.class", "com.example.Builder")],
        &[("client.quota.callback.class", "com.example.Quotas")],
        &[("create.topic.policy.class.name", "com.example.Policy")],
        &[("alter.config.policy.class.name", "com.example.Policy")],
        &[("config.providers", "file")],
        &[("remote.log.storage.system.enable", "true")],
        &[("process.roles", "broker")],
        &[("process.roles", "controller")],
        &[("controller.quorum.voters", "1@a:9093,2@b:9093,3@c:9093")],
        &[("node.id", "4"), ("controller.quorum.voters", "1@a:9093")],
        &[("controller.quorum.voters", "a:9093")],
        &[("controller.quorum.bootstrap.servers", "a:9093,b:9093")],
        &[("controller.quorum.bootstrap.servers", "a:9093")],
        &[("controller.quorum.bootstrap.servers", "localhost")],
        &[("log.dirs", "/a,/b")],
        &[("log.dirs", "/a"), ("metadata.log.dir", "/b")],
        &[("metadata.log.dir", "/b")],
        &[("zookeeper.connect", "localhost:2181")],
    ];
    for pairs in faults {
        let (key, _) = pairs.last().expect("there is a fault");
        let sentence = given(pairs).expect_err(&format!("{pairs:?}")).to_string();
        assert!(!sentence.contains('\n'), "{sentence}");
        assert!(pairs.iter().any(|(key, _)| sentence.contains(key)), "{key}: {sentence}");
    }
    let foreign = [combined.as_slice(), &[("controller.quorum.bootstrap.servers", "other:9093")]].concat();
    assert!(given(&foreign).is_err());
    let other_port =
        [combined.as_slice(), &[("controller.quorum.bootstrap.servers", "localhost:9094")]].concat();
    assert!(given(&other_port).is_err());
}

/// Issue 12, C16: what Apache Kafka ships for a combined node, and what says no more than that this node stands alone, is taken.
#[test]
fn a_combined_node_is_taken() {
    let shipped = [
        ("process.roles", "broker,controller"),
        ("node.id", "1"),
        ("controller.quorum.bootstrap.servers", "localhost:9093"),
        ("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"),
        ("inter.broker.listener.name", "PLAINTEXT"),
        ("advertised.listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"),
        ("controller.listener.names", "CONTROLLER"),
        (
            "listener.security.protocol.map",
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        ),
        ("log.dirs", "kraft-combined-logs"),
        ("offsets.topic.replication.factor", "1"),
        ("share.coordinator.state.topic.replication.factor", "1"),
        ("share.coordinator.state.topic.min.isr", "1"),
        ("transaction.state.log.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
        ("log.retention.hours", "168"),
        ("log.segment.bytes", "1073741824"),
        ("log.retention.check.interval.ms", "300000"),
    ];
    given(&shipped).expect("Kafka's own file is good");
    for more in [
        &[("process.roles", "controller,broker")][..],
        &[("controller.quorum.voters", "1@localhost:9093")],
        &[("controller.quorum.bootstrap.servers", "this-host:9093")],
        &[("metadata.log.dir", "kraft-combined-logs")],
        &[("authorizer.class.name", "")],
        &[("security.inter.broker.protocol", "PLAINTEXT")],
        &[("remote.log.storage.system.enable", "FALSE")],
        &[("ssl.client.auth", "required"), ("sasl.enabled.mechanisms", "SCRAM-SHA-512")],
    ] {
        given(&[&shipped, more].concat()).unwrap_or_else(|error| panic!("{more:?}: {error}"));
    }
    given(&[("broker.id", "7"), ("controller.quorum.voters", "7@localhost:9093")]).expect("the older name");
    given(&[("controller.quorum.bootstrap.servers", "localhost:9093")])
        .expect("without a listener for controllers");
}

/// Issue 12, C16: the same holds for what is changed while the broker runs, and for what another broker has left in the metadata.
#[test]
fn what_cannot_be_honoured_is_refused_later_too() {
    for (name, value) in [
        ("config.providers", "file"),
        ("principal.builder.class", "com.example.Builder"),
        ("listeners", "SSL://127.0.0.1:9092"),
        ("listener.security.protocol.map", "PLAINTEXT:SSL"),
    ] {
        assert!(check_broker_changes(&[(name, value)], false).is_err(), "{name}");
    }
    assert!(check_broker_changes(&[("config.providers", "")], false).is_ok());
    for (node, is_refused) in [("1", true), ("", true), ("2", false)] {
        let mut configs = Configs::default();
        configs.set(ConfigResource::new(ResourceType::BROKER, node), "config.providers", Some("file"));
        let checked = check_dynamic_broker_configs(&configs, BrokerId(1));
        assert_eq!(checked.is_err(), is_refused, "{node}: {checked:?}");
    }
}

/// The later pair counts; `broker.id` stands for `node.id`.
#[test]
fn later_pairs_count() {
    let config =
        given(&[("num.partitions", "2"), ("num.partitions", "3"), ("broker.id", "7")]).expect("good");
    assert_eq!(config.get("num.partitions"), Some("3"));
    assert_eq!(BrokerConfig::from_static(&config).node_id, 7);
}

/// Keys without effect are listed, unknown ones with a suggestion.
#[test]
fn ignored_keys_are_listed() {
    let config = given(&[
        ("log.retention.mss", "5"),
        ("num.io.threads", "9"),
        ("num.partitions", "2"),
        ("listener.name.a.ssl.keystore.location", "x"),
        ("my.own.thing", "y"),
    ])
    .expect("good");
    let ignored: Vec<(&str, bool, Option<&str>)> =
        config.ignored().iter().map(|key| (key.name.as_str(), key.is_known, key.suggestion)).collect();
    assert_eq!(
        ignored,
        [
            ("listener.name.a.ssl.keystore.location", true, None),
            ("log.retention.mss", false, Some("log.retention.ms")),
            ("my.own.thing", false, None),
            ("num.io.threads", true, None),
        ]
    );
}

/// Listeners: names, IPv6, port 0, the controller's apart, protocols by name.
#[test]
fn listeners() {
    let config = given(&[
        ("listeners", " INT://[::1]:0 ,CONTROLLER://:9093"),
        ("listener.security.protocol.map", "int:plaintext,PLAINTEXT:PLAINTEXT"),
        ("advertised.listeners", "INT://other:2"),
    ])
    .expect("good");
    let listeners = config.broker_listeners().expect("good");
    let shown: Vec<(&str, &str, u16, SecurityProtocol)> =
        listeners.iter().map(|l| (l.name.as_str(), l.host.as_str(), l.port, l.security_protocol)).collect();
    assert_eq!(shown, [("INT", "::1", 0, SecurityProtocol::Plaintext)]);
    assert_eq!(config.controller_listeners().expect("good")[0].port, 9093);
    let advertised = config.advertised_listeners().expect("good").expect("given");
    assert_eq!((advertised.len(), advertised[0].host.as_str(), advertised[0].port), (1, "other", 2));
    assert_eq!(StaticConfig::default().advertised_listeners(), Ok(None));
}

fn values(pairs: &[(ResourceName, &str, &str)]) -> Configs {
    let mut fold = crate::ImageFold::default();
    for (name, key, value) in pairs {
        let (resource_type, resource_name) = match name {
            ResourceName::Topic(name) => (2, name.to_string()),
            ResourceName::Broker(name) => (4, name.to_string()),
            ResourceName::Group(name) => (32, name.to_string()),
        };
        let record = fencepost_records::persisted::config_record::ConfigRecord {
            resource_type,
            resource_name,
            name: key.to_string(),
            value: Some(value.to_string()),
        };
        fold.replay(fold.next_offset(), &record.into()).expect("it fits");
    }
    fold.image().configs().clone()
}

#[derive(Clone, Copy)]
enum ResourceName {
    Topic(&'static str),
    Broker(&'static str),
    Group(&'static str),
}

fn chain(view: ConfigView<'_>, key: &str) -> Vec<(&'static str, String, i8)> {
    let key = Scope::Topic.find(key).expect("known");
    view.topic_chain("t", key).into_iter().map(|s| (s.name, s.value, s.source.code())).collect()
}

/// The topic's own value, then the broker's, then that of all brokers, then the file's, then the default (M8); minutes and
/// hours are multiplied, and the finest unit wins.
#[test]
fn the_order_of_sources() {
    let statics = given(&[("log.retention.hours", "2"), ("log.retention.minutes", "3")]).expect("good");
    let none = Configs::default();
    let view = ConfigView { statics: &statics, configs: &none, node_id: BrokerId(1) };
    assert_eq!(TopicConfig::resolve(view, "t").retention_ms, 180_000);
    let configs = values(&[
        (ResourceName::Broker(""), "log.retention.ms", "6000"),
        (ResourceName::Broker("1"), "log.retention.ms", "5000"),
        (ResourceName::Broker("2"), "log.retention.ms", "4000"),
        (ResourceName::Topic("t"), "retention.ms", " 7 "),
        (ResourceName::Topic("t"), "segment.ms", "nonsense"),
    ]);
    let view = ConfigView { configs: &configs, ..view };
    assert_eq!(
        chain(view, "retention.ms"),
        [
            ("retention.ms", "7".to_string(), 1),
            ("log.retention.ms", "5000".to_string(), 2),
            ("log.retention.ms", "6000".to_string(), 3),
            ("log.retention.minutes", "3".to_string(), 4),
            ("log.retention.hours", "2".to_string(), 4),
            ("log.retention.hours", "168".to_string(), 5),
        ]
    );
    let config = TopicConfig::resolve(view, "t");
    assert_eq!(config.retention_ms, 7);
    assert_eq!(config.segment_ms, 604_800_000, "a value that does not fit is passed over");
    assert_eq!(TopicConfig::resolve(view, "other").retention_ms, 5_000);
}

/// A value for a key that is read-only does not count, wherever it came from.
#[test]
fn read_only_keys_are_not_dynamic() {
    let configs = values(&[
        (ResourceName::Broker("1"), "num.partitions", "9"),
        (ResourceName::Broker(""), "message.max.bytes", "2000000"),
        (ResourceName::Group("g"), "consumer.session.timeout.ms", "50000"),
    ]);
    let statics = StaticConfig::default();
    let view = ConfigView { statics: &statics, configs: &configs, node_id: BrokerId(1) };
    let partitions = view.broker_value(Scope::Broker.find("num.partitions").expect("known"));
    assert_eq!(partitions.and_then(|value| value.as_number()), Some(1));
    assert_eq!(TopicConfig::resolve(view, "t").max_message_bytes, 2_000_000);
    let key = Scope::Group.find("consumer.session.timeout.ms").expect("known");
    assert_eq!(view.group_value("g", key).and_then(|value| value.as_number()), Some(50_000));
    assert_eq!(view.group_value("h", key).and_then(|value| value.as_number()), Some(45_000));
    let assignor = Scope::Group.find("streams.assignor.name").expect("known");
    assert_eq!(view.group_value("g", assignor).expect("it has one").to_text(), "sticky");
}

/// Every key that a typed setting reads is marked as used; that each used key is read is for `cargo xtask check keys`.
#[test]
fn typed_settings_are_used_keys() {
    for name in BrokerConfig::KEYS {
        assert!(Scope::Broker.find(name).expect(name).used, "{name}");
    }
    for name in TopicConfig::KEYS {
        assert!(Scope::Topic.find(name).expect(name).used, "{name}");
    }
}

/// The page holds every key that has an effect, with default and unit.
#[test]
fn the_page() {
    let page = render_configuration_page();
    for scope in Scope::ALL {
        for key in scope.keys().into_iter().filter(|key| !key.internal) {
            assert!(page.contains(&alloc::format!("`{}`", key.name)), "{}", key.name);
        }
    }
    assert!(page.contains("| `log.retention.hours` | int, hours | `168` |"));
    assert!(page.contains("`1` (Kafka: `3`)"));
}

/// Issue 12, C19: the consumer protocol can be switched off, the classic one cannot, as in Kafka.
#[test]
fn the_classic_protocol_stays() {
    const KEY: &str = "group.coordinator.rebalance.protocols";
    let with = |value: &str| given(&[(KEY, value)]);
    for taken in ["classic", "consumer,classic", "classic,consumer,streams"] {
        assert!(with(taken).is_ok(), "{taken}");
    }
    for refused in ["consumer", "", "consumer,streams"] {
        let error = with(refused).unwrap_err();
        assert_eq!(error.key, KEY, "{refused:?}");
    }
}
