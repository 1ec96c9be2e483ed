//! §7: AddPartitionsToTxn, added and verified, and AddOffsetsToTxn.

use super::*;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

/// How a request names the producer, and what that is called.
const PRODUCERS: [(&str, (ProducerId, i16)); 8] = [
    ("current", (P, 5)),
    ("last", (P, 4)),
    ("stale", (P, 3)),
    ("above", (P, 6)),
    ("none", (P, -1)),
    ("other id", (STRANGER, 5)),
    ("other id and epoch", (STRANGER, 9)),
    ("id of the next transaction", (FRESH, 0)),
];

fn of_id(mut request: Request, id: &str) -> Request {
    match &mut request {
        Request::AddPartitions(AddPartitions { transactional_id, .. })
        | Request::VerifyPartitions(VerifyPartitions { transactional_id, .. }) => {
            *transactional_id = TransactionalId::from(id);
        }
        other => panic!("{other:?}"),
    }
    request
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for version in [V0, V2] {
        // The offsets partition of a group is added like any other, always under version 0.
        cases.extend(adding(version));
    }
    cases.extend(verifying());
    cases.extend(offsets());
    cases
}

fn adding(version: TransactionVersion) -> Vec<Case> {
    let tag = if version == V0 { "" } else { " TV2" };
    let mut cases = Vec::new();
    for (id, row, expected) in [
        ("", "7.1 | 1 empty id", "INVALID_REQUEST"),
        ("nobody", "7.1 | 3 unknown id", "INVALID_PRODUCER_ID_MAPPING"),
    ] {
        let seen = outcome(V2, Some(&txn_in(Empty, V0)), &of_id(add((P, 5), &[0], version), id));
        cases.push(Case::new(row, version.level(), seen, expected));
    }
    for before in [V0, V2] {
        for state in TransactionState::ALL {
            for (name, producer) in PRODUCERS {
                let seen = outcome(V2, Some(&txn_in(state, before)), &add(producer, &[2], version));
                let added = format!("Ongoing 100/5 L4{tag} -> NONE");
                let (row, expected) = match (state, producer) {
                    // Also for the right producer (row 7): here a decided transaction is the pending one.
                    (PrepareCommit | PrepareAbort, (P, 5)) => ("7 decided", "CONCURRENT_TRANSACTIONS"),
                    (PrepareCommit | PrepareAbort, _) => ("4 completing", "CONCURRENT_TRANSACTIONS"),
                    (Empty | Ongoing | CompleteCommit | CompleteAbort, (STRANGER | FRESH, _)) => {
                        ("5 other producer id", "INVALID_PRODUCER_ID_MAPPING")
                    }
                    (Empty | Ongoing | CompleteCommit | CompleteAbort, (P, 5)) => ("9 added", added.as_str()),
                    (Empty | Ongoing | CompleteCommit | CompleteAbort, _) => {
                        ("6 other epoch", "PRODUCER_FENCED")
                    }
                };
                let cell = format!("{state} after TV{}, {name}, TV{}", before.level(), version.level());
                cases.push(Case::new(format!("7.1 | {row}"), cell, seen, expected));
            }
        }
    }
    for partitions in [&[0][..], &[1, 0], &[]] {
        let seen = outcome(V2, Some(&txn_in(Ongoing, V0)), &add((P, 5), partitions, version));
        cases.push(Case::new("7.1 | 8 there already", format!("{partitions:?}"), seen, "NONE"));
    }
    // Nobody else is told so.
    for (name, producer) in PRODUCERS.into_iter().filter(|(_, producer)| *producer != (P, 5)) {
        let seen = outcome(V2, Some(&txn_in(Ongoing, V0)), &add(producer, &[0], version));
        let (row, expected) = match producer {
            (P, _) => ("6 other epoch", "PRODUCER_FENCED"),
            _other => ("5 other producer id", "INVALID_PRODUCER_ID_MAPPING"),
        };
        cases.push(Case::new(format!("7.1 | {row}"), format!("there already, {name}"), seen, expected));
    }
    for state in [Empty, CompleteCommit, CompleteAbort] {
        let seen = outcome(V2, Some(&txn_in(state, V0)), &add((P, 5), &[], version));
        let expected = format!("Ongoing 100/5 L4{tag} -> NONE");
        cases.push(Case::new("7.1 | 9 added", format!("{state}, nothing"), seen, expected));
    }
    cases.extend(added(version));
    cases
}

