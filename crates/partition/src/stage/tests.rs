use fencepost_types::{ErrorCode, Millis, Offset, ProducerId};

use crate::testing::{Replica, START, abort, commit, data, txn};
use crate::{AppendOrigin, BatchContent, BatchFacts, ProduceRefusal, Staged};

const FENCED: Result<i64, ErrorCode> = Err(ErrorCode::InvalidProducerEpoch);
const OUT_OF_ORDER: Result<i64, ErrorCode> = Err(ErrorCode::OutOfOrderSequenceNumber);
const INVALID_STATE: Result<i64, ErrorCode> = Err(ErrorCode::InvalidTxnState);

/// Batches without a producer pass and leave nothing behind, whatever their epoch and sequence say.
#[test]
fn a_batch_without_producer_passes() {
    let mut replica = Replica::new();
    assert_eq!(replica.produce(data(-1, 5, 7, 2)), Ok(0));
    assert_eq!(replica.produce(data(-1, 0, 0, 1)), Ok(2));
    assert!(replica.states.is_empty());
    assert_eq!(replica.states.map_end_offset(), Offset(3));
}

/// The five newest batches are recognised; an older retry, and one with other boundaries, is a gap (producer-state
/// trap 13: not DUPLICATE_SEQUENCE_NUMBER).
#[test]
fn five_batches_are_recognised() {
    let mut replica = Replica::new();
    for sequence in 0..6 {
        assert_eq!(replica.produce(data(1, 0, 2 * sequence, 2)), Ok(2 * i64::from(sequence)));
    }
    for sequence in 1..6 {
        assert_eq!(replica.produce(data(1, 0, 2 * sequence, 2)), Ok(2 * i64::from(sequence)));
    }
    assert_eq!(replica.produce(data(1, 0, 0, 2)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 0, 10, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 0, 9, 2)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 0, 8, 4)), OUT_OF_ORDER);
    assert_eq!(replica.end, Offset(12));
}

/// A duplicate is answered with the offsets and timestamp of the original (producer-state trap 14).
#[test]
fn a_duplicate_names_the_original() {
    let mut replica = Replica::new();
    replica.produce(data(-1, -1, -1, 7)).unwrap();
    replica.produce(BatchFacts { max_timestamp: Millis(77), ..data(1, 0, 5, 3) }).unwrap();
    replica.produce(data(1, 0, 8, 1)).unwrap();
    let retry = BatchFacts { max_timestamp: Millis(99), ..data(1, 0, 5, 3) };
    assert_eq!(
        replica.states.stage(AppendOrigin::Client, &retry, None, true),
        Ok(Staged::Duplicate { base_offset: Offset(7), last_offset: Offset(9), timestamp: Millis(77) })
    );
}

/// A retry does not move its batch to the front of the five.
#[test]
fn a_duplicate_does_not_refresh_the_window() {
    let mut replica = Replica::new();
    for sequence in 0..5 {
        replica.produce(data(1, 0, sequence, 1)).unwrap();
    }
    assert_eq!(replica.produce(data(1, 0, 0, 1)), Ok(0));
    assert_eq!(replica.produce(data(1, 0, 5, 1)), Ok(5));
    assert_eq!(replica.produce(data(1, 0, 0, 1)), OUT_OF_ORDER);
}

/// Duplicates are looked for in the present epoch alone: after a bump, the same range is a fenced one below and a new
/// batch above (producer-state trap 13).
#[test]
fn a_duplicate_needs_the_same_epoch() {
    let mut replica = Replica::new();
    replica.produce(data(1, 0, 0, 2)).unwrap();
    assert_eq!(replica.produce(data(1, 1, 0, 2)), Ok(2));
    assert_eq!(replica.produce(data(1, 0, 0, 2)), FENCED);
    assert_eq!(replica.produce(data(1, 1, 0, 2)), Ok(2));
}

/// The retry of a transaction's first batch finds the transaction open, asks nobody, and is a duplicate
/// (producer-state trap 25).
#[test]
fn the_retry_of_the_first_batch_is_a_duplicate() {
    let mut replica = Replica::new();
    for (producer_id, v2) in [(1, false), (2, true)] {
        let first = txn(producer_id, 0, 0, 2);
        let base = if v2 { replica.produce_v2(first) } else { replica.produce(first) };
        assert_eq!(replica.verify(&first, v2), Ok(None));
        assert_eq!(replica.produce_with(first, None), base);
    }
}

