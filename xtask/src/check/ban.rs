//! What the inner rings may not name: clocks, threads, files, randomness, the runtime.

use regex::Regex;

use super::rust_text::{allowed, blanked, is_generated, is_test_path, line_of, without_tests};
use crate::workspace::SourceFile;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ring {
    Core,
    Engine,
    /// The simulator and the models: as pure as the engine, with actors that may be async on an executor of their own.
    Testing,
    Edge,
}

/// One thing that may not be named.
struct Ban {
    /// The word in `// allow(RULE): reason`.
    rule: &'static str,
    pattern: &'static str,
    /// Holds in this ring and those further in.
    outermost: Ring,
    /// Whether it holds in test code as well.
    in_tests: bool,
    instead: &'static str,
}

const BANS: [Ban; 12] = [
    ban("clock", r"\b(Instant|SystemTime)::now\b", Ring::Testing, true, "take `now: Now` as an argument"),
    ban(
        "thread",
        r"\bthread::(spawn|Builder|scope)\b",
        Ring::Testing,
        true,
        "the edge starts threads and drives the engine",
    ),
    ban(
        "sleep",
        r"\b(thread::sleep|sleep_ms|park_timeout)\b",
        Ring::Testing,
        true,
        "park on a named condition or a deadline",
    ),
    ban(
        "disk",
        r"\bstd::fs\b|\bfs::File\b|\bFile::(open|create)\b",
        Ring::Testing,
        false,
        "go through the `Disk` trait",
    ),
    ban("network", r"\bstd::net\b", Ring::Testing, false, "the edge owns the sockets"),
    ban("environment", r"\bstd::(env|process)\b", Ring::Engine, false, "settings arrive as arguments"),
    ban(
        "randomness",
        r"\brand::|\bgetrandom\b|\bRandomState\b",
        Ring::Testing,
        true,
        "random values arrive as arguments",
    ),
    ban("runtime", r"\btokio\b", Ring::Testing, true, "rings 1 and 2 know no runtime"),
    ban("async", r"\basync\s+(fn|move|\{)|\.await\b", Ring::Engine, true, "rings 1 and 2 are synchronous"),
    ban("output", r"\be?print(ln)?!|\bdbg!", Ring::Engine, false, "return facts; the edge logs them"),
    ban("unsafe", r"\bunsafe\b", Ring::Testing, false, "rings 1 and 2 are safe code"),
    ban(
        "hash-order",
        r"\bHash(Map|Set)\b",
        Ring::Core,
        false,
        "use BTreeMap and BTreeSet: the order must not matter",
    ),
];

const fn ban(
    rule: &'static str,
    pattern: &'static str,
    outermost: Ring,
    in_tests: bool,
    instead: &'static str,
) -> Ban {
    Ban { rule, pattern, outermost, in_tests, instead }
}

/// The ring of a source file; none where no ring holds it.
fn ring(path: &str) -> Option<Ring> {
    let mut parts = path.split('/');
    match (parts.next()?, parts.next()?) {
        ("crates", "storage" | "broker") => Some(Ring::Engine),
        ("crates", "server" | "client" | "fencepost") => Some(Ring::Edge),
        ("crates", _) => Some(Ring::Core),
        // The shell of the simulator: arguments, output, one thread for each core.
        ("testing", "sim") if path.ends_with("/src/main.rs") => Some(Ring::Edge),
        ("testing", "sim" | "model") => Some(Ring::Testing),
        _ => None,
    }
}

/// One sentence for each banned name in a Rust file of the inner rings.
pub fn violations(files: &[SourceFile]) -> Vec<String> {
    let rules: Vec<(Regex, &Ban)> =
        BANS.iter().map(|ban| (Regex::new(ban.pattern).expect("a pattern of ours"), ban)).collect();
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.path.ends_with(".rs")) {
        let (Some(ring), Some(text)) = (ring(&file.path), &file.text) else { continue };
        let all = blanked(text);
        let lasting = if is_test_path(&file.path) && !file.path.starts_with("testing/") {
            String::new()
        } else {
            without_tests(&all)
        };
        for (pattern, ban) in rules.iter().filter(|(_, ban)| ring <= ban.outermost) {
            let scanned = if ban.in_tests { &all } else { &lasting };
            for hit in pattern.find_iter(scanned) {
                let line = line_of(&all, hit.start());
                if !allowed(text, line, ban.rule) {
                    found.push(format!(
                        "{}:{line}: `{}` is banned here: {}",
                        file.path,
                        hit.as_str(),
                        ban.instead
                    ));
                }
            }
        }
        no_std(file, text, ring, &mut found);
        kept(file, text, &without_tests(&all), &mut found);
    }
    found
}

/// The core cannot even name the world: its crates are `no_std`.
fn no_std(file: &SourceFile, text: &str, ring: Ring, found: &mut Vec<String>) {
    let is_crate_root = file.path.ends_with("/src/lib.rs");
    if ring == Ring::Core
        && is_crate_root
        && !is_generated(text)
        && !text.contains("#![no_std]")
        && !text.contains(", no_std)]")
    {
        found.push(format!("{}: a core crate is `#![no_std]`", file.path));
    }
}

/// Crates whose types live as long as the broker, in their folders.
const STATE_CRATES: [&str; 5] = ["coordinator", "group", "metadata", "partition", "transaction"];

