//! Issue 12, A5: the metadata log is snapshotted by bytes and by time, as Kafka does it; what is below goes; and the directory and
//! the next start stay small, whatever the past was.

use std::collections::BTreeMap;
use std::rc::Rc;

use fencepost_broker::metadata::image::ConfigResource;
use fencepost_broker::metadata::quorum::parse_checkpoint_file_name;
use fencepost_broker::metadata::{Image, read_snapshot};
use fencepost_protocol::Request;
use fencepost_protocol::messages::create_topics_request::Topics as NewTopic;
use fencepost_protocol::messages::delete_topics_request::Topics as GoneTopic;
use fencepost_protocol::messages::{
    AlterClientQuotasRequest, DeleteTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    alter_client_quotas_request, describe_configs_request, incremental_alter_configs_request,
};
use fencepost_types::Offset;

use crate::allocations::allocations_in;
use crate::harness::{TestDisk, World};

const DIRECTORY: &str = "__cluster_metadata-0/";
const TOPIC: i8 = 2;
const SET: i8 = 0;
const BYTES_BETWEEN: (&str, &str) = ("metadata.log.max.record.bytes.between.snapshots", "4000");
const INTERVAL_MS: &str = "metadata.log.max.snapshot.interval.ms";
const RETENTION_BYTES: (&str, &str) = ("metadata.max.retention.bytes", "20000");
/// After this the files of retired segments are unlinked (`file.delete.delay.ms`).
const UNLINKED_MS: i64 = 60_001;

/// Sets `retention.ms` of a topic.
fn alter(world: &Rc<World>, topic: &str, retention_ms: i64) {
    let answer = world.client().ask(1, &alter_request(topic, retention_ms));
    assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
}

