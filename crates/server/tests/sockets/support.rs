//! A server in this process, and blocking clients on real sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use fencepost_protocol::messages::{
    ApiVersionsRequest, CreateTopicsRequest, FetchRequest, ProduceRequest, create_topics_request,
    fetch_request, produce_request,
};
use fencepost_protocol::{Message, Request, ResponseHeader, encode_request};
use fencepost_server::{Server, ServerError, ServerSettings, Storage, settings_from};
use fencepost_types::wire::Reader;
use tokio::runtime::Runtime;

/// Nothing that a test waits for takes so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running server on a port of its own.
pub struct TestServer {
    runtime: Runtime,
    server: Option<Server>,
}

impl TestServer {
    /// A server that keeps its data in memory.
    pub fn ephemeral() -> Self {
        Self::with(&[])
    }

    /// [`Self::ephemeral`] with settings of its own.
    pub fn with(given: &[(&str, &str)]) -> Self {
        Self::start(settings(Storage::Ephemeral, given)).unwrap()
    }

    /// A server on a directory.
    pub fn on(directory: &Path) -> Result<Self, ServerError> {
        Self::start(settings(Storage::Directory(directory.to_owned()), &[]))
    }

    /// A server with these settings.
    pub fn start(settings: ServerSettings) -> Result<Self, ServerError> {
        Self::start_on(2, settings)
    }

    /// A server that keeps its data in memory, and whose connections are all served by one thread.
    pub fn on_one_thread() -> Self {
        Self::start_on(1, settings(Storage::Ephemeral, &[])).unwrap()
    }

    fn start_on(threads: usize, settings: ServerSettings) -> Result<Self, ServerError> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
        let server = runtime.block_on(Server::start(settings))?;
        Ok(Self { runtime, server: Some(server) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address()
    }

    /// Where it serves metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.server.as_ref().unwrap().metrics_address()
    }

    /// A client that has connected.
    pub fn client(&self) -> SocketClient {
        SocketClient::connect(self.address())
    }

    /// A clean stop.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.runtime.block_on(self.server.take().unwrap().stop())
    }

    /// Panics unless a new client is served.
    pub fn check_alive(&self) {
        let answer = self.client().ask(0, &ApiVersionsRequest::default());
        assert_eq!(answer.error_code, 0);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            // A test that has failed has said why.
            let _ = self.runtime.block_on(server.stop());
        }
    }
}

/// Settings of a server on a free port of this machine, with few partitions of the internal topics.
pub fn settings(storage: Storage, given: &[(&str, &str)]) -> ServerSettings {
    let mut pairs = vec![
        ("offsets.topic.num.partitions", "2"),
        ("transaction.state.log.num.partitions", "2"),
        ("group.initial.rebalance.delay.ms", "0"),
    ];
    pairs.extend_from_slice(given);
    let pairs = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let listen = Some("127.0.0.1:0".to_owned());
    settings_from("", [], pairs, Some(storage.clone()), storage, listen).unwrap()
}

/// A client on a socket. Nothing is read before it is asked for.
pub struct SocketClient {
    pub stream: TcpStream,
    next_correlation_id: i32,
}

impl SocketClient {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, next_correlation_id: 1 }
    }

    /// The bytes of a request with its length, and its correlation id.
    pub fn encode<R: Request>(&mut self, version: i16, request: &R) -> (Vec<u8>, i32) {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let frame = encode_request(correlation_id, Some("test"), version, request).into_bytes();
        ([&(frame.len() as u32).to_be_bytes()[..], &frame].concat(), correlation_id)
    }

    /// Sends a request; answers its correlation id.
    pub fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        let (bytes, correlation_id) = self.encode(version, request);
        self.stream.write_all(&bytes).unwrap();
        correlation_id
    }

    /// Sends bytes as they are. A server that has closed already is fine.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame without its length; `None` when the server has closed.
    pub fn read_frame(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                return None;
            }
            Err(error) => panic!("no answer: {error}"),
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).unwrap();
        Some(frame.into())
    }

    /// The answer to the request with this correlation id, which is the next one.
    pub fn receive<R: Request>(&mut self, version: i16, correlation_id: i32) -> R::Response {
        let mut reader = Reader::new(self.read_frame().expect("an answer, not the end"));
        let header = ResponseHeader::decode(&mut reader, R::API_KEY, version).unwrap();
        assert_eq!(header.correlation_id, correlation_id, "E3: answers come in the order of the requests");
        let response = R::Response::decode(&mut reader, version).unwrap();
        assert_eq!(reader.remaining(), 0, "bytes behind the answer");
        response
    }

    /// Asks and waits.
    pub fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let correlation_id = self.send(version, request);
        self.receive::<R>(version, correlation_id)
    }

    /// Closes its own direction. A server that has closed already is fine.
    pub fn half_close(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Whether there is something to be read.
    pub fn has_answer(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        peeked.is_ok()
    }

    /// Whether the server has closed: waits for that.
    pub fn is_closed(&mut self) -> bool {
        self.read_frame().is_none()
    }

    /// Writes one batch; answers the code.
    pub fn write(&mut self, topic: &str, index: i32, records: Bytes) -> i16 {
        self.ask(9, &produce(topic, index, records)).responses[0].partition_responses[0].error_code
    }

    /// Creates a topic; answers the code.
    pub fn create_topic(&mut self, name: &str, partitions: i32) -> i16 {
        let topic = create_topics_request::Topics {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        self.ask(7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() }).topics[0].error_code
    }
}

