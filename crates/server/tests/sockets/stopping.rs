//! The end of a server, and the start on what it has left.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fencepost_protocol::messages::{
    FetchRequest, JoinGroupRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest, join_group_request,
    list_offsets_request,
};
use fencepost_types::ErrorCode;

use crate::support::{SocketClient, TestServer, batch, long_poll, produce};

/// Producers of the flood, each on a partition of its own.
const PRODUCERS: usize = 4;
/// The flood is stopped when so many answers have come in all.
const ANSWERS_BEFORE_STOP: usize = 300;

/// The end offset of a partition.
fn end_offset(client: &mut SocketClient, topic: &str, index: i32) -> i64 {
    let partition =
        list_offsets_request::Partitions { partition_index: index, timestamp: -1, ..Default::default() };
    let topic = list_offsets_request::Topics { name: topic.to_owned(), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    client.ask(5, &request).topics[0].partitions[0].offset
}

/// Reads the answers to Produce requests until the server closes; checks that they are in order, and answers how many.
fn read_answers(mut stream: TcpStream, answered: &AtomicUsize) -> usize {
    let mut count = 0;
    loop {
        let mut length = [0; 4];
        match stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return count,
            Err(error) => panic!("no end of the stream, and no answer: {error}"),
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).unwrap();
        count += 1;
        assert_eq!(frame[..4], (count as u32).to_be_bytes(), "E3: answers come in the order of the requests");
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes the same Produce again and again, each with its own correlation id, until the server takes no more.
fn flood(client: &mut SocketClient, request: &ProduceRequest) {
    loop {
        let (bytes, _) = client.encode(9, request);
        if client.stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// A clean stop in the middle of pipelined Produce requests: what was appended was answered, in order, and the stream then
/// ends without a reset (issue 12, A1).
#[test]
fn a_stop_answers_what_it_has_taken_in() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::on(directory.path()).unwrap();
    assert_eq!(server.client().create_topic("t", PRODUCERS as i32), 0);
    let answered = AtomicUsize::new(0);
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for index in 0..PRODUCERS {
            let mut client = server.client();
            let stream = client.stream.try_clone().unwrap();
            let answered = &answered;
            readers.push(scope.spawn(move || read_answers(stream, answered)));
            scope.spawn(move || flood(&mut client, &produce("t", index as i32, batch(b"value"))));
        }
        while answered.load(Ordering::Relaxed) < ANSWERS_BEFORE_STOP {
            std::thread::yield_now();
        }
        server.stop().unwrap();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let server = TestServer::on(directory.path()).unwrap();
    let mut client = server.client();
    for (index, count) in counts.into_iter().enumerate() {
        assert_eq!(end_offset(&mut client, "t", index as i32), count as i64, "partition {index}");
    }
}

/// A Fetch of partition 1 of "t", to which nothing comes.
fn idle_poll() -> FetchRequest {
    let mut poll = long_poll("t", 0, 60_000);
    poll.topics[0].partitions[0].partition = 1;
    poll
}

/// Writes to partition 0 of "t". When the batch is there, everything that the client sent before was taken in.
fn produce_and_wait(server: &TestServer, client: &mut SocketClient) -> i32 {
    let produced = client.send(9, &produce("t", 0, batch(b"value")));
    while end_offset(&mut server.client(), "t", 0) == 0 {
        std::thread::yield_now();
    }
    produced
}

/// What waits for something that may never come is answered at the stop, in its place among the requests of its connection:
/// a Fetch with what there is, a member that waits for others with the code that sends it to look for its coordinator
/// (issue 12, A1).
#[test]
fn a_stop_answers_long_polls_in_their_place() {
    let server = TestServer::ephemeral();
    let mut member = server.client();
    assert_eq!(member.create_topic("t", 2), 0);
    let protocol = join_group_request::Protocols { name: "range".to_owned(), ..Default::default() };
    let join = |member_id: &str| JoinGroupRequest {
        group_id: "g".to_owned(),
        member_id: member_id.to_owned(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol.clone()],
        ..Default::default()
    };
    assert_eq!(member.ask(3, &join("")).error_code, 0);
    let mut client = server.client();
    // The second member waits for the first to join again.
    let joined = client.send(3, &join(""));
    let fetched = client.send(12, &idle_poll());
    let produced = produce_and_wait(&server, &mut client);
    server.stop().unwrap();
    let join_answer = client.receive::<JoinGroupRequest>(3, joined);
    assert_eq!(join_answer.error_code, ErrorCode::NotCoordinator.code());
    let fetch_answer = client.receive::<FetchRequest>(12, fetched);
    assert_eq!((fetch_answer.error_code, fetch_answer.responses[0].partitions[0].error_code), (0, 0));
    let produce_answer = client.receive::<ProduceRequest>(9, produced);
    assert_eq!(produce_answer.responses[0].partition_responses[0].error_code, 0);
    assert!(client.is_closed());
}

/// Bytes that the server has not taken cost no answer: they are thrown away, and the stream ends instead of being reset.
#[test]
fn unread_bytes_do_not_reset_the_connection() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    assert_eq!(client.create_topic("t", 2), 0);
    // One Fetch at a time is taken in: the second keeps what is behind it in the system's buffers.
    let fetched = client.send(12, &idle_poll());
    let produced = produce_and_wait(&server, &mut client);
    client.send(12, &idle_poll());
    let (produce, _) = client.encode(9, &produce("t", 0, batch(&[7; 1_000])));
    client.send_bytes(&produce.repeat(100));
    server.stop().unwrap();
    assert_eq!(client.receive::<FetchRequest>(12, fetched).error_code, 0);
    client.receive::<ProduceRequest>(9, produced);
    let answered = AtomicUsize::new(0);
    assert_eq!(read_answers(client.stream.try_clone().unwrap(), &answered), 0);
}

/// A client that takes nothing of its answer does not hold the stop for longer than a moment.
#[test]
fn a_client_that_never_reads_does_not_hold_the_stop() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    assert_eq!(client.create_topic("t", 1), 0);
    for _ in 0..20 {
        assert_eq!(client.write("t", 0, batch(&vec![1; 900_000])), 0);
    }
    client.send(12, &long_poll("t", 0, 0));
    let begun = Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// A clean stop does not wait for long polls: it takes less than a second, and every connection is closed.
#[test]
fn a_stop_does_not_wait_for_long_polls() {
    let server = TestServer::ephemeral();
    assert_eq!(server.client().create_topic("t", 1), 0);
    let fetch = long_poll("t", 0, 60_000);
    let protocol = join_group_request::Protocols { name: "range".to_owned(), ..Default::default() };
    let join = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..Default::default()
    };
    let mut clients: Vec<_> = (0..20).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        if number % 2 == 0 {
            client.send(12, &fetch);
        } else {
            client.send(3, &join);
        }
    }
    let begun = Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    for client in &mut clients {
        while client.read_frame().is_some() {}
    }
}

/// One directory, one server: the second is refused with a sentence; after a stop the directory is free, and everything is
/// there.
#[test]
fn a_directory_has_one_server_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::on(directory.path()).unwrap();
    assert_eq!(server.client().create_topic("kept", 3), 0);
    let Err(error) = TestServer::on(directory.path()) else { panic!("two servers on one directory") };
    assert!(error.to_string().contains("another process"), "{error}");
    server.check_alive();
    server.stop().unwrap();
    let server = TestServer::on(directory.path()).unwrap();
    let answer = server.client().ask(12, &MetadataRequest { topics: None, ..Default::default() });
    let kept = answer.topics.iter().find(|topic| topic.name.as_deref() == Some("kept")).unwrap();
    assert_eq!(kept.partitions.len(), 3);
}
