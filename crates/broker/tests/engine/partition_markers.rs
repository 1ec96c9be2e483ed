//! KIP-1228 at the partition leader, through WriteTxnMarkers on the wire: which marker ends what, by which rule, and what is
//! left of it when the broker starts again.

use std::rc::Rc;

use fencepost_protocol::messages::describe_producers_response::ActiveProducers;
use fencepost_protocol::messages::write_txn_markers_request::Markers;
use fencepost_protocol::messages::{
    DescribeProducersRequest, InitProducerIdRequest, describe_producers_request,
};
use fencepost_types::ErrorCode;

use crate::harness::requests::{READ_COMMITTED, init, marker, produce, read, write_markers};
use crate::harness::{Producer, World, batch, values_of};

const NONE: i16 = 0;
/// INVALID_PRODUCER_EPOCH.
const FENCED: i16 = 47;
/// TRANSACTION_COORDINATOR_FENCED.
const COORDINATOR_FENCED: i16 = 52;
/// What a client speaks that lets Produce add its partitions.
const PRODUCE_V2: i16 = 12;
/// What a client speaks that adds them itself.
const PRODUCE_V1: i16 = 11;
const END_V2: i16 = 5;
const END_V1: i16 = 4;

/// Sends one marker; answers the code of its only partition.
fn send(world: &Rc<World>, version: i16, marker: Markers) -> i16 {
    let answer = world.client().ask(version, &write_markers(vec![marker]));
    answer.markers[0].topics[0].partitions[0].error_code
}

/// An abort marker for one partition of `t`.
fn abort(id: (i64, i16), transaction_version: i8, partition: i32) -> Markers {
    marker(id, false, transaction_version, &[("t", partition)])
}

/// The same of another coordinator.
fn by_coordinator(marker: Markers, coordinator_epoch: i32) -> Markers {
    Markers { coordinator_epoch, ..marker }
}

/// The producers that a partition of `t` knows.
fn producers(world: &Rc<World>, partition: i32) -> Vec<ActiveProducers> {
    let topics =
        vec![describe_producers_request::Topics { name: "t".to_owned(), partition_indexes: vec![partition] }];
    let mut answer = world.client().ask(0, &DescribeProducersRequest { topics });
    let row = answer.topics.remove(0).partitions.remove(0);
    assert_eq!(row.error_code, NONE);
    row.active_producers
}

/// A producer at `epoch`: each new instance has one more.
fn producer_at(world: &Rc<World>, transactional_id: &str, epoch: i16) -> Producer {
    for _ in 0..epoch {
        Producer::start(world.client(), transactional_id);
    }
    let producer = Producer::start(world.client(), transactional_id);
    assert_eq!(producer.id.get().1, epoch);
    producer
}

/// Writes one plain (not transactional) record of a producer; answers the code.
fn produce_plain(world: &Rc<World>, id: (i64, i16), sequence: i32, partition: i32) -> i16 {
    let records = batch(id, sequence, false, world.now().wall, &["plain"]);
    let answer = world.client().ask(PRODUCE_V2, &produce(None, -1, vec![("t", partition, records)]));
    answer.responses[0].partition_responses[0].error_code
}

/// Produces in the producer's transaction; answers the code.
fn try_produce(world: &Rc<World>, producer: &Producer, version: i16, partition: i32) -> i16 {
    let request = producer.produce_request("t", partition, &["late"]);
    world.client().ask(version, &request).responses[0].partition_responses[0].error_code
}

/// The rule by which WriteTxnMarkers has this marker judged.
fn is_strict(version: i16, transaction_version: i8) -> bool {
    version >= 2 && transaction_version >= 2
}

