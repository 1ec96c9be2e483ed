//! Transactions that their clients end.

use super::every_point;
use super::outcome::Outcome;
use crate::harness::Producer;
use crate::harness::requests::transaction_state;

/// The first epochs of new ids, so that the next one is the last that a client can hold.
const LAST_EPOCH: [(&str, &str); 1] = [("fencepost.test.initial.producer.epoch", "32766")];

/// The shortest: one partition, added by Produce 12 itself, committed.
#[test]
fn commit_of_one_partition() {
    every_point(&[], |run| {
        let producer = run.start("x");
        run.produce(&producer, true, ("t", 0), "a");
        run.end(&producer, 5, true);
        Outcome::default().values("t", 0, &["a"]).state("x", "CompleteCommit")
    });
}

/// Several partitions of two topics, and a second transaction behind the first.
#[test]
fn commit_of_many_partitions() {
    every_point(&[], |run| {
        let producer = run.start("x");
        for value in ["a", "b"] {
            for place in [("t", 0), ("t", 1), ("u", 0)] {
                run.produce(&producer, true, place, value);
            }
            run.end(&producer, 5, true);
        }
        let both = ["a", "b"];
        Outcome::default()
            .values("t", 0, &both)
            .values("t", 1, &both)
            .values("u", 0, &both)
            .state("x", "CompleteCommit")
    });
}

/// An abort, then a commit on the same partitions.
#[test]
fn abort_of_two_partitions() {
    every_point(&[], |run| {
        let producer = run.start("x");
        run.produce(&producer, true, ("t", 0), "a");
        run.produce(&producer, true, ("t", 1), "a");
        run.end(&producer, 5, false);
        run.produce(&producer, true, ("t", 0), "b");
        run.end(&producer, 5, true);
        Outcome::default().values("t", 0, &["b"]).values("t", 1, &[]).state("x", "CompleteCommit")
    });
}

/// A client of the older versions, which adds partitions itself and keeps its epoch.
#[test]
fn ends_of_an_older_client() {
    for level in ["1", "0"] {
        every_point(&[], |run| {
            run.set_transaction_version(level.parse().unwrap());
            let producer = run.start("x");
            run.produce(&producer, false, ("t", 0), "a");
            run.produce(&producer, false, ("t", 1), "a");
            run.end(&producer, 4, true);
            run.produce(&producer, false, ("t", 1), "b");
            run.end(&producer, 4, false);
            Outcome::default().values("t", 0, &["a"]).values("t", 1, &["a"]).state("x", "CompleteAbort")
        });
    }
}

/// Offsets of two groups beside records in two topics; the abort of later offsets leaves the earlier ones.
#[test]
fn offsets_of_two_groups() {
    every_point(&[], |run| {
        let producer = run.start("x");
        run.produce(&producer, true, ("t", 0), "a");
        run.produce(&producer, true, ("u", 0), "a");
        run.commit_offset(&producer, "g", "t", 7);
        run.commit_offset(&producer, "h", "u", 8);
        run.end(&producer, 5, true);
        run.commit_offset(&producer, "g", "t", 9);
        run.end(&producer, 5, false);
        Outcome::default()
            .values("t", 0, &["a"])
            .values("u", 0, &["a"])
            .offset("g", "t", 7)
            .offset("h", "u", 8)
            .state("x", "CompleteAbort")
    });
}

/// A transaction without a partition: its abort raises the epoch, its commit is refused, and the next one works.
#[test]
fn an_empty_transaction() {
    every_point(&[], |run| {
        let producer = run.start("x");
        run.end(&producer, 5, false);
        let refused = run.try_end(&producer, 5, true);
        assert_ne!(refused.error_code, 0);
        run.produce(&producer, true, ("t", 0), "a");
        run.end(&producer, 5, true);
        Outcome::default().values("t", 0, &["a"]).state("x", "CompleteCommit")
    });
}

