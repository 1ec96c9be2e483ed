//! Many transactional ids: the budget of them, and many that expire at once.

use std::rc::Rc;

use fencepost_protocol::messages::{
    IncrementalAlterConfigsRequest, InitProducerIdResponse, incremental_alter_configs_request,
};
use fencepost_records::Batches;
use fencepost_types::ErrorCode;
use fencepost_types::wire::Pieces;

use crate::harness::requests::{READ_UNCOMMITTED, committed_values, init, read, transaction_state};
use crate::harness::{Producer, World};

const REFUSED: i16 = ErrorCode::PolicyViolation as i16;
const IDS_MAX: &str = "fencepost.transactional.ids.max";
const EXPIRATION: &str = "transactional.id.expiration.ms";
const EXPIRATION_MS: i64 = 3_600_000;
const STATE_TOPIC: &str = "__transaction_state";

/// InitProducerId of a new instance.
fn ask(world: &Rc<World>, transactional_id: &str) -> InitProducerIdResponse {
    world.client().ask(5, &init(transactional_id, 60_000))
}

/// Sets a broker setting for all brokers.
fn alter(world: &Rc<World>, name: &str, value: &str) {
    const BROKER: i8 = 4;
    let config = incremental_alter_configs_request::Configs {
        name: name.to_owned(),
        config_operation: 0,
        value: Some(value.to_owned()),
    };
    let resource = incremental_alter_configs_request::Resources {
        resource_type: BROKER,
        resource_name: String::new(),
        configs: vec![config],
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = world.client().ask(1, &request);
    assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
}

/// At the limit a new id is refused for good, without a producer id being spent on it, and known ones go on: a new
/// instance, a transaction. Raising the limit gives room, and so does an id that expires.
#[test]
fn the_budget_of_ids() {
    let world = World::with(&[(IDS_MAX, "2"), (EXPIRATION, &EXPIRATION_MS.to_string())]);
    world.create_topic("t", 1);
    Producer::start(world.client(), "unused");
    let known = Producer::start(world.client(), "known");
    assert_eq!((world.broker().transactional_ids(), world.broker().transactional_ids_refused()), (2, 0));
    for _ in 0..2 {
        let refused = ask(&world, "new");
        assert_eq!((refused.error_code, refused.producer_id, refused.producer_epoch), (REFUSED, -1, -1));
    }
    assert_eq!(world.broker().transactional_ids_refused(), 2);
    assert_eq!(transaction_state(&world.client(), "new"), "");
    known.produce(12, "t", 0, &["a"]);
    known.end(5, true);
    assert_eq!(committed_values(&world.client(), "t", 0), ["a"]);
    assert_eq!(ask(&world, "known").error_code, 0);

    alter(&world, IDS_MAX, "3");
    let admitted = ask(&world, "new");
    assert_eq!((admitted.error_code, admitted.producer_id), (0, known.id.get().0 + 1));
    assert_eq!(ask(&world, "newer").error_code, REFUSED);

    // What is known is kept when the limit is lowered, and counted anew by a restart.
    alter(&world, IDS_MAX, "1");
    world.restart();
    assert_eq!((world.broker().transactional_ids(), world.broker().transactional_ids_max()), (3, 1));
    assert_eq!((ask(&world, "new").error_code, ask(&world, "newer").error_code), (0, REFUSED));
    // Ids of two partitions, one turn each.
    world.advance_ms(EXPIRATION_MS + 100);
    world.settle();
    assert_eq!(world.broker().transactional_ids(), 0);
    assert_eq!((ask(&world, "newer").error_code, ask(&world, "known").error_code), (0, REFUSED));
}

/// An id at its last epoch needs a producer id, but no room.
#[test]
fn a_rotation_needs_no_room() {
    let world = World::with(&[(IDS_MAX, "1"), ("fencepost.test.initial.producer.epoch", "32766")]);
    let first = ask(&world, "x");
    let rotated = ask(&world, "x");
    assert_eq!((rotated.error_code, rotated.producer_epoch), (0, 0));
    assert_ne!(rotated.producer_id, first.producer_id);
    assert_eq!(ask(&world, "y").error_code, REFUSED);
}

/// Requests for new ids that wait together for a block of producer ids do not go over the limit together.
#[test]
fn waiting_for_a_producer_id_takes_no_room() {
    let world = World::with(&[(IDS_MAX, "2")]);
    let client = world.client();
    let calls: Vec<_> = (0..5).map(|number| client.send(5, &init(&format!("x{number}"), 60_000))).collect();
    world.settle();
    let codes: Vec<i16> = calls.iter().map(|call| call.answer().error_code).collect();
    assert_eq!(codes, [0, 0, REFUSED, REFUSED, REFUSED]);
    assert_eq!(world.broker().transactional_ids(), 2);
}

/// `coordinator §14`: more ids expire at once than fit in one batch, by their number and by their bytes. They go batch by
/// batch, turn by turn, each with its tombstone in the log; requests are answered in between, and an id that was used
/// stays. A restart finds the same.
#[test]
fn more_ids_expire_at_once_than_fit_in_a_batch() {
    /// Tombstones and bytes of ids of one batch, at most.
    const BATCH_IDS_MAX: usize = 1_000;
    const BATCH_BYTES_MAX: usize = 65_536;
    const TURN_MS: i64 = 20;
    let settings = [(EXPIRATION, &*EXPIRATION_MS.to_string()), ("transaction.state.log.num.partitions", "1")];
    let world = World::with(&settings);
    world.create_topic("t", 1);
    let name = |number: usize| match number {
        0..6 => format!("{number:030000}"),
        _ => format!("{number}"),
    };
    let ids = BATCH_IDS_MAX + 200;
    assert!(2 * name(0).len() < BATCH_BYTES_MAX && 3 * name(0).len() > BATCH_BYTES_MAX);
    let client = world.client();
    let made: Vec<_> = (0..ids).map(|number| client.send(5, &init(&name(number), 60_000))).collect();
    world.settle();
    assert!(made.iter().all(|call| call.answer().error_code == 0));
    let before = world.log_ends(STATE_TOPIC)[0];
    world.advance_ms(EXPIRATION_MS - 1);
    let used = Producer::start(world.client(), &name(ids - 1));
    world.advance_ms(1);
    let mut left = vec![ids];
    while left.last() != Some(&1) {
        left.push(world.broker().transactional_ids());
        used.produce(12, "t", 0, &["meanwhile"]);
        used.end(5, true);
        assert_eq!(world.broker().transactional_ids(), *left.last().unwrap(), "a turn at a time");
        world.advance_ms(TURN_MS);
    }
    let turns: Vec<usize> = left.windows(2).map(|pair| pair[0] - pair[1]).collect();
    assert_eq!(turns, [2, 2, BATCH_IDS_MAX, 195]);
    world.settle();
    let log = read(&world.client(), STATE_TOPIC, 0, before, READ_UNCOMMITTED).records.unwrap();
    assert_eq!(tombstones(&log), ids - 1);
    world.restart();
    assert_eq!(world.broker().transactional_ids(), 1);
    assert_eq!(transaction_state(&world.client(), &name(7)), "");
    assert_eq!(ask(&world, &name(7)).error_code, 0);
}

fn tombstones(log: &Pieces) -> usize {
    let batches = Batches::new(log.clone().into_bytes()).map(Result::unwrap);
    let data = batches.filter(|batch| !batch.header().is_control());
    data.map(|batch| {
        batch.records().unwrap().filter(|record| record.as_ref().unwrap().value.is_none()).count()
    })
    .sum()
}
