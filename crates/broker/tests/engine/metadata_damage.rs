//! Issue 12, A3: a damaged metadata log stops the start with one sentence and everything is left as it was; only what a
//! loss of power leaves of the last write is cut. Nothing is ever bootstrapped over a directory that was in use.

use std::collections::BTreeMap;
use std::rc::Rc;

use fencepost_protocol::messages::{CreateTopicsRequest, DeleteTopicsRequest, create_topics_request};
use fencepost_records::{BatchBuilder, Batches};
use fencepost_storage::Disk;
use fencepost_types::{LeaderEpoch, Millis, Offset};

use crate::harness::requests::{READ_UNCOMMITTED, read};
use crate::harness::{Producer, TestDisk, World, values_of};

const LOG: &str = "__cluster_metadata-0/00000000000000000000.log";
const QUORUM_STATE: &str = "__cluster_metadata-0/quorum-state";
const CHECKPOINTS: [&str; 4] = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
];

/// A broker that has made two topics, written to one and been stopped, cleanly or not; and its disk.
fn stopped(is_clean: bool) -> (Rc<World>, TestDisk) {
    let world = World::new();
    world.create_topic("a", 1);
    world.create_topic_with("b", 2, &[("retention.ms", "1000000")]);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "a", 0, &["kept"]);
    producer.end(5, true);
    if is_clean {
        world.broker().stop(&|| world.now()).unwrap();
    }
    world.kill();
    let whole = world.disk.copy();
    (world, whole)
}

/// Every file with its content.
fn contents(disk: &TestDisk) -> BTreeMap<String, Vec<u8>> {
    disk.files().into_iter().map(|path| (path.clone(), disk.content(&path))).collect()
}

/// The start is refused with one sentence that holds `words`, and no file is touched.
fn assert_refused(world: &Rc<World>, words: &[&str], context: &str) {
    let before = contents(&world.disk);
    let Err(error) = world.try_start() else { panic!("{context}: the broker started") };
    let sentence = error.to_string();
    assert!(!sentence.contains('\n'), "{context}: {sentence:?}");
    for word in words {
        assert!(sentence.contains(word), "{context}: {sentence:?} says nothing of {word:?}");
    }
    assert!(contents(&world.disk) == before, "{context}: a file was touched: {sentence}");
}

/// The start succeeds, and what clients were told is there.
fn assert_starts(world: &Rc<World>, context: &str) {
    world.try_start().unwrap_or_else(|error| panic!("{context}: {error}"));
    world.settle();
    let row = read(&world.client(), "a", 0, 0, READ_UNCOMMITTED);
    assert_eq!(values_of(&row.records.unwrap()), ["kept"], "{context}");
    assert!(world.disk.files().iter().all(|file| !file.contains("-stray")), "{context}");
}

/// Offset and position of each batch of a log, and its end.
fn batches(content: &[u8]) -> Vec<(i64, usize)> {
    let mut at = 0;
    let mut found = Vec::new();
    for batch in Batches::new(content.to_vec().into()).map(Result::unwrap) {
        found.push((batch.base_offset().0, at));
        at += batch.bytes().len();
    }
    found
}

/// Any byte of the log that is not what it was, also of those that no checksum covers, after a clean stop and after a kill:
/// a process that is killed tears nothing.
#[test]
fn a_flipped_byte_stops_the_start() {
    for is_clean in [true, false] {
        let (world, whole) = stopped(is_clean);
        let content = whole.content(LOG);
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << (at % 8);
            world.disk.restore(&whole);
            world.disk.put(LOG, &damaged);
            assert_refused(&world, &["__cluster_metadata-0/"], &format!("byte {at}, clean: {is_clean}"));
        }
        world.disk.restore(&whole);
        assert_starts(&world, "the whole log");
    }
}

/// The sentence names the file, the byte, the offset, and what an operator can do.
#[test]
fn the_sentence_says_where_and_what_to_do() {
    let (world, whole) = stopped(true);
    let mut damaged = whole.content(LOG);
    let (offset, position) = batches(&damaged)[3];
    damaged[position + 70] ^= 0x10;
    world.disk.put(LOG, &damaged);
    let (byte, offset) = (format!("byte {position} "), format!("offset {offset}"));
    assert_refused(&world, &[LOG, &byte, &offset, "no file was changed", "backup"], "a flipped byte");
}

