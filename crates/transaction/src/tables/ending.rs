//! §9.2 and §9.3: EndTxn.

use super::*;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

const INVALID: &str = "INVALID_TXN_STATE";
const FENCED: &str = "PRODUCER_FENCED";
const CONCURRENT: &str = "CONCURRENT_TRANSACTIONS";
const MAPPING: &str = "INVALID_PRODUCER_ID_MAPPING";
const RESULTS: [(fencepost_types::TransactionResult, &str); 2] = [(Commit, "COMMIT"), (Abort, "ABORT")];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = under_version_0();
    cases.extend(under_version_2());
    cases
}

fn of_id(id: &str, version: TransactionVersion) -> Request {
    let mut request = end((P, 5), Commit, version);
    if let Request::EndTxn(inner) = &mut request {
        inner.transactional_id = TransactionalId::from(id);
    }
    request
}

/// The rows by state: COMMIT, ABORT of the current producer. A decided transaction is the pending one, so that both
/// results are told to come again there.
const VERSION_0: [(TransactionState, &str, &str); 6] = [
    (Empty, INVALID, INVALID),
    (Ongoing, "PrepareCommit 100/5 L4 -> NONE", "PrepareAbort 100/5 L4 -> NONE"),
    (PrepareCommit, CONCURRENT, CONCURRENT),
    (PrepareAbort, CONCURRENT, CONCURRENT),
    (CompleteCommit, "NONE", INVALID),
    (CompleteAbort, INVALID, "NONE"),
];

fn under_version_0() -> Vec<Case> {
    let mut cases = Vec::new();
    for version in [V0, V1] {
        for (id, expected) in [("", "INVALID_REQUEST"), ("nobody", MAPPING)] {
            let seen = outcome(V2, Some(&txn_in(Empty, V0)), &of_id(id, version));
            cases.push(Case::new("9.2 | empty or unknown id", id, seen, expected));
        }
        for (state, commit, abort) in VERSION_0 {
            for (before, (result, name)) in
                [V0, V2].into_iter().flat_map(|before| RESULTS.map(|result| (before, result)))
            {
                let txn = txn_in(state, before);
                let cell = |relation: &str| format!("{state} after TV{}, {relation}", before.level());
                let seen = |producer| outcome(V2, Some(&txn), &end(producer, result, version));
                let expected = if result == Commit { commit } else { abort };
                cases.push(Case::new(
                    format!("9.2 | {state} {name}"),
                    cell("current"),
                    seen((P, 5)),
                    expected,
                ));
                for (relation, producer) in
                    [("last", (P, 4)), ("stale", (P, 3)), ("above", (P, 6)), ("none", (P, -1))]
                {
                    cases.push(Case::new("9.2 | other epoch", cell(relation), seen(producer), FENCED));
                }
                for epoch in [5, 4] {
                    cases.push(Case::new(
                        "9.2 | other producer id",
                        cell("stranger"),
                        seen((STRANGER, epoch)),
                        MAPPING,
                    ));
                }
            }
        }
        // The end of the epochs is nothing special: no rotation, no raise.
        for epoch in [0, LAST, i16::MAX] {
            let seen = outcome(V2, Some(&txn_at(Ongoing, V2, epoch)), &end((P, epoch), Commit, version));
            let expected = format!("PrepareCommit 100/{epoch} L{} -> NONE", epoch - 1);
            cases.push(Case::new("9.2 | Ongoing COMMIT", format!("at {epoch}"), seen, expected));
        }
    }
    for name in ["Dead", "PrepareEpochFence"] {
        let seen = format!("{:?}", TransactionState::from_name(name));
        cases.push(Case::new("9.2 | Dead, PrepareEpochFence", name, seen, "None"));
    }
    let seen = format!("{:?} {:?}", TransactionState::from_byte(6), TransactionState::from_byte(7));
    cases.push(Case::new("9.2 | Dead, PrepareEpochFence", "bytes", seen, "None None"));
    cases
}

/// The rows by state and result: at the current epoch, one below, and at the last epoch of a replaced id.
const VERSION_2: [(TransactionState, &str, [&str; 3]); 8] = [
    (Empty, "COMMIT", [INVALID, FENCED, FENCED]),
    (Empty, "ABORT", ["PrepareAbort 100/6 L5 TV2 -> NONE 100/6", FENCED, FENCED]),
    (Ongoing, "COMMIT", ["PrepareCommit 100/6 L5 TV2 -> NONE 100/6", FENCED, FENCED]),
    (Ongoing, "ABORT", ["PrepareAbort 100/6 L5 TV2 -> NONE 100/6", FENCED, FENCED]),
    (CompleteCommit, "COMMIT", [INVALID, "NONE 100/5", "NONE 100/0"]),
    (CompleteCommit, "ABORT", ["PrepareAbort 100/6 L5 TV2 -> NONE 100/6", INVALID, INVALID]),
    (CompleteAbort, "COMMIT", [INVALID, FENCED, FENCED]),
    (CompleteAbort, "ABORT", ["PrepareAbort 100/6 L5 TV2 -> NONE 100/6", "NONE 100/5", "NONE 100/0"]),
];

