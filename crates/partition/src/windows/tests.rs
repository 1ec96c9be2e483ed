use super::*;
use crate::testing::{Replica, abort, commit, data, txn};

/// A replica with windows of one to five batches, plain and transactional, and one that ends with a marker.
fn replica() -> Replica {
    let mut replica = Replica::new();
    for sequence in 0..7 {
        replica.produce(data(1, 0, sequence, 1)).unwrap();
    }
    for sequence in [0, 3] {
        replica.produce(txn(2, 4, sequence, 3)).unwrap();
    }
    replica.mark(commit(2, 4, 0), None).unwrap();
    replica.produce(data(3, 0, i32::MAX - 1, 5)).unwrap();
    replica.produce(data(3, 0, 3, 1)).unwrap();
    replica.produce(data(4, 0, 0, 1)).unwrap();
    replica.produce(txn(5, 9, 0, 1)).unwrap();
    replica.mark(abort(5, 9, 0), None).unwrap();
    replica
}

fn files(replica: &Replica) -> (Vec<u8>, Vec<u8>) {
    let snapshot = replica.states.encode_snapshot();
    let windows = replica.states.encode_windows(&snapshot).unwrap();
    (snapshot, windows)
}

fn loaded(snapshot: &[u8], end: Offset) -> ProducerStates {
    let mut states = ProducerStates::new(Offset(0));
    states.load_snapshot(snapshot, end, crate::testing::START, i64::MAX).unwrap();
    states
}

/// Issue 12, A1: snapshot and windows together are the whole table, each batch with its own time; every batch of a window
/// is known again, with its first offset (producer-state trap 16).
#[test]
fn a_restart_knows_whole_windows() {
    let mut replica = replica();
    let (snapshot, windows) = files(&replica);
    let mut states = loaded(&snapshot, replica.end);
    states.load_windows(&windows, &snapshot).unwrap();
    replica.replicate();
    assert_eq!(states, replica.states.logged());
    replica.states = states;
    for (sequence, offset) in [(2, 2), (3, 3), (4, 4), (5, 5), (6, 6)] {
        assert_eq!(replica.produce(data(1, 0, sequence, 1)), Ok(offset));
    }
    assert_eq!(replica.produce(data(3, 0, i32::MAX - 1, 5)), Ok(14));
}

/// Where no producer has written more than one batch there is nothing to say beside the snapshot.
#[test]
fn single_batches_need_no_windows() {
    let mut replica = Replica::new();
    replica.produce(data(1, 0, 0, 3)).unwrap();
    replica.produce(data(2, 0, 0, 1)).unwrap();
    assert_eq!(replica.states.encode_windows(&replica.states.encode_snapshot()), None);
}

/// Windows are taken only beside the snapshot that they were written with: not beside that of another offset, nor beside
/// one of the same offset that somebody else has written.
#[test]
fn windows_belong_to_one_snapshot() {
    let mut replica = replica();
    let (snapshot, windows) = files(&replica);
    let end = replica.end;
    replica.states.producers.get_mut(&ProducerId(4)).unwrap().last_timestamp = Millis(7);
    let other = replica.states.encode_snapshot();
    let mut states = loaded(&other, end);
    assert_eq!(states.load_windows(&windows, &other), Err(WindowError::OtherSnapshot));
    let mut later = loaded(&snapshot, end.next());
    assert_eq!(later.load_windows(&windows, &snapshot), Err(WindowError::OtherSnapshot));
    assert_eq!(later, loaded(&snapshot, end.next()), "nothing has changed");
}

/// Each byte counts, and the number of bytes: what is damaged changes nothing.
#[test]
fn damage_is_noticed() {
    let replica = replica();
    let (snapshot, windows) = files(&replica);
    let bare = loaded(&snapshot, replica.end);
    let refuses = |bytes: &[u8]| {
        let mut states = bare.clone();
        assert!(states.load_windows(bytes, &snapshot).is_err(), "{bytes:?}");
        assert_eq!(states, bare);
    };
    for at in 0..windows.len() {
        for bit in 0..8 {
            let mut flipped = windows.clone();
            flipped[at] ^= 1 << bit;
            refuses(&flipped);
        }
        refuses(&windows[..at]);
    }
    refuses(&[&windows[..], &[0]].concat());
}

/// Whole bytes that say what cannot be are refused as well: a window of none or of six, batches that are not in order or
/// not below the snapshot, another newest batch than the snapshot's, another epoch.
#[test]
fn impossible_windows_are_refused() {
    let mut replica = Replica::new();
    for sequence in 0..3 {
        replica.produce(data(1, 0, sequence, 1)).unwrap();
    }
    let snapshot = replica.states.encode_snapshot();
    let bare = loaded(&snapshot, replica.end);
    let mut none = replica.states.encode_windows(&snapshot).unwrap();
    none.truncate(ENTRIES_AT + ENTRY_HEAD_BYTES);
    none[ENTRIES_AT + ENTRY_HEAD_BYTES - 1] = 0;
    let crc = crc32c::crc32c(&none[BODY_AT..]);
    none[CRC_AT..BODY_AT].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(bare.clone().load_windows(&none, &snapshot), Err(WindowError::BadWindow(ProducerId(1))));
    let wrong: [fn(&mut ProducerEntry); 7] = [
        |entry| entry.batches = [entry.batches[2]; 6].to_vec(),
        |entry| entry.batches.swap(0, 1),
        |entry| entry.batches[0].offset_delta = -1,
        |entry| entry.batches[0].offset_delta = 1,
        |entry| entry.batches[2].last_offset = Offset(3),
        |entry| entry.batches[2].last_sequence = Sequence(9),
        |entry| entry.producer_epoch = ProducerEpoch(1),
    ];
    for (at, break_it) in wrong.into_iter().enumerate() {
        let mut states = replica.states.clone();
        break_it(states.producers.get_mut(&ProducerId(1)).unwrap());
        let windows = states.encode_windows(&snapshot).unwrap();
        let mut taken = bare.clone();
        let refused = taken.load_windows(&windows, &snapshot);
        assert_eq!(refused, Err(WindowError::BadWindow(ProducerId(1))), "{at}");
        assert_eq!(taken, bare);
    }
}

/// A producer that the snapshot's load has left out as expired stays out.
#[test]
fn windows_bring_nobody_back() {
    let replica = replica();
    let (snapshot, windows) = files(&replica);
    let mut states = ProducerStates::new(Offset(0));
    states.load_snapshot(&snapshot, replica.end, Millis(i64::MAX), 1).unwrap();
    assert!(states.is_empty());
    states.load_windows(&windows, &snapshot).unwrap();
    assert!(states.is_empty());
}
