//! Metrics over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use fencepost_protocol::messages::{InitProducerIdRequest, OffsetCommitRequest, offset_commit_request};
use fencepost_server::{ServerError, Storage};

use serde_json::{Value, json};

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

/// The lag of groups is JSON: of every group, or of the one that is named.
#[test]
fn the_lag_of_groups_is_shown() {
    let server = TestServer::with(&[("fencepost.metrics.listener", "127.0.0.1:0")]);
    let address = server.metrics_address().unwrap();
    let lag = |path: &str| -> Value {
        let answer = get(address, path);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/json"), "{answer}");
        serde_json::from_str(body).unwrap()
    };
    assert_eq!(lag("/lag"), json!({"groups": [], "complete": true}));
    let mut client = server.client();
    assert_eq!(client.create_topic("read", 1), 0);
    for _ in 0..3 {
        assert_eq!(client.write("read", 0, batch(b"value")), 0);
    }
    let partition = offset_commit_request::Partitions { committed_offset: 1, ..Default::default() };
    let topic = offset_commit_request::Topics {
        name: "read".to_owned(),
        partitions: vec![partition],
        ..Default::default()
    };
    for group in ["a \"b\"", "c"] {
        let request = OffsetCommitRequest {
            group_id: group.to_owned(),
            generation_id_or_member_epoch: -1,
            topics: vec![topic.clone()],
            ..Default::default()
        };
        assert_eq!(client.ask(8, &request).topics[0].partitions[0].error_code, 0);
    }
    let row = json!({
        "topic": "read", "partition": 0, "committed_offset": 1, "pending_transactions": 0, "log_start_offset": 0,
        "last_stable_offset": 3, "high_watermark": 3, "log_end_offset": 3, "lag": 2, "stable_lag": 2, "records": 2,
        "records_unknown": null,
    });
    let expected = json!({"groups": [{"group": "a \"b\"", "partitions": [row]}], "complete": true});
    assert_eq!(lag("/lag?group=a+%22b%22"), expected);
    assert_eq!(lag("/lag")["groups"].as_array().map(Vec::len), Some(2));
    assert_eq!(lag("/lag?group=nobody"), json!({"groups": [], "complete": true}));
    assert!(get(address, "/lag?topic=read").starts_with("HTTP/1.1 400"));
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
