//! DeleteRecords through an open transaction: the log start moves into its data, up to its end, and over it.
//!
//! The transaction stays open where its data is gone: its marker must still come (producer-state trap 32). Restarts change
//! nothing of it, clean or not.

use std::rc::Rc;

use fencepost_protocol::messages::{DeleteRecordsRequest, delete_records_request};
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_COMMITTED, READ_UNCOMMITTED, list_offsets, produce, read};
use crate::harness::{Producer, World, plain_batch, values_of};

/// Longer than any test that does not wait for it.
const TIMEOUT_MS: i32 = 900_000;

/// What happens to the process between any two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    Kill,
    Stop,
}

impl Between {
    const ALL: [Self; 3] = [Self::Nothing, Self::Kill, Self::Stop];

    fn happen(self, world: &Rc<World>, producer: &mut Producer) {
        world.settle();
        match self {
            Self::Nothing => return,
            Self::Kill => world.restart(),
            Self::Stop => world.stop_and_start(),
        }
        world.settle();
        producer.client = world.client();
    }
}

/// `t-0` with a plain record at 0, three records of an open transaction from 1 to 3 in two batches, and a plain record at 4.
fn open() -> (Rc<World>, Producer) {
    let world = World::new();
    world.create_topic("t", 1);
    let plain = |value: &str| {
        let batch = plain_batch(world.now().wall, &[value]);
        let answer = world.client().ask(9, &produce(None, -1, vec![("t", 0, batch)]));
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    };
    plain("before");
    let producer = Producer::start_with(world.client(), "x", TIMEOUT_MS);
    producer.produce(12, "t", 0, &["a", "b"]);
    producer.produce(12, "t", 0, &["c"]);
    plain("after");
    (world, producer)
}

/// Answers the low watermark and the code.
fn delete_records(world: &Rc<World>, offset: i64) -> (i64, i16) {
    let partition = delete_records_request::Partitions { partition_index: 0, offset };
    let topic = delete_records_request::Topics { name: "t".to_owned(), partitions: vec![partition] };
    let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1_000 };
    let row = &world.client().ask(2, &request).topics[0].partitions[0];
    (row.low_watermark, row.error_code)
}

/// Log start, last stable offset and log end.
fn bounds(world: &Rc<World>) -> (i64, i64, i64) {
    let standing = world.standing("t", 0);
    assert_eq!(standing.high_watermark, standing.log_end_offset);
    (standing.log_start_offset.0, standing.last_stable_offset.0, standing.log_end_offset.0)
}

fn latest(world: &Rc<World>, isolation_level: i8) -> (i16, i64) {
    let answer = world.client().ask(5, &list_offsets("t", -1, -1, isolation_level));
    let row = &answer.topics[0].partitions[0];
    (row.error_code, row.offset)
}

/// Producer-state trap 32: the last stable offset follows a log start that moves into the open transaction or over it, and is
/// never below it, not even in the middle of a batch. A commit makes the rest readable, an abort hides it; what lies beyond
/// the log start is told by the aborted list as it was.
#[test]
fn the_log_start_moves_through_an_open_transaction() {
    for between in Between::ALL {
        for committed in [true, false] {
            for to in [1, 2, 3, 4, 5] {
                through(between, committed, to);
            }
        }
    }
}

