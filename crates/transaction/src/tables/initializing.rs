//! §6: InitProducerId.

use super::*;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

const FENCED: &str = "PRODUCER_FENCED";
const NO_ID: &str = "COORDINATOR_LOAD_IN_PROGRESS";
const IDLE: [TransactionState; 3] = [Empty, CompleteCommit, CompleteAbort];

/// A row of step 11: by its name, what each expected pair is answered.
type Row<'a> = (&'a str, Option<(ProducerId, i16)>, &'a str);

fn asked(change: impl Fn(&mut InitProducerId)) -> Request {
    let mut request = init(None);
    if let Request::InitProducerId(inner) = &mut request {
        change(inner);
    }
    request
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = before_the_state();
    for state in IDLE {
        for version in [V0, V2] {
            cases.extend(idle(state, version));
            cases.extend(exhausted(state, version));
            cases.extend(just_rotated(state, version));
        }
        cases.extend(without_an_epoch(state));
    }
    cases.extend(open_and_completing());
    cases.extend(two_phase());
    cases.extend(records());
    cases
}

/// Steps 4 to 6 where two-phase commit is allowed, and their order.
fn two_phase() -> Vec<Case> {
    let mut cases = Vec::new();
    for (is_allowed, enable, keep, timeout_ms, row, expected) in [
        (true, true, false, 60_000, "4 two-phase commit is on", "NONE 100/6, for 2147483647 ms"),
        (true, true, false, 0, "4 two-phase commit is on", "NONE 100/6, for 2147483647 ms"),
        (true, true, false, i32::MAX, "4 two-phase commit is on", "NONE 100/6, for 2147483647 ms"),
        (true, false, false, 7, "4 two-phase commit is on", "NONE 100/6, for 7 ms"),
        (true, true, true, 60_000, "5 keep prepared", "UNSUPPORTED_VERSION, for 60000 ms"),
        (true, false, true, 0, "5 keep prepared", "UNSUPPORTED_VERSION, for 60000 ms"),
        (false, false, true, 0, "5 keep prepared", "UNSUPPORTED_VERSION, for 60000 ms"),
        (
            false,
            true,
            true,
            0,
            "4 two-phase commit is off",
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, for 60000 ms",
        ),
        (true, false, false, i32::MAX, "6 timeout", "INVALID_TRANSACTION_TIMEOUT, for 60000 ms"),
    ] {
        let mut coordinator = Coordinator::with(V2, txn_in(Empty, V0));
        let config =
            ShardConfig { two_phase_commit_enable: is_allowed, ..coordinator.shard.config().clone() };
        coordinator.shard.set_config(config);
        let answer = coordinator.ask(&asked(|request| {
            request.enable_two_phase_commit = enable;
            request.keep_prepared_txn = keep;
            request.timeout_ms = timeout_ms;
        }));
        let seen = format!("{}, for {} ms", word(&answer), coordinator.txn().timeout_ms);
        let cell = format!("allowed {is_allowed}, enable {enable}, keep {keep}, {timeout_ms} ms");
        cases.push(Case::new(format!("6 | {row}"), cell, seen, expected));
    }
    cases
}

/// What a success writes, also where it only repeats an answer: no partitions, no start, the timeout that was asked for.
fn records() -> Vec<Case> {
    let mut cases = Vec::new();
    for state in IDLE {
        for (relation, expected) in [("none", None), ("current", Some((P, 5))), ("last", Some((P, 4)))] {
            let mut coordinator = Coordinator::with(V2, txn_in(state, V2));
            coordinator.now = at(40);
            let mut request = init(expected);
            if let Request::InitProducerId(inner) = &mut request {
                inner.timeout_ms = 7;
            }
            let answer = word(&coordinator.ask(&request));
            let txn = coordinator.txn();
            let since = txn.last_update.0 - T;
            let seen = format!(
                "{} {} {} {} {since} {}",
                answer.starts_with("NONE"),
                txn.state,
                txn.partitions.len(),
                txn.start.0,
                txn.timeout_ms
            );
            cases.push(Case::new(
                "6 | the record",
                format!("{state}, {relation}"),
                seen,
                "true Empty 0 -1 40 7",
            ));
        }
    }
    cases
}

