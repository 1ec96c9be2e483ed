//! InitProducerId whose answer was lost with the broker: a producer that names its pair gets the next one, and asks again with
//! the same pair until it hears of it (issue 12, A2; coordinator traps 9 and 10; KIP-360, KAFKA-20357).

use std::rc::Rc;

use fencepost_protocol::messages::InitProducerIdRequest;
use fencepost_types::ErrorCode;

use crate::harness::requests::init;
use crate::harness::{Producer, World};

/// The last epoch of clients.
const LAST: i16 = 32_766;
/// The levels of `transaction.version`.
const LEVELS: [i16; 3] = [0, 1, 2];
/// A retry may be lost as well.
const RETRIES: usize = 3;

/// What the producer has done before.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    Commit,
    Abort,
    /// It has asked for the next pair once, and heard of it.
    Bump,
}

/// How the broker goes after the answer was lost.
#[derive(Clone, Copy, Debug)]
enum Goes {
    Not,
    Kill,
    Crash,
    Clean,
}

fn expecting((producer_id, producer_epoch): (i64, i16)) -> InitProducerIdRequest {
    InitProducerIdRequest { producer_id, producer_epoch, ..init("x", 60_000) }
}

/// A producer that holds a pair at a level, and nothing is open.
fn producer(level: i16, epoch: i16, before: Before) -> (Rc<World>, Producer) {
    let world = World::with(&[("fencepost.test.initial.producer.epoch", &epoch.to_string())]);
    world.create_topic("t", 1);
    world.set_transaction_version(level);
    let producer = Producer::start(world.client(), "x");
    let (produce, end) = if level == 2 { (12, 5) } else { (11, 4) };
    match before {
        Before::Nothing => {}
        Before::Commit | Before::Abort => {
            if level < 2 {
                producer.add_partition("t", 0);
            }
            producer.produce(produce, "t", 0, &["a"]);
            producer.end(end, matches!(before, Before::Commit));
        }
        Before::Bump => {
            let answer = world.client().ask(4, &expecting(producer.id.get()));
            assert_eq!(answer.error_code, 0, "{answer:?}");
            producer.id.set((answer.producer_id, answer.producer_epoch));
        }
    }
    (world, producer)
}

fn go(world: &World, goes: Goes) {
    match goes {
        Goes::Not => {}
        Goes::Kill => world.restart(),
        Goes::Crash => {
            world.kill();
            world.disk.crash(7);
            world.start();
        }
        Goes::Clean => world.stop_and_start(),
    }
    world.settle();
}

/// At every level, at an ordinary epoch and at the last one, whatever the producer has done before and however often the answer
/// is lost: the pair of the first answer. With it the producer goes on; a new instance ends that
/// (coordinator traps 9 and 10).
#[test]
fn a_lost_pair_is_told_again_after_any_stop() {
    for level in LEVELS {
        for epoch in [0, LAST - 1, LAST] {
            for before in [Before::Nothing, Before::Commit, Before::Abort, Before::Bump] {
                for goes in [Goes::Not, Goes::Kill, Goes::Crash, Goes::Clean] {
                    let what = format!("level {level}, from {epoch}, {before:?}, {goes:?}");
                    let (world, producer) = producer(level, epoch, before);
                    lose_and_ask_again(&world, &producer, goes, &what);
                }
            }
        }
    }
}

fn lose_and_ask_again(world: &Rc<World>, producer: &Producer, goes: Goes, what: &str) {
    let request = expecting(producer.id.get());
    let lost = world.client().ask(4, &request);
    assert_eq!(lost.error_code, 0, "{what}");
    for _ in 0..RETRIES {
        go(world, goes);
        let again = world.client().ask(4, &request);
        assert_eq!(again, lost, "{what}");
    }
    let next = Producer::holding(world.client(), "x", (lost.producer_id, lost.producer_epoch));
    next.add_partition("t", 0);
    next.produce(11, "t", 0, &["b"]);
    next.end(4, true);
    let newer = Producer::start(world.client(), "x");
    assert_ne!(newer.id.get(), next.id.get());
    go(world, goes);
    for old in [request, expecting(next.id.get())] {
        let fenced = world.client().ask(4, &old);
        assert_eq!(fenced.error_code, ErrorCode::ProducerFenced.code(), "{what}: {fenced:?}");
    }
}
