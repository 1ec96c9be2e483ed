//! §9.4: aborts that the coordinator starts itself.

use super::*;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

/// What starts an abort.
#[derive(Clone, Copy, Debug)]
enum Start {
    Timeout,
    NewInstance,
}

const STARTS: [Start; 2] = [Start::Timeout, Start::NewInstance];

/// The image after an abort at `level` of a transaction that stood at `before`.
fn aborted(level: TransactionVersion, before: &TxnMetadata, start: Start) -> Coordinator {
    let mut coordinator = Coordinator::with(level, before.clone());
    match start {
        Start::Timeout => {
            coordinator.now = at(60_000);
            coordinator.tick();
        }
        Start::NewInstance => assert_eq!(coordinator.init(None), "fencing"),
    }
    coordinator
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = records();
    for start in STARTS {
        for opened in [V0, V2] {
            cases.extend(afterwards(start, opened));
        }
    }
    cases.extend(failed_appends());
    cases.extend(scan());
    cases
}

/// The PrepareAbort record, and the markers.
fn records() -> Vec<Case> {
    let mut cases = Vec::new();
    for (start, opened) in STARTS.into_iter().flat_map(|start| [V0, V2].map(|opened| (start, opened))) {
        for (level, epoch, expected, marker) in [
            (V0, 5, "PrepareAbort 100/6 L-1", "100/6 TV0"),
            (V1, 5, "PrepareAbort 100/6 L-1", "100/6 TV0"),
            (V2, 5, "PrepareAbort 100/6 L5 TV2", "100/6 TV2"),
            (V0, LAST, "PrepareAbort 100/32767 L-1", "100/32767 TV0"),
            (V1, LAST, "PrepareAbort 100/32767 L-1", "100/32767 TV0"),
            (V2, LAST, "PrepareAbort 100/32767 L32766 N101 TV2", "100/32767 TV2"),
            (V1, i16::MAX, "PrepareAbort 100/32767 L-1", "100/32767 TV0"),
            (V2, i16::MAX, "PrepareAbort 100/32767 L32766 N101 TV2", "100/32767 TV2"),
        ] {
            let coordinator = aborted(level, &txn_at(Ongoing, opened, epoch), start);
            let version = if level == V2 { "TV2" } else { "TV0/1" };
            let cell = format!("{start:?} at level {} of TV{} at {epoch}", level.level(), opened.level());
            cases.push(Case::new(
                format!("9.4 | record {version}"),
                &cell,
                image(coordinator.txn()),
                expected,
            ));
            let owed = coordinator.shard.markers_owed_by(TX).expect("markers are owed");
            let seen = format!(
                "{}/{} TV{}",
                owed.producer_id,
                owed.producer_epoch,
                owed.transaction_version.level()
            );
            cases.push(Case::new(format!("9.4 | markers {version}"), cell, seen, marker));
        }
    }
    cases
}

/// What the old producer and a new instance get when the abort is complete.
fn afterwards(start: Start, opened: TransactionVersion) -> Vec<Case> {
    const FENCED: &str = "PRODUCER_FENCED";
    let mut cases = Vec::new();
    for level in [V0, V1, V2] {
        let version = if level == V2 { "TV2" } else { "TV0/1" };
        let mut done = aborted(level, &txn_in(Ongoing, opened), start);
        done.settle();
        let cell =
            |name: &str| format!("{start:?} at level {} of TV{}: {name}", level.level(), opened.level());
        let told = |request: &Request| outcome(level, Some(done.txn()), request);
        let tag = if level == V2 { " TV2" } else { "" };
        let init_again =
            if level == V2 { "Empty 100/6 L5 TV2 -> NONE 100/6".to_string() } else { FENCED.to_string() };
        let rows = [
            ("EndTxn below 5", "commit", told(&end((P, 5), Commit, V0)), FENCED.to_string()),
            ("EndTxn below 5", "abort", told(&end((P, 5), Abort, V0)), FENCED.to_string()),
            ("EndTxn 5", "abort", told(&end((P, 5), Abort, V2)), "NONE 100/6".to_string()),
            ("EndTxn 5", "commit", told(&end((P, 5), Commit, V2)), FENCED.to_string()),
            ("old producer", "add", told(&add((P, 5), &[0], V0)), FENCED.to_string()),
            ("old producer", "implicit add", told(&add((P, 5), &[0], V2)), FENCED.to_string()),
            ("old producer", "verify", told(&verify((P, 5), &[0])), FENCED.to_string()),
            ("old producer", "InitProducerId", told(&init(Some((P, 5)))), init_again),
        ];
        for (row, name, seen, expected) in rows {
            cases.push(Case::new(format!("9.4 | {row} {version}"), cell(name), seen, expected));
        }
        let seen = told(&init(None));
        cases.push(Case::new(
            "9.4 | new instance",
            cell("InitProducerId"),
            seen,
            format!("Empty 100/7 L-1{tag} -> NONE 100/7"),
        ));
    }
    cases
}

/// A failed append has changed nothing; the next try raises the epoch once, at every level.
fn failed_appends() -> Vec<Case> {
    let mut cases = Vec::new();
    for (level, epoch, expected) in [
        (V1, 5, "PrepareAbort 100/6 L-1 -> fencing"),
        (V2, 5, "PrepareAbort 100/6 L5 TV2 -> fencing"),
        (V2, LAST, "PrepareAbort 100/32767 L32766 N101 TV2 -> fencing"),
    ] {
        let coordinator = Coordinator::with(level, txn_at(Ongoing, V0, epoch));
        for attempt in 0..3 {
            // Decided and not appended.
            let decision = coordinator.shard.decide(coordinator.now, Token(1), &with_fresh(init(None)));
            let decision = decision.expect("it is fenced");
            let value = decision.records[0].value.as_ref().expect("a record");
            let seen = format!("{} -> {}", image(&value.txn), word(&Ok(decision.replies[0].1.clone())));
            let cell = format!("level {}, epoch {epoch}, attempt {attempt}", level.level());
            cases.push(Case::new("9.4 | append failed", &cell, seen, expected));
            let seen = image(coordinator.txn());
            let before = format!("Ongoing 100/{epoch} L{}", epoch - 1);
            cases.push(Case::new("9.4 | append failed", cell, seen, before));
        }
    }
    cases
}

/// The timeout scan: only what is open, and has been for longer than its timeout.
fn scan() -> Vec<Case> {
    let mut cases = Vec::new();
    for version in [V0, V2] {
        for state in TransactionState::ALL {
            for (ms, is_over) in [(59_980, false), (59_981, true), (6_000_000, true)] {
                let mut coordinator = Coordinator::with(V2, txn_in(state, version));
                coordinator.now = at(ms);
                let seen = format!("{:?}", coordinator.tick().len());
                let expected = match state {
                    Ongoing => u8::from(is_over),
                    Empty | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort => 0,
                };
                cases.push(Case::new("9.4 | timeout scan", format!("{state} after {ms} ms"), seen, expected));
            }
            let forever = TxnMetadata { timeout_ms: TWO_PHASE_COMMIT_TIMEOUT_MS, ..txn_in(state, version) };
            let mut coordinator = Coordinator::with(V2, forever);
            coordinator.now = at(500_000_000);
            let seen = format!("{:?}", coordinator.tick().len());
            cases.push(Case::new("9.4 | timeout scan", format!("{state}, two-phase commit"), seen, 0));
        }
    }
    cases
}

/// §9.4, every row and cell.
#[test]
fn the_coordinators_own_aborts_cell_by_cell() {
    assert_all(&cases());
}
