//! The table itself.

use alloc::collections::BTreeSet;

use super::*;

/// Every table is in order of name, so that a key is found; no name comes twice; every default fits its own rule.
#[test]
fn the_tables_are_sound() {
    for scope in Scope::ALL {
        let mut names = BTreeSet::new();
        for table in scope.tables() {
            assert!(table.is_sorted_by_key(|key| key.name), "{scope:?}");
            for key in *table {
                assert!(names.insert(key.name), "{} comes twice", key.name);
                assert_eq!(scope.find(key.name), Some(key));
                assert!(key.documentation.ends_with('.'), "{}", key.name);
                if let Some(default) = key.default {
                    let value = key.parse(default).unwrap_or_else(|why| panic!("{}", why.sentence(key)));
                    assert_eq!(value.to_text(), default, "{}", key.name);
                }
            }
        }
    }
}

/// All keys of Kafka 4.4 are there: as many as its DescribeConfigs lists, and its internal ones.
#[test]
fn all_keys_are_there() {
    let count =
        |scope: Scope, internal: bool| scope.keys().iter().filter(|key| key.internal == internal).count();
    let of_brokers = (count(Scope::Broker, false), count(Scope::Broker, true));
    assert_eq!(of_brokers, (350 + 6, 29 + 1), "six are ours, and one of the internal ones");
    assert_eq!((count(Scope::Topic, false), count(Scope::Topic, true)), (37, 1));
    assert_eq!((count(Scope::Group, false), count(Scope::Group, true)), (21, 6));
    assert_eq!(count(Scope::ClientMetrics, false), 3);
}

/// A topic's default is its broker key's default, in the topic's unit.
#[test]
fn topic_defaults_agree_with_broker_defaults() {
    for key in Scope::Topic.keys() {
        let first = topic_synonyms(key.name).iter().find_map(|synonym| {
            let broker = Scope::Broker.find(synonym.name).unwrap_or_else(|| panic!("{}", synonym.name));
            broker.default.map(|default| scaled(key.kind, default, synonym.factor))
        });
        if let Some(default) = first {
            assert_eq!(key.default, Some(default.as_str()), "{}", key.name);
        }
    }
}

/// A group's default is its broker key's default.
#[test]
fn group_defaults_agree_with_broker_defaults() {
    for key in Scope::Group.keys() {
        if let Some(broker) = group_synonym(key) {
            assert!(key.default.is_none() || key.default == broker.default, "{}", key.name);
        }
    }
}

/// Values are read as Java reads them, and written as Java writes them.
#[test]
fn values() {
    let text = |kind: Kind, text: &str| Value::parse(kind, text).map(|value| value.to_text());
    for (kind, given, shown) in [
        (Kind::Boolean, " TRUE ", "true"),
        (Kind::Int, " 5 ", "5"),
        (Kind::Int, "+5", "5"),
        (Kind::Long, "9223372036854775807", "9223372036854775807"),
        (Kind::Double, "1", "1.0"),
        (Kind::Double, "0.50", "0.5"),
        (Kind::Double, "1.7976931348623157E308", "1.7976931348623157E308"),
        (Kind::Double, "10000000", "1.0E7"),
        (Kind::Double, "0.0001", "1.0E-4"),
        (Kind::List, " delete , compact ", "delete,compact"),
        (Kind::List, "", ""),
        (Kind::String, " x ", "x"),
        (Kind::Password, " x ", " x "),
    ] {
        assert_eq!(text(kind, given).as_deref(), Ok(shown), "{given:?}");
    }
    for (kind, wrong) in [
        (Kind::Boolean, "yes"),
        (Kind::Int, "2147483648"),
        (Kind::Int, ""),
        (Kind::Short, "32768"),
        (Kind::Long, "9223372036854775808"),
        (Kind::Long, "abc"),
        (Kind::Double, "x"),
    ] {
        assert!(text(kind, wrong).is_err(), "{wrong:?}");
    }
}

/// The unit of a number is read off its name.
#[test]
fn units() {
    let unit = |name: &str| Scope::Broker.find(name).expect(name).unit();
    assert_eq!(unit("log.retention.ms"), "milliseconds");
    assert_eq!(unit("log.retention.hours"), "hours");
    assert_eq!(unit("log.segment.bytes"), "bytes");
    assert_eq!(unit("log.cleaner.io.max.bytes.per.second"), "bytes per second");
    assert_eq!(unit("num.partitions"), "");
    assert_eq!(unit("listeners"), "");
}
