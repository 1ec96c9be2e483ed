//! A broker on a disk that somebody else may have written, and what a client is told by it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fencepost_broker::metadata::StaticConfig;
use fencepost_broker::{
    Broker, BrokerSettings, Connection, ConnectionId, Edge, KnownWindows, Listener, Outcome, StartError,
};
use fencepost_protocol::messages::{
    DescribeProducersRequest, DescribeTransactionsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest,
    MetadataResponse, OffsetFetchRequest, describe_producers_request, fetch_request, fetch_response,
    list_offsets_request, list_offsets_response, offset_fetch_request,
};
use fencepost_protocol::{Message, Request, ResponseHeader, encode_request};
use fencepost_records::{Batch, Batches};
use fencepost_storage::{Disk, MemoryDisk};
use fencepost_types::wire::Reader;
use fencepost_types::{Millis, Nanos, Now};
use serde_json::{Value, json};

/// Reads everything.
pub const READ_UNCOMMITTED: i8 = 0;
/// Reads up to the last stable offset.
pub const READ_COMMITTED: i8 = 1;
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;
/// More rounds than any test needs.
const ROUNDS_MAX: usize = 10_000;

#[derive(Default)]
struct QuietEdge {
    random: AtomicU64,
    stops: Mutex<Vec<String>>,
}

impl Edge for QuietEdge {
    fn deadline_changed(&self, _: Nanos) {}

    fn sync_needed(&self) {}

    fn random(&self) -> u128 {
        let number = self.random.fetch_add(1, Ordering::Relaxed) + 1;
        u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn stop(&self, sentence: &str) {
        self.stops.lock().unwrap().push(sentence.to_owned());
    }
}

/// A running broker.
pub struct Node {
    pub disk: MemoryDisk,
    pub broker: Arc<Broker>,
    edge: Arc<QuietEdge>,
    connection: Arc<Connection>,
    now: Cell<Now>,
    next_correlation_id: Cell<i32>,
}

impl Node {
    /// Starts a broker on a disk, at a wall clock's time.
    pub fn start(disk: MemoryDisk, wall_ms: i64) -> Self {
        Self::try_start(disk, wall_ms, &[]).unwrap()
    }

    /// [`Self::start`] with settings beyond the defaults, where it may fail.
    pub fn try_start(disk: MemoryDisk, wall_ms: i64, settings: &[(&str, &str)]) -> Result<Self, StartError> {
        let pairs = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let statics = StaticConfig::new(pairs.collect::<Vec<_>>()).unwrap();
        let settings = BrokerSettings::new(statics, "/golden".to_owned());
        let edge = Arc::new(QuietEdge::default());
        let now = Now { wall: Millis(wall_ms), mono: Nanos(1_000_000_000) };
        let listener = Listener { name: "PLAINTEXT".to_owned(), host: "127.0.0.1".to_owned(), port: 9092 };
        let broker = Broker::start(
            Arc::new(disk.clone()) as Arc<dyn Disk>,
            edge.clone(),
            settings,
            listener.clone(),
            &|| now,
        )?;
        let connection = Connection::new(ConnectionId(1), "/127.0.0.1".to_owned(), listener);
        let node =
            Self { disk, broker, edge, connection, now: Cell::new(now), next_correlation_id: Cell::new(1) };
        node.settle();
        node.check();
        Ok(node)
    }

    /// A clean stop; the disk is what is left.
    pub fn stop(self) -> MemoryDisk {
        self.check();
        self.broker.stop(&|| self.now.get()).unwrap();
        assert_eq!(*self.edge.stops.lock().unwrap(), Vec::<String>::new());
        self.disk
    }

    /// The process is gone without a word.
    pub fn kill(self) -> MemoryDisk {
        self.disk
    }

    /// The node's time.
    pub fn wall_ms(&self) -> i64 {
        self.now.get().wall.0
    }

    /// Every invariant; and live state is what the logs say.
    fn check(&self) {
        self.broker.check();
        self.broker.verify_replay(KnownWindows::Newest);
    }

    /// Runs what there is to do now.
    pub fn settle(&self) {
        for _ in 0..ROUNDS_MAX {
            let due = self.broker.next_deadline().is_some_and(|at| at <= self.now.get().mono);
            if due {
                self.broker.tick(self.now.get());
            }
            if !self.broker.sync_next(|| self.now.get()) && !due {
                return;
            }
        }
        panic!("{ROUNDS_MAX} rounds, and still something to do");
    }