/// Steps 1 to 10.
fn before_the_state() -> Vec<Case> {
    let empty = txn_in(Empty, V0);
    let seen = |request: &Request| outcome(V2, Some(&empty), request);
    let half = |id, epoch| format!("{:?}", ExpectedProducer::from_wire(ProducerId(id), ProducerEpoch(epoch)));
    let both = |id, epoch| format!("{:?}", ExpectedProducer::from_wire(id, epoch).map(|pair| pair.is_some()));
    let timeout = |timeout_ms| seen(&asked(|request| request.timeout_ms = timeout_ms));
    let fine = "Empty 100/6 L-1 -> NONE 100/6";
    let refused = "INVALID_TRANSACTION_TIMEOUT";
    let mut cases = vec![
        Case::new("6 | 1 half a pair", "id alone", half(5, -1), "Err(InvalidRequest)"),
        Case::new("6 | 1 half a pair", "epoch alone", half(-1, 0), "Err(InvalidRequest)"),
        Case::new("6 | 1 half a pair", "both", both(P, ProducerEpoch(0)), "Ok(true)"),
        Case::new("6 | 1 half a pair", "none", both(ProducerId::NONE, ProducerEpoch::NONE), "Ok(false)"),
        Case::new(
            "6 | 3 empty id",
            "",
            seen(&asked(|r| r.transactional_id = TransactionalId::from(""))),
            "INVALID_REQUEST",
        ),
        Case::new(
            "6 | 4 two-phase commit is off",
            "",
            seen(&asked(|r| r.enable_two_phase_commit = true)),
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ),
        Case::new(
            "6 | 5 keep prepared",
            "",
            seen(&asked(|r| r.keep_prepared_txn = true)),
            "UNSUPPORTED_VERSION",
        ),
        Case::new("6 | 8 unknown id", "no producer id", outcome(V2, None, &init(None)), NO_ID),
    ];
    for (timeout_ms, expected) in
        [(-1, refused), (0, refused), (1, fine), (900_000, fine), (900_001, refused)]
    {
        cases.push(Case::new("6 | 6 timeout", timeout_ms, timeout(timeout_ms), expected));
    }
    for expected in [None, Some((STRANGER, 7)), Some((P, LAST))] {
        let seen = outcome(V2, None, &with_fresh(init(expected)));
        cases.push(Case::new(
            "6 | 8 unknown id",
            format!("{expected:?}"),
            seen,
            "Empty 101/0 L-1 -> NONE 101/0",
        ));
    }
    for state in [PrepareCommit, PrepareAbort] {
        for expected in [None, Some((P, 5)), Some((STRANGER, 5))] {
            let seen = outcome(V2, Some(&txn_in(state, V2)), &init(expected));
            cases.push(Case::new(
                "6 | 9 completing",
                format!("{state} {expected:?}"),
                seen,
                "CONCURRENT_TRANSACTIONS",
            ));
        }
    }
    for (state, expected) in [Empty, Ongoing, CompleteCommit, CompleteAbort]
        .into_iter()
        .flat_map(|state| [(STRANGER, 5), (STRANGER, LAST), (REPLACED, 5)].map(|pair| (state, pair)))
    {
        let txn = TxnMetadata { previous_producer_id: REPLACED, ..txn_in(state, V2) };
        let seen = outcome(V2, Some(&txn), &init(Some(expected)));
        cases.push(Case::new("6 | 10 stranger", format!("{state} {expected:?}"), seen, FENCED));
    }
    cases
}

