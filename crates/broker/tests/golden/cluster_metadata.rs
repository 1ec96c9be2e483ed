//! Metadata logs of Kafka's, with its snapshots: nodes that were stopped, one that was only formatted, and what must not
//! be led by a node alone.

use std::collections::BTreeMap;

use fencepost_broker::metadata::image::{ConfigResource, ResourceType};
use fencepost_broker::metadata::quorum::QuorumState;
use fencepost_broker::metadata::{Image, ImageFold, VersionedRecord};
use fencepost_protocol::messages::{
    ApiVersionsRequest, DescribeQuorumRequest, InitProducerIdRequest, describe_quorum_request,
};
use fencepost_records::{Batch, Batches};
use fencepost_storage::{Disk, MemoryDisk};
use fencepost_types::{BrokerId, LeaderEpoch, Offset, ProducerId, Uuid};

use crate::archive;
use crate::node::Node;

const SET: &str = "cluster-metadata";
const AS_OF_MS: i64 = 1_795_999_600_000;
const LOG: &str = "__cluster_metadata-0";
/// Where the static set's log ends, and its newest snapshot.
const STATIC_END: i64 = 309;
const NEWEST: (i64, i32) = (299, 1);

fn read(disk: &dyn Disk, path: &str) -> bytes::Bytes {
    let file = disk.open(path).unwrap();
    file.read(0, file.bytes().unwrap() as usize).unwrap()
}

fn write(disk: &dyn Disk, path: &str, content: &[u8]) {
    disk.create(path).unwrap().write_at(0, &[content]).unwrap();
}

/// The batches of the metadata log, all segments.
fn batches(disk: &dyn Disk) -> Vec<Batch> {
    let names = disk.list(LOG).unwrap().into_iter().map(|entry| entry.name);
    let logs = names.filter(|name| name.ends_with(".log"));
    logs.flat_map(|name| {
        Batches::new(read(disk, &format!("{LOG}/{name}"))).map(Result::unwrap).collect::<Vec<_>>()
    })
    .collect()
}

/// What the log says, from its first record on.
fn folded(disk: &dyn Disk) -> Image {
    let mut fold = ImageFold::default();
    batches(disk).iter().for_each(|batch| fold.replay_batch(batch).unwrap());
    fold.image().clone()
}

fn quorum_state(disk: &dyn Disk) -> QuorumState {
    QuorumState::parse(&archive::read_text(disk, &format!("{LOG}/quorum-state")).unwrap()).unwrap()
}

fn checkpoint(end_offset: i64, epoch: i32) -> String {
    format!("{LOG}/{end_offset:020}-{epoch:010}.checkpoint")
}

fn topics(node: &Node) -> BTreeMap<String, (Uuid, usize)> {
    let topics = node.metadata().topics.into_iter();
    topics.map(|topic| (topic.name.unwrap(), (topic.topic_id, topic.partitions.len()))).collect()
}

/// The finalized levels as ApiVersions tells them.
fn levels(node: &Node) -> BTreeMap<String, i16> {
    let request = ApiVersionsRequest {
        client_software_name: "golden".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    };
    let features = node.ask(4, &request).finalized_features.into_iter();
    features.map(|feature| (feature.name, feature.max_version_level)).collect()
}

/// Leader epoch and voters with their directories, as DescribeQuorum tells them.
fn quorum(node: &Node) -> (i32, Vec<(i32, Uuid)>) {
    let partitions = vec![describe_quorum_request::Partitions { partition_index: 0 }];
    let topic = describe_quorum_request::Topics { topic_name: "__cluster_metadata".to_owned(), partitions };
    let answer = node.ask(2, &DescribeQuorumRequest { topics: vec![topic] });
    let row = &answer.topics[0].partitions[0];
    let voters = row.current_voters.iter().map(|voter| (voter.replica_id, voter.replica_directory_id));
    (row.leader_epoch, voters.collect())
}

