//! A disk that is full, fails, forgets, tears and flips bits: clients are told, nothing that was acknowledged is missing,
//! and after a restart the last stable offset and the aborted transactions are what the log says.

mod files;

use std::collections::BTreeMap;
use std::rc::Rc;

use fencepost_records::{Batches, EndTxnMarker};
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_COMMITTED, READ_UNCOMMITTED, fetch, produce, read, transaction_state};
use crate::harness::{Producer, TestDisk, World, plain_batch, values_of};

/// More than a life takes of either.
const CALLS_MAX: u64 = 4_000;
/// Not every one of them in every run of the tests; a prime number, so that none is passed over by kind.
const CALLS_STEP: usize = 3;
/// Every life has so many rounds of two transactions and a plain record.
const ROUNDS: usize = 3;

/// What clients were told. Values are used once.
#[derive(Clone, Debug, Default)]
struct Told {
    /// Acknowledged records: offset and value.
    written: Vec<(i64, String)>,
    /// The values of transactions whose commit was acknowledged.
    committed: Vec<String>,
    /// The values of transactions whose abort was acknowledged.
    aborted: Vec<String>,
    /// Codes that are not 0.
    refused: Vec<i16>,
}

/// What readers see of partition 0 of "t".
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    last_stable_offset: i64,
    /// Producer and first offset, for a reader that begins at each offset.
    aborted: Vec<Vec<(i64, i64)>>,
    /// Everything that is there, by offset.
    values: BTreeMap<i64, String>,
    /// What a read_committed consumer is given.
    committed: Vec<String>,
}

/// A world with a topic of tiny segments: each round of a life begins a new one.
fn world() -> Rc<World> {
    let world = World::with(&[("log.flush.offset.checkpoint.interval.ms", "1000")]);
    world.create_topic_with("t", 1, &[("segment.ms", "1000"), ("index.interval.bytes", "1")]);
    world
}

/// Two producers and somebody without an id write to "t"; whatever fails, they go on with the next thing.
fn live(world: &Rc<World>, round: usize, producers: &[Producer], told: &mut Told) {
    world.advance_ms(2_000);
    for (number, producer) in producers.iter().enumerate() {
        for part in 0..2 {
            let value = format!("{round}-{number}-{part}");
            let request = producer.produce_request("t", 0, &[&value]);
            let call = producer.client.send(12, &request);
            settle_until(world, || call.is_done());
            let answer = call.answer();
            note_write(told, &answer.responses[0].partition_responses[0], &value);
        }
    }
    let value = format!("{round}-plain");
    let batch = plain_batch(world.now().wall, &[&value]);
    let call = world.client().send(9, &produce(None, -1, vec![("t", 0, batch)]));
    settle_until(world, || call.is_done());
    note_write(told, &call.answer().responses[0].partition_responses[0], &value);
    for (number, producer) in producers.iter().enumerate().rev() {
        let committed = (round + number).is_multiple_of(2);
        let call = producer.send_end(5, committed);
        settle_until(world, || call.is_done());
        let answer = call.answer();
        if answer.error_code != 0 {
            told.refused.push(answer.error_code);
            continue;
        }
        let list = if committed { &mut told.committed } else { &mut told.aborted };
        let mine = format!("{round}-{number}-");
        list.extend(
            told.written.iter().map(|(_, value)| value.clone()).filter(|value| value.starts_with(&mine)),
        );
        producer.ended(&answer);
    }
}

fn note_write(
    told: &mut Told,
    row: &fencepost_protocol::messages::produce_response::PartitionResponses,
    value: &str,
) {
    if row.error_code == 0 {
        told.written.push((row.base_offset, value.to_owned()));
    } else {
        told.refused.push(row.error_code);
    }
}

/// Runs syncs and what is due, on a broker that may have gone offline, until a request is answered: it always is.
fn settle_until(world: &World, done: impl Fn() -> bool) {
    const PATIENCE_MS: i64 = 30_000;
    let began = world.now().wall;
    while world.sync_one() {}
    while !done() {
        assert!(world.now().wall.since(began) < PATIENCE_MS, "a request is not answered");
        world.advance_ms(5);
        while world.sync_one() {}
    }
}

fn producers(world: &Rc<World>) -> Vec<Producer> {
    ["x", "y"].map(|id| Producer::start(world.client(), id)).into()
}

