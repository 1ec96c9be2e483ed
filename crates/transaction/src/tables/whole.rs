//! §6, §7 and §9 whole: every state at every kind of epoch, last epoch and previous producer id, by every producer that a
//! request can name. What is expected is written here once more, step by step as the specification has it; where it
//! leaves a choice, the comment says which.

use super::*;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

/// Epochs of the id, at both ends and between.
const EPOCHS: [i16; 6] = [0, 1, 5, LAST - 1, LAST, i16::MAX];
/// Epochs that requests name: each of those, its neighbours, and none.
const ASKED: [i16; 10] = [-1, 0, 1, 2, 4, 5, 6, LAST - 1, LAST, i16::MAX];
/// Producer ids that requests name: the current, the replaced, the next one, and one that nobody has.
const IDS: [ProducerId; 4] = [P, REPLACED, FRESH, STRANGER];
/// When the requests come: everything that is written says so.
const NOW: i64 = 40;

const INVALID: &str = "INVALID_TXN_STATE";
const FENCED: &str = "PRODUCER_FENCED";
const CONCURRENT: &str = "CONCURRENT_TRANSACTIONS";
const MAPPING: &str = "INVALID_PRODUCER_ID_MAPPING";

/// Every place where an id can stand.
fn places(version: TransactionVersion) -> Vec<TxnMetadata> {
    let mut places = Vec::new();
    for (state, epoch) in
        TransactionState::ALL.into_iter().flat_map(|state| EPOCHS.map(|epoch| (state, epoch)))
    {
        for last in BTreeSet::from([-1, epoch - 1, LAST]) {
            // Never rotated, just rotated, rotated before.
            for (previous, replaced) in [(P, ProducerId::NONE), (REPLACED, REPLACED), (P, REPLACED)] {
                let mut txn = txn_at(state, version, epoch);
                (txn.previous_producer_id, txn.replaced_producer_id) = (previous, replaced);
                txn.last_producer_epoch = ProducerEpoch(last);
                places.push(txn);
            }
        }
    }
    let no_epoch = txn_at(Empty, version, -1);
    places.push(TxnMetadata { last_producer_epoch: ProducerEpoch::NONE, ..no_epoch });
    places
}

/// A record with all that is in it.
fn whole_image(txn: &TxnMetadata) -> String {
    let (start, last_update) = (txn.start.0, txn.last_update.0 - T);
    let partitions: Vec<_> = txn.partitions.iter().map(|partition| partition.partition.0).collect();
    let (image, replaced, timeout_ms) = (image(txn), txn.replaced_producer_id, txn.timeout_ms);
    format!("{image}, after {replaced}, for {timeout_ms} ms, {partitions:?} since {start}, at {last_update}")
}

/// Asks at every place for everything, and answers what differs.
fn differences(
    level: TransactionVersion,
    version: TransactionVersion,
    requests: &[Request],
    expected: impl Fn(&TxnMetadata, &Request) -> String,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for txn in places(version) {
        let mut coordinator = Coordinator::with(level, txn.clone());
        coordinator.now = at(NOW);
        for request in requests {
            let seen = match coordinator.shard.decide(coordinator.now, Token(7), request) {
                Err(refusal) => refusal.code().to_string(),
                Ok(decision) => {
                    let records = decision.records.iter().filter_map(|record| record.value.as_ref());
                    let written: String =
                        records.map(|value| format!("{} -> ", whole_image(&value.txn))).collect();
                    written + &word(&Ok(decision.replies[0].1.clone()))
                }
            };
            let expected = expected(&txn, request);
            if seen != expected {
                wrong.push(format!("{request:?} at {txn:?}:\n  {seen}\n  instead of {expected}\n"));
            }
        }
    }
    wrong
}

fn assert_none(wrong: &[String]) {
    let first: String = wrong.iter().take(5).cloned().collect();
    assert!(wrong.is_empty(), "{} differ, the first of them:\n{first}", wrong.len());
}

/// What is written where `change` is all that a transition changes beside what every one does.
fn written(before: &TxnMetadata, state: TransactionState, change: impl FnOnce(&mut TxnMetadata)) -> String {
    let mut after = before.clone();
    (after.state, after.last_update, after.previous_producer_id) = (state, at(NOW).wall, before.producer_id);
    change(&mut after);
    whole_image(&after)
}

/// What another producer id than the current one is told. Ours: under version 2 the holder of the replaced one is fenced.
fn other_producer(txn: &TxnMetadata, given: ProducerId, version: TransactionVersion) -> String {
    let is_replaced = given == REPLACED && txn.replaced_producer_id == REPLACED;
    if version == V2 && is_replaced { FENCED } else { MAPPING }.into()
}

/// Partitions in the transaction, some of them, others, none.
const PARTITIONS: [&[i32]; 4] = [&[0, 1], &[1, 2], &[2], &[]];

