//! What a million changes of the metadata leave behind: the directory of the metadata log, and how long the next start takes.
//!
//! ```text
//! cargo run --release -p fencepost-broker --example metadata_log [COUNT] [TOPICS]
//! ```
//!
//! A line of JSON. The whole engine runs with Kafka's defaults on a disk in memory, its clock a millisecond further with every
//! request; only the durations that are printed are real.
#![allow(clippy::disallowed_methods, reason = "this program measures how long things take")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_broker::metadata::StaticConfig;
use fencepost_broker::{Broker, BrokerSettings, Connection, ConnectionId, Edge, Listener, Outcome};
use fencepost_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    create_topics_request, delete_topics_request, describe_configs_request,
    incremental_alter_configs_request,
};
use fencepost_protocol::{Message, Request, ResponseHeader, encode_request};
use fencepost_storage::{Disk, MemoryDisk};
use fencepost_types::wire::Reader;
use fencepost_types::{Millis, Nanos, Now};

const COUNT: usize = 1_000_000;
const TOPICS: usize = 1_000;
/// One change in so many is that a topic comes, and later goes.
const TOPIC_EVERY: usize = 20;
const DIRECTORY: &str = "__cluster_metadata-0";
const TOPIC_RESOURCE: i8 = 2;
const SET: i8 = 0;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let count: usize = arguments.next().unwrap_or(COUNT);
    let topics: usize = arguments.next().unwrap_or(TOPICS).clamp(1, count);
    let mut host = Host::start();
    (0..topics).for_each(|number| host.create_topic(&format!("topic-{number}")));
    // allow(clock): a benchmark measures
    let from = Instant::now();
    let mut bytes_max = 0;
    for number in 0..count {
        change(&host, number, topics);
        if number.is_multiple_of(10_000) {
            bytes_max = bytes_max.max(host.size().0);
        }
    }
    let changes = from.elapsed();
    // What is to be unlinked goes after a minute.
    host.wait_ms(70_000);
    let (bytes, segments, snapshots) = host.size();
    let started = host.restart();
    println!(
        "{{\"count\":{count},\"topics\":{topics},\"changes_s\":{:.1},\"bytes_max\":{bytes_max},\"bytes\":{bytes},\
         \"segments\":{segments},\"snapshots\":{snapshots},\"start_ms\":{:.1}}}",
        changes.as_secs_f64(),
        started.as_secs_f64() * 1_000.0
    );
    host.check(count, topics);
}

