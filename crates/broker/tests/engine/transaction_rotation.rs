//! Exhausted epochs: the producer id that follows, on every way a transaction ends, with a crash anywhere on it.
//!
//! `fencepost.test.initial.producer.epoch` makes new transactional ids begin at the last epoch a client can hold.

use std::rc::Rc;

use fencepost_protocol::messages::{DescribeTransactionsRequest, InitProducerIdRequest};
use fencepost_records::Batches;
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_COMMITTED, READ_UNCOMMITTED, init, read};
use crate::harness::{Producer, World};

/// The last epoch of clients; the one above it is for markers.
const LAST: i16 = 32_766;
/// More syncs than a transaction of two partitions needs to its end.
const CRASHES_MAX: usize = 6;

/// How the transaction at the last epoch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    Abort,
    Timeout,
    NewInstance,
}

impl End {
    const ALL: [Self; 4] = [Self::Commit, Self::Abort, Self::Timeout, Self::NewInstance];
}

fn world_at_the_last_epoch() -> Rc<World> {
    let world = World::with(&[("fencepost.test.initial.producer.epoch", "32766")]);
    world.create_topic("t", 2);
    world
}

/// State, producer id and epoch of a transactional id.
fn described(world: &Rc<World>, id: &str) -> (String, i64, i16) {
    let request = DescribeTransactionsRequest { transactional_ids: vec![id.to_owned()] };
    let row = world.client().ask(0, &request).transaction_states.remove(0);
    assert_eq!(row.error_code, 0, "{row:?}");
    (row.transaction_state, row.producer_id, row.producer_epoch)
}

/// Producer id and epoch of every marker in a partition.
fn markers(world: &Rc<World>, partition: i32) -> Vec<(i64, i16)> {
    let records = read(&world.client(), "t", partition, 0, READ_UNCOMMITTED).records.unwrap();
    let batches = Batches::new(records.into_bytes());
    let headers = batches.map(|batch| *batch.unwrap().header());
    headers
        .filter(|header| header.is_control())
        .map(|header| (header.producer_id.0, header.producer_epoch.0))
        .collect()
}

fn expecting((producer_id, producer_epoch): (i64, i16)) -> InitProducerIdRequest {
    InitProducerIdRequest { producer_id, producer_epoch, ..init("x", 60_000) }
}

/// A transaction of two partitions at the last epoch, ended by `end`; the process dies after `syncs` syncs, if it does.
/// Answers the world, the pair that was exhausted, and the pair that the client was told if it asked for the end.
fn ended(end: End, crash_after: Option<usize>) -> (Rc<World>, (i64, i16), Option<(i64, i16)>) {
    let world = world_at_the_last_epoch();
    let producer = Producer::start(world.client(), "x");
    let old = producer.id.get();
    assert_eq!(old.1, LAST);
    producer.produce(12, "t", 0, &["a"]);
    producer.produce(12, "t", 1, &["a"]);
    let asked = match end {
        End::Commit | End::Abort => Some(producer.send_end(5, end == End::Commit)),
        End::Timeout | End::NewInstance => None,
    };
    match end {
        End::Commit | End::Abort => {}
        End::Timeout => world.advance_ms(60_001),
        End::NewInstance => _ = world.client().send(5, &init("x", 60_000)),
    }
    if let Some(syncs) = crash_after {
        for _ in 0..syncs {
            world.sync_one();
        }
        world.restart();
    }
    world.settle();
    let answer = asked.filter(|call| call.is_done()).map(|call| call.answer());
    assert!(answer.is_some() || crash_after.is_some() || !matches!(end, End::Commit | End::Abort));
    let told = answer.map(|answer| (answer.producer_id, answer.producer_epoch));
    (world, old, told)
}

/// §8, coordinator traps 5 and 8, KAFKA-20090: whoever ends the transaction, its markers carry the old producer id at
/// 32767, afterwards the next producer id stands at epoch 0, and a crash anywhere on the way changes none of it.
#[test]
fn every_end_at_the_last_epoch_rotates() {
    for end in End::ALL {
        for crash_after in [None].into_iter().chain((0..CRASHES_MAX).map(Some)) {
            let what = format!("{end:?}, crash after {crash_after:?} syncs");
            let (world, old, told) = ended(end, crash_after);
            let (state, id, epoch) = described(&world, "x");
            let expected = if end == End::Commit { "CompleteCommit" } else { "CompleteAbort" };
            assert_eq!((state.as_str(), epoch), (expected, 0), "{what}");
            assert_ne!(id, old.0, "{what}");
            assert!(told.is_none_or(|told| told == (id, 0)), "{what}: {told:?}");
            for partition in 0..2 {
                let written = markers(&world, partition);
                assert!(
                    !written.is_empty() && written.iter().all(|marker| *marker == (old.0, i16::MAX)),
                    "{what}"
                );
                let row = read(&world.client(), "t", partition, 0, READ_COMMITTED);
                assert_eq!(row.last_stable_offset, row.high_watermark, "{what}");
                assert_eq!(row.aborted_transactions.unwrap().is_empty(), end == End::Commit, "{what}");
            }
            assert_goes_on(&world, old, (id, 0), end, &what);
        }
    }
}

