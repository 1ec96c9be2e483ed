use fencepost_types::{ErrorCode, ProducerEpoch, Sequence};

use super::{Expected, could_be_accepted, is_before};
use crate::testing::{Replica, abort, commit, data, txn};

const MAX: i32 = i32::MAX;
const OUT_OF_ORDER: Result<i64, ErrorCode> = Err(ErrorCode::OutOfOrderSequenceNumber);

/// UNKNOWN_PRODUCER_ID is gone: an unknown producer may begin anywhere, and counts from there (KIP-360, producer-state
/// trap 12).
#[test]
fn an_unknown_producer_begins_anywhere() {
    let mut replica = Replica::new();
    assert_eq!(replica.produce(data(1, 4, 17, 3)), Ok(0));
    assert_eq!(replica.produce(data(1, 4, 19, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 4, 16, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 4, 21, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 4, 20, 1)), Ok(3));
    assert_eq!(replica.produce(txn(2, 0, 9, 1)), Ok(4));
}

/// … except under version 2, where an unknown producer's transaction begins at 0 (KAFKA-18202, producer-state trap 12).
#[test]
fn under_version_2_an_unknown_producer_begins_at_0() {
    let mut replica = Replica::new();
    assert_eq!(replica.produce_v2(txn(1, 0, 3, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce_v2(txn(1, 0, 0, 1)), Ok(0));
    assert_eq!(replica.produce_v2(txn(1, 0, 1, 1)), Ok(1));
}

/// A bumped epoch begins at 0, whoever is known.
#[test]
fn a_bumped_epoch_begins_at_0() {
    let mut replica = Replica::new();
    replica.produce(data(1, 0, 0, 2)).unwrap();
    assert_eq!(replica.produce(data(1, 1, 2, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 3, 0, 1)), Ok(2));
    assert_eq!(replica.produce(data(1, 3, 1, 1)), Ok(3));
}

/// After 2147483647 comes 0, at a boundary and inside a batch, and derived first sequences wrap back (producer-state
/// trap 15).
#[test]
fn sequences_wrap() {
    let mut replica = Replica::new();
    assert_eq!(replica.produce(data(1, 0, MAX, 1)), Ok(0));
    assert_eq!(replica.produce(data(1, 0, 0, 1)), Ok(1));
    assert_eq!(replica.produce(data(2, 0, MAX - 1, 4)), Ok(2));
    assert_eq!(replica.produce(data(2, 0, MAX - 1, 4)), Ok(2));
    assert_eq!(replica.produce(data(2, 0, 2, 1)), Ok(6));
    assert_eq!(replica.produce(data(3, 0, MAX - 1, 1)), Ok(7));
    assert_eq!(replica.produce(data(3, 0, 0, 1)), OUT_OF_ORDER);
}

/// A marker of the same epoch keeps the sequences, one of a new epoch starts them again (producer-state trap 9).
#[test]
fn a_marker_keeps_or_restarts_sequences() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 2)).unwrap();
    replica.mark(commit(1, 0, 0), Some(1)).unwrap();
    assert_eq!(replica.produce(txn(1, 0, 0, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce(txn(1, 0, 2, 1)), Ok(3));
    replica.mark(commit(1, 1, 0), Some(2)).unwrap();
    assert_eq!(replica.produce_v2(txn(1, 1, 3, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce_v2(txn(1, 1, 0, 1)), Ok(5));
}

/// The present epoch with an empty window accepts 0 alone (producer-state §4).
#[test]
fn an_empty_window_expects_0() {
    let mut replica = Replica::new();
    replica.mark(abort(1, 4, 0), Some(0)).unwrap();
    assert_eq!(replica.produce(data(1, 4, 1, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce(data(1, 4, 0, 1)), Ok(1));
}

/// After a failed verification a higher sequence of an unknown producer waits for the lowest one (KAFKA-14920,
/// producer-state trap 20).
#[test]
fn the_lowest_sequence_comes_first() {
    let mut replica = Replica::new();
    replica.verify(&txn(1, 0, 5, 2), false).unwrap();
    replica.verify(&txn(1, 0, 4, 1), false).unwrap();
    assert_eq!(replica.produce(txn(1, 0, 5, 2)), OUT_OF_ORDER);
    assert_eq!(replica.produce(txn(1, 0, 4, 1)), Ok(0));
    assert_eq!(replica.produce(txn(1, 0, 5, 2)), Ok(1));
}

/// … across the wrap as well: 2147483647 goes before 0. Differs from Kafka, where neither is ever accepted
/// (producer-state trap 20).
#[test]
fn the_lowest_sequence_is_told_across_the_wrap() {
    let mut replica = Replica::new();
    replica.produce(data(1, 0, MAX - 1, 1)).unwrap();
    for producer_id in [1, 2] {
        replica.verify(&txn(producer_id, 0, MAX, 1), false).unwrap();
        replica.verify(&txn(producer_id, 0, 0, 1), false).unwrap();
        assert_eq!(replica.produce(txn(producer_id, 0, 0, 1)), OUT_OF_ORDER);
        assert!(replica.produce(txn(producer_id, 0, MAX, 1)).is_ok());
        assert!(replica.produce(txn(producer_id, 0, 0, 1)).is_ok());
    }
}

/// TV1: the late retry of a batch that is written, come after its marker, does not keep the next transaction out.
/// Differs from Kafka (producer-state §4, producer-state trap 20).
#[test]
fn a_written_sequence_holds_nobody_up() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.mark(commit(1, 0, 0), Some(1)).unwrap();
    // The coordinator refuses this one: the transaction is over.
    replica.verify(&txn(1, 0, 0, 1), false).unwrap();
    assert_eq!(replica.produce(txn(1, 0, 1, 1)), Ok(2));
    assert_eq!(replica.produce(txn(1, 0, 1, 1)), Ok(2));
}

/// A refused low sequence does not keep the right one out. Differs from Kafka (producer-state §4, producer-state trap 20).
#[test]
fn a_refused_sequence_holds_nobody_up() {
    let mut replica = Replica::new();
    replica.produce(data(1, 0, 0, 2)).unwrap();
    assert_eq!(replica.produce_v2(txn(1, 0, 1, 1)), OUT_OF_ORDER);
    assert_eq!(replica.produce_v2(txn(1, 0, 2, 1)), Ok(2));
}

/// A sequence that waits, and is then written as a plain batch, holds nobody up either.
#[test]
fn a_sequence_written_meanwhile_holds_nobody_up() {
    let mut replica = Replica::new();
    replica.verify(&txn(1, 0, 5, 1), false).unwrap();
    replica.produce(data(1, 0, 5, 1)).unwrap();
    assert_eq!(replica.produce(txn(1, 0, 6, 1)), Ok(1));
}

/// A higher epoch takes its own lowest sequence along (producer-state §6.2).
#[test]
fn a_higher_epoch_brings_its_own_lowest_sequence() {
    let mut replica = Replica::new();
    replica.verify(&txn(1, 0, 2, 1), false).unwrap();
    replica.verify(&txn(1, 1, 7, 1), false).unwrap();
    let entry = replica.states.verification(fencepost_types::ProducerId(1)).unwrap();
    assert_eq!((entry.producer_epoch, entry.lowest_sequence), (ProducerEpoch(1), Some(Sequence(7))));
    replica.verify(&txn(1, 0, 1, 1), false).unwrap();
    let entry = replica.states.verification(fencepost_types::ProducerId(1)).unwrap();
    assert_eq!((entry.producer_epoch, entry.lowest_sequence), (ProducerEpoch(1), Some(Sequence(7))));
    assert_eq!(replica.produce(txn(1, 1, 7, 1)), Ok(0));
}

/// Before and after on the circle: less than half way round is after.
#[test]
fn order_on_the_circle() {
    assert!(is_before(Sequence(4), Sequence(5)));
    assert!(is_before(Sequence(MAX), Sequence(0)));
    assert!(!is_before(Sequence(0), Sequence(MAX)));
    assert!(!is_before(Sequence(3), Sequence(3)));
    assert!(could_be_accepted(Expected::Exactly(Sequence(MAX)), Sequence(2)));
    assert!(!could_be_accepted(Expected::Exactly(Sequence(2)), Sequence(MAX)));
    assert!(!could_be_accepted(Expected::Any, Sequence::NONE));
}