fn rows(txn: &TxnMetadata, request: impl Fn(Request) -> Request, rows: &[Row<'_>]) -> Vec<Case> {
    rows.iter()
        .map(|(name, pair, expected)| {
            let (row, cell) = name.split_once(" / ").unwrap_or((name, ""));
            let cell = format!("{} TV{} {cell} {pair:?}", txn.state, txn.client_transaction_version.level());
            Case::new(format!("6 | {row}"), cell, outcome(V2, Some(txn), &request(init(*pair))), expected)
        })
        .collect()
}

/// Step 11, no transaction in the way, the epoch not exhausted. The version of the last transaction stays.
fn idle(state: TransactionState, version: TransactionVersion) -> Vec<Case> {
    let kept = if version == V0 { "" } else { " TV2" };
    let bumped = format!("Empty 100/6 L-1{kept} -> NONE 100/6");
    let bumped_by_current = format!("Empty 100/6 L5{kept} -> NONE 100/6");
    let again = format!("Empty 100/5 L4{kept} -> NONE 100/5");
    let mut cases = rows(
        &txn_in(state, version),
        |request| request,
        &[
            ("idle, none", None, &bumped),
            ("idle, current", Some((P, 5)), &bumped_by_current),
            ("idle, last", Some((P, 4)), &again),
            ("idle, other / below", Some((P, 3)), FENCED),
            ("idle, other / above", Some((P, 6)), FENCED),
            ("idle, other / end", Some((P, LAST)), FENCED),
        ],
    );
    let forgotten = TxnMetadata { last_producer_epoch: ProducerEpoch::NONE, ..txn_in(state, version) };
    cases.extend(rows(
        &forgotten,
        |request| request,
        &[("idle, other / no last epoch", Some((P, 4)), FENCED)],
    ));
    let one_before = format!("Empty 100/32766 L32765{kept} -> NONE 100/32766");
    cases.extend(rows(
        &txn_at(state, version, LAST - 1),
        |request| request,
        &[("idle, current / one before the end", Some((P, LAST - 1)), &one_before)],
    ));
    cases
}

/// Step 11 at the end of the epochs.
fn exhausted(state: TransactionState, version: TransactionVersion) -> Vec<Case> {
    let kept = if version == V0 { "" } else { " TV2" };
    let rotated = format!("Empty 101/0 L-1 V100{kept} -> NONE 101/0");
    let rotated_by_current = format!("Empty 101/0 L32766 V100{kept} -> NONE 101/0");
    let again = format!("Empty 100/32766 L32765{kept} -> NONE 100/32766");
    let txn = txn_at(state, version, LAST);
    let mut cases = rows(
        &txn,
        with_fresh,
        &[
            ("exhausted, none", None, &rotated),
            ("exhausted, current", Some((P, LAST)), &rotated_by_current),
            ("exhausted, last", Some((P, LAST - 1)), &again),
            ("exhausted, other / below", Some((P, LAST - 2)), FENCED),
            ("exhausted, other / above", Some((P, i16::MAX)), FENCED),
        ],
    );
    cases.extend(rows(
        &txn,
        |request| request,
        &[
            ("exhausted, none / no producer id", None, NO_ID),
            ("exhausted, current / no producer id", Some((P, LAST)), NO_ID),
            ("exhausted, last / no producer id", Some((P, LAST - 1)), &again),
        ],
    ));
    // The replaced id passes step 10 at an exhausted epoch, and counts as the current one.
    let replaced = TxnMetadata { previous_producer_id: REPLACED, ..txn };
    cases.extend(rows(
        &replaced,
        with_fresh,
        &[("exhausted, current / named by the replaced id", Some((REPLACED, LAST)), &rotated_by_current)],
    ));
    let beyond = txn_at(state, version, i16::MAX);
    let rotated_by_max = format!("Empty 101/0 L32767 V100{kept} -> NONE 101/0");
    cases.extend(rows(
        &beyond,
        with_fresh,
        &[
            ("beyond the end", None, &rotated),
            ("beyond the end / last", Some((P, LAST)), &rotated_by_current),
            ("beyond the end / current", Some((P, i16::MAX)), &rotated_by_max),
            ("beyond the end / below", Some((P, LAST - 1)), FENCED),
        ],
    ));
    cases
}

/// Step 11 right after a rotation: the replaced pair gets the same answer again.
fn just_rotated(state: TransactionState, version: TransactionVersion) -> Vec<Case> {
    let kept = if version == V0 { "" } else { " TV2" };
    let again = format!("Empty 100/0 L32766{kept} -> NONE 100/0");
    let bumped = format!("Empty 100/1 L0{kept} -> NONE 100/1");
    rows(
        &rotated(state, version),
        |request| request,
        &[
            ("rotated, last", Some((REPLACED, LAST)), &again),
            ("rotated, current", Some((P, 0)), &bumped),
            ("rotated, other / above", Some((P, 1)), FENCED),
            ("rotated, other / replaced, below", Some((REPLACED, LAST - 1)), FENCED),
            ("rotated, other / replaced, above", Some((REPLACED, i16::MAX)), FENCED),
        ],
    )
}

/// Step 11, a new id: any pair will do.
fn without_an_epoch(state: TransactionState) -> Vec<Case> {
    let txn = TxnMetadata { last_producer_epoch: ProducerEpoch::NONE, ..txn_at(state, V0, -1) };
    let begins = "Empty 100/0 L-1 -> NONE 100/0";
    rows(
        &txn,
        |request| request,
        &[
            ("no epoch yet", None, begins),
            ("no epoch yet / own", Some((P, 3)), begins),
            ("no epoch yet / strange", Some((STRANGER, 3)), begins),
        ],
    )
}

/// Step 11 with a transaction in the way.
fn open_and_completing() -> Vec<Case> {
    let mut cases = Vec::new();
    for version in [V0, V2] {
        let open = TxnMetadata { previous_producer_id: REPLACED, ..txn_in(Ongoing, version) };
        for pair in [None, Some((P, 5)), Some((P, 4)), Some((P, 0)), Some((P, 9)), Some((REPLACED, LAST))] {
            let cell = format!("TV{} {pair:?}", version.level());
            let seen = outcome(V2, Some(&open), &init(pair));
            cases.push(Case::new("6 | Ongoing", &cell, seen, "PrepareAbort 100/6 L5 TV2 -> fencing"));
            let seen = outcome(V1, Some(&open), &init(pair));
            cases.push(Case::new("6 | Ongoing", &cell, seen, "PrepareAbort 100/6 L-1 -> fencing"));
        }
        for state in [PrepareCommit, PrepareAbort] {
            for pair in [None, Some((P, 5)), Some((P, 4)), Some((P, 6)), Some((STRANGER, 5))] {
                let seen = outcome(V2, Some(&txn_in(state, version)), &init(pair));
                cases.push(Case::new(
                    "6 | Prepare*",
                    format!("{state} {pair:?}"),
                    seen,
                    "CONCURRENT_TRANSACTIONS",
                ));
            }
        }
    }
    cases
}

/// §6, every row and cell.
#[test]
fn init_producer_id_cell_by_cell() {
    assert_all(&cases());
}
