//! However a transaction ends, its markers come by one way: through the entry that counts them, in the words of the version
//! of WriteTxnMarkers that the leader speaks.

use std::rc::Rc;

use fencepost_records::{Batches, EndTxnMarker};
use fencepost_types::TransactionResult;

use crate::harness::requests::{
    READ_COMMITTED, READ_UNCOMMITTED, init, marker, read, transaction_state, write_markers,
};
use crate::harness::{Producer, World};

/// Where markers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Commit,
    Abort,
    Timeout,
    NewInstance,
    /// Admin.forceTerminateTransaction.
    ForcedTermination,
    /// WriteTxnMarkers of an operator, or of another coordinator.
    OverTheWire,
}

const ORIGINS: [Origin; 6] = [
    Origin::Commit,
    Origin::Abort,
    Origin::Timeout,
    Origin::NewInstance,
    Origin::ForcedTermination,
    Origin::OverTheWire,
];
/// The partition of the group's offsets.
const OFFSETS: &str = "__consumer_offsets";
/// The highest version of WriteTxnMarkers that a leader shows.
const LEADERS: [&str; 2] = ["WriteTxnMarkers:1", "WriteTxnMarkers:2"];

/// A transaction with records in two partitions and with offsets.
fn open(world: &Rc<World>, is_version_2: bool) -> Producer {
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    for partition in 0..2 {
        if !is_version_2 {
            producer.add_partition("t", partition);
        }
        producer.produce(if is_version_2 { 12 } else { 11 }, "t", partition, &["a"]);
    }
    if is_version_2 {
        let answer = producer.client.ask(5, &producer.offset_request("g", "t", 1));
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "{answer:?}");
    }
    producer
}

fn end(world: &Rc<World>, producer: &Producer, origin: Origin, is_version_2: bool) {
    let version = if is_version_2 { 5 } else { 4 };
    match origin {
        Origin::Commit => producer.end(version, true),
        Origin::Abort => producer.end(version, false),
        Origin::Timeout => world.advance_ms(60_001),
        Origin::NewInstance => _ = world.client().ask(5, &init("x", 60_000)),
        Origin::ForcedTermination => _ = world.client().ask(5, &init("x", 1)),
        Origin::OverTheWire => {
            let mut places = vec![("t", 0), ("t", 1)];
            let offsets = (0..2).filter(|at| world.standing(OFFSETS, *at).open_transactions > 0);
            places.extend(offsets.map(|at| (OFFSETS, at)));
            let request = write_markers(vec![marker(producer.id.get(), false, 0, &places)]);
            let answer = world.client().ask(1, &request);
            let rows = answer.markers[0].topics.iter().flat_map(|topic| &topic.partitions);
            assert!(rows.into_iter().all(|row| row.error_code == 0), "{answer:?}");
        }
    }
    world.settle();
}

/// The markers of all partitions: epoch and result.
fn markers(world: &Rc<World>) -> Vec<(i16, TransactionResult)> {
    let mut found = Vec::new();
    for (topic, partition) in [("t", 0), ("t", 1), (OFFSETS, 0), (OFFSETS, 1)] {
        let row = read(&world.client(), topic, partition, 0, READ_UNCOMMITTED);
        for batch in Batches::new(row.records.unwrap_or_default().into_bytes()) {
            let batch = batch.unwrap();
            if let Ok(Some(marker)) = EndTxnMarker::from_batch(&batch) {
                found.push((batch.header().producer_epoch.0, marker.result));
            }
        }
        let row = read(&world.client(), topic, partition, 0, READ_COMMITTED);
        assert_eq!(row.last_stable_offset, row.high_watermark, "{topic}-{partition}");
    }
    found
}

/// Every origin, both kinds of clients, leaders of both versions: each marker has come through the one entry, with the
/// epoch that the end has, and nothing stays open. A leader of version 1 is not told the transaction's version, and
/// takes the raised epoch by the older rule.
#[test]
fn every_end_comes_by_one_way() {
    for leaders in LEADERS {
        for is_version_2 in [true, false] {
            for origin in ORIGINS {
                let what = format!("{origin:?} by version 2: {is_version_2}, leaders {leaders}");
                let world = World::with(&[("fencepost.api.versions.max", leaders)]);
                let producer = open(&world, is_version_2);
                let epoch = producer.id.get().1;
                end(&world, &producer, origin, is_version_2);
                let raised = match origin {
                    Origin::Commit | Origin::Abort => is_version_2,
                    Origin::Timeout | Origin::NewInstance | Origin::ForcedTermination => true,
                    Origin::OverTheWire => false,
                };
                let result = TransactionResult::from_committed(origin == Origin::Commit);
                let expected = (epoch + i16::from(raised), result);
                let partitions = if is_version_2 { 3 } else { 2 };
                assert_eq!(markers(&world), vec![expected; partitions], "{what}");
                assert_eq!(world.broker().markers_written(), partitions as u64, "{what}");
                goes_on(&world, &what);
            }
        }
    }
}

/// A new producer of the same id commits.
fn goes_on(world: &Rc<World>, what: &str) {
    // Where the coordinator knows nothing of the markers, this aborts what it takes for open.
    world.client().ask(5, &init("x", 60_000));
    let next = Producer::start(world.client(), "x");
    next.produce(12, "t", 0, &["b"]);
    next.end(5, true);
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit", "{what}");
}