/// What `retention.ms` of a topic is.
fn retention_ms(world: &Rc<World>, topic: &str) -> String {
    let resource = describe_configs_request::Resources {
        resource_type: TOPIC,
        resource_name: topic.to_owned(),
        configuration_keys: Some(vec!["retention.ms".to_owned()]),
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    world.client().ask(4, &request).results[0].configs[0].value.clone().unwrap()
}

/// The snapshots on a disk by the offset at which they end; each of them whole.
fn snapshots(disk: &TestDisk) -> BTreeMap<i64, Image> {
    let names = disk.files().into_iter().filter_map(|path| path.strip_prefix(DIRECTORY).map(str::to_owned));
    let ids = names.filter_map(|name| Some((parse_checkpoint_file_name(&name)?, name)));
    ids.map(|((end_offset, epoch), name)| {
        let content = disk.content(&format!("{DIRECTORY}{name}"));
        (end_offset.0, read_snapshot(content.into(), end_offset, epoch).unwrap())
    })
    .collect()
}

/// The bases of the segments on a disk.
fn segments(disk: &TestDisk) -> Vec<i64> {
    let names = disk.files().into_iter().filter_map(|path| path.strip_prefix(DIRECTORY).map(str::to_owned));
    names.filter_map(|name| name.strip_suffix(".log").and_then(|base| base.parse().ok())).collect()
}

/// The bytes in the directory of the metadata log.
fn bytes(disk: &TestDisk) -> usize {
    let files = disk.files().into_iter().filter(|path| path.starts_with(DIRECTORY));
    files.map(|path| disk.content(&path).len()).sum()
}

/// So many changes of a topic's settings, with everything that becomes due meanwhile.
fn live(world: &Rc<World>, changes: std::ops::Range<i64>) {
    for number in changes {
        alter(world, "a", number);
        world.settle();
    }
}

/// Allocations of one request and of all that becomes due with it.
fn cost_of<R: Request>(world: &Rc<World>, version: i16, request: &R) -> (usize, R::Response) {
    let client = world.client();
    let mut answer = None;
    let count = allocations_in(|| {
        let call = client.send(version, request);
        while world.sync_one() || world.tick_if_due() {}
        answer = Some(call.answer());
    });
    (count, answer.expect("the request was answered"))
}

/// A change of the metadata costs what it changes, however many topics there are: a new setting, a new topic, one that goes.
/// What grows are the paths in persistent maps, with the logarithm of what is in them; a copy of one of the maps, or a text
/// for each topic, would be some hundred allocations.
#[test]
fn a_change_costs_what_it_changes() {
    let costs = |topics: i32| {
        let world = World::new();
        let client = world.client();
        let mut request = World::create_topic_request("", 1);
        let topic = request.topics[0].clone();
        request.topics =
            (0..topics).map(|number| NewTopic { name: format!("topic.{number}"), ..topic.clone() }).collect();
        assert_eq!(client.ask(7, &request).topics.len(), topics as usize);
        let (altered, answer) = cost_of(&world, 1, &alter_request("topic.7", 5));
        assert_eq!(answer.responses[0].error_code, 0);
        let (created, answer) = cost_of(&world, 7, &World::create_topic_request("passing", 1));
        assert_eq!(answer.topics[0].error_code, 0);
        let gone = GoneTopic { name: Some("passing".to_owned()), ..Default::default() };
        let delete = DeleteTopicsRequest { topics: vec![gone], timeout_ms: 1_000, ..Default::default() };
        let (deleted, answer) = cost_of(&world, 6, &delete);
        assert_eq!(answer.responses[0].error_code, 0);
        [altered, created, deleted]
    };
    let (few, many) = (costs(50), costs(800));
    let grows = few.iter().zip(&many).any(|(few, many)| *many > *few + 100);
    assert!(!grows, "allocations: {few:?} among 50 topics, {many:?} among 800");
}

/// A snapshot when so many bytes have come since the last one: named after the offset that it ends at, and the image as of
/// there. The next start reads it and what follows it, whether the stop was clean or not.
#[test]
fn a_snapshot_after_so_many_bytes() {
    let world = World::with(&[BYTES_BETWEEN, (INTERVAL_MS, "0")]);
    world.create_topic("a", 1);
    live(&world, 0..20);
    assert_eq!(snapshots(&world.disk).len(), 0, "not so many yet");
    live(&world, 20..60);
    assert_eq!(snapshots(&world.disk).len(), 1, "the first 4,000 bytes");
    live(&world, 60..150);
    let found = snapshots(&world.disk);
    assert!((3..5).contains(&found.len()), "{:?}", found.keys());
    for (end, image) in &found {
        assert_eq!(image.offset(), Offset(end - 1));
        assert!(image.topic_by_name("a").is_some());
    }
    let values: Vec<&str> = found
        .values()
        .map(|image| image.configs().value(&ConfigResource::topic("a"), "retention.ms").unwrap())
        .collect();
    let values: Vec<i64> = values.into_iter().map(|value| value.parse().unwrap()).collect();
    assert!(values.is_sorted() && values[0] != values[1], "{values:?}");
    assert_eq!(
        segments(&world.disk).len(),
        found.len() + 1,
        "each begins a segment, and none is too much yet"
    );
    for is_clean in [false, true] {
        if is_clean {
            world.stop_and_start()
        } else {
            world.restart()
        }
        world.settle();
        assert_eq!(retention_ms(&world, "a"), "149");
    }
}

/// A snapshot when so much time has gone by since the last one and something was written, and none where nothing was.
#[test]
fn a_snapshot_after_so_much_time() {
    let world = World::with(&[(INTERVAL_MS, "600000")]);
    world.create_topic("a", 1);
    world.advance_ms(599_999);
    world.settle();
    assert_eq!(snapshots(&world.disk).len(), 0);
    world.advance_ms(1);
    world.settle();
    assert_eq!(snapshots(&world.disk).len(), 1);
    world.advance_ms(7_200_000);
    world.settle();
    assert_eq!(snapshots(&world.disk).len(), 1, "nothing was written");
    alter(&world, "a", 7);
    world.settle();
    assert_eq!(snapshots(&world.disk).len(), 2, "it was due");
    alter(&world, "a", 8);
    world.advance_ms(599_999);
    world.settle();
    assert_eq!(snapshots(&world.disk).len(), 2);
    world.advance_ms(1);
    world.settle();
    assert_eq!(snapshots(&world.disk).len(), 3);
    // Never by time where the interval is 0.
    let world = World::with(&[(INTERVAL_MS, "0")]);
    world.create_topic("a", 1);
    world.advance_ms(86_400_000);
    assert_eq!(snapshots(&world.disk).len(), 0);
}

/// Log and snapshots stay within what may be kept and what comes between two snapshots: old snapshots go, the log begins where
/// the oldest one left ends, and segments below are unlinked. Nothing that was decided is lost.
#[test]
fn the_directory_stays_bounded() {
    let world = World::with(&[BYTES_BETWEEN, RETENTION_BYTES]);
    world.create_topic("a", 1);
    let mut largest = 0;
    for round in 0..40 {
        live(&world, round * 50..(round + 1) * 50);
        world.advance_ms(UNLINKED_MS);
        largest = largest.max(bytes(&world.disk));
    }
    assert!(largest < 20_000 + 2 * 4_000 + 4_000, "{largest} bytes");
    let oldest = *snapshots(&world.disk).first_key_value().unwrap().0;
    assert!(segments(&world.disk)[0] > 0 && segments(&world.disk)[0] <= oldest);
    for is_clean in [false, true] {
        if is_clean {
            world.stop_and_start()
        } else {
            world.restart()
        }
        world.settle();
        assert_eq!(retention_ms(&world, "a"), "1999");
        live(&world, 1_990..2_000);
    }
}

/// A snapshot that is older than may be kept goes, with what is below the next one.
#[test]
fn old_snapshots_go() {
    let world = World::with(&[BYTES_BETWEEN, (INTERVAL_MS, "0"), ("metadata.max.retention.ms", "3600000")]);
    world.create_topic("a", 1);
    live(&world, 0..200);
    let before = snapshots(&world.disk);
    assert!(before.len() > 2);
    world.advance_ms(3_600_000);
    assert_eq!(snapshots(&world.disk).len(), before.len(), "not older yet");
    world.advance_ms(600_000);
    let left = snapshots(&world.disk);
    assert!(left.keys().eq(before.keys().last()), "the newest: {:?}", left.keys());
    world.restart();
    assert_eq!(retention_ms(&world, "a"), "199");
}

/// A crash at any call while snapshots are written, renamed, and old segments and snapshots go: every change that was
/// acknowledged is there, and nothing unfinished stays.
#[test]
fn a_crash_at_every_call() {
    let lived = World::with(&[BYTES_BETWEEN, RETENTION_BYTES]);
    lived.create_topic("a", 1);
    live(&lived, 0..300);
    lived.kill();
    let (mut crashes, mut kinds) = (0, [0; 2]);
    // Not every one of them in every run of the tests; a prime number, so that none is passed over by kind.
    for calls in (0..4_000).step_by(3) {
        let world = World::with(&[BYTES_BETWEEN, RETENTION_BYTES]);
        world.kill();
        world.disk.restore(&lived.disk);
        world.start();
        let before = snapshots(&world.disk);
        world.disk.faults.power_off_at(calls, calls % 2 == 0);
        let mut acknowledged = None;
        for number in 1_000..1_080 {
            if world.disk.faults.is_off() {
                break;
            }
            let call = world.client().send(1, &alter_request("a", number));
            world.settle();
            if world.disk.faults.is_off() {
                break;
            }
            assert_eq!(call.answer().responses[0].error_code, 0);
            acknowledged = Some(number);
        }
        let is_over = !world.disk.faults.is_off();
        world.kill();
        world.disk.faults.power_on();
        world.disk.crash(calls);
        let context = format!("after {calls} calls");
        world.try_start().unwrap_or_else(|error| panic!("{context}: {error}"));
        world.settle();
        let found: i64 = retention_ms(&world, "a").parse().unwrap();
        let least = acknowledged.unwrap_or(299);
        assert!(
            found >= least && found <= acknowledged.map_or(1_000, |number| number + 1),
            "{context}: {found}"
        );
        assert!(!world.disk.files().iter().any(|path| path.ends_with(".part")), "{context}");
        let after = snapshots(&world.disk);
        kinds[0] += usize::from(after.last_key_value().unwrap().0 > before.last_key_value().unwrap().0);
        kinds[1] += usize::from(after.first_key_value().unwrap().0 > before.first_key_value().unwrap().0);
        live(&world, 2_000..2_001);
        world.check();
        crashes += 1;
        if is_over {
            break;
        }
    }
    assert!(crashes > 50 && kinds[0] > 10 && kinds[1] > 5, "{crashes} crashes, {kinds:?}");
}

fn alter_request(topic: &str, retention_ms: i64) -> IncrementalAlterConfigsRequest {
    let config = incremental_alter_configs_request::Configs {
        name: "retention.ms".to_owned(),
        config_operation: SET,
        value: Some(retention_ms.to_string()),
    };
    let resource = incremental_alter_configs_request::Resources {
        resource_type: TOPIC,
        resource_name: topic.to_owned(),
        configs: vec![config],
    };
    IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false }
}