/// What an add writes: the start of the first add, the union of the partitions.
fn added(version: TransactionVersion) -> Vec<Case> {
    let mut cases = Vec::new();
    for state in [Empty, Ongoing, CompleteCommit, CompleteAbort] {
        let before = txn_in(state, V0);
        let mut coordinator = Coordinator::with(V2, before.clone());
        coordinator.now = at(40);
        let answer = word(&coordinator.ask(&add((P, 5), &[2], version)));
        let txn = coordinator.txn();
        let is_union = txn.partitions.is_superset(&before.partitions)
            && txn.partitions.len() == before.partitions.len() + 1
            && txn.timeout_ms == before.timeout_ms;
        let start =
            if txn.start == before.start { "kept".to_string() } else { (txn.start.0 - T).to_string() };
        let seen = format!("{answer} {is_union} {} {start}", txn.last_update.0 - T);
        let expected = if state == Ongoing { "NONE true 40 kept" } else { "NONE true 40 40" };
        cases.push(Case::new(
            "7.1 | 9 the record",
            format!("{state}, TV{}", version.level()),
            seen,
            expected,
        ));
    }
    cases
}

fn verifying() -> Vec<Case> {
    let mut cases = Vec::new();
    for (id, expected) in [("", "INVALID_REQUEST"), ("nobody", "INVALID_PRODUCER_ID_MAPPING")] {
        let seen = outcome(V2, Some(&txn_in(Empty, V0)), &of_id(verify((P, 5), &[0]), id));
        cases.push(Case::new("7.2 | 1 empty or unknown id", id, seen, expected));
    }
    for version in [V0, V2] {
        for state in TransactionState::ALL {
            for (name, producer) in PRODUCERS {
                let seen = outcome(V2, Some(&txn_in(state, version)), &verify(producer, &[0, 1]));
                let (row, expected) = match (state, producer) {
                    (_, (STRANGER | FRESH, _)) => ("2 other producer id", "INVALID_PRODUCER_ID_MAPPING"),
                    // Completing or not: it is checked last (trap 3).
                    (PrepareCommit | PrepareAbort, (P, 5)) => ("2 decided", "CONCURRENT_TRANSACTIONS"),
                    (Ongoing, (P, 5)) => ("3 each partition", "NONE"),
                    (Empty | CompleteCommit | CompleteAbort, (P, 5)) => {
                        ("3 each partition", "TRANSACTION_ABORTABLE")
                    }
                    (_, _) => ("2 other epoch", "PRODUCER_FENCED"),
                };
                let cell = format!("{state} TV{}, {name}", version.level());
                cases.push(Case::new(format!("7.2 | {row}"), cell, seen, expected));
            }
        }
    }
    let open = txn_in(Ongoing, V0);
    for (partitions, expected) in
        [(&[0][..], "NONE"), (&[2], "TRANSACTION_ABORTABLE"), (&[1, 2], "TRANSACTION_ABORTABLE")]
    {
        let seen = outcome(V2, Some(&open), &verify((P, 5), partitions));
        cases.push(Case::new("7.2 | 3 each partition", format!("{partitions:?}"), seen, expected));
    }
    cases
}

/// §7.3: one partition of the offsets topic, as a client of version 0 adds any.
fn offsets() -> Vec<Case> {
    let offsets_partition = || fencepost_types::TopicPartition::new("__consumer_offsets", 7);
    let mut cases = Vec::new();
    for state in TransactionState::ALL {
        for (name, producer) in PRODUCERS {
            let mut request = add(producer, &[], V0);
            if let Request::AddPartitions(inner) = &mut request {
                inner.partitions = vec![offsets_partition()];
            }
            let mut coordinator = Coordinator::with(V2, txn_in(state, V2));
            let seen = outcome(V2, Some(coordinator.txn()), &request);
            let is_in = coordinator.ask(&request).is_ok()
                && coordinator.txn().partitions.contains(&offsets_partition());
            let expected = match (state, producer) {
                (PrepareCommit | PrepareAbort, _) => "CONCURRENT_TRANSACTIONS, in it: false",
                (Empty | Ongoing | CompleteCommit | CompleteAbort, (STRANGER | FRESH, _)) => {
                    "INVALID_PRODUCER_ID_MAPPING, in it: false"
                }
                (Empty | Ongoing | CompleteCommit | CompleteAbort, (P, 5)) => {
                    "Ongoing 100/5 L4 -> NONE, in it: true"
                }
                (Empty | Ongoing | CompleteCommit | CompleteAbort, _) => "PRODUCER_FENCED, in it: false",
            };
            let seen = format!("{seen}, in it: {is_in}");
            cases.push(Case::new("7.3 | as an add of version 0", format!("{state}, {name}"), seen, expected));
        }
    }
    cases
}

/// §7.1, §7.2 and §7.3, every row and cell.
#[test]
fn adding_and_verifying_cell_by_cell() {
    assert_all(&cases());
}