/// After a clean stop the log ends where it did: one that is shorter, by whole batches too, or longer by anything that is
/// no batch, is damaged.
#[test]
fn a_shorter_log_after_a_clean_stop() {
    let (world, whole) = stopped(true);
    let content = whole.content(LOG);
    let ends = batches(&content).into_iter().map(|(_, position)| position);
    for end in ends.chain([content.len() - 1, content.len() - 60, 1]) {
        world.disk.restore(&whole);
        world.disk.put(LOG, &content[..end]);
        assert_refused(&world, &["__cluster_metadata-0"], &format!("{end} of {} bytes", content.len()));
    }
    for tail in [&[0_u8; 100][..], &[7; 100], &[0; 3]] {
        world.disk.restore(&whole);
        world.disk.put(LOG, &[&content, tail].concat());
        assert_refused(&world, &[LOG], &format!("{} bytes more", tail.len()));
    }
}

/// A torn tail after a crash goes: a batch that is there in part, zeros where it should be, zeros after it. What stands before
/// stays, and the directories of partitions are left alone.
#[test]
fn a_torn_tail_after_a_crash_is_cut() {
    let (world, whole) = stopped(false);
    let content = whole.content(LOG);
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(1));
    builder.append(Millis(1), None, Some(&[5; 2_000]), &[]);
    let mut next = builder.build().unwrap().bytes().to_vec();
    let end = Batches::new(content.clone().into()).map(Result::unwrap).last().unwrap().last_offset().next();
    next[..8].copy_from_slice(&end.0.to_be_bytes());
    let mut with_hole = next.clone();
    let sector = (content.len() + 100).next_multiple_of(512) - content.len();
    with_hole[sector..sector + 512].fill(0);
    let mut without_start = next.clone();
    without_start[..512 - content.len() % 512].fill(0);
    let mut without_end = next.clone();
    without_end[700..].fill(0);
    let torn =
        [&next[..1], &next[..60], &next[..300], &with_hole, &without_start, &without_end, &[0; 4_096][..]];
    for (number, tail) in torn.into_iter().enumerate() {
        world.disk.restore(&whole);
        world.disk.put(LOG, &[&content, tail].concat());
        world.disk.create_dir("c-0").unwrap();
        world.disk.put("c-0/00000000000000000000.log", b"somebody's");
        let before = contents(&world.disk);
        assert_starts(&world, &format!("torn {number}"));
        assert_eq!(world.disk.content(LOG)[..content.len()], content, "torn {number}");
        assert!(before.keys().all(|path| world.disk.files().contains(path)), "torn {number}");
        world.kill();
    }
    // The same where a whole batch follows, or where all bytes are there and are not what was written.
    let mut flipped = next.clone();
    flipped[200] ^= 1;
    let last = batches(&content).pop().unwrap().1;
    for (number, log) in
        [[&content[..last], &with_hole, &content[last..]].concat(), [&content[..], &flipped].concat()]
            .into_iter()
            .enumerate()
    {
        world.disk.restore(&whole);
        world.disk.put(LOG, &log);
        assert_refused(&world, &[LOG], &format!("damaged {number}"));
    }
}

/// A log that is missing, or empty, or cut below what was noted as durable, with what else there is to tell that the
/// directory was in use: nothing is bootstrapped.
#[test]
fn nothing_is_bootstrapped_over_a_used_directory() {
    for is_clean in [true, false] {
        let (world, whole) = stopped(is_clean);
        let metadata_files =
            || whole.files().into_iter().filter(|path| path.starts_with("__cluster_metadata-0/"));
        let rest = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let evidence = [
            Vec::new(),
            rest(&[".kafka_cleanshutdown"]),
            rest(&CHECKPOINTS),
            [rest(&CHECKPOINTS), rest(&[".kafka_cleanshutdown", "meta.properties"])].concat(),
        ];
        for gone in &evidence {
            for (what, files) in [
                ("log", vec![LOG.to_owned()]),
                ("directory", metadata_files().collect()),
                ("all but quorum-state", metadata_files().filter(|path| path != QUORUM_STATE).collect()),
            ] {
                world.disk.restore(&whole);
                for file in files.iter().chain(gone).filter(|file| whole.files().contains(file)) {
                    world.disk.remove(file).unwrap();
                }
                if what == "directory" {
                    world.disk.remove_dir("__cluster_metadata-0").unwrap();
                }
                assert_refused(&world, &[], &format!("no {what}, without {gone:?}, clean: {is_clean}"));
            }
            world.disk.restore(&whole);
            world.disk.put(LOG, &[]);
            gone.iter().for_each(|file| drop(world.disk.remove(file)));
            assert_refused(&world, &[], &format!("an empty log, without {gone:?}, clean: {is_clean}"));
        }
        world.disk.restore(&whole);
        let content = whole.content(LOG);
        world.disk.put(LOG, &content[..batches(&content)[1].1]);
        assert_refused(&world, &["__cluster_metadata-0"], &format!("one batch is left, clean: {is_clean}"));
    }
}