/// Issue 12, C17: `metadata.log.segment.ms` closes a segment of the metadata log by its age.
#[test]
fn an_old_metadata_segment_is_closed() {
    let world = World::with(&[("metadata.log.segment.ms", "5000")]);
    world.create_topic("a", 1);
    world.advance_ms(4_000);
    live(&world, 0..1);
    assert_eq!(segments(&world.disk).len(), 1);
    world.advance_ms(2_000);
    live(&world, 1..2);
    assert_eq!(segments(&world.disk).len(), 2);
}

/// A damaged newest snapshot: an older one stands in for it where the log reaches back to that, and otherwise the start is
/// refused and everything stays as it was (A3). Every byte counts.
#[test]
fn a_damaged_snapshot() {
    for retention in [RETENTION_BYTES, ("metadata.max.retention.bytes", "1")] {
        let world = World::with(&[BYTES_BETWEEN, retention]);
        world.create_topic("a", 1);
        live(&world, 0..200);
        world.advance_ms(UNLINKED_MS);
        world.broker().stop(&|| world.now()).unwrap();
        world.kill();
        let whole = world.disk.copy();
        let is_alone = snapshots(&whole).len() == 1;
        assert_eq!(is_alone, retention.1 == "1");
        let newest = whole.files().into_iter().rfind(|path| path.ends_with(".checkpoint")).unwrap();
        let content = whole.content(&newest);
        // A start that succeeds takes longer than one that is refused: not every byte then.
        for at in (0..content.len()).step_by(if is_alone { 1 } else { 11 }) {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << (at % 8);
            world.disk.restore(&whole);
            world.disk.put(&newest, &damaged);
            let files = |disk: &TestDisk| -> BTreeMap<String, Vec<u8>> {
                disk.files().into_iter().map(|path| (path.clone(), disk.content(&path))).collect()
            };
            let before = files(&world.disk);
            match world.try_start() {
                Ok(()) => {
                    assert_eq!(retention_ms(&world, "a"), "199", "byte {at}");
                    assert!(!is_alone || is_outside_checksums(at, &content), "byte {at} is not noticed");
                    world.kill();
                }
                Err(error) => {
                    let sentence = error.to_string();
                    assert!(is_alone, "byte {at}: {sentence}");
                    assert!(sentence.contains(&newest) && !sentence.contains('\n'), "byte {at}: {sentence}");
                    assert!(files(&world.disk) == before, "byte {at}: a file was touched");
                }
            }
        }
    }
}

