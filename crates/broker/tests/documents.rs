//! What `docs/manners.md` says of tests is so: every test that it names is there, and every trap of the specification of the wire
//! has one that cites it.

use std::path::{Path, PathBuf};

/// How many traps `wire-apis §15` has.
const TRAPS: usize = 33;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The comment above a test, in one line; `None` if there is no such test. Of a transcript the title is both.
fn comment_of(file: &str, test: &str) -> Option<String> {
    let text = text(file);
    if file.ends_with(".script") {
        return text.contains(&format!("\n== {test}\n")).then(|| test.to_owned());
    }
    let start = [format!("#[test]\nfn {test}("), format!("#[test]\n    fn {test}(")]
        .iter()
        .find_map(|head| text.find(head.as_str()))?;
    let lines = text[..start].lines().rev().map(str::trim).skip_while(|line| line.is_empty());
    let mut comment: Vec<&str> = lines.map_while(|line| line.strip_prefix("///")).map(str::trim).collect();
    comment.reverse();
    Some(comment.join(" "))
}

/// Whether a comment cites the trap: `wire-apis trap 4`, `wire-apis traps 10 and 11`.
fn cites(comment: &str, trap: usize) -> bool {
    let comment = comment.to_lowercase();
    comment.match_indices("wire-apis trap").any(|(at, name)| {
        let list = comment[at + name.len()..].trim_start_matches('s').replace("and", " ").replace(',', " ");
        let words = list.split_whitespace().map(|word| word.trim_end_matches([')', ':', '.', ';']));
        words.map_while(|word| word.parse::<usize>().ok()).any(|number| number == trap)
    })
}

/// The rows of the table that begins with this cell, without backquotes.
fn rows(first_cell: &str) -> Vec<Vec<String>> {
    let document = text("docs/manners.md");
    let head = format!("\n| {first_cell} | ");
    let (_, table) = document.split_once(&head).unwrap_or_else(|| panic!("a table of {first_cell}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    rows.map(cells).collect()
}

/// Every trap is in the document's table, with a test that exists and cites it.
#[test]
fn every_trap_has_its_test() {
    let rows = rows("Trap");
    let mut wrong = Vec::new();
    for row in &rows {
        let [trap, _, file, test] = &row[..] else { panic!("a row of four: {row:?}") };
        match comment_of(file, test) {
            None => wrong.push(format!("trap {trap}: there is no {test} in {file}")),
            Some(comment) if !cites(&comment, trap.parse().expect("a trap's number")) => {
                wrong.push(format!("trap {trap}: {test} in {file} does not cite it: {comment}"));
            }
            Some(_) => {}
        }
    }
    for trap in 1..=TRAPS {
        if !rows.iter().any(|row| row[0] == trap.to_string()) {
            wrong.push(format!("trap {trap} is not in the table"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every other manner names a test that exists.
#[test]
fn every_manner_has_its_test() {
    let rows = rows("What clients rely on");
    assert!(rows.len() >= 20);
    for row in rows {
        let [what, file, test] = &row[..] else { panic!("a row of three: {row:?}") };
        assert!(comment_of(file, test).is_some(), "{what}: there is no {test} in {file}");
    }
}
