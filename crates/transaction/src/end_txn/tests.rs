use alloc::vec::Vec;

use crate::testing::*;
use crate::*;
use fencepost_types::{Millis, ProducerEpoch, ProducerId, TransactionResult, TransactionVersion};

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

/// Epochs and producer ids of one row: current, last, stale, future, foreign producer id.
const PRODUCERS: [(ProducerId, i16); 5] = [(P, 5), (P, 4), (P, 3), (P, 6), (STRANGER, 5)];

fn row(
    state: TransactionState,
    result: TransactionResult,
    version: TransactionVersion,
) -> Vec<alloc::string::String> {
    let txn = txn_in(state, version);
    PRODUCERS.iter().map(|producer| decided(&txn, &end(*producer, result, version))).collect()
}

/// §9.2: every state by every producer and both results, under versions 0 and 1. Completing is told after the
/// producer was checked, and then whatever is asked for.
#[test]
fn every_state_under_version_0() {
    const INVALID: &str = "INVALID_TXN_STATE";
    const CONCURRENT: &str = "CONCURRENT_TRANSACTIONS";
    for (state, commit, abort) in [
        (Empty, INVALID, INVALID),
        (Ongoing, "PrepareCommit: NONE", "PrepareAbort: NONE"),
        (PrepareCommit, CONCURRENT, CONCURRENT),
        (PrepareAbort, CONCURRENT, CONCURRENT),
        (CompleteCommit, "NONE", INVALID),
        (CompleteAbort, INVALID, "NONE"),
    ] {
        for (result, current) in [(Commit, commit), (Abort, abort)] {
            for version in [V0, V1] {
                let fenced = "PRODUCER_FENCED";
                let expected = [current, fenced, fenced, fenced, "INVALID_PRODUCER_ID_MAPPING"];
                assert_eq!(row(state, result, version), expected, "{state} {result:?} {version:?}");
            }
        }
    }
}

/// §9.3: every state by every producer and both results, under version 2. While completing, nothing else matters
/// (coordinator trap 2); a commit at the epoch before an abort is fenced (coordinator trap 11, KAFKA-20785); an abort
/// at the current epoch of a complete transaction is a new one that raises the epoch (coordinator trap 12).
#[test]
fn every_state_under_version_2() {
    const FENCED: &str = "PRODUCER_FENCED";
    const INVALID: &str = "INVALID_TXN_STATE";
    const MAPPING: &str = "INVALID_PRODUCER_ID_MAPPING";
    let bump = "PrepareAbort: NONE 100/6";
    for (state, result, current, retry) in [
        (Empty, Commit, INVALID, FENCED),
        (Empty, Abort, bump, FENCED),
        (Ongoing, Commit, "PrepareCommit: NONE 100/6", FENCED),
        (Ongoing, Abort, bump, FENCED),
        (CompleteCommit, Commit, INVALID, "NONE 100/5"),
        (CompleteCommit, Abort, bump, INVALID),
        (CompleteAbort, Commit, INVALID, FENCED),
        (CompleteAbort, Abort, bump, "NONE 100/5"),
    ] {
        let expected = [current, retry, FENCED, FENCED, MAPPING];
        assert_eq!(row(state, result, V2), expected, "{state} {result:?}");
    }
    for state in [PrepareCommit, PrepareAbort] {
        for result in [Commit, Abort] {
            assert_eq!(row(state, result, V2), ["CONCURRENT_TRANSACTIONS"; 5], "{state} {result:?}");
        }
    }
}

/// §9.3: the last epoch of the producer id that was replaced is a retry, in the two complete states only. Everything else
/// of version 2 that names it is fenced.
#[test]
fn every_state_after_a_rotation() {
    const MAPPING: &str = "INVALID_PRODUCER_ID_MAPPING";
    const V: ProducerId = ProducerId(90);
    for (state, commit, abort) in [
        (Empty, "PRODUCER_FENCED", "PRODUCER_FENCED"),
        (Ongoing, "PRODUCER_FENCED", "PRODUCER_FENCED"),
        (CompleteCommit, "NONE 100/0", "INVALID_TXN_STATE"),
        (CompleteAbort, "PRODUCER_FENCED", "NONE 100/0"),
    ] {
        let mut txn = txn_at(state, V2, 0);
        (txn.previous_producer_id, txn.last_producer_epoch) = (V, ProducerEpoch(32766));
        txn.replaced_producer_id = V;
        for (result, answer) in [(Commit, commit), (Abort, abort)] {
            assert_eq!(decided(&txn, &end((V, 32766), result, V2)), answer, "{state} {result:?}");
            assert_eq!(decided(&txn, &end((V, 32765), result, V2)), "PRODUCER_FENCED");
            assert_eq!(decided(&txn, &end((V, 0), result, V2)), "PRODUCER_FENCED");
            assert_eq!(decided(&txn, &end((P, 32766), result, V2)), "PRODUCER_FENCED");
            assert_eq!(decided(&txn, &end((V, 32766), result, V0)), MAPPING);
            txn.producer_epoch = ProducerEpoch(1);
            assert_eq!(decided(&txn, &end((V, 32766), result, V2)), "PRODUCER_FENCED");
            txn.producer_epoch = ProducerEpoch(0);
        }
    }
}

