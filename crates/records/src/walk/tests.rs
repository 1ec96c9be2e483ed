use alloc::vec::Vec;

use super::*;
use crate::record::RecordIter;
use crate::varint::put_varint;

/// `length, attributes, timestamp delta, offset delta, key "key", value "abc", no headers`.
const GOOD: &[u8] = b"\x18\x00\x00\x00\x06key\x06abc\x00";

/// What both readers of records say; they must agree on whether the bytes are records.
fn check(bytes: &[u8], count: i32) -> Result<Vec<RecordShape>, RecordError> {
    let mut shapes = Vec::new();
    let walked = walk(bytes, count, |shape| shapes.push(shape));
    let read: Result<Vec<_>, _> = RecordIter::new(bytes.to_vec().into(), count).collect();
    assert_eq!(walked.is_ok(), read.is_ok(), "{walked:?} and {read:?}");
    walked.map(|()| shapes)
}

fn with(at: usize, replacement: &[u8]) -> Vec<u8> {
    [&GOOD[..at], replacement, &GOOD[at + 1..]].concat()
}

/// The shape of a good record.
#[test]
fn a_good_record() {
    let body_bytes = GOOD.len() as i32 - 1;
    let shape = RecordShape {
        index: 0,
        body_bytes,
        timestamp_delta: 0,
        offset_delta: 0,
        has_key: true,
        has_value: true,
    };
    assert_eq!(check(GOOD, 1), Ok(vec![shape]));
    assert_eq!(check(b"", 0), Ok(vec![]));
    // Any negative length is null, as Kafka reads it.
    assert_eq!(
        check(b"\x0c\x00\x00\x00\x01\x03\x00", 1).map(|shapes| (shapes[0].has_key, shapes[0].has_value)),
        Ok((false, false))
    );
}

/// storage-formats §1 and §2: each record takes exactly its length, and the payload holds exactly the records counted.
/// The bodies are those of the scenario `produce-malformed-record`.
#[test]
fn malformed_records() {
    assert_eq!(check(&with(0, &[0xc8, 0x01]), 1), Err(RecordError::LengthMismatch), "length too large");
    assert!(check(&with(0, &[8]), 1).is_err(), "length too small");
    assert_eq!(check(&with(0, &[1]), 1), Err(RecordError::NegativeLength(-1)));
    assert_eq!(check(&with(4, &[100]), 1), Err(RecordError::LengthMismatch), "key beyond the record");
    assert_eq!(check(&[0xff; 12], 1), Err(RecordError::VarintTooLong));
    assert!(check(&GOOD[..GOOD.len() - 3], 1).is_err(), "cut off");
    assert_eq!(check(&with(12, &[1]), 1), Err(RecordError::HeaderCount(-1)));
    assert_eq!(check(&with(12, &[2]), 1), Err(RecordError::HeaderCount(1)), "no room for a header");
    assert_eq!(check(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1), Err(RecordError::NullHeaderKey));
}

/// The count, the bytes and the records must agree.
#[test]
fn counts() {
    assert_eq!(check(GOOD, 2), Err(RecordError::TooFew { expected: 2, found: 1 }));
    assert_eq!(check(GOOD, i32::MAX), Err(RecordError::TooFew { expected: i32::MAX, found: 1 }));
    assert_eq!(check(GOOD, 0), Err(RecordError::TrailingBytes));
    assert_eq!(check(&[GOOD, GOOD].concat(), 1), Err(RecordError::TrailingBytes));
    assert_eq!(check(GOOD, -1), Err(RecordError::NegativeCount(-1)));
}

/// R2: a header count that the record cannot hold is refused before anything is allocated for it.
#[test]
fn a_huge_header_count_is_refused() {
    let mut record = b"\x00\x00\x00\x01\x01".to_vec();
    put_varint(&mut record, i32::MAX);
    let mut bytes = Vec::new();
    put_varint(&mut bytes, record.len() as i32);
    bytes.extend(record);
    assert_eq!(check(&bytes, 1), Err(RecordError::HeaderCount(i32::MAX)));
}
