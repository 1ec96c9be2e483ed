//! What a fetch that waits costs, and what ends its wait.

use fencepost_protocol::messages::{FetchRequest, fetch_request};

use crate::harness::requests::{READ_COMMITTED, READ_UNCOMMITTED, fetch, long_poll, produce};
use crate::harness::{Call, Client, Producer, World, plain_batch};

const VALUE_BYTES: usize = 100_000;

fn write(client: &Client, topic: &str, partition: i32, value_bytes: usize) {
    let records = plain_batch(client.world().now().wall, &["x".repeat(value_bytes).as_str()]);
    let answer = client.ask(9, &produce(None, -1, vec![(topic, partition, records)]));
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0, "{answer:?}");
}

fn waiting_for(bytes: usize, isolation: i8) -> FetchRequest {
    FetchRequest { min_bytes: bytes as i32, ..long_poll("t", 0, 0, isolation, 60_000) }
}

fn record_bytes(call: &Call<FetchRequest>) -> Vec<usize> {
    let rows = call.answer().responses.into_iter().flat_map(|topic| topic.partitions);
    rows.map(|row| row.records.unwrap().len()).collect()
}

/// Issue 12, B6: fetches that wait for more bytes than there are cost their partition's appends nothing that grows with the
/// data, at either isolation, and other partitions' nothing at all.
#[test]
fn waiting_fetches_do_not_read() {
    let world = World::new();
    world.create_topic("t", 1);
    world.create_topic("other", 1);
    let client = world.client();
    for _ in 0..10 {
        write(&client, "t", 0, VALUE_BYTES);
    }
    let begun = world.disk.faults.read_bytes();
    let parked: Vec<_> = [READ_UNCOMMITTED, READ_COMMITTED]
        .into_iter()
        .cycle()
        .take(50)
        .map(|isolation| world.client().send(12, &waiting_for(1 << 30, isolation)))
        .collect();
    let parking = world.disk.faults.read_bytes() - begun;
    assert!(parking < 50 * 2 * 8_192 + 65_536, "the places of their offsets: {parking} bytes were read");
    let parked_at = world.disk.faults.read_bytes();
    for _ in 0..20 {
        for topic in ["other", "t"] {
            let records = plain_batch(world.now().wall, &["x"]);
            let produced = client.send(9, &produce(None, -1, vec![(topic, 0, records)]));
            // No check by the harness, which reads whole logs.
            world.sync_until(|| produced.is_done());
        }
    }
    let appending = world.disk.faults.read_bytes() - parked_at;
    assert!(appending <= 20 * 8_192, "{appending} bytes were read while 50 fetches wait");
    assert!(parked.iter().all(|call| !call.is_done()));
    world.advance_ms(60_000);
    assert!(parked.iter().all(|call| record_bytes(call)[0] > 10 * VALUE_BYTES));
}

/// Issue 12, B6: the bytes of all partitions count together, each up to its own limit, and the fetch is answered with the
/// append that makes them enough: not with the one before.
#[test]
fn the_bytes_of_all_partitions_count() {
    let world = World::new();
    world.create_topic("t", 3);
    let client = world.client();
    let mut request = waiting_for(2_500, READ_UNCOMMITTED);
    request.topics[0].partitions = (0..3)
        .map(|partition| fetch_request::Partitions {
            partition,
            partition_max_bytes: 1_000,
            ..request.topics[0].partitions[0].clone()
        })
        .collect();
    let parked = world.client().send(12, &request);
    // Far more than enough, but for its limit.
    write(&client, "t", 0, 50_000);
    write(&client, "t", 1, 400);
    write(&client, "t", 2, 500);
    assert!(!parked.is_done(), "1000, some 470 and some 570 bytes");
    write(&client, "t", 1, 500);
    assert!(parked.is_done(), "1000, 1000 and some 570 bytes");
}

/// Issue 12, B6: what has been counted for a read_committed fetch ends with the last stable offset.
#[test]
fn open_transactions_do_not_count() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["x".repeat(2_000).as_str()]);
    let committed = world.client().send(12, &waiting_for(1_000, READ_COMMITTED));
    let uncommitted = world.client().send(12, &waiting_for(1_000, READ_UNCOMMITTED));
    assert!(uncommitted.is_done() && !committed.is_done());
    write(&world.client(), "t", 0, 2_000);
    assert!(!committed.is_done(), "it lies behind the open transaction");
    producer.end(5, true);
    assert!(record_bytes(&committed)[0] > 2_000);
}

/// Issue 12, B6: a fetch that begins in an older segment is answered at once, and one that waits when the log rolls is then:
/// no answer reaches beyond a segment's end. Source: Kafka DelayedFetch.tryComplete, case F.
#[test]
fn a_fetch_of_an_older_segment_does_not_wait() {
    let world = World::new();
    world.create_topic_with("t", 1, &[("segment.bytes", "1048576")]);
    let client = world.client();
    write(&client, "t", 0, 600_000);
    let parked = world.client().send(12, &waiting_for(1 << 30, READ_UNCOMMITTED));
    assert!(!parked.is_done());
    write(&client, "t", 0, 600_000);
    assert!(parked.is_done(), "the second batch is in a new segment");
    assert!(world.client().send(12, &waiting_for(1 << 30, READ_UNCOMMITTED)).is_done());
}

/// Wire-apis: nobody waits for more bytes than the answer may have. Source: Kafka KafkaApis.handleFetchRequest.
#[test]
fn the_least_is_no_more_than_the_most() {
    let world = World::new();
    world.create_topic("t", 1);
    write(&world.client(), "t", 0, 5_000);
    let request = FetchRequest { max_bytes: 3_000, ..waiting_for(1 << 30, READ_UNCOMMITTED) };
    assert!(world.client().send(12, &request).is_done());
    let without = FetchRequest { min_bytes: 0, max_wait_ms: 60_000, ..fetch("t", 0, 1, READ_UNCOMMITTED) };
    assert!(world.client().send(12, &without).is_done());
}