/// A Fetch of partition 0 of a topic that waits so long for one byte.
pub fn long_poll(topic: &str, offset: i64, max_wait_ms: i32) -> FetchRequest {
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        session_epoch: -1,
        max_bytes: i32::MAX,
        topics: vec![fetch_request::Topics {
            topic: topic.to_owned(),
            partitions: vec![fetch_request::Partitions {
                fetch_offset: offset,
                partition_max_bytes: i32::MAX,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A Produce of one batch that is to be durable.
pub fn produce(topic: &str, index: i32, records: Bytes) -> ProduceRequest {
    ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![produce_request::TopicData {
            name: topic.to_owned(),
            partition_data: vec![produce_request::PartitionData { index, records: Some(records) }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// One plain batch of one record, as a client writes it.
pub fn batch(value: &[u8]) -> Bytes {
    let (before, after) = record_around(value.len());
    framed(0, &[&before, value, &after].concat())
}

/// A batch of one record of so many zeros, packed as Zstandard into a thousandth.
pub fn bomb(zeros: usize) -> Bytes {
    const ZSTD: u8 = 4;
    const RUN_BYTES: usize = 4_096;
    let (before, after) = record_around(zeros);
    // The magic, no sizes, a window of 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    let mut block = |kind: usize, is_last: bool, size: usize, bytes: &[u8]| {
        let header = size << 3 | kind << 1 | usize::from(is_last);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(bytes);
    };
    block(0, false, before.len(), &before);
    for at in (0..zeros).step_by(RUN_BYTES) {
        block(1, false, RUN_BYTES.min(zeros - at), &[0]);
    }
    block(0, true, after.len(), &after);
    framed(ZSTD, &frame)
}

/// What is before and behind the value of a record.
fn record_around(value_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let varint = |value: i64| {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        let mut bytes = Vec::new();
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes
    };
    // Attributes, timestamp delta, offset delta, no key, the value, no headers.
    let fields = [&[0, 0, 0, 1][..], &varint(value_bytes as i64)].concat();
    let bytes = fields.len() + value_bytes + 1;
    ([varint(bytes as i64), fields].concat(), vec![0])
}

/// A batch around a payload of one record.
fn framed(codec: u8, payload: &[u8]) -> Bytes {
    // Attributes, last offset delta, base and maximum timestamp, no producer, no sequence, one record.
    let mut after_crc = vec![0, codec, 0, 0, 0, 0];
    after_crc.extend_from_slice(&1_700_000_000_000_i64.to_be_bytes());
    after_crc.extend_from_slice(&1_700_000_000_000_i64.to_be_bytes());
    after_crc.extend_from_slice(&[0xff; 14]);
    after_crc.extend_from_slice(&1_i32.to_be_bytes());
    after_crc.extend_from_slice(payload);
    let mut bytes = 0_i64.to_be_bytes().to_vec();
    bytes.extend_from_slice(&(9 + after_crc.len() as i32).to_be_bytes());
    bytes.extend_from_slice(&(-1_i32).to_be_bytes());
    bytes.push(2);
    bytes.extend_from_slice(&crc32c(&after_crc).to_be_bytes());
    bytes.extend_from_slice(&after_crc);
    bytes.into()
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(!0, step)
}
