//! The holder of the producer id that the current one took over from. A row of the specification calls whoever names
//! another producer id a stranger; here this one is known, and under version 2 fenced as at an older epoch.

use super::*;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

const FENCED: &str = "PRODUCER_FENCED";
const STRANGE: &str = "INVALID_PRODUCER_ID_MAPPING";
const COMPLETING: &str = "CONCURRENT_TRANSACTIONS";
const EPOCHS: [i16; 6] = [LAST, LAST - 1, 5, 0, i16::MAX, -1];

/// [`TX`] when the successor has long had its pair: nothing but the replaced id itself remembers it.
fn long_rotated(state: TransactionState, version: TransactionVersion) -> TxnMetadata {
    TxnMetadata { replaced_producer_id: REPLACED, ..txn_in(state, version) }
}

/// Every state, right after the rotation and long after it, with what last came before it.
fn images() -> Vec<(String, TxnMetadata)> {
    let mut images = Vec::new();
    for (state, version) in
        TransactionState::ALL.into_iter().flat_map(|state| [V0, V2].map(|version| (state, version)))
    {
        let cell = |when: &str| format!("{state} after TV{}, {when}", version.level());
        images.push((cell("just rotated"), rotated(state, version)));
        images.push((cell("rotated before"), long_rotated(state, version)));
    }
    images
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, txn) in images() {
        let is_completing = txn.state.completing().is_some();
        let row = |row: &'static str| if is_completing { "ours | replaced, completing" } else { row };
        let expected = if is_completing { COMPLETING } else { FENCED };
        for epoch in EPOCHS {
            let old = (REPLACED, epoch);
            let mut push = |row: &str, what: &str, request: Request, expected: &str| {
                let seen = outcome(V2, Some(&txn), &request);
                cases.push(Case::new(row, format!("{name}, {what}, {epoch}"), seen, expected));
            };
            push(row("ours | replaced, add"), "add", add(old, &[0], V2), expected);
            // Below version 2 it is the specification's stranger.
            let older = if is_completing { COMPLETING } else { STRANGE };
            push(row("7.1 | 5 other producer id"), "add below version 2", add(old, &[0], V0), older);
            push("7.2 | 2 other producer id", "verify", verify(old, &[0]), STRANGE);
            for (result, version) in [Commit, Abort].into_iter().flat_map(|r| [(r, V0), (r, V1)]) {
                let what = format!("{result:?} TV{}", version.level());
                push("9.2 | other producer id", &what, end(old, result, version), STRANGE);
            }
            for result in [Commit, Abort] {
                let expected = match overflow_retry(&txn, epoch, result) {
                    Some(answer) => answer,
                    None => expected,
                };
                push(
                    row("ours | replaced, EndTxn 2"),
                    &format!("{result:?}"),
                    end(old, result, V2),
                    expected,
                );
            }
        }
    }
    cases.extend(initializing());
    cases.extend(remembered());
    cases
}

/// §9.3 right after a rotation: the answer to the end that rotated can be asked for again.
fn overflow_retry(
    txn: &TxnMetadata,
    epoch: i16,
    result: fencepost_types::TransactionResult,
) -> Option<&'static str> {
    if epoch != LAST || txn.previous_producer_id != REPLACED {
        return None;
    }
    match (txn.state, result) {
        (CompleteCommit, Commit) | (CompleteAbort, Abort) => Some("NONE 100/0"),
        (CompleteCommit, Abort) => Some("INVALID_TXN_STATE"),
        (Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteAbort, _) => None,
    }
}

/// A replaced pair never ends its successor's transaction; Kafka compares it with the previous producer id of the
/// newest record, which is the current one by then.
fn initializing() -> Vec<Case> {
    let mut cases = Vec::new();
    for (state, version) in [Empty, Ongoing, CompleteCommit, CompleteAbort]
        .into_iter()
        .flat_map(|state| [V0, V2].map(|version| (state, version)))
    {
        for epoch in [LAST, LAST - 1, 5, i16::MAX] {
            let txn = long_rotated(state, version);
            let seen = outcome(V2, Some(&txn), &with_fresh(init(Some((REPLACED, epoch)))));
            let cell = format!("{state} after TV{}, {epoch}", version.level());
            cases.push(Case::new("ours | replaced, InitProducerId", cell, seen, FENCED));
        }
    }
    cases
}

/// What each way of rotating leaves, and what every later transition keeps, over a failover after each.
fn remembered() -> Vec<Case> {
    let mut cases = Vec::new();
    for (way, is_completing) in
        [("commit", true), ("abort", true), ("fence", true), ("none", false), ("current", false)]
    {
        for fails_over in [false, true] {
            let state = if is_completing { Ongoing } else { Empty };
            let mut coordinator = Coordinator::with(V2, txn_at(state, V2, LAST));
            let mut seen = Vec::new();
            let mut step = |coordinator: &mut Coordinator, answer: String| {
                assert!(answer.starts_with("NONE") || answer == "fencing", "{way}: {answer}");
                coordinator.settle();
                if fails_over {
                    coordinator.restart();
                }
                seen.push(coordinator.txn().replaced_producer_id == P);
            };
            let answer = match way {
                "commit" => coordinator.end((P, LAST), Commit, V2),
                "abort" => coordinator.end((P, LAST), Abort, V2),
                "fence" | "none" => coordinator.init(None),
                _current => coordinator.init(Some((P, LAST))),
            };
            step(&mut coordinator, answer);
            let new = coordinator.txn().producer_id;
            // The successor: its pair, two transactions, one with a fence in it, and its pair once more.
            let answer = coordinator.init(None);
            step(&mut coordinator, answer);
            for result in [Commit, Abort] {
                let held = (new, coordinator.txn().producer_epoch.0);
                coordinator.add(held, &[0], V2);
                step(&mut coordinator, String::from("NONE"));
                let answer = coordinator.end(held, result, V2);
                step(&mut coordinator, answer);
            }
            for opens in [true, false] {
                let held = (new, coordinator.txn().producer_epoch.0);
                if opens {
                    coordinator.add(held, &[0], V0);
                }
                let answer = coordinator.init(None);
                step(&mut coordinator, answer);
            }
            let cell = format!("{way}, failovers: {fails_over}");
            let seen = format!("{}", seen.iter().all(|is_kept| *is_kept));
            cases.push(Case::new("ours | replaced, then", cell, seen, "true"));
        }
    }
    let mut coordinator =
        Coordinator::with(V2, TxnMetadata { replaced_producer_id: REPLACED, ..txn_at(Empty, V2, LAST) });
    coordinator.init(None);
    for (producer, expected) in [((REPLACED, LAST), STRANGE), ((P, LAST), FENCED)] {
        let request = end(producer, Commit, V2);
        let seen = word(&coordinator.ask(&request));
        cases.push(Case::new("ours | replaced before that", format!("{producer:?}"), seen, expected));
    }
    cases
}

/// Every row and cell.
#[test]
fn the_holder_of_a_replaced_producer_id_cell_by_cell() {
    assert_all(&cases());
}