/// The table of producer-state §7.2, each cell over the wire (producer-state traps 4, 5, 7). Version 1 of the request has no
/// transaction version and goes by the old rule, whatever its sender thinks; 3 to 127 go by the strict one. "Greater" is not
/// "one more". What is refused has written nothing and leaves the transaction as it was, also over a restart.
#[test]
fn a_marker_is_judged_by_its_version() {
    const EPOCH: i16 = 3;
    let kinds = [(1, 0), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3), (2, 127)];
    let epochs = [EPOCH - 1, EPOCH, EPOCH + 1, EPOCH + 7];
    let world = World::new();
    world.create_topic("t", (kinds.len() * epochs.len() * 2) as i32);
    let mut standings = Vec::new();
    for (version, transaction_version) in kinds {
        for epoch in epochs {
            for is_open in [true, false] {
                let partition = standings.len() as i32;
                let producer = producer_at(&world, &format!("x{partition}"), EPOCH);
                let (id, _) = producer.id.get();
                if is_open {
                    producer.produce(PRODUCE_V2, "t", partition, &["a"]);
                } else {
                    assert_eq!(produce_plain(&world, (id, EPOCH), 0, partition), NONE);
                }
                let code = send(&world, version, abort((id, epoch), transaction_version, partition));
                let is_late =
                    epoch < EPOCH || (is_strict(version, transaction_version) && is_open && epoch == EPOCH);
                let what = format!("{version}, {transaction_version}: {epoch}, open: {is_open}");
                assert_eq!(code, if is_late { FENCED } else { NONE }, "{what}");
                let standing = world.standing("t", partition);
                assert_eq!(standing.log_end_offset.0, if is_late { 1 } else { 2 }, "{what}");
                assert_eq!(standing.open_transactions, usize::from(is_open && is_late), "{what}");
                standings.push((partition, standing));
            }
        }
    }
    world.restart();
    for (partition, before) in standings {
        assert_eq!(world.standing("t", partition).open_transactions, before.open_transactions, "{partition}");
    }
}

/// KAFKA-19999 (producer-state traps 4, 6): the answer of a marker was lost, or its coordinator moved; it is sent again with the
/// same epoch, finds nothing open, and is written again. So it is under every rule, after a restart too. A reader of
/// committed records sees what it saw.
#[test]
fn a_repeated_marker_is_written_again() {
    for (produce_version, end_version, transaction_version) in
        [(PRODUCE_V2, END_V2, 2), (PRODUCE_V1, END_V1, 1), (PRODUCE_V1, END_V1, 0)]
    {
        let world = World::new();
        world.create_topic("t", 1);
        let producer = Producer::start(world.client(), "x");
        let (id, epoch) = producer.id.get();
        if produce_version == PRODUCE_V1 {
            producer.add_partition("t", 0);
        }
        producer.produce(produce_version, "t", 0, &["a"]);
        producer.end(end_version, true);
        assert_eq!(world.log_ends("t"), [2]);
        let marker_epoch = epoch + i16::from(transaction_version == 2);
        let again = |coordinator_epoch| {
            let commit = marker((id, marker_epoch), true, transaction_version, &[("t", 0)]);
            send(&world, 2, by_coordinator(commit, coordinator_epoch))
        };
        assert_eq!(again(0), NONE);
        assert_eq!(again(4), NONE, "a coordinator that moved");
        assert_eq!(world.log_ends("t"), [4]);
        world.restart();
        assert_eq!(again(4), NONE);
        assert_eq!(again(3), COORDINATOR_FENCED, "the newer epoch was stored, over the restart");
        assert_eq!(world.log_ends("t"), [5]);
        let row = read(&world.client(), "t", 0, 0, READ_COMMITTED);
        assert_eq!((row.last_stable_offset, row.aborted_transactions), (5, Some(Vec::new())));
        assert_eq!(values_of(&row.records.unwrap()), ["a"]);
    }
}

/// The late marker of a transaction whose successor has written here already. Version 2: it is refused, and the next
/// transaction commits. Versions 0 and 1: it ends the next one, and no leader can tell (producer-state trap 39, §7.5).
#[test]
fn a_late_marker_and_the_next_transaction() {
    let world = World::new();
    world.create_topic("t", 2);
    let producer = Producer::start(world.client(), "x");
    producer.produce(PRODUCE_V2, "t", 0, &["one"]);
    producer.end(END_V2, true);
    producer.produce(PRODUCE_V2, "t", 0, &["two"]);
    let late = marker(producer.id.get(), true, 2, &[("t", 0)]);
    assert_eq!(send(&world, 2, late), FENCED);
    assert_eq!(world.standing("t", 0).open_transactions, 1);
    producer.end(END_V2, false);
    let row = read(&world.client(), "t", 0, 0, READ_COMMITTED);
    assert_eq!(row.aborted_transactions.unwrap().len(), 1, "the second transaction aborted as it should");

    let old = Producer::start(world.client(), "y");
    old.add_partition("t", 1);
    old.produce(PRODUCE_V1, "t", 1, &["one"]);
    old.end(END_V1, true);
    old.add_partition("t", 1);
    old.produce(PRODUCE_V1, "t", 1, &["two"]);
    assert_eq!(world.standing("t", 1).open_transactions, 1);
    assert_eq!(send(&world, 2, marker(old.id.get(), true, 1, &[("t", 1)])), NONE);
    assert_eq!(world.standing("t", 1).open_transactions, 0, "the known gap of the older versions");
}

