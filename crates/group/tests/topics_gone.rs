//! Issue 12, A4: offsets do not outlive their topic, whether their tombstones have been written yet or not, and whoever
//! has the topic's name now.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_coordinator::{Decision, LogPosition, Shard, Token};
use fencepost_group::*;
use fencepost_types::{
    ErrorCode, LeaderEpoch, Millis, Nanos, Now, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName,
    TransactionResult, Uuid,
};

const NOW: Now = Now { wall: Millis(1_700_000_000_000), mono: Nanos(1_000) };
const OLD: Uuid = Uuid::from_u128(1);
const NEW: Uuid = Uuid::from_u128(2);
const PRODUCER: ProducerId = ProducerId(7);

/// A shard with its log's end.
struct Log {
    shard: GroupShard,
    end: i64,
}

impl Log {
    fn new() -> Self {
        Self { shard: GroupShard::new(Arc::new(GroupConfig::default())), end: 0 }
    }

    /// Asks, appends and replays; answers the reply and how many records were written.
    fn ask(&mut self, request: &Request) -> (Reply, usize) {
        let decision = self.shard.decide(NOW, Token(1), request).expect("the request is accepted");
        let Decision { records, transactional, mut replies, .. } = decision;
        for record in &records {
            let at = self.position(transactional.is_some());
            self.shard.replay(at, record);
        }
        self.shard.check();
        (replies.remove(0).1, records.len())
    }

    fn position(&mut self, is_transactional: bool) -> LogPosition {
        self.end += 1;
        let producer_id = if is_transactional { PRODUCER } else { ProducerId::NONE };
        LogPosition {
            offset: Offset(self.end - 1),
            producer_id,
            producer_epoch: ProducerEpoch(0),
            is_transactional,
        }
    }

    fn marker(&mut self, result: TransactionResult) {
        let at = self.position(true);
        self.shard.replay_marker(at, result);
        self.shard.check();
    }

    /// The offset of `t`-0 for group `g`, asked for by the name alone.
    fn fetch(&mut self, existing: &Arc<Topics>, require_stable: bool) -> (i64, ErrorCode) {
        let asked =
            TopicPartitions { topic: "t".into(), topic_id: Uuid::ZERO, partitions: vec![PartitionIndex(0)] };
        let request = OffsetFetch {
            group: "g".into(),
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![asked]),
            require_stable,
            existing: Arc::clone(existing),
        };
        let Reply::Fetch(topics) = self.ask(&Request::OffsetFetch(request)).0 else {
            panic!("offsets are answered")
        };
        (topics[0].partitions[0].offset.0, topics[0].partitions[0].error)
    }
}

fn topics(ids: &[(&str, Uuid)]) -> Arc<Topics> {
    let facts = |id| TopicFacts { id, partition_count: 3 };
    Arc::new(Topics::new(1, ids.iter().map(|(name, id)| (TopicName::from(*name), facts(*id)))))
}

fn offsets(topic: &str, topic_id: Uuid, partition: i32, offset: i64) -> Vec<TopicOffsets> {
    let partition = PartitionOffset {
        partition: PartitionIndex(partition),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(0),
        metadata: None,
    };
    vec![TopicOffsets { topic: topic.into(), topic_id, partitions: vec![partition] }]
}

fn nobody() -> Committer {
    Committer { generation: -1, member_id: "".into(), instance_id: None }
}

fn commit(group: &str, topics: Vec<TopicOffsets>, retention_ms: i64, existing: &Arc<Topics>) -> Request {
    Request::OffsetCommit(OffsetCommit {
        api_version: 9,
        group: group.into(),
        committer: nobody(),
        retention_ms,
        topics,
        existing: Arc::clone(existing),
    })
}

fn txn_commit(topics: Vec<TopicOffsets>, existing: &Arc<Topics>) -> Request {
    Request::TxnOffsetCommit(TxnOffsetCommit {
        api_version: 5,
        group: "g".into(),
        producer_id: PRODUCER,
        producer_epoch: ProducerEpoch(0),
        committer: nobody(),
        topics,
        existing: Arc::clone(existing),
    })
}

fn deleted(names: &[&str], existing: &Arc<Topics>) -> TopicsDeleted {
    let names = names.iter().map(|name| TopicName::from(*name)).collect();
    TopicsDeleted { names, existing: Arc::clone(existing), after: None }
}

