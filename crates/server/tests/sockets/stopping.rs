//! The end of a server, and the start on what it has left.

use std::time::{Duration, Instant};

use fencepost_protocol::messages::{JoinGroupRequest, MetadataRequest, join_group_request};

use crate::support::{TestServer, long_poll};

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
