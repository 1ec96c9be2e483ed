//! Compaction of topics and of the two internal topics, with everything else going on.

use std::rc::Rc;

use bytes::Bytes;
use fencepost_records::{BatchBuilder, Batches};
use fencepost_storage::Disk;
use fencepost_types::{LeaderEpoch, Millis, Offset};

use crate::harness::requests::{
    READ_COMMITTED, commit_offset, committed_offset, produce, read, transaction_state,
};
use crate::harness::{Client, Producer, World, values_of};

/// `log.cleaner.backoff.ms` in these tests.
const BACKOFF_MS: i64 = 1_000;
const FIRST_LOG: &str = "t-0/00000000000000000000.log";

/// A topic whose every batch is a segment of its own.
const COMPACTED: [(&str, &str); 4] = [
    ("cleanup.policy", "compact"),
    ("internal.segment.bytes", "120"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("file.delete.delay.ms", "5000"),
];

fn world(settings: &[(&str, &str)]) -> Rc<World> {
    let mut all = vec![("log.cleaner.backoff.ms", "1000")];
    all.extend_from_slice(settings);
    World::with(&all)
}

fn keyed(time: Millis, key: &str, value: &str) -> Bytes {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.append(time, Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    builder.build().unwrap().into_bytes()
}

fn put(client: &Client, topic: &str, key: &str, value: &str) {
    let batch = keyed(client.world().now().wall, key, value);
    let answer = client.ask(9, &produce(None, -1, vec![(topic, 0, batch)]));
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0, "{answer:?}");
}

fn values(client: &Client, topic: &str) -> Vec<String> {
    let end = client.world().standing(topic, 0).log_end_offset.0;
    let (mut at, mut values) = (0, Vec::new());
    while at < end {
        let records = read(client, topic, 0, at, READ_COMMITTED).records.unwrap();
        let batches = Batches::new(records.clone().into_bytes()).map(Result::unwrap);
        at = batches.map(|batch| batch.last_offset().0 + 1).last().expect("a fetch gets on");
        values.extend(values_of(&records));
    }
    values
}

fn names(world: &World, directory: &str) -> Vec<String> {
    world.disk.list(directory).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn checkpoint(world: &World) -> String {
    let file = world.disk.open("cleaner-offset-checkpoint").unwrap();
    String::from_utf8(file.read(0, file.bytes().unwrap() as usize).unwrap().to_vec()).unwrap()
}

/// After the backoff the dirty log is cleaned, all at one time; what was replaced is unlinked after the topic's delay, and the
/// checkpoint is written at once. A restart goes on from there.
#[test]
fn a_compacted_topic_is_cleaned() {
    let world = world(&[]);
    world.create_topic_with("t", 1, &COMPACTED);
    let client = world.client();
    for number in 0..6 {
        put(&client, "t", ["a", "b"][number % 2], &format!("{number}"));
    }
    assert_eq!(values(&client, "t").len(), 6);
    world.advance_ms(BACKOFF_MS);
    world.settle();
    // The active segment's records are not known to the table of keys.
    assert_eq!(values(&client, "t"), ["3", "4", "5"]);
    assert!(checkpoint(&world).contains("t 0 5\n"), "{}", checkpoint(&world));
    let deleted = |world: &World| names(world, "t-0").iter().any(|name| name.ends_with(".deleted"));
    assert!(deleted(&world));
    world.advance_ms(4_999);
    assert!(deleted(&world));
    world.advance_ms(1);
    assert!(!deleted(&world));

    put(&client, "t", "b", "6");
    drop(client);
    world.stop_and_start();
    let client = world.client();
    assert_eq!(values(&client, "t"), ["3", "4", "5", "6"]);
    world.advance_ms(BACKOFF_MS);
    assert_eq!(values(&client, "t"), ["4", "5", "6"]);
    drop(client);
    world.restart();
    assert_eq!(values(&world.client(), "t"), ["4", "5", "6"]);
}

/// Issue 12, C17: `log.cleaner.min.compaction.lag.ms` and `log.segment.delete.delay.ms` are those of topics without their own:
/// young records stay, and what was replaced is unlinked after the broker's delay.
#[test]
fn the_brokers_lag_and_delay_count() {
    let world =
        world(&[("log.cleaner.min.compaction.lag.ms", "4500"), ("log.segment.delete.delay.ms", "3000")]);
    world.create_topic_with("t", 1, &COMPACTED[..3]);
    let client = world.client();
    for number in 0..6 {
        put(&client, "t", ["a", "b"][number % 2], &format!("{number}"));
    }
    world.advance_ms(4_000);
    world.settle();
    assert_eq!(values(&client, "t").len(), 6);
    world.advance_ms(1_000);
    world.settle();
    assert_eq!(values(&client, "t"), ["3", "4", "5"]);
    let deleted = |world: &World| names(world, "t-0").iter().any(|name| name.ends_with(".deleted"));
    world.advance_ms(2_999);
    assert!(deleted(&world));
    world.advance_ms(1);
    assert!(!deleted(&world));
}

/// The dirtiest log comes first, then all others that are due; one that is clean enough, or not compacted, never does.
#[test]
fn every_log_that_is_due_is_cleaned() {
    let world = world(&[]);
    world.create_topic_with("t", 1, &COMPACTED);
    world.create_topic_with("u", 1, &COMPACTED);
    world.create_topic_with("clean", 1, &[COMPACTED[0], COMPACTED[1], ("min.cleanable.dirty.ratio", "1.0")]);
    world.create_topic_with("deleted", 1, &[COMPACTED[1]]);
    let client = world.client();
    let topics = ["t", "u", "clean", "deleted"];
    for topic in topics {
        for value in ["1", "2", "3"] {
            put(&client, topic, "a", value);
        }
    }
    world.advance_ms(BACKOFF_MS);
    let left: Vec<usize> = topics.iter().map(|topic| values(&client, topic).len()).collect();
    assert_eq!(left, [2, 2, 3, 3]);
}

/// `log.cleaner.enable=false`: nothing is ever cleaned.
#[test]
fn the_cleaner_can_be_switched_off() {
    let world = world(&[("log.cleaner.enable", "false")]);
    world.create_topic_with("t", 1, &COMPACTED);
    let client = world.client();
    for value in ["1", "2", "3"] {
        put(&client, "t", "a", value);
    }
    world.advance_ms(10 * BACKOFF_MS);
    assert_eq!(values(&client, "t").len(), 3);
}

/// `log.cleaner.io.max.bytes.per.second`: a step is paid for with time, and the log serves meanwhile.
#[test]
fn a_throttled_cleaning_takes_its_time() {
    let world = world(&[("log.cleaner.io.max.bytes.per.second", "100")]);
    world.create_topic_with("t", 1, &COMPACTED);
    let client = world.client();
    for value in ["1", "2", "3", "4"] {
        put(&client, "t", "a", value);
    }
    world.advance_ms(BACKOFF_MS);
    // Three batches of about 70 bytes were read, for the table of keys.
    world.advance_ms(1_500);
    assert_eq!(values(&client, "t").len(), 4);
    world.advance_ms(20_000);
    assert_eq!(values(&client, "t").len(), 2);
}

/// A topic that is deleted while its log is being cleaned is gone; the next one of its name begins dirty.
#[test]
fn deletion_in_the_middle_of_a_cleaning() {
    for wait_ms in [0, 1_000, 3_000, 5_000] {
        let world = world(&[("log.cleaner.io.max.bytes.per.second", "100")]);
        world.create_topic_with("t", 1, &COMPACTED);
        let client = world.client();
        for value in ["1", "2", "3", "4"] {
            put(&client, "t", "a", value);
        }
        world.advance_ms(BACKOFF_MS + wait_ms);
        assert_eq!(world.delete_topic("t"), 0);
        assert!(!checkpoint(&world).contains("t 0"), "{}", checkpoint(&world));
        world.create_topic_with("t", 1, &COMPACTED);
        put(&client, "t", "a", "1");
        put(&client, "t", "a", "2");
        world.advance_ms(60_000);
        world.settle();
        assert_eq!(values(&client, "t"), ["1", "2"], "{wait_ms}");
        put(&client, "t", "a", "3");
        world.advance_ms(60_000);
        assert_eq!(values(&client, "t"), ["2", "3"], "{wait_ms}");
        assert_eq!(world.stops(), Vec::<String>::new());
        let strange = names(&world, "t-0")
            .into_iter()
            .find(|name| [".cleaned", ".swap", ".deleted"].iter().any(|suffix| name.ends_with(suffix)));
        assert_eq!(strange, None);
    }
}

/// A clean stop in the middle of a cleaning leaves neither half a replacement nor its beginnings.
#[test]
fn a_clean_stop_in_the_middle_of_a_cleaning() {
    for wait_ms in [0, 1_000, 3_000, 5_000] {
        let world = world(&[("log.cleaner.io.max.bytes.per.second", "100")]);
        world.create_topic_with("t", 1, &COMPACTED);
        for value in ["1", "2", "3", "4"] {
            put(&world.client(), "t", "a", value);
        }
        world.advance_ms(BACKOFF_MS + wait_ms);
        world.broker().stop(&|| world.now()).unwrap();
        let strange = names(&world, "t-0")
            .into_iter()
            .find(|name| [".cleaned", ".swap"].iter().any(|suffix| name.ends_with(suffix)));
        assert_eq!(strange, None, "{wait_ms}");
        world.restart();
        let found = values(&world.client(), "t");
        assert_eq!(found[found.len() - 2..], ["3", "4"], "{wait_ms}");
    }
}

/// A log with a damaged batch is left as it is, and the others are cleaned; the broker goes on.
#[test]
fn a_damaged_log_is_left_alone() {
    let world = world(&[]);
    let client = world.client();
    for topic in ["t", "u"] {
        world.create_topic_with(topic, 1, &COMPACTED);
        for value in ["1", "2", "3"] {
            put(&client, topic, "a", value);
        }
    }
    let log = world.disk.open(FIRST_LOG).unwrap();
    let last = log.bytes().unwrap() - 1;
    log.write_at(last, &[&[0x55]]).unwrap();
    world.advance_ms(5 * BACKOFF_MS);
    assert_eq!(values(&client, "u").len(), 2);
    assert_eq!(names(&world, "t-0").iter().filter(|name| name.ends_with(".log")).count(), 3);
    assert_eq!(world.stops(), Vec::<String>::new());
}

/// A full disk stops no broker for the sake of compaction: there is less to be done with the next try.
#[test]
fn a_full_disk_puts_a_cleaning_off() {
    let world = world(&[]);
    world.create_topic_with("t", 1, &COMPACTED);
    let client = world.client();
    for value in ["1", "2", "3"] {
        put(&client, "t", "a", value);
    }
    world.disk.faults.fail_writes(Some("t-0/"));
    world.advance_ms(3 * BACKOFF_MS);
    assert!(world.disk.faults.refused_writes() > 0);
    assert_eq!(values(&client, "t").len(), 3);
    assert!(!names(&world, "t-0").iter().any(|name| name.ends_with(".cleaned")));
    world.disk.faults.fail_writes(None);
    world.advance_ms(BACKOFF_MS);
    assert_eq!(values(&client, "t").len(), 2);
    assert_eq!(world.stops(), Vec::<String>::new());
}

/// Nor for the sake of remembering up to where a log is clean.
#[test]
fn a_full_disk_puts_the_cleaners_checkpoint_off() {
    let world = world(&[]);
    world.create_topic_with("t", 1, &COMPACTED);
    let client = world.client();
    for value in ["1", "2", "3"] {
        put(&client, "t", "a", value);
    }
    world.disk.faults.fail_writes(Some("cleaner-offset-checkpoint"));
    world.advance_ms(3 * BACKOFF_MS);
    assert!(world.disk.faults.refused_writes() > 0);
    assert_eq!(values(&client, "t").len(), 2, "the pass itself is done");
    assert_eq!(world.stops(), Vec::<String>::new());
}

const MIB: u64 = 1 << 20;
/// What an internal topic of a few live keys may have left: a cleaned segment, the active one, and one between them.
const INTERNAL_BYTES_MAX: u64 = 3 * MIB;

/// Bytes and records in the logs of a partition.
fn size(world: &World, directory: &str) -> (u64, usize) {
    let (mut bytes, mut records) = (0, 0);
    for name in names(world, directory).iter().filter(|name| name.ends_with(".log")) {
        let file = world.disk.open(&format!("{directory}/{name}")).unwrap();
        let content = file.read(0, file.bytes().unwrap() as usize).unwrap();
        bytes += content.len() as u64;
        let counts = Batches::new(content).map(|batch| batch.unwrap().header().record_count as usize);
        records += counts.sum::<usize>();
    }
    (bytes, records)
}

/// Lets everything happen that does not wait for a client.
fn drain(world: &World) {
    loop {
        while world.sync_one() {}
        world.advance_ms(0);
        if !world.broker().has_dirty() {
            return;
        }
    }
}

/// Twenty thousand commits of a hundred offsets leave a log, and so a start, that is bounded by the hundred.
#[test]
fn offset_commits_leave_what_is_live() {
    const COMMITS: usize = 20_000;
    const GROUPS: usize = 100;
    let world = world(&[("offsets.topic.num.partitions", "1"), ("offsets.topic.segment.bytes", "1048576")]);
    world.create_topic("t", 1);
    let client = world.client();
    let mut calls = Vec::new();
    for number in 0..COMMITS {
        let mut request = commit_offset(&format!("group {}", number % GROUPS), number as i64);
        request.topics[0].partitions[0].committed_metadata = Some(format!("{number:040}"));
        calls.push(client.send(8, &request));
        if number % 500 == 499 {
            world.advance_ms(BACKOFF_MS);
            drain(&world);
            for call in calls.drain(..) {
                assert_eq!(call.answer().topics[0].partitions[0].error_code, 0);
            }
        }
    }
    world.advance_ms(2 * BACKOFF_MS);
    world.check();
    let (bytes, records) = size(&world, "__consumer_offsets-0");
    let written = world.standing("__consumer_offsets", 0).log_end_offset.0;
    assert!(
        bytes < INTERNAL_BYTES_MAX && records < COMMITS / 2,
        "{bytes} bytes, {records} of {written} records"
    );
    drop(client);
    world.restart();
    for group in 0..GROUPS {
        let last = (COMMITS - GROUPS + group) as i64;
        assert_eq!(committed_offset(&world.client(), &format!("group {group}"), "t", true), (last, 0));
    }
}

/// Five thousand transactions of five ids, with their states and their offsets: the same.
#[test]
fn transactions_leave_what_is_live() {
    const TRANSACTIONS: usize = 5_000;
    const IDS: usize = 5;
    let small = "1048576";
    let world = world(&[
        ("offsets.topic.num.partitions", "1"),
        ("offsets.topic.segment.bytes", small),
        ("transaction.state.log.num.partitions", "1"),
        ("transaction.state.log.segment.bytes", small),
        ("group.initial.rebalance.delay.ms", "0"),
    ]);
    world.create_topic("t", 1);
    let producers: Vec<Producer> =
        (0..IDS).map(|number| Producer::start(world.client(), &format!("id {number}"))).collect();
    for number in 0..TRANSACTIONS {
        let producer = &producers[number % IDS];
        let mut request = producer.offset_request("group", "t", number as i64);
        request.topics[0].partitions[0].committed_metadata = Some("m".repeat(300));
        let offset = producer.client.send(5, &request);
        drain(&world);
        assert_eq!(offset.answer().topics[0].partitions[0].error_code, 0);
        let end = producer.send_end(5, number % 3 != 0);
        drain(&world);
        producer.ended(&end.answer());
        if number % 250 == 249 {
            world.advance_ms(BACKOFF_MS);
        }
    }
    world.advance_ms(2 * BACKOFF_MS);
    world.check();
    for topic in ["__consumer_offsets", "__transaction_state"] {
        let (bytes, records) = size(&world, &format!("{topic}-0"));
        let written = world.standing(topic, 0).log_end_offset.0;
        assert!(
            bytes < INTERNAL_BYTES_MAX && records < written as usize * 2 / 3,
            "{topic}: {bytes} bytes, {records} of {written} records"
        );
    }
    drop(producers);
    world.restart();
    let last_committed = (0..TRANSACTIONS).rfind(|number| number % 3 != 0).unwrap() as i64;
    assert_eq!(committed_offset(&world.client(), "group", "t", true), (last_committed, 0));
    for number in 0..IDS {
        let state = transaction_state(&world.client(), &format!("id {number}"));
        assert!(state.starts_with("Complete"), "{state}");
    }
}
