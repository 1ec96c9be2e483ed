//! Files that are missing, torn, overwritten or have a flipped bit when the broker starts.

use super::*;
use fencepost_protocol::messages::{MetadataRequest, metadata_request};

/// The file's kind: what its name ends with.
fn kind(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap();
    name.rfind('.').filter(|at| *at > 0).map_or(name, |at| &name[at..])
}

/// After a clean stop or a kill, a disk on which every file of "t" and of the root stands, and what readers saw.
fn stopped(is_clean: bool) -> (Rc<World>, TestDisk, View) {
    let world = world();
    troubled(&world, |_| ());
    world.advance_ms(3_000);
    let before = view(&world);
    if is_clean {
        world.broker().stop(&|| world.now()).unwrap();
    }
    world.kill();
    let whole = world.disk.copy();
    (world, whole, before)
}

/// The files that hold nothing but what the log says anyway.
const SIDE_FILES: [&str; 11] = [
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    ".metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
];

/// Whether a damaged `partition.metadata` has taken its partition offline: known to have had records, it is neither served nor
/// begun anew, and its data stays where it is (issue 12, A3).
fn is_offline_and_whole(world: &Rc<World>, whole: &TestDisk, metadata: &str) -> bool {
    let directory = metadata.strip_suffix("/partition.metadata").unwrap();
    let (topic, partition) = directory.rsplit_once('-').unwrap();
    if topic == "__cluster_metadata" {
        return false;
    }
    let request = MetadataRequest {
        topics: Some(vec![metadata_request::Topics {
            name: Some(topic.to_owned()),
            ..metadata_request::Topics::default()
        }]),
        ..MetadataRequest::default()
    };
    let call = world.client().send(12, &request);
    settle_until(world, || call.is_done());
    let rows = call.answer().topics.remove(0).partitions;
    let row = rows.into_iter().find(|row| row.partition_index.to_string() == partition).unwrap();
    let log = format!("{directory}/00000000000000000000.log");
    let is_offline = row.leader_id == -1;
    if is_offline {
        assert_eq!(row.error_code, ErrorCode::LeaderNotAvailable.code());
        assert_eq!(row.offline_replicas, row.replica_nodes);
        assert_eq!(world.disk.content(&log), whole.content(&log), "{log}");
    }
    is_offline
}

/// Each side file missing, empty, cut in half, overwritten with zeros or with noise, in every directory: everything is as it
/// was, after a clean stop and after a kill.
#[test]
fn each_side_file_missing_or_corrupt() {
    for is_clean in [true, false] {
        let (world, whole, before) = stopped(is_clean);
        let mut seen = BTreeMap::new();
        for path in whole.files() {
            if !SIDE_FILES.contains(&kind(&path)) {
                continue;
            }
            let content = whole.content(&path);
            let noise: Vec<u8> =
                (0..content.len().max(40)).map(|at| (at as u8).wrapping_mul(151) ^ 0xa5).collect();
            let zeros = vec![0; content.len()];
            // An empty index of transactions is what a log without aborts has.
            let empty = if kind(&path) == ".txnindex" { &content[..1] } else { &content[..0] };
            for damage in [None, Some(empty), Some(&content[..content.len() / 2]), Some(&zeros), Some(&noise)]
            {
                world.disk.restore(&whole);
                match damage {
                    None => fencepost_storage::Disk::remove(&world.disk, &path).unwrap(),
                    Some(damage) => world.disk.put(&path, damage),
                }
                let context =
                    format!("{path} of {} bytes, clean: {is_clean}", damage.map_or(-1, |d| d.len() as i64));
                world.try_start().unwrap_or_else(|error| panic!("{context}: {error}"));
                *seen.entry(kind(&path).to_owned()).or_insert(0) += 1;
                if kind(&path) == ".metadata"
                    && world.disk.files().iter().any(|file| file.contains("-stray/"))
                {
                    // A directory that does not say whose it is: put aside, whole, as Kafka does it.
                    let log = path.replace("partition.metadata", "00000000000000000000.log");
                    let content = whole.content(&log);
                    let is_kept =
                        |file: &String| file.contains("-stray/") && world.disk.content(file) == content;
                    assert!(world.disk.files().iter().any(is_kept), "{context}: the data is not kept");
                    world.kill();
                    continue;
                }
                if kind(&path) == ".metadata" && is_offline_and_whole(&world, &whole, &path) {
                    world.kill();
                    continue;
                }
                world.settle();
                assert_eq!(view(&world), before, "{context}");
                assert_eq!(transaction_state(&world.client(), "x"), "CompleteCommit", "{context}");
                world.kill();
            }
        }
        let left = SIDE_FILES.iter().filter(|kind| is_clean || **kind != ".kafka_cleanshutdown");
        for kind in left {
            assert!(seen.contains_key(*kind), "no {kind} among {seen:?}");
        }
    }
}

/// What is served of a damaged log is what was written, or an error; what a batch's checksum does not cover is not looked at.
fn check_served(world: &Rc<World>, before: &View, context: &str) {
    let client = world.client();
    for from in 0..before.last_stable_offset {
        let call = client.send(12, &fetch("t", 0, from, READ_UNCOMMITTED));
        settle_until(world, || call.is_done());
        let row = call.answer().responses.remove(0).partitions.remove(0);
        if row.error_code != 0 {
            assert!(
                [ErrorCode::KafkaStorageError.code(), ErrorCode::OffsetOutOfRange.code()]
                    .contains(&row.error_code),
                "{context}"
            );
            continue;
        }
        for batch in Batches::new(row.records.unwrap().into_bytes()) {
            let Ok(batch) = batch else { break };
            let header = *batch.header();
            if header.is_control() || header.compute_crc(&batch.payload()) != header.crc {
                continue;
            }
            // Where it stands is not covered either.
            for value in values_of(&batch.bytes().clone().into()) {
                assert!(before.values.values().any(|was| *was == value), "{context}: {value}");
            }
        }
    }
}

/// A flipped bit in each kind of file. In a side file it changes nothing. In the log itself it is never served: either the
/// start is refused with a sentence, or the log ends before it, or it is in what the reader's checksum covers.
#[test]
fn a_flipped_bit_in_each_kind_of_file() {
    for is_clean in [true, false] {
        let (world, whole, before) = stopped(is_clean);
        for path in whole.files() {
            let is_side_file = SIDE_FILES.contains(&kind(&path));
            let is_ours = path.starts_with("t-0/") || !path.contains('/');
            let content = whole.content(&path);
            if !is_ours || content.is_empty() || path == ".lock" {
                continue;
            }
            let step = (content.len() / 40).max(1);
            for at in (0..content.len()).step_by(step) {
                let mut damaged = content.clone();
                damaged[at] ^= 1 << (at % 8);
                world.disk.restore(&whole);
                world.disk.put(&path, &damaged);
                let context = format!("{path}, byte {at}, clean: {is_clean}");
                if let Err(error) = world.try_start() {
                    assert!(!is_side_file, "{context}: {error}");
                    assert!(!error.to_string().contains('\n'), "{context}: {error}");
                    continue;
                }
                if !is_side_file {
                    check_served(&world, &before, &context);
                } else {
                    world.settle();
                    // Another topic's id: the directory is put aside whole.
                    let aside = world.disk.files().iter().any(|file| file.contains("stray"));
                    let is_offline =
                        kind(&path) == ".metadata" && is_offline_and_whole(&world, &whole, &path);
                    if !aside && !is_offline {
                        assert_eq!(view(&world), before, "{context}");
                    }
                    assert!(!aside || kind(&path) == ".metadata", "{context}");
                }
                world.kill();
            }
        }
    }
}
