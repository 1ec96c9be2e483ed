use crate::testing::*;
use crate::*;
use fencepost_coordinator::Shard;
use fencepost_types::{Deadline, Millis};

use TransactionState::{Ongoing, PrepareAbort};

/// An hour.
const HOUR_MS: i64 = 3_600_000;

/// X7: the wall clock steps by an hour while a transaction is open; the timeout comes when so much time has gone by.
#[test]
fn a_step_of_the_wall_clock_changes_no_timeout() {
    for step_ms in [-HOUR_MS, HOUR_MS, -1_000 * HOUR_MS, 1_000 * HOUR_MS] {
        let stepped = |ms: i64| {
            let now = at(ms);
            fencepost_types::Now { wall: now.wall.plus(step_ms), ..now }
        };
        let mut coordinator = Coordinator::with(V2, txn_in(TransactionState::Empty, V2));
        coordinator.shard.set_config(ShardConfig {
            transactional_id_expiration_ms: i64::from(i32::MAX) * 10,
            ..ShardConfig::default()
        });
        coordinator.add((P, 5), &[0], V2);
        coordinator.now = stepped(1);
        coordinator.add((P, 5), &[1], V2);
        coordinator.now = stepped(60_000);
        assert!(coordinator.tick().is_empty(), "{step_ms}");
        assert_eq!(coordinator.state(), (Ongoing, P, 5));
        coordinator.now = stepped(60_001);
        assert_eq!(coordinator.tick(), [TickOutcome::TimedOut(TransactionalId::from(TX))], "{step_ms}");
        assert_eq!(coordinator.state(), (PrepareAbort, P, 6));
        // What goes to the log is the wall clock's time.
        assert_eq!(
            (coordinator.txn().start, coordinator.txn().last_update),
            (Millis(T), stepped(60_001).wall)
        );
    }
}

/// X7: at a load the wall clock says how much of the timeout is left. A start that lies in the future counts as now, so
/// a transaction is kept for its own timeout at the most; one that is long over is due at once.
#[test]
fn a_load_asks_the_wall_clock_once() {
    for (age_ms, left_ms) in
        [(0, 60_001), (20_000, 40_001), (60_000, 1), (60_001, 0), (HOUR_MS, 0), (-HOUR_MS, 60_001)]
    {
        let txn = TxnMetadata { start: Millis(T - age_ms), ..txn_in(Ongoing, V2) };
        let coordinator = Coordinator::with(V2, txn);
        assert_eq!(coordinator.shard.next_deadline(), Some(Deadline::Mono(mono(left_ms))), "{age_ms}");
    }
    let txn = TxnMetadata { start: Millis(i64::MIN), timeout_ms: i32::MIN, ..txn_in(Ongoing, V2) };
    assert_eq!(txn.time_left_ms(Millis(i64::MAX)), Some(0), "numbers of a damaged record harm nobody");
}

/// A deadline goes with its transaction: an end, an abort and the next transaction do not meet the old one.
#[test]
fn a_deadline_goes_with_its_transaction() {
    let mut coordinator = Coordinator::with(V2, txn_in(TransactionState::Empty, V2));
    coordinator.add((P, 5), &[0], V2);
    let first = coordinator.shard.timeouts.next();
    assert_eq!(first, Some(mono(60_001)));
    coordinator.end((P, 5), Commit, V2);
    assert_eq!(coordinator.shard.timeouts.next(), None);
    coordinator.settle();
    coordinator.now = at(30_000);
    coordinator.add((P, 6), &[0], V2);
    assert_eq!(coordinator.shard.timeouts.next(), Some(mono(90_001)));
    coordinator.restart();
    assert_eq!(coordinator.shard.timeouts.next(), Some(mono(90_001)));
    coordinator.init(None);
    assert_eq!(coordinator.shard.timeouts.next(), None);
}

/// A timeout and the expiry of another id are one deadline, due when either clock says so.
#[test]
fn timeouts_and_expiry_are_due_on_their_own_clocks() {
    let mut coordinator = Coordinator::with(V2, txn_in(Ongoing, V2));
    let mut unused = txn_in(TransactionState::Empty, V2);
    (unused.producer_id, unused.previous_producer_id) = (FRESH, FRESH);
    coordinator.append(&record("unused", unused));
    let wall = Millis(T - 10 + 604_800_000);
    let expected = Deadline::Either { wall, mono: mono(59_981) };
    assert_eq!(coordinator.shard.next_deadline(), Some(expected));
    coordinator.now.wall = wall;
    assert_eq!(coordinator.tick(), [TickOutcome::Expired(1)]);
    coordinator.now = at(59_981);
    assert_eq!(coordinator.tick().len(), 1);
    assert_eq!(coordinator.state(), (PrepareAbort, P, 6));
}

/// X7: a check notices a deadline of what is not open.
#[test]
#[should_panic(expected = "X7: a deadline of tx")]
fn a_check_notices_a_deadline_without_a_transaction() {
    let mut coordinator = Coordinator::with(V2, txn_in(TransactionState::CompleteCommit, V2));
    coordinator.shard.timeouts.set(&TransactionalId::from(TX), mono(1));
    coordinator.shard.check();
}
