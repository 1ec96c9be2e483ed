//! Regular expressions for topics.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;

use fencepost_types::{Millis, TopicName};
use regex::{Regex, RegexBuilder};

use crate::{GroupRefusal, ResolvedRegex, Topics};

/// The most memory that a compiled expression may take, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The topics whose whole name matches `pattern`. Takes time linear in the names, whatever the expression.
///
/// # Errors
/// INVALID_REGULAR_EXPRESSION: it does not parse, or is too large. Look-around and back references do not parse, as
/// in RE2.
pub fn resolve(pattern: &Arc<str>, topics: &Topics, now: Millis) -> Result<ResolvedRegex, GroupRefusal> {
    let regex = compile(pattern)?;
    let matching: BTreeSet<TopicName> =
        topics.iter().map(|(name, _)| name).filter(|name| regex.is_match(name)).cloned().collect();
    Ok(ResolvedRegex { topics: matching, version: topics.version(), timestamp: now })
}

fn compile(pattern: &str) -> Result<Regex, GroupRefusal> {
    let invalid =
        |error: regex::Error| GroupRefusal::InvalidRegularExpression { why: error.to_string().into() };
    let build = |pattern: &str| RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build();
    // As it stands first, so that a bracket of ours closes none of theirs.
    build(pattern).map_err(invalid)?;
    build(&format!(r"\A(?:{pattern})\z")).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TopicFacts;
    use fencepost_types::Uuid;

    /// A whole name must match; what RE2 does not know is refused (KIP-848).
    #[test]
    fn a_pattern_matches_whole_names() {
        let facts = TopicFacts { id: Uuid::ZERO, partition_count: 1 };
        let topics = Topics::new(1, ["orders", "orders-2", "reorders"].map(|name| (name.into(), facts)));
        let found = |pattern: &str| -> alloc::vec::Vec<TopicName> {
            resolve(&pattern.into(), &topics, Millis(0)).unwrap().topics.into_iter().collect()
        };
        assert_eq!(found("orders"), ["orders".into()]);
        assert_eq!(found("ord.*"), ["orders".into(), "orders-2".into()]);
        assert_eq!(found("orders|nothing"), ["orders".into()]);
        assert_eq!(found("x"), []);
        for pattern in ["(abc", "a(?=b)", r"(a)\1", "a)(b", "(?x)a # (", "(a{1000}){1000}"] {
            assert!(resolve(&pattern.into(), &topics, Millis(0)).is_err(), "{pattern}");
        }
    }
}