    /// Asks, and takes the answer.
    pub fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        let correlation_id = self.next_correlation_id.get();
        self.next_correlation_id.set(correlation_id + 1);
        let frame = encode_request(correlation_id, Some("golden"), version, request).into_bytes();
        let slot: Arc<Mutex<Option<Outcome>>> = Arc::default();
        let to = Arc::clone(&slot);
        let respond = Box::new(move |outcome| *to.lock().unwrap() = Some(outcome));
        self.broker.handle(self.now.get(), &self.connection, frame, respond);
        self.settle();
        let answer = slot.lock().unwrap().take();
        let Some(Outcome::Frame(frame)) = answer else { panic!("no answer but {answer:?}") };
        let mut reader = Reader::new(frame.read().unwrap());
        ResponseHeader::decode(&mut reader, R::API_KEY, version).unwrap();
        let response = R::Response::decode(&mut reader, version).unwrap();
        assert_eq!(reader.remaining(), 0, "bytes behind the answer");
        response
    }

    /// All topics.
    pub fn metadata(&self) -> MetadataResponse {
        self.ask(12, &MetadataRequest { topics: None, ..Default::default() })
    }

    /// What a client that asks for an offset of a topic's first partition is refused with.
    pub fn error_of(&self, topic: &str) -> i16 {
        self.listed(topic, 0, EARLIEST, READ_UNCOMMITTED).error_code
    }

    fn offset_at(&self, topic: &str, partition: i32, timestamp: i64, isolation_level: i8) -> i64 {
        let row = self.listed(topic, partition, timestamp, isolation_level);
        assert_eq!(row.error_code, 0, "{topic}-{partition}");
        row.offset
    }

    fn listed(
        &self,
        topic: &str,
        partition: i32,
        timestamp: i64,
        isolation_level: i8,
    ) -> list_offsets_response::Partitions {
        let partitions = vec![list_offsets_request::Partitions {
            partition_index: partition,
            current_leader_epoch: -1,
            timestamp,
        }];
        let topics = vec![list_offsets_request::Topics { name: topic.to_owned(), partitions }];
        let request = ListOffsetsRequest { replica_id: -1, isolation_level, topics, ..Default::default() };
        let answer = self.ask(7, &request);
        answer.topics[0].partitions[0].clone()
    }

    /// What a client sees of a partition, in the words of the files of expectations.
    pub fn view(&self, topic: &str, partition: i32) -> Value {
        json!({
            "log_start_offset": self.offset_at(topic, partition, EARLIEST, READ_UNCOMMITTED),
            "high_watermark": self.offset_at(topic, partition, LATEST, READ_UNCOMMITTED),
            "last_stable_offset": self.offset_at(topic, partition, LATEST, READ_COMMITTED),
            "producers": self.producers(topic, partition),
        })
    }

    fn producers(&self, topic: &str, partition: i32) -> Vec<Value> {
        let topics = vec![describe_producers_request::Topics {
            name: topic.to_owned(),
            partition_indexes: vec![partition],
        }];
        let answer = self.ask(0, &DescribeProducersRequest { topics });
        let row = &answer.topics[0].partitions[0];
        assert_eq!(row.error_code, 0, "{topic}-{partition}");
        let mut active = row.active_producers.clone();
        active.sort_by_key(|producer| producer.producer_id);
        let described = active.iter().map(|producer| {
            json!({
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.current_txn_start_offset,
            })
        });
        described.collect()
    }