/// §9.1: unknown and empty ids.
#[test]
fn unknown_and_empty_ids_are_refused() {
    let mut coordinator = Coordinator::new();
    for version in [V0, V2] {
        for (id, answer) in [("", "INVALID_REQUEST"), ("nobody", "INVALID_PRODUCER_ID_MAPPING")] {
            let mut request = end((P, 0), Commit, version);
            if let Request::EndTxn(inner) = &mut request {
                inner.transactional_id = TransactionalId::from(id);
            }
            assert_eq!(word(&coordinator.ask(&request)), answer);
        }
    }
}

/// coordinator trap 4: the decision alone answers the client; no marker has been written, and nothing is complete.
#[test]
fn the_decision_is_the_commit_point() {
    let mut coordinator = Coordinator::with(V2, txn_in(Ongoing, V2));
    assert_eq!(coordinator.end((P, 5), Commit, V2), "NONE 100/6");
    assert_eq!(coordinator.state(), (PrepareCommit, P, 6));
    assert_eq!(coordinator.shard.markers_owed().count(), 1);
}

/// §9.3, the Prepare image: the epoch rises, the one before is the last one, the rest stays.
#[test]
fn what_version_2_prepares() {
    let before = txn_in(Ongoing, V0);
    let mut coordinator = Coordinator::with(V2, before.clone());
    coordinator.end((P, 5), Abort, V2);
    let expected = TxnMetadata {
        state: PrepareAbort,
        producer_epoch: ProducerEpoch(6),
        last_producer_epoch: ProducerEpoch(5),
        last_update: Millis(T),
        client_transaction_version: V2,
        ..before
    };
    assert_eq!(coordinator.txn(), &expected);
}

/// §9.2, the Prepare image: producer id, epoch and last epoch stay; the version is that of the request.
#[test]
fn what_version_0_prepares() {
    let before = txn_in(Ongoing, V2);
    let mut coordinator = Coordinator::with(V2, before.clone());
    assert_eq!(coordinator.end((P, 5), Commit, V0), "NONE");
    let expected = TxnMetadata {
        state: PrepareCommit,
        last_update: Millis(T),
        client_transaction_version: V0,
        ..before
    };
    assert_eq!(coordinator.txn(), &expected);
}

/// §9.5: what completion keeps and what it clears.
#[test]
fn what_completion_makes() {
    for (version, state, complete) in [
        (V0, PrepareCommit, CompleteCommit),
        (V2, PrepareCommit, CompleteCommit),
        (V0, PrepareAbort, CompleteAbort),
        (V2, PrepareAbort, CompleteAbort),
    ] {
        let before = txn_in(state, version);
        let expected = TxnMetadata {
            state: complete,
            partitions: Default::default(),
            last_update: Millis(T),
            ..before.clone()
        };
        assert_eq!(before.completed(Millis(T)), expected);
        let rotating = TxnMetadata { next_producer_id: FRESH, producer_epoch: ProducerEpoch::MAX, ..before };
        let after = rotating.completed(Millis(T));
        let rotated = (after.producer_id, after.producer_epoch, after.previous_producer_id);
        assert_eq!(after.next_producer_id, ProducerId::NONE);
        if version == V2 {
            assert_eq!(rotated, (FRESH, ProducerEpoch(0), P));
        } else {
            assert_eq!(rotated, (P, ProducerEpoch::MAX, P));
        }
    }
}

