//! A broker on a disk in memory whose clock goes a millisecond further with every request, for programs that measure.
#![allow(clippy::disallowed_methods, reason = "this program measures how long things take")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_broker::metadata::StaticConfig;
use fencepost_broker::{Broker, BrokerSettings, Connection, ConnectionId, Edge, Listener, Outcome};
use fencepost_protocol::messages::{CreateTopicsRequest, create_topics_request};
use fencepost_protocol::{Message, Request, ResponseHeader, encode_request};
use fencepost_storage::{Disk, MemoryDisk};
use fencepost_types::wire::Reader;
use fencepost_types::{Millis, Nanos, Now};

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
pub struct Host {
    pub disk: MemoryDisk,
    settings: BrokerSettings,
    edge: Arc<QuietEdge>,
    broker: Option<Arc<Broker>>,
    connection: Arc<Connection>,
    now_ms: Cell<i64>,
}

impl Host {
    /// Starts with these settings.
    pub fn with(pairs: &[(&str, &str)]) -> Self {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
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
    pub fn restart(&mut self) -> Duration {
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
    pub fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
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

    /// Lets so much time go by.
    pub fn wait_ms(&self, span_ms: i64) {
        for _ in 0..span_ms {
            self.now_ms.set(self.now_ms.get() + 1);
            self.settle();
        }
    }

    /// Creates a topic of one partition.
    pub fn create_topic(&self, name: &str) {
        let topic = create_topics_request::Topics {
            name: name.to_owned(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() };
        assert_eq!(self.ask(7, &request).topics[0].error_code, 0, "{name}");
    }
}

fn listener() -> Listener {
    Listener { name: "PLAINTEXT".to_owned(), host: "localhost".to_owned(), port: 9092 }
}