fn through(between: Between, committed: bool, to: i64) {
    let what = format!("{between:?}, committed: {committed}, to {to}");
    let (world, mut producer) = open();
    assert_eq!(bounds(&world), (0, 1, 5));
    assert_eq!(delete_records(&world, to), (to, 0), "{what}");
    for _ in 0..2 {
        assert_eq!(bounds(&world), (to, to, 5), "{what}");
        assert_eq!(
            latest(&world, READ_COMMITTED),
            (0, to),
            "{what}: within the log, so that it can be read from"
        );
        assert_eq!(latest(&world, READ_UNCOMMITTED), (0, 5), "{what}");
        let row = read(&world.client(), "t", 0, to, READ_COMMITTED);
        assert_eq!((row.error_code, row.log_start_offset, row.last_stable_offset), (0, to, to), "{what}");
        assert_eq!(
            values_of(&row.records.unwrap_or_default()),
            Vec::<String>::new(),
            "{what}: nothing is decided"
        );
        assert_eq!(world.standing("t", 0).open_transactions, 1, "{what}");
        between.happen(&world, &mut producer);
    }
    // The producer goes on in the same transaction.
    producer.produce(12, "t", 0, &["d"]);
    between.happen(&world, &mut producer);
    assert_eq!(bounds(&world), (to, to, 6), "{what}");
    producer.end(5, committed);
    between.happen(&world, &mut producer);
    assert_eq!(bounds(&world), (to, 7, 7), "{what}");
    let row = read(&world.client(), "t", 0, to, READ_COMMITTED);
    let aborted = row.aborted_transactions.unwrap();
    let first_offsets: Vec<i64> = aborted.iter().map(|aborted| aborted.first_offset).collect();
    assert_eq!(first_offsets.len(), usize::from(!committed), "{what}");
    assert!(first_offsets.iter().all(|first| *first <= to.max(5)), "{what}: {first_offsets:?}");
    // The batch that holds the log start is sent whole; a reader skips what is below.
    let from = |first: usize| ["a", "b", "c", "after", "d"][first..].to_vec();
    let sent = if to == 2 { from(0) } else { from(to as usize - 1) };
    assert_eq!(values_of(&row.records.unwrap()), sent, "{what}");
    // And the next transaction of the producer has nothing of the last one.
    producer.produce(12, "t", 0, &["e"]);
    assert_eq!(bounds(&world), (to, 7, 8), "{what}");
    producer.end(5, true);
    between.happen(&world, &mut producer);
    assert_eq!(bounds(&world), (to, 9, 9), "{what}");
}

/// The log start moves to the high watermark and no further, whatever is open; what is asked again changes nothing, and a lower
/// offset neither.
#[test]
fn an_open_transaction_does_not_hold_the_log_start() {
    let (world, mut producer) = open();
    const OUT_OF_RANGE: i16 = ErrorCode::OffsetOutOfRange as i16;
    assert_eq!(delete_records(&world, 6), (-1, OUT_OF_RANGE));
    assert_eq!(delete_records(&world, -1), (5, 0));
    assert_eq!(delete_records(&world, 5), (5, 0));
    assert_eq!(delete_records(&world, 2), (5, 0));
    assert_eq!(bounds(&world), (5, 5, 5));
    Between::Kill.happen(&world, &mut producer);
    assert_eq!(bounds(&world), (5, 5, 5));
    assert_eq!(world.standing("t", 0).open_transactions, 1, "its marker must still come");
    assert_eq!(read(&world.client(), "t", 0, 4, READ_COMMITTED).error_code, OUT_OF_RANGE);
    world.advance_ms(i64::from(TIMEOUT_MS) + 1_000);
    world.settle();
    assert_eq!(bounds(&world), (5, 6, 6), "the timeout ends it as ever");
    assert_eq!(world.standing("t", 0).open_transactions, 0);
}

/// The log start moves past the data of a transaction and its marker in one go: nothing of it is left in the list of
/// aborted transactions, and the open one behind it stands.
#[test]
fn the_log_start_moves_over_a_whole_transaction() {
    for between in Between::ALL {
        let (world, mut producer) = open();
        producer.end(5, false);
        producer.produce(12, "t", 0, &["f"]);
        assert_eq!(bounds(&world), (0, 6, 7), "{between:?}");
        assert_eq!(delete_records(&world, 6), (6, 0), "{between:?}");
        between.happen(&world, &mut producer);
        assert_eq!(bounds(&world), (6, 6, 7), "{between:?}");
        producer.end(5, true);
        between.happen(&world, &mut producer);
        let row = read(&world.client(), "t", 0, 6, READ_COMMITTED);
        assert_eq!(row.aborted_transactions.unwrap(), [], "{between:?}");
        assert_eq!(values_of(&row.records.unwrap()), ["f"], "{between:?}");
    }
}
