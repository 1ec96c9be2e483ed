//! What `docs/transactions.md` and `testdata/spec_rows.txt` say of tests is so: every test that they name is there, and
//! every trap of the specification has one, which a mistake of `testing/mutations` has been seen to fail.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many traps `transaction-coordinator §18` has.
const TRAPS: usize = 35;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text up to a test, without line breaks and comment signs; `None` if there is no such test. Of a transcript, its
/// title is the test.
fn before_test(file: &str, test: &str) -> Option<String> {
    let text = text(file);
    let start = if file.ends_with(".script") {
        text.find(&format!("\n== {test}\n"))? + test.len() + 4
    } else {
        text.find(&format!("#[test]\nfn {test}("))
            .or_else(|| text.find(&format!("#[test]\n    fn {test}(")))?
    };
    let before = &text[..start];
    let own = before.rfind("\n}\n").or_else(|| before.rfind("\n== ")).map_or(before, |end| &before[end..]);
    let words = own.split_whitespace().filter(|word| !matches!(*word, "///" | "//" | "#[test]"));
    Some(words.collect::<Vec<_>>().join(" "))
}

/// Whether a comment cites the trap: `coordinator trap 4`, `coordinator traps 34 and 35`, `traps 3, 4`.
fn cites(comment: &str, trap: usize) -> bool {
    let comment = comment.to_lowercase();
    comment.match_indices("coordinator trap").any(|(at, _)| {
        let rest = comment[at + "coordinator trap".len()..].trim_start_matches('s');
        let list: String = rest.replace("and", " ").replace(',', " ");
        list.split_whitespace()
            .map(|word| word.trim_end_matches([')', ':', '.', ';']))
            .map_while(|word| word.parse::<usize>().ok())
            .any(|number| number == trap)
    })
}

/// The rows of the last table of `docs/transactions.md`: trap, file, test.
fn trap_rows() -> Vec<(usize, String, String)> {
    let document = text("docs/transactions.md");
    let (_, table) = document.split_once("\n| Trap | ").expect("the document has the table of traps");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let fields: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [trap, _, file, test] = fields[..] else { panic!("a row of four: {line}") };
        let plain = |field: &str| field.trim_matches('`').to_owned();
        (trap.parse().unwrap_or_else(|_| panic!("a trap's number: {line}")), plain(file), plain(test))
    })
    .collect()
}

/// Every trap is in the document's table, with a test that exists and cites it.
#[test]
fn every_trap_has_its_test() {
    let rows = trap_rows();
    let mut wrong = Vec::new();
    for (trap, file, test) in &rows {
        match before_test(file, test) {
            None => wrong.push(format!("trap {trap}: there is no {test} in {file}")),
            Some(comment) if !cites(&comment, *trap) => {
                wrong.push(format!("trap {trap}: {test} in {file} does not cite it: {comment}"));
            }
            Some(_) => {}
        }
    }
    for trap in 1..=TRAPS {
        if !rows.iter().any(|(number, _, _)| *number == trap) {
            wrong.push(format!("trap {trap} is not in the table"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The list of mistakes is that of the document's table: each test of a trap fails for one of that trap at least
/// (`cargo xtask mutate` makes them), and what they change stands where they say.
#[test]
fn every_test_of_a_trap_has_a_mistake_that_it_notices() {
    let list = text("testing/mutations/transactions.txt");
    let mut noticed = BTreeSet::new();
    for mistake in list.split("\n== trap ").skip(1) {
        let (number, _) = mistake.split_once(": ").unwrap_or_else(|| panic!("a trap's number: {mistake}"));
        let trap: usize = number.parse().unwrap_or_else(|_| panic!("a trap's number: {mistake}"));
        let (mut file, mut goes) = (String::new(), String::new());
        for line in mistake.lines().skip(1) {
            if let Some(gone) = line.strip_prefix('-') {
                goes = goes + gone + "\n";
                continue;
            }
            if !goes.is_empty() {
                assert_eq!(text(&file).matches(&goes).count(), 1, "trap {mistake}: in {file}:\n{goes}");
                goes.clear();
            }
            if let Some(path) = line.strip_prefix("in ") {
                file = path.to_owned();
            }
            if let Some((file, test)) = line.strip_prefix("fails ").and_then(|test| test.split_once(": ")) {
                noticed.insert((trap, file.to_owned(), test.to_owned()));
            }
        }
    }
    let named: BTreeSet<_> = trap_rows().into_iter().collect();
    let without: Vec<_> = named.symmetric_difference(&noticed).collect();
    assert!(without.is_empty(), "of the table or the list alone: {without:#?}");
}

/// Rows of the specification that another crate decides name tests that exist.
#[test]
fn rows_decided_elsewhere_name_their_tests() {
    let rows = text("crates/transaction/testdata/spec_rows.txt");
    let mut count = 0;
    for line in rows.lines().filter(|line| !line.starts_with('#')) {
        let Some((_, place)) = line.split_once(" | crates/") else { continue };
        let (file, test) = place.split_once(": ").unwrap_or_else(|| panic!("file: test in {line}"));
        let file = format!("crates/{file}");
        assert!(before_test(&file, test).is_some(), "there is no {test} in {file}");
        count += 1;
    }
    assert_eq!(count, 15);
}
