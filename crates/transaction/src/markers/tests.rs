use alloc::vec::Vec;

use crate::testing::*;
use crate::*;
use fencepost_coordinator::Shard;
use fencepost_types::{Offset, ProducerEpoch};

use TransactionState::{CompleteAbort, CompleteCommit, PrepareAbort, PrepareCommit};

fn about(coordinator: &Coordinator, partitions: &[i32]) -> Markers {
    let owed = coordinator.shard.markers_owed_by(TX).expect("markers are owed");
    Markers { partitions: orders(partitions), ..news(&owed) }
}

fn owed(coordinator: &Coordinator) -> Vec<i32> {
    let owed = coordinator.shard.markers_owed_by(TX);
    owed.map_or(Vec::new(), |owed| owed.partitions.iter().map(|p| p.partition.0).collect())
}

/// §10.2, coordinator trap 19: what markers carry is read off the decided state; their version is that of the newest
/// add or end, and of the finalized level where the coordinator aborts.
#[test]
fn what_markers_carry() {
    for (state, result, version) in [
        (PrepareCommit, Commit, V0),
        (PrepareAbort, Abort, V0),
        (PrepareCommit, Commit, V2),
        (PrepareAbort, Abort, V2),
    ] {
        let coordinator = Coordinator::with(V2, txn_in(state, version));
        let expected = MarkersOwed {
            transactional_id: TransactionalId::from(TX),
            decided_at: Offset(0),
            producer_id: P,
            producer_epoch: ProducerEpoch(5),
            result,
            transaction_version: version,
            partitions: orders(&[0, 1]),
        };
        assert_eq!(coordinator.shard.markers_owed().collect::<Vec<_>>(), [expected]);
    }
    for state in TransactionState::ALL {
        let coordinator = Coordinator::with(V2, txn_in(state, V2));
        assert_eq!(coordinator.shard.is_completing(TX), state.completing().is_some());
        assert_eq!(coordinator.shard.markers_owed().count(), usize::from(state.completing().is_some()));
    }
    let mut opened_by_0 = Coordinator::with(V2, txn_in(TransactionState::Ongoing, V0));
    opened_by_0.init(None);
    assert_eq!(opened_by_0.shard.markers_owed_by(TX).map(|owed| owed.transaction_version), Some(V2));
}

/// §10.4, X4: the last marker completes the transaction; until then only what is left is owed, and described.
#[test]
fn the_last_marker_completes() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareCommit, V2));
    let first = Request::MarkersWritten(about(&coordinator, &[1]));
    for _ in 0..2 {
        assert_eq!(coordinator.ask(&first), Ok(Reply::Markers(MarkersLeft::Owed(1))));
        assert_eq!(owed(&coordinator), [0]);
    }
    let last = Request::MarkersWritten(about(&coordinator, &[0]));
    assert_eq!(coordinator.ask(&last), Ok(Reply::Markers(MarkersLeft::Nothing)));
    assert_eq!(coordinator.state(), (CompleteCommit, P, 5));
    assert!(!coordinator.shard.is_completing(TX));
    assert_eq!(coordinator.ask(&last), Ok(Reply::Markers(MarkersLeft::Outdated)));
}

/// News about partitions that are not in the transaction, or about nobody, changes nothing.
#[test]
fn news_about_nothing_changes_nothing() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareCommit, V2));
    let before = coordinator.shard.clone();
    for partitions in [&[7][..], &[]] {
        let about = about(&coordinator, partitions);
        for request in [
            Request::MarkersWritten(about.clone()),
            Request::PartitionsDeleted(about.clone()),
            Request::MarkersGivenUp(about),
        ] {
            assert_eq!(coordinator.ask(&request), Ok(Reply::Markers(MarkersLeft::Owed(2))));
            assert_eq!(coordinator.shard, before);
        }
    }
    let nobody = Markers { transactional_id: TransactionalId::from("nobody"), ..about(&coordinator, &[0]) };
    let answer = coordinator.ask(&Request::MarkersWritten(nobody));
    assert_eq!(answer, Ok(Reply::Markers(MarkersLeft::Outdated)));
}

/// Under version 0 two transactions have the same producer id and epoch. A late report about the first must not count
/// for the second: decisions are told apart by where they lie in the log.
#[test]
fn a_late_report_does_not_count_for_the_next_transaction() {
    let mut coordinator = Coordinator::with(V2, txn_in(TransactionState::Ongoing, V0));
    coordinator.end((P, 5), Commit, V0);
    let late = Request::MarkersWritten(about(&coordinator, &[0, 1]));
    coordinator.settle();
    coordinator.add((P, 5), &[0, 1], V0);
    assert_eq!(coordinator.ask(&late), Ok(Reply::Markers(MarkersLeft::Outdated)));
    coordinator.end((P, 5), Abort, V0);
    assert_eq!(coordinator.ask(&late), Ok(Reply::Markers(MarkersLeft::Outdated)));
    assert_eq!(owed(&coordinator), [0, 1]);
    coordinator.settle();
    assert_eq!(coordinator.state(), (CompleteAbort, P, 5));
}

/// §3, X5: acknowledgements are not in the log; after a load every partition is owed its marker again, with the same
/// outcome (§17.5).
#[test]
fn after_a_load_everything_is_owed_again() {
    for (state, complete) in [(PrepareCommit, CompleteCommit), (PrepareAbort, CompleteAbort)] {
        let mut coordinator = Coordinator::with(V2, txn_in(state, V2));
        let written = Request::MarkersWritten(about(&coordinator, &[0]));
        coordinator.ask(&written).expect("markers are owed");
        assert_eq!(owed(&coordinator), [1]);
        coordinator.restart();
        assert_eq!(owed(&coordinator), [0, 1]);
        coordinator.settle();
        assert_eq!(coordinator.state().0, complete);
    }
}

