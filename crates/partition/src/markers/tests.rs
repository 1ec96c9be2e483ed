use fencepost_types::{CoordinatorEpoch, ErrorCode, Offset, ProducerEpoch, ProducerId, TransactionResult};

use super::MarkerRefusal;
use crate::testing::{Replica, abort, commit, data, txn};
use crate::{AppendOrigin, BatchContent, BatchFacts, CompletedTxn, Marker};

const LATE: Option<ErrorCode> = Some(ErrorCode::InvalidProducerEpoch);

/// Error of a commit marker with `epoch`, for a producer known at epoch 5.
fn answer(open: bool, version: Option<i8>, epoch: i16) -> Option<ErrorCode> {
    let mut replica = Replica::new();
    replica.produce(if open { txn(1, 5, 0, 1) } else { data(1, 5, 0, 1) }).unwrap();
    replica.mark(commit(1, epoch, 0), version).err()
}

/// The acceptance table of producer-state §7.2, KIP-1228 (producer-state traps 4, 5, 7): "greater", not "one more"; an equal
/// epoch with nothing open is a retry (KAFKA-19999); no version field means legacy; 3 to 127 are strict.
#[test]
fn acceptance_by_version_and_epoch() {
    for version in [None, Some(0), Some(1)] {
        for open in [true, false] {
            assert_eq!(answer(open, version, 4), LATE);
            assert_eq!(answer(open, version, 5), None);
            assert_eq!(answer(open, version, 6), None);
        }
    }
    for version in [Some(2), Some(3), Some(127)] {
        assert_eq!(answer(true, version, 4), LATE);
        assert_eq!(answer(true, version, 5), LATE);
        assert_eq!(answer(true, version, 6), None);
        assert_eq!(answer(true, version, 90), None);
        assert_eq!(answer(false, version, 4), LATE);
        assert_eq!(answer(false, version, 5), None);
        assert_eq!(answer(false, version, 6), None);
    }
}

/// A producer at the last epoch ends its transaction at that epoch, strict rule or not (KAFKA-20090); 32767 is legal in
/// markers and in the table (producer-state trap 40).
#[test]
fn the_last_epoch_may_end_its_own_transaction() {
    let mut replica = Replica::new();
    replica.produce(txn(1, i16::MAX, 0, 1)).unwrap();
    assert!(replica.mark(abort(1, i16::MAX, 0), Some(2)).unwrap().is_some());
    assert_eq!(replica.mark(abort(1, i16::MAX, 0), Some(2)), Ok(None));
    assert_eq!(replica.produce(data(1, i16::MAX, 1, 1)), Ok(3));
    assert_eq!(replica.produce(data(1, i16::MAX - 1, 0, 1)), Err(ErrorCode::InvalidProducerEpoch));
}

/// Negative versions, epochs and producer ids are INVALID_REQUEST, whatever else is wrong. Differs from Kafka.
#[test]
fn negative_numbers_are_invalid() {
    for version in [-1, -2, -128] {
        for epoch in [4, 5, 6] {
            assert_eq!(answer(true, Some(version), epoch), Some(ErrorCode::InvalidRequest));
        }
    }
    assert_eq!(answer(true, Some(2), -1), Some(ErrorCode::InvalidRequest));
    let mut replica = Replica::new();
    assert_eq!(replica.mark(abort(-1, 0, 0), Some(0)), Err(ErrorCode::InvalidRequest));
    assert_eq!(replica.mark(abort(1, -1, 0), None), Err(ErrorCode::InvalidRequest));
    assert!(replica.states.is_empty());
}

/// A retried marker is written again, ends nothing, and stores the newer coordinator epoch (producer-state traps 4, 6).
#[test]
fn a_retried_marker_is_written_again() {
    let mut replica = Replica::new();
    replica.produce_v2(txn(1, 0, 0, 1)).unwrap();
    let completed = CompletedTxn {
        producer_id: ProducerId(1),
        first_offset: Offset(0),
        last_offset: Offset(1),
        is_aborted: false,
    };
    assert_eq!(replica.mark(commit(1, 1, 3), Some(2)), Ok(Some(completed)));
    assert_eq!(replica.mark(commit(1, 1, 4), Some(2)), Ok(None));
    let entry = replica.states.producer(ProducerId(1)).unwrap();
    assert_eq!(entry.coordinator_epoch, CoordinatorEpoch(4));
    assert_eq!(replica.end, Offset(3));
    assert!(replica.aborted.is_empty());
}

/// Version 2: the late marker of the transaction before finds the next one open, and cannot end it (producer-state
/// §7.5).
#[test]
fn a_late_version_2_marker_spares_the_next_transaction() {
    let mut replica = Replica::new();
    replica.produce_v2(txn(1, 0, 0, 1)).unwrap();
    replica.mark(commit(1, 1, 0), Some(2)).unwrap();
    replica.produce_v2(txn(1, 1, 0, 1)).unwrap();
    assert_eq!(replica.mark(commit(1, 1, 0), Some(2)), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(replica.states.open_transaction_count(), 1);
}

/// Version 1: the late marker does end the next transaction; the leader cannot tell (producer-state trap 39).
#[test]
fn a_late_version_1_marker_ends_the_next_transaction() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.mark(commit(1, 0, 0), Some(1)).unwrap();
    replica.produce(txn(1, 0, 1, 1)).unwrap();
    let completed = replica.mark(commit(1, 0, 0), Some(1)).unwrap().unwrap();
    assert_eq!(completed.first_offset, Offset(2));
}

