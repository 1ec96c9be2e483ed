//! House rules on text: sizes, unfinished work, paths of a machine, crate pages, names of files in the documents.

use std::collections::BTreeSet;

use regex::Regex;

use super::rust_text::{allowed, blanked, closing, is_generated, is_test_path, line_of, without_tests};
use crate::workspace::SourceFile;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_BYTES_MAX: u64 = 1_000_000;
const PAGE_LINES_MIN: usize = 8;

/// Files that are copies of what others wrote, or lists that a tool keeps.
const FOREIGN: [&str; 5] = [
    "testing/conformance/golden/",
    "testing/conformance/better/",
    "testing/conformance/scenarios/",
    "Cargo.lock",
    "LICENSE",
];

/// One sentence for each broken rule.
pub fn violations(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    let paths: BTreeSet<&str> = files.iter().map(|f| f.path.as_str()).collect();
    for file in files {
        if file.bytes > FILE_BYTES_MAX {
            found.push(format!("{}: {} bytes, the limit is {FILE_BYTES_MAX}", file.path, file.bytes));
        }
        let Some(text) = &file.text else { continue };
        if FOREIGN.iter().any(|prefix| file.path.starts_with(prefix)) {
            continue;
        }
        machine_paths(&file.path, text, &mut found);
        if is_code(&file.path) {
            unfinished(&file.path, text, &mut found);
        }
        if file.path.ends_with(".rs") && !is_generated(text) && !is_test_path(&file.path) {
            sizes(&file.path, text, &mut found);
        }
        if file.path.ends_with(".md") {
            names_in_document(&file.path, text, &paths, &mut found);
        }
    }
    crate_pages(files, &mut found);
    found
}

fn is_code(path: &str) -> bool {
    [".rs", ".py", ".java", ".sh", ".toml"].iter().any(|end| path.ends_with(end)) || path == ".ci/run"
}

/// A path that only one machine has. One that is Kafka's own default carries `// allow(path): reason`.
fn machine_paths(path: &str, text: &str, found: &mut Vec<String>) {
    let pattern = Regex::new(r"(^|[^A-Za-z0-9_.*])/(work|root|farm|home|tmp)/").expect("a pattern of ours");
    for (number, line) in text.lines().enumerate() {
        if pattern.is_match(line) && !allowed(text, number + 1, "path") {
            found.push(format!("{path}:{}: a path of a machine", number + 1));
        }
    }
}

/// Marks of work that is not done, and tests that are switched off.
fn unfinished(path: &str, text: &str, found: &mut Vec<String>) {
    let words = concat!(
        r"\b(TO",
        "DO|FIX",
        "ME|XX",
        r"X)\b|\b(to",
        "do|unimple",
        "mented|db",
        r"g)!\(|#\[ign",
        "ore"
    );
    let pattern = Regex::new(words).expect("a pattern of ours");
    for (number, line) in text.lines().enumerate() {
        if let Some(hit) = pattern.find(line) {
            found.push(format!("{path}:{}: `{}`: finish it, or file an issue", number + 1, hit.as_str()));
        }
    }
}

/// Files below 500 lines, functions below 70.
fn sizes(path: &str, text: &str, found: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        found.push(format!("{path}: {lines} lines, the limit is {FILE_LINES_MAX}: one idea per file"));
    }
    let code = without_tests(&blanked(text));
    let pattern = Regex::new(r"\bfn\s+(\w+)").expect("a pattern of ours");
    for hit in pattern.captures_iter(&code) {
        let (start, name) = (hit.get(0).expect("the whole").start(), &hit[1]);
        let Some(open) = code[start..].find(['{', ';']).map(|n| start + n) else { continue };
        if code.as_bytes()[open] == b';' {
            continue;
        }
        let first = line_of(&code, start);
        let length = line_of(&code, closing(&code, open).min(code.len() - 1)) - first + 1;
        if length > FUNCTION_LINES_MAX {
            found.push(format!(
                "{path}:{first}: fn {name} has {length} lines, the limit is {FUNCTION_LINES_MAX}"
            ));
        }
    }
}

/// Each crate opens with a page: what it is for, numbered invariants, a diagram.
fn crate_pages(files: &[SourceFile], found: &mut Vec<String>) {
    let numbered = Regex::new(r"(?m)^//! +(-|\d+\.|\*) +`?[A-Z]{1,3}\d+\b").expect("a pattern of ours");
    for manifest in files.iter().filter(|f| f.path.starts_with("crates/") && f.path.ends_with("/Cargo.toml"))
    {
        let directory = manifest.path.trim_end_matches("Cargo.toml");
        let root = ["src/lib.rs", "src/main.rs"].map(|end| format!("{directory}{end}"));
        let page =
            files.iter().find(|f| root.contains(&f.path)).and_then(|f| f.text.as_deref()).unwrap_or_default();
        let page: String =
            page.lines().take_while(|l| l.starts_with("//!")).map(|l| format!("{l}\n")).collect();
        let mut lacks = Vec::new();
        if page.lines().count() < PAGE_LINES_MIN {
            lacks.push("a page at its top");
        }
        if !numbered.is_match(&page) {
            lacks.push("numbered invariants (`- P1: …`)");
        }
        if !page.contains("//! ```text") {
            lacks.push("a diagram (```text)");
        }
        if !lacks.is_empty() {
            found.push(format!("{directory}: the crate page lacks {}", lacks.join(", ")));
        }
    }
}

