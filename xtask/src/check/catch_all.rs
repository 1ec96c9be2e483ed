//! A `match` over an enum of ours has no `_` arm: a new state must be considered everywhere.

use std::collections::BTreeSet;

use regex::Regex;

use super::rust_text::{allowed, blanked, closing, is_generated, is_test_path, line_of, without_tests};
use crate::workspace::SourceFile;

const RULE: &str = "catch-all";
/// Lists of Kafka's that are too long to name each in a match, and that no state machine of ours walks over.
const LISTS: [&str; 1] = ["ErrorCode"];

/// One sentence for each catch-all arm beside arms that name an enum of ours.
///
/// A `match` whose other arms do not name the enum (they are imported, or are literals) is not seen.
pub fn violations(files: &[SourceFile]) -> Vec<String> {
    let sources: Vec<(&SourceFile, String)> = files
        .iter()
        .filter(|f| f.path.ends_with(".rs") && f.path.starts_with("crates/") && !is_test_path(&f.path))
        .filter_map(|f| Some((f, without_tests(&blanked(f.text.as_ref()?)))))
        .collect();
    let enums = enum_names(sources.iter().map(|(_, code)| code.as_str()));
    let mut found = Vec::new();
    for (file, code) in &sources {
        let text = file.text.as_deref().unwrap_or_default();
        if is_generated(text) {
            continue;
        }
        for (line, name) in catch_alls(code, &enums) {
            if !allowed(text, line, RULE) {
                found.push(format!("{}:{line}: `_` beside arms of `{name}`: name each variant", file.path));
            }
        }
    }
    found
}

fn enum_names<'a>(codes: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let pattern = Regex::new(r"\benum\s+(\w+)").expect("a pattern of ours");
    codes
        .flat_map(|code| pattern.captures_iter(code).map(|hit| hit[1].to_string()).collect::<Vec<_>>())
        .collect()
}

/// Lines of `_` arms in a match whose other patterns name one of the enums, with that name.
fn catch_alls(code: &str, enums: &BTreeSet<String>) -> Vec<(usize, String)> {
    let heads = Regex::new(r"\bmatch\b").expect("a pattern of ours");
    let path = Regex::new(r"\b([A-Z]\w*)::[A-Z]\w*").expect("a pattern of ours");
    let mut found = Vec::new();
    for head in heads.find_iter(code) {
        let Some(open) = block_of(code, head.end()) else { continue };
        let arms = arms(code, open);
        let own = arms.iter().find_map(|(_, pattern)| {
            path.captures_iter(pattern)
                .map(|hit| hit[1].to_string())
                .find(|name| enums.contains(name) && !LISTS.contains(&name.as_str()))
        });
        let Some(own) = own else { continue };
        for (at, pattern) in &arms {
            let bare = pattern.trim_start();
            if bare == "_" || bare.starts_with("_ ") && !bare.contains(" if ") {
                found.push((line_of(code, at + pattern.len() - bare.len()), own.clone()));
            }
        }
    }
    found
}

/// The opening bracket of the block after a `match` and its subject.
fn block_of(code: &str, from: usize) -> Option<usize> {
    let mut at = from;
    while at < code.len() {
        match code.as_bytes()[at] {
            b'{' => return Some(at),
            b'(' | b'[' => at = closing(code, at) + 1,
            b';' | b'}' => return None,
            _ => at += 1,
        }
    }
    None
}

/// The arms of the block that opens at `open`: where each pattern begins, and its text before `=>`.
fn arms(code: &str, open: usize) -> Vec<(usize, String)> {
    let end = closing(code, open);
    let bytes = code.as_bytes();
    let (mut found, mut start, mut at) = (Vec::new(), open + 1, open + 1);
    while at < end {
        match bytes[at] {
            b'{' | b'(' | b'[' => at = closing(code, at) + 1,
            b'=' if bytes.get(at + 1) == Some(&b'>') => {
                found.push((start, code[start..at].trim_end().to_string()));
                at = end_of_arm(code, at + 2, end);
                start = at;
            }
            _ => at += 1,
        }
    }
    found
}

/// Just behind the body of an arm: a block with its comma, or an expression up to its comma.
fn end_of_arm(code: &str, from: usize, end: usize) -> usize {
    let bytes = code.as_bytes();
    let skip = |mut at: usize| {
        while at < end && bytes[at].is_ascii_whitespace() {
            at += 1;
        }
        at
    };
    let mut at = skip(from);
    if bytes[at] == b'{' {
        at = skip(closing(code, at) + 1);
        return if bytes[at] == b',' { at + 1 } else { at };
    }
    while at < end && bytes[at] != b',' {
        at = if matches!(bytes[at], b'{' | b'(' | b'[') { closing(code, at) + 1 } else { at + 1 };
    }
    (at + 1).min(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(body: &str) -> Vec<String> {
        let text = format!("enum State {{ Empty, Dead }}\nfn f(s: State) -> u8 {{\n    {body}\n}}\n");
        violations(&[SourceFile { path: "crates/x/src/lib.rs".into(), bytes: 0, text: Some(text) }])
    }

    // A catch-all beside arms of our own enum is found, nested and guarded patterns included.
    #[test]
    fn a_catch_all_over_an_own_enum_is_found() {
        for body in [
            "match s { State::Empty => 1, _ => 2 }",
            "match s {\n State::Empty => { 1 }\n _ => { 2 }\n }",
            "match (s, g(|x| { x })) { (State::Dead, 1) if a() => 1, _ => 2 }",
            "match Some(s) { Some(State::Dead) => h(), _ => 2 }",
            "match a { 1 => match s { State::Dead => 1, _ => 2 }, n => n }",
        ] {
            assert_eq!(scan(body).len(), 1, "{body}");
        }
    }

    // Matches over numbers, strings and enums of others keep their catch-all; bodies are not patterns.
    #[test]
    fn other_matches_are_left_alone() {
        for body in [
            "match n { 0 => State::Empty, _ => State::Dead }",
            "match n { 0 => { State::Empty } _ => State::Dead }",
            "match o { Ordering::Less => 1, _ => 2 }",
            "match s { State::Empty | State::Dead => 1 }",
            "match s { State::Empty => 1, other => f(other) }",
            "match s { State::Empty => 1,\n // allow(catch-all): the reason\n _ => 2 }",
        ] {
            assert_eq!(scan(body), Vec::<String>::new(), "{body}");
        }
    }
}
