//! Issue 12, B12: file handles. A broker needs far fewer of them than it has partitions, and one that has none left
//! serves whom it can.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use fencepost_client::protocol::messages::{
    FetchRequest, MetadataRequest, ProduceRequest, fetch_request, produce_request,
};
use fencepost_client::{Connection, Options};

use crate::process::{Process, Serve, create_topic};

/// Many times the handles that the broker gets.
const PARTITIONS: i32 = 600;
/// Partitions in one request.
const AT_ONCE: usize = 500;
/// A batch of one record, "v".
const BATCH: &[u8] = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x39\xff\xff\xff\xff\x02\xd3\xf2\xac\x75\x00\x00\x00\x00\x00\x00\x00\x00\x01\x8b\xcf\xe5\x68\x00\x00\x00\x01\x8b\xcf\xe5\x68\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x01\x0e\x00\x00\x00\x01\x02\x76\x00";

/// Writes a record to each partition of `topic`.
fn write(client: &mut Connection, topic: &str, partitions: &[i32]) {
    for some in partitions.chunks(AT_ONCE) {
        let rows = some
            .iter()
            .map(|index| produce_request::PartitionData { index: *index, records: Some(BATCH.into()) });
        let topic_data = produce_request::TopicData {
            name: topic.to_owned(),
            partition_data: rows.collect(),
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![topic_data],
            ..Default::default()
        };
        let answer = client.call_up_to(9, &request).unwrap();
        for row in &answer.responses[0].partition_responses {
            assert_eq!(row.error_code, 0, "{row:?}");
        }
    }
}

/// Reads the partitions from their beginning; answers how many of them gave something.
fn read(client: &mut Connection, topic: &str, partitions: &[i32]) -> usize {
    let mut found = 0;
    for some in partitions.chunks(AT_ONCE) {
        let rows = some.iter().map(|index| fetch_request::Partitions {
            partition: *index,
            partition_max_bytes: 1_000,
            ..Default::default()
        });
        let topics = fetch_request::Topics {
            topic: topic.to_owned(),
            partitions: rows.collect(),
            ..Default::default()
        };
        let request = FetchRequest {
            max_bytes: 1 << 20,
            session_epoch: -1,
            topics: vec![topics],
            ..Default::default()
        };
        let answer = client.call_up_to(12, &request).unwrap();
        for row in &answer.responses[0].partitions {
            assert_eq!(row.error_code, 0, "{row:?}");
            found += usize::from(row.records.as_ref().is_some_and(|records| !records.is_empty()));
        }
    }
    found
}

fn open_handles(process: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count()
}

fn start(directory: &std::path::Path, handles: &str) -> Process {
    let settings = ["-X", "fencepost.durability=page-cache", "-X", "num.partitions=600"];
    Serve::on(directory).with(&settings).with_handles(handles).start()
}

/// 600 partitions, each written twice and read, with 128 handles: nothing is refused, and a restart finds all.
#[test]
fn more_partitions_than_handles() {
    let directory = tempfile::tempdir().unwrap();
    let all: Vec<i32> = (0..PARTITIONS).collect();
    let process = start(directory.path(), "128");
    let mut client = process.connect();
    assert_eq!(create_topic(&mut client, "t"), PARTITIONS);
    write(&mut client, "t", &all);
    write(&mut client, "t", &all);
    assert_eq!(read(&mut client, "t", &all), all.len());
    assert!(open_handles(&process) < 110, "{} are open", open_handles(&process));
    let ended = process.signal("TERM");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("file handles") && ended.stderr.contains("handles_max=128"), "{ended:?}");
    assert!(!ended.stderr.contains("ERROR"), "{ended:?}");
    let process = start(directory.path(), "128");
    assert_eq!(read(&mut process.connect(), "t", &all), all.len());
}

/// The soft limit is raised to the hard one.
#[test]
fn the_soft_limit_is_raised() {
    let process = Serve::ephemeral().with_soft_handles("64", "500").start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<_> = line.split_whitespace().filter(|word| word.parse::<u64>().is_ok()).collect();
    assert_eq!(numbers, ["500", "500"]);
}

/// Strangers take every connection there is a handle for: those beyond are closed, those that were there before are served,
/// also where files have to be opened, and once the strangers have gone anybody is served again.
#[test]
fn strangers_take_all_connections() {
    let directory = tempfile::tempdir().unwrap();
    let process = Serve::on(directory.path()).with_handles("256").start();
    let mut client = process.connect();
    let strangers: Vec<_> = (0..300).map(|_| TcpStream::connect(process.address).unwrap()).collect();
    let mut last = strangers.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(last.read(&mut [0]), Ok(0) | Err(_)), "it is closed at once");
    create_topic(&mut client, "t");
    write(&mut client, "t", &[0]);
    assert_eq!(read(&mut client, "t", &[0]), 1);
    drop(strangers);
    let again = (0..10_000).find_map(|_| Connection::open(process.address, &Options::default()).ok());
    again.unwrap().call(&MetadataRequest::default()).unwrap();
    let ended = process.signal("TERM");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let said = ended.stderr.lines().filter(|line| line.contains("too many connections")).count();
    assert!((1..=10).contains(&said), "{said} lines");
    assert!(!ended.stderr.contains("log directory"), "{ended:?}");
}
