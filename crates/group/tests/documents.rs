//! What `docs/groups.md` says of tests is so: every test that it names is there, and no transcript is left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// File and test of each row of the document's last table.
fn rows() -> Vec<(String, String)> {
    let document = text("docs/groups.md");
    let (_, table) =
        document.split_once("\n| Item | File | Test |\n").expect("the document has the table of tests");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, file, test] = cells[..] else { panic!("a row of three: {line}") };
        (file.trim_matches('`').to_owned(), test.trim_matches('`').to_owned())
    })
    .collect()
}

fn is_there(file: &str, test: &str) -> bool {
    let text = text(file);
    if file.ends_with(".script") {
        return text.contains(&format!("\n== {test}\n"));
    }
    text.contains(&format!("#[test]\nfn {test}(")) || text.contains(&format!("#[test]\n    fn {test}("))
}

/// Every test that the table names is there.
#[test]
fn every_item_has_its_test() {
    let rows = rows();
    assert!(rows.len() > 150, "{} rows", rows.len());
    let wrong: Vec<_> = rows.iter().filter(|(file, test)| !is_there(file, test)).collect();
    assert!(wrong.is_empty(), "there are no such tests: {wrong:#?}");
}

/// Every transcript is in the table.
#[test]
fn every_transcript_is_an_item() {
    let named: BTreeSet<String> = rows().into_iter().map(|(_, test)| test).collect();
    let directory = repository().join("crates/group/testdata");
    for entry in std::fs::read_dir(&directory).expect("testdata is there") {
        let path = entry.expect("testdata can be listed").path();
        if path.extension().is_none_or(|extension| extension != "script") {
            continue;
        }
        let transcript = std::fs::read_to_string(&path).expect("a transcript can be read");
        for title in transcript.lines().filter_map(|line| line.strip_prefix("== ")) {
            assert!(named.contains(title), "{} is in no row", title);
        }
    }
}
