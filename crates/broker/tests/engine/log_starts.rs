//! What DeleteRecords has answered holds: the new log start outlives the process in every mode, and the machine where
//! acknowledged means on the disk.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use fencepost_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse, delete_records_request};
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_UNCOMMITTED, produce, read};
use crate::harness::{Call, World, plain_batch, values_of};

const LOG_STARTS: &str = "log-start-offset-checkpoint";
const STORAGE_ERROR: i16 = ErrorCode::KafkaStorageError as i16;
/// How many records there are in each partition.
const RECORDS: i64 = 10;

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Process,
    Machine,
}

impl Loss {
    /// The broker is gone, and starts again on what is left.
    fn happen(self, world: &Rc<World>, seed: u64) {
        world.kill();
        match self {
            Self::Process => world.disk.repair(),
            Self::Machine => world.disk.crash(seed),
        }
        world.disk.faults.power_on();
        world.edge.stops.lock().unwrap().clear();
        world.start();
    }
}

fn write(world: &Rc<World>, topic: &str, partition: i32, records: i64) {
    for _ in 0..records {
        let batch = plain_batch(world.now().wall, &["v"]);
        let answer = world.client().ask(9, &produce(None, -1, vec![(topic, partition, batch)]));
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    }
}

/// A world with records in each of the partitions of `t`.
fn with_records(world: Rc<World>, partitions: i32) -> Rc<World> {
    world.create_topic("t", partitions);
    for partition in 0..partitions {
        write(&world, "t", partition, RECORDS);
    }
    world
}

fn request(offsets: &[(i32, i64)]) -> DeleteRecordsRequest {
    let partition =
        |&(partition_index, offset)| delete_records_request::Partitions { partition_index, offset };
    let partitions = offsets.iter().map(partition).collect();
    let topic = delete_records_request::Topics { name: "t".to_owned(), partitions };
    DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1_000 }
}

fn send(world: &Rc<World>, offsets: &[(i32, i64)]) -> Call<DeleteRecordsRequest> {
    world.client().send(2, &request(offsets))
}

/// Low watermarks and codes.
fn rows(answer: &DeleteRecordsResponse) -> Vec<(i64, i16)> {
    answer.topics[0].partitions.iter().map(|row| (row.low_watermark, row.error_code)).collect()
}

fn delete(world: &Rc<World>, offsets: &[(i32, i64)]) -> Vec<(i64, i16)> {
    rows(&world.client().ask(2, &request(offsets)))
}

fn log_start(world: &World, topic: &str, partition: i32) -> i64 {
    world.standing(topic, partition).log_start_offset.0
}

fn checkpoint(world: &World) -> String {
    String::from_utf8(world.disk.content(LOG_STARTS)).unwrap()
}

/// The answer waits for the file, time alone brings none, and the file is Kafka's.
#[test]
fn the_answer_waits_for_the_checkpoint() {
    for world in [World::new(), World::page_cache()] {
        let world = with_records(world, 2);
        let call = send(&world, &[(0, 5), (1, 20)]);
        assert!(!call.is_done());
        assert_eq!(checkpoint(&world), "");
        world.settle();
        const OUT_OF_RANGE: i16 = ErrorCode::OffsetOutOfRange as i16;
        assert_eq!(rows(&call.answer()), [(5, 0), (-1, OUT_OF_RANGE)]);
        assert_eq!(checkpoint(&world), "0\n1\nt 0 5\n");
        world.restart();
        assert_eq!((log_start(&world, "t", 0), log_start(&world, "t", 1)), (5, 0));
        assert_eq!(read(&world.client(), "t", 0, 4, READ_UNCOMMITTED).error_code, OUT_OF_RANGE);
    }
}

/// Where nothing moves nothing is written: a refusal, the offset where the log starts, and one from before a restart.
#[test]
fn what_is_remembered_is_not_written_again() {
    let world = with_records(World::new(), 1);
    let answers_at_once = |offset: i64| {
        let calls = world.disk.faults.calls();
        let call = send(&world, &[(0, offset)]);
        assert!(call.is_done(), "{offset}");
        assert_eq!(world.disk.faults.calls(), calls, "{offset}");
        rows(&call.answer())[0]
    };
    assert_eq!(answers_at_once(0), (0, 0));
    assert_eq!(answers_at_once(RECORDS + 1).1, ErrorCode::OffsetOutOfRange as i16);
    assert_eq!(delete(&world, &[(0, 5)]), [(5, 0)]);
    assert_eq!(answers_at_once(5), (5, 0));
    assert_eq!(answers_at_once(3), (5, 0));
    world.restart();
    let answers_at_once = |offset: i64| {
        let call = send(&world, &[(0, offset)]);
        assert!(call.is_done(), "{offset}");
        rows(&call.answer())[0]
    };
    assert_eq!(answers_at_once(5), (5, 0));
}

