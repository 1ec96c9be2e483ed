use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{TOMBSTONE_BYTES_PER_TICK_MAX, TOMBSTONES_PER_TICK_MAX};
use crate::testing::*;
use crate::*;
use fencepost_coordinator::Shard;
use fencepost_types::{Deadline, Millis, ProducerId};

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

fn id(text: &str) -> TransactionalId {
    TransactionalId::from(text)
}

fn with_producer(mut txn: TxnMetadata, producer_id: i64) -> TxnMetadata {
    (txn.producer_id, txn.previous_producer_id) = (ProducerId(producer_id), ProducerId(producer_id));
    txn
}

/// §9.4: start + timeout **<** now, to the millisecond (X7).
#[test]
fn a_timeout_is_exact_to_the_millisecond() {
    for timeout_ms in [1, 700, 60_000] {
        let mut coordinator = Coordinator::new();
        let mut request = with_fresh(init(None));
        if let Request::InitProducerId(inner) = &mut request {
            inner.timeout_ms = timeout_ms;
        }
        coordinator.ask(&request).expect("a new id");
        coordinator.now = at(1_000);
        coordinator.add((FRESH, 0), &[0], V2);
        let due = T + 1_000 + i64::from(timeout_ms) + 1;
        assert_eq!(coordinator.shard.next_deadline(), Some(Deadline::Mono(mono(due - T))));
        coordinator.now = at(due - T - 1);
        assert!(coordinator.tick().is_empty());
        assert_eq!(coordinator.state().0, Ongoing);
        coordinator.now = at(due - T);
        assert_eq!(coordinator.tick(), [TickOutcome::TimedOut(id(TX))]);
        assert_eq!(coordinator.state(), (PrepareAbort, FRESH, 1));
    }
}

/// coordinator trap 16: a timeout of i32::MAX is that of a two-phase commit, and never comes.
#[test]
fn two_phase_commit_waits_for_ever() {
    let mut coordinator =
        Coordinator::with(V2, TxnMetadata { timeout_ms: TWO_PHASE_COMMIT_TIMEOUT_MS, ..txn_in(Ongoing, V2) });
    coordinator.now = at(i64::from(i32::MAX) * 1_000);
    assert_eq!(coordinator.shard.next_deadline(), None);
    assert!(coordinator.tick().is_empty());
    assert_eq!(coordinator.state().0, Ongoing);
    let mut just_below =
        Coordinator::with(V2, TxnMetadata { timeout_ms: i32::MAX - 1, ..txn_in(Ongoing, V2) });
    just_below.now = at(i64::from(i32::MAX));
    assert_eq!(just_below.tick().len(), 1);
}

/// §9.4: nothing but an open transaction times out. A decided one that waits for markers is left alone.
#[test]
fn only_open_transactions_time_out() {
    for state in TransactionState::ALL {
        let mut coordinator = Coordinator::with(V2, txn_in(state, V2));
        coordinator.now = at(600_000);
        let ticked = coordinator.tick();
        assert_eq!(ticked.len(), usize::from(state == Ongoing), "{state}: {ticked:?}");
    }
}

/// §3: an open transaction keeps its start over a load; one that timed out meanwhile is due at once.
#[test]
fn timeouts_survive_a_load() {
    let mut coordinator = Coordinator::with(V2, txn_in(Ongoing, V2));
    let due = coordinator.shard.next_deadline();
    coordinator.now = at(30_000);
    coordinator.restart();
    assert_eq!(coordinator.shard.next_deadline(), due);
    coordinator.now = at(3_600_000);
    assert_eq!(coordinator.tick(), [TickOutcome::TimedOut(id(TX))]);
}

/// Several that are due are aborted one decision at a time, the oldest deadline first.
#[test]
fn timeouts_come_in_order() {
    let mut coordinator = Coordinator::new();
    for (name, producer_id, timeout_ms) in [("a", 1, 900), ("b", 2, 700), ("c", 3, 800), ("d", 4, 5_000)] {
        let txn = TxnMetadata { timeout_ms, ..with_producer(txn_in(Ongoing, V2), producer_id) };
        coordinator.append(&record(name, txn));
    }
    coordinator.now = at(1_000);
    let expected = ["b", "c", "a"].map(|name| TickOutcome::TimedOut(id(name)));
    assert_eq!(coordinator.tick(), expected);
}

/// A timeout that needs a producer id, while there is none, holds up neither later timeouts nor expiry.
#[test]
fn a_missing_producer_id_holds_up_nobody_else() {
    let first = TxnMetadata { start: Millis(T - 30), ..txn_at(Ongoing, V2, 32766) };
    let mut coordinator = Coordinator::with(V2, first);
    coordinator.append(&record("later", with_producer(txn_in(Ongoing, V2), 1)));
    coordinator.append(&record("unused", with_producer(txn_in(Empty, V2), 2)));
    coordinator.now = at(700_000_000);
    let tick = TransactionShard::tick();
    assert_eq!(coordinator.ask(&tick), Ok(Reply::Ticked(TickOutcome::TimedOut(id("later")))));
    assert_eq!(coordinator.ask(&tick), Ok(Reply::Ticked(TickOutcome::Expired(1))));
    assert_eq!(coordinator.ask(&tick), Err(Refusal::ProducerIdNeeded));
    assert!(coordinator.shard.next_deadline().is_some_and(|due| due.is_due(coordinator.now)));
    assert_eq!(coordinator.tick(), [TickOutcome::TimedOut(id(TX))]);
}