/// What lives on does not hold the frame or the file that it was read from: in types of state `Bytes` is no field.
fn kept(file: &SourceFile, text: &str, lasting: &str, found: &mut Vec<String>) {
    let is_state = STATE_CRATES.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/")));
    if !is_state || is_test_path(&file.path) {
        return;
    }
    let types = r"(?ms)\b(?:struct|enum)\b[^;{}()]*(?:\{.*?^\s*\}|\([^;]*\);)";
    let types = Regex::new(types).expect("a pattern of ours");
    let bytes = Regex::new(r"\bBytes\b").expect("a pattern of ours");
    for body in types.find_iter(lasting) {
        for hit in bytes.find_iter(body.as_str()) {
            let line = line_of(lasting, body.start() + hit.start());
            if !allowed(text, line, "kept") {
                found.push(format!(
                    "{}:{line}: `Bytes` is banned here: what is kept is `KeptBytes`",
                    file.path
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A field that would hold a whole frame is found, in any shape of type; arguments and copies are not.
    #[test]
    fn kept_bytes_are_copied() {
        let bad = [
            "pub struct A {\n    pub a: Bytes,\n}",
            "struct A {\n    a: i32,\n    b: Vec<(u8, Option<Bytes>)>,\n}",
            "enum A {\n    B { c: Bytes },\n}",
            "struct A(Bytes);",
            "struct A<T>(T, bytes::Bytes);",
        ];
        for text in bad {
            let found = scan("crates/group/src/x.rs", text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(scan("crates/broker/src/x.rs", text).is_empty(), "{text}");
            assert!(scan("crates/group/src/x/tests.rs", text).is_empty(), "{text}");
        }
        assert!(scan("crates/group/src/x.rs", bad[0])[0].starts_with("crates/group/src/x.rs:2: "));
        let good = [
            "struct A {\n    a: KeptBytes,\n}\nfn f(b: Bytes) -> Bytes {\n    b\n}",
            "struct A {\n    // allow(kept): the reason\n    a: Bytes,\n}",
            "struct A;\nfn f(b: Bytes) {}",
        ];
        good.into_iter().for_each(|text| assert!(scan("crates/group/src/x.rs", text).is_empty(), "{text}"));
    }

    fn scan(path: &str, text: &str) -> Vec<String> {
        violations(&[SourceFile { path: path.into(), bytes: 0, text: Some(text.into()) }])
    }

    // Every ban finds its bad line in the innermost ring that it holds for, and only there.
    #[test]
    fn each_ban_finds_its_bad_line() {
        let bad = [
            "let t = Instant::now();",
            "let t = std::time::SystemTime::now();",
            "std::thread::spawn(|| ());",
            "thread::sleep(d);",
            "use std::fs;",
            "use std::net::TcpStream;",
            "std::env::var(\"X\");",
            "let r = rand::rng();",
            "use tokio::sync::mpsc;",
            "x().await;",
            "println!(\"x\");",
            "unsafe { x() }",
        ];
        for line in bad {
            assert_eq!(scan("crates/broker/src/x.rs", line).len(), 1, "{line}");
            assert_eq!(scan("crates/group/src/x.rs", line).len(), 1, "{line}");
            let of_engine = ["env::", ".await", "println"].iter().any(|word| line.contains(word));
            assert_eq!(scan("testing/sim/src/x.rs", line).len(), usize::from(!of_engine), "{line}");
            assert!(scan("crates/server/src/x.rs", line).is_empty(), "{line}");
        }
        assert_eq!(scan("crates/group/src/x.rs", "use alloc::HashMap;").len(), 1);
        assert!(scan("crates/broker/src/x.rs", "use std::collections::HashMap;").is_empty());
    }

    // Test code may read files, and still may not sleep or look at a clock.
    #[test]
    fn tests_move_their_own_clock() {
        let text = "#[cfg(test)]\nmod tests { fn f() { std::fs::read(\"x\"); Instant::now(); } }";
        let found = scan("crates/storage/src/x.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/storage/src/x.rs:2: `Instant::now`"));
        assert_eq!(scan("crates/storage/tests/x.rs", "std::fs::read(p); thread::sleep(d);").len(), 1);
    }

    // Comments are not code, and an exception with a reason is heard.
    #[test]
    fn comments_and_exceptions() {
        assert!(scan("crates/broker/src/x.rs", "// Instant::now() is banned\n").is_empty());
        let sleep = "thread::sleep(d);";
        assert!(scan("crates/broker/src/x.rs", &format!("// allow(sleep): the reason\n{sleep}")).is_empty());
        assert_eq!(scan("crates/broker/src/x.rs", &format!("// allow(clock): wrong rule\n{sleep}")).len(), 1);
    }

    // A core crate that forgets `no_std` is found.
    #[test]
    fn a_core_crate_is_no_std() {
        assert_eq!(scan("crates/group/src/lib.rs", "//! Page.\n").len(), 1);
        assert!(scan("crates/group/src/lib.rs", "//! Page.\n#![no_std]\n").is_empty());
        assert!(scan("crates/group/src/lib.rs", "//! Page.\n#![cfg_attr(not(test), no_std)]\n").is_empty());
        assert!(scan("crates/broker/src/lib.rs", "//! Page.\n").is_empty());
    }
}
