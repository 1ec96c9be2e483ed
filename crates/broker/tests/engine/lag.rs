//! Lag of groups: as Kafka's tool counts, to the last stable offset, and in records that a read_committed consumer gets.

use std::rc::Rc;

use fencepost_broker::{LagLimits, PartitionLag, RecordsLeft};
use fencepost_protocol::messages::{DeleteRecordsRequest, delete_records_request};
use fencepost_records::BatchBuilder;
use fencepost_types::{LeaderEpoch, Offset};

use crate::harness::requests::{commit_offset, produce};
use crate::harness::{Producer, World};

fn commit(world: &Rc<World>, group: &str, offset: i64) {
    let answer = world.client().ask(8, &commit_offset(group, offset));
    assert_eq!(answer.topics[0].partitions[0].error_code, 0, "{answer:?}");
}

fn row(world: &World, limits: LagLimits) -> PartitionLag {
    let mut report = world.broker().lag(Some("g"), limits);
    assert!(report.is_complete);
    report.groups.remove(0).partitions.remove(0)
}

/// Lag, lag to the last stable offset, and records, with `offset` committed.
fn lag_at(world: &Rc<World>, offset: i64) -> (i64, i64, RecordsLeft) {
    commit(world, "g", offset);
    let row = row(world, LagLimits::default());
    (row.lag().unwrap(), row.stable_lag().unwrap(), row.records)
}

fn counted(records: u64) -> RecordsLeft {
    RecordsLeft::Counted(records)
}

/// Operator-experience §3: a group that has read everything of a transactional topic shows 1 by Kafka's count, for the marker,
/// and has nothing left to read. Also from within a batch, and from beyond the end.
#[test]
fn a_marker_is_lag_and_no_record() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a", "b", "c"]);
    producer.end(5, true);
    assert_eq!(lag_at(&world, 3), (1, 1, counted(0)));
    assert_eq!(lag_at(&world, 4), (0, 0, counted(0)));
    assert_eq!(lag_at(&world, 1), (3, 3, counted(2)));
    assert_eq!(lag_at(&world, 0), (4, 4, counted(3)));
    assert_eq!(lag_at(&world, 9), (0, 0, counted(0)));
}

/// What was aborted nobody gets: only records of the same producer between its first batch and its marker are left out.
#[test]
fn aborted_records_are_not_left_to_read() {
    let world = World::new();
    world.create_topic("t", 1);
    let (one, two) = (Producer::start(world.client(), "x"), Producer::start(world.client(), "y"));
    one.produce(12, "t", 0, &["a", "b"]);
    one.end(5, true);
    one.produce(12, "t", 0, &["c", "d"]);
    two.produce(12, "t", 0, &["e"]);
    one.end(5, false);
    two.end(5, true);
    one.produce(12, "t", 0, &["f"]);
    one.end(5, true);
    // a b | marker | c d (aborted) | e | two markers | f | marker
    assert_eq!(lag_at(&world, 0), (10, 10, counted(4)));
    assert_eq!(lag_at(&world, 3), (7, 7, counted(2)));
    assert_eq!(lag_at(&world, 4), (6, 6, counted(2)));
    assert_eq!(lag_at(&world, 6), (4, 4, counted(1)));
    assert_eq!(lag_at(&world, 9), (1, 1, counted(0)));
}

/// An open transaction holds the last stable offset: what is behind that cannot be read yet. An offset that waits for the end
/// of its transaction does not count, and shows.
#[test]
fn an_open_transaction_is_lag_beyond_the_stable_one() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    producer.end(5, true);
    producer.produce(12, "t", 0, &["b", "c"]);
    let mut request = producer.offset_request("g", "t", 1);
    request.generation_id_or_member_epoch = -1;
    assert_eq!(producer.client.ask(5, &request).topics[0].partitions[0].error_code, 0);
    let waiting = row(&world, LagLimits::default());
    assert_eq!((waiting.committed_offset, waiting.pending_transactions), (None, 1));
    assert_eq!((waiting.lag(), waiting.stable_lag()), (None, None));
    assert_eq!(waiting.records, RecordsLeft::NothingCommitted);
    assert_eq!(lag_at(&world, 0), (4, 2, counted(1)));
    assert_eq!(row(&world, LagLimits::default()).pending_transactions, 1);
    let standing = row(&world, LagLimits::default()).standing.unwrap();
    assert_eq!((standing.last_stable_offset, standing.high_watermark), (Offset(2), Offset(4)));
    // Later in the log of the coordinator than the pending one: this one counts on.
    producer.end(5, true);
    assert_eq!(lag_at(&world, 0), (5, 5, counted(3)));
    assert_eq!(row(&world, LagLimits::default()).pending_transactions, 0);
}

