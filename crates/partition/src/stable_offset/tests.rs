use fencepost_types::{Millis, Offset, ProducerId};

use crate::testing::{Replica, START, abort, commit, data, txn};
use crate::{BatchFacts, LATE_TRANSACTION_BUFFER_MS};

/// The last stable offset waits until the marker itself is replicated (producer-state trap 1).
#[test]
fn a_marker_counts_once_it_is_replicated() {
    let mut replica = Replica::new();
    replica.produce(data(9, 0, 0, 2)).unwrap();
    replica.produce(txn(1, 0, 0, 3)).unwrap();
    replica.replicate();
    assert_eq!(replica.last_stable_offset(), 2);
    replica.mark(commit(1, 0, 0), Some(1)).unwrap();
    assert_eq!(replica.states.first_unstable_offset(), Some(Offset(2)));
    assert_eq!(replica.last_stable_offset(), 2);
    replica.replicate_to(5);
    assert_eq!(replica.last_stable_offset(), 2);
    replica.replicate_to(6);
    assert_eq!(replica.states.first_unstable_offset(), None);
    assert_eq!(replica.last_stable_offset(), 6);
}

/// A transaction that begins at or above the high watermark does not hold it back.
#[test]
fn the_high_watermark_is_the_bound() {
    let mut replica = Replica::new();
    replica.produce(data(9, 0, 0, 4)).unwrap();
    replica.replicate_to(2);
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    assert_eq!(replica.last_stable_offset(), 2);
    replica.replicate_to(4);
    assert_eq!(replica.last_stable_offset(), 4);
    replica.replicate_to(5);
    assert_eq!(replica.last_stable_offset(), 4);
}

/// The earliest of several transactions counts, open or not yet replicated.
#[test]
fn the_earliest_transaction_counts() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.produce(txn(2, 0, 0, 1)).unwrap();
    replica.replicate();
    assert_eq!(replica.last_stable_offset(), 0, "both are open");
    replica.mark(abort(1, 0, 0), Some(1)).unwrap();
    assert_eq!(replica.last_stable_offset(), 0);
    replica.replicate();
    assert_eq!(replica.last_stable_offset(), 1);
    replica.mark(commit(2, 0, 0), Some(1)).unwrap();
    replica.replicate();
    assert_eq!(replica.last_stable_offset(), 4);
    for producer_id in [1, 2] {
        replica.produce(txn(producer_id, 0, 1, 1)).unwrap();
    }
    for producer_id in [1, 2] {
        replica.mark(commit(producer_id, 0, 0), Some(1)).unwrap();
    }
    replica.replicate_to(6);
    assert_eq!(replica.last_stable_offset(), 4, "both markers are not replicated");
}

/// A log start beyond an open transaction's beginning clamps the offset; the transaction stays open (producer-state
/// trap 32). Differs from Kafka: the clamp is the log start itself, also inside a batch.
#[test]
fn the_log_start_clamps() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 3)).unwrap();
    replica.replicate();
    replica.states.on_log_start(Offset(1));
    assert_eq!(replica.states.last_stable_offset(Offset(3), Offset(1)), Offset(1));
    assert_eq!(replica.states.open_transaction_count(), 1);
    replica.mark(commit(1, 0, 0), Some(1)).unwrap();
    replica.states.on_log_start(Offset(3));
    assert_eq!(replica.states.first_unstable_offset(), Some(Offset(0)));
    assert_eq!(replica.states.last_stable_offset(Offset(3), Offset(3)), Offset(3));
    replica.states.on_log_start(Offset(4));
    assert_eq!(replica.states.first_unstable_offset(), None);
}

/// What the transaction index keeps: the earliest open transaction of another producer, else the offset after the
/// marker; transactions that wait for replication do not count (producer-state trap 29).
#[test]
fn the_stable_offset_of_an_index_entry() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.produce(txn(2, 0, 0, 1)).unwrap();
    replica.produce(txn(3, 0, 0, 1)).unwrap();
    replica.mark(abort(1, 0, 0), Some(1)).unwrap();
    replica.mark(abort(3, 0, 0), Some(1)).unwrap();
    replica.mark(abort(2, 0, 0), Some(1)).unwrap();
    let stable = replica.aborted.iter().map(|entry| entry.last_stable_offset.0);
    assert_eq!(stable.collect::<alloc::vec::Vec<_>>(), [1, 1, 6]);
    assert_eq!(replica.states.first_unstable_offset(), Some(Offset(0)));
}

/// State from a snapshot or from replay knows offsets alone, and that is enough (producer-state trap 33).
#[test]
fn the_first_unstable_offset_survives_a_restart() {
    let mut replica = Replica::new();
    replica.produce(data(9, 0, 0, 4)).unwrap();
    replica.produce(txn(1, 0, 0, 3)).unwrap();
    replica.replicate();
    replica.restart();
    assert_eq!(replica.states.first_unstable_offset(), Some(Offset(4)));
    assert_eq!(replica.last_stable_offset(), 4);
}

/// A transaction is late once its producer has been silent for the longest timeout and five minutes.
#[test]
fn late_transactions() {
    let mut replica = Replica::new();
    let late = START.plus(60_000 + LATE_TRANSACTION_BUFFER_MS);
    assert!(!replica.states.has_late_transaction(late.plus(1), 60_000));
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.produce(txn(2, 0, 0, 1)).unwrap();
    let oldest = replica.states.oldest_open_transaction().unwrap();
    assert_eq!((oldest.producer_id, oldest.first_offset), (ProducerId(1), Offset(0)));
    assert!(!replica.states.has_late_transaction(late, 60_000));
    assert!(replica.states.has_late_transaction(late.plus(1), 60_000));
    // A further batch makes it young again; without a time it is never late.
    replica.produce(BatchFacts { max_timestamp: START.plus(1), ..txn(1, 0, 1, 1) }).unwrap();
    assert!(!replica.states.has_late_transaction(late.plus(1), 60_000));
    replica.produce(BatchFacts { max_timestamp: Millis::NONE, ..txn(1, 0, 2, 1) }).unwrap();
    assert!(!replica.states.has_late_transaction(late.plus(1), 60_000));
    assert!(!replica.states.has_late_transaction(Millis(i64::MAX), i64::MAX));
}
