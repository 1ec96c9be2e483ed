//! A damaged log takes its partition offline, and everything else is served (issue 12, A3).

use std::rc::Rc;
use std::sync::{Arc, Mutex};

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

/// Lines that are written while it is the thread's subscriber: level and fields, in the order in which they stand.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {}={value:?}", field.name());
            }
        }
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// What a start writes into the log about one partition, or one file.
fn lines_of_start(world: &Rc<World>, about: &str) -> Vec<String> {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || world.try_start().unwrap());
    let lines = lines.0.lock().unwrap().clone();
    lines.into_iter().filter(|line| line.contains(about)).collect()
}

/// A torn tail is cut off with one line that says what went: bytes, batches and offsets. One of damage names the file and what to do;
/// one of a checkpoint what is lost with it.
#[test]
fn what_was_cut_is_said() {
    const LOG: &str = "t-0/00000000000000000000.log";
    let world = world();
    world.kill();
    let whole = world.disk.copy();
    let content = whole.content(LOG);
    let batch_bytes = content.len() / 3;
    let said = |content: &[u8]| {
        world.disk.restore(&whole);
        world.disk.put(LOG, content);
        let lines = lines_of_start(&world, "partition=t-0");
        world.kill();
        lines
    };
    assert_eq!(said(&content), Vec::<String>::new());
    let cut = |position: usize, bytes: usize, batches: u64, end_offset: i64, previous: i64| {
        vec![format!(
            "WARN message=the torn end of a log was cut off: it was not known to be durable partition=t-0 file={LOG:?} \
             position={position} bytes={bytes} batches={batches} end_offset={end_offset} previous_end_offset={previous}"
        )]
    };
    assert_eq!(said(&content[..content.len() - 5]), cut(2 * batch_bytes, batch_bytes - 5, 0, 2, 2));
    let mut hole = content.clone();
    hole[batch_bytes..2 * batch_bytes].fill(0);
    assert_eq!(said(&hole), cut(batch_bytes, 2 * batch_bytes, 1, 1, 3));
    let mut changed = content.clone();
    changed[2 * batch_bytes - 4] ^= 1;
    let [line] = &said(&changed)[..] else { panic!("one line") };
    for word in [
        "ERROR",
        LOG,
        &format!("byte {batch_bytes}"),
        "put back the damaged file",
        "cut the file at that byte",
    ] {
        assert!(line.contains(word), "{line:?} says nothing of {word:?}");
    }
    world.disk.restore(&whole);
    world.disk.put("log-start-offset-checkpoint", b"0\n1\nt 0");
    let lines = lines_of_start(&world, "log-start-offset-checkpoint");
    assert!(lines[0].starts_with("WARN") && lines[0].contains("records that were deleted"), "{lines:?}");
}

/// `bootstrap.checkpoint` is for the first start alone: a directory in use is served whatever it says.
#[test]
fn a_damaged_bootstrap_file_in_a_used_directory() {
    let world = world();
    world.kill();
    for content in [&b""[..], b"x", &[0xa5; 200]] {
        world.disk.put("bootstrap.checkpoint", content);
        world.try_start().unwrap();
        assert_eq!((put(&world, "t"), fetched(&world, "t")), (0, 0));
        world.kill();
    }
}
