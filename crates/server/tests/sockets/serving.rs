//! What well-behaved clients see.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use fencepost_protocol::messages::{ApiVersionsRequest, FetchRequest, MetadataRequest, metadata_request};
use fencepost_server::{ServerError, Storage};

use crate::support::{TestServer, batch, long_poll, settings};

/// Two hundred connections at once are served, and again while all of them are open.
#[test]
fn two_hundred_clients_are_served() {
    let server = TestServer::ephemeral();
    let mut clients: Vec<_> = (0..200).map(|_| server.client()).collect();
    for _ in 0..2 {
        let sent: Vec<_> =
            clients.iter_mut().map(|client| client.send(0, &ApiVersionsRequest::default())).collect();
        for (client, correlation_id) in clients.iter_mut().zip(sent) {
            assert_eq!(client.receive::<ApiVersionsRequest>(0, correlation_id).error_code, 0);
        }
    }
}

/// Issue 12, C17: an address has as many connections as `max.connections.per.ip` says, or its override; the next is closed.
#[test]
fn connections_of_an_address_are_limited() {
    for limits in [
        &[("max.connections.per.ip", "2")][..],
        &[("max.connections.per.ip", "9"), ("max.connections.per.ip.overrides", "127.0.0.1:2")],
    ] {
        let server = TestServer::with(limits);
        let mut taken = [server.client(), server.client()];
        for client in &mut taken {
            assert_eq!(client.ask(0, &ApiVersionsRequest::default()).error_code, 0);
        }
        assert!(server.client().is_closed());
    }
}

/// Issue 12, C17: beyond `max.connections` a client waits until another goes.
#[test]
fn connections_beyond_the_limit_wait() {
    let server = TestServer::with(&[("max.connections", "1")]);
    let mut first = server.client();
    assert_eq!(first.ask(0, &ApiVersionsRequest::default()).error_code, 0);
    let mut second = server.client();
    let sent = second.send(0, &ApiVersionsRequest::default());
    assert_eq!(first.ask(0, &ApiVersionsRequest::default()).error_code, 0);
    drop(first);
    assert_eq!(second.receive::<ApiVersionsRequest>(0, sent).error_code, 0);
}

/// Issue 12, C17: a frame may have as many bytes as `socket.request.max.bytes` says; one that announces more closes its connection.
#[test]
fn requests_are_as_large_as_is_said() {
    const BYTES_MAX: usize = 300;
    let server = TestServer::with(&[("socket.request.max.bytes", "300")]);
    let named = |bytes: usize| {
        let topic = metadata_request::Topics { name: Some("t".repeat(bytes)), ..Default::default() };
        MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: false, ..Default::default() }
    };
    let beside_the_name = server.client().encode(12, &named(200)).0.len() - 200 - size_of::<i32>();
    let mut client = server.client();
    assert_eq!(client.ask(12, &named(BYTES_MAX - beside_the_name)).topics.len(), 1);
    client.send(12, &named(BYTES_MAX - beside_the_name + 1));
    assert!(client.is_closed());
    server.check_alive();
}

/// Issue 12, C17: `socket.listen.backlog.size` clients may wait to be accepted; those that come after them are not let in.
#[test]
fn few_clients_wait_where_the_backlog_is_short() {
    const CLIENTS: usize = 12;
    let waiting = |backlog: &str| {
        let server = TestServer::with(&[("max.connections", "1"), ("socket.listen.backlog.size", backlog)]);
        let mut served = server.client();
        assert_eq!(served.ask(0, &ApiVersionsRequest::default()).error_code, 0);
        let connect = |_| TcpStream::connect_timeout(&server.address(), Duration::from_millis(150)).ok();
        (0..CLIENTS).filter_map(connect).collect::<Vec<_>>().len()
    };
    assert_eq!(waiting("50"), CLIENTS);
    let few = waiting("2");
    assert!((1..=5).contains(&few), "{few} clients wait");
}