fn next_producer_id(node: &Node) -> i64 {
    let request = InitProducerIdRequest {
        transactional_id: None,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    node.ask(5, &request).producer_id
}

/// A node with static voters is gone on with: its topics, settings and levels, the next epoch, the next producer ids; and
/// `quorum-state` keeps the form that Kafka reads there (storage-formats §15).
#[test]
fn static_voters() {
    let disk = archive::disk(SET, "static-voters");
    let before = folded(&disk);
    let node = Node::start(disk, AS_OF_MS);
    let found = topics(&node);
    for topic in before.topics().iter() {
        assert_eq!(found[&*topic.name], (topic.id, topic.partitions.len()), "{}", topic.name);
    }
    assert_eq!(found.keys().filter(|name| !name.starts_with("__")).count(), 3);
    assert_eq!(levels(&node)["metadata.version"], 33);
    assert_eq!(levels(&node)["transaction.version"], 2);
    assert_eq!(quorum(&node), (2, vec![(1, Uuid::ZERO)]));
    assert_eq!(next_producer_id(&node), 1_000);

    let disk = node.stop();
    let state = quorum_state(&disk);
    assert_eq!((state.leader_id, state.leader_epoch), (BrokerId(1), LeaderEpoch(2)));
    assert_eq!(state.static_voters, Some(vec![BrokerId(1)]));
    let after = folded(&disk);
    assert_eq!((after.kraft_version(), after.epoch()), (0, LeaderEpoch(2)));
    assert_eq!(after.next_producer_id(), ProducerId(2_000));
    assert_eq!(
        after.configs().value(&ConfigResource::topic("orders"), "retention.ms"),
        before.configs().value(&ConfigResource::topic("orders"), "retention.ms")
    );
    assert_eq!(after.client_quotas(), before.client_quotas());
    // From its snapshots the next start reads what the whole log says.
    assert_eq!(topics(&Node::start(disk, AS_OF_MS)), found);
}

/// A node whose voters stand in the log, with the id of its directory (KIP-853).
#[test]
fn dynamic_voters() {
    let disk = archive::disk(SET, "dynamic-voters");
    let before = folded(&disk);
    let node = Node::start(disk, AS_OF_MS);
    let directory_id = Uuid::parse("g4pOInyTRUWRjbARiNYuTg").unwrap();
    assert_eq!(quorum(&node), (2, vec![(1, directory_id)]));
    let found = topics(&node);
    let orders = before.topic_by_name("orders").unwrap();
    assert_eq!(found["orders"], (orders.id, orders.partitions.len()));
    let disk = node.stop();
    assert_eq!(quorum_state(&disk).static_voters, None);
    let after = folded(&disk);
    assert_eq!((after.kraft_version(), after.voters()), (1, before.voters()));
}

/// A directory that was only formatted: the log begins as Kafka's own began, with the levels, the version of the quorum
/// and the voters that the checkpoint holds (KIP-1170, storage-formats §3, §15).
#[test]
fn a_formatted_directory() {
    let disk = archive::disk(SET, "just-formatted-dynamic");
    archive::copy_in(&disk, SET, "dynamic-voters/meta.properties", "meta.properties");
    let node = Node::start(disk, AS_OF_MS);
    let wanted = [
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("kraft.version", 1),
        ("metadata.version", 33),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 2),
    ];
    assert_eq!(levels(&node), wanted.map(|(name, level)| (name.to_owned(), level)).into());
    let disk = node.stop();

    let kafkas = archive::disk(SET, "dynamic-voters");
    let (ours, kafkas) = (batches(&disk), batches(&kafkas));
    let records = |batch: &Batch| -> Vec<_> {
        let records = batch.records().unwrap().map(Result::unwrap);
        records.map(|record| (record.offset_delta, record.key, record.value)).collect()
    };
    assert_eq!(ours[0].header().is_control(), kafkas[0].header().is_control());
    for at in 0..2 {
        assert_eq!(records(&ours[at]), records(&kafkas[at]), "batch {at}");
        assert_eq!(ours[at].base_offset(), kafkas[at].base_offset());
        assert_eq!(ours[at].header().leader_epoch, kafkas[at].header().leader_epoch);
    }
}