/// Who still holds the old pair is told of the new one where it may be, and the new one works.
fn assert_goes_on(world: &Rc<World>, old: (i64, i16), new: (i64, i16), end: End, what: &str) {
    let mut producer = Producer::holding(world.client(), "x", old);
    let commit = world.client().ask(5, &producer.end_request(true));
    let abort = world.client().ask(5, &producer.end_request(false));
    let pair_of = |producer_id: i64, producer_epoch: i16| (producer_id, producer_epoch);
    if end == End::Commit {
        assert_eq!(
            (commit.error_code, pair_of(commit.producer_id, commit.producer_epoch)),
            (0, new),
            "{what}"
        );
        assert_eq!(abort.error_code, ErrorCode::InvalidTxnState.code(), "{what}");
    } else {
        // KAFKA-20785, also over a rotation.
        assert_eq!(commit.error_code, ErrorCode::ProducerFenced.code(), "{what}");
        assert_eq!((abort.error_code, pair_of(abort.producer_id, abort.producer_epoch)), (0, new), "{what}");
    }
    // KIP-360, over a rotation: the old pair is answered the new one. Once: the answer's record names no other producer id
    // before the new one, as in Kafka.
    let again = world.client().ask(5, &expecting(old));
    assert_eq!((again.error_code, pair_of(again.producer_id, again.producer_epoch)), (0, new), "{what}");
    // The old pair writes nothing any more; the new one does.
    let late = world.client().ask(12, &producer.produce_request("t", 0, &["late"]));
    assert_ne!(late.responses[0].partition_responses[0].error_code, 0, "{what}");
    producer = Producer::holding(world.client(), "x", new);
    producer.produce(12, "t", 0, &["b"]);
    producer.end(5, true);
    assert_eq!(producer.id.get(), (new.0, 1), "{what}");
    // A producer id is handed out once.
    let other = Producer::start(world.client(), "other").id.get();
    assert!(other.0 != old.0 && other.0 != new.0, "{what}");
}

/// §6: InitProducerId of an idle id at the last epoch rotates at once, over a crash as well; the instance that was named
/// may ask again, one that was not is fenced.
#[test]
fn an_idle_id_at_the_last_epoch_rotates() {
    for crashes in [false, true] {
        for names_itself in [false, true] {
            let world = world_at_the_last_epoch();
            let old = Producer::start(world.client(), "x").id.get();
            let request = if names_itself { expecting(old) } else { init("x", 60_000) };
            let call = world.client().send(5, &request);
            if crashes {
                world.restart();
            }
            world.settle();
            if !crashes {
                assert_eq!(call.answer().error_code, 0);
            }
            let (state, id, epoch) = described(&world, "x");
            assert_eq!((state.as_str(), epoch), ("Empty", 0));
            assert_ne!(id, old.0);
            let again = world.client().ask(5, &expecting(old));
            if names_itself {
                assert_eq!((again.error_code, again.producer_id, again.producer_epoch), (0, id, 0));
            } else {
                assert_eq!(again.error_code, ErrorCode::ProducerFenced.code());
            }
        }
    }
}

/// §8, versions 0 and 1: a commit leaves the last epoch as it is, a fence takes it to 32767, and the next InitProducerId
/// rotates.
#[test]
fn the_last_epoch_under_the_older_versions() {
    let world = world_at_the_last_epoch();
    world.set_transaction_version(1);
    let producer = Producer::start(world.client(), "x");
    let old = producer.id.get();
    producer.add_partition("t", 0);
    producer.produce(11, "t", 0, &["a"]);
    producer.end(4, true);
    assert_eq!(described(&world, "x"), ("CompleteCommit".to_owned(), old.0, LAST));
    producer.add_partition("t", 0);
    producer.produce(11, "t", 0, &["b"]);
    let fencing = world.client().ask(5, &init("x", 60_000));
    assert_eq!(fencing.error_code, ErrorCode::ConcurrentTransactions.code());
    assert_eq!(described(&world, "x"), ("CompleteAbort".to_owned(), old.0, i16::MAX));
    assert_eq!(markers(&world, 0), [(old.0, LAST), (old.0, i16::MAX)]);
    world.restart();
    let next = world.client().ask(5, &init("x", 60_000));
    assert_eq!((next.error_code, next.producer_epoch), (0, 0));
    assert_ne!(next.producer_id, old.0);
}

/// The epochs before the last one: transactions walk up to it and over it, with nothing lost between.
#[test]
fn transactions_walk_over_the_last_epoch() {
    let world = World::with(&[("fencepost.test.initial.producer.epoch", "32763")]);
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    let old = producer.id.get().0;
    let mut epochs = Vec::new();
    for number in 0..6 {
        epochs.push(producer.id.get().1);
        producer.produce(12, "t", 0, &[&number.to_string()]);
        producer.end(5, true);
    }
    assert_eq!(epochs, [32_763, 32_764, 32_765, 32_766, 0, 1]);
    assert_ne!(producer.id.get().0, old);
    let values = crate::harness::requests::committed_values(&world.client(), "t", 0);
    assert_eq!(values, ["0", "1", "2", "3", "4", "5"]);
}