/// All partitions of a request, and all requests that have come, share one write. Whoever asks for what has moved already, and
/// is not remembered yet, waits as well.
#[test]
fn a_write_is_shared() {
    let world = with_records(World::new(), 3);
    let calls_to_settle = || {
        let before = world.disk.faults.calls();
        world.settle();
        world.disk.faults.calls() - before
    };
    let first = send(&world, &[(0, 1)]);
    let one_write = calls_to_settle();
    assert_eq!(rows(&first.answer()), [(1, 0)]);
    let calls: Vec<_> = (2..8).map(|offset| send(&world, &[(0, offset), (1, offset), (2, offset)])).collect();
    let again = send(&world, &[(1, 2)]);
    assert!(calls.iter().all(|call| !call.is_done()) && !again.is_done());
    assert_eq!(calls_to_settle(), one_write);
    for (call, offset) in calls.iter().zip(2..8) {
        assert_eq!(rows(&call.answer()), [(offset, 0); 3]);
    }
    assert_eq!(rows(&again.answer()), [(7, 0)]);
    assert_eq!(checkpoint(&world), "0\n3\nt 0 7\nt 1 7\nt 2 7\n");
}

/// A crash before and after each call to the disk, of the process in both modes and of the machine with fsync: an answer that
/// has left holds; without one the log starts where it did or where it was to.
#[test]
fn a_crash_at_every_call() {
    let (mut answered, mut kept) = (0, [0; 2]);
    for (durability, loss) in [
        (World::new as fn() -> _, Loss::Process),
        (World::new, Loss::Machine),
        (World::page_cache, Loss::Process),
    ] {
        for at in 0..14 {
            for is_made in [false, true] {
                let world = with_records(durability(), 2);
                assert_eq!(delete(&world, &[(1, 2)]), [(2, 0)]);
                world.disk.faults.power_off_at(at, is_made);
                let call = send(&world, &[(0, 5), (1, 7)]);
                world.tick_if_due();
                while !world.disk.faults.is_off() && (world.sync_one() || world.tick_if_due()) {}
                let holds = call.is_done();
                loss.happen(&world, at * 2 + u64::from(is_made));
                let starts = (log_start(&world, "t", 0), log_start(&world, "t", 1));
                let context = format!("{loss:?} at {at}, {is_made}: {starts:?}");
                if holds {
                    assert_eq!(rows(&call.answer()), [(5, 0), (7, 0)], "{context}");
                    assert_eq!(starts, (5, 7), "{context}");
                    answered += 1;
                } else {
                    assert!(starts == (0, 2) || starts == (5, 7), "one write, for both: {context}");
                    kept[usize::from(starts == (5, 7))] += 1;
                }
                let row = read(&world.client(), "t", 0, starts.0, READ_UNCOMMITTED);
                assert_eq!(values_of(&row.records.unwrap()).len() as i64, RECORDS - starts.0, "{context}");
                assert_eq!(delete(&world, &[(0, 6), (1, 6)]), [(6, 0), (starts.1.max(6), 0)], "{context}");
            }
        }
    }
    assert!(answered > 0 && kept.iter().all(|count| *count > 0), "{answered} {kept:?}");
}

/// A segment that went with its records may come back when the machine loses power; what was deleted does not come back with
/// it. Once the names are durable the checkpoint need not say it any more (storage-formats §8.3).
#[test]
fn segments_that_come_back_stay_deleted() {
    let mut came_back = 0;
    for seed in 0..40 {
        let world = World::with(&[("log.retention.check.interval.ms", "100")]);
        world.create_topic_with("t", 2, &[("segment.ms", "10"), ("file.delete.delay.ms", "1000000")]);
        write(&world, "t", 1, 1);
        for _ in 0..4 {
            write(&world, "t", 0, 1);
            world.advance_ms(11);
        }
        assert_eq!(delete(&world, &[(0, 2)]), [(2, 0)]);
        // The chores at their time, and no sync.
        world.advance_ms(100);
        let deleted =
            |world: &World| world.disk.files().iter().filter(|path| path.ends_with(".log.deleted")).count();
        assert_eq!(deleted(&world), 2);
        // Somebody else has the checkpoint written.
        assert_eq!(delete_without_sync(&world, 1, 1), (1, 0));
        let log_is_back =
            |world: &World| world.disk.files().iter().any(|path| path == "t-0/00000000000000000000.log");
        if seed % 2 == 0 {
            world.kill();
            world.disk.crash(seed);
            came_back += usize::from(log_is_back(&world));
            world.start();
        } else {
            world.settle();
            assert_eq!(delete(&world, &[(0, 3)]), [(3, 0)]);
            world.advance_ms(100);
            world.settle();
            world.advance_ms(60_000);
            assert_eq!(checkpoint(&world), "0\n1\nt 1 1\n", "the first segment begins there");
            Loss::Machine.happen(&world, seed);
        }
        assert_eq!(log_start(&world, "t", 0), 2 + (seed as i64) % 2, "{seed}");
        world.settle();
    }
    assert!(came_back > 0);
}

