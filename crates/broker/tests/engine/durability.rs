//! Nothing is acknowledged before it is durable, and nothing after a sync has failed.

use fencepost_protocol::messages::{CreateTopicsRequest, create_topics_request};
use fencepost_types::ErrorCode;

use crate::harness::requests::{
    READ_COMMITTED, READ_UNCOMMITTED, commit_offset, committed_values, init, long_poll, produce, read,
    transaction_state,
};
use crate::harness::{Producer, World, plain_batch};

const STORAGE_ERROR: i16 = ErrorCode::KafkaStorageError as i16;

fn create(name: &str) -> CreateTopicsRequest {
    let topic = create_topics_request::Topics {
        name: name.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    CreateTopicsRequest { topics: vec![topic], ..Default::default() }
}

/// B3: every kind of write is answered after its sync, and not before.
#[test]
fn nothing_is_acknowledged_before_the_sync() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    let now = world.now().wall;
    let client = world.client();
    let produced = client.send(9, &produce(None, -1, vec![("t", 0, plain_batch(now, &["b"]))]));
    let produced_1 = world.client().send(9, &produce(None, 1, vec![("t", 0, plain_batch(now, &["c"]))]));
    let created = world.client().send(7, &create("u"));
    let started = world.client().send(5, &init("y", 60_000));
    let committed = world.client().send(8, &commit_offset("g", 7));
    let offsets = world.client().send(5, &producer.offset_request("h", "t", 3));
    let ended = world.client().send(5, &producer.end_request(true));
    // Time alone acknowledges nothing.
    world.advance_ms(5_000);
    assert!(!produced.is_done() && !produced_1.is_done() && !created.is_done() && !started.is_done());
    assert!(!committed.is_done() && !offsets.is_done() && !ended.is_done());
    world.settle();
    for call in [&produced, &produced_1] {
        assert_eq!(call.answer().responses[0].partition_responses[0].error_code, 0);
    }
    assert_eq!(created.answer().topics[0].error_code, 0);
    assert_eq!(started.answer().error_code, 0);
    assert_eq!(committed.answer().topics[0].partitions[0].error_code, 0);
    assert_eq!(offsets.answer().topics[0].partitions[0].error_code, 0);
    assert_eq!(ended.answer().error_code, 0);
}

/// One round serves everyone who came before it, and the edge is asked for one sync, not for one per batch.
#[test]
fn a_round_is_shared() {
    let world = World::new();
    world.create_topic("t", 1);
    let wanted = || world.edge.syncs_wanted.load(std::sync::atomic::Ordering::Relaxed);
    let before = wanted();
    let now = world.now().wall;
    let calls: Vec<_> = (0..50)
        .map(|_| world.client().send(9, &produce(None, -1, vec![("t", 0, plain_batch(now, &["a"]))])))
        .collect();
    assert_eq!(wanted(), before + 1);
    assert!(world.sync_one());
    assert!(calls.iter().all(|call| call.is_done()));
    assert!(!world.sync_one());
}

/// Nobody waits for the record that says that a transaction is complete: it shares the first sync of the next transaction, or has its
/// own soon after. So a transaction takes four rounds: the partition added, the batch, the decision, the marker.
#[test]
fn the_completion_shares_the_next_sync() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    let wanted = || world.edge.syncs_wanted.load(std::sync::atomic::Ordering::Relaxed);
    let transact = || {
        producer.produce(12, "t", 0, &["a"]);
        producer.end(5, true);
        world.settle();
    };
    transact();
    for _ in 0..3 {
        let before = wanted();
        transact();
        assert_eq!(wanted(), before + 4);
    }
    assert!(!world.sync_one());
    world.advance_ms(5);
    assert!(world.sync_one());
    world.advance_ms(1_000);
    assert!(!world.sync_one());
}

/// Who asks how a completed transaction stands waits for the completion's sync, and asks for it.
#[test]
fn a_question_hastens_the_completions_sync() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    let again = producer.end_request(true);
    producer.end(5, true);
    world.settle();
    let asked = world.client().send(5, &again);
    assert!(!asked.is_done());
    assert!(world.sync_one());
    assert_eq!(asked.answer().error_code, 0);
}

/// In the other mode acknowledged means in the page cache: nothing waits for a sync, and none is asked for.
#[test]
fn the_page_cache_acknowledges_at_once() {
    let world = World::page_cache();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    let ended = producer.send_end(5, true);
    assert_eq!(ended.answer().error_code, 0);
    assert!(!world.broker().has_dirty());
    assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
    world.restart();
    assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
}