fn under_version_2() -> Vec<Case> {
    let mut cases = Vec::new();
    for (id, expected) in [("", "INVALID_REQUEST"), ("nobody", MAPPING)] {
        let seen = outcome(V2, Some(&txn_in(Empty, V0)), &of_id(id, V2));
        cases.push(Case::new("9.3 | empty or unknown id", id, seen, expected));
    }
    // 1: whoever asks, and whatever for.
    for (state, (result, name)) in
        [PrepareCommit, PrepareAbort].into_iter().flat_map(|state| RESULTS.map(|result| (state, result)))
    {
        for producer in [(P, 5), (P, 4), (P, 3), (P, 6), (P, -1), (STRANGER, 5), (REPLACED, LAST), (FRESH, 0)]
        {
            let seen = outcome(V2, Some(&txn_in(state, V2)), &end(producer, result, V2));
            cases.push(Case::new(
                "9.3 | 1 completing",
                format!("{state} {name} {producer:?}"),
                seen,
                CONCURRENT,
            ));
        }
    }
    for (state, name, [current, retry, overflow_retry]) in VERSION_2 {
        let result = if name == "COMMIT" { Commit } else { Abort };
        for version in [V0, V2] {
            let (txn, rotated) = (txn_in(state, version), rotated(state, version));
            let cell = |relation: &str| format!("{state} {name} after TV{}, {relation}", version.level());
            let seen = |producer| outcome(V2, Some(&txn), &end(producer, result, V2));
            let seen_rotated = |producer| outcome(V2, Some(&rotated), &end(producer, result, V2));
            let row = format!("9.3 | {state} {name}");
            cases.push(Case::new(&row, cell("current"), seen((P, 5)), current));
            cases.push(Case::new(&row, cell("retry"), seen((P, 4)), retry));
            cases.push(Case::new(
                &row,
                cell("overflow retry"),
                seen_rotated((REPLACED, LAST)),
                overflow_retry,
            ));
            // 2: another producer id. The replaced ones are in a table of their own.
            for (relation, seen) in [
                ("stranger", seen((STRANGER, 5))),
                ("stranger, retry", seen((STRANGER, 4))),
                ("stranger, overflow", seen_rotated((STRANGER, LAST))),
                ("stranger, current epoch", seen_rotated((STRANGER, 0))),
                ("none", seen((ProducerId::NONE, 5))),
            ] {
                cases.push(Case::new("9.3 | 2 other producer id", cell(relation), seen, MAPPING));
            }
            // 3: neither current nor retry, above as below.
            for epoch in [3, 6, 7, 0, -1, LAST, i16::MAX] {
                cases.push(Case::new(
                    "9.3 | 3 other epoch",
                    cell(&format!("{epoch}")),
                    seen((P, epoch)),
                    FENCED,
                ));
            }
            // The same right after a rotation, where the epoch before would be none.
            for epoch in [LAST, 1, -1] {
                let cell = cell(&format!("rotated, {epoch}"));
                cases.push(Case::new("9.3 | 3 other epoch", cell, seen_rotated((P, epoch)), FENCED));
            }
        }
    }
    cases.extend(prepare_images());
    cases
}

/// §9.3, the Prepare image at the end of the epochs, and where no producer id is to be had.
fn prepare_images() -> Vec<Case> {
    let mut cases = Vec::new();
    let rotates = |state: &str| format!("{state} 100/32767 L32766 N101 TV2 -> NONE 101/0");
    for (state, result, expected) in [
        (Ongoing, Commit, rotates("PrepareCommit")),
        (Ongoing, Abort, rotates("PrepareAbort")),
        (Empty, Abort, rotates("PrepareAbort")),
        (CompleteCommit, Abort, rotates("PrepareAbort")),
        (CompleteAbort, Abort, rotates("PrepareAbort")),
    ] {
        let txn = txn_at(state, V2, LAST);
        let request = end((P, LAST), result, V2);
        let row = "9.3 | Prepare image at the last epoch";
        cases.push(Case::new(
            row,
            format!("{state} {result:?}"),
            outcome(V2, Some(&txn), &with_fresh(request.clone())),
            expected,
        ));
        let seen = outcome(V2, Some(&txn), &request);
        cases.push(Case::new(
            row,
            format!("{state} {result:?}, no producer id"),
            seen,
            "COORDINATOR_LOAD_IN_PROGRESS",
        ));
    }
    // 32767 is not raised any more, and the epoch before it may ask again.
    for (state, epoch, result, expected) in [
        (Ongoing, i16::MAX, Commit, rotates("PrepareCommit").as_str()),
        (Ongoing, i16::MAX, Abort, rotates("PrepareAbort").as_str()),
        (Ongoing, LAST, Commit, FENCED),
        (CompleteCommit, LAST, Commit, "NONE 100/32767"),
        (CompleteAbort, LAST, Abort, "NONE 100/32767"),
    ] {
        let request = with_fresh(end((P, epoch), result, V2));
        let seen = outcome(V2, Some(&txn_at(state, V2, i16::MAX)), &request);
        let cell = format!("{state} at 32767, {epoch} {result:?}");
        cases.push(Case::new("9.3 | Prepare image at the last epoch", cell, seen, expected));
    }
    for (epoch, state, expected) in [
        (LAST - 1, Ongoing, "PrepareCommit 100/32766 L32765 TV2 -> NONE 100/32766"),
        (0, Ongoing, "PrepareCommit 100/1 L0 TV2 -> NONE 100/1"),
    ] {
        let seen = outcome(V2, Some(&txn_at(state, V2, epoch)), &end((P, epoch), Commit, V2));
        cases.push(Case::new("9.3 | Prepare image at the last epoch", format!("at {epoch}"), seen, expected));
    }
    // The level does not matter: the request's version decides.
    for level in [V0, V1] {
        let seen = outcome(level, Some(&txn_in(Ongoing, V0)), &end((P, 5), Commit, V2));
        let expected = "PrepareCommit 100/6 L5 TV2 -> NONE 100/6";
        cases.push(Case::new("9.3 | Ongoing COMMIT", format!("level {}", level.level()), seen, expected));
    }
    cases
}

/// §9.2 and §9.3, every row and cell.
#[test]
fn end_txn_cell_by_cell() {
    assert_all(&cases());
}
