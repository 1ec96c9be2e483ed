//! Traps of the transaction coordinator's specification that show in the engine alone: loads, and what lies in the log.

use std::rc::Rc;

use fencepost_records::{BatchBuilder, Batches, Compression, EndTxnMarker};
use fencepost_storage::Disk;
use fencepost_types::{LeaderEpoch, Offset};

use crate::harness::requests::{
    READ_UNCOMMITTED, committed_values, marker, read, transaction_state, write_markers,
};
use crate::harness::{Producer, World};

/// The coordinator epochs of the markers in `t-0`, in order.
fn coordinator_epochs(world: &Rc<World>) -> Vec<i32> {
    let records = read(&world.client(), "t", 0, 0, READ_UNCOMMITTED).records.unwrap();
    let batches = Batches::new(records.into_bytes()).map(Result::unwrap);
    batches
        .filter_map(|batch| EndTxnMarker::from_batch(&batch).unwrap())
        .map(|marker| marker.coordinator_epoch.0)
        .collect()
}

/// Coordinator trap 25: a load is made once, under a new epoch, and nothing that the metadata says later takes it back:
/// transactions go on while topics, settings and levels change, and every start has an epoch above the one before.
#[test]
fn every_load_has_a_newer_epoch_and_is_never_undone() {
    let world = World::new();
    world.create_topic("t", 1);
    for round in 0..4 {
        let producer = Producer::start(world.client(), "x");
        for step in 0..3 {
            producer.produce(12, "t", 0, &["a"]);
            match step {
                0 => drop(world.create_topic(&format!("other{round}"), 1)),
                1 => world.set_transaction_version(1),
                _ => world.set_transaction_version(2),
            }
            producer.end(5, true);
        }
        if round % 2 == 0 {
            world.restart();
        } else {
            world.stop_and_start();
        }
    }
    let epochs = coordinator_epochs(&world);
    assert_eq!(epochs.len(), 12);
    for (number, pair) in epochs.windows(2).enumerate() {
        let is_restart = (number + 1) % 3 == 0;
        assert_eq!(pair[1] > pair[0], is_restart, "{epochs:?}");
        assert!(pair[1] >= pair[0], "{epochs:?}");
    }
}

/// Coordinator trap 26: a load gets past batches that hold no record of a transactional id: a control batch, and one that
/// compaction has emptied, in the middle of the log and at its end.
#[test]
fn a_load_gets_past_control_and_empty_batches() {
    let world = World::new();
    world.create_topic("t", 1);
    let mut producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    let both = [("__transaction_state", 0), ("__transaction_state", 1)];
    let answer = world.client().ask(1, &write_markers(vec![marker((7_000, 0), true, 0, &both)]));
    let rows = answer.markers[0].topics[0].partitions.iter();
    assert_eq!(rows.filter(|row| row.error_code == 0).count(), 2, "{answer:?}");
    world.settle();
    for round in 0..2 {
        let ends = world.log_ends("__transaction_state");
        world.kill();
        for (partition, end) in ends.iter().enumerate() {
            append_empty_batch(&world, &format!("__transaction_state-{partition}"), *end);
        }
        world.start();
        assert_eq!(world.log_ends("__transaction_state"), ends.iter().map(|end| end + 1).collect::<Vec<_>>());
        assert_eq!(transaction_state(&world.client(), "x"), "Ongoing", "round {round}");
        producer.client = world.client();
        producer.produce(12, "t", 0, &["b"]);
        producer.end(5, true);
        producer.produce(12, "t", 0, &["c"]);
    }
    producer.end(5, true);
    assert_eq!(committed_values(&world.client(), "t", 0), ["a", "b", "c", "b", "c"]);
}

/// What compaction leaves of a batch whose records have all been replaced, with its offset, at the end of a log.
fn append_empty_batch(world: &World, directory: &str, base_offset: i64) {
    let file = world.disk.open(&format!("{directory}/00000000000000000000.log")).unwrap();
    let end = file.bytes().unwrap();
    let mut log = vec![0; end as usize];
    file.read_at(0, &mut log).unwrap();
    let epochs = Batches::new(log.into()).map(|batch| batch.unwrap().header().leader_epoch);
    let mut full = BatchBuilder::new(Offset(base_offset), epochs.max().unwrap_or(LeaderEpoch(0)));
    full.append(world.now().wall, Some(b"replaced"), None, &[]);
    let full = full.build().unwrap();
    let batch = BatchBuilder::rewrite(full.header(), Compression::NONE).build().unwrap();
    assert_eq!((batch.header().record_count, batch.header().last_offset_delta), (0, 0));
    file.write_at(end, &[&batch.into_bytes()]).unwrap();
}