/// A setting of a topic, or a topic that comes and goes.
fn change(host: &Host, number: usize, topics: usize) {
    let passing = |number: usize| format!("passing-{number}");
    if number % TOPIC_EVERY == 1 {
        host.create_topic(&passing(number));
    } else if number % TOPIC_EVERY == 11 {
        host.delete_topic(&passing(number - 10));
    } else {
        let config = incremental_alter_configs_request::Configs {
            name: "retention.ms".to_owned(),
            config_operation: SET,
            value: Some(number.to_string()),
        };
        let resource = incremental_alter_configs_request::Resources {
            resource_type: TOPIC_RESOURCE,
            resource_name: format!("topic-{}", number % topics),
            configs: vec![config],
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
        assert_eq!(host.ask(1, &request).responses[0].error_code, 0);
    }
}

/// What the engine asks of its surroundings.
#[derive(Default)]
struct QuietEdge {
    random: AtomicU64,
}

impl Edge for QuietEdge {
    fn deadline_changed(&self, _: Nanos) {}

    fn sync_needed(&self) {}

    fn random(&self) -> u128 {
        let number = self.random.fetch_add(1, Ordering::Relaxed) + 1;
        u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn stop(&self, sentence: &str) {
        panic!("the broker cannot go on: {sentence}");
    }
}

/// A broker on a disk in memory, and the time.
struct Host {
    disk: MemoryDisk,
    settings: BrokerSettings,
    edge: Arc<QuietEdge>,
    broker: Option<Arc<Broker>>,
    connection: Arc<Connection>,
    now_ms: Cell<i64>,
}

impl Host {
    fn start() -> Self {
        let pairs = [("offsets.topic.num.partitions", "1"), ("transaction.state.log.num.partitions", "1")];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let statics = StaticConfig::new(pairs).expect("these settings are valid");
        let mut host = Self {
            disk: MemoryDisk::new(),
            settings: BrokerSettings::new(statics, "/memory".to_owned()),
            edge: Arc::default(),
            broker: None,
            connection: Connection::new(ConnectionId(1), "/127.0.0.1".to_owned(), listener()),
            now_ms: Cell::new(1_700_000_000_000),
        };
        host.restart();
        host
    }

    /// Drops the broker as it is, and starts another one on what it has left.
    fn restart(&mut self) -> Duration {
        self.broker = None;
        // allow(clock): a benchmark measures
        let from = Instant::now();
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let edge: Arc<dyn Edge> = Arc::clone(&self.edge) as Arc<dyn Edge>;
        let started = Broker::start(disk, edge, self.settings.clone(), listener(), &|| self.now());
        self.broker = Some(started.expect("a broker starts"));
        from.elapsed()
    }

    fn broker(&self) -> &Arc<Broker> {
        self.broker.as_ref().expect("a broker runs")
    }

    fn now(&self) -> Now {
        let wall = self.now_ms.get();
        Now { wall: Millis(wall), mono: Nanos(wall as u64 * 1_000_000) }
    }

    /// Sends a request and waits for the answer.
    fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        self.now_ms.set(self.now_ms.get() + 1);
        let frame = encode_request(7, Some("example"), version, request).into_bytes();
        let slot: Arc<Mutex<Option<Outcome>>> = Arc::default();
        let to = Arc::clone(&slot);
        let respond = Box::new(move |outcome| *to.lock().expect("nobody panics") = Some(outcome));
        self.broker().handle(self.now(), &self.connection, frame, respond);
        loop {
            self.settle();
            match slot.lock().expect("nobody panics").take() {
                Some(Outcome::Frame(frame)) => {
                    let mut reader = Reader::new(frame.read().expect("the disk can be read"));
                    ResponseHeader::decode(&mut reader, R::API_KEY, version).expect("a header");
                    return R::Response::decode(&mut reader, version).expect("an answer");
                }
                Some(other) => panic!("no answer but {other:?}"),
                // It waits for something that is due later.
                None => self.now_ms.set(self.now_ms.get() + 1),
            }
        }
    }

    /// Runs all syncs and what is due now.
    fn settle(&self) {
        loop {
            while self.broker().sync_next(|| self.now()) {}
            if self.broker().next_deadline().is_none_or(|at| at > self.now().mono) {
                return;
            }
            self.broker().tick(self.now());
        }
    }

    fn wait_ms(&self, span_ms: i64) {
        for _ in 0..span_ms {
            self.now_ms.set(self.now_ms.get() + 1);
            self.settle();
        }
    }

    fn create_topic(&self, name: &str) {
        let topic = create_topics_request::Topics {
            name: name.to_owned(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() };
        assert_eq!(self.ask(7, &request).topics[0].error_code, 0, "{name}");
    }

    fn delete_topic(&self, name: &str) {
        let topic = delete_topics_request::Topics { name: Some(name.to_owned()), ..Default::default() };
        let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() };
        assert_eq!(self.ask(6, &request).responses[0].error_code, 0, "{name}");
    }

    /// Bytes, segments and snapshots in the directory of the metadata log.
    fn size(&self) -> (u64, usize, usize) {
        let entries = self.disk.list(DIRECTORY).expect("a directory");
        let count = |suffix: &str| entries.iter().filter(|entry| entry.name.ends_with(suffix)).count();
        (entries.iter().map(|entry| entry.bytes).sum(), count(".log"), count(".checkpoint"))
    }

    /// The newest setting of each topic is what the broker has after its start.
    fn check(&self, count: usize, topics: usize) {
        for who in 0..topics {
            let is_setting =
                |number: &usize| !matches!(number % TOPIC_EVERY, 1 | 11) && number % topics == who;
            let Some(newest) = (0..count).rev().find(is_setting) else { continue };
            let resource = describe_configs_request::Resources {
                resource_type: TOPIC_RESOURCE,
                resource_name: format!("topic-{who}"),
                configuration_keys: Some(vec!["retention.ms".to_owned()]),
            };
            let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
            let value = self.ask(4, &request).results[0].configs[0].value.clone();
            assert_eq!(value, Some(newest.to_string()), "topic-{who}");
        }
    }
}

fn listener() -> Listener {
    Listener { name: "PLAINTEXT".to_owned(), host: "localhost".to_owned(), port: 9092 }
}