/// Up to 4.3 the format tool left its records in the log directory itself.
#[test]
fn a_directory_formatted_by_an_older_tool() {
    let disk = MemoryDisk::new();
    archive::copy_in(&disk, SET, "static-voters/meta.properties", "meta.properties");
    let formatted = archive::disk(SET, "static-voters");
    write(&disk, "bootstrap.checkpoint", &read(&formatted, &checkpoint(0, 0)));
    let node = Node::start(disk, AS_OF_MS);
    assert_eq!(levels(&node)["metadata.version"], 33);
    assert_eq!(levels(&node).get("kraft.version"), None, "nothing said it, so it is 0");
    let disk = node.stop();
    let first = &batches(&disk)[0];
    assert_eq!(first.header().record_count, 1, "only the leader's beginning");
    let configs = folded(&disk);
    let min_insync = ConfigResource::new(ResourceType::BROKER, "");
    assert_eq!(configs.configs().value(&min_insync, "min.insync.replicas"), Some("1"));
}

/// Cuts the log so that it begins at `base`, as Kafka does once snapshots reach beyond.
fn cut_below(disk: &MemoryDisk, base: i64) {
    let path = |base: i64, kind: &str| format!("{LOG}/{base:020}.{kind}");
    let content = read(disk, &path(0, "log"));
    let rest: Vec<u8> = Batches::new(content)
        .map(Result::unwrap)
        .filter(|batch| batch.base_offset().0 >= base)
        .flat_map(|batch| batch.bytes().to_vec())
        .collect();
    let first = Batches::new(rest.clone().into()).next().expect("batches from there on").unwrap();
    assert_eq!(first.base_offset(), Offset(base), "a snapshot ends where a batch does");
    for kind in ["log", "index", "timeindex"] {
        disk.remove(&path(0, kind)).unwrap();
    }
    write(disk, &path(base, "log"), &rest);
}

/// A log that begins above 0 goes on from its snapshot, and gives what the whole log gave (cluster §5.4). Without a snapshot
/// that reaches to its beginning it cannot be read, and nothing is made up.
#[test]
fn a_log_that_begins_at_a_snapshot() {
    let whole = Node::start(archive::disk(SET, "static-voters"), AS_OF_MS);
    let user_topics = |node: &Node| -> BTreeMap<_, _> {
        topics(node).into_iter().filter(|(name, _)| !name.starts_with("__")).collect()
    };
    let wanted = user_topics(&whole);

    let disk = archive::disk(SET, "static-voters");
    cut_below(&disk, NEWEST.0);
    let node = Node::start(disk, AS_OF_MS);
    assert_eq!(user_topics(&node), wanted);
    assert_eq!(levels(&node), levels(&whole));
    assert_eq!(next_producer_id(&node), 1_000);
    let disk = node.stop();
    let node = Node::start(disk, AS_OF_MS);
    assert_eq!(user_topics(&node), wanted);
    assert_eq!(next_producer_id(&node), 2_000);

    let disk = archive::disk(SET, "static-voters");
    cut_below(&disk, NEWEST.0);
    disk.remove(&checkpoint(NEWEST.0, NEWEST.1)).unwrap();
    let refused = Node::try_start(disk, AS_OF_MS, &[]).err().unwrap().to_string();
    assert!(refused.contains("begins at offset 299"), "{refused}");
}

/// A snapshot that cannot be read is passed over: the one before it and the log say the same.
#[test]
fn an_unreadable_snapshot() {
    let disk = archive::disk(SET, "static-voters");
    let path = checkpoint(NEWEST.0, NEWEST.1);
    let content = read(&disk, &path);
    for damaged in [content.slice(..content.len() - 1), content.slice(..40), bytes::Bytes::new()] {
        let disk = archive::disk(SET, "static-voters");
        write(&disk, &path, &damaged);
        let node = Node::start(disk, AS_OF_MS);
        assert_eq!(topics(&node)["grown"].1, 3);
        assert_eq!(next_producer_id(&node), 1_000);
    }
}

