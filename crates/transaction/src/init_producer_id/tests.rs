use alloc::string::String;

use crate::testing::*;
use crate::*;
use fencepost_types::{Millis, ProducerEpoch, ProducerId};

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

/// The expected pairs of one row of §6: none, current, last, stale, future, foreign producer id.
fn expected_pairs(txn: &TxnMetadata) -> [Option<(ProducerId, i16)>; 6] {
    let epoch = txn.producer_epoch.0;
    [
        None,
        Some((P, epoch)),
        Some((P, txn.last_producer_epoch.0)),
        Some((P, epoch - 2)),
        Some((P, epoch.saturating_add(1))),
        Some((STRANGER, epoch)),
    ]
}

/// §6, step 11: every state by every expected pair.
#[test]
fn every_state_by_every_expected_pair() {
    let fenced = "PRODUCER_FENCED";
    let idle = ["Empty: NONE 100/6", "Empty: NONE 100/6", "Empty: NONE 100/5", fenced, fenced, fenced]
        .map(String::from);
    // In Ongoing the epoch is not compared, the producer id is.
    let abort = "PrepareAbort: fencing";
    let open = [abort, abort, abort, abort, abort, fenced].map(String::from);
    // While completing, nothing else matters (step 9 comes before step 10).
    let completing = ["CONCURRENT_TRANSACTIONS"; 6].map(String::from);
    for version in [V0, V2] {
        for (state, answers) in [
            (Empty, &idle),
            (CompleteCommit, &idle),
            (CompleteAbort, &idle),
            (Ongoing, &open),
            (PrepareCommit, &completing),
            (PrepareAbort, &completing),
        ] {
            let txn = txn_in(state, version);
            let seen = expected_pairs(&txn).map(|expected| decided(&txn, &init(expected)));
            assert_eq!(&seen, answers, "{state} after a transaction of {version:?}");
        }
    }
}

/// §6, step 11, E ≥ 32766: a rotation where the pair is current or none; the legal retry of the last bump gets the
/// same answer, any other epoch is fenced (coordinator trap 10: Kafka answers both UNKNOWN_SERVER_ERROR).
#[test]
fn exhausted_epochs_rotate_and_the_last_bump_can_be_asked_for_again() {
    let fenced = "PRODUCER_FENCED";
    let rotated = "Empty: NONE 101/0";
    for state in [Empty, CompleteCommit, CompleteAbort] {
        let txn = txn_at(state, V0, 32766);
        let seen = expected_pairs(&txn).map(|expected| decided(&txn, &with_fresh(init(expected))));
        assert_eq!(seen, [rotated, rotated, "Empty: NONE 100/32766", fenced, fenced, fenced], "{state}");
        // Nobody may hold 32767: its last epoch gets a rotation.
        let beyond = txn_at(state, V0, 32767);
        let seen = expected_pairs(&beyond).map(|expected| decided(&beyond, &with_fresh(init(expected))));
        assert_eq!(seen, [rotated, rotated, rotated, fenced, rotated, fenced], "{state}");
    }
}

/// The answer of a rotation may be lost as often as it likes, over failovers too, at every level; a transaction of the new pair,
/// or a new instance, ends that (issue 12, A2; coordinator traps 9 and 10; KAFKA-20357).
#[test]
fn a_rotation_can_be_asked_for_until_it_is_heard_of() {
    for level in [V0, V1, V2] {
        let rotated = || {
            let mut coordinator = Coordinator::with(level, txn_at(Empty, V0, 32766));
            for _ in 0..3 {
                assert_eq!(coordinator.init(Some((P, 32766))), "NONE 101/0", "{level:?}");
                coordinator.restart();
            }
            coordinator
        };
        let fenced = "PRODUCER_FENCED";
        let mut begun = rotated();
        assert_eq!(begun.ask(&add((ProducerId(101), 0), &[0], V0)), Ok(Reply::PartitionsAdded));
        assert_eq!(begun.init(Some((P, 32766))), fenced, "{level:?}");
        let mut newer = rotated();
        assert_eq!(newer.init(None), "NONE 101/1");
        newer.restart();
        assert_eq!(newer.init(Some((P, 32766))), fenced, "{level:?}");
        let mut other = rotated();
        assert_eq!(other.init(Some((P, 32767))), fenced);
        assert_eq!(other.init(Some((P, 32765))), fenced);
        assert_eq!(other.init(Some((STRANGER, 32766))), fenced);
        assert_eq!(other.init(Some((ProducerId(101), 0))), "NONE 101/1");
    }
}

