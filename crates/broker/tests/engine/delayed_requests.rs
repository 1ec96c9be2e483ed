//! KAFKA-17754: requests of older clients that were under way when their sender gave up, and arrive in the middle of the
//! next transaction. A client is one connection until it gives up on that, then another one.

use std::rc::Rc;

use fencepost_protocol::messages::{AddOffsetsToTxnRequest, EndTxnRequest, ProduceRequest};
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_COMMITTED, committed_offset, committed_values, read, transaction_state};
use crate::harness::{Client, Producer, World, batch};

/// CONCURRENT_TRANSACTIONS.
const CONCURRENT: i16 = 51;
const NOT_ENOUGH_REPLICAS: i16 = 19;
const INVALID_TXN_STATE: i16 = 48;
const TRANSACTION_ABORTABLE: i16 = 120;
/// Versions of clients below transaction version 2: one before TRANSACTION_ABORTABLE, one after.
const PRODUCE: [i16; 2] = [9, 11];
const END: [i16; 2] = [3, 4];

/// A producer on its first connection, with an open transaction, and the connection that it goes on with.
struct Reconnecting {
    world: Rc<World>,
    producer: Producer,
    next: Client,
}

impl Reconnecting {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(settings: &[(&str, &str)]) -> Self {
        let world = World::with(settings);
        world.create_topic("t", 2);
        let producer = Producer::start_with(world.client(), "x", 60_000);
        producer.add_partition("t", 0);
        let next = world.client();
        Self { world, producer, next }
    }

    fn end(&self, at: usize, committed: bool) -> i16 {
        self.next.ask(END[at], &self.producer.end_request(committed)).error_code
    }

    fn add(&self, partition: i32) -> i16 {
        let answer = self.next.ask(3, &self.producer.add_request("t", partition));
        answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    }

    /// Produces what the producer's next batch is.
    fn produce(&self, at: usize, partition: i32, value: &str) -> i16 {
        let request = self.producer.produce_request("t", partition, &[value]);
        code(&self.next, PRODUCE[at], &request)
    }

    fn late_end(&self, at: usize, request: &EndTxnRequest) -> i16 {
        self.producer.client.ask(END[at], request).error_code
    }

    fn committed(&self, partition: i32) -> Vec<String> {
        let row = read(&self.next, "t", partition, 0, READ_COMMITTED);
        assert_eq!(row.last_stable_offset, row.high_watermark, "a transaction is open");
        crate::harness::values_of(&row.records.unwrap_or_default())
    }
}

fn code(client: &Client, version: i16, request: &ProduceRequest) -> i16 {
    client.ask(version, request).responses[0].partition_responses[0].error_code
}

/// A commit whose retry has committed arrives in the next transaction, which its producer means to abort; and an abort in
/// one that is to be committed. Neither ends it.
#[test]
fn a_delayed_end_does_not_end_the_next_transaction() {
    for at in [0, 1] {
        for committed in [true, false] {
            let run = Reconnecting::new();
            run.producer.produce(PRODUCE[at], "t", 0, &["first"]);
            let late = run.producer.end_request(committed);
            assert_eq!(run.end(at, committed), 0);
            assert_eq!((run.add(0), run.produce(at, 0, "second")), (0, 0));
            assert_eq!(run.late_end(at, &late), CONCURRENT, "{committed}");
            assert_eq!(transaction_state(&run.next, "x"), "Ongoing");
            assert_eq!((run.produce(at, 0, "third"), run.end(at, !committed)), (0, 0));
            let row = read(&run.next, "t", 0, 0, READ_COMMITTED);
            assert_eq!(row.last_stable_offset, row.high_watermark);
            assert_eq!(row.aborted_transactions.unwrap().len(), 1);
            let name = if committed { "CompleteAbort" } else { "CompleteCommit" };
            assert_eq!(transaction_state(&run.next, "x"), name);
        }
    }
}

/// The same between two transactions: it does no harm there, and is not believed either.
#[test]
fn a_delayed_end_between_two_transactions_changes_nothing() {
    let run = Reconnecting::new();
    run.producer.produce(11, "t", 0, &["first"]);
    let late = run.producer.end_request(true);
    assert_eq!(run.end(1, true), 0);
    assert_eq!(run.late_end(1, &late), CONCURRENT);
    assert_eq!((run.add(0), run.produce(1, 0, "second"), run.end(1, true)), (0, 0, 0));
    assert_eq!(run.committed(0), ["first", "second"]);
}

/// An add that names no partition has an answer without a place for a code, so that its sender would take a doubt for success:
/// it is believed, and there is a transaction that its sender can end, as in Kafka.
#[test]
fn an_add_of_no_partition_cannot_be_told_to_come_again() {
    let run = Reconnecting::new();
    assert_eq!(run.end(1, true), 0);
    let mut request = run.producer.add_request("t", 0);
    request.v3_and_below_topics[0].partitions.clear();
    let answer = run.producer.client.ask(3, &request);
    assert!(answer.results_by_topic_v3_and_below[0].results_by_partition.is_empty());
    assert_eq!(transaction_state(&run.next, "x"), "Ongoing");
    assert_eq!(run.end(1, true), 0);
}