/// Reads all of the partition, and compares what the broker says of aborts and stability with a plain walk of the log.
fn view(world: &Rc<World>) -> View {
    let client = world.client();
    let (mut values, mut stable, mut high) = (BTreeMap::new(), -1, -1);
    let (mut open, mut ended, mut data) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut at = 0;
    loop {
        let row = read(&client, "t", 0, at, READ_UNCOMMITTED);
        assert_eq!(row.error_code, 0);
        (stable, high) = (stable.max(row.last_stable_offset), high.max(row.high_watermark));
        let from = at;
        for batch in Batches::new(row.records.unwrap().into_bytes()) {
            let batch = batch.unwrap();
            let (header, base) = (*batch.header(), batch.header().base_offset.0);
            assert!(base >= at, "L5: whole batches in order");
            at = header.next_offset().0;
            let producer = header.producer_id.0;
            if header.is_control() {
                let marker = EndTxnMarker::from_batch(&batch).unwrap().unwrap();
                if let Some(first) = open.remove(&producer) {
                    ended.push((producer, first, base, marker.result.is_commit()));
                }
                continue;
            }
            if header.is_transactional() {
                open.entry(producer).or_insert(base);
            }
            for (nth, value) in values_of(&batch.bytes().clone().into()).into_iter().enumerate() {
                values.insert(base + nth as i64, value.clone());
                let producer = header.is_transactional().then_some(producer);
                data.push((base, producer, value));
            }
        }
        if at == from {
            break;
        }
    }
    assert_eq!(stable, open.values().copied().min().unwrap_or(high), "the last stable offset");
    let aborts: Vec<_> = ended.iter().filter(|(_, _, _, commit)| !commit).collect();
    let overlapping = |from: i64| {
        let found = aborts.iter().filter(|(_, first, last, _)| *last >= from && *first < stable);
        let mut found: Vec<(i64, i64)> = found.map(|(producer, first, _, _)| (*producer, *first)).collect();
        found.sort_by_key(|(_, first)| *first);
        found
    };
    let mut lists = Vec::new();
    for from in 0..stable {
        let row = read(&client, "t", 0, from, READ_COMMITTED);
        assert_eq!((row.error_code, row.last_stable_offset), (0, stable));
        let list = row.aborted_transactions.unwrap();
        let list: Vec<_> = list.iter().map(|txn| (txn.producer_id, txn.first_offset)).collect();
        // One segment is read at a time: what ends below its reach is told, and nothing that the log does not say.
        let end = row.records.unwrap();
        let end = Batches::new(end.into_bytes())
            .last()
            .map_or(from, |batch| batch.unwrap().header().next_offset().0);
        let needed = overlapping(from).into_iter().filter(|(_, first)| *first < end);
        assert!(needed.clone().all(|txn| list.contains(&txn)), "from {from} to {end}: {list:?}");
        assert!(list.iter().all(|txn| overlapping(from).contains(txn)), "from {from}: {list:?}");
        lists.push(list);
    }
    let is_decided = |base: i64, producer: Option<i64>| match producer {
        None => base < stable,
        Some(producer) => ended
            .iter()
            .any(|(who, first, last, commit)| *who == producer && (*first..*last).contains(&base) && *commit),
    };
    let committed = data.into_iter().filter(|(base, producer, _)| is_decided(*base, *producer));
    let committed = committed.map(|(_, _, value)| value).collect();
    View { last_stable_offset: stable, aborted: lists, values, committed }
}

/// Everything that was acknowledged is there, where it was said to be, and decided as it was said to be.
fn check_promises(told: &Told, view: &View, context: &str) {
    for (offset, value) in &told.written {
        assert_eq!(view.values.get(offset), Some(value), "{context}: offset {offset}");
    }
    for value in &told.committed {
        assert!(view.committed.contains(value), "{context}: {value} was committed");
    }
    for value in &told.aborted {
        assert!(!view.committed.contains(value), "{context}: {value} was aborted");
    }
    let mut once: Vec<_> = view.committed.iter().collect();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), view.committed.len(), "{context}: something is there twice");
}

