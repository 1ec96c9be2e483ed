//! Transactions that somebody else ends: a timeout, a new instance, an operator.

use fencepost_protocol::messages::{InitProducerIdRequest, WriteTxnMarkersResponse};
use fencepost_types::ErrorCode;

use super::every_point;
use super::outcome::Outcome;
use super::run::Run;
use crate::harness::Producer;
use crate::harness::requests::{init, marker, write_markers};

const LAST_EPOCH: [(&str, &str); 1] = [("fencepost.test.initial.producer.epoch", "32766")];
const TIMEOUT_MS: i32 = 1_000;

/// An open transaction of two partitions, by a client of version 2 or an older one.
fn open(run: &mut Run, is_version_2: bool) -> Producer {
    let producer = run.start_with("x", TIMEOUT_MS);
    run.produce(&producer, is_version_2, ("t", 0), "a");
    run.produce(&producer, is_version_2, ("t", 1), "a");
    producer
}

/// Whoever holds the old epoch is fenced for good, in every request, and a new instance goes on.
fn assert_fenced(run: &mut Run, old: &Producer) -> Outcome {
    let commit = run.try_end(old, 5, true);
    assert_eq!(commit.error_code, ErrorCode::ProducerFenced.code());
    assert_ne!(run.try_produce(old, 12, ("t", 0), "late"), 0);
    let next = run.start("x");
    run.produce(&next, true, ("t", 0), "b");
    run.end(&next, 5, true);
    Outcome::default().values("t", 0, &["b"]).values("t", 1, &[]).state("x", "CompleteCommit")
}

/// A timeout aborts; the late commit is fenced.
#[test]
fn abort_by_timeout() {
    every_point(&[], |run| {
        let producer = open(run, true);
        run.advance_ms(i64::from(TIMEOUT_MS) * 3);
        assert_eq!(run.state("x"), "CompleteAbort");
        assert_fenced(run, &producer)
    });
}

/// The same at the last epoch, where the abort rotates the producer id.
#[test]
fn abort_by_timeout_at_the_last_epoch() {
    every_point(&LAST_EPOCH, |run| {
        let producer = open(run, true);
        run.advance_ms(i64::from(TIMEOUT_MS) * 3);
        assert_eq!(run.state("x"), "CompleteAbort");
        assert_fenced(run, &producer)
    });
}

/// A new instance aborts the transaction of the old one.
#[test]
fn a_new_instance_fences() {
    every_point(&[], |run| {
        let old = open(run, true);
        let next = run.start("x");
        assert!(next.id.get().1 > old.id.get().1);
        assert_fenced(run, &old)
    });
}

/// The same at the last epoch.
#[test]
fn a_new_instance_fences_at_the_last_epoch() {
    every_point(&LAST_EPOCH, |run| {
        let old = open(run, true);
        let next = run.start("x");
        assert_ne!(next.id.get(), old.id.get());
        assert_fenced(run, &old)
    });
}

/// A new instance of an older client, at level 1.
#[test]
fn a_new_instance_of_an_older_client_fences() {
    every_point(&[], |run| {
        run.set_transaction_version(1);
        let old = open(run, false);
        let next = run.start("x");
        assert!(next.id.get().1 > old.id.get().1);
        let commit = run.try_end(&old, 4, true);
        assert_eq!(commit.error_code, ErrorCode::ProducerFenced.code());
        run.produce(&next, false, ("t", 0), "b");
        run.end(&next, 4, true);
        Outcome::default().values("t", 0, &["b"]).values("t", 1, &[]).state("x", "CompleteCommit")
    });
}

/// An instance that names itself gets the next epoch, and asks again without harm; another one is fenced by it.
#[test]
fn an_idle_instance_asks_for_the_next_epoch() {
    every_point(&[], |run| {
        let producer = run.start("x");
        run.produce(&producer, true, ("t", 0), "a");
        run.end(&producer, 5, true);
        let (producer_id, producer_epoch) = producer.id.get();
        let request = InitProducerIdRequest { producer_id, producer_epoch, ..init("x", 60_000) };
        let first = run.ask_until(5, &request, |answer| answer.error_code);
        assert_eq!(
            (first.error_code, first.producer_id, first.producer_epoch),
            (0, producer_id, producer_epoch + 1)
        );
        run.settle();
        let again = run.ask_until(5, &request, |answer| answer.error_code);
        assert_eq!(again, first, "told two different things");
        let next = Producer::holding(run.world.client(), "x", (producer_id, producer_epoch + 1));
        run.produce(&next, true, ("t", 0), "b");
        run.end(&next, 5, true);
        Outcome::default().values("t", 0, &["a", "b"]).state("x", "CompleteCommit")
    });
}