/// §6: a rotation asks for a producer id, and nothing else does. One that is in use already is none.
#[test]
fn only_new_ids_and_rotations_need_a_producer_id() {
    let needed = "COORDINATOR_LOAD_IN_PROGRESS";
    let mut empty = Coordinator::new();
    assert_eq!(empty.ask(&init(None)), Err(Refusal::ProducerIdNeeded));
    assert_eq!(decided(&txn_at(Empty, V0, 32766), &init(None)), needed);
    assert_eq!(decided(&txn_at(Ongoing, V0, 32766), &init(None)), needed);
    assert_eq!(decided(&txn_at(Empty, V0, 32766), &init(Some((P, 7)))), "PRODUCER_FENCED");
    assert_eq!(decided(&txn_at(Empty, V0, 32765), &init(None)), "Empty: NONE 100/32766");
    for no_producer_id in [P, ProducerId::NONE] {
        let mut request = with_fresh(init(None));
        if let Request::InitProducerId(inner) = &mut request {
            inner.fresh_producer_id = Some(no_producer_id);
        }
        assert_eq!(decided(&txn_at(Empty, V0, 32766), &request), needed);
    }
}

/// §6, first row: a record without an epoch counts as new, whatever pair is expected (coordinator trap 28).
#[test]
fn an_id_without_an_epoch_begins_at_0() {
    let mut txn = txn_at(Empty, V0, -1);
    txn.last_producer_epoch = ProducerEpoch::NONE;
    for expected in [None, Some((P, 3)), Some((STRANGER, 3))] {
        assert_eq!(decided(&txn, &init(expected)), "Empty: NONE 100/0");
    }
}

/// §6, step 8: an unknown id takes no notice of an expected pair. The first record names the producer id as its own
/// predecessor, as Kafka's does.
#[test]
fn an_unknown_id_begins_anew() {
    for expected in [None, Some((STRANGER, 7))] {
        let mut coordinator = Coordinator::new();
        assert_eq!(coordinator.init(expected), "NONE 100/0");
        assert_eq!(coordinator.txn().previous_producer_id, P);
        assert_eq!(coordinator.txn().last_producer_epoch, ProducerEpoch::NONE);
    }
}

/// coordinator trap 28: here a first append that fails leaves nothing at all; the id is as unknown as before.
#[test]
fn a_failed_first_append_leaves_nothing() {
    use fencepost_coordinator::{Shard, Token};
    let mut coordinator = Coordinator::new();
    let before = coordinator.shard.clone();
    let decision = coordinator.shard.decide(at(0), Token(1), &with_fresh(init(None)));
    assert_eq!(words(&decision), "Empty: NONE 101/0");
    assert_eq!(coordinator.shard, before);
    assert_eq!(word(&coordinator.ask(&add((FRESH, 0), &[0], V0))), "INVALID_PRODUCER_ID_MAPPING");
    assert_eq!(coordinator.init(None), "NONE 100/0");
}