/// An operator aborts the transaction of a partition with what DescribeProducers says of it: the transaction's own epoch and no
/// transaction version, by the old rule, though the transaction is one of version 2 (KIP-664, producer-state trap 7). Under
/// the strict rule the same marker would be refused.
#[test]
fn an_admin_abort_goes_by_the_old_rule() {
    let world = World::new();
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.produce(PRODUCE_V2, "t", 0, &["a"]);
    let hanging = producers(&world, 0).remove(0);
    assert_eq!((hanging.coordinator_epoch, hanging.current_txn_start_offset), (-1, 0));
    let id = (hanging.producer_id, hanging.producer_epoch as i16);
    let by_admin = |version| by_coordinator(abort(id, version, 0), hanging.coordinator_epoch.max(0));
    assert_eq!(send(&world, 2, by_admin(2)), FENCED, "no operator may send it so");
    assert_eq!(send(&world, 1, by_admin(0)), NONE);
    assert_eq!(producers(&world, 0)[0].current_txn_start_offset, -1);
    let row = read(&world.client(), "t", 0, 0, READ_COMMITTED);
    assert_eq!(row.last_stable_offset, 2);
    let aborted = row.aborted_transactions.unwrap();
    assert_eq!((aborted[0].producer_id, aborted[0].first_offset), (id.0, 0));
    // Version 2 of the request without a transaction version says the same.
    producer.produce(PRODUCE_V2, "t", 0, &["b"]);
    assert_eq!(send(&world, 2, by_admin(0)), NONE);
    assert_eq!(world.standing("t", 0).open_transactions, 0);
}

/// Coordinator epochs: the same one passes, a lower one is fenced and leaves the transaction open; kept per producer, not per
/// partition, and over a restart and a clean stop (producer-state trap 10). The producer's epoch is looked at before.
#[test]
fn an_older_coordinator_is_fenced() {
    let world = World::new();
    world.create_topic("t", 1);
    let one = Producer::start(world.client(), "x");
    let other = Producer::start(world.client(), "y");
    one.produce(PRODUCE_V2, "t", 0, &["a"]);
    let (id, epoch) = one.id.get();
    let write = |id, coordinator_epoch| send(&world, 2, by_coordinator(abort(id, 2, 0), coordinator_epoch));
    assert_eq!(write((id, epoch + 1), 9), NONE);
    one.id.set((id, epoch + 1));
    for stop in [false, true] {
        assert_eq!(write((id, epoch + 1), 9), NONE, "the same coordinator");
        assert_eq!(write((id, epoch + 2), 8), COORDINATOR_FENCED);
        assert_eq!(write((id, epoch), 8), FENCED, "the producer's epoch comes first");
        if stop {
            world.stop_and_start();
        } else {
            world.restart();
        }
    }
    assert_eq!(write((id, epoch + 2), 8), COORDINATOR_FENCED);
    other.produce(PRODUCE_V2, "t", 0, &["b"]);
    let (other_id, other_epoch) = other.id.get();
    assert_eq!(write((other_id, other_epoch + 1), 0), NONE, "another producer has coordinators of its own");
    let kept = producers(&world, 0);
    let of = |id: i64| kept.iter().find(|row| row.producer_id == id).unwrap().coordinator_epoch;
    assert_eq!((of(id), of(other_id)), (9, 0));
}

/// A marker of a producer that never wrote here is written and makes it known: whoever comes with an older epoch is fenced,
/// also after a restart (producer-state trap 11), by every rule.
#[test]
fn a_marker_fences_where_the_producer_never_was() {
    let world = World::new();
    world.create_topic("t", 3);
    for (partition, transaction_version) in [(0, 0), (1, 1), (2, 2)] {
        let id = 5_000 + i64::from(partition);
        assert_eq!(send(&world, 2, abort((id, 4), transaction_version, partition)), NONE);
        assert_eq!(world.standing("t", partition).log_end_offset.0, 1);
        world.restart();
        let row = producers(&world, partition).remove(0);
        assert_eq!((row.producer_id, row.producer_epoch, row.last_sequence), (id, 4, -1));
        assert_eq!(produce_plain(&world, (id, 3), 0, partition), FENCED);
        assert_eq!(produce_plain(&world, (id, 4), 1, partition), ErrorCode::OutOfOrderSequenceNumber.code());
        assert_eq!(produce_plain(&world, (id, 4), 0, partition), NONE);
        let aborted = read(&world.client(), "t", partition, 0, READ_COMMITTED).aborted_transactions;
        assert_eq!(aborted, Some(Vec::new()), "nothing was open, so nothing was aborted");
    }
}

