//! `fencepost serve` from outside: the ready line, signals, settings, directories, what outlives a kill.

mod handles;
mod logging;
mod memory;
mod process;
mod signals;

use std::time::Duration;

use fencepost_client::protocol::messages::{
    DeleteRecordsRequest, FetchRequest, ListOffsetsRequest, delete_records_request, fetch_request,
    list_offsets_request,
};
use fencepost_client::types::{Millis, Offset, TopicPartition, TransactionResult, TransactionVersion};
use fencepost_client::{Connection, TransactionalProducer, read_committed};

use process::{Process, Serve, create_topic};

/// A signal ends the process within this.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Exactly one line on stdout, `fencepost ready HOST:PORT`, once the first request is served; everything else is stderr's.
/// SIGTERM and SIGINT end the process with code 0 within a second, also while a client waits.
#[test]
fn one_line_and_a_quick_end() {
    for signal in ["TERM", "INT"] {
        let process = Serve::ephemeral().start();
        assert!(process.address.ip().is_loopback() && process.address.port() != 0);
        let mut client = process.connect();
        create_topic(&mut client, "t");
        let waiting = std::thread::spawn(move || {
            let request = FetchRequest {
                max_wait_ms: 60_000,
                min_bytes: 1,
                max_bytes: 1_000,
                session_epoch: -1,
                topics: vec![fetch_request::Topics {
                    topic: "t".to_owned(),
                    partitions: vec![fetch_request::Partitions {
                        partition_max_bytes: 1_000,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            client.call_at(12, &request)
        });
        let ended = process.signal(signal);
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert_eq!(ended.stdout, "");
        assert!(ended.took < STOP_MAX, "{ended:?}");
        // It is answered with what there was if it came in before the stop; otherwise its connection is closed.
        let _ = waiting.join().unwrap();
    }
}

/// A value out of range stops the start with one sentence; so does a file that is not there, and an argument that is no
/// setting.
#[test]
fn a_wrong_setting_is_one_sentence() {
    let one_sentence = |stderr: String, about: &str| {
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with("fencepost: ") && stderr.contains(about), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    };
    let ephemeral = |property: &str| Serve::ephemeral().with(&["-X", property]).refused();
    one_sentence(ephemeral("num.partitions=0"), "value 0 for configuration num.partitions:");
    one_sentence(ephemeral("log.segment.bytes=many"), "value many for configuration log.segment.bytes:");
    one_sentence(ephemeral("offsets.topic.replication.factor=3"), "offsets.topic.replication.factor");
    one_sentence(
        ephemeral("fencepost.durability=maybe"),
        "value maybe for configuration fencepost.durability:",
    );
    one_sentence(ephemeral("nonsense"), "nonsense");
    // Issue 12, C16: what cannot be honoured is not served in its weaker form.
    one_sentence(ephemeral("listeners=SASL_SSL://127.0.0.1:9092"), "asks for SASL_SSL");
    one_sentence(ephemeral("authorizer.class.name=A"), "value A for configuration authorizer.class.name:");
    one_sentence(ephemeral("log.dirs=a,b"), "log.dirs=a,b");
    one_sentence(ephemeral("process.roles=broker"), "process.roles=broker");
    one_sentence(Serve::ephemeral().variable("KAFKA_AUTHORIZER_CLASS_NAME", "A").refused(), "authorizer");
    one_sentence(
        Serve::ephemeral().variable("KAFKA_NUM_PARTITIONS", "-3").refused(),
        "value -3 for configuration num.partitions:",
    );
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("nowhere.properties");
    one_sentence(
        Serve::ephemeral().with(&["--config", missing.to_str().unwrap()]).refused(),
        "nowhere.properties",
    );
    let file = directory.path().join("a-file");
    std::fs::write(&file, "in the way").unwrap();
    one_sentence(Serve::on(&file).refused(), "a-file");
}

/// Settings that do nothing are listed on stderr, with the name that was perhaps meant; the broker starts.
#[test]
fn what_does_nothing_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("server.properties");
    std::fs::write(&config, "log.retention.hour=5\nzookeeper.session.timeout.ms=18000\n").unwrap();
    let process = Serve::ephemeral()
        .with(&["--config", config.to_str().unwrap(), "-X", "my.own.setting=1"])
        .variable("KAFKA_NUM_PARTITION", "7")
        .variable("KAFKA_HEAP_OPTS", "-Xmx1G")
        .start();
    let stderr = process.signal("TERM").stderr;
    for (name, meant) in [
        ("log.retention.hour", Some("log.retention.hours")),
        ("zookeeper.session.timeout.ms", None),
        ("my.own.setting", None),
        ("num.partition", Some("num.partitions")),
    ] {
        let line = stderr.lines().find(|line| {
            line.contains(&format!("ignored setting {name};"))
                || line.ends_with(&format!("ignored setting {name}"))
        });
        let line = line.unwrap_or_else(|| panic!("{name} is not listed: {stderr}"));
        if let Some(meant) = meant {
            assert!(line.contains(&format!("did you mean {meant}?")), "{line}");
        }
    }
    assert!(!stderr.contains("heap"), "that is Java's: {stderr}");
}

/// Of several values for a key the command line's counts, then the environment's, then the file's; and what each says is
/// in force.
#[test]
fn the_command_line_goes_before_the_environment_before_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("server.properties");
    let data = directory.path().join("data");
    std::fs::write(&config, format!("# A comment\nnum.partitions=2\nlog.dirs={}\n", data.display())).unwrap();
    let serve = || Serve::new().with(&["--config", config.to_str().unwrap()]);
    let count = |process: &Process, name: &str| create_topic(&mut process.connect(), name);
    let from_file = serve().start();
    assert_eq!(count(&from_file, "a"), 2);
    assert!(data.join("meta.properties").exists(), "log.dirs says where the data lies");
    assert_eq!(from_file.signal("TERM").status.code(), Some(0));
    let from_environment = serve().variable("KAFKA_NUM_PARTITIONS", "3").start();
    assert_eq!(count(&from_environment, "b"), 3);
    from_environment.signal("TERM");
    let from_command_line =
        serve().variable("KAFKA_NUM_PARTITIONS", "3").with(&["-X", "num.partitions=4"]).start();
    assert_eq!(count(&from_command_line, "c"), 4);
}

/// A directory that another process holds is refused with one sentence, and that process goes on.
#[test]
fn a_directory_has_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let first = Serve::on(directory.path()).start();
    let stderr = Serve::on(directory.path()).refused();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("another process"), "{stderr}");
    create_topic(&mut first.connect(), "t");
    assert_eq!(first.signal("TERM").status.code(), Some(0));
    Serve::on(directory.path()).start();
}

/// A port that is taken is refused with one sentence.
#[test]
fn a_port_has_one_process() {
    let first = Serve::ephemeral().start();
    let address = first.address.to_string();
    let stderr = Serve::ephemeral().with_listen(&address).refused();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(&address), "{stderr}");
}