/// Offsets that compaction has emptied are lag by Kafka's count, and nothing to read.
#[test]
fn a_compacted_gap_is_no_record() {
    let world = World::with(&[("log.cleaner.backoff.ms", "1000")]);
    let configs = [
        ("cleanup.policy", "compact"),
        ("internal.segment.bytes", "120"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    world.create_topic_with("t", 1, &configs);
    let client = world.client();
    for number in 0..6 {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
        builder.append(world.now().wall, Some(["a", "b"][number % 2].as_bytes()), Some(b"value"), &[]);
        let batch = builder.build().unwrap().into_bytes();
        let answer = client.ask(9, &produce(None, -1, vec![("t", 0, batch)]));
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0, "{answer:?}");
    }
    assert_eq!(lag_at(&world, 0), (6, 6, counted(6)));
    world.advance_ms(1_000);
    world.settle();
    assert_eq!(lag_at(&world, 0), (6, 6, counted(3)));
    assert_eq!(lag_at(&world, 4), (2, 2, counted(2)));
}

/// What one question may cost is bounded: where the limit is met nothing wrong is said. The rest is answered all the same.
#[test]
fn the_work_is_bounded() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    for _ in 0..4 {
        producer.produce(12, "t", 0, &["a"]);
        producer.end(5, true);
    }
    commit(&world, "g", 0);
    let at = |batches_per_partition, batches| {
        row(&world, LagLimits { batches_per_partition, batches, ..LagLimits::default() })
    };
    assert_eq!(at(8, 8).records, counted(4));
    assert_eq!(at(7, 100).records, RecordsLeft::BeyondLimit);
    assert_eq!(at(100, 7).records, RecordsLeft::BeyondLimit);
    assert_eq!(at(0, 0).lag(), Some(8));
    // The limit of a question is that of all its groups together.
    commit(&world, "h", 0);
    let limits = LagLimits { batches: 12, ..LagLimits::default() };
    let report = world.broker().lag(None, limits);
    let mut records: Vec<_> = report.groups.iter().map(|group| group.partitions[0].records).collect();
    assert!(report.is_complete);
    assert_eq!(records.pop(), Some(RecordsLeft::BeyondLimit));
    assert_eq!(records, [counted(4)]);
    let cut = world.broker().lag(None, LagLimits { rows: 1, ..LagLimits::default() });
    assert_eq!((cut.groups.len(), cut.is_complete), (1, false));
}

/// Long logs are counted in pieces, and from the log start where an offset lies below it.
#[test]
fn a_long_lag_is_counted_in_pieces() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    for _ in 0..140 {
        producer.produce(12, "t", 0, &["a", "b"]);
        producer.end(5, true);
    }
    assert_eq!(lag_at(&world, 0), (420, 420, counted(280)));
    assert_eq!(lag_at(&world, 1), (419, 419, counted(279)));
    // The log start comes to lie within a transaction: Kafka's count goes on as it was.
    let topic = delete_records_request::Topics {
        name: "t".to_owned(),
        partitions: vec![delete_records_request::Partitions { partition_index: 0, offset: 301 }],
    };
    let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1_000 };
    assert_eq!(world.client().ask(2, &request).topics[0].partitions[0].error_code, 0);
    assert_eq!(lag_at(&world, 0), (420, 420, counted(79)));
}

/// A group without offsets is not there, and one that has read nothing of nothing is not behind.
#[test]
fn what_is_not_there() {
    let world = World::new();
    assert_eq!(world.broker().lag(None, LagLimits::default()).groups, []);
    assert_eq!(world.broker().lag(Some("g"), LagLimits::default()).groups, []);
    world.create_topic("t", 1);
    commit(&world, "g", 0);
    let row = row(&world, LagLimits::default());
    assert_eq!((row.lag(), row.records), (Some(0), counted(0)));
}
