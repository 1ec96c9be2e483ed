use fencepost_types::{ErrorCode, Millis, ProducerId};

use crate::testing::{Replica, START, abort, commit, txn};

const NOT_IN_TRANSACTION: Result<i64, ErrorCode> = Err(ErrorCode::InvalidTxnState);

/// Batches that wait at the same time share a guard; the append of one uses it up, and the others then find the
/// transaction open.
#[test]
fn first_batches_share_a_guard() {
    let mut replica = Replica::new();
    let one = replica.verify(&txn(1, 0, 0, 1), false).unwrap();
    let two = replica.verify(&txn(1, 0, 1, 1), false).unwrap();
    assert!(one.is_some());
    assert_eq!(one, two);
    assert_ne!(replica.verify(&txn(2, 0, 0, 1), false).unwrap(), one);
    assert_eq!(replica.produce_with(txn(1, 0, 0, 1), one), Ok(0));
    assert_eq!(replica.states.verification(ProducerId(1)), None);
    assert_eq!(replica.produce_with(txn(1, 0, 1, 1), two), Ok(1));
}

/// No guard, no append; a guard of another producer is none.
#[test]
fn the_guard_must_match() {
    let mut replica = Replica::new();
    let other = replica.verify(&txn(2, 0, 0, 1), false).unwrap();
    assert_eq!(replica.produce_with(txn(1, 0, 0, 1), None), NOT_IN_TRANSACTION);
    replica.verify(&txn(1, 0, 0, 1), false).unwrap();
    assert_eq!(replica.produce_with(txn(1, 0, 0, 1), None), NOT_IN_TRANSACTION);
    assert_eq!(replica.produce_with(txn(1, 0, 0, 1), other), NOT_IN_TRANSACTION);
}

/// Verified, then aborted before the append: the marker takes the guard with it, so nothing hangs (producer-state
/// trap 19, §6.5).
#[test]
fn a_marker_ends_the_verification() {
    for epoch in [0, 1] {
        let mut replica = Replica::new();
        let guard = replica.verify(&txn(1, 0, 0, 1), false).unwrap();
        replica.mark(abort(1, epoch, 0), Some(0)).unwrap();
        assert_eq!(replica.states.verification(ProducerId(1)), None);
        let expected = if epoch == 0 { ErrorCode::InvalidTxnState } else { ErrorCode::InvalidProducerEpoch };
        assert_eq!(replica.produce_with(txn(1, 0, 0, 1), guard), Err(expected));
    }
}

/// The same, and the next transaction is being verified already: its guard is another one (KAFKA-14884).
#[test]
fn an_old_answer_does_not_open_the_next_transaction() {
    let mut replica = Replica::new();
    let old = replica.verify(&txn(1, 0, 0, 1), false).unwrap();
    replica.mark(abort(1, 0, 0), Some(0)).unwrap();
    let new = replica.verify(&txn(1, 0, 0, 1), false).unwrap();
    assert_eq!(replica.produce_with(txn(1, 0, 0, 1), old), NOT_IN_TRANSACTION);
    assert_eq!(replica.produce_with(txn(1, 0, 0, 1), new), Ok(1));
}

/// Version 2: the marker of transaction n carries the epoch of n + 1 and spares the verification of n + 1; a marker of
/// a higher epoch does not (KAFKA-18654, producer-state trap 19).
#[test]
fn a_version_2_marker_spares_the_next_verification() {
    let mut replica = Replica::new();
    replica.produce_v2(txn(1, 0, 0, 1)).unwrap();
    let next = replica.verify(&txn(1, 1, 0, 1), true).unwrap();
    replica.mark(commit(1, 1, 0), Some(2)).unwrap();
    assert_eq!(replica.produce_with(txn(1, 1, 0, 1), next), Ok(2));

    let third = replica.verify(&txn(1, 2, 0, 1), true).unwrap();
    replica.mark(abort(1, 3, 0), Some(2)).unwrap();
    assert_eq!(replica.states.verification(ProducerId(1)), None);
    assert_eq!(replica.produce_with(txn(1, 2, 0, 1), third), Err(ErrorCode::InvalidProducerEpoch));
}

/// Under version 1 the marker's epoch is the entry's as well, and ends it: the exception is version 2's alone.
#[test]
fn a_version_1_marker_spares_nothing() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.verify(&txn(1, 1, 0, 1), false).unwrap();
    replica.mark(commit(1, 1, 0), Some(1)).unwrap();
    assert_eq!(replica.states.verification(ProducerId(1)), None);
}

/// Created at, guard and version of an entry never change while it lives (producer-state §6.2, trap 21).
#[test]
fn an_entry_keeps_what_it_began_with() {
    let mut replica = Replica::new();
    let guard = replica.verify(&txn(1, 0, 5, 1), false).unwrap();
    replica.now = START.plus(100);
    assert_eq!(replica.verify(&txn(1, 1, 4, 1), true).unwrap(), guard);
    let entry = replica.states.verification(ProducerId(1)).unwrap();
    assert_eq!((entry.created_at, entry.supports_epoch_bump), (START, false));
}

/// Verifications expire by the time they began, not by their last retry (producer-state trap 21).
#[test]
fn verifications_expire_by_their_beginning() {
    let mut replica = Replica::new();
    replica.verify(&txn(1, 0, 0, 1), false).unwrap();
    replica.now = START.plus(999);
    replica.verify(&txn(1, 0, 0, 1), false).unwrap();
    assert_eq!(replica.states.expire(replica.now, 1000).verifications, 0);
    assert_eq!(replica.states.expire(START.plus(1000), 1000).verifications, 1);
    assert_eq!(replica.states.verification(ProducerId(1)), None);
}

/// Verifications survive truncation, and are not in a snapshot (producer-state §12, P6).
#[test]
fn verifications_survive_a_rebuild_but_not_a_restart() {
    let mut replica = Replica::new();
    let guard = replica.verify(&txn(1, 0, 0, 1), false).unwrap();
    let bytes = replica.states.encode_snapshot();
    replica.states.load_snapshot(&bytes, replica.end, Millis(0), 1000).unwrap();
    assert_eq!(replica.produce_with(txn(1, 0, 0, 1), guard), Ok(0));
    replica.verify(&txn(2, 0, 0, 1), false).unwrap();
    replica.restart();
    assert_eq!(replica.states.verification(ProducerId(2)), None);
}

/// A plain batch of the producer does not touch its verification.
#[test]
fn a_plain_batch_spares_the_verification() {
    let mut replica = Replica::new();
    let guard = replica.verify(&txn(1, 0, 1, 1), false).unwrap();
    replica.produce(crate::testing::data(1, 0, 0, 1)).unwrap();
    assert_eq!(replica.produce_with(txn(1, 0, 1, 1), guard), Ok(1));
}
