use alloc::string::ToString;
use alloc::vec;

use fencepost_types::{CoordinatorEpoch, ErrorCode, Millis, Offset, ProducerEpoch, ProducerId, Sequence};

use super::{ProducerSnapshot, SnapshotEntry, SnapshotError};
use crate::testing::{Replica, START, abort, data, txn};
use crate::{BatchFacts, ProducerStates};

fn entry() -> SnapshotEntry {
    SnapshotEntry {
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(2),
        last_sequence: Sequence(9),
        last_offset: Offset(40),
        offset_delta: 3,
        timestamp: START,
        coordinator_epoch: CoordinatorEpoch(1),
        current_txn_first_offset: Offset(37),
    }
}

fn decode_one(entry: SnapshotEntry) -> Result<ProducerSnapshot, SnapshotError> {
    ProducerSnapshot::decode(&ProducerSnapshot { entries: vec![entry] }.encode())
}

/// Without producers a snapshot has ten bytes.
#[test]
fn an_empty_snapshot() {
    let bytes = ProducerStates::new(Offset(5)).encode_snapshot();
    assert_eq!(bytes, [0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0]);
    assert_eq!(ProducerSnapshot::decode(&bytes), Ok(ProducerSnapshot::default()));
}

/// A snapshot alone keeps one batch of the window: without the windows beside it retries of older ones are gaps after a restart
/// (producer-state trap 16, storage-formats trap 6).
#[test]
fn a_snapshot_alone_keeps_one_batch() {
    let mut replica = Replica::new();
    for sequence in 0..5 {
        replica.produce(data(1, 0, sequence, 1)).unwrap();
    }
    replica.restart();
    assert_eq!(replica.produce(data(1, 0, 3, 1)), Err(ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(replica.produce(data(1, 0, 4, 1)), Ok(4));
    assert_eq!(replica.produce(data(1, 0, 5, 1)), Ok(5));
}

/// An open transaction and a marker without data survive a restart; completed ones waiting for replication do not.
#[test]
fn fences_and_open_transactions_survive_a_restart() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 2)).unwrap();
    replica.mark(abort(2, 7, 3), Some(2)).unwrap();
    replica.produce(txn(3, 0, 0, 1)).unwrap();
    replica.mark(abort(3, 0, 0), Some(1)).unwrap();
    replica.restart();
    assert_eq!(replica.states.open_transaction_count(), 1);
    assert_eq!(replica.states.first_unstable_offset(), Some(Offset(0)));
    assert_eq!(replica.produce(data(2, 6, 0, 1)), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(replica.produce(txn(1, 0, 2, 1)), Ok(5));
    let completed = replica.mark(abort(1, 0, 0), Some(1)).unwrap().unwrap();
    assert_eq!(completed.first_offset, Offset(0));
}

/// A snapshot at or below the high watermark restores the last stable offset exactly; one above it has forgotten what
/// waited for replication (producer-state §11).
#[test]
fn transactions_that_wait_for_replication_are_not_in_a_snapshot() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 2)).unwrap();
    replica.replicate();
    let at_high_watermark = replica.states.encode_snapshot();
    replica.mark(abort(1, 0, 0), Some(1)).unwrap();
    assert_eq!(replica.last_stable_offset(), 0);
    let above = replica.states.encode_snapshot();
    replica.states.load_snapshot(&above, Offset(3), START, 1000).unwrap();
    assert_eq!(replica.last_stable_offset(), 2);
    replica.states.load_snapshot(&at_high_watermark, Offset(2), START, 1000).unwrap();
    replica.states.replay(None, &replica.log[1]);
    assert_eq!(replica.last_stable_offset(), 0);
}

/// Expired producers are left out at loading, those with an open transaction are not.
#[test]
fn expired_producers_are_not_loaded() {
    let mut replica = Replica::new();
    replica.produce(data(1, 0, 0, 1)).unwrap();
    replica.produce(txn(2, 0, 0, 1)).unwrap();
    replica.produce(BatchFacts { max_timestamp: START.plus(1), ..data(3, 0, 0, 1) }).unwrap();
    let bytes = replica.states.encode_snapshot();
    let mut states = ProducerStates::new(Offset(0));
    states.load_snapshot(&bytes, Offset(3), START.plus(1000), 1000).unwrap();
    states.check();
    let known = states.producers().map(|(producer_id, _)| producer_id.0).collect::<vec::Vec<_>>();
    assert_eq!(known, [2, 3]);
}