/// A log that ends before the newest snapshot has lost records: a node that leads alone takes snapshots of its own log. The
/// start is refused, and nothing is touched (issue 12, A3).
#[test]
fn a_snapshot_beyond_the_log() {
    let disk = archive::disk(SET, "static-voters");
    let path = format!("{LOG}/{:020}.log", 0);
    let content = read(&disk, &path);
    let ends = Batches::new(content).map(Result::unwrap).filter(|batch| batch.last_offset().0 < 100);
    let bytes: usize = ends.map(|batch| batch.bytes().len()).sum();
    disk.open(&path).unwrap().truncate(bytes as u64).unwrap();
    let refused = Node::try_start(disk.clone(), AS_OF_MS, &[]).err().unwrap().to_string();
    assert!(refused.contains("ends at offset 100, and the newest snapshot is 299"), "{refused}");
    assert_eq!(read(&disk, &path).len(), bytes);
    assert!(disk.open(&checkpoint(NEWEST.0, NEWEST.1)).is_ok());
}

/// The epoch that `quorum-state` has is never led again, though nothing was written in it; without the file the log counts.
/// One that cannot be read stops the start, as Kafka's FileQuorumStateStore does (issue 12, A3).
#[test]
fn the_next_epoch() {
    let path = format!("{LOG}/quorum-state");
    let disk = archive::disk(SET, "static-voters");
    let text = archive::read_text(&disk, &path).unwrap().replace("\"leaderEpoch\":1", "\"leaderEpoch\":7");
    write(&disk, &path, text.as_bytes());
    assert_eq!(quorum(&Node::start(disk, AS_OF_MS)).0, 8);
    let disk = archive::disk(SET, "static-voters");
    disk.remove(&path).unwrap();
    assert_eq!(quorum(&Node::start(disk, AS_OF_MS)).0, 2);
    let disk = archive::disk(SET, "static-voters");
    write(&disk, &path, b"{");
    let refused = Node::try_start(disk.clone(), AS_OF_MS, &[]).err().unwrap().to_string();
    assert!(refused.contains("quorum-state cannot be read"), "{refused}");
    assert_eq!(&read(&disk, &path)[..], b"{");
}

/// What several nodes vote on is not led by one of them alone: static voters, voters in the log, another directory.
#[test]
fn the_quorum_of_others_is_left_alone() {
    let disk = archive::disk(SET, "static-voters");
    let path = format!("{LOG}/quorum-state");
    let text = archive::read_text(&disk, &path).unwrap();
    let others = text.replace("[{\"voterId\":1}]", "[{\"voterId\":1},{\"voterId\":2},{\"voterId\":3}]");
    assert_ne!(others, text);
    write(&disk, &path, others.as_bytes());
    let before = read(&disk, &format!("{LOG}/{:020}.log", 0));
    let refused = Node::try_start(disk.clone(), AS_OF_MS, &[]).err().unwrap().to_string();
    assert!(refused.contains("the voters are 1, 2, 3"), "{refused}");
    assert_eq!(read(&disk, &format!("{LOG}/{:020}.log", 0)), before, "nothing was written");

    // Its voter is this node, but in the directory that it was formatted for.
    let disk = archive::disk(SET, "just-formatted-dynamic");
    let refused = Node::try_start(disk, AS_OF_MS, &[]).err().unwrap().to_string();
    assert!(refused.contains("1 in directory g4pOInyTRUWRjbARiNYuTg"), "{refused}");
}

/// A record that cannot be read is never skipped: the node does not start (M5, cluster §6.3).
#[test]
fn an_unreadable_record() {
    let disk = archive::disk(SET, "static-voters");
    let next = batches(&disk).last().unwrap().header().next_offset();
    assert_eq!(next, Offset(STATIC_END));
    let mut builder = fencepost_records::BatchBuilder::new(next, LeaderEpoch(1));
    let unknown = [1, 120, 0, 0];
    assert!(VersionedRecord::from_value(&bytes::Bytes::from_static(&[1, 120, 0, 0])).is_err());
    builder.append(fencepost_types::Millis(AS_OF_MS), None, Some(&unknown), &[]);
    let path = format!("{LOG}/{:020}.log", 0);
    let log = disk.open(&path).unwrap();
    log.write_at(log.bytes().unwrap(), &[builder.build().unwrap().bytes()]).unwrap();
    assert!(Node::try_start(disk, AS_OF_MS, &[]).is_err());
}
