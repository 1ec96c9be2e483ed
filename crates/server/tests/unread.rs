//! Issue 12, B8: answers that are not read. The memory is that of the process, so this is alone in one.

#[allow(dead_code, reason = "shared with the tests of sockets")]
#[path = "sockets/support.rs"]
mod support;

use std::io::Read;

use bytes::Bytes;
use fencepost_protocol::messages::{DeleteTopicsRequest, FetchRequest, FetchResponse};
use fencepost_protocol::{Request, ResponseHeader};
use fencepost_types::wire::Reader;
use support::{SocketClient, TestServer, batch, long_poll};

const VERSION: i16 = 12;
const CLIENTS: usize = 40;
const BATCHES: usize = 55;
const VALUE_BYTES: usize = 1_000_000;
/// What so many clients may cost: a socket's buffer is the system's.
const MEMORY_MAX_BYTES: u64 = 32 << 20;
/// From here on the broker writes nothing into a batch.
const ATTRIBUTES_AT: usize = 21;

fn value(number: usize) -> Vec<u8> {
    (0..VALUE_BYTES).map(|at| (at * 31 + at / 251 + number) as u8).collect()
}

/// Asks for everything, and takes the length of the answer: then the server has begun to send it.
fn ask(server: &TestServer) -> (SocketClient, usize) {
    let mut client = server.client();
    client.send(VERSION, &long_poll("t", 0, 0));
    let mut length = [0; 4];
    client.stream.read_exact(&mut length).unwrap();
    (client, u32::from_be_bytes(length) as usize)
}

fn take(mut client: SocketClient, bytes: usize) -> Bytes {
    let mut frame = vec![0; bytes];
    client.stream.read_exact(&mut frame).unwrap();
    let mut reader = Reader::new(frame.into());
    ResponseHeader::decode(&mut reader, FetchRequest::API_KEY, VERSION).unwrap();
    let answer = FetchResponse::decode(&mut reader, VERSION).unwrap();
    answer.responses[0].partitions[0].records.clone().unwrap().into_bytes()
}

/// Memory that is no file's.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// 40 clients ask for 55 MB each and read nothing: that costs next to no memory, and a client that reads in the end gets everything,
/// also when the topic has been deleted meanwhile.
#[test]
fn unread_answers_take_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::on(directory.path()).unwrap();
    let mut client = server.client();
    assert_eq!(client.create_topic("t", 1), 0);
    let batches: Vec<_> = (0..BATCHES).map(|number| batch(&value(number))).collect();
    for batch in &batches {
        assert_eq!(client.write("t", 0, batch.clone()), 0);
    }

    let before = resident_bytes();
    let asked: Vec<_> = (0..CLIENTS).map(|_| ask(&server)).collect();
    let more = resident_bytes().saturating_sub(before);
    assert!(more < MEMORY_MAX_BYTES, "{more} bytes for {CLIENTS} clients that do not read");

    let delete =
        DeleteTopicsRequest { topic_names: vec!["t".to_owned()], timeout_ms: 30_000, ..Default::default() };
    assert_eq!(client.ask(5, &delete).responses[0].error_code, 0);
    for (client, bytes) in asked {
        let mut records = take(client, bytes);
        for batch in &batches {
            let found = records.split_to(batch.len());
            assert!(found[ATTRIBUTES_AT..] == batch[ATTRIBUTES_AT..]);
        }
        assert_eq!(records.len(), 0);
    }
    server.stop().unwrap();
}
