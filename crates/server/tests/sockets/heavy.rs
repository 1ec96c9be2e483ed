//! Requests that are much work, beside others on the same thread (issue 12, B10).

use fencepost_protocol::messages::{ApiVersionsRequest, ProduceRequest, produce_request};

use crate::support::{TestServer, batch, bomb, produce};

/// How often a bystander is answered at least while others have their bombs checked. One who waits for them is answered
/// once or twice.
const ANSWERS_MIN: usize = 20;
/// Partitions, and bombs in a request.
const BOMBS: i32 = 8;
/// What each inflates to.
const BOMB_BYTES: usize = 100 * 1024 * 1024;

fn bombs() -> ProduceRequest {
    let records = bomb(BOMB_BYTES);
    let one = |index| produce_request::PartitionData { index, records: Some(records.clone()) };
    let mut request = produce("t", 0, records.clone());
    request.topic_data[0].partition_data = (0..BOMBS).map(one).collect();
    request
}

/// B10: with one thread that serves, and batches that inflate to gigabytes, another connection is answered all the while.
#[test]
fn bombs_hold_up_nobody() {
    let server = TestServer::on_one_thread();
    let (mut bystander, mut bomber) = (server.client(), server.client());
    assert_eq!(bystander.create_topic("t", BOMBS), 0);
    let asked = bomber.send(9, &bombs());
    // It comes behind the bombs, and is not taken before they are checked.
    let next = bomber.send(9, &produce("t", 0, batch(b"behind")));
    let mut answers = 0;
    while !bomber.has_answer() {
        assert_eq!(bystander.ask(0, &ApiVersionsRequest::default()).error_code, 0);
        answers += 1;
    }
    assert!(answers >= ANSWERS_MIN, "{answers} answers");
    let answer = bomber.receive::<ProduceRequest>(9, asked);
    let rows = &answer.responses[0].partition_responses;
    assert!(rows.iter().all(|row| (row.error_code, row.base_offset) == (0, 0)), "{rows:?}");
    let answer = bomber.receive::<ProduceRequest>(9, next);
    assert_eq!(answer.responses[0].partition_responses[0].base_offset, 1);
}

/// A stop in the middle of heavy work comes to an end, and so does one before it has begun.
#[test]
fn a_stop_does_not_wait_for_ever() {
    let server = TestServer::on_one_thread();
    let mut bombers: Vec<_> = (0..4).map(|_| server.client()).collect();
    assert_eq!(bombers[0].create_topic("t", BOMBS), 0);
    for bomber in &mut bombers {
        bomber.send(9, &bombs());
    }
    server.check_alive();
    server.stop().unwrap();
    for mut bomber in bombers {
        while bomber.read_frame().is_some() {}
    }
}
