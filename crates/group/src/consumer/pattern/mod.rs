//! Regular expressions for topics, in the dialect of RE2J.

mod re2;

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
/// INVALID_REGULAR_EXPRESSION: it does not parse, or is too large. Look-around and back references do not parse.
///
/// Differs from Kafka: the size of the compiled expression has a limit, and so has the nesting of groups.
pub fn resolve(pattern: &Arc<str>, topics: &Topics, now: Millis) -> Result<ResolvedRegex, GroupRefusal> {
    let regex = compile(pattern)?;
    let matching: BTreeSet<TopicName> =
        topics.iter().map(|(name, _)| name).filter(|name| regex.is_match(name)).cloned().collect();
    Ok(ResolvedRegex { topics: matching, version: topics.version(), timestamp: now })
}

fn compile(pattern: &str) -> Result<Regex, GroupRefusal> {
    let invalid = |why: &str| GroupRefusal::InvalidRegularExpression { why: why.into() };
    let translated = re2::translate(pattern).map_err(invalid)?;
    let build = |pattern: &str| {
        let built = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build();
        built.map_err(|error| invalid(&error.to_string()))
    };
    // As it stands first, so that a bracket of ours closes none of theirs.
    build(&translated)?;
    build(&format!(r"\A(?:{translated})\z"))
}

#[cfg(test)]
mod tests;