/// §7.1, in its order.
fn expected_add(txn: &TxnMetadata, request: &AddPartitions) -> String {
    let (state, epoch) = (txn.state, request.producer_epoch.0);
    if state == PrepareCommit || state == PrepareAbort {
        return CONCURRENT.into();
    }
    if request.producer_id != P {
        return other_producer(txn, request.producer_id, request.transaction_version);
    }
    if epoch != txn.producer_epoch.0 || epoch == -1 {
        return FENCED.into();
    }
    let is_new = |partition: &fencepost_types::TopicPartition| partition.partition.0 > 1;
    if state == Ongoing && !request.partitions.iter().any(is_new) {
        return "NONE".into();
    }
    let after = written(txn, Ongoing, |after| {
        after.partitions.extend(request.partitions.iter().cloned());
        after.client_transaction_version = request.transaction_version;
        after.start = if state == Ongoing { txn.start } else { at(NOW).wall };
    });
    format!("{after} -> NONE")
}

/// §7.2, in its order.
fn expected_verify(txn: &TxnMetadata, request: &VerifyPartitions) -> String {
    let (state, epoch) = (txn.state, request.producer_epoch.0);
    if request.producer_id != P {
        return MAPPING.into();
    }
    if epoch != txn.producer_epoch.0 || epoch == -1 {
        return FENCED.into();
    }
    if state == PrepareCommit || state == PrepareAbort {
        return CONCURRENT.into();
    }
    let is_in = |partition: &fencepost_types::TopicPartition| state == Ongoing && partition.partition.0 <= 1;
    if request.partitions.iter().all(is_in) { "NONE" } else { "TRANSACTION_ABORTABLE" }.into()
}

/// §7.1 to §7.3 whole.
#[test]
fn every_add_and_every_verification() {
    let mut requests = Vec::new();
    for producer in IDS.into_iter().flat_map(|id| ASKED.map(|epoch| (id, epoch))) {
        for partitions in PARTITIONS {
            requests.extend([V0, V2].map(|version| add(producer, partitions, version)));
            requests.push(verify(producer, partitions));
        }
    }
    for version in [V0, V2] {
        assert_none(&differences(V2, version, &requests, |txn, request| match request {
            Request::AddPartitions(request) => expected_add(txn, request),
            Request::VerifyPartitions(request) => expected_verify(txn, request),
            other => panic!("{other:?}"),
        }));
    }
}

/// §9.2 by state: COMMIT, ABORT. `p` is a Prepare, `n` NONE, `i` INVALID_TXN_STATE.
const OLDER: [(TransactionState, [char; 2]); 4] =
    [(Empty, ['i', 'i']), (Ongoing, ['p', 'p']), (CompleteCommit, ['n', 'i']), (CompleteAbort, ['i', 'n'])];
/// §9.3 by state: COMMIT current and retry, ABORT current and retry. `f` is PRODUCER_FENCED.
const BUMPING: [(TransactionState, [char; 4]); 4] = [
    (Empty, ['i', 'f', 'p', 'f']),
    (Ongoing, ['p', 'f', 'p', 'f']),
    (CompleteCommit, ['i', 'n', 'p', 'i']),
    (CompleteAbort, ['i', 'f', 'p', 'n']),
];

/// §9.2, in its order. No epoch never matches (trap 28).
fn expected_older_end(txn: &TxnMetadata, request: &EndTxn) -> String {
    let (state, epoch) = (txn.state, request.producer_epoch.0);
    if request.producer_id != P {
        return MAPPING.into();
    }
    if epoch != txn.producer_epoch.0 || epoch == -1 {
        return FENCED.into();
    }
    let Some((_, cells)) = OLDER.into_iter().find(|(row, _)| *row == state) else { return CONCURRENT.into() };
    let (cell, prepared) =
        if request.result == Commit { (cells[0], PrepareCommit) } else { (cells[1], PrepareAbort) };
    match cell {
        'i' => INVALID.into(),
        'n' => "NONE".into(),
        _prepare => {
            let after = written(txn, prepared, |after| after.client_transaction_version = V0);
            format!("{after} -> NONE")
        }
    }
}

/// §9.3, in its order.
fn expected_bumping_end(txn: &TxnMetadata, request: &EndTxn) -> String {
    let (state, current, epoch) = (txn.state, txn.producer_epoch.0, request.producer_epoch.0);
    let Some((_, cells)) = BUMPING.into_iter().find(|(row, _)| *row == state) else {
        return CONCURRENT.into();
    };
    let is_overflow_retry = epoch == LAST && current == 0 && request.producer_id == txn.previous_producer_id;
    if request.producer_id != P && !is_overflow_retry {
        return other_producer(txn, request.producer_id, V2);
    }
    let is_retry = epoch >= 0 && epoch.checked_add(1) == Some(current);
    let column = match (epoch == current && epoch >= 0, is_retry || is_overflow_retry) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => return FENCED.into(),
    };
    let (column, prepared) =
        if request.result == Commit { (column, PrepareCommit) } else { (column + 2, PrepareAbort) };
    match cells[column] {
        'i' => INVALID.into(),
        'f' => FENCED.into(),
        'n' => format!("NONE {P}/{current}"),
        _prepare => {
            let (after, next) = expected_bump(txn, prepared);
            format!("{after} -> NONE {next}")
        }
    }
}

