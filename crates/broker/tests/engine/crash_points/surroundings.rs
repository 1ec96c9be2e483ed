//! What changes around transactions: topics, levels, ids that nobody uses.

use super::every_point;
use super::outcome::Outcome;
use super::run::Run;
use crate::harness::World;

use fencepost_protocol::messages::{DeleteTopicsRequest, UpdateFeaturesResponse};
use fencepost_types::ErrorCode;

impl Run {
    /// Finalizes a level of `transaction.version`; told twice, it is no change.
    pub fn set_transaction_version(&mut self, level: i16) {
        let code = |answer: &UpdateFeaturesResponse| answer.error_code;
        let answer = self.ask_until(1, &World::transaction_version_request(level), code);
        assert!(answer.error_code == 0 || self.deaths > 0, "{answer:?}");
    }
}

/// A topic is deleted while a transaction has records in it: the rest of the transaction is committed.
#[test]
fn a_topic_is_deleted() {
    every_point(&[], |run| {
        let producer = run.start("x");
        run.produce(&producer, true, ("t", 0), "a");
        run.produce(&producer, true, ("u", 0), "a");
        let topic_names = vec!["u".to_owned()];
        let request = DeleteTopicsRequest { topic_names, timeout_ms: 1_000, ..Default::default() };
        let answer = run.ask(5, &request);
        let code = answer.responses[0].error_code;
        let is_gone = run.deaths > 0 && code == ErrorCode::UnknownTopicOrPartition.code();
        assert!(code == 0 || is_gone, "{answer:?}");
        run.end(&producer, 5, true);
        Outcome::default().values("t", 0, &["a"]).state("x", "CompleteCommit")
    });
}

/// `transaction.version` is raised under an open transaction and an older client.
#[test]
fn the_level_is_raised() {
    every_point(&[], |run| {
        run.set_transaction_version(1);
        level_changes(run, 2)
    });
}

/// It is lowered.
#[test]
fn the_level_is_lowered() {
    every_point(&[], |run| level_changes(run, 0));
}

/// Two open transactions, of an older client and of one of version 2: one committed, one aborted.
fn level_changes(run: &mut Run, level: i16) -> Outcome {
    let (older, newer) = (run.start("x"), run.start("y"));
    run.produce(&older, false, ("t", 0), "a");
    run.produce(&newer, true, ("t", 0), "b");
    run.produce(&newer, true, ("t", 1), "b");
    run.set_transaction_version(level);
    run.end(&older, 4, true);
    run.end(&newer, 5, false);
    run.produce(&newer, true, ("t", 1), "c");
    run.end(&newer, 5, true);
    Outcome::default()
        .values("t", 0, &["a"])
        .values("t", 1, &["c"])
        .state("x", "CompleteCommit")
        .state("y", "CompleteCommit")
}

/// An unused id expires, with a tombstone; one that comes back is a new one, and an id in use stays.
#[test]
fn ids_expire() {
    const EXPIRATION_MS: i64 = 3_600_000;
    let settings = [
        ("transactional.id.expiration.ms", "3600000"),
        ("transaction.max.timeout.ms", "36000000"),
        ("log.flush.offset.checkpoint.interval.ms", "3600000"),
        ("log.retention.check.interval.ms", "3600000"),
    ];
    every_point(&settings, |run| {
        let gone = run.start("x");
        run.produce(&gone, true, ("t", 0), "a");
        run.end(&gone, 5, true);
        let used = run.start_with("y", 36_000_000);
        run.produce(&used, true, ("t", 1), "b");
        run.world.step_wall_ms(EXPIRATION_MS);
        run.advance_ms(600_000);
        assert_eq!((run.state("x").as_str(), run.state("y").as_str()), ("", "Ongoing"));
        run.end(&used, 5, true);
        assert_ne!(run.try_end(&gone, 5, true).error_code, 0);
        Outcome::default()
            .values("t", 0, &["a"])
            .values("t", 1, &["b"])
            .state("x", "")
            .state("y", "CompleteCommit")
    });
}