/// `meta.properties` is missing, or another node's, from a directory that was in use (Kafka does not start without it at all).
#[test]
fn the_owner_of_a_used_directory() {
    let (world, whole) = stopped(true);
    world.disk.remove("meta.properties").unwrap();
    assert_refused(&world, &["meta.properties"], "no owner");
    world.disk.restore(&whole);
    let text = String::from_utf8(whole.content("meta.properties")).unwrap();
    world.disk.put("meta.properties", text.replace("node.id=1", "node.id=2").as_bytes());
    assert_refused(&world, &["node.id"], "another node's");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("directory.id")).collect();
    world.disk.put("meta.properties", lines.join("\n").as_bytes());
    assert_refused(&world, &["voter"], "no id of the directory");
    world.disk.put("meta.properties", b"");
    assert_refused(&world, &["meta.properties"], "an empty one");
}

/// `quorum-state` that is no JSON of its kind stops the start, as Kafka's does; without the file the log says the epoch. None is
/// led twice, and none below what the log has.
#[test]
fn a_damaged_quorum_state() {
    let (world, whole) = stopped(true);
    let content = whole.content(QUORUM_STATE);
    let text = String::from_utf8(content.clone()).unwrap();
    let too_high = text.replace("\"leaderEpoch\":1", "\"leaderEpoch\":2147483647");
    let lower = text.replace("\"leaderEpoch\":1", "\"leaderEpoch\":0");
    let quoted = text.replace("\"leaderEpoch\":1", "\"leaderEpoch\":\"1\"");
    let elsewhere = text.replace("\"leaderEpoch\":1", "\"note\":\"\\\"leaderEpoch\\\":1\"");
    let twice = text.clone() + &text;
    for damaged in ["", "{", &text[..text.len() - 1], &too_high, &lower, &quoted, &elsewhere, &twice] {
        assert_ne!(damaged, text);
        world.disk.restore(&whole);
        world.disk.put(QUORUM_STATE, damaged.as_bytes());
        assert_refused(&world, &["quorum-state"], damaged);
    }
    world.disk.restore(&whole);
    world.disk.remove(QUORUM_STATE).unwrap();
    assert_starts(&world, "no state of the quorum");
    let state = String::from_utf8(world.disk.content(QUORUM_STATE)).unwrap();
    assert!(state.contains("\"leaderEpoch\":2,"), "{state}");
}

/// What else lies in the directory of the metadata log is made anew: missing, empty, cut, of noise, with any bit flipped.
#[test]
fn side_files_of_the_metadata_log() {
    for is_clean in [true, false] {
        let (world, whole) = stopped(is_clean);
        let before = whole.content(LOG);
        let is_side_file =
            |path: &String| path.starts_with("__cluster_metadata-0/") && path != LOG && path != QUORUM_STATE;
        for path in whole.files().into_iter().filter(is_side_file) {
            let content = whole.content(&path);
            let mut damages = vec![None, Some(Vec::new()), Some(vec![0xa5; 40])];
            for at in 0..content.len() {
                let mut flipped = content.clone();
                flipped[at] ^= 1 << (at % 8);
                damages.extend([Some(flipped), Some(content[..at].to_vec())]);
            }
            for damage in damages {
                world.disk.restore(&whole);
                match &damage {
                    None => world.disk.remove(&path).unwrap(),
                    Some(damage) => world.disk.put(&path, damage),
                }
                let context = format!("{path}, clean: {is_clean}: {damage:?}");
                assert_starts(&world, &context);
                assert_eq!(world.disk.content(LOG)[..before.len()], before, "{context}");
                world.broker().stop(&|| world.now()).unwrap();
                let epochs = world.disk.content("__cluster_metadata-0/leader-epoch-checkpoint");
                let epochs = String::from_utf8(epochs).unwrap();
                assert!(epochs.starts_with("0\n2\n1 0\n2 "), "{context}: {epochs}");
                world.kill();
            }
        }
    }
}

