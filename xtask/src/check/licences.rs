//! Every dependency's licence is one that we take. The list is that of `deny.toml`.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The licences of `deny.toml`: the strings of its `allow` list.
pub fn allow_list(deny: &str) -> Result<BTreeSet<String>> {
    let (_, rest) = deny.split_once("\nallow = [").context("deny.toml has no list `allow`")?;
    let (list, _) = rest.split_once(']').context("the list `allow` has no end")?;
    let names: BTreeSet<String> = list.split('"').skip(1).step_by(2).map(str::to_string).collect();
    ensure!(!names.is_empty(), "the list `allow` of deny.toml is empty");
    Ok(names)
}

/// One sentence for each package whose licence is not covered.
pub fn violations(metadata: &Value, allow: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        match package["license"].as_str() {
            Some(expression) if accepted(expression, allow) => {}
            Some(expression) => {
                found.push(format!("{name}: licence `{expression}` is not on the list of deny.toml"))
            }
            None => found.push(format!("{name}: names no licence")),
        }
    }
    found
}

/// Whether an SPDX expression can be met by licences of the list. `A/B` is the older way to write `A OR B`.
fn accepted(expression: &str, allow: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    either(&words, &mut at, allow) && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    let mut met = both(words, at, allow);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= both(words, at, allow);
    }
    met
}

fn both(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    let mut met = one(words, at, allow);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allow);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = either(words, at, allow);
        let closed = words.get(*at) == Some(&")");
        *at += usize::from(closed);
        return met && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let full = words.get(*at..*at + 2).map(|w| format!("{word} {}", w.join(" ")));
        *at += 2;
        return full.is_some_and(|name| allow.contains(&name));
    }
    allow.contains(*word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list() -> BTreeSet<String> {
        allow_list("[licenses]\nallow = [\n  \"MIT\",\n  \"Apache-2.0\",\n  \"Apache-2.0 WITH LLVM-exception\",\n]\n").unwrap()
    }

    // Expressions are read as SPDX means them.
    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/GPL-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "(MIT OR X) AND Apache-2.0",
        ] {
            assert!(accepted(good, &list()), "{good}");
        }
        for bad in
            ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR X) AND Y", "MIT WITH Y", "", "(MIT", "MIT Apache-2.0"]
        {
            assert!(!accepted(bad, &list()), "{bad}");
        }
    }

    // A package with a foreign licence, and one with none, are found.
    #[test]
    fn packages() {
        let metadata = json!({"packages": [{"name": "a", "license": "MIT"}, {"name": "b", "license": "GPL-3.0"}, {"name": "c", "license": null}]});
        let found = violations(&metadata, &list());
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("b:") && found[1].starts_with("c:"));
        assert!(allow_list("[licenses]\nallow = []\n").is_err());
    }
}
