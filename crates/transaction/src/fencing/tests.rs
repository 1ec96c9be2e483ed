use crate::testing::*;
use crate::*;
use fencepost_coordinator::{Shard, Token};
use fencepost_types::{Millis, ProducerEpoch, ProducerId, TransactionVersion};

use TransactionState::{CompleteAbort, Empty, Ongoing, PrepareAbort};

fn timed_out(level: TransactionVersion, txn: TxnMetadata) -> Coordinator {
    let mut coordinator = Coordinator::with(level, txn);
    coordinator.now = at(60_000);
    coordinator.tick();
    coordinator
}

/// §9.4, the record: one epoch more; the finalized level decides the rest, whatever opened the transaction.
#[test]
fn what_the_coordinator_prepares() {
    for opened in [V0, V2] {
        let before = txn_in(Ongoing, opened);
        let after = timed_out(V2, before.clone());
        let expected = TxnMetadata {
            state: PrepareAbort,
            producer_epoch: ProducerEpoch(6),
            last_producer_epoch: ProducerEpoch(5),
            last_update: Millis(T + 60_000),
            client_transaction_version: V2,
            ..before.clone()
        };
        assert_eq!(after.txn(), &expected, "{opened:?}");
        let after = timed_out(V1, before);
        let expected = TxnMetadata {
            last_producer_epoch: ProducerEpoch::NONE,
            client_transaction_version: V0,
            ..expected
        };
        assert_eq!(after.txn(), &expected, "{opened:?}");
    }
}

/// §9.4, the old producer afterwards, at level 2: its EndTxn of version 2 learns of the abort, and so does its
/// InitProducerId.
#[test]
fn the_old_producer_learns_of_the_abort_at_level_2() {
    let mut coordinator = timed_out(V2, txn_in(Ongoing, V0));
    coordinator.settle();
    assert_eq!(coordinator.state(), (CompleteAbort, P, 6));
    assert_eq!(coordinator.end((P, 5), Abort, V2), "NONE 100/6");
    assert_eq!(coordinator.end((P, 5), Commit, V2), "PRODUCER_FENCED");
    assert_eq!(coordinator.end((P, 6), Commit, V2), "INVALID_TXN_STATE");
    for result in [Commit, Abort] {
        assert_eq!(coordinator.end((P, 5), result, V0), "PRODUCER_FENCED");
    }
    assert_eq!(word(&coordinator.ask(&add((P, 5), &[0], V2))), "PRODUCER_FENCED");
    assert_eq!(word(&coordinator.ask(&verify((P, 5), &[0]))), "PRODUCER_FENCED");
    assert_eq!(word(&coordinator.ask(&verify((P, 6), &[0]))), "TRANSACTION_ABORTABLE");
    let mut after_new_instance = coordinator.clone();
    assert_eq!(coordinator.init(Some((P, 5))), "NONE 100/6");
    assert_eq!(after_new_instance.init(None), "NONE 100/7");
    for version in [V0, V2] {
        assert_eq!(after_new_instance.end((P, 5), Commit, version), "PRODUCER_FENCED");
        assert_eq!(after_new_instance.end((P, 5), Abort, version), "PRODUCER_FENCED");
    }
}

/// §9.4, the old producer afterwards, at levels 0 and 1: fenced everywhere, but for EndTxn of version 2, which takes
/// its epoch for a retry.
#[test]
fn the_old_producer_is_fenced_below_level_2() {
    for level in [V0, V1] {
        let mut coordinator = timed_out(level, txn_in(Ongoing, V0));
        coordinator.settle();
        assert_eq!(coordinator.state(), (CompleteAbort, P, 6));
        assert_eq!(coordinator.init(Some((P, 5))), "PRODUCER_FENCED");
        assert_eq!(word(&coordinator.ask(&add((P, 5), &[0], V0))), "PRODUCER_FENCED");
        assert_eq!(coordinator.end((P, 5), Abort, V0), "PRODUCER_FENCED");
        assert_eq!(coordinator.end((P, 5), Abort, V2), "NONE 100/6");
        assert_eq!(coordinator.end((P, 5), Commit, V2), "PRODUCER_FENCED");
        assert_eq!(coordinator.init(None), "NONE 100/7");
    }
}

/// coordinator traps 6 and 7: the fence and the abort raise the epoch once, also when the append of an earlier try
/// failed, and also next to the largest epoch.
#[test]
fn a_fence_raises_the_epoch_once() {
    for (level, epoch) in [(V1, 5), (V1, 32766), (V2, 5), (V2, 32766)] {
        let mut coordinator = Coordinator::with(level, txn_at(Ongoing, V0, epoch));
        let before = coordinator.shard.clone();
        for _ in 0..3 {
            let failed = coordinator.shard.decide(at(0), Token(1), &with_fresh(init(None)));
            assert_eq!(words(&failed), "PrepareAbort: fencing");
            assert_eq!(coordinator.shard, before);
        }
        coordinator.init(None);
        assert_eq!(coordinator.state(), (PrepareAbort, P, epoch + 1));
    }
}