/// What was acknowledged outlives kill -9: records of committed transactions under either version and offsets; an open
/// transaction stays open, and its records are not shown.
#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let partition = TopicPartition::new("t", 0);
    let mut expected = Vec::new();
    for round in 0..3 {
        let process = Serve::on(directory.path()).start();
        if round == 0 {
            create_topic(&mut process.connect(), "t");
        }
        for version in [TransactionVersion::V2, TransactionVersion::V0] {
            let id = format!("{version:?}");
            let mut producer =
                TransactionalProducer::open(process.connect(), &id, 60_000, Some(version)).unwrap();
            for at in 0..3 {
                let value = format!("{id} {round} {at}");
                let record = (None, Some(value.as_bytes()));
                producer.send(&partition, Millis(1_700_000_000_000), &[record]).unwrap();
                producer.send_offsets("g", &[(partition.clone(), Offset(at))]).unwrap();
                producer.end(TransactionResult::Commit).unwrap();
                expected.push(value);
            }
        }
        // Left open; the next round's instance ends it.
        let mut open = TransactionalProducer::open(process.connect(), "open", 60_000, None).unwrap();
        open.send(&partition, Millis(1_700_000_000_000), &[(None, Some(b"open"))]).unwrap();
        let ended = process.signal("KILL");
        assert_eq!(ended.status.code(), None);
    }
    let process = Serve::on(directory.path()).start();
    let mut client = process.connect();
    let mut open = TransactionalProducer::open(process.connect(), "open", 60_000, None).unwrap();
    open.end(TransactionResult::Abort).unwrap();
    let (records, _) = read_committed(&mut client, &partition, Offset(0)).unwrap();
    let values: Vec<_> = records
        .iter()
        .map(|record| String::from_utf8(record.value.as_ref().unwrap().to_vec()).unwrap())
        .collect();
    assert_eq!(values, expected);
}

