use alloc::string::ToString;
use alloc::vec::Vec;
use core::convert::Infallible;

use fencepost_types::{Offset, ProducerId};

use super::{AbortedIndexError, AbortedTxn, UnknownVersion, collect_aborted, decode_aborted_index};

fn entry(producer_id: i64, first: i64, last: i64, stable: i64) -> AbortedTxn {
    AbortedTxn {
        producer_id: ProducerId(producer_id),
        first_offset: Offset(first),
        last_offset: Offset(last),
        last_stable_offset: Offset(stable),
    }
}

fn collect(from: i64, upper_bound: i64, entries: &[AbortedTxn]) -> Vec<(i64, i64)> {
    let entries = entries.iter().map(|entry| Ok::<_, Infallible>(*entry));
    let Ok(found) = collect_aborted(Offset(from), Offset(upper_bound), entries);
    found.iter().map(|entry| (entry.producer_id.0, entry.first_offset.0)).collect()
}

/// The bytes of an entry, written out.
#[test]
fn an_entry_has_34_bytes() {
    let bytes = entry(1, 2, 3, 0x0405).encode();
    let mut expected = [0; 34];
    (expected[9], expected[17], expected[25], expected[32], expected[33]) = (1, 2, 3, 4, 5);
    assert_eq!(bytes, expected);
    assert_eq!(AbortedTxn::decode(&bytes), Ok(entry(1, 2, 3, 0x0405)));
    expected[1] = 1;
    assert_eq!(AbortedTxn::decode(&expected), Err(UnknownVersion(1)));
}

/// A file that cannot be trusted is an error, a torn end included.
#[test]
fn a_damaged_file_is_an_error() {
    let good: Vec<u8> =
        [entry(1, 20, 22, 23), entry(2, 21, 24, 25)].iter().flat_map(AbortedTxn::encode).collect();
    assert_eq!(decode_aborted_index(&good, Offset(20)).unwrap().len(), 2);
    assert_eq!(decode_aborted_index(&[], Offset(20)), Ok(Vec::new()));
    let torn = decode_aborted_index(&good[..67], Offset(20)).unwrap_err();
    assert_eq!(torn, AbortedIndexError::Torn { rest_bytes: 33 });
    assert_eq!(torn.to_string(), "the transaction index ends with 33 bytes of an entry");
    let below = AbortedIndexError::BelowBase(entry(1, 20, 22, 23));
    assert_eq!(decode_aborted_index(&good, Offset(23)), Err(below));
    let twice = [&good[..34], &good[..34]].concat();
    let out_of_order = AbortedIndexError::OutOfOrder(entry(1, 20, 22, 23));
    assert_eq!(decode_aborted_index(&twice, Offset(20)), Err(out_of_order));
    assert_eq!(decode_aborted_index(&[0xff; 34], Offset(20)), Err(AbortedIndexError::UnknownVersion(-1)));
}

/// Only transactions that overlap the range are named: their marker at or above `from`, their beginning below the
/// bound.
#[test]
fn overlapping_transactions_are_named() {
    let entries = [entry(1, 0, 4, 5), entry(2, 6, 8, 9), entry(3, 10, 12, 13)];
    assert_eq!(collect(4, 6, &entries), [(1, 0)]);
    assert_eq!(collect(5, 6, &entries), []);
    assert_eq!(collect(5, 7, &entries), [(2, 6)]);
    assert_eq!(collect(8, 11, &entries), [(2, 6), (3, 10)]);
    assert_eq!(collect(9, 10, &entries), []);
}

/// The walk stops on the last stable offset alone: a transaction that began in the range may end far behind others that
/// began after it (producer-state trap 27).
#[test]
fn the_walk_stops_on_the_last_stable_offset_alone() {
    // Producer 1 is open from 0 to 30; producer 2 aborts twice in between, beyond the bound.
    let entries = [entry(2, 10, 12, 0), entry(2, 14, 16, 0), entry(1, 0, 30, 31), entry(3, 40, 41, 42)];
    assert_eq!(collect(0, 5, &entries), [(1, 0)]);
    let read = core::cell::Cell::new(0);
    let counted = entries.iter().map(|entry| {
        read.set(read.get() + 1);
        Ok::<_, Infallible>(*entry)
    });
    let Ok(found) = collect_aborted(Offset(0), Offset(5), counted);
    assert_eq!((found.len(), read.get()), (1, 3));
}

/// The answer is in the order of the first offsets, not of the markers. Differs from Kafka.
#[test]
fn the_answer_is_ordered_by_first_offset() {
    let entries = [entry(3, 4, 6, 0), entry(2, 2, 7, 0), entry(1, 0, 8, 9)];
    assert_eq!(collect(0, 9, &entries), [(1, 0), (2, 2), (3, 4)]);
}

/// An error of the reader ends the walk.
#[test]
fn a_read_error_is_passed_on() {
    let entries = [Ok(entry(1, 0, 4, 1)), Err("broken")];
    assert_eq!(collect_aborted(Offset(0), Offset(9), entries), Err("broken"));
    // … unless the answer was complete before it.
    assert_eq!(collect_aborted(Offset(0), Offset(1), entries).map(|found| found.len()), Ok(1));
}