/// A transaction that an older epoch left open does not count: the next transaction's first batch is verified, and then
/// joins it (producer-state trap 2).
#[test]
fn an_open_transaction_of_another_epoch_does_not_count() {
    let mut replica = Replica::new();
    replica.produce_v2(txn(1, 0, 0, 1)).unwrap();
    assert!(replica.states.has_open_transaction_at(ProducerId(1), fencepost_types::ProducerEpoch(0)));
    assert!(!replica.states.has_open_transaction_at(ProducerId(1), fencepost_types::ProducerEpoch(1)));
    assert_eq!(replica.produce_with(txn(1, 1, 0, 1), None), INVALID_STATE);
    let guard = replica.verify(&txn(1, 1, 0, 1), true).unwrap();
    assert!(guard.is_some());
    assert_eq!(replica.produce_with(txn(1, 1, 0, 1), guard), Ok(1));
    let entry = replica.states.producer(ProducerId(1)).unwrap();
    assert_eq!(entry.current_txn_first_offset, Some(Offset(0)));
}

/// After an abort with a bumped epoch the late batch is fenced (abortable), not "not in a transaction" (fatal):
/// KAFKA-19690, producer-state trap 3.
#[test]
fn the_epoch_comes_before_the_guard() {
    let mut replica = Replica::new();
    let late = txn(1, 0, 1, 1);
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    let guard = replica.verify(&late, false).unwrap();
    replica.mark(abort(1, 1, 0), Some(0)).unwrap();
    assert_eq!(replica.produce_with(late, guard), FENCED);
    assert_eq!(replica.verify(&late, false), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(replica.produce_with(data(1, 0, 1, 1), None), FENCED);
    // For a coordinator's batch the same.
    let staged = replica.states.stage(AppendOrigin::Coordinator, &late, guard, true);
    assert_eq!(staged.unwrap_err().code(), ErrorCode::InvalidProducerEpoch);
}

/// With the switch off, check 3 alone is left out; fences and sequences hold (producer-state trap 22).
#[test]
fn the_verification_switch_leaves_out_the_guard_alone() {
    let mut replica = Replica::new();
    let stage = |replica: &Replica, facts: BatchFacts| {
        replica.states.stage(AppendOrigin::Client, &facts, None, false).map_err(ProduceRefusal::code)
    };
    assert_eq!(stage(&replica, txn(1, 3, 0, 1)), Ok(Staged::Append));
    replica.append(txn(1, 3, 0, 1));
    replica.append(commit(1, 3, 0));
    assert_eq!(stage(&replica, txn(1, 3, 1, 1)), Ok(Staged::Append));
    assert_eq!(stage(&replica, txn(1, 3, 2, 1)), Err(ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(stage(&replica, txn(1, 2, 1, 1)), Err(ErrorCode::InvalidProducerEpoch));
    // The add of version 2 begins a verification whatever the switch says.
    assert!(replica.verify(&txn(1, 3, 1, 1), true).unwrap().is_some());
}

/// A plain batch while the producer's transaction is open is INVALID_TXN_STATE, after the checks of epoch and sequence,
/// and after the duplicate check (producer-state trap 24).
#[test]
fn a_plain_batch_inside_a_transaction_is_refused() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 5, 0, 2)).unwrap();
    assert_eq!(replica.produce(data(1, 5, 2, 1)), INVALID_STATE);
    assert_eq!(replica.produce(data(1, 6, 0, 1)), INVALID_STATE);
    assert_eq!(replica.produce(data(1, 5, 4, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 4, 2, 1)), FENCED);
    assert_eq!(replica.produce(data(1, 5, 0, 2)), Ok(0));
    for origin in [AppendOrigin::Coordinator, AppendOrigin::Replication] {
        let staged = replica.states.stage(origin, &data(1, 5, 2, 1), None, true);
        assert_eq!(staged, Err(ProduceRefusal::PlainBatchInTransaction { first_offset: Offset(0) }));
    }
    assert_eq!(replica.produce(txn(1, 5, 2, 1)), Ok(2));
}

