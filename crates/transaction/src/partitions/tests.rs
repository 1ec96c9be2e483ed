use alloc::string::String;
use alloc::vec::Vec;

use crate::testing::*;
use crate::*;
use fencepost_types::{Millis, ProducerEpoch, ProducerId};

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

/// Producers of one row: current, stale, future, foreign producer id.
const PRODUCERS: [(ProducerId, i16); 4] = [(P, 5), (P, 4), (P, 6), (STRANGER, 5)];

/// §7.1: every state by every producer. While completing, even a wrong producer is told to come again
/// (coordinator trap 2).
#[test]
fn adding_in_every_state_by_every_producer() {
    let refused = ["PRODUCER_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"];
    for version in [V0, V2] {
        for state in TransactionState::ALL {
            let txn = txn_in(state, version);
            let seen: Vec<_> =
                PRODUCERS.iter().map(|producer| decided(&txn, &add(*producer, &[2], version))).collect();
            let expected: Vec<&str> = match state {
                PrepareCommit | PrepareAbort => ["CONCURRENT_TRANSACTIONS"; 4].to_vec(),
                Empty | Ongoing | CompleteCommit | CompleteAbort => {
                    ["Ongoing: NONE"].into_iter().chain(refused).collect()
                }
            };
            assert_eq!(seen, expected, "{state} {version:?}");
        }
    }
}

/// §7.2: every state by every producer. Completing comes after the producer, so that the first produce after an add
/// does not fail (coordinator trap 3, KAFKA-14904). Nothing is written.
#[test]
fn verifying_in_every_state_by_every_producer() {
    let refused = ["PRODUCER_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"];
    for state in TransactionState::ALL {
        let txn = txn_in(state, V0);
        let seen: Vec<_> =
            PRODUCERS.iter().map(|producer| decided(&txn, &verify(*producer, &[0, 1]))).collect();
        let current = match state {
            PrepareCommit | PrepareAbort => "CONCURRENT_TRANSACTIONS",
            Ongoing => "NONE",
            Empty | CompleteCommit | CompleteAbort => "TRANSACTION_ABORTABLE",
        };
        let expected: Vec<&str> = [current].into_iter().chain(refused).collect();
        assert_eq!(seen, expected, "{state}");
    }
}

/// §7.2: each partition has its own answer, in the order asked.
#[test]
fn partitions_are_verified_one_by_one() {
    let mut coordinator = Coordinator::with(V2, txn_in(Ongoing, V0));
    let Ok(Reply::PartitionsVerified(verified)) = coordinator.ask(&verify((P, 5), &[2, 1, 0])) else {
        panic!("not verified")
    };
    let expected: Vec<_> = orders(&[2, 1, 0]).into_iter().zip([false, true, true]).collect();
    assert_eq!(verified, expected);
    assert_eq!(coordinator.log.len(), 1);
}

/// §7.1: unknown and empty ids.
#[test]
fn unknown_and_empty_ids_are_refused() {
    let mut coordinator = Coordinator::new();
    for (id, answer) in [("", "INVALID_REQUEST"), ("nobody", "INVALID_PRODUCER_ID_MAPPING")] {
        for mut request in [add((P, 0), &[0], V0), add((P, 0), &[0], V2), verify((P, 0), &[0])] {
            match &mut request {
                Request::AddPartitions(AddPartitions { transactional_id, .. })
                | Request::VerifyPartitions(VerifyPartitions { transactional_id, .. }) => {
                    *transactional_id = TransactionalId::from(id);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(word(&coordinator.ask(&request)), answer);
        }
    }
}

/// §7.1, step 8: what is there already is not written again; what is new joins it.
#[test]
fn adding_again_writes_nothing() {
    let mut coordinator = Coordinator::with(V2, txn_in(Empty, V0));
    for partitions in [&[0, 1][..], &[0, 1], &[1], &[], &[1, 2]] {
        coordinator.add((P, 5), partitions, V0);
    }
    assert_eq!(coordinator.log.len(), 3);
    assert_eq!(coordinator.txn().partitions, orders(&[0, 1, 2]).into_iter().collect());
}

/// §7.1: an empty list opens a transaction without partitions, which can be committed, and which times out.
#[test]
fn an_empty_list_opens_a_transaction() {
    let mut coordinator = Coordinator::with(V2, txn_in(CompleteCommit, V0));
    coordinator.add((P, 5), &[], V0);
    assert_eq!(coordinator.state(), (Ongoing, P, 5));
    assert!(coordinator.txn().partitions.is_empty());
    let mut abandoned = coordinator.clone();
    coordinator.finish((P, 5), Commit, V0);
    assert_eq!(coordinator.state(), (CompleteCommit, P, 5));
    abandoned.now = at(60_001);
    abandoned.tick();
    assert_eq!(abandoned.state(), (CompleteAbort, P, 6));
}

/// §7.1: the start is that of the first partition; later ones do not move it, and the next transaction has its own.
#[test]
fn a_transaction_starts_with_its_first_partition() {
    let mut coordinator = Coordinator::with(V2, txn_in(Empty, V0));
    let start = |coordinator: &Coordinator| coordinator.txn().start;
    coordinator.add((P, 5), &[0], V0);
    coordinator.now = at(20);
    coordinator.add((P, 5), &[1], V0);
    assert_eq!(start(&coordinator), Millis(T));
    assert_eq!(coordinator.txn().last_update, Millis(T + 20));
    coordinator.finish((P, 5), Commit, V0);
    assert_eq!(start(&coordinator), Millis(T));
    coordinator.now = at(40);
    coordinator.add((P, 5), &[1], V0);
    assert_eq!(start(&coordinator), Millis(T + 40));
    assert_eq!(coordinator.txn().partitions, orders(&[1]).into_iter().collect());
}

/// §7.1: the newest add decides the version of the transaction.
#[test]
fn the_newest_add_decides_the_version() {
    let mut coordinator = Coordinator::with(V2, txn_in(Empty, V0));
    coordinator.add((P, 5), &[0], V0);
    coordinator.add((P, 5), &[1], V2);
    coordinator.add((P, 5), &[2], V0);
    assert_eq!(coordinator.written(1), ["Ongoing 100/5", "Ongoing 100/5 TV2", "Ongoing 100/5"]);
}

/// coordinator trap 28: an id without an epoch takes no client's word for it.
#[test]
fn no_epoch_never_matches() {
    let mut txn = txn_at(Empty, V0, -1);
    txn.last_producer_epoch = ProducerEpoch::NONE;
    let answers = [
        decided(&txn, &add((P, -1), &[0], V2)),
        decided(&txn, &verify((P, -1), &[0])),
        decided(&txn, &end((P, -1), Abort, V0)),
        decided(&txn, &end((P, -1), Abort, V2)),
    ];
    assert_eq!(answers, ["PRODUCER_FENCED"; 4].map(String::from));
    // Nor is it the epoch before 0, which would make it the retry of an end.
    let ended = txn_at(CompleteAbort, V2, 0);
    assert_eq!(decided(&ended, &end((P, -1), Abort, V2)), "PRODUCER_FENCED");
}

/// coordinator trap 24: a stale epoch gets no ride on an add of the current one; each request stands for itself.
#[test]
fn a_stale_epoch_does_not_ride_along() {
    let mut coordinator = Coordinator::with(V2, txn_in(Empty, V0));
    coordinator.add((P, 5), &[0], V2);
    assert_eq!(word(&coordinator.ask(&add((P, 4), &[0, 1], V2))), "PRODUCER_FENCED");
    assert_eq!(coordinator.txn().partitions, orders(&[0]).into_iter().collect());
}
