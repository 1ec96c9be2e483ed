//! A damaged log takes its partition offline, and everything else is served (issue 12, A3).

use std::rc::Rc;

use fencepost_protocol::messages::{
    FindCoordinatorRequest, MetadataRequest, find_coordinator_response, metadata_request, metadata_response,
};
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_UNCOMMITTED, fetch, produce};
use crate::harness::{Producer, World, plain_batch};

fn world() -> Rc<World> {
    let world = World::new();
    for topic in ["t", "u"] {
        world.create_topic(topic, 1);
        for _ in 0..3 {
            put(&world, topic);
        }
    }
    world
}

fn put(world: &Rc<World>, topic: &str) -> i16 {
    let call =
        world.client().send(11, &produce(None, -1, vec![(topic, 0, plain_batch(world.now().wall, &["v"]))]));
    world.settle();
    call.answer().responses[0].partition_responses[0].error_code
}

fn fetched(world: &Rc<World>, topic: &str) -> i16 {
    let call = world.client().send(12, &fetch(topic, 0, 0, READ_UNCOMMITTED));
    world.settle();
    call.answer().responses[0].partitions[0].error_code
}

fn described(world: &Rc<World>, topic: &str) -> metadata_response::Partitions {
    let topics = vec![metadata_request::Topics { name: Some(topic.to_owned()), ..Default::default() }];
    let call = world.client().send(12, &MetadataRequest { topics: Some(topics), ..Default::default() });
    world.settle();
    call.answer().topics[0].partitions[0].clone()
}

fn flip(world: &Rc<World>, path: &str, at: usize) {
    let mut content = world.disk.content(path);
    content[at] ^= 0x10;
    world.disk.put(path, &content);
}

/// After a clean stop and a broken newest batch: the partition has no leader, each request gets KAFKA_STORAGE_ERROR, its log is not
/// touched, its neighbour is served; the same after one more stop and start, which leaves no mark of a clean stop. Put back, it is
/// served whole.
#[test]
fn a_damaged_partition_is_offline_and_the_others_are_served() {
    const LOG: &str = "t-0/00000000000000000000.log";
    let world = world();
    world.broker().stop(&|| world.now()).unwrap();
    world.kill();
    let whole = world.disk.content(LOG);
    flip(&world, LOG, whole.len() - 3);
    let damaged = world.disk.content(LOG);
    for _ in 0..2 {
        world.try_start().unwrap();
        let row = described(&world, "t");
        assert_eq!((row.leader_id, row.error_code), (-1, ErrorCode::LeaderNotAvailable.code()));
        assert_eq!(row.offline_replicas, row.replica_nodes);
        assert_eq!(put(&world, "t"), ErrorCode::KafkaStorageError.code());
        assert_eq!(fetched(&world, "t"), ErrorCode::KafkaStorageError.code());
        assert_eq!((put(&world, "u"), fetched(&world, "u")), (0, 0));
        // Checkpoints are written meanwhile.
        world.advance_ms(120_000);
        world.broker().stop(&|| world.now()).unwrap();
        assert!(!world.disk.files().contains(&".kafka_cleanshutdown".to_owned()));
        world.kill();
        assert_eq!(world.disk.content(LOG), damaged);
    }
    world.disk.put(LOG, &whole);
    world.try_start().unwrap();
    assert_eq!(described(&world, "t").leader_id, described(&world, "u").leader_id);
    let call = world.client().send(12, &fetch("t", 0, 0, READ_UNCOMMITTED));
    world.settle();
    assert_eq!(call.answer().responses[0].partitions[0].high_watermark, 3);
    assert_eq!(put(&world, "t"), 0);
}

/// A directory that has gone with its records is not begun anew at offset 0.
#[test]
fn a_missing_directory_is_damage() {
    let world = world();
    world.broker().stop(&|| world.now()).unwrap();
    world.kill();
    for path in world.disk.files().into_iter().filter(|path| path.starts_with("t-0/")) {
        fencepost_storage::Disk::remove(&world.disk, &path).unwrap();
    }
    fencepost_storage::Disk::remove_dir(&world.disk, "t-0").unwrap();
    world.try_start().unwrap();
    assert_eq!(described(&world, "t").leader_id, -1);
    assert_eq!(put(&world, "t"), ErrorCode::KafkaStorageError.code());
    assert_eq!(put(&world, "u"), 0);
}

/// One broken batch in a coordinator's log: that shard is not there, COORDINATOR_NOT_AVAILABLE, and has not a part of its state;
/// the broker serves everything else.
#[test]
fn a_damaged_coordinator_log_takes_one_shard() {
    let find = |world: &Rc<World>, kind: i8, key: &str| -> find_coordinator_response::Coordinators {
        let request = FindCoordinatorRequest {
            key_type: kind,
            coordinator_keys: vec![key.to_owned()],
            ..FindCoordinatorRequest::default()
        };
        let call = world.client().send(4, &request);
        world.settle();
        call.answer().coordinators.remove(0)
    };
    let world = world();
    let _producer = Producer::start(world.client(), "x");
    world.broker().stop(&|| world.now()).unwrap();
    world.kill();
    let log = world.disk.files().into_iter().find(|path| {
        path.starts_with("__transaction_state-")
            && path.ends_with(".log")
            && !world.disk.content(path).is_empty()
    });
    let log = log.unwrap();
    flip(&world, &log, world.disk.content(&log).len() - 3);
    world.try_start().unwrap();
    let found = find(&world, 1, "x");
    assert_eq!(found.error_code, ErrorCode::CoordinatorNotAvailable.code());
    assert_eq!(find(&world, 0, "x").error_code, 0);
    assert_eq!(put(&world, "t"), 0);
}