/// §10.4: a decided transaction without partitions owes no marker; it is complete at once, whatever the clock shows,
/// and also after a load.
#[test]
fn a_decision_without_partitions_is_due_at_once() {
    let mut coordinator = Coordinator::with(V2, txn_in(Empty, V2));
    coordinator.end((P, 5), Abort, V2);
    coordinator.restart();
    assert_eq!(coordinator.shard.markers_owed_by(TX), None);
    coordinator.now = at(-1_000_000);
    assert_eq!(coordinator.tick(), [TickOutcome::Completed(id(TX))]);
    assert_eq!(coordinator.state(), (CompleteAbort, P, 6));
}

/// §14: an id without an open transaction is forgotten, with a tombstone, once its last update is
/// `transactional.id.expiration.ms` old; requests then find it unknown, and InitProducerId begins anew, whatever pair
/// it expects.
#[test]
fn unused_ids_are_forgotten() {
    let week_ms = 604_800_000;
    for state in [Empty, CompleteCommit, CompleteAbort] {
        let mut coordinator = Coordinator::with(V2, txn_in(state, V2));
        let due = Millis(T - 10 + week_ms);
        assert_eq!(coordinator.shard.next_deadline(), Some(Deadline::Wall(due)));
        coordinator.now = at(due.0 - T - 1);
        assert!(coordinator.tick().is_empty());
        coordinator.now = at(due.0 - T);
        assert_eq!(coordinator.tick(), [TickOutcome::Expired(1)]);
        assert_eq!(coordinator.written(1), ["tombstone"]);
        assert_eq!(coordinator.shard.get(TX), None);
        for request in
            [add((P, 5), &[0], V0), end((P, 5), Commit, V0), end((P, 5), Abort, V2), verify((P, 5), &[0])]
        {
            assert_eq!(word(&coordinator.ask(&request)), "INVALID_PRODUCER_ID_MAPPING");
        }
        coordinator.restart();
        assert_eq!(coordinator.init(Some((P, 5))), "NONE 101/0");
    }
}

/// §14: an id in use is kept. So is one whose epoch is none kept no longer than others (coordinator trap 28).
#[test]
fn ids_in_use_are_kept() {
    for state in [Ongoing, PrepareCommit, PrepareAbort] {
        let mut coordinator =
            Coordinator::with(V2, TxnMetadata { timeout_ms: i32::MAX, ..txn_in(state, V2) });
        coordinator.now = at(10 * 604_800_000);
        assert!(coordinator.tick().is_empty());
    }
    let mut negative = Coordinator::with(V2, txn_at(Empty, V0, -1));
    negative.now = at(604_800_000);
    assert_eq!(negative.tick(), [TickOutcome::Expired(1)]);
}

/// A changed expiration holds for ids that are there already.
#[test]
fn a_changed_expiration_counts_at_once() {
    let mut coordinator = Coordinator::with(V2, txn_in(Empty, V2));
    let config = ShardConfig { transactional_id_expiration_ms: 3_000, ..ShardConfig::default() };
    coordinator.shard.set_config(config);
    assert_eq!(coordinator.shard.next_deadline(), Some(Deadline::Wall(Millis(T - 10 + 3_000))));
}

/// The tombstones of one batch are bounded, in number and in bytes; a long id alone still fits.
#[test]
fn tombstones_are_bounded() {
    let mut coordinator = Coordinator::new();
    let count = TOMBSTONES_PER_TICK_MAX + 5;
    for n in 0..count {
        let txn = with_producer(txn_in(Empty, V0), n as i64);
        coordinator.append(&record(&alloc::format!("id-{n}"), txn));
    }
    coordinator.now = at(700_000_000);
    let expected = [TickOutcome::Expired(TOMBSTONES_PER_TICK_MAX), TickOutcome::Expired(5)];
    assert_eq!(coordinator.tick(), expected);

    let mut coordinator = Coordinator::new();
    let long = String::from_utf8(vec![b'x'; 30_000]).unwrap();
    for n in 0..5 {
        let txn = with_producer(txn_in(Empty, V0), n);
        coordinator.append(&record(&alloc::format!("{long}{n}"), txn));
    }
    coordinator.now = at(700_000_000);
    let expected: Vec<_> = [2, 2, 1].map(TickOutcome::Expired).into_iter().collect();
    assert_eq!(TOMBSTONE_BYTES_PER_TICK_MAX / 30_001, 2);
    assert_eq!(coordinator.tick(), expected);
}