    /// One Fetch of one partition.
    pub fn fetch(&self, topic: &str, partition: i32, offset: i64, isolation_level: i8) -> Fetched {
        let request = FetchRequest {
            max_bytes: i32::MAX,
            isolation_level,
            session_epoch: -1,
            topics: vec![fetch_request::Topics {
                topic: topic.to_owned(),
                partitions: vec![fetch_request::Partitions {
                    partition,
                    fetch_offset: offset,
                    partition_max_bytes: 1 << 20,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let mut answer = self.ask(12, &request);
        assert_eq!(answer.error_code, 0);
        Fetched(answer.responses.remove(0).partitions.remove(0))
    }

    /// Everything that a consumer gets of a partition, from its start to its end: offset and value.
    pub fn consume(&self, topic: &str, partition: i32, isolation_level: i8) -> Vec<(i64, String)> {
        let mut records = Vec::new();
        let mut at = self.offset_at(topic, partition, EARLIEST, isolation_level);
        let end = self.offset_at(topic, partition, LATEST, isolation_level);
        while at < end {
            let fetched = self.fetch(topic, partition, at, isolation_level);
            assert_eq!(fetched.0.error_code, 0, "{topic}-{partition} at {at}");
            let next = fetched.batches().iter().map(|batch| batch.header().next_offset().0).max();
            let next = next.unwrap_or_else(|| panic!("nothing comes of {topic}-{partition} at {at}"));
            for (offset, value) in fetched.visible(isolation_level) {
                // As a consumer does: what lies before its position is not handed on.
                if offset >= at {
                    at = offset + 1;
                    records.push((offset, value));
                }
            }
            at = next;
        }
        records
    }

    /// The committed offsets of a group: code and offset for each partition.
    pub fn offsets(&self, group_id: &str, topic: &str, partitions: &[i32]) -> BTreeMap<String, (i16, i64)> {
        let request = OffsetFetchRequest {
            groups: vec![offset_fetch_request::Groups {
                group_id: group_id.to_owned(),
                member_id: None,
                member_epoch: -1,
                topics: Some(vec![offset_fetch_request::GroupsTopics {
                    name: topic.to_owned(),
                    partition_indexes: partitions.to_vec(),
                    ..Default::default()
                }]),
            }],
            require_stable: true,
            ..Default::default()
        };
        let answer = self.ask(9, &request);
        assert_eq!(answer.groups[0].error_code, 0, "{answer:?}");
        let rows = answer.groups[0].topics[0].partitions.iter();
        rows.map(|row| (format!("{topic}-{}", row.partition_index), (row.error_code, row.committed_offset)))
            .collect()
    }

    /// A transaction as DescribeTransactions tells it, in the words of the files of expectations.
    pub fn transaction(&self, transactional_id: &str) -> Value {
        let request = DescribeTransactionsRequest { transactional_ids: vec![transactional_id.to_owned()] };
        let answer = self.ask(0, &request);
        let state = &answer.transaction_states[0];
        let partitions = state.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| json!([topic.topic, partition])).collect::<Vec<_>>()
        });
        json!({
            "error": if state.error_code == 0 { "NONE".to_owned() } else { state.error_code.to_string() },
            "state": state.transaction_state,
            "pid": state.producer_id,
            "epoch": state.producer_epoch,
            "timeout_ms": state.transaction_timeout_ms,
            "partitions": partitions.collect::<Vec<_>>(),
        })
    }
}

/// What one Fetch gave of one partition.
pub struct Fetched(pub fetch_response::Partitions);

impl Fetched {
    /// The batches.
    pub fn batches(&self) -> Vec<Batch> {
        let records = self.0.records.clone().unwrap_or_default().into_bytes();
        Batches::new(records).map(Result::unwrap).collect()
    }

    /// The aborted transactions: producer id and first offset.
    pub fn aborted(&self) -> Vec<(i64, i64)> {
        let aborted = self.0.aborted_transactions.iter().flatten();
        aborted.map(|aborted| (aborted.producer_id, aborted.first_offset)).collect()
    }

    /// The records that a consumer hands on: it skips markers, and under read_committed what was aborted.
    fn visible(&self, isolation_level: i8) -> Vec<(i64, String)> {
        let mut pending = self.aborted();
        pending.sort_by_key(|(_, first)| *first);
        let mut aborting = Vec::new();
        let mut visible = Vec::new();
        for batch in self.batches() {
            let header = *batch.header();
            let id = header.producer_id.0;
            while pending.first().is_some_and(|(_, first)| *first <= header.last_offset().0) {
                aborting.push(pending.remove(0).0);
            }
            if header.is_control() {
                aborting.retain(|aborting| *aborting != id);
                continue;
            }
            if isolation_level == READ_COMMITTED && header.is_transactional() && aborting.contains(&id) {
                continue;
            }
            for record in batch.records().unwrap() {
                let record = record.unwrap();
                let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                visible.push((header.base_offset.0 + i64::from(record.offset_delta), value));
            }
        }
        visible
    }
}