/// Between transactions plain batches pass, and sequences run on (TV1).
#[test]
fn a_plain_batch_between_transactions_passes() {
    let mut replica = Replica::new();
    assert_eq!(replica.produce(data(1, 0, 0, 2)), Ok(0));
    assert_eq!(replica.produce(txn(1, 0, 2, 1)), Ok(2));
    replica.mark(commit(1, 0, 0), Some(1)).unwrap();
    assert_eq!(replica.produce(data(1, 0, 3, 1)), Ok(4));
    // Version 2, same epoch: its transaction goes on with the sequences of plain batches.
    assert_eq!(replica.produce_v2(txn(1, 0, 4, 1)), Ok(5));
}

/// Offset commits inside a transaction come with base sequence −1: the epoch is checked, sequences are not
/// (producer-state trap 26).
#[test]
fn a_coordinators_batch_has_no_sequence() {
    let mut replica = Replica::new();
    for count in [1, 3, 2] {
        let facts = txn(1, 0, -1, count);
        let guard = replica.verify(&facts, true).unwrap();
        let staged = replica.states.stage(AppendOrigin::Coordinator, &facts, guard, true);
        assert_eq!(staged, Ok(Staged::Append));
        replica.append(facts);
    }
    let staged = replica.states.stage(AppendOrigin::Coordinator, &txn(1, -1, -1, 1), None, true);
    assert_eq!(staged.unwrap_err().code(), ErrorCode::InvalidProducerEpoch);
    // The first batch of a transaction needs its guard, as a client's does.
    let staged = replica.states.stage(AppendOrigin::Coordinator, &txn(2, 0, -1, 1), None, true);
    assert_eq!(staged, Err(ProduceRefusal::MissingVerification));
}

/// What a client's batch may not be, told before any state counts (producer-state §2).
#[test]
fn content_comes_before_state() {
    let mut replica = Replica::new();
    replica.produce(data(1, 3, 0, 1)).unwrap();
    let control = BatchFacts { content: BatchContent::OtherControl, ..txn(1, 3, 1, 1) };
    for (facts, refusal) in [
        (commit(1, 0, 0), ProduceRefusal::ControlBatch),
        (control, ProduceRefusal::ControlBatch),
        (data(1, 0, -1, 1), ProduceRefusal::NegativeSequence),
        (data(2, 0, -7, 1), ProduceRefusal::NegativeSequence),
        (data(2, -1, 1, 1), ProduceRefusal::NegativeEpoch),
        (txn(-1, -1, -1, 1), ProduceRefusal::TransactionalWithoutProducerId),
    ] {
        assert_eq!(replica.states.stage(AppendOrigin::Client, &facts, None, true), Err(refusal));
        assert_eq!(refusal.code(), ErrorCode::InvalidRecord);
    }
}

/// Replication is never refused an epoch, a sequence or a guard (producer-state trap 8).
#[test]
fn replication_is_not_refused() {
    let mut replica = Replica::new();
    replica.produce(data(1, 5, 0, 1)).unwrap();
    for facts in [data(1, 4, 9, 1), txn(1, 4, 3, 1), txn(2, 0, 7, 1), txn(1, 5, 0, 1), commit(1, 0, 0)] {
        let staged = replica.states.stage(AppendOrigin::Replication, &facts, None, true);
        assert_eq!(staged, Ok(Staged::Append));
        replica.append(facts);
    }
}

/// A refused or repeated batch changes nothing, so a segment rolled before the refusal does no harm (producer-state
/// trap 34).
#[test]
fn staging_changes_nothing() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    let before = replica.states.clone();
    for facts in [data(1, 0, 1, 1), txn(1, 0, 9, 1), txn(1, 0, 0, 1), txn(2, 0, 0, 1)] {
        let _ = replica.produce_with(facts, None);
    }
    assert_eq!(replica.mark(commit(1, 0, 0), Some(2)), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(replica.states, before);
}

/// Each refusal says in words what happened.
#[test]
fn refusals_have_words() {
    let mut replica = Replica::new();
    replica.produce(data(1, 3, 0, 1)).unwrap();
    let say = |facts| {
        let refusal = replica.states.stage(AppendOrigin::Client, &facts, None, true).unwrap_err();
        alloc::string::ToString::to_string(&refusal)
    };
    assert_eq!(say(data(1, 2, 1, 1)), "producer epoch 2 is fenced, the current one is 3");
    assert_eq!(say(data(1, 3, 5, 1)), "sequence 5 is out of order, 1 must come first");
    assert_eq!(replica.now, START);
}
