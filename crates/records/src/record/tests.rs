use super::*;
use crate::batch::Batch;
use crate::header::tests::data_vector;

/// storage-formats §2 and §17: a null key, headers that repeat a key in their order, a null header value.
#[test]
fn vector_records() {
    let batch = Batch::parse(data_vector().into()).unwrap();
    let records: Vec<_> = batch.records().unwrap().collect::<Result<_, _>>().unwrap();
    let header =
        |value: Option<&'static [u8]>| RecordHeader { key: Bytes::from("h"), value: value.map(Bytes::from) };
    assert_eq!(
        records,
        [
            Record {
                attributes: 0,
                timestamp_delta: 0,
                offset_delta: 0,
                key: Some("k1".into()),
                value: Some("v1".into()),
                headers: vec![],
            },
            Record {
                attributes: 0,
                timestamp_delta: 5,
                offset_delta: 1,
                key: None,
                value: Some("v2".into()),
                headers: vec![header(Some(b"x")), header(None)],
            },
        ]
    );
}

/// Keys and values are slices of the batch, not copies.
#[test]
fn fields_are_slices() {
    let bytes = Bytes::from(data_vector());
    let batch = Batch::parse(bytes.clone()).unwrap();
    let first = batch.records().unwrap().next().unwrap().unwrap();
    assert!(bytes.as_ptr_range().contains(&first.key.unwrap().as_ptr()));
}

/// After an error the iterator is at its end.
#[test]
fn an_error_ends_the_iteration() {
    let mut records = RecordIter::new(Bytes::from_static(b"\x01"), 5);
    assert_eq!(records.next(), Some(Err(RecordError::NegativeLength(-1))));
    assert_eq!(records.next(), None);
}