/// coordinator trap 8 (KAFKA-20090): at epoch 32766 a fence brings the next producer id with it at level 2. At level 1
/// markers carry 32767, and the next InitProducerId rotates (§8).
#[test]
fn a_fence_at_the_last_epoch_rotates() {
    let mut two = Coordinator::with(V2, txn_at(Ongoing, V2, 32766));
    assert_eq!(two.init(None), "fencing");
    two.settle();
    assert_eq!(two.init(None), "NONE 101/1");
    let written = ["PrepareAbort 100/32767 N101 TV2", "CompleteAbort 101/0 V100 TV2", "Empty 101/1 TV2"];
    assert_eq!(two.written(1), written);

    let mut one = Coordinator::with(V1, txn_at(Ongoing, V0, 32766));
    assert_eq!(one.init(None), "fencing");
    one.settle();
    assert_eq!(one.init(None), "NONE 101/0");
    let written = ["PrepareAbort 100/32767", "CompleteAbort 100/32767", "Empty 101/0 V100"];
    assert_eq!(one.written(1), written);
}

/// coordinator trap 8: a timeout rotates as well, and the old pair can still ask for it (KAFKA-20785).
#[test]
fn a_timeout_at_the_last_epoch_rotates() {
    let mut coordinator = timed_out(V2, txn_at(Ongoing, V2, 32766));
    coordinator.settle();
    assert_eq!(coordinator.state(), (CompleteAbort, FRESH, 0));
    assert_eq!(coordinator.end((P, 32766), Commit, V2), "PRODUCER_FENCED");
    assert_eq!(coordinator.end((P, 32766), Abort, V2), "NONE 101/0");
    assert_eq!(coordinator.init(Some((P, 32766))), "NONE 101/0");
}

/// §8: an id that is already at 32767 is not raised any more, and recovers.
#[test]
fn epoch_32767_is_survived() {
    for level in [V1, V2] {
        let mut coordinator = Coordinator::with(level, txn_at(Ongoing, V2, 32767));
        assert_eq!(coordinator.init(None), "fencing");
        let owed = coordinator.shard.markers_owed_by(TX).expect("markers are owed");
        assert_eq!((owed.producer_id, owed.producer_epoch), (P, ProducerEpoch::MAX));
        coordinator.settle();
        // A client that holds the last epoch it can hold is told of the rotation.
        let told = coordinator.clone().init(Some((P, 32766)));
        assert_eq!(told, if level == V2 { "NONE 101/0" } else { "PRODUCER_FENCED" });
        let recovered = coordinator.init(None);
        assert_eq!(recovered, if level == V2 { "NONE 101/1" } else { "NONE 101/0" });
    }
}

/// coordinator trap 14: a client's EndTxn comes before the fence and decides, or after it and is told; there is no
/// third way.
#[test]
fn no_request_comes_between_fence_and_abort() {
    for version in [V0, V2] {
        for result in [Commit, Abort] {
            let open = Coordinator::with(V2, txn_in(Ongoing, version));
            let mut before = open.clone();
            assert!(before.end((P, 5), result, version).starts_with("NONE"));
            assert_eq!(before.init(None), "CONCURRENT_TRANSACTIONS");
            assert_eq!(before.txn().state.completing(), Some(result));
            let mut after = open;
            assert_eq!(after.init(None), "fencing");
            let told = after.end((P, 5), result, version);
            let expected = if version == V2 { "CONCURRENT_TRANSACTIONS" } else { "PRODUCER_FENCED" };
            assert_eq!(told, expected);
            assert_eq!(after.state(), (PrepareAbort, P, 6));
        }
    }
}

/// coordinator trap 15: under version 0 a second transaction has producer id and epoch of the first; the deadline of
/// the first does not end it.
#[test]
fn a_deadline_is_that_of_the_open_transaction() {
    let mut coordinator = Coordinator::with(V1, txn_in(Empty, V0));
    coordinator.add((P, 5), &[0], V0);
    let first = coordinator.shard.next_deadline();
    coordinator.now = at(50_000);
    coordinator.finish((P, 5), Commit, V0);
    coordinator.add((P, 5), &[0], V0);
    coordinator.now = at(60_001);
    assert!(first.is_some_and(|due| due.is_due(coordinator.now)));
    assert!(coordinator.tick().is_empty());
    assert_eq!(
        coordinator.ask(&TransactionShard::tick()),
        Ok(Reply::Ticked(TickOutcome::Nothing)),
        "a tick that comes for nothing does nothing"
    );
    assert_eq!(coordinator.state(), (Ongoing, P, 5));
}

/// The new instance and the timeout fence alike, and a fenced id needs a producer id only where it rotates.
#[test]
fn only_a_rotation_needs_a_producer_id() {
    let mut coordinator = Coordinator::with(V2, txn_at(Ongoing, V2, 32766));
    coordinator.now = at(60_000);
    assert_eq!(coordinator.ask(&TransactionShard::tick()), Err(Refusal::ProducerIdNeeded));
    assert_eq!(coordinator.ask(&init(None)), Err(Refusal::ProducerIdNeeded));
    assert_eq!(coordinator.tick().len(), 1);
    assert_eq!(coordinator.txn().next_producer_id, FRESH);
    assert_eq!(ProducerId(P.0 + 1), FRESH);
}