/// What a client may be told while a disk is in trouble: something that it retries, or that its transaction is lost.
fn check_codes(told: &Told, context: &str) {
    const ALLOWED: [ErrorCode; 8] = [
        ErrorCode::KafkaStorageError,
        // The partition could not be verified to be part of the transaction.
        ErrorCode::NotEnoughReplicas,
        ErrorCode::NotCoordinator,
        ErrorCode::CoordinatorNotAvailable,
        ErrorCode::ConcurrentTransactions,
        ErrorCode::OutOfOrderSequenceNumber,
        ErrorCode::InvalidTxnState,
        ErrorCode::InvalidProducerEpoch,
    ];
    for code in &told.refused {
        assert!(ALLOWED.iter().any(|allowed| allowed.code() == *code), "{context}: code {code}");
    }
}

/// After a restart on a disk that is well: everything that was promised, and no transaction left open in the end.
fn check_after_restart(world: &Rc<World>, told: &Told, context: &str) {
    world.settle();
    check_promises(told, &view(world), context);
    world.advance_ms(120_000);
    world.settle();
    let settled = view(world);
    check_promises(told, &settled, context);
    let standing = world.standing("t", 0);
    assert_eq!(standing.last_stable_offset, standing.high_watermark, "{context}: a transaction hangs");
    assert_eq!(standing.open_transactions, 0, "{context}");
    // And clients work again.
    let producer = Producer::start(world.client(), "x");
    producer.produce(12, "t", 0, &["after"]);
    producer.end(5, true);
    assert!(view(world).committed.contains(&"after".to_owned()), "{context}");
}

/// A life in which `trouble` begins after the first round. Answers what clients were told.
fn troubled(world: &Rc<World>, trouble: impl FnOnce(&World)) -> Told {
    let (producers, mut told) = (producers(world), Told::default());
    live(world, 0, &producers, &mut told);
    assert_eq!(told.refused, [0_i16; 0], "no trouble yet");
    trouble(world);
    for round in 1..ROUNDS {
        live(world, round, &producers, &mut told);
    }
    told
}

/// EIO at calls all through a life: on write, on sync, on creation, renaming, truncation. The broker stops with one sentence and
/// acknowledges nothing more; what was acknowledged survives, whether the process dies or the machine.
#[test]
fn an_input_output_error_at_any_call() {
    let mut failures = 0;
    for calls in (0..CALLS_MAX).step_by(CALLS_STEP) {
        let world = world();
        let told = troubled(&world, |world| world.disk.fail_after(calls));
        let context = format!("the call after {calls} fails");
        check_codes(&told, &context);
        let stops = world.stops();
        if stops.is_empty() && told.refused.is_empty() {
            break;
        }
        failures += 1;
        assert_eq!(stops.len(), 1, "{context}: {stops:?}");
        assert!(stops[0].starts_with("the log directory failed: "), "{context}: {stops:?}");
        world.kill();
        if calls.is_multiple_of(2) {
            world.disk.repair();
        } else {
            world.disk.crash(calls);
        }
        world.try_start().unwrap_or_else(|error| panic!("{context}: {error}"));
        check_after_restart(&world, &told, &context);
    }
    assert!((20..CALLS_MAX).contains(&failures), "{failures} calls could fail");
}

/// A disk that fills up, at bytes all through a life: the write that does not fit is written in part and refused. The
/// broker goes on and serves what it has; once there is room everything works again, without a restart.
#[test]
fn a_disk_that_fills_up() {
    for free in (0..6_000).step_by(151) {
        let world = world();
        let mut told = troubled(&world, |world| world.disk.set_free_bytes(Some(free)));
        let context = format!("{free} bytes are free");
        check_codes(&told, &context);
        assert_eq!(world.stops(), [""; 0], "{context}");
        // A marker that did not fit is owed: until there is room the transaction holds the last stable offset.
        let undecided = Told { committed: Vec::new(), ..told.clone() };
        check_promises(&undecided, &view(&world), &context);
        if free < 500 {
            assert!(told.refused.contains(&ErrorCode::KafkaStorageError.code()), "{context}");
        }
        // Checkpoints and retention are put off; then there is room again.
        world.advance_ms(10_000);
        world.disk.set_free_bytes(None);
        world.advance_ms(120_000);
        world.settle();
        let again = producers(&world);
        live(&world, ROUNDS, &again, &mut told);
        let before = view(&world);
        check_promises(&told, &before, &context);
        assert!(told.committed.iter().any(|value| value.starts_with(&format!("{ROUNDS}-"))), "{context}");
        assert_eq!(world.stops(), [""; 0], "{context}");
        world.kill();
        if free.is_multiple_of(2) {
            world.disk.crash(free);
            world.try_start().unwrap();
            world.settle();
            check_promises(&told, &view(&world), &context);
        } else {
            world.try_start().unwrap();
            world.settle();
            assert_eq!(view(&world), before, "{context}: the same after a restart");
        }
    }
}