/// A whole batch with a right checksum whose record nobody knows: an unknown type, an unknown version, a record that does
/// not fit. It is not passed over, and what was there stays (cluster §6.3).
#[test]
fn a_record_that_nobody_knows() {
    let (world, whole) = stopped(false);
    let content = whole.content(LOG);
    let end = Batches::new(content.clone().into()).map(Result::unwrap).last().unwrap().last_offset().next();
    for (value, words) in [(&[1, 120, 0, 0][..], "120"), (&[1, 2, 99, 0], "99"), (&[7], "frame")] {
        let mut builder = BatchBuilder::new(end, LeaderEpoch(1));
        builder.append(Millis(1), None, Some(value), &[]);
        world.disk.restore(&whole);
        world.disk.put(LOG, &[&content, &builder.build().unwrap().bytes()[..]].concat());
        assert_refused(&world, &[LOG, &format!("offset {end}"), words], words);
    }
}

/// A wrong setting stops the start before anything is touched: the mark of a clean stop is still there for the next one.
#[test]
fn a_wrong_setting_touches_nothing() {
    let (world, whole) = stopped(true);
    let mut wrong = World::with(&[]);
    let inner = Rc::get_mut(&mut wrong).unwrap();
    inner.kill();
    let statics = [("fencepost.api.versions.max".to_owned(), "Produce:nonsense".to_owned())];
    inner.settings.statics = fencepost_broker::metadata::StaticConfig::new(statics).unwrap();
    wrong.disk.restore(&whole);
    assert_refused(&wrong, &[], "a wrong setting");
    drop(world);
}

/// A first start that is interrupted at any call is begun anew by the next one: nothing was promised to anybody yet.
#[test]
fn an_interrupted_first_start() {
    for calls in 0..2_000 {
        let world = World::new();
        world.kill();
        world.disk.restore(&TestDisk::default());
        world.disk.faults.power_off_at(calls, calls % 2 == 0);
        let started = world.try_start();
        world.disk.faults.power_on();
        if started.is_ok() {
            assert!(calls > 30, "only {calls} starts were interrupted");
            return;
        }
        world.disk.crash(calls);
        world.try_start().unwrap_or_else(|error| panic!("after {calls} calls: {error}"));
        world.create_topic("a", 1);
        let producer = Producer::start(world.client(), "x");
        producer.produce(12, "a", 0, &["v"]);
        world.restart();
    }
    panic!("a start takes more than 2,000 calls");
}

/// Requests of the controller take turns: what the second one writes is not written before the first is durable. So a crash
/// tears one write at most, and whatever is not whole before a whole batch is known to be damaged.
#[test]
fn one_write_of_the_metadata_log_at_a_time() {
    for world in [World::new(), World::page_cache()] {
        let end = || batches(&world.disk.content(LOG)).len();
        let before = end();
        let client = world.client();
        let calls: Vec<_> = (0..5)
            .map(|number| {
                let topic = create_topics_request::Topics {
                    name: format!("t{number}"),
                    num_partitions: 1,
                    replication_factor: 1,
                    ..Default::default()
                };
                let topics = vec![topic];
                client.send(7, &CreateTopicsRequest { topics, timeout_ms: 1_000, ..Default::default() })
            })
            .collect();
        for written in 1..=5 {
            assert_eq!(end(), before + written, "one more");
            assert!(!calls[written - 1].is_done(), "it is told when it is on the disk, whatever records are");
            assert!(world.sync_one());
            assert!(calls[written - 1].is_done());
        }
        for call in calls {
            assert_eq!(call.answer().topics[0].error_code, 0);
        }
        // A disk that has failed answers those who wait, too.
        let delete = |name: &str| DeleteTopicsRequest {
            topic_names: vec![name.to_owned()],
            timeout_ms: 1_000,
            ..Default::default()
        };
        let calls = ["t0", "t1", "t2"].map(|name| client.send(5, &delete(name)));
        world.disk.faults.fail_syncs(true);
        world.settle();
        for call in calls {
            assert_ne!(call.answer().responses[0].error_code, 0);
        }
    }
}
