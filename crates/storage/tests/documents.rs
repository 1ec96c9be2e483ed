//! What `docs/storage.md` says of tests is so: every test that it names is there, every trap of the specifications has tests
//! that cite it, and every directory of Kafka's has one.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many traps `producer-state §17` has.
const PRODUCER_STATE_TRAPS: usize = 40;
/// How many traps `storage-formats §20` has.
const STORAGE_FORMATS_TRAPS: usize = 36;
/// The sets of directories and files that Kafka wrote, but for those of the crash.
const SETS: [&str; 17] = [
    "idempotent/codecs-0",
    "idempotent/appendtime-0",
    "idempotent/recompressed-0",
    "idempotent/bytime-0",
    "idempotent/plain-0",
    "idempotent/expired-0",
    "transactions/txns-0",
    "transactions/txns-1",
    "transactions/compacted-0",
    "coordinator",
    "offsets",
    "cluster-metadata/static-voters",
    "cluster-metadata/dynamic-voters",
    "cluster-metadata/just-formatted-dynamic",
    "data-dir",
    "dump",
    "wire",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The comment of a test, in one line; `None` if there is no such test. What stands between the test and the comment, as
/// other attributes do, is skipped.
fn comment_of(file: &str, test: &str) -> Option<String> {
    let path = repository().join(file);
    let text = std::fs::read_to_string(path).ok()?;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.starts_with(&format!("fn {test}(")))?;
    let above = lines[..at].iter().rev();
    let own: Vec<&str> =
        above.take_while(|line| line.starts_with("///") || line.starts_with("#[")).copied().collect();
    own.contains(&"#[test]").then(|| {
        let comment = own.iter().rev().filter_map(|line| line.strip_prefix("///"));
        comment.map(str::trim).collect::<Vec<_>>().join(" ")
    })
}

/// Whether a comment cites the trap: `producer-state trap 4`, `producer-state traps 4, 6`, `traps 14 and 25`.
fn cites(comment: &str, specification: &str, trap: usize) -> bool {
    let comment = comment.to_lowercase();
    let words = format!("{specification} trap");
    comment.match_indices(&words).any(|(at, _)| {
        let rest = comment[at + words.len()..].trim_start_matches('s');
        let list = rest.replace(" and ", " ").replace(',', " ");
        let list = list.split([')', ':', '.', ';']).next().unwrap();
        list.split_whitespace().map_while(|word| word.parse::<usize>().ok()).any(|number| number == trap)
    })
}

/// The fields of every row of the tables in a section, without the heads.
fn rows(section: &str) -> Vec<Vec<String>> {
    let document = text("docs/storage.md");
    let head = format!("\n## {section}\n");
    let (_, rest) = document.split_once(&head).unwrap_or_else(|| panic!("there is no section {section}"));
    let own = rest.split("\n## ").next().unwrap();
    let mut found = Vec::new();
    let mut in_body = false;
    for line in own.lines() {
        if !line.starts_with('|') {
            in_body = false;
        } else if line.starts_with("|---") {
            in_body = true;
        } else if in_body {
            let fields = line.trim_matches('|').split(" | ");
            found.push(fields.map(|field| field.trim().trim_matches('`').to_owned()).collect());
        }
    }
    found
}

fn check_traps(section: &str, specification: &str, count: usize) {
    let rows = rows(section);
    let mut wrong = Vec::new();
    for row in &rows {
        let [trap, _, file, test] = &row[..] else { panic!("a row of four: {row:?}") };
        let trap: usize = trap.parse().unwrap_or_else(|_| panic!("a trap's number: {row:?}"));
        match comment_of(file, test) {
            None => wrong.push(format!("trap {trap}: there is no test {test} in {file}")),
            Some(comment) if !cites(&comment, specification, trap) => {
                wrong.push(format!(
                    "{specification} trap {trap}: {test} in {file} does not cite it: {comment}"
                ));
            }
            Some(_) => {}
        }
    }
    let named: BTreeSet<&str> = rows.iter().map(|row| &*row[0]).collect();
    let missing = (1..=count).filter(|trap| !named.contains(&*trap.to_string()));
    wrong.extend(missing.map(|trap| format!("{specification} trap {trap} is not in the table")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every trap of the producer state has tests that cite it.
#[test]
fn every_trap_of_the_producer_state_has_its_tests() {
    check_traps("Traps of the producer state", "producer-state", PRODUCER_STATE_TRAPS);
}

/// Every trap of the storage formats has tests that cite it.
#[test]
fn every_trap_of_the_storage_formats_has_its_tests() {
    check_traps("Traps of the storage formats", "storage-formats", STORAGE_FORMATS_TRAPS);
}

/// Every test that the document names, in whatever section, is there: the last two fields of a row are file and test.
#[test]
fn every_test_that_is_named_is_there() {
    let document = text("docs/storage.md");
    let sections = document.split("\n## ").skip(1).map(|section| section.lines().next().unwrap());
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in sections.flat_map(rows) {
        let [.., file, test] = &row[..] else { continue };
        if !file.starts_with("crates/") {
            continue;
        }
        count += 1;
        if comment_of(file, test).is_none() {
            wrong.push(format!("there is no test {test} in {file}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "{count} rows name a test");
}

/// Every directory that Kafka wrote has a test, and so has every damage that it was asked about.
#[test]
fn every_directory_has_its_test() {
    let named =
        |section| -> BTreeSet<String> { rows(section).into_iter().map(|row| row[0].clone()).collect() };
    assert_eq!(named("Golden sets"), SETS.map(str::to_owned).into());

    let answers: serde_json::Value =
        serde_json::from_str(&text("crates/broker/testdata/golden/unclean.json")).unwrap();
    let mut cases = BTreeSet::new();
    for (name, case) in answers.as_object().unwrap() {
        if matches!(&**name, "faults" | "fatal") {
            let partitions = case.as_object().unwrap().iter().filter(|(_, answer)| answer.is_object());
            cases.extend(partitions.map(|(name, _)| name.clone()).filter(|name| name != "what_was_done"));
        } else {
            cases.insert(name.clone());
        }
    }
    assert_eq!(named("Directories after a crash"), cases);
}

/// What is no citation is not taken for one.
#[test]
fn citations_are_told_from_other_words() {
    assert!(cites("see (producer-state trap 4).", "producer-state", 4));
    assert!(cites("Producer-state traps 4, 6 and 8: so", "producer-state", 8));
    assert!(!cites("producer-state trap 40", "producer-state", 4));
    assert!(!cites("storage-formats trap 4", "producer-state", 4));
    assert!(!cites("producer-state traps 4; 6 others", "producer-state", 6));
    assert_eq!(comment_of("crates/storage/tests/documents.rs", "comment_of"), None);
}
