//! Log directories after a kill, damaged in many ways, served as whole nodes.
//!
//! Each topic of `faults` has one fault. What Kafka recovered it to is wanted here too, except where Kafka then serves wrong
//! data or does not start: there it is what the log says, which is what the undamaged topic says.

use fencepost_storage::{Disk, MemoryDisk};
use serde_json::{Value, json};

use crate::archive;
use crate::node::{Node, READ_COMMITTED, READ_UNCOMMITTED};

/// KAFKA_STORAGE_ERROR.
const STORAGE_ERROR: i16 = 56;
const SET: &str = "unclean";
/// Some seconds after the kill: the open transaction has minutes left.
const AS_OF_MS: i64 = 1_795_995_960_000;
/// The topic with no fault but the kill.
const UNDAMAGED: &str = "as-killed";

/// Kafka starts and serves wrong data, or forgets: aborted transactions that read as committed, offsets that are skipped,
/// epochs that begin too late. Here they are as in the undamaged topic.
const BETTER: [&str; 4] = ["no-txnindex", "odd-txnindex", "shifted-index", "no-epochs"];

/// Kafka cuts a log at a batch that was changed after it was written whole, or begins anew. Here the partition is offline.
pub const OFFLINE: [&str; 4] = ["bad-crc", "bad-crc-mid", "bad-length", "no-metadata"];

fn producers(view: &Value) -> &Value {
    &view["producers"]
}

/// What the topic is compared with: Kafka's answers of this topic, or of the undamaged one.
fn wanted<'a>(answers: &'a Value, topic: &str) -> &'a Value {
    if BETTER.contains(&topic) || answers[topic].get("live").is_none() {
        &answers[UNDAMAGED]
    } else {
        &answers[topic]
    }
}

/// Offsets, producers, and the fetch at offset 8 whose answer three faults spoil under Kafka.
fn check(node: &Node, answers: &Value, topic: &str, what: &str) {
    let wanted = wanted(answers, topic);
    let view = node.view(topic, 0);
    for key in ["log_start_offset", "high_watermark", "last_stable_offset"] {
        assert_eq!(view[key], wanted["live"][key], "{what}: {key} of {topic}");
    }
    assert_eq!(producers(&view), producers(&wanted["live"]), "{what}: producers of {topic}");
    let Some(fetch) = wanted.get("fetch_read_committed_at_8") else { return };
    let fetched = node.fetch(topic, 0, 8, READ_COMMITTED);
    let code = if fetched.0.error_code == 0 { "NONE" } else { "OFFSET_OUT_OF_RANGE" };
    assert_eq!(code, fetch["error"], "{what}: {topic}");
    let batches = fetched.batches();
    let ranges: Vec<_> = batches.iter().map(|batch| [batch.base_offset().0, batch.last_offset().0]).collect();
    // Kafka reads to the end of a segment; more is right too.
    let first = fetch["batches"].as_array().unwrap();
    assert!(json!(ranges).as_array().unwrap().starts_with(first), "{what}: {topic} gave {ranges:?}");
    let aborted: Vec<_> = fetched.aborted();
    for (id, first) in serde_json::from_value::<Vec<(i64, i64)>>(fetch["aborted"].clone()).unwrap() {
        assert!(aborted.contains(&(id, first)), "{what}: {topic} names {aborted:?}");
    }
}

/// No offset is skipped, and a consumer gets what one of the undamaged topic gets, cut at the end of this log.
fn check_reads(node: &Node, topic: &str, what: &str) {
    let end = node.view(topic, 0)["high_watermark"].as_i64().unwrap();
    for isolation_level in [READ_UNCOMMITTED, READ_COMMITTED] {
        let whole = node.consume(UNDAMAGED, 0, isolation_level).into_iter();
        let whole: Vec<_> = whole.filter(|(offset, _)| *offset < end).collect();
        assert_eq!(node.consume(topic, 0, isolation_level), whole, "{what}: {topic}");
    }
}

/// The epochs as the file has them after a clean stop.
fn epochs(disk: &dyn Disk, topic: &str) -> Value {
    let text = archive::read_text(disk, &format!("{topic}-0/leader-epoch-checkpoint")).unwrap();
    let entry = |line: &str| {
        let (epoch, offset) = line.split_once(' ').unwrap();
        json!([epoch.parse::<i64>().unwrap(), offset.parse::<i64>().unwrap()])
    };
    text.lines().skip(2).map(entry).collect()
}

fn topics_of(disk: &MemoryDisk) -> Vec<String> {
    let names = archive::directories(disk).into_iter();
    let topics = names.filter_map(|name| name.strip_suffix("-0").map(str::to_owned));
    topics.filter(|topic| !topic.starts_with("__")).collect()
}

/// Every fault of a partition but damage, the one that Kafka does not survive among them. Afterwards and after a second start all is
/// the same, and the epochs are Kafka's (storage-formats traps 13, 32, 34; §10).
#[test]
fn every_fault_recovers() {
    let answers = archive::expected(SET);
    let disk = archive::disk(SET, "faults");
    archive::copy_in(&disk, SET, "fatal", "");
    let topics = topics_of(&disk);
    assert_eq!(topics.len(), 28, "{topics:?}");
    let answers = &answers["faults"];
    let node = Node::start(disk, AS_OF_MS);
    let topics: Vec<String> = topics.into_iter().filter(|topic| !OFFLINE.contains(&topic.as_str())).collect();
    for topic in &topics {
        check(&node, answers, topic, "recovered");
        check_reads(&node, topic, "recovered");
    }
    let disk = node.stop();
    for topic in &topics {
        let wanted = &wanted(answers, topic)["leader-epoch-checkpoint"];
        assert_eq!(epochs(&disk, topic), *wanted, "{topic}");
    }
    let node = Node::start(disk, AS_OF_MS);
    for topic in &topics {
        check(&node, answers, topic, "started again");
    }
}

