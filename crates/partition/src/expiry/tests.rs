use fencepost_types::{ErrorCode, Millis, ProducerId};

use super::Expired;
use crate::BatchFacts;
use crate::testing::{Replica, START, abort, commit, data, txn};

const DAY_MS: i64 = 86_400_000;

/// A producer is forgotten after the expiration time, to the millisecond; then any epoch and sequence is its first.
#[test]
fn a_silent_producer_is_forgotten() {
    let mut replica = Replica::new();
    replica.produce(data(1, 4, 0, 2)).unwrap();
    assert_eq!(replica.states.expire(START.plus(DAY_MS - 1), DAY_MS), Expired::default());
    assert_eq!(replica.states.expire(START.plus(DAY_MS), DAY_MS), Expired { producers: 1, verifications: 0 });
    assert_eq!(replica.produce(data(1, 3, 9, 2)), Ok(2));
}

/// Under version 2 the forgotten producer's next transaction begins at 0 (KAFKA-18202).
#[test]
fn a_forgotten_producer_begins_at_0_under_version_2() {
    let mut replica = Replica::new();
    replica.produce(data(1, 4, 0, 2)).unwrap();
    replica.states.expire(START.plus(DAY_MS), DAY_MS);
    assert_eq!(replica.produce_v2(txn(1, 4, 2, 1)), Err(ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(replica.produce_v2(txn(1, 4, 0, 1)), Ok(2));
}

/// Back-dated records do not make a live producer expire: the time of the append counts where it is later. Differs from
/// Kafka (producer-state trap 17). After a restart only the records' time is left.
#[test]
fn back_dated_records_do_not_expire_a_live_producer() {
    let mut replica = Replica::new();
    replica.now = Millis(10 * DAY_MS);
    replica.produce(BatchFacts { max_timestamp: Millis(5), ..data(1, 0, 0, 1) }).unwrap();
    replica.states.expire(replica.now.plus(DAY_MS - 1), DAY_MS);
    assert_eq!(replica.states.producer_count(), 1);
    replica.restart();
    replica.states.expire(replica.now, DAY_MS);
    assert_eq!(replica.states.producer_count(), 0);
}

/// Without the time of an append, as at recovery, the records' time counts alone.
#[test]
fn replay_without_a_clock_uses_record_time() {
    let mut replica = Replica::new();
    replica.states.replay(None, &data(1, 0, 0, 1));
    assert_eq!(replica.states.expire(START.plus(DAY_MS), DAY_MS).producers, 1);
}

/// An open transaction never expires, whatever its age; its producer does once it is over (producer-state trap 18).
#[test]
fn an_open_transaction_never_expires() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.states.expire(Millis(i64::MAX), 1);
    assert_eq!(replica.states.open_transaction_count(), 1);
    replica.now = START.plus(3 * DAY_MS);
    let marker = BatchFacts { max_timestamp: replica.now, ..commit(1, 0, 0) };
    replica.mark(marker, Some(1)).unwrap();
    replica.states.expire(replica.now, DAY_MS);
    assert_eq!(replica.states.producer_count(), 1);
    replica.states.expire(replica.now.plus(DAY_MS), DAY_MS);
    assert_eq!(replica.states.producer_count(), 0);
}

/// A marker's timestamp keeps a producer alive (storage-formats trap 4).
#[test]
fn a_marker_is_a_sign_of_life() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.append(BatchFacts { max_timestamp: START.plus(DAY_MS), ..abort(1, 1, 0) });
    replica.states.expire(START.plus(DAY_MS), DAY_MS);
    assert!(replica.states.producer(ProducerId(1)).is_some());
}