/// Issue 12, C17: `flush.messages` holds in the page cache, too: a record that fills the measure is answered after the sync.
#[test]
fn the_page_cache_is_flushed_by_count() {
    let world = World::page_cache_with(&[("log.flush.interval.messages", "2")]);
    world.create_topic("t", 1);
    let now = world.now().wall;
    let send = |value| world.client().send(9, &produce(None, -1, vec![("t", 0, plain_batch(now, &[value]))]));
    let first = send("a");
    assert_eq!(first.answer().responses[0].partition_responses[0].error_code, 0);
    assert!(!world.broker().has_dirty());
    let second = send("b");
    assert!(!second.is_done() && world.broker().has_dirty());
    world.settle();
    assert_eq!(second.answer().responses[0].partition_responses[0].error_code, 0);
}

/// Issue 12, C17: `flush.ms` is the longest a record stays out of a sync.
#[test]
fn the_page_cache_is_flushed_by_time() {
    let world = World::page_cache_with(&[("log.flush.interval.ms", "700")]);
    world.create_topic("t", 1);
    let now = world.now().wall;
    let sent = world.client().send(9, &produce(None, -1, vec![("t", 0, plain_batch(now, &["a"]))]));
    assert_eq!(sent.answer().responses[0].partition_responses[0].error_code, 0);
    world.advance_ms(699);
    assert!(!world.broker().has_dirty());
    world.advance_ms(1);
    assert!(world.broker().has_dirty());
}

/// A failed sync takes the log directory offline: what depended on it is never acknowledged, nor is anything later, in
/// any partition; who waits is told; the edge gets one sentence.
#[test]
fn a_failed_sync_acknowledges_nothing_ever() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    let now = world.now().wall;
    let parked = world.client().send(12, &long_poll("t", 1, 0, READ_UNCOMMITTED, 60_000));
    let produced = world.client().send(9, &produce(None, -1, vec![("t", 0, plain_batch(now, &["b"]))]));
    let elsewhere = world.client().send(9, &produce(None, -1, vec![("t", 1, plain_batch(now, &["c"]))]));
    let ended = world.client().send(5, &producer.end_request(true));
    let committed = world.client().send(8, &commit_offset("g", 7));
    let created = world.client().send(7, &create("u"));
    let started = world.client().send(5, &init("new", 60_000));
    world.disk.faults.fail_syncs(true);
    assert!(world.sync_one());
    let told_once = world.stops();
    assert_eq!(told_once.len(), 1);
    assert!(told_once[0].contains("sync"), "{told_once:?}");
    // The disk seems to work again. It is too late.
    world.disk.faults.fail_syncs(false);
    while world.sync_one() {}
    world.advance_ms(120_000);
    for call in [&produced, &elsewhere] {
        assert_eq!(call.answer().responses[0].partition_responses[0].error_code, STORAGE_ERROR);
    }
    assert_eq!(ended.answer().error_code, ErrorCode::NotCoordinator.code());
    assert_eq!(committed.answer().topics[0].partitions[0].error_code, ErrorCode::NotCoordinator.code());
    assert_ne!(created.answer().topics[0].error_code, 0);
    assert_ne!(started.answer().error_code, 0);
    assert_eq!(parked.answer().responses[0].partitions[0].error_code, STORAGE_ERROR);
    let later = world.client().send(9, &produce(None, -1, vec![("t", 1, plain_batch(now, &["d"]))]));
    assert_eq!(later.answer().responses[0].partition_responses[0].error_code, STORAGE_ERROR);
    let later = world.client().send(7, &create("v"));
    assert_ne!(later.answer().topics[0].error_code, 0);
    assert_eq!(world.stops(), told_once);
}

/// The same when it is the metadata log that cannot be synced: nobody waits for ever.
#[test]
fn a_failed_sync_of_the_metadata_log_answers_who_waits() {
    let world = World::new();
    let created = world.client().send(7, &create("u"));
    world.disk.faults.fail_syncs(true);
    assert!(world.sync_one());
    assert_eq!(world.stops().len(), 1);
    assert_eq!(created.answer().topics[0].error_code, STORAGE_ERROR);
    assert!(world.log_ends("u").is_empty(), "the image was not published");
}

/// Wire-apis trap 18, coordinator trap 29: an EndTxn that cannot be written is answered with something that clients
/// retry, never UNKNOWN_SERVER_ERROR; nothing has changed, no marker leaves, and the retry decides.
#[test]
fn an_end_that_cannot_be_written_is_undecided() {
    for version in [4, 5] {
        let world = World::new();
        world.create_topic("t", 1);
        let producer = Producer::start(world.client(), "x");
        if version == 4 {
            producer.add_partition("t", 0);
        }
        producer.produce(if version == 4 { 11 } else { 12 }, "t", 0, &["a"]);
        world.disk.faults.fail_writes(Some("__transaction_state"));
        let failed = producer.client.ask(version, &producer.end_request(true));
        assert_eq!(failed.error_code, ErrorCode::NotCoordinator.code());
        assert_eq!((failed.producer_id, failed.producer_epoch), (-1, -1));
        assert_eq!(world.log_ends("t"), [1]);
        world.disk.faults.fail_writes(None);
        assert_eq!(transaction_state(&world.client(), "x"), "Ongoing");
        producer.end(version, true);
        assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
    }
}