/// Issue 12, C17: `socket.receive.buffer.bytes` bounds what the system takes in for a connection that the server does not read.
#[test]
fn little_is_taken_in_where_the_receive_buffer_is_small() {
    let taken_in = |buffer: &str| {
        let server = TestServer::with(&[("max.connections", "1"), ("socket.receive.buffer.bytes", buffer)]);
        let mut served = server.client();
        assert_eq!(served.ask(0, &ApiVersionsRequest::default()).error_code, 0);
        let unread = server.client();
        unread.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut bytes = 0;
        while let Ok(written) = (&unread.stream).write(&[0; 1024]) {
            bytes += written;
        }
        bytes
    };
    let (little, much) = (taken_in("4096"), taken_in("150000"));
    assert!(little + 50_000 < much, "{little} and {much}");
}

/// Port 0 is a free one; clients are told the one that it became.
#[test]
fn port_0_is_a_free_port() {
    let server = TestServer::ephemeral();
    assert_ne!(server.address().port(), 0);
    let answer = server.client().ask(12, &MetadataRequest::default());
    let told: Vec<_> = answer.brokers.iter().map(|broker| (broker.host.as_str(), broker.port)).collect();
    assert_eq!(told, [("127.0.0.1", i32::from(server.address().port()))]);
}

/// A port that is taken is a sentence, not a panic.
#[test]
fn a_port_that_is_taken_is_refused() {
    let server = TestServer::ephemeral();
    let mut again = settings(Storage::Ephemeral, &[]);
    again.listen = server.address().to_string();
    let Err(error) = TestServer::start(again) else { panic!("two servers on one port") };
    assert!(matches!(error, ServerError::Listen { .. }), "{error}");
    assert!(error.to_string().contains(&server.address().to_string()), "{error}");
    server.check_alive();
}

/// Pipelined requests are answered in their order, the parked one first though the later ones are ready.
#[test]
fn answers_keep_the_order_of_requests() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    assert_eq!(client.create_topic("t", 1), 0);
    let request = long_poll("t", 0, 300);
    let parked = client.send(12, &request);
    let others: Vec<_> = (0..100).map(|_| client.send(0, &ApiVersionsRequest::default())).collect();
    let second = client.send(12, &request);
    assert_eq!(client.receive::<FetchRequest>(12, parked).error_code, 0);
    for correlation_id in others {
        client.receive::<ApiVersionsRequest>(0, correlation_id);
    }
    assert_eq!(client.receive::<FetchRequest>(12, second).error_code, 0);
}

/// A thousand requests at once, read at leisure: all answers are there, in order.
#[test]
fn a_thousand_pipelined_requests_are_answered() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    let mut writing = client.stream.try_clone().unwrap();
    let (mut bytes, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        let (frame, correlation_id) = client.encode(
            3,
            &ApiVersionsRequest {
                client_software_name: "test".to_owned(),
                client_software_version: "1".to_owned(),
                ..Default::default()
            },
        );
        bytes.extend(frame);
        sent.push(correlation_id);
    }
    let writer = std::thread::spawn(move || writing.write_all(&bytes).unwrap());
    for correlation_id in sent {
        assert_eq!(client.receive::<ApiVersionsRequest>(3, correlation_id).error_code, 0);
    }
    writer.join().unwrap();
}

/// A frame that comes byte by byte is a frame.
#[test]
fn a_torn_frame_is_put_together() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    let (bytes, correlation_id) = client.encode(0, &ApiVersionsRequest::default());
    for byte in bytes {
        client.stream.write_all(&[byte]).unwrap();
    }
    client.receive::<ApiVersionsRequest>(0, correlation_id);
}

/// Records of every size arrive as they were sent, also those of several vectored writes.
#[test]
fn records_come_back_as_they_were() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    assert_eq!(client.create_topic("t", 1), 0);
    let sizes = [0, 1, 1_000, 65_535, 65_536, 900_000];
    for size in sizes {
        assert_eq!(client.write("t", 0, batch(&vec![size as u8; size])), 0);
    }
    for (offset, size) in sizes.into_iter().enumerate() {
        let mut request = long_poll("t", offset as i64, 0);
        request.max_bytes = 1;
        let answer = client.ask(12, &request);
        let records = answer.responses[0].partitions[0].records.clone().unwrap().into_bytes();
        let sent = batch(&vec![size as u8; size]);
        assert_eq!(records.len(), sent.len());
        assert_eq!(records[21..], sent[21..], "from the attributes on");
    }
}