/// What DeleteRecords has answered outlives a kill -9 that comes at once, in both modes (KIP-107).
#[test]
fn deleted_records_stay_deleted_after_a_kill() {
    const KILLS: i64 = 4;
    let partition = TopicPartition::new("t", 0);
    for durability in ["fsync", "page-cache"] {
        let directory = tempfile::tempdir().unwrap();
        let setting = format!("fencepost.durability={durability}");
        let start = || Serve::on(directory.path()).with(&["-X", &setting]).start();
        let process = start();
        create_topic(&mut process.connect(), "t");
        let mut producer = TransactionalProducer::open(process.connect(), "x", 60_000, None).unwrap();
        for _ in 0..KILLS {
            producer.send(&partition, Millis(1_700_000_000_000), &[(None, Some(b"v"))]).unwrap();
            producer.end(TransactionResult::Commit).unwrap();
        }
        drop(producer);
        let mut running = process;
        for kill in 1..=KILLS {
            assert_eq!(delete_records(&mut running.connect(), kill * 2), (kill * 2, 0));
            running.signal("KILL");
            running = start();
            assert_eq!(log_start(&mut running.connect()), kill * 2, "{durability}");
        }
    }
}

/// Low watermark and code.
fn delete_records(connection: &mut Connection, offset: i64) -> (i64, i16) {
    let partition = delete_records_request::Partitions { partition_index: 0, offset };
    let topic = delete_records_request::Topics { name: "t".to_owned(), partitions: vec![partition] };
    let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 10_000 };
    let answer = connection.call(&request).unwrap();
    let row = &answer.topics[0].partitions[0];
    (row.low_watermark, row.error_code)
}

fn log_start(connection: &mut Connection) -> i64 {
    const EARLIEST: i64 = -2;
    let partition = list_offsets_request::Partitions {
        partition_index: 0,
        timestamp: EARLIEST,
        current_leader_epoch: -1,
    };
    let topic = list_offsets_request::Topics { name: "t".to_owned(), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let answer = connection.call(&request).unwrap();
    let row = &answer.topics[0].partitions[0];
    assert_eq!(row.error_code, 0, "{answer:?}");
    row.offset
}

/// Issue 12, C21: DescribeConfigs shows the listener, the directory and the ids that are in force, wherever they come from: an
/// argument, a property, the environment, the system that picks a port, or nobody.
#[test]
fn what_is_in_force_is_described() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let process = Serve::on(directory.path()).variable("KAFKA_NODE_ID", "7").start();
    let mut client = process.connect();
    let mut shown = |key: &str| process::config_of_broker(&mut client, "7", key);
    assert_eq!(shown("listeners"), format!("PLAINTEXT://{}", process.address));
    assert_eq!(
        (shown("log.dirs"), shown("node.id"), shown("broker.id")),
        (path.to_owned(), "7".to_owned(), "7".to_owned())
    );
    drop(client);
    drop(process);
    let process = Serve::ephemeral()
        .with(&[
            "-X",
            "listeners=IN://127.0.0.1:0,CONTROLLER://:9093",
            "-X",
            "controller.listener.names=CONTROLLER",
        ])
        .with(&["-X", "listener.security.protocol.map=IN:PLAINTEXT"])
        .start();
    let mut client = process.connect();
    let mut shown = |key: &str| process::broker_config(&mut client, key);
    assert_eq!(shown("listeners"), format!("IN://{},CONTROLLER://:9093", process.address));
    assert_eq!((shown("node.id"), shown("broker.id")), ("1".to_owned(), "1".to_owned()));
}