/// Without `partition.metadata` nobody knows whose the records are, and that there were records is known: the partition is
/// offline, its files stay, and no client is told that the topic is empty (storage-formats §7.7; issue 12, A3). After the next
/// start, too. Kafka puts the directory aside and begins anew at offset 0.
#[test]
fn a_directory_of_nobody_is_offline() {
    let mut node = Node::start(archive::disk(SET, "faults"), AS_OF_MS);
    for _ in 0..2 {
        assert_eq!(node.error_of("no-metadata"), STORAGE_ERROR);
        assert!(archive::directories(&node.disk).iter().all(|name| !name.ends_with("-stray")));
        let kept = archive::read_text(&node.disk, "no-metadata-0/00000000000000000020.log");
        assert!(kept.is_some(), "the data stays where it is");
        node = Node::start(node.stop(), AS_OF_MS);
    }
}

/// A batch with a wrong checksum, in the newest segment or before it, and one with a wrong length, all above the recovery point: the
/// partition is offline, and nothing of its log is cut; after the next start, too (issue 12, A3; decision 30).
#[test]
fn what_was_changed_is_offline() {
    let mut node = Node::start(archive::disk(SET, "faults"), AS_OF_MS);
    let logs = |disk: &MemoryDisk| -> Vec<_> {
        let names = OFFLINE.iter().flat_map(|topic| {
            let entries = disk.list(&format!("{topic}-0")).unwrap();
            entries.into_iter().map(move |entry| format!("{topic}-0/{}", entry.name))
        });
        let names = names.filter(|name| name.ends_with(".log"));
        names.map(|name| (archive::read_text(disk, &name), name)).collect()
    };
    let before = logs(&archive::disk(SET, "faults"));
    for _ in 0..2 {
        for topic in OFFLINE {
            assert_eq!(node.error_of(topic), STORAGE_ERROR, "{topic}");
        }
        assert_eq!(logs(&node.disk), before);
        node = Node::start(node.stop(), AS_OF_MS);
    }
}

/// Missing checkpoints cost time and nothing else (storage-formats §8.3).
#[test]
fn missing_checkpoints() {
    let answers = archive::expected(SET);
    let node = Node::start(archive::disk(SET, "no-checkpoints"), AS_OF_MS);
    for topic in ["as-killed", "no-snapshots", "preallocated"] {
        check(&node, &answers["no-checkpoints"], topic, "no checkpoints");
        check_reads(&node, topic, "no checkpoints");
    }
}

/// A recovery point far beyond the end is not believed where all else agrees with the end. A log start beyond it would empty the
/// log: that partition is offline (storage-formats §8.3; issue 12, A3). With Kafka that log begins anew there.
#[test]
fn odd_checkpoints() {
    let answers = archive::expected(SET);
    let node = Node::start(archive::disk(SET, "odd-checkpoints"), AS_OF_MS);
    for topic in ["as-killed", "no-snapshots"] {
        check(&node, &answers["odd-checkpoints"], topic, "odd checkpoints");
    }
    assert_eq!(node.error_of("preallocated"), STORAGE_ERROR);
}

/// A checkpoint that cannot be read keeps Kafka from starting. Here it counts as missing (storage-formats §8.3).
#[test]
fn an_unreadable_checkpoint() {
    let answers = archive::expected(SET);
    assert!(answers["bad-recovery-point"].get("kafka_does_not_start").is_some());
    let node = Node::start(archive::disk(SET, "bad-recovery-point"), AS_OF_MS);
    for topic in ["as-killed", "no-snapshots", "preallocated"] {
        check(&node, &answers["faults"], topic, "bad recovery point");
        check_reads(&node, topic, "bad recovery point");
    }
}

/// The mark of a clean stop over a tail of zeros keeps Kafka from starting. Here the mark is not believed over it
/// (storage-formats §10).
#[test]
fn a_clean_mark_over_a_tail_of_zeros() {
    let answers = archive::expected(SET);
    assert!(answers["clean-marker-zero-tail"].get("kafka_does_not_start").is_some());
    let node = Node::start(archive::disk(SET, "clean-marker-zero-tail"), AS_OF_MS);
    for topic in ["as-killed", "no-snapshots", "preallocated"] {
        check(&node, &answers["faults"], topic, "clean mark");
        check_reads(&node, topic, "clean mark");
    }
}

/// The mark of a clean stop where no snapshots are: Kafka forgets all producers and lets readers of committed records see
/// an open transaction. Here they are folded out of the log (storage-formats trap 31).
#[test]
fn a_false_clean_mark() {
    let answers = archive::expected(SET);
    let forgotten = &answers["false-clean-marker"]["no-snapshots"]["live"];
    assert_eq!(forgotten["producers"], json!([]), "what Kafka makes of it");
    let node = Node::start(archive::disk(SET, "false-clean-marker"), AS_OF_MS);
    for topic in ["as-killed", "no-snapshots"] {
        check(&node, &answers["faults"], topic, "false clean mark");
        check_reads(&node, topic, "false clean mark");
    }
}
