//! Expressions as Kafka 4.4.0 takes them, and the limits it does not have.

use alloc::string::String;
use alloc::vec::Vec;

use fencepost_types::Uuid;

use super::*;
use crate::TopicFacts;

fn matches(pattern: &str, names: &[&str]) -> Result<Vec<String>, GroupRefusal> {
    let facts = TopicFacts { id: Uuid::ZERO, partition_count: 1 };
    let topics = Topics::new(1, names.iter().map(|name| ((*name).into(), facts)));
    let resolved = resolve(&pattern.into(), &topics, Millis(0))?;
    Ok(resolved.topics.iter().map(|name| (**name).into()).collect())
}

/// A whole name must match; what RE2 does not know is refused (KIP-848).
#[test]
fn a_pattern_matches_whole_names() {
    let found = |pattern: &str| matches(pattern, &["orders", "orders-2", "reorders"]).unwrap();
    assert_eq!(found("orders"), ["orders"]);
    assert_eq!(found("ord.*"), ["orders", "orders-2"]);
    assert_eq!(found("orders|nothing"), ["orders"]);
    assert_eq!(found("x"), [""; 0]);
}

/// Every pattern that Kafka was asked about is taken or refused as there, and matches the same topics.
#[test]
fn patterns_are_those_of_re2j() {
    let asked = include_str!("../../../testdata/kafka-4.4.0-patterns.txt");
    let mut count = 0;
    for line in asked.lines().filter(|line| !line.starts_with("# ")) {
        let (pattern, wanted) = line.rsplit_once('\t').unwrap();
        let found = matches(pattern, &["a", "b9", "ord", "ord-1", "ord.x", "ORD", "pay"]);
        let found = found.map_or_else(|_| "INVALID".into(), |topics| topics.join(" "));
        assert_eq!(found, wanted, "{pattern}");
        count += 1;
    }
    assert!(count > 150, "{count} patterns");
}

/// The same for patterns of transactional ids, which may hold any character: those of ListTransactions (KIP-1152).
#[test]
fn patterns_of_ids_are_those_of_re2j() {
    let asked = include_str!("../../../testdata/kafka-4.4.0-id-patterns.txt");
    let ids = ["orders-1", "Orders-3", "a.b", "a\nb", "café", "😀x", "a b", "a&b", "[x]", "<a>", "{a", "aAA"];
    let mut count = 0;
    for line in asked.lines().filter(|line| !line.starts_with("# ")) {
        let (pattern, wanted) = line.split_once('\t').unwrap();
        let found = NamePattern::new(pattern, Alphabet::Unicode).map_or_else(
            |_| "INVALID".into(),
            |pattern| {
                let matching = ids.iter().filter(|id| pattern.matches(id));
                matching.map(|id| id.replace('\n', "\\n")).collect::<Vec<_>>().join("\t")
            },
        );
        assert_eq!(found, wanted, "{pattern}");
        count += 1;
    }
    assert!(count > 150, "{count} patterns");
}

/// What would take too much memory or depth is refused; long names are not.
#[test]
fn expressions_have_a_limit() {
    for pattern in ["(a{1000}){1000}", "((.{1000}){10}){10}", &"(".repeat(5_000)] {
        assert!(matches(pattern, &["a"]).is_err(), "{pattern}");
    }
    for pattern in [r"\w{1,249}", r"[^,]{1,249}", r".{1,1000}", r"(?i)\pL{1,249}", r"(\pL|\d){1,249}"] {
        assert_eq!(matches(pattern, &["a"]).unwrap(), ["a"], "{pattern}");
    }
}

/// Whatever is sent, it is an expression or it is refused, and a quoted name is that name.
#[test]
fn quoting_takes_any_name() {
    for name in ["a.b", "a-b_c.9", "Orders"] {
        assert_eq!(matches(&format!(r"\Q{name}\E"), &[name, "axb"]).unwrap(), [name]);
    }
    let pieces =
        ["(", ")", "[", "]", "{", "}", "\\", "^", "?", ":", "-", "*", "P<a>", "Q", "x", "0", ",", "p"];
    for a in pieces {
        for b in pieces {
            for c in pieces {
                let _ = matches(&[a, b, c].concat(), &["a"]);
            }
        }
    }
}