/// Idle at the last epoch: the producer id rotates at once, and a question whose answer was lost is answered the same.
#[test]
fn an_idle_instance_at_the_last_epoch() {
    every_point(&LAST_EPOCH, |run| {
        let producer = run.start("x");
        let (producer_id, producer_epoch) = producer.id.get();
        let request = InitProducerIdRequest { producer_id, producer_epoch, ..init("x", 60_000) };
        let first = run.ask_until(5, &request, |answer| answer.error_code);
        assert_eq!(first.error_code, 0);
        assert_ne!((first.producer_id, first.producer_epoch), (producer_id, producer_epoch));
        run.settle();
        for _ in 0..2 {
            let again = run.ask_until(5, &request, |answer| answer.error_code);
            assert_eq!(again, first, "told two different things");
        }
        let next = Producer::holding(run.world.client(), "x", (first.producer_id, first.producer_epoch));
        run.produce(&next, true, ("t", 0), "b");
        run.end(&next, 5, true);
        Outcome::default().values("t", 0, &["b"]).state("x", "CompleteCommit")
    });
}

/// An older client, at level 1 and at level 0, whose records have no room for the last epoch; at an ordinary epoch and at the
/// last one (issue 12, A2).
#[test]
fn an_idle_older_instance_asks_for_the_next_epoch() {
    for (level, settings) in [(1, &[][..]), (0, &[]), (1, &LAST_EPOCH), (0, &LAST_EPOCH)] {
        every_point(settings, |run| {
            run.set_transaction_version(level);
            let producer = run.start("x");
            let (producer_id, producer_epoch) = producer.id.get();
            let request = InitProducerIdRequest { producer_id, producer_epoch, ..init("x", 60_000) };
            let first = run.ask_until(4, &request, |answer| answer.error_code);
            assert_eq!(first.error_code, 0);
            run.settle();
            for _ in 0..2 {
                let again = run.ask_until(4, &request, |answer| answer.error_code);
                assert_eq!(again, first, "told two different things at level {level}");
            }
            let next = Producer::holding(run.world.client(), "x", (first.producer_id, first.producer_epoch));
            run.produce(&next, false, ("t", 0), "b");
            run.end(&next, 4, true);
            Outcome::default().values("t", 0, &["b"]).state("x", "CompleteCommit")
        });
    }
}

/// An operator terminates by force: InitProducerId with a timeout of one millisecond, as the tool sends it.
#[test]
fn forced_termination() {
    every_point(&[], |run| {
        let old = open(run, true);
        let answer = run.ask_until(5, &init("x", 1), |answer| answer.error_code);
        assert_eq!(answer.error_code, 0, "{answer:?}");
        assert_fenced(run, &old)
    });
}

/// An operator aborts a transaction that no coordinator knows of, by a marker for each partition.
#[test]
fn an_operator_writes_markers() {
    every_point(&[], |run| {
        let producer = run.start("x");
        run.produce(&producer, true, ("t", 0), "a");
        run.produce(&producer, true, ("t", 1), "a");
        let places = [("t", 0), ("t", 1)];
        let request = write_markers(vec![marker(producer.id.get(), false, 0, &places)]);
        let code = |answer: &WriteTxnMarkersResponse| {
            let rows = answer.markers.iter().flat_map(|marker| &marker.topics);
            rows.flat_map(|topic| &topic.partitions).map(|row| row.error_code).max().unwrap()
        };
        let answer = run.ask_until(1, &request, code);
        assert_eq!(code(&answer), 0, "{answer:?}");
        for (topic, partition) in places {
            assert_eq!(run.world.standing(topic, partition).open_transactions, 0);
        }
        // The coordinator's own abort finds nothing open any more.
        run.end(&producer, 5, false);
        Outcome::default().values("t", 0, &[]).values("t", 1, &[]).state("x", "CompleteAbort")
    });
}
