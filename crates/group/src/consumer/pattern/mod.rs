//! Regular expressions for topics and transactional ids, in the dialect of RE2J.

mod re2;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use fencepost_types::{Millis, TopicName};
use regex::{Regex, RegexBuilder};

pub use re2::Alphabet;

use crate::{GroupRefusal, ResolvedRegex, Topics};

/// The topics whose whole name matches `pattern`. Takes time linear in the names, whatever the expression.
///
/// # Errors
/// INVALID_REGULAR_EXPRESSION: it does not parse, or is too large. Look-around and back references do not parse.
///
/// Differs from Kafka: the size of the compiled expression has a limit, and so has the nesting of groups.
pub fn resolve(pattern: &Arc<str>, topics: &Topics, now: Millis) -> Result<ResolvedRegex, GroupRefusal> {
    let compiled = NamePattern::new(pattern, Alphabet::Ascii)
        .map_err(|why| GroupRefusal::InvalidRegularExpression { why: why.into() })?;
    let matching: BTreeSet<TopicName> =
        topics.iter().map(|(name, _)| name).filter(|name| compiled.matches(name)).cloned().collect();
    Ok(ResolvedRegex { topics: matching, version: topics.version(), timestamp: now })
}

/// An expression that whole names are held against, in time linear in the name.
#[derive(Clone, Debug)]
pub struct NamePattern(Regex);

impl NamePattern {
    /// Reads `pattern` as RE2J does.
    ///
    /// # Errors
    /// Why it is no expression, or that it is too large.
    ///
    /// Source: KIP-848, KIP-1152.
    pub fn new(pattern: &str, alphabet: Alphabet) -> Result<Self, String> {
        let translated = re2::translate(pattern, alphabet)?;
        let build = |pattern: &str| {
            let built = RegexBuilder::new(pattern).size_limit(alphabet.compiled_bytes_max()).build();
            built.map_err(|error| error.to_string())
        };
        // As it stands first, so that a bracket of ours closes none of theirs.
        build(&translated)?;
        build(&format!(r"\A(?:{translated})\z")).map(Self)
    }

    /// Whether it is the whole of `name` that matches.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

#[cfg(test)]
mod tests;
