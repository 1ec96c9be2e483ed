use fencepost_types::{Offset, ProducerEpoch, ProducerId};

use crate::testing::{Replica, abort, commit, data, txn};
use crate::{BatchFacts, ProducerStates};

/// A lower epoch in the log is taken as it stands, and empties the window (producer-state trap 8).
#[test]
fn replay_takes_a_lower_epoch() {
    let mut replica = Replica::new();
    replica.append(data(1, 5, 0, 1));
    replica.append(data(1, 3, 7, 1));
    let entry = replica.states.producer(ProducerId(1)).unwrap();
    assert_eq!((entry.producer_epoch, entry.batches.len()), (ProducerEpoch(3), 1));
}

/// A plain batch inside a transaction, as only a damaged log has it, leaves the transaction open.
#[test]
fn replay_takes_a_plain_batch_inside_a_transaction() {
    let mut replica = Replica::new();
    replica.append(txn(1, 0, 0, 1));
    replica.append(data(1, 1, 0, 1));
    assert_eq!(replica.states.first_unstable_offset(), Some(Offset(0)));
    assert_eq!(replica.append(commit(1, 1, 0)).unwrap().first_offset, Offset(0));
}

/// Two transactions of one producer id never share a place, also when a damaged log repeats offsets.
#[test]
fn replay_takes_repeated_batches() {
    let mut states = ProducerStates::new(Offset(0));
    for producer_id in [1, 2, 1] {
        assert_eq!(states.replay(None, &txn(producer_id, 0, 0, 1)), None);
        states.check();
    }
    for producer_id in [1, 2, 1] {
        let marker = BatchFacts { base_offset: Offset(1), ..abort(producer_id, 0, 0) };
        states.replay(None, &marker);
        states.check();
    }
    assert_eq!(states.open_transaction_count(), 0);
}

/// The largest numbers do not make replay panic (P9).
#[test]
fn replay_takes_the_largest_numbers() {
    let mut states = ProducerStates::new(Offset(0));
    let far = BatchFacts { base_offset: Offset(i64::MAX), ..txn(i64::MAX, i16::MAX, i32::MAX, i32::MAX) };
    states.replay(None, &far);
    let marker = BatchFacts { base_offset: Offset(i64::MAX), ..abort(i64::MAX, i16::MAX, i32::MAX) };
    let completed = states.replay(None, &marker).unwrap();
    assert_eq!(states.aborted_txn(&completed).unwrap().last_stable_offset, Offset(i64::MAX));
    let negative = BatchFacts { base_sequence: fencepost_types::Sequence(i32::MIN), ..far };
    states.replay(None, &BatchFacts { last_offset_delta: i32::MIN, ..negative });
}

/// Clearing forgets what the log said (producer-state §12), and the end may go back.
#[test]
fn clear_forgets_the_log() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 3)).unwrap();
    replica.produce(txn(2, 0, 0, 3)).unwrap();
    replica.mark(abort(1, 0, 0), Some(1)).unwrap();
    replica.states.clear(Offset(2));
    replica.states.check();
    assert!(replica.states.is_empty());
    assert_eq!(replica.states.first_unstable_offset(), None);
    assert_eq!(replica.states.map_end_offset(), Offset(2));
    replica.states.advance_map_end_offset(Offset(9));
    replica.states.advance_map_end_offset(Offset(4));
    assert_eq!(replica.states.map_end_offset(), Offset(9));
}

/// Truncation below a marker opens its transaction again, by the rebuild (producer-state §12).
#[test]
fn truncation_below_a_marker_opens_its_transaction() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 2)).unwrap();
    replica.mark(abort(1, 0, 0), Some(1)).unwrap();
    replica.states.clear(Offset(0));
    replica.states.replay(None, &replica.log[0]);
    replica.states.check();
    assert_eq!(replica.states.open_transaction_count(), 1);
    assert_eq!(replica.states.map_end_offset(), Offset(2));
}