/// Paths in backticks and relative links of a document lead to files that exist.
fn names_in_document(path: &str, text: &str, paths: &BTreeSet<&str>, found: &mut Vec<String>) {
    let named = Regex::new(r"`((?:crates|testing|xtask|docs)/[A-Za-z0-9_./-]+)`").expect("a pattern of ours");
    let linked = Regex::new(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)").expect("a pattern of ours");
    let exists = |name: &str| {
        let name = name.trim_end_matches('/');
        paths.contains(name)
            || paths.iter().any(|p| p.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')))
    };
    for (number, line) in text.lines().enumerate() {
        for hit in named.captures_iter(line).filter(|hit| !exists(&hit[1])) {
            found.push(format!("{path}:{}: `{}` does not exist", number + 1, &hit[1]));
        }
        for hit in linked.captures_iter(line).filter(|hit| !exists(&resolved(path, &hit[1]))) {
            found.push(format!("{path}:{}: the link to {} leads nowhere", number + 1, &hit[1]));
        }
    }
}

/// A link relative to the document, as a path below the root.
fn resolved(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), bytes: text.len() as u64, text: Some(text.into()) }
    }

    fn scan(path: &str, text: &str) -> Vec<String> {
        violations(&[file(path, text)])
    }

    // A long file is found, a long test file and a generated one are not.
    #[test]
    fn long_files_are_found() {
        let long = "\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(scan("crates/group/src/x.rs", &long).len(), 1);
        assert!(scan("crates/group/src/x/tests.rs", &long).is_empty());
        assert!(scan("crates/group/src/x.rs", &format!("// Generated by x{long}")).is_empty());
        assert!(scan("crates/group/src/x.rs", &"\n".repeat(FILE_LINES_MAX)).is_empty());
    }

    // The limit on functions counts from `fn` to the closing bracket, and leaves tests alone.
    #[test]
    fn long_functions_are_found() {
        let of = |lines: usize| {
            format!("trait T {{ fn only(&self); }}\nfn f() {{\n{}}}\n", "    // }\n".repeat(lines - 2))
        };
        assert!(scan("xtask/src/x.rs", &of(FUNCTION_LINES_MAX)).is_empty());
        let found = scan("xtask/src/x.rs", &of(FUNCTION_LINES_MAX + 1));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("xtask/src/x.rs:2: fn f has 71 lines"));
        assert!(scan("xtask/src/x.rs", &format!("#[cfg(test)]\nmod tests {{ {} }}", of(90))).is_empty());
    }

    // Unfinished work is found in every language that we write.
    #[test]
    fn unfinished_work_is_found() {
        let words = [
            concat!("// TO", "DO: x"),
            concat!("# FIX", "ME"),
            concat!("to", "do!()"),
            concat!("db", "g!(x)"),
            concat!("#[ign", "ore]"),
        ];
        for word in words {
            assert_eq!(scan("crates/group/src/x.rs", word).len(), 1, "{word}");
            assert_eq!(scan("testing/interop/x.py", word).len(), 1, "{word}");
        }
        assert!(scan("docs/x.md", words[0]).is_empty());
    }

    // Paths of a machine are found; paths that merely contain such a word are not.
    #[test]
    fn paths_of_a_machine_are_found() {
        for (head, tail) in [("wo", "rk"), ("ro", "ot"), ("t", "mp"), ("ho", "me")] {
            assert_eq!(scan("README.md", &format!("see /{head}{tail}/x")).len(), 1);
        }
        assert!(scan("README.md", "net/work/x and ./work/x").is_empty());
    }

    // A crate without a page, without invariants or without a diagram is found.
    #[test]
    fn a_crate_without_a_page_is_found() {
        let manifest = || file("crates/x/Cargo.toml", "");
        let page =
            format!("{}//! - X1: holds.\n//! ```text\n//! a -> b\n//! ```\n", "//! Words.\n".repeat(8));
        assert!(violations(&[manifest(), file("crates/x/src/lib.rs", &page)]).is_empty());
        assert_eq!(violations(&[manifest()]).len(), 1);
        for part in ["- X1: holds.", "```text"] {
            let found = violations(&[manifest(), file("crates/x/src/lib.rs", &page.replace(part, ""))]);
            assert_eq!(found.len(), 1, "{part}");
        }
    }

    // A document may name only what exists.
    #[test]
    fn a_document_names_what_exists() {
        let found = |text: &str| {
            let files = [file("docs/a.md", text), file("crates/x/src/lib.rs", ""), file("README.md", "")];
            violations(&files)
        };
        assert!(
            found(
                "`crates/x/src/lib.rs`, `crates/x/`, [home](../README.md), [there](#x), [far](https://a.b/c)"
            )
            .is_empty()
        );
        assert_eq!(found("`crates/x/src/gone.rs`").len(), 1);
        assert_eq!(found("[gone](gone.md)").len(), 1);
    }

    // A large file is found, whatever it holds.
    #[test]
    fn a_large_file_is_found() {
        let large = SourceFile { path: "x.bin".into(), bytes: FILE_BYTES_MAX + 1, text: None };
        assert_eq!(violations(&[large]).len(), 1);
    }
}