/// §6, steps 1 to 6: the checks that need no state, and their order.
#[test]
fn what_is_checked_before_the_state() {
    let asked = |change: &dyn Fn(&mut InitProducerId)| {
        let mut request = init(None);
        if let Request::InitProducerId(inner) = &mut request {
            change(inner);
        }
        decided(&txn_in(Empty, V0), &request)
    };
    assert_eq!(asked(&|r| r.transactional_id = TransactionalId::from("")), "INVALID_REQUEST");
    assert_eq!(asked(&|r| r.enable_two_phase_commit = true), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED");
    assert_eq!(asked(&|r| r.keep_prepared_txn = true), "UNSUPPORTED_VERSION");
    for (timeout_ms, answer) in [
        (-1, "INVALID_TRANSACTION_TIMEOUT"),
        (0, "INVALID_TRANSACTION_TIMEOUT"),
        (1, "Empty: NONE 100/6"),
        (900_000, "Empty: NONE 100/6"),
        (900_001, "INVALID_TRANSACTION_TIMEOUT"),
        (i32::MAX, "INVALID_TRANSACTION_TIMEOUT"),
    ] {
        assert_eq!(asked(&|r| r.timeout_ms = timeout_ms), answer, "{timeout_ms}");
    }
    let both = |r: &mut InitProducerId| {
        r.enable_two_phase_commit = true;
        r.keep_prepared_txn = true;
        r.timeout_ms = 0;
    };
    assert_eq!(asked(&both), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED");
}

/// §6, step 1: one half of an expected pair alone is refused, with or without a transactional id.
#[test]
fn half_an_expected_pair_is_refused() {
    let pair = |id, epoch| ExpectedProducer::from_wire(ProducerId(id), ProducerEpoch(epoch));
    assert_eq!(pair(-1, -1), Ok(None));
    assert_eq!(pair(5, -1), Err(Refusal::InvalidRequest));
    assert_eq!(pair(-1, 0), Err(Refusal::InvalidRequest));
    let both = ExpectedProducer { producer_id: ProducerId(5), producer_epoch: ProducerEpoch(0) };
    assert_eq!(pair(5, 0), Ok(Some(both)));
}

/// KIP-939, as far as Kafka 4.4 has it: with two-phase commit enabled the timeout asked for does not matter.
#[test]
fn two_phase_commit_never_times_out() {
    let mut coordinator = Coordinator::new();
    let config = ShardConfig { two_phase_commit_enable: true, ..ShardConfig::default() };
    coordinator.shard.set_config(config);
    let mut request = with_fresh(init(None));
    if let Request::InitProducerId(inner) = &mut request {
        inner.enable_two_phase_commit = true;
        inner.timeout_ms = -3;
    }
    assert_eq!(word(&coordinator.ask(&request)), "NONE 101/0");
    assert_eq!(coordinator.txn().timeout_ms, TWO_PHASE_COMMIT_TIMEOUT_MS);
    assert!(coordinator.txn().is_two_phase_commit());
}

/// §6: a later InitProducerId replaces the timeout. It writes an Empty record even where it only repeats an answer,
/// and keeps the client's version.
#[test]
fn every_success_writes_an_empty_record() {
    let mut coordinator = Coordinator::with(V2, txn_in(CompleteAbort, V2));
    let mut request = init(Some((P, 4)));
    if let Request::InitProducerId(inner) = &mut request {
        inner.timeout_ms = 12_345;
    }
    assert_eq!(word(&coordinator.ask(&request)), "NONE 100/5");
    assert_eq!(coordinator.log.len(), 2);
    let txn = coordinator.txn();
    assert_eq!((txn.state, txn.timeout_ms, txn.start), (Empty, 12_345, Millis::NONE));
    assert_eq!((txn.last_update, txn.client_transaction_version), (Millis(T), V2));
}

/// KIP-360: the same expected epoch again gets the same answer; the one before is fenced. A bump without a pair
/// forgets the last epoch, so the old instance is fenced at once.
#[test]
fn lost_answers_can_be_asked_for_again() {
    let mut coordinator = Coordinator::new();
    coordinator.init(None);
    for (epoch, answer) in
        [(0, "NONE 100/1"), (0, "NONE 100/1"), (1, "NONE 100/2"), (1, "NONE 100/2"), (0, "PRODUCER_FENCED")]
    {
        assert_eq!(coordinator.init(Some((P, epoch))), answer, "{epoch}");
    }
    assert_eq!(coordinator.init(None), "NONE 100/3");
    assert_eq!(coordinator.init(Some((P, 2))), "PRODUCER_FENCED");
}

/// §6: after a rotation the old pair may ask again, if it was named when the rotation happened.
#[test]
fn a_rotation_can_be_asked_for_again() {
    let spent = txn_at(Empty, V0, 32766);
    let mut coordinator = Coordinator::with(V2, spent.clone());
    assert_eq!(coordinator.init(Some((P, 32766))), "NONE 101/0");
    assert_eq!(coordinator.written(1), ["Empty 101/0 V100"]);
    assert_eq!(coordinator.init(Some((P, 32765))), "PRODUCER_FENCED");
    assert_eq!(coordinator.init(Some((P, 32766))), "NONE 101/0");

    let mut coordinator = Coordinator::with(V2, spent);
    assert_eq!(coordinator.init(None), "NONE 101/0");
    assert_eq!(coordinator.init(Some((P, 32766))), "PRODUCER_FENCED");
}

/// §6, Ongoing: the open transaction is aborted, the answer asks for a retry, and the retry bumps once more.
#[test]
fn a_new_instance_aborts_the_open_transaction() {
    let mut coordinator = Coordinator::with(V2, txn_in(Ongoing, V2));
    assert_eq!(coordinator.init(None), "fencing");
    assert_eq!(coordinator.init(None), "CONCURRENT_TRANSACTIONS");
    coordinator.settle();
    assert_eq!(coordinator.state(), (CompleteAbort, P, 6));
    assert_eq!(coordinator.init(None), "NONE 100/7");
    let written = ["PrepareAbort 100/6 TV2", "CompleteAbort 100/6 TV2", "Empty 100/7 TV2"];
    assert_eq!(coordinator.written(1), written);
}

/// coordinator trap 32: a stale instance with the right producer id ends the transaction of its successor, and is
/// fenced only when it comes again. Kafka behaves this way, and so do we.
#[test]
fn a_stale_instance_ends_its_successors_transaction() {
    let mut coordinator = Coordinator::new();
    coordinator.init(None);
    coordinator.init(None);
    coordinator.add((P, 1), &[0], V2);
    assert_eq!(coordinator.init(Some((P, 0))), "fencing");
    coordinator.settle();
    assert_eq!(coordinator.state(), (CompleteAbort, P, 2));
    assert_eq!(coordinator.init(Some((P, 0))), "PRODUCER_FENCED");
    assert_eq!(coordinator.end((P, 1), Commit, V2), "PRODUCER_FENCED");
}
