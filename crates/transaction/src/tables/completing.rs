//! §9.5 and §10.4: from Prepare* to Complete*.

use super::*;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (state, complete) in [(PrepareCommit, "CompleteCommit"), (PrepareAbort, "CompleteAbort")] {
        for version in [V0, V2] {
            cases.extend(completed(state, complete, version));
            cases.extend(rotating(state, complete, version));
            cases.extend(with_markers_left(state, version));
        }
    }
    for state in [Empty, Ongoing, CompleteCommit, CompleteAbort] {
        let coordinator = Coordinator::with(V2, txn_in(state, V2));
        let seen =
            format!("{} {}", coordinator.shard.markers_owed().count(), coordinator.shard.is_completing(TX));
        cases.push(Case::new("9.5 | nothing decided", state, seen, "0 false"));
    }
    cases
}

fn settled(txn: TxnMetadata) -> Coordinator {
    let mut coordinator = Coordinator::with(V2, txn);
    coordinator.now = at(30);
    coordinator.settle();
    coordinator
}

/// What is kept and what is cleared.
fn completed(state: TransactionState, complete: &str, version: TransactionVersion) -> Vec<Case> {
    let tag = if version == V2 { " TV2" } else { "" };
    let cell = format!("{state} TV{}", version.level());
    let before = txn_in(state, version);
    let after = settled(before.clone());
    let txn = after.txn();
    let kept = format!("{} {} {}", txn.partitions.len(), txn.last_update.0 - T, txn.start == before.start);
    vec![
        Case::new("9.5 | no next producer id", &cell, image(txn), format!("{complete} 100/5 L4{tag}")),
        Case::new("9.5 | partitions, last update, start", cell, kept, "0 30 true"),
    ]
}

/// A next producer id takes over under version 2 alone; it is cleared in any case.
fn rotating(state: TransactionState, complete: &str, version: TransactionVersion) -> Vec<Case> {
    let before = TxnMetadata { next_producer_id: FRESH, ..txn_at(state, version, i16::MAX) };
    let after = settled(before);
    let expected = match version {
        V2 => format!("{complete} 101/0 L32766 V100 TV2"),
        V0 | V1 => format!("{complete} 100/32767 L32766"),
    };
    vec![Case::new(
        "9.5 | next producer id",
        format!("{state} TV{}", version.level()),
        image(after.txn()),
        expected,
    )]
}

/// Not before every partition is settled, whatever the order, and at once where there is none.
fn with_markers_left(state: TransactionState, version: TransactionVersion) -> Vec<Case> {
    let mut cases = Vec::new();
    for order in [[0, 1], [1, 0]] {
        let mut coordinator = Coordinator::with(V2, txn_in(state, version));
        let owed = coordinator.shard.markers_owed_by(TX).expect("markers are owed");
        let mut seen = Vec::new();
        for partition in order {
            let written = Markers { partitions: orders(&[partition]), ..news(&owed) };
            let answer = coordinator.ask(&Request::MarkersWritten(written));
            seen.push(format!("{answer:?} {}", coordinator.txn().state.completing().is_some()));
        }
        let expected = "Ok(Markers(Owed(1))) true, Ok(Markers(Nothing)) false";
        cases.push(Case::new(
            "9.5 | after the last marker",
            format!("{state} {order:?}"),
            seen.join(", "),
            expected,
        ));
    }
    let empty = TxnMetadata { partitions: Default::default(), ..txn_in(state, version) };
    let mut coordinator = Coordinator::with(V2, empty);
    let seen = format!("{:?} {}", coordinator.tick().len(), coordinator.txn().state.completing().is_some());
    cases.push(Case::new("9.5 | no partitions", format!("{state} TV{}", version.level()), seen, "1 false"));
    cases
}

/// §9.5 and §10.4, every row and cell.
#[test]
fn prepare_complete_cell_by_cell() {
    assert_all(&cases());
}
