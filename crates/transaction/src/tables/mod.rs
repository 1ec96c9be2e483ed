//! The decision tables of `spec/transaction-coordinator`, cell by cell. `testdata/spec_rows.txt` lists their rows; each
//! row has cases here, and each case names its row.

mod aborts;
mod adding;
mod completing;
mod ending;
mod initializing;
mod replaced;
mod whole;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal as _, Shard, Token};
use fencepost_types::{ProducerEpoch, ProducerId, TransactionVersion};

use crate::testing::*;
use crate::*;

/// The rows of the specification: `section | row | words`, and for what another crate decides `| where: test`.
const SPEC_ROWS: &str = include_str!("../../testdata/spec_rows.txt");

/// One cell of a table.
struct Case {
    /// The row in `spec_rows.txt`: `6 | Ongoing`.
    row: String,
    /// Which cell of it.
    cell: String,
    seen: String,
    expected: String,
}

impl Case {
    fn new(row: impl ToString, cell: impl ToString, seen: String, expected: impl ToString) -> Self {
        Self { row: row.to_string(), cell: cell.to_string(), seen, expected: expected.to_string() }
    }
}

fn assert_all(cases: &[Case]) {
    let wrong: Vec<_> = cases.iter().filter(|case| case.seen != case.expected).collect();
    let lines = wrong
        .iter()
        .map(|case| format!("{} | {}: {} instead of {}\n", case.row, case.cell, case.seen, case.expected));
    assert!(
        wrong.is_empty(),
        "{} of {} cells differ:\n{}",
        wrong.len(),
        cases.len(),
        lines.collect::<String>()
    );
}

/// What a request is answered at a level when the id stands so: the record that is written, if one is, and the answer.
/// `PrepareCommit 100/6 L5 TV2 -> NONE 100/6`.
fn outcome(level: TransactionVersion, before: Option<&TxnMetadata>, request: &Request) -> String {
    let coordinator = match before {
        Some(txn) => Coordinator::with(level, txn.clone()),
        None => Coordinator::at_level(level),
    };
    match coordinator.shard.decide(coordinator.now, Token(7), request) {
        Err(refusal) => refusal.code().to_string(),
        Ok(decision) => {
            let records = decision.records.iter().filter_map(|record| record.value.as_ref());
            let written: String = records.map(|value| format!("{} -> ", image(&value.txn))).collect();
            written + &word(&Ok(decision.replies[0].1.clone()))
        }
    }
}

/// State, producer id and epoch, last epoch; then previous and next producer id and version where they say something.
fn image(txn: &TxnMetadata) -> String {
    let mut line =
        format!("{} {}/{} L{}", txn.state, txn.producer_id, txn.producer_epoch, txn.last_producer_epoch);
    if txn.previous_producer_id != txn.producer_id {
        line += &format!(" V{}", txn.previous_producer_id);
    }
    if txn.next_producer_id != ProducerId::NONE {
        line += &format!(" N{}", txn.next_producer_id);
    }
    if txn.client_transaction_version != V0 {
        line += &format!(" TV{}", txn.client_transaction_version.level());
    }
    line
}

/// [`P`] took over from this one when its epochs were exhausted.
const REPLACED: ProducerId = ProducerId(90);
/// The last epoch of clients.
const LAST: i16 = 32_766;

/// [`TX`] right after a rotation: [`REPLACED`] at [`LAST`] gave way to [`P`] at epoch 0.
fn rotated(state: TransactionState, version: TransactionVersion) -> TxnMetadata {
    TxnMetadata {
        previous_producer_id: REPLACED,
        replaced_producer_id: REPLACED,
        last_producer_epoch: ProducerEpoch(LAST),
        ..txn_at(state, version, 0)
    }
}

fn all_cases() -> Vec<Case> {
    let tables = [
        initializing::cases(),
        adding::cases(),
        ending::cases(),
        aborts::cases(),
        completing::cases(),
        replaced::cases(),
    ];
    tables.into_iter().flatten().collect()
}

/// Rows of the list that are decided in this crate.
fn rows_decided_here() -> Vec<&'static str> {
    let rows = SPEC_ROWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.filter(|line| line.split(" | ").count() == 3)
        .map(|line| line.rsplit_once(" | ").expect("three fields").0)
        .collect()
}

/// Every row of the specification has cases, every case is of a row, and no row stands twice.
#[test]
fn no_row_is_left_out() {
    let listed = rows_decided_here();
    let of_list: BTreeSet<String> = listed.iter().map(|row| String::from(*row)).collect();
    assert_eq!(of_list.len(), listed.len(), "a row stands twice");
    let of_cases: BTreeSet<String> = all_cases().into_iter().map(|case| case.row).collect();
    let without_cases: Vec<_> = of_list.difference(&of_cases).collect();
    let without_row: Vec<_> = of_cases.difference(&of_list).collect();
    assert!(
        without_cases.is_empty() && without_row.is_empty(),
        "no cases: {without_cases:#?}\nno row: {without_row:#?}"
    );
}

/// How many rows each section has, counted by hand in the specification.
#[test]
fn the_rows_are_as_many_as_the_specification_has() {
    let count = |section: &str| {
        let lines = SPEC_ROWS.lines().filter(|line| !line.starts_with('#'));
        lines.filter(|line| line.split(" | ").next() == Some(section)).count()
    };
    let counted = ["6", "7.1", "7.2", "7.3", "9.2", "9.3", "9.4", "9.5", "11.2", "11.3", "ours"]
        .map(|section| (section, count(section)));
    let expected = [
        ("6", 27),
        ("7.1", 11),
        ("7.2", 5),
        ("7.3", 1),
        ("9.2", 16),
        ("9.3", 13),
        ("9.4", 13),
        ("9.5", 6),
        ("11.2", 1),
        ("11.3", 10),
        // Beyond the specification.
        ("ours", 6),
    ];
    assert_eq!(counted, expected);
}