/// Chores run, syncs do not.
fn delete_without_sync(world: &Rc<World>, partition: i32, offset: i64) -> (i64, i16) {
    let call = send(world, &[(partition, offset)]);
    while !call.is_done() {
        assert!(world.tick_if_due());
    }
    rows(&call.answer())[0]
}

/// A full disk refuses, and the broker goes on; the log start has moved meanwhile, and whoever asks again is answered when it is
/// written, and not before.
#[test]
fn a_full_disk() {
    let world = with_records(World::new(), 1);
    world.disk.faults.fail_writes(Some(LOG_STARTS));
    assert_eq!(delete(&world, &[(0, 5)]), [(-1, STORAGE_ERROR)]);
    assert_eq!(delete(&world, &[(0, 5)]), [(-1, STORAGE_ERROR)], "nor is it remembered now");
    assert_eq!(world.stops(), Vec::<String>::new());
    write(&world, "t", 0, 1);
    world.disk.faults.fail_writes(None);
    assert_eq!(delete(&world, &[(0, 5)]), [(5, 0)]);
    world.restart();
    assert_eq!(log_start(&world, "t", 0), 5);
}

/// A disk that fails takes the log directory offline: DeleteRecords is refused, and what was remembered stays remembered, though
/// no partition is there any more whose offsets could be written.
#[test]
fn a_failed_disk_forgets_nothing() {
    let world = with_records(World::new(), 1);
    assert_eq!(delete(&world, &[(0, 5)]), [(5, 0)]);
    let call = send(&world, &[(0, 6)]);
    world.disk.faults.fail_syncs(true);
    while !call.is_done() {
        assert!(world.tick_if_due());
    }
    assert_eq!(rows(&call.answer()), [(-1, STORAGE_ERROR)]);
    assert_eq!(world.stops().len(), 1);
    world.disk.faults.fail_syncs(false);
    // The process takes a moment to end: its chores come once more.
    world.advance_ms(120_000);
    Loss::Process.happen(&world, 0);
    let start = log_start(&world, "t", 0);
    assert!(start == 5 || start == 6, "{start}");
}

/// The next topic of a name begins at 0, however the last one ended: its log start would hide records, or cut the log away.
#[test]
fn the_next_topic_of_the_name_begins_anew() {
    for crash in [None, Some(false), Some(true)] {
        let world = with_records(World::new(), 1);
        assert_eq!(delete(&world, &[(0, 8)]), [(8, 0)]);
        if let Some(is_made) = crash {
            // While the deletion is being published: its record is durable, the checkpoints are not rewritten.
            let mut at = 0;
            while checkpoint_names_t_after_deletion(&world, at, is_made) == Some(false) {
                at += 1;
            }
            world.check();
        } else {
            assert_eq!(world.delete_topic("t"), 0);
        }
        assert!(!world.broker().standings().iter().any(|standing| &*standing.partition.topic == "t"));
        assert_eq!(checkpoint(&world), "0\n0\n", "{crash:?}");
        world.create_topic("t", 1);
        write(&world, "t", 0, 3);
        world.restart();
        let standing = world.standing("t", 0);
        assert_eq!((standing.log_start_offset.0, standing.log_end_offset.0), (0, 3), "{crash:?}");
    }
}

/// Deletes the topic with a power failure at a call; starts again. `Some(true)` if it is gone by then, though nobody was told.
fn checkpoint_names_t_after_deletion(world: &Rc<World>, at: u64, is_made: bool) -> Option<bool> {
    assert!(at < 100, "the deletion never fails in the right moment");
    let whole = world.disk.copy();
    world.disk.faults.power_off_at(at, is_made);
    let names = fencepost_protocol::messages::DeleteTopicsRequest {
        topic_names: vec!["t".to_owned()],
        timeout_ms: 1_000,
        ..Default::default()
    };
    let call = world.client().send(5, &names);
    while !world.disk.faults.is_off() && (world.sync_one() || world.tick_if_due()) {}
    let was_named = checkpoint(world).contains("t 0 8");
    Loss::Process.happen(world, at);
    let is_gone = world.broker().standings().iter().all(|standing| &*standing.partition.topic != "t");
    let is_the_moment = is_gone && was_named && !call.is_done();
    if !is_the_moment {
        world.kill();
        world.disk.restore(&whole);
        world.start();
    }
    Some(is_the_moment)
}

/// A produce request waits for no checkpoint, and a checkpoint for no sync of records.
#[test]
fn produce_does_not_wait_for_it() {
    let world = with_records(World::new(), 1);
    let deleted = send(&world, &[(0, 5)]);
    let batch = plain_batch(world.now().wall, &["v"]);
    let produced = world.client().send(9, &produce(None, -1, vec![("t", 0, batch)]));
    assert!(world.sync_one());
    assert!(produced.is_done() && !deleted.is_done());
    let wanted = world.edge.syncs_wanted.load(Ordering::Relaxed);
    world.tick_if_due();
    assert!(deleted.is_done());
    assert_eq!(world.edge.syncs_wanted.load(Ordering::Relaxed), wanted);
}