/// Every damage is an error, and leaves the state as it was.
#[test]
fn damage_is_an_error() {
    let mut replica = Replica::new();
    replica.produce(data(1, 0, 0, 1)).unwrap();
    let good = replica.states.encode_snapshot();
    let before = replica.states.clone();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(replica.states.load_snapshot(&bad, Offset(1), START, 1000).is_err(), "byte {at}");
        assert!(replica.states.load_snapshot(&good[..at], Offset(1), START, 1000).is_err(), "cut at {at}");
    }
    let mut long = good.clone();
    long.push(0);
    assert!(replica.states.load_snapshot(&long, Offset(1), START, 1000).is_err());
    assert_eq!(replica.states, before);
    assert_eq!(replica.states.load_snapshot(&good, Offset(1), START, 1000), Ok(()));
}

/// A count that the bytes do not hold, with a checksum that matches, is refused before anything is allocated for it.
#[test]
fn the_count_must_fit_the_bytes() {
    for count in [-1i32, 1, i32::MAX] {
        let mut bytes = ProducerSnapshot::default().encode();
        bytes[6..10].copy_from_slice(&count.to_be_bytes());
        let crc = crc32c::crc32c(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(ProducerSnapshot::decode(&bytes), Err(SnapshotError::BadCount(count)));
    }
}

/// Other versions are not guessed at.
#[test]
fn another_version_is_unknown() {
    let mut bytes = ProducerSnapshot::default().encode();
    bytes[1] = 2;
    let error = ProducerSnapshot::decode(&bytes).unwrap_err();
    assert_eq!(error, SnapshotError::UnknownVersion(2));
    assert_eq!(error.to_string(), "the producer snapshot has version 2");
}

/// Entries that no producer can have are refused, whatever their checksum says; those that Kafka writes are not.
#[test]
fn impossible_entries_are_refused() {
    for impossible in [
        SnapshotEntry { producer_id: ProducerId(-1), ..entry() },
        SnapshotEntry { offset_delta: -1, ..entry() },
        SnapshotEntry { last_offset: Offset(-2), ..entry() },
        SnapshotEntry { offset_delta: 41, ..entry() },
        SnapshotEntry { current_txn_first_offset: Offset(-2), ..entry() },
    ] {
        assert_eq!(decode_one(impossible), Err(SnapshotError::BadEntry(impossible)));
    }
    let without_batch = SnapshotEntry {
        last_sequence: Sequence::NONE,
        last_offset: Offset::NONE,
        offset_delta: 0,
        current_txn_first_offset: Offset::NONE,
        ..entry()
    };
    // An offset commit of a coordinator: no sequence, but an offset.
    let of_coordinator = SnapshotEntry { last_sequence: Sequence::NONE, offset_delta: 0, ..entry() };
    for possible in [entry(), without_batch, of_coordinator] {
        assert_eq!(decode_one(possible).unwrap().entries, [possible]);
    }
}

/// A snapshot covers the offsets below its name and no others.
#[test]
fn an_offset_beyond_the_name_is_refused() {
    let bytes = ProducerSnapshot { entries: vec![entry()] }.encode();
    let mut states = ProducerStates::new(Offset(0));
    assert_eq!(
        states.load_snapshot(&bytes, Offset(40), Millis(0), 1000),
        Err(SnapshotError::BadEntry(entry()))
    );
    assert_eq!(states.load_snapshot(&bytes, Offset(41), Millis(0), 1000), Ok(()));
    assert_eq!(states.map_end_offset(), Offset(41));
    assert_eq!(states.encode_snapshot(), bytes);
}

/// Two entries of one producer, or two transactions with one first offset, do not break the state.
#[test]
fn repeated_entries_do_no_harm() {
    let later = SnapshotEntry { current_txn_first_offset: Offset(38), ..entry() };
    let other = SnapshotEntry { producer_id: ProducerId(8), ..later };
    let bytes = ProducerSnapshot { entries: vec![entry(), later, other] }.encode();
    let mut states = ProducerStates::new(Offset(0));
    states.load_snapshot(&bytes, Offset(50), Millis(0), 1000).unwrap();
    states.check();
    assert_eq!(states.open_transaction_count(), 2);
}
