use alloc::vec::Vec;

use super::*;
use crate::builder::BatchBuilder;
use crate::header::tests::{EMPTY_VECTOR, data_vector};
use fencepost_types::{LeaderEpoch, Millis};

fn empty_vector() -> Bytes {
    hex::decode(EMPTY_VECTOR).unwrap().into()
}

/// A batch that is cut off anywhere is no batch yet, and nothing is taken.
#[test]
fn a_cut_off_batch_is_none() {
    let whole = Bytes::from(data_vector());
    for length in 0..whole.len() {
        let mut rest = whole.slice(..length);
        assert_eq!(Batch::split_first(&mut rest), Ok(None), "{length} bytes");
        assert_eq!(rest.len(), length);
    }
    let mut rest = whole.clone();
    let batch = Batch::split_first(&mut rest).unwrap().unwrap();
    assert_eq!((batch.bytes(), rest.len()), (&whole, 0));
    assert_eq!(batch.bytes().as_ptr(), whole.as_ptr());
    assert_eq!(Batch::parse(whole.slice(..80)), Err(BatchError::Truncated));
}

/// Zeros, as a preallocated file has behind its last batch, are an error and not a batch.
#[test]
fn zeros_are_not_a_batch() {
    let mut rest = Bytes::from_static(&[0; 100]);
    assert_eq!(Batch::split_first(&mut rest), Err(BatchError::Magic(0)));
    assert_eq!(rest.len(), 100);
}

/// The checksum covers everything from the attributes on, and nothing before them (R4).
#[test]
fn what_the_checksum_covers() {
    let whole = data_vector();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        let Ok(batch) = Batch::parse(flipped.into()) else { continue };
        let covered = !(0..8).contains(&at) && !(12..16).contains(&at);
        assert_eq!(batch.verify_crc().is_err(), covered, "byte {at}");
    }
}

/// storage-formats trap 10: a batch without records is served like any other; readers go on behind its last offset.
#[test]
fn an_empty_batch_keeps_its_range() {
    let batch = Batch::parse(empty_vector()).unwrap();
    batch.verify_crc().unwrap();
    assert_eq!(batch.bytes().len(), HEADER_BYTES);
    assert_eq!((batch.base_offset(), batch.last_offset()), (Offset(40), Offset(41)));
    assert_eq!(batch.header().record_count, 0);
    assert_eq!(batch.header().base_timestamp, Millis::NONE);
    assert!(batch.header().is_transactional());
    assert_eq!(batch.records().unwrap().count(), 0);
    batch.walk_records(|_| panic!("no record")).unwrap();
}

/// A log is batches back to back; a cut-off one at the end is left, an error ends it.
#[test]
fn batches_of_a_log() {
    let one = data_vector();
    let log = Bytes::from([&one[..], &empty_vector(), &one[..70]].concat());
    let mut batches = Batches::new(log);
    let found: Vec<_> = batches.by_ref().map(|batch| batch.unwrap().bytes().len()).collect();
    assert_eq!(found, [88, 61]);
    assert_eq!(batches.rest().len(), 70);

    let log = Bytes::from([&one[..], &[7; 40], &one[..]].concat());
    let mut batches = Batches::new(log);
    assert!(batches.next().unwrap().is_ok());
    assert_eq!(batches.next(), Some(Err(BatchError::Magic(7))));
    assert_eq!(batches.next(), None);
}

/// Codecs 5 to 7 do not exist.
#[test]
fn unknown_codecs() {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(0));
    builder.append(Millis(1), None, None, &[]);
    let mut bytes = builder.build().unwrap().bytes().to_vec();
    bytes[22] |= 6;
    let batch = Batch::parse(bytes.into()).unwrap();
    assert_eq!(batch.records().err(), Some(BatchError::UnknownCodec(6)));
    assert_eq!(batch.walk_records(|_| ()), Err(BatchError::UnknownCodec(6)));
}
