//! What changes around transactions: topics, levels, ids that nobody uses.

use super::every_point;
use super::outcome::Outcome;
use super::run::Run;
use crate::harness::World;
use crate::harness::requests::{all_committed_offsets, commit_offset, committed_offset};

use fencepost_protocol::messages::{
    CreateTopicsResponse, DeleteTopicsRequest, OffsetCommitResponse, UpdateFeaturesResponse,
};
use fencepost_types::ErrorCode;

impl Run {
    /// Finalizes a level of `transaction.version`; told twice, it is no change.
    pub fn set_transaction_version(&mut self, level: i16) {
        let code = |answer: &UpdateFeaturesResponse| answer.error_code;
        let answer = self.ask_until(1, &World::transaction_version_request(level), code);
        assert!(answer.error_code == 0 || self.deaths > 0, "{answer:?}");
    }

    /// Deletes a topic; told twice, it is gone already.
    fn delete_topic(&mut self, name: &str) {
        let topic_names = vec![name.to_owned()];
        let request = DeleteTopicsRequest { topic_names, timeout_ms: 1_000, ..Default::default() };
        let answer = self.ask(5, &request);
        let code = answer.responses[0].error_code;
        let is_gone = self.deaths > 0 && code == ErrorCode::UnknownTopicOrPartition.code();
        assert!(code == 0 || is_gone, "{answer:?}");
    }

    /// Makes a topic of one partition; told twice, it is there already.
    fn create_topic(&mut self, name: &str) {
        let code = |answer: &CreateTopicsResponse| answer.topics[0].error_code;
        let answer = self.ask_until(7, &World::create_topic_request(name, 1), code);
        let is_there = self.deaths > 0 && code(&answer) == ErrorCode::TopicAlreadyExists.code();
        assert!(code(&answer) == 0 || is_there, "{answer:?}");
    }

    /// Commits the offset of a group outside any transaction.
    fn commit_plain_offset(&mut self, group: &str, topic: &str, offset: i64) {
        let mut request = commit_offset(group, offset);
        request.topics[0].name = topic.to_owned();
        let code = |answer: &OffsetCommitResponse| answer.topics[0].partitions[0].error_code;
        let answer = self.ask_until(9, &request, code);
        assert_eq!(code(&answer), 0, "{answer:?}");
    }

    /// No group has an offset of partition 0 of the topic, nor one that is pending, however it is asked for.
    fn has_no_offsets(&self, groups: &[&str], topic: &str) {
        for group in groups {
            for require_stable in [false, true] {
                let client = self.world.client();
                assert_eq!(committed_offset(&client, group, topic, require_stable), (-1, 0), "{group}");
                let all = all_committed_offsets(&client, group, require_stable);
                assert!(all.iter().all(|(name, _)| name != topic), "{group}: {all:?}");
            }
        }
    }
}

/// Issue 12, A4: a topic is deleted while groups have offsets in it, committed and pending, and made again. No offset of the old
/// one is seen in the new one, before the transaction ends or after it.
#[test]
fn offsets_go_with_their_topic() {
    every_point(&[], |run| {
        run.commit_plain_offset("plain", "u", 42);
        let producer = run.start("x");
        run.produce(&producer, true, ("t", 0), "a");
        run.commit_offset(&producer, "staged", "u", 43);
        run.commit_offset(&producer, "staged", "t", 44);
        run.delete_topic("u");
        run.create_topic("u");
        run.has_no_offsets(&["plain", "staged"], "u");
        run.end(&producer, 5, true);
        run.has_no_offsets(&["plain", "staged"], "u");
        run.commit_plain_offset("new", "u", 1);
        Outcome::default()
            .values("t", 0, &["a"])
            .offset("plain", "u", -1)
            .offset("staged", "u", -1)
            .offset("staged", "t", 44)
            .offset("new", "u", 1)
            .state("x", "CompleteCommit")
    });
}

/// A topic is deleted while a transaction has records in it: the rest of the transaction is committed.
#[test]
fn a_topic_is_deleted() {
    every_point(&[], |run| {
        let producer = run.start("x");
        run.produce(&producer, true, ("t", 0), "a");
        run.produce(&producer, true, ("u", 0), "a");
        run.delete_topic("u");
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