/// The answer to EndTxn is lost, and the client asks again, before and after the completion: it gets the same pair.
#[test]
fn an_end_whose_answer_is_lost() {
    for committed in [true, false] {
        every_point(&[], |run| {
            let producer = run.start("x");
            run.produce(&producer, true, ("t", 0), "a");
            let request = producer.end_request(committed);
            drop(run.world.client().send(5, &request));
            let answer = run.ask_until(5, &request, |answer| answer.error_code);
            run.settle();
            let again = run.ask_until(5, &request, |answer| answer.error_code);
            assert_eq!(again, answer, "told two different things");
            producer.ended(&again);
            run.produce(&producer, true, ("t", 0), "b");
            run.end(&producer, 5, true);
            let values: &[&str] = if committed { &["a", "b"] } else { &["b"] };
            Outcome::default().values("t", 0, values).state("x", "CompleteCommit")
        });
    }
}

/// Two ids whose transactions overlap on the same partitions, one committed and one aborted, their ends sent at once.
#[test]
fn two_ids_on_the_same_partitions() {
    every_point(&[], |run| {
        let (x, y) = (run.start("x"), run.start("y"));
        for partition in 0..2 {
            run.produce(&x, true, ("t", partition), "a");
            run.produce(&y, true, ("t", partition), "b");
        }
        let (commit, abort) = (x.end_request(true), y.end_request(false));
        drop(run.world.client().send(5, &commit));
        let aborted = run.ask_until(5, &abort, |answer| answer.error_code);
        y.ended(&aborted);
        let committed = run.ask_until(5, &commit, |answer| answer.error_code);
        x.ended(&committed);
        run.produce(&y, true, ("t", 1), "c");
        run.end(&y, 5, true);
        Outcome::default()
            .values("t", 0, &["a"])
            .values("t", 1, &["a", "c"])
            .state("x", "CompleteCommit")
            .state("y", "CompleteCommit")
    });
}

/// A commit at the last epoch: the producer id rotates, the answer names the next one, and so does every repetition.
#[test]
fn commit_at_the_last_epoch() {
    rotation(true);
}

/// An abort at the last epoch.
#[test]
fn abort_at_the_last_epoch() {
    rotation(false);
}

fn rotation(committed: bool) {
    every_point(&LAST_EPOCH, |run| {
        let producer = run.start("x");
        // A start that was asked for twice, since its answer was lost, has rotated already.
        let has_rotated = producer.id.get().1 != 32_766;
        assert!(!has_rotated || run.deaths > 0);
        let before = producer.id.get();
        run.produce(&producer, true, ("t", 0), "a");
        run.produce(&producer, true, ("t", 1), "a");
        run.end(&producer, 5, committed);
        let after = producer.id.get();
        assert!(has_rotated || (after.0 != before.0 && after.1 == 0), "{before:?} {after:?}");
        run.produce(&producer, true, ("t", 0), "b");
        run.end(&producer, 5, true);
        let values: (&[&str], &[&str]) = if committed { (&["a", "b"], &["a"]) } else { (&["b"], &[]) };
        Outcome::default().values("t", 0, values.0).values("t", 1, values.1).state("x", "CompleteCommit")
    });
}

/// Back-to-back transactions: the next one's records come while the last one completes.
#[test]
fn transactions_back_to_back() {
    every_point(&[], |run| {
        let mut producer = run.start("x");
        for value in ["a", "b", "c"] {
            run.produce(&producer, true, ("t", 0), value);
            let request = producer.end_request(value != "b");
            let answer = run.ask_until(5, &request, |answer| answer.error_code);
            // Nothing is waited for between the answer and the next record.
            let next =
                Producer::holding(run.world.client(), "x", (answer.producer_id, answer.producer_epoch));
            assert_eq!(answer.error_code, 0, "{answer:?}");
            producer = next;
        }
        run.settle();
        assert_eq!(transaction_state(&run.world.client(), "x"), "CompleteCommit");
        Outcome::default().values("t", 0, &["a", "c"]).state("x", "CompleteCommit")
    });
}
