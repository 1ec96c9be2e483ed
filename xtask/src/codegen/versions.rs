//! Rust conditions on `version` for sets of versions.

use std::collections::BTreeSet;

type Versions = BTreeSet<i16>;

/// The condition that holds for `set` among `all`; `None` where it always holds.
pub fn condition(set: &Versions, all: &Versions) -> Option<String> {
    let set: Versions = set.intersection(all).copied().collect();
    if &set == all {
        return None;
    }
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return None };
    let parts: Vec<String> = runs(&set, all)
        .into_iter()
        .map(|(low, high)| match (low == *first, high == *last) {
            (true, _) => format!("version <= {high}"),
            (_, true) => format!("version >= {low}"),
            _ if low == high => format!("version == {low}"),
            _ => format!("({low}..={high}).contains(&version)"),
        })
        .collect();
    Some(if parts.is_empty() { "false".to_string() } else { parts.join(" || ") })
}

/// The condition that holds for those of `all` that are not in `set`; `None` where none is left.
pub fn otherwise(set: &Versions, all: &Versions) -> Option<String> {
    let rest: Versions = all.difference(set).copied().collect();
    if rest.is_empty() { None } else { condition(&rest, all).or(Some("true".to_string())) }
}

/// A number that depends on the version, as an expression.
pub fn by_version(value: impl Fn(i16) -> usize, all: &Versions) -> String {
    let mut values: Vec<usize> = all.iter().map(|v| value(*v)).collect();
    values.dedup();
    let Some(last) = values.last() else { return "1".to_string() };
    if values.len() == 1 {
        return last.to_string();
    }
    let mut arms = String::new();
    let mut versions = all.iter().peekable();
    let mut low: Option<i16> = None;
    while let Some(version) = versions.next() {
        let this = value(*version);
        match versions.peek() {
            // The next version goes on with the same number.
            Some(next) if value(**next) == this => low = low.or((!arms.is_empty()).then_some(*version)),
            Some(_) => {
                let from = low.or((!arms.is_empty()).then_some(*version));
                match from {
                    Some(from) if from == *version => arms.push_str(&format!("{version} => {this}, ")),
                    Some(from) => arms.push_str(&format!("{from}..={version} => {this}, ")),
                    None => arms.push_str(&format!("..={version} => {this}, ")),
                }
                low = None;
            }
            None => arms.push_str(&format!("_ => {this}")),
        }
    }
    format!("match version {{ {arms} }}")
}

/// Runs of neighbours within `all`: first and last of each.
fn runs(set: &Versions, all: &Versions) -> Vec<(i16, i16)> {
    let mut runs: Vec<(i16, i16)> = Vec::new();
    let mut joined = false;
    for version in all {
        if set.contains(version) {
            match runs.last_mut() {
                Some(run) if joined => run.1 = *version,
                _ => runs.push((*version, *version)),
            }
        }
        joined = set.contains(version);
    }
    runs
}

/// `3+`, `4–12`, `5`: for documentation.
pub fn text(set: &Versions, newest: i16) -> String {
    let spans: Vec<String> = runs(set, set)
        .into_iter()
        .map(|(low, high)| match (high == newest, low == high) {
            (true, _) => format!("{low}+"),
            (_, true) => low.to_string(),
            _ => format!("{low}–{high}"),
        })
        .collect();
    spans.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conditions are as short as the versions around them allow.
    #[test]
    fn conditions() {
        let all: Versions = (3..=9).collect();
        assert_eq!(condition(&(3..=9).collect(), &all), None);
        assert_eq!(condition(&(3..=5).collect(), &all).unwrap(), "version <= 5");
        assert_eq!(condition(&(6..=9).collect(), &all).unwrap(), "version >= 6");
        assert_eq!(condition(&(4..=5).collect(), &all).unwrap(), "(4..=5).contains(&version)");
        assert_eq!(otherwise(&(6..=9).collect(), &all).unwrap(), "version <= 5");
        assert_eq!(otherwise(&all, &all), None);
    }

    /// One value is a plain number, several are a match.
    #[test]
    fn numbers_by_version() {
        let all: Versions = (3..=9).collect();
        assert_eq!(by_version(|_| 7, &all), "7");
        assert_eq!(by_version(|v| if v < 5 { 2 } else { 1 }, &all), "match version { ..=4 => 2, _ => 1 }");
        let three = |v| match v {
            3..=5 => 2,
            6..=7 => 3,
            _ => 1,
        };
        assert_eq!(by_version(three, &all), "match version { ..=5 => 2, 6..=7 => 3, _ => 1 }");
    }
}
