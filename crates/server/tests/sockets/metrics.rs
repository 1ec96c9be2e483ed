//! Metrics over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use fencepost_protocol::messages::InitProducerIdRequest;
use fencepost_server::{ServerError, Storage};

use crate::support::{PATIENCE, TestServer, batch, settings};

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn value<'a>(page: &'a str, series: &str) -> Option<&'a str> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

/// What the page shows follows what clients do.
#[test]
fn the_page_shows_what_is_there() {
    let server = TestServer::with(&[("fencepost.metrics.listener", "127.0.0.1:0")]);
    let address = server.metrics_address().unwrap();
    let before = get(address, "/metrics");
    assert!(before.starts_with("HTTP/1.1 200"), "{before}");
    assert_eq!(value(&before, "fencepost_transactional_ids"), Some("0"));
    assert_eq!(value(&before, "fencepost_transactional_ids_max"), Some("2000000"));
    assert_eq!(value(&before, "fencepost_transactional_ids_refused_total"), Some("0"));
    assert!(value(&before, "fencepost_deadline_lateness_seconds_count").is_some(), "{before}");
    assert_eq!(value(&before, "fencepost_producer_entries_evicted_total"), Some("0"));
    let mut client = server.client();
    assert_eq!(client.create_topic("seen", 1), 0);
    let init = InitProducerIdRequest {
        transactional_id: Some("id".into()),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    assert_eq!(client.ask(4, &init).error_code, 0);
    assert_eq!(client.write("seen", 0, batch(b"value")), 0);
    let after = get(address, "/metrics");
    assert_eq!(value(&after, "fencepost_transactional_ids"), Some("1"));
    let of_topic = |name: &str| value(&after, &format!(r#"{name}{{topic="seen",partition="0"}}"#));
    assert_eq!(of_topic("kafka_log_log_logendoffset"), Some("1"), "{after}");
    assert_eq!(of_topic("kafka_cluster_partition_laststableoffsetlag"), Some("0"));
    assert!(get(address, "/other").starts_with("HTTP/1.1 404"));
}

/// Without a listener nobody listens; one that is taken is a sentence.
#[test]
fn a_listener_is_asked_for_and_must_be_free() {
    assert_eq!(TestServer::ephemeral().metrics_address(), None);
    let server = TestServer::ephemeral();
    let taken = server.address().to_string();
    let again = settings(Storage::Ephemeral, &[("fencepost.metrics.listener", &taken)]);
    let Err(error) = TestServer::start(again) else { panic!("two servers on one port") };
    assert!(matches!(error, ServerError::Listen { .. }), "{error}");
}