/// §8, coordinator trap 5: at epoch 32766 the answer names the pair that holds after completion, while the state still
/// shows the old producer id at 32767; a retry gets the same, before (it is asked to wait) and after.
#[test]
fn an_exhausted_epoch_rotates() {
    for (result, prepare, complete) in
        [(Commit, PrepareCommit, CompleteCommit), (Abort, PrepareAbort, CompleteAbort)]
    {
        let mut coordinator = Coordinator::with(V2, txn_at(Ongoing, V2, 32766));
        assert_eq!(coordinator.ask(&end((P, 32766), result, V2)), Err(Refusal::ProducerIdNeeded));
        assert_eq!(coordinator.end((P, 32766), result, V2), "NONE 101/0");
        assert_eq!(coordinator.state(), (prepare, P, 32767));
        let owed = coordinator.shard.markers_owed_by(TX).expect("markers are owed");
        assert_eq!((owed.producer_id, owed.producer_epoch), (P, ProducerEpoch::MAX));
        assert_eq!(coordinator.end((P, 32766), result, V2), "CONCURRENT_TRANSACTIONS");
        coordinator.restart();
        coordinator.settle();
        assert_eq!(coordinator.state(), (complete, FRESH, 0));
        assert_eq!(coordinator.end((P, 32766), result, V2), "NONE 101/0");
        coordinator.restart();
        assert_eq!(coordinator.end((P, 32766), result, V2), "NONE 101/0");
        assert_eq!(coordinator.init(Some((P, 32766))), "NONE 101/0");
        assert_eq!(coordinator.end((FRESH, 32766), result, V2), "PRODUCER_FENCED");
    }
}

/// coordinator trap 13: an abort of nothing starts now, so its completion has a start to keep.
#[test]
fn an_abort_of_nothing_has_a_start() {
    for state in [Empty, CompleteCommit, CompleteAbort] {
        let mut coordinator = Coordinator::with(V2, txn_in(state, V2));
        assert_eq!(coordinator.end((P, 5), Abort, V2), "NONE 100/6");
        assert_eq!(coordinator.txn().start, Millis(T));
        assert!(coordinator.txn().partitions.is_empty());
        assert_eq!(coordinator.tick(), [TickOutcome::Completed(TransactionalId::from(TX))]);
        assert_eq!(coordinator.state(), (CompleteAbort, P, 6));
        assert_eq!(coordinator.txn().start, Millis(T));
    }
}

/// coordinator trap 12 (KAFKA-14563): an abort of nothing moves the epoch on, so that a produce of the epoch before,
/// arriving late, is fenced.
#[test]
fn an_abort_of_nothing_fences_a_late_produce() {
    let mut coordinator = Coordinator::new();
    coordinator.init(None);
    coordinator.finish((P, 0), Abort, V2);
    assert_eq!(word(&coordinator.ask(&add((P, 0), &[0], V2))), "PRODUCER_FENCED");
    assert_eq!(coordinator.end((P, 0), Abort, V2), "NONE 100/1");
    assert_eq!(coordinator.end((P, 0), Commit, V2), "PRODUCER_FENCED");
    coordinator.finish((P, 1), Abort, V2);
    assert_eq!(coordinator.state(), (CompleteAbort, P, 2));
}

/// §9.1: the version of the request alone decides, whatever opened the transaction.
#[test]
fn versions_meet() {
    let mut one = Coordinator::with(V2, txn_in(Ongoing, V0));
    one.finish((P, 5), Commit, V2);
    assert_eq!(one.written(1), ["PrepareCommit 100/6 TV2", "CompleteCommit 100/6 TV2"]);
    // A client that goes back to version 4 is fenced with its old epoch.
    assert_eq!(one.end((P, 5), Commit, V0), "PRODUCER_FENCED");
    assert_eq!(one.end((P, 6), Commit, V0), "NONE");
    let mut two = Coordinator::with(V2, txn_in(Ongoing, V2));
    two.finish((P, 5), Commit, V0);
    assert_eq!(two.written(1), ["PrepareCommit 100/5", "CompleteCommit 100/5"]);
}

/// Version 0's hazard, which version 2 removes: a commit that comes late commits the next transaction.
#[test]
fn a_late_commit_ends_the_next_transaction_under_version_0_only() {
    let mut zero = Coordinator::with(V2, txn_in(CompleteCommit, V0));
    zero.add((P, 5), &[0], V0);
    assert_eq!(zero.end((P, 5), Commit, V0), "NONE");
    let mut two = Coordinator::with(V2, txn_in(CompleteCommit, V2));
    two.add((P, 5), &[0], V2);
    assert_eq!(two.end((P, 4), Commit, V2), "PRODUCER_FENCED");
    assert_eq!(two.end((P, 4), Abort, V2), "PRODUCER_FENCED");
}

/// KAFKA-18227: after a commit of version 2 whose answer got lost, InitProducerId with the old epoch gives the raised
/// one, once more.
#[test]
fn a_lost_answer_is_found_by_init_producer_id() {
    let mut coordinator = Coordinator::with(V2, txn_at(Ongoing, V2, 0));
    coordinator.finish((P, 0), Commit, V2);
    assert_eq!(coordinator.init(Some((P, 0))), "NONE 100/1");
    assert_eq!(coordinator.init(Some((P, 0))), "NONE 100/1");
    assert_eq!(coordinator.end((P, 0), Commit, V2), "PRODUCER_FENCED");
}