/// A committed offset, and one that its transaction commits later, count for nothing once the name stands for another topic,
/// and a commit for the new topic counts at once.
#[test]
fn an_offset_counts_for_the_topic_it_was_committed_for() {
    let (old, new) = (topics(&[("t", OLD)]), topics(&[("t", NEW)]));
    let mut log = Log::new();
    log.ask(&commit("g", offsets("t", OLD, 0, 5), -1, &old));
    log.ask(&txn_commit(offsets("t", OLD, 0, 6), &old));
    assert_eq!(log.fetch(&old, true), (-1, ErrorCode::UnstableOffsetCommit));
    assert_eq!(log.fetch(&new, true), (-1, ErrorCode::None), "what is pending is not this topic's");
    assert_eq!(log.fetch(&topics(&[]), false), (-1, ErrorCode::None), "and nobody's once it is gone");
    log.marker(TransactionResult::Commit);
    assert_eq!((log.fetch(&old, true).0, log.fetch(&new, true).0), (6, -1));
    log.ask(&commit("g", offsets("t", NEW, 0, 1), -1, &new));
    assert_eq!(log.fetch(&new, true), (1, ErrorCode::None));
}

/// A commit that found its topic before the deletion and is decided after it is refused: it would bring back what the
/// tombstones have removed, or replace an offset of the next topic of that name.
#[test]
fn a_commit_that_comes_late_is_refused() {
    let new = topics(&[("t", NEW)]);
    let mut log = Log::new();
    log.ask(&commit("g", offsets("t", NEW, 0, 1), -1, &new));
    for request in [commit("g", offsets("t", OLD, 0, 9), -1, &new), txn_commit(offsets("t", OLD, 0, 9), &new)]
    {
        let (Reply::Commit(answer), written) = log.ask(&request) else { panic!("a commit is answered") };
        assert_eq!(answer[0].partitions, [(PartitionIndex(0), ErrorCode::UnknownTopicId)]);
        assert_eq!(written, 0);
    }
    assert_eq!(log.fetch(&new, true), (1, ErrorCode::None));
}

/// A record without a topic id (it has an expiry of its own) goes when its name is deleted, and at a load when nothing has the
/// name; otherwise it stays.
#[test]
fn an_offset_without_a_topic_id_goes_by_its_name() {
    let old = topics(&[("t", OLD)]);
    for (names, existing, written) in [
        (vec![], topics(&[("t", NEW)]), 0),
        (vec![], topics(&[("u", NEW)]), 1),
        (vec!["t"], topics(&[("t", NEW)]), 1),
        (vec!["u"], topics(&[("t", OLD)]), 0),
    ] {
        let mut log = Log::new();
        log.ask(&commit("g", offsets("t", OLD, 0, 5), 86_400_000, &old));
        let request = Request::TopicsDeleted(deleted(&names, &existing));
        let found = log.ask(&request);
        assert_eq!(found, (Reply::OffsetsForgotten(None), written), "{names:?} {existing:?}");
    }
}

/// However many offsets go, each request writes a bounded number of tombstones, and the last one is told that it is the last;
/// offsets of topics that are there stay.
#[test]
fn many_offsets_go_step_by_step() {
    const GROUPS: i32 = 7;
    const PARTITIONS: i32 = 450;
    let old = topics(&[("kept", NEW), ("t", OLD)]);
    let mut log = Log::new();
    for group in 0..GROUPS {
        for partition in 0..PARTITIONS {
            log.ask(&commit(&format!("g{group}"), offsets("t", OLD, partition, 5), -1, &old));
        }
        log.ask(&commit(&format!("g{group}"), offsets("kept", NEW, 0, 5), -1, &old));
    }
    let mut request = deleted(&["t"], &topics(&[("kept", NEW)]));
    let mut steps = Vec::new();
    loop {
        let (Reply::OffsetsForgotten(after), written) = log.ask(&Request::TopicsDeleted(request.clone()))
        else {
            panic!("a deletion is answered")
        };
        steps.push(written);
        if after.is_none() {
            break;
        }
        request.after = after;
    }
    assert_eq!(steps, [1_000, 1_000, 1_000, 150]);
    let left = &log.shard.durable().offsets;
    let rest: BTreeSet<_> = left.after(None).map(|(_, partition, _)| partition.to_string()).collect();
    assert_eq!(rest, BTreeSet::from(["kept-0".to_owned()]));
    assert_eq!(left.after(None).count(), GROUPS as usize);
}