/// Issue 12, B12: a process without a file handle left refuses what needs one, at any call of a life; the log directory is
/// not given up, a sync is run again, and once handles are there again everything works, without a restart.
#[test]
fn handles_that_run_out() {
    let mut refusals = 0;
    for every in [2, 3, 5, 7, 11, 13, 17, 19, 29, 47, 97, 199] {
        let world = world();
        let mut told = troubled(&world, |world| world.disk.faults.lack_handles(every));
        let context = format!("call {every} finds no handle");
        refusals += told.refused.len();
        // A sync that is put off again and again outlasts what its client waits.
        told.refused.retain(|code| *code != ErrorCode::RequestTimedOut.code());
        check_codes(&told, &context);
        assert_eq!(world.stops(), [""; 0], "{context}");
        // Checkpoints, retention and the opening of a new topic are put off; then there are handles again.
        world.advance_ms(10_000);
        let create = World::create_topic_request("later", 3);
        let created = world.client().send(7, &create);
        settle_until(&world, || created.is_done());
        world.disk.faults.lack_handles(0);
        world.advance_ms(120_000);
        world.settle();
        let undecided = Told { committed: Vec::new(), ..told.clone() };
        check_promises(&undecided, &view(&world), &context);
        let again = producers(&world);
        live(&world, ROUNDS, &again, &mut told);
        let before = view(&world);
        check_promises(&told, &before, &context);
        assert!(told.committed.iter().any(|value| value.starts_with(&format!("{ROUNDS}-"))), "{context}");
        if created.answer().topics[0].error_code != 0 {
            world.create_topic("later", 3);
        }
        let batch = plain_batch(world.now().wall, &["x"]);
        let answer = world.client().ask(9, &produce(None, -1, vec![("later", 2, batch)]));
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0, "{context}");
        assert_eq!(world.stops(), [""; 0], "{context}");
        world.kill();
        world.try_start().unwrap();
        world.settle();
        assert_eq!(view(&world), before, "{context}: the same after a restart");
    }
    assert!(refusals > 20, "{refusals} requests lacked a handle");
}

/// A machine that loses power at any moment tears and reorders what was not synced: what was acknowledged is there.
#[test]
fn power_is_lost_at_any_moment() {
    for seed in 0..60 {
        let world = world();
        let (producers, mut told) = (producers(&world), Told::default());
        for round in 0..ROUNDS {
            live(&world, round, &producers, &mut told);
        }
        // Some more that is not acknowledged.
        let calls: Vec<_> = producers
            .iter()
            .map(|producer| producer.client.send(12, &producer.produce_request("t", 0, &["lost"])))
            .collect();
        for _ in 0..seed % 5 {
            world.sync_one();
        }
        let context = format!("seed {seed}");
        assert!(calls.iter().all(|call| !call.is_done()) || seed % 5 > 0);
        world.kill();
        world.disk.crash(seed);
        world.try_start().unwrap_or_else(|error| panic!("{context}: {error}"));
        check_after_restart(&world, &told, &context);
    }
}

/// A start on a disk that fails or is full is refused with a sentence, and leaves what is there.
#[test]
fn a_start_on_a_failing_disk() {
    let world = world();
    let told = troubled(&world, |_| ());
    let before = view(&world);
    world.kill();
    let whole = world.disk.copy();
    let mut refused = 0;
    for calls in (0..400).step_by(7) {
        for is_full in [false, true] {
            world.disk.restore(&whole);
            if is_full {
                world.disk.set_free_bytes(Some(calls * 10))
            } else {
                world.disk.fail_after(calls)
            }
            if let Err(error) = world.try_start() {
                refused += 1;
                let sentence = error.to_string();
                assert!(!sentence.is_empty() && !sentence.contains('\n'), "{sentence:?}");
            } else {
                world.kill();
            }
            world.disk.repair();
            world.try_start().unwrap();
            world.settle();
            assert_eq!(view(&world), before, "after {calls} calls");
            check_promises(&told, &before, "a failed start");
            world.kill();
        }
    }
    assert!(refused > 20, "{refused} starts were refused");
}