/// Wire-apis trap 28, coordinator trap 7: a fence whose append failed has fenced nobody; the epoch goes up once, when
/// one succeeds, under the older versions as under version 2.
#[test]
fn a_fence_that_cannot_be_written_raises_no_epoch() {
    for level in [1, 2] {
        let world = World::new();
        world.create_topic("t", 1);
        world.set_transaction_version(level);
        let producer = Producer::start(world.client(), "x");
        let (id, epoch) = producer.id.get();
        let produce_version = if level == 2 { 12 } else { 11 };
        if level < 2 {
            producer.add_partition("t", 0);
        }
        producer.produce(produce_version, "t", 0, &["a"]);
        world.disk.faults.fail_writes(Some("__transaction_state"));
        for _ in 0..3 {
            let failed = world.client().ask(5, &init("x", 60_000));
            assert_eq!(failed.error_code, ErrorCode::NotCoordinator.code());
        }
        world.disk.faults.fail_writes(None);
        // The old instance still holds its transaction.
        producer.produce(produce_version, "t", 0, &["b"]);
        let fencing = world.client().ask(5, &init("x", 60_000));
        assert_eq!(fencing.error_code, ErrorCode::ConcurrentTransactions.code());
        let started = world.client().ask(5, &init("x", 60_000));
        let pair = (started.producer_id, started.producer_epoch);
        assert_eq!((started.error_code, pair), (0, (id, epoch + 2)), "level {level}");
    }
}

/// Coordinator trap 28: a new id whose first record cannot be written is not there; the next try makes it.
#[test]
fn a_new_id_that_cannot_be_written_is_not_there() {
    let world = World::new();
    world.disk.faults.fail_writes(Some("__transaction_state"));
    assert_eq!(world.client().ask(5, &init("x", 60_000)).error_code, ErrorCode::NotCoordinator.code());
    world.disk.faults.fail_writes(None);
    let started = world.client().ask(5, &init("x", 60_000));
    assert_eq!((started.error_code, started.producer_epoch), (0, 0));
}

/// Coordinator trap 17: a marker that cannot be written is tried again, less and less often, until it can; the broker
/// goes on.
#[test]
fn a_marker_that_cannot_be_written_is_tried_again() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    world.disk.faults.fail_writes(Some("t-0"));
    producer.end(5, true);
    world.advance_ms(10_000);
    let tries = world.disk.faults.refused_writes();
    assert!((10..30).contains(&tries), "{tries} tries in ten seconds");
    assert_eq!(transaction_state(&world.client(), "x"), "PrepareCommit");
    assert_eq!(read(&world.client(), "t", 0, 0, READ_COMMITTED).last_stable_offset, 0);
    world.disk.faults.fail_writes(None);
    world.advance_ms(1_000);
    world.settle();
    assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit");
}

/// A completion that cannot be written is owed until it is, however often that fails.
#[test]
fn a_completion_that_cannot_be_written_is_tried_again() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["a"]);
    let ended = producer.send_end(5, true);
    world.sync_until(|| ended.is_done());
    world.disk.faults.fail_writes(Some("__transaction_state"));
    world.settle();
    world.advance_ms(10_000);
    let tries = world.disk.faults.refused_writes();
    assert!((5..20).contains(&tries), "{tries} tries in ten seconds");
    assert_eq!(transaction_state(&world.client(), "x"), "PrepareCommit");
    world.disk.faults.fail_writes(None);
    world.advance_ms(1_000);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit");
}

/// A timeout whose abort cannot be written is tried again, without keeping a processor busy.
#[test]
fn an_abort_that_cannot_be_written_is_tried_again() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start_with(world.client(), "x", 1_000);
    producer.produce(12, "t", 0, &["a"]);
    world.disk.faults.fail_writes(Some("__transaction_state"));
    world.advance_ms(11_000);
    let tries = world.disk.faults.refused_writes();
    assert!((10..60).contains(&tries), "{tries} tries in ten seconds");
    world.disk.faults.fail_writes(None);
    world.advance_ms(1_000);
    world.settle();
    assert_eq!(transaction_state(&world.client(), "x"), "CompleteAbort");
    assert_eq!(read(&world.client(), "t", 0, 0, READ_COMMITTED).last_stable_offset, 2);
}