/// A transaction that timed out: the late batch of its producer is told that it is fenced, with which clients abort and go on, and
/// not that its transaction is unknown, which is fatal to them (KAFKA-19690, producer-state trap 3).
#[test]
fn a_late_batch_is_fenced_and_can_go_on() {
    for version in [PRODUCE_V1, PRODUCE_V2] {
        let world = World::new();
        world.create_topic("t", 1);
        let producer = Producer::start_with(world.client(), "x", 1_000);
        if version == PRODUCE_V1 {
            producer.add_partition("t", 0);
        }
        producer.produce(version, "t", 0, &["a"]);
        world.advance_ms(2_000);
        world.settle();
        assert_eq!(world.standing("t", 0).open_transactions, 0, "it has timed out");
        assert_eq!(try_produce(&world, &producer, version, 0), FENCED, "Produce {version}");
    }
}

/// A producer at epoch 32767 ends its own transaction at that epoch, strict rule or not (KAFKA-20090), and no epoch is above it
/// (producer-state trap 40).
#[test]
fn the_last_epoch_ends_its_own_transaction() {
    // No coordinator hands this epoch out, so none can be asked about it.
    let world = World::with(&[("transaction.partition.verification.enable", "false")]);
    world.create_topic("t", 2);
    let exhausted = Producer::holding(world.client(), "x", (5_000, i16::MAX));
    exhausted.produce(PRODUCE_V1, "t", 1, &["a"]);
    assert_eq!(send(&world, 2, abort((5_000, i16::MAX), 2, 1)), NONE);
    assert_eq!(world.standing("t", 1).open_transactions, 0);

    assert_eq!(send(&world, 2, abort((5_000, i16::MAX), 2, 0)), NONE, "the fence of an exhausted producer");
    assert_eq!(send(&world, 2, abort((5_000, i16::MAX), 2, 0)), NONE, "and its retry");
    assert_eq!(send(&world, 2, abort((5_000, i16::MAX - 1), 0, 0)), FENCED);
    assert_eq!(produce_plain(&world, (5_000, i16::MAX - 1), 0, 0), FENCED);
    world.restart();
    assert_eq!(producers(&world, 0)[0].producer_epoch, i32::from(i16::MAX));
    assert_eq!(world.log_ends("t"), [2, 2]);
}

/// Numbers that no coordinator has are refused for their marker and partition alone, and write nothing. Differs from Kafka, which
/// answers UNKNOWN_SERVER_ERROR or takes some of them for the old rule.
#[test]
fn impossible_markers_are_refused_alone() {
    let world = World::new();
    world.create_topic("t", 1);
    let bad = [
        abort((-1, 0), 0, 0),
        abort((6_001, -1), 0, 0),
        abort((6_002, 0), -1, 0),
        abort((6_003, 0), -128, 0),
    ];
    let mut markers = bad.to_vec();
    markers.push(abort((6_004, 0), 2, 0));
    let answer = world.client().ask(2, &write_markers(markers));
    for row in &answer.markers {
        let wanted = if row.producer_id == 6_004 { NONE } else { ErrorCode::InvalidRequest.code() };
        assert_eq!(row.topics[0].partitions[0].error_code, wanted, "{}", row.producer_id);
    }
    assert_eq!(answer.markers.len(), 5);
    assert_eq!(world.log_ends("t"), [1]);
    assert_eq!(producers(&world, 0).len(), 1);
}

/// With `transaction.partition.verification.enable=false` nobody is asked whether a partition is in an older client's
/// transaction; a version 2 client's batch adds its partition all the same, so that its end is marked there
/// (producer-state trap 22).
#[test]
fn the_verification_switch_does_not_touch_the_implicit_add() {
    let world = World::with(&[("transaction.partition.verification.enable", "false")]);
    world.create_topic("t", 2);
    let new = Producer::start(world.client(), "x");
    new.produce(PRODUCE_V2, "t", 0, &["a"]);
    new.end(END_V2, true);
    assert_eq!(world.standing("t", 0).open_transactions, 0, "it was added, so it was marked");
    assert_eq!(world.log_ends("t")[0], 2);

    // An older client that never added the partition is let in without being asked, and its transaction hangs there.
    let old = Producer::start(world.client(), "y");
    old.produce(PRODUCE_V1, "t", 1, &["a"]);
    assert_eq!(world.standing("t", 1).open_transactions, 1);
    let asked = World::new();
    asked.create_topic("t", 1);
    let old = Producer::start(asked.client(), "y");
    let code = try_produce(&asked, &old, PRODUCE_V1, 0);
    assert_eq!(code, ErrorCode::TransactionAbortable.code(), "with the switch on it is asked");
    let nobody = InitProducerIdRequest { transactional_id: None, ..init("", 0) };
    assert_eq!(asked.client().ask(4, &nobody).error_code, NONE);
}