/// coordinator traps 34 and 35: a partition leaves the owed ones by its marker, or because its topic id was seen
/// deleted; nothing else takes it away, however long it lasts.
#[test]
fn only_a_marker_or_a_deletion_settles_a_partition() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareCommit, V2));
    coordinator.now = at(1_000_000_000);
    assert!(coordinator.tick().is_empty());
    assert_eq!(owed(&coordinator), [0, 1]);
    let deleted = Request::PartitionsDeleted(about(&coordinator, &[0]));
    assert_eq!(coordinator.ask(&deleted), Ok(Reply::Markers(MarkersLeft::Owed(1))));
    assert_eq!(owed(&coordinator), [1]);
    let deleted = Request::PartitionsDeleted(about(&coordinator, &[1]));
    assert_eq!(coordinator.ask(&deleted), Ok(Reply::Markers(MarkersLeft::Nothing)));
    assert_eq!(coordinator.state().0, CompleteCommit);
}

/// coordinator trap 18: a marker that is refused for good leaves the transaction decided, with that partition owed
/// and described but asked no more; waiting for it is no use. A load tries again.
#[test]
fn a_refused_marker_leaves_the_transaction_decided() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareCommit, V0));
    let refused = Request::MarkersGivenUp(about(&coordinator, &[0]));
    let written = Request::MarkersWritten(about(&coordinator, &[1]));
    let completing =
        |is_given_up| Err(Refusal::Completing { transactional_id: TransactionalId::from(TX), is_given_up });
    assert_eq!(coordinator.ask(&end((P, 5), Commit, V0)), completing(false));
    assert_eq!(coordinator.ask(&refused), Ok(Reply::Markers(MarkersLeft::Owed(2))));
    assert_eq!(owed(&coordinator), [1]);
    assert_eq!(coordinator.ask(&end((P, 5), Commit, V0)), completing(true));
    assert_eq!(coordinator.ask(&written), Ok(Reply::Markers(MarkersLeft::Owed(1))));
    assert_eq!(coordinator.shard.markers_owed_by(TX), None);
    assert!(coordinator.shard.is_given_up(TX));
    let describe = Request::Describe { transactional_id: TransactionalId::from(TX) };
    let Ok(Reply::Described(description)) = coordinator.ask(&describe) else { panic!("not described") };
    assert_eq!(description.partitions.into_iter().collect::<Vec<_>>(), orders(&[0]));
    for request in [init(None), add((P, 5), &[0], V2), end((P, 5), Commit, V2)] {
        assert_eq!(coordinator.ask(&request), completing(true));
    }
    coordinator.restart();
    assert!(!coordinator.shard.is_given_up(TX));
    assert_eq!(owed(&coordinator), [0, 1]);
    coordinator.settle();
    assert_eq!(coordinator.state().0, CompleteCommit);
}

/// A marker that was given up and turns out to be written after all is settled; the reverse does not undo it.
#[test]
fn written_outweighs_given_up() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareAbort, V2));
    let zero = about(&coordinator, &[0]);
    coordinator.ask(&Request::MarkersGivenUp(zero.clone())).expect("owed");
    coordinator.ask(&Request::MarkersWritten(zero.clone())).expect("owed");
    assert!(!coordinator.shard.is_given_up(TX));
    coordinator.ask(&Request::MarkersGivenUp(zero)).expect("owed");
    assert!(!coordinator.shard.is_given_up(TX));
    assert_eq!(owed(&coordinator), [1]);
}

/// §10.4: a Complete record that could not be appended has changed nothing; the last marker is owed still, and its
/// report again completes the transaction.
#[test]
fn a_failed_completion_can_be_tried_again() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareCommit, V2));
    let all = Request::MarkersWritten(about(&coordinator, &[0, 1]));
    let failed = coordinator.shard.decide(at(0), fencepost_coordinator::Token(1), &all);
    assert!(words(&failed).starts_with("CompleteCommit: "));
    assert_eq!(owed(&coordinator), [0, 1]);
    assert_eq!(coordinator.ask(&all), Ok(Reply::Markers(MarkersLeft::Nothing)));
}

/// §17.1: no next transaction before Complete is in the log.
#[test]
fn no_next_transaction_before_completion() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareCommit, V2));
    for producer in [(P, 5), (P, 6), (FRESH, 0)] {
        assert_eq!(word(&coordinator.ask(&add(producer, &[0], V2))), "CONCURRENT_TRANSACTIONS");
    }
    coordinator.settle();
    coordinator.add((P, 5), &[0], V2);
}

/// Several decided transactions are owed in order of their ids, each by itself.
#[test]
fn each_decided_transaction_owes_its_own() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareCommit, V2));
    let mut other = txn_in(PrepareAbort, V0);
    (other.producer_id, other.previous_producer_id) = (FRESH, FRESH);
    coordinator.append(&record("another", other));
    let ids: Vec<_> = coordinator.shard.markers_owed().map(|owed| owed.transactional_id).collect();
    assert_eq!(ids, [TransactionalId::from("another"), TransactionalId::from(TX)]);
    coordinator.settle();
    assert_eq!(coordinator.shard.markers_owed().count(), 0);
}

/// X4, X5: what is known of markers is of the newest decision and of its partitions; a check says so when it is not.
#[test]
#[should_panic(expected = "X4: tx owes nothing and is not complete")]
fn a_check_notices_what_nobody_completes() {
    let mut coordinator = Coordinator::with(V2, txn_in(PrepareCommit, V2));
    let settled = MarkerProgress::Settled(about(&coordinator, &[0, 1]));
    coordinator.shard.absorb_progress(settled);
    coordinator.shard.check();
}