/// What a snapshot's batches say of offsets and epochs means nothing, and no checksum covers it.
fn is_outside_checksums(at: usize, content: &[u8]) -> bool {
    let mut position = 0;
    for batch in fencepost_records::Batches::new(content.to_vec().into()).map(Result::unwrap) {
        let within = at.wrapping_sub(position);
        if within < batch.bytes().len() {
            return within < 8 || (12..16).contains(&within);
        }
        position += batch.bytes().len();
    }
    false
}

/// A full disk puts the snapshot off and nobody is refused for it; once there is room it is made.
#[test]
fn a_full_disk_puts_it_off() {
    let world = || {
        let world = World::with(&[BYTES_BETWEEN, (INTERVAL_MS, "0")]);
        world.create_topic("a", 1);
        world
    };
    let lived = world();
    live(&lived, 0..60);
    let first = *snapshots(&lived.disk).first_key_value().unwrap().0;
    let world = world();
    let path = format!("{DIRECTORY}{first:020}-");
    world.disk.faults.fail_writes(Some(&path));
    live(&world, 0..60);
    assert_eq!(world.disk.faults.refused_writes(), 1);
    assert!(!world.disk.files().iter().any(|file| file.starts_with(&path)), "nothing of it is left");
    world.disk.faults.fail_writes(None);
    live(&world, 60..70);
    assert_eq!(snapshots(&world.disk).len(), 0, "not again at once");
    world.advance_ms(60_000);
    world.settle();
    assert_eq!(snapshots(&world.disk).len(), 1);
    assert_eq!(world.stops(), [""; 0]);
    assert_eq!(retention_ms(&world, "a"), "69");
}

/// A large image is written in pieces, with a turn for the other chores between two of them.
#[test]
fn a_large_image_is_written_in_pieces() {
    const PIECE_BYTES_MAX: usize = 3 << 20;
    let world = World::with(&[("metadata.log.max.record.bytes.between.snapshots", "6000000")]);
    world.create_topic("a", 1);
    let is_due = || world.broker().next_deadline().is_some_and(|at| at <= world.now().mono);
    for number in 0..1_000 {
        let entity = alter_client_quotas_request::Entity {
            entity_type: "user".to_owned(),
            entity_name: Some(format!("{number}{}", "u".repeat(30_000))),
        };
        let op = alter_client_quotas_request::Ops {
            key: "request_percentage".to_owned(),
            value: 50.0,
            remove: false,
        };
        let entry = alter_client_quotas_request::Entries { entity: vec![entity], ops: vec![op] };
        let request = AlterClientQuotasRequest { entries: vec![entry], validate_only: false };
        let call = world.client().send(1, &request);
        world.sync_until(|| call.is_done());
        assert_eq!(call.answer().entries[0].error_code, 0);
        if is_due() {
            break;
        }
    }
    let part = |world: &World| {
        let files = world.disk.files();
        files.into_iter().find(|path| path.ends_with(".part")).map(|path| world.disk.content(&path).len())
    };
    let mut sizes = vec![0];
    while snapshots(&world.disk).is_empty() {
        assert!(world.tick_if_due());
        sizes.extend(part(&world));
    }
    assert!(sizes.len() > 3, "{sizes:?}");
    assert!(sizes.windows(2).all(|pair| pair[1] - pair[0] < PIECE_BYTES_MAX), "{sizes:?}");
    world.restart();
    world.check();
}