/// An administrator's abort has no version field and the transaction's own epoch: it ends a hanging transaction of
/// version 2, too (producer-state trap 7).
#[test]
fn an_admin_abort_ends_a_hanging_transaction() {
    let mut replica = Replica::new();
    replica.produce_v2(txn(1, 3, 0, 1)).unwrap();
    let completed = replica.mark(abort(1, 3, 0), None).unwrap().unwrap();
    assert!(completed.is_aborted);
    assert_eq!(replica.aborted.len(), 1);
}

/// A marker for an unknown producer makes an entry: the fence reaches a partition that never saw it (producer-state
/// trap 11).
#[test]
fn a_marker_makes_an_entry() {
    let mut replica = Replica::new();
    assert_eq!(replica.mark(abort(1, 7, 2), Some(2)), Ok(None));
    assert_eq!(replica.produce(data(1, 6, 0, 1)), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(replica.verify(&txn(1, 6, 0, 1), true), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(replica.produce(data(1, 7, 0, 1)), Ok(1));
}

/// Coordinator epochs: equal passes, lower is fenced, kept per producer, and survives a restart (producer-state
/// trap 10). A fenced marker leaves the transaction open.
#[test]
fn a_lower_coordinator_epoch_is_fenced() {
    let mut replica = Replica::new();
    let fenced = Err(ErrorCode::TransactionCoordinatorFenced);
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.mark(commit(1, 0, 5), Some(1)).unwrap();
    replica.produce(txn(1, 0, 1, 1)).unwrap();
    assert_eq!(replica.mark(commit(1, 0, 4), Some(1)), fenced);
    assert_eq!(replica.states.open_transaction_count(), 1);
    assert!(replica.mark(commit(1, 0, 5), Some(1)).is_ok());
    assert!(replica.mark(commit(2, 0, 0), Some(1)).is_ok());
    replica.restart();
    assert_eq!(replica.mark(commit(1, 0, 4), Some(1)), fenced);
}

/// The producer epoch is looked at before the coordinator epoch (producer-state §7.2).
#[test]
fn the_producer_epoch_comes_first() {
    let mut replica = Replica::new();
    replica.mark(commit(1, 3, 5), Some(1)).unwrap();
    let stage = |epoch, coordinator_epoch| {
        let (id, epoch) = (ProducerId(1), ProducerEpoch(epoch));
        let origin = AppendOrigin::Coordinator;
        replica.states.stage_marker(origin, id, epoch, CoordinatorEpoch(coordinator_epoch), Some(2))
    };
    let (current, found) = (ProducerEpoch(3), ProducerEpoch(2));
    assert_eq!(stage(2, 4), Err(MarkerRefusal::InvalidProducerEpoch { current, found }));
    let (current, found) = (CoordinatorEpoch(5), CoordinatorEpoch(4));
    assert_eq!(stage(3, 4), Err(MarkerRefusal::CoordinatorFenced { current, found }));
}

/// Replication applies what the log says: lower producer epochs, lower coordinator epochs, repeated markers
/// (producer-state traps 6, 8).
#[test]
fn replication_applies_every_marker() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 5, 0, 1)).unwrap();
    let (id, epoch, coordinator_epoch) = (ProducerId(1), ProducerEpoch(2), CoordinatorEpoch(0));
    for version in [None, Some(2), Some(-1)] {
        let origin = AppendOrigin::Replication;
        assert_eq!(replica.states.stage_marker(origin, id, epoch, coordinator_epoch, version), Ok(()));
    }
    replica.append(commit(1, 5, 9));
    replica.append(commit(1, 5, 9));
    replica.append(commit(1, 2, 1));
    let entry = replica.states.producer(id).unwrap();
    assert_eq!((entry.producer_epoch, entry.coordinator_epoch), (epoch, CoordinatorEpoch(1)));
    assert!(entry.batches.is_empty());
}

/// A control batch that compaction emptied, or of another type, closes nothing and makes no entry (producer-state
/// trap 36).
#[test]
fn an_empty_control_batch_closes_nothing() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    let before = replica.states.describe_producers().collect::<alloc::vec::Vec<_>>();
    for producer_id in [1, 2] {
        let empty = BatchFacts { content: BatchContent::OtherControl, ..commit(producer_id, 3, 0) };
        assert_eq!(replica.append(empty), None);
    }
    assert_eq!(replica.states.describe_producers().collect::<alloc::vec::Vec<_>>(), before);
    assert_eq!(replica.states.map_end_offset(), replica.end);
}

/// A batch with a marker inside is judged by `stage_marker`; `stage` lets it pass for those who may write it.
#[test]
fn a_marker_is_no_data() {
    let replica = Replica::new();
    let facts = commit(1, 0, 0);
    let marker = Marker { result: TransactionResult::Commit, coordinator_epoch: CoordinatorEpoch(0) };
    assert_eq!(facts.content, BatchContent::Marker(marker));
    let staged = replica.states.stage(AppendOrigin::Replication, &facts, None, true);
    assert_eq!(staged, Ok(crate::Staged::Append));
}
