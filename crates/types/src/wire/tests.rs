//! What is written is read back, and nothing makes a reader panic.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::writer::CHUNK_BYTES_MIN;
use super::*;
use crate::limits::{DECODED_ELEMENT_BYTES_FREE, DECODED_ELEMENTS_MAX};

fn reader(writer: Writer) -> Reader {
    Reader::new(writer.into_bytes())
}

proptest! {
    /// What is written is read back, and nothing is left.
    #[test]
    fn numbers_round_trip(a: i32, b: i64, c: u32, d: i16) {
        let mut w = Writer::new();
        w.varint(a);
        w.varlong(b);
        w.uvarint(c);
        w.i16(d);
        let mut r = reader(w);
        prop_assert_eq!(r.varint(), Ok(a));
        prop_assert_eq!(r.varlong(), Ok(b));
        prop_assert_eq!(r.uvarint(), Ok(c));
        prop_assert_eq!(r.i16(), Ok(d));
        prop_assert_eq!(r.remaining(), 0);
    }

    /// Arbitrary bytes never make a reader panic.
    #[test]
    fn reading_garbage_is_an_error(garbage: Vec<u8>, compact: bool) {
        let bytes = Bytes::from(garbage);
        let _ = Reader::new(bytes.clone()).nullable_string(compact);
        let _ = Reader::new(bytes.clone()).nullable_bytes(compact);
        let _ = Reader::new(bytes.clone()).array_count(compact, 4);
        let _ = Reader::new(bytes).tagged_fields(|_, r| r.i32().map(|_| true));
    }
}

/// Wire-apis trap 29: a count beyond what the bytes can hold is refused before anything is allocated.
#[test]
fn a_huge_count_is_refused() {
    let huge = Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 0, 0]);
    assert_eq!(Reader::new(huge).array_count(false, 1), Err(DecodeError::Truncated));
}

/// Lengths are signed: below zero is null in either form, and the largest varint is −1 (wire-apis §2, as
/// Kafka answers compact lengths of 2^32 − 1).
#[test]
fn lengths_below_zero_are_null() {
    let max = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(Reader::new(max.clone()).nullable_string(true), Ok(None));
    assert_eq!(Reader::new(max.clone()).array_count(true, 1), Ok(None));
    assert_eq!(Reader::new(max).skip_tagged_fields(), Ok(()));
    assert_eq!(Reader::new(Bytes::from_static(&[0x80, 0])).nullable_string(false), Ok(None));
    let huge = Bytes::from_static(&[0x80, 0x80, 0x80, 0x80, 0x08]);
    assert_eq!(Reader::new(huge).nullable_bytes(true), Err(DecodeError::Truncated));
}

/// Elements that are large in memory and small on the wire are refused before they add up.
#[test]
fn elements_have_a_budget() {
    let count = 2 * DECODED_ELEMENT_BYTES_FREE / size_of::<String>();
    let mut w = Writer::new();
    w.array_count(Some(count), true);
    w.slice(&alloc::vec![1u8; count]);
    assert_eq!(reader(w).strings(true), Err(DecodeError::TooManyElements));
    let mut w = Writer::new();
    w.array_count(Some(2), true);
    w.string("a", true);
    w.string("b", true);
    assert_eq!(reader(w).strings(true), Ok(Some(alloc::vec!["a".into(), "b".into()])));
}

/// All elements of a message are counted together, those in its tagged fields too; beyond the limit none is read.
#[test]
fn elements_are_counted() {
    let array = |count: usize| {
        let mut w = Writer::new();
        w.array_count(Some(count), false);
        w.slice(&alloc::vec![0; 4 * count]);
        w.into_bytes()
    };
    let read = |r: &mut Reader| r.elements(false, 4, 0, |r, _| r.i32()).map(|all| all.map(|all| all.len()));
    assert_eq!(read(&mut Reader::new(array(DECODED_ELEMENTS_MAX))), Ok(Some(DECODED_ELEMENTS_MAX)));
    assert_eq!(read(&mut Reader::new(array(DECODED_ELEMENTS_MAX + 1))), Err(DecodeError::TooManyElements));

    let inside = array(DECODED_ELEMENTS_MAX - 10);
    let mut w = Writer::new();
    [1, 0, inside.len() as u32].into_iter().for_each(|number| w.uvarint(number));
    w.slice(&inside);
    w.slice(&array(10));
    w.slice(&array(1));
    let mut r = reader(w);
    r.tagged_fields(|_, inside| read(inside).map(|_| true)).unwrap();
    assert_eq!(read(&mut r), Ok(Some(10)));
    assert_eq!(read(&mut r), Err(DecodeError::TooManyElements));
}

/// Null and empty differ: in compact form 0 and 1, in the other −1 and 0 (wire-apis §2).
#[test]
fn null_is_not_empty() {
    for compact in [true, false] {
        let mut w = Writer::new();
        w.nullable_string(None, compact);
        w.string("", compact);
        w.nullable_bytes(None, compact);
        w.array_count(Some(0), compact);
        let mut r = reader(w);
        assert_eq!(r.nullable_string(compact), Ok(None));
        assert_eq!(r.nullable_string(compact), Ok(Some(String::new())));
        assert_eq!(r.nullable_bytes(compact), Ok(None));
        assert_eq!(r.array_count(compact, 1), Ok(Some(0)));
    }
}

/// Large byte fields are kept, not copied; what lies elsewhere has its place, and counts.
#[test]
fn large_fields_stay_pieces() {
    let payload = Bytes::from(alloc::vec![7u8; CHUNK_BYTES_MIN]);
    let mut w = Writer::new();
    w.i32(1);
    w.nullable_bytes(Some(&payload), false);
    w.i32(2);
    w.nullable_pieces(Some(&Pieces::elsewhere(100)), false);
    w.nullable_pieces(Some(&Pieces::elsewhere(0)), false);
    assert_eq!(w.len(), 4 + 4 + CHUNK_BYTES_MIN + 4 + 4 + 100 + 4);
    let held = |bytes: &[u8]| Piece::Held(Bytes::copy_from_slice(bytes));
    let pieces: Vec<_> = w.into_pieces().into_iter().collect();
    assert!(matches!(&pieces[1], Piece::Held(bytes) if bytes.as_ptr() == payload.as_ptr()));
    let [length, zero] = [100_u32.to_be_bytes(), 0_u32.to_be_bytes()];
    let between = [&2_u32.to_be_bytes()[..], &length].concat();
    assert_eq!(pieces[2..], [held(&between), Piece::Elsewhere(100), held(&zero)]);
}