/// The Prepare image of §9.3, with the pair that holds after completion. 32767 is not raised any more (§8).
fn expected_bump(txn: &TxnMetadata, prepared: TransactionState) -> (String, String) {
    let current = txn.producer_epoch.0;
    let raised = if current == i16::MAX { i16::MAX } else { current + 1 };
    let is_exhausted = current >= LAST;
    let after = written(txn, prepared, |after| {
        after.producer_epoch = ProducerEpoch(raised);
        after.last_producer_epoch = ProducerEpoch(current.min(LAST));
        after.next_producer_id = if is_exhausted { FRESH } else { ProducerId::NONE };
        after.client_transaction_version = V2;
        after.start = if txn.state == Ongoing { txn.start } else { at(NOW).wall };
    });
    let next = if is_exhausted { format!("{FRESH}/0") } else { format!("{P}/{raised}") };
    (after, next)
}

/// §9.2 and §9.3 whole.
#[test]
fn every_end() {
    let mut requests = Vec::new();
    for producer in IDS.into_iter().flat_map(|id| ASKED.map(|epoch| (id, epoch))) {
        for result in [Commit, Abort] {
            requests.extend([V0, V1, V2].map(|version| with_fresh(end(producer, result, version))));
        }
    }
    for version in [V0, V2] {
        assert_none(&differences(V2, version, &requests, |txn, request| match request {
            Request::EndTxn(request) if request.transaction_version == V2 => {
                expected_bumping_end(txn, request)
            }
            Request::EndTxn(request) => expected_older_end(txn, request),
            other => panic!("{other:?}"),
        }));
    }
}

/// §6, steps 9 to 11, in their order. At the end of the epochs the legal retry gets its answer (trap 10); nobody may hold
/// 32767, so there it gets a rotation.
fn expected_init(level: TransactionVersion, txn: &TxnMetadata, request: &InitProducerId) -> String {
    let (state, current, last) = (txn.state, txn.producer_epoch.0, txn.last_producer_epoch.0);
    if state == PrepareCommit || state == PrepareAbort {
        return CONCURRENT.into();
    }
    let expected = request.expected.map(|expected| (expected.producer_id, expected.producer_epoch.0));
    let passes = |(id, epoch): (ProducerId, i16)| {
        let is_replaced = id == txn.previous_producer_id && epoch >= LAST;
        // Ours: also when the answer was lost once more.
        let is_still_lost =
            state == Empty && id == txn.replaced_producer_id && epoch == last && epoch >= LAST;
        current == -1 || id == P || is_replaced || is_still_lost
    };
    if !expected.is_none_or(passes) {
        return FENCED.into();
    }
    if state == Ongoing {
        return expected_fence(level, txn);
    }
    let given = |id: ProducerId, epoch: i16, last: i16| {
        let after = written(txn, Empty, |after| {
            (after.producer_id, after.producer_epoch) = (id, ProducerEpoch(epoch));
            after.last_producer_epoch = ProducerEpoch(last);
            after.replaced_producer_id = if id == P { txn.replaced_producer_id } else { P };
            (after.start, after.timeout_ms) = (fencepost_types::Millis::NONE, request.timeout_ms);
        });
        format!("{after} -> NONE {id}/{epoch}")
    };
    let up = |last: i16| if current >= LAST { given(FRESH, 0, last) } else { given(P, current + 1, last) };
    match expected.map(|(_, epoch)| epoch) {
        _any if current == -1 => given(P, 0, -1),
        None => up(-1),
        Some(epoch) if epoch == current => up(epoch),
        Some(epoch) if epoch == last && epoch >= 0 && current == i16::MAX => up(epoch),
        Some(epoch) if epoch == last && epoch >= 0 => given(P, current, last),
        Some(_) => FENCED.into(),
    }
}

/// §9.4, the record.
fn expected_fence(level: TransactionVersion, txn: &TxnMetadata) -> String {
    let after = if level == V2 {
        expected_bump(txn, PrepareAbort).0
    } else {
        written(txn, PrepareAbort, |after| {
            after.producer_epoch = ProducerEpoch(txn.producer_epoch.0.saturating_add(1));
            after.last_producer_epoch = ProducerEpoch::NONE;
            after.client_transaction_version = V0;
        })
    };
    format!("{after} -> fencing")
}

/// §6, steps 9 to 11, whole; §9.4 where a new instance starts it.
#[test]
fn every_init_producer_id() {
    let pairs =
        IDS.into_iter().flat_map(|id| ASKED.map(|epoch| (id, epoch))).filter(|(_, epoch)| *epoch >= 0);
    let mut requests: Vec<_> = pairs.map(|pair| with_fresh(init(Some(pair)))).collect();
    requests.push(with_fresh(init(None)));
    for request in &mut requests {
        if let Request::InitProducerId(inner) = request {
            inner.timeout_ms = 7;
        }
    }
    for (level, version) in
        [V0, V1, V2].into_iter().flat_map(|level| [V0, V2].map(|version| (level, version)))
    {
        assert_none(&differences(level, version, &requests, |txn, request| match request {
            Request::InitProducerId(request) => expected_init(level, txn, request),
            other => panic!("{other:?}"),
        }));
    }
}