/// A batch of an aborted transaction fits the sequence of the next one: before that has added the partition the verification
/// refuses it, after that its connection does, and once the partition has records of the transaction, too.
#[test]
fn a_delayed_batch_does_not_join_the_next_transaction() {
    for at in [0, 1] {
        let run = Reconnecting::new();
        let id = run.producer.id.get();
        let time = run.world.now().wall;
        let at_sequence = |sequence, value| {
            let records = batch(id, sequence, true, time, &[value]);
            crate::harness::requests::produce(Some("x"), -1, vec![("t", 0, records)])
        };
        assert_eq!(run.end(at, false), 0);
        // Nothing is added yet: the verification knows.
        let unknown = [INVALID_TXN_STATE, TRANSACTION_ABORTABLE][at];
        assert_eq!(code(&run.producer.client, PRODUCE[at], &at_sequence(0, "late")), unknown);
        assert_eq!(run.add(0), 0);
        assert_eq!(code(&run.producer.client, PRODUCE[at], &at_sequence(1, "late")), NOT_ENOUGH_REPLICAS);
        assert_eq!(code(&run.next, PRODUCE[at], &at_sequence(0, "right")), 0);
        // The next in sequence, of a transaction that is open here: nobody would be asked.
        assert_eq!(code(&run.producer.client, PRODUCE[at], &at_sequence(2, "late")), NOT_ENOUGH_REPLICAS);
        assert_eq!(run.end(at, true), 0);
        assert_eq!(run.committed(0), ["right"]);
    }
}

/// What adds a partition, or a group, of the previous transaction does not begin one that nobody would end.
#[test]
fn a_delayed_add_begins_no_transaction() {
    let run = Reconnecting::new();
    let late = run.producer.add_request("t", 1);
    assert_eq!((run.add(1), run.end(1, true)), (0, 0));
    let answer = run.producer.client.ask(3, &late);
    let row = &answer.results_by_topic_v3_and_below[0].results_by_partition[0];
    assert_eq!(row.partition_error_code, CONCURRENT);
    assert_eq!(transaction_state(&run.next, "x"), "CompleteCommit");

    let run = Reconnecting::new();
    let (producer_id, producer_epoch) = run.producer.id.get();
    let id = "x".to_owned();
    let late = AddOffsetsToTxnRequest {
        transactional_id: id,
        producer_id,
        producer_epoch,
        group_id: "g".to_owned(),
    };
    assert_eq!(run.next.ask(3, &late).error_code, 0);
    assert_eq!(run.end(1, true), 0);
    assert_eq!(run.producer.client.ask(3, &late).error_code, CONCURRENT);
    assert_eq!(transaction_state(&run.next, "x"), "CompleteCommit");
}

/// Offsets of the previous transaction do not go over those of the next one.
#[test]
fn delayed_offsets_do_not_replace_newer_ones() {
    for version in [3, 4] {
        let run = Reconnecting::new();
        let (producer_id, producer_epoch) = run.producer.id.get();
        let add = AddOffsetsToTxnRequest {
            transactional_id: "x".to_owned(),
            producer_id,
            producer_epoch,
            group_id: "g".to_owned(),
        };
        let commit = |client: &Client, offset| {
            let answer = client.ask(version, &run.producer.offset_request("g", "t", offset));
            answer.topics[0].partitions[0].error_code
        };
        assert_eq!(run.end(1, false), 0);
        assert_eq!(run.next.ask(3, &add).error_code, 0);
        assert_eq!(commit(&run.next, 20), 0);
        assert_eq!(commit(&run.producer.client, 10), ErrorCode::CoordinatorLoadInProgress.code());
        assert_eq!(run.end(1, true), 0);
        assert_eq!(committed_offset(&run.next, "g", "t", true), (20, 0));
    }
}

/// A client that uses several connections at once is told to come again, once, in words that every client understands; then
/// it goes on as it likes.
#[test]
fn a_client_with_several_connections_comes_again_once() {
    let run = Reconnecting::new();
    let clients = [&run.next, &run.producer.client];
    let mut again = 0;
    for round in 0..6 {
        let (first, second) = (clients[round % 2], clients[(round + 1) % 2]);
        let add = run.producer.add_request("t", 0);
        let row = |client: &Client| {
            let answer = client.ask(3, &add);
            answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        };
        while row(first) == CONCURRENT {
            again += 1;
        }
        let records = run.producer.produce_request("t", 0, &["a"]);
        while code(second, 11, &records) == NOT_ENOUGH_REPLICAS {
            again += 1;
        }
        while second.ask(4, &run.producer.end_request(true)).error_code == CONCURRENT {
            again += 1;
        }
    }
    assert_eq!(again, 1);
    assert_eq!(committed_values(&run.next, "t", 0).len(), 6);
}

/// Clients of version 2 have an epoch for each transaction: their connections are nobody's concern.
#[test]
fn version_2_needs_no_order() {
    let run = Reconnecting::new();
    run.producer.end(4, true);
    run.producer.produce(12, "t", 0, &["first"]);
    let late = run.producer.end_request(true);
    let answer = run.next.ask(5, &late);
    run.producer.ended(&answer);
    let request = run.producer.produce_request("t", 0, &["second"]);
    assert_eq!(code(&run.next, 12, &request), 0);
    assert_eq!(run.producer.client.ask(5, &late).error_code, ErrorCode::ProducerFenced.code());
    let request = run.producer.produce_request("t", 0, &["third"]);
    assert_eq!(code(&run.producer.client, 12, &request), 0);
    let answer = run.next.ask(5, &run.producer.end_request(true));
    run.producer.ended(&answer);
    assert_eq!(run.committed(0), ["first", "second", "third"]);
}

/// Without verification older clients are not looked after: as with Kafka, a delayed end is taken for the next one's.
#[test]
fn without_verification_nobody_looks() {
    let run = Reconnecting::with(&[("transaction.partition.verification.enable", "false")]);
    run.producer.produce(11, "t", 0, &["first"]);
    let late = run.producer.end_request(true);
    assert_eq!((run.end(1, true), run.add(0), run.produce(1, 0, "second")), (0, 0, 0));
    assert_eq!(run.late_end(1, &late), 0);
    assert_eq!(run.committed(0), ["first", "second"]);
}
