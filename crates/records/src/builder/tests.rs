use super::*;
use crate::header::tests::{EMPTY_VECTOR, data_vector};

const T: i64 = 1_700_000_000_000;

fn vector_builder() -> BatchBuilder {
    BatchBuilder::new(Offset(40), LeaderEpoch(5))
        .producer(ProducerId(1000), ProducerEpoch(3), Sequence(0))
        .transactional(true)
}

/// storage-formats §17, byte for byte.
#[test]
fn data_vector_is_built() {
    let mut builder = vector_builder();
    builder.append(Millis(T), Some(b"k1"), Some(b"v1"), &[]);
    let header =
        |value: Option<&'static [u8]>| RecordHeader { key: "h".into(), value: value.map(Bytes::from) };
    builder.append(Millis(T + 5), None, Some(b"v2"), &[header(Some(b"x")), header(None)]);
    assert_eq!(builder.plain_bytes(), 88);
    assert_eq!(builder.build().unwrap().bytes(), &data_vector());
}

/// storage-formats §17: what compaction leaves when it removes every record. The maximum timestamp stays.
#[test]
fn empty_vector_is_built() {
    let batch = Batch::parse(data_vector().into()).unwrap();
    let empty = BatchBuilder::rewrite(batch.header(), Compression::NONE).build().unwrap();
    assert_eq!(hex::encode(empty.bytes()), EMPTY_VECTOR);
}

/// A batch that loses a record keeps its range, and has the timestamps of the records that stay.
#[test]
fn a_rewritten_batch_keeps_its_range() {
    let batch = Batch::parse(data_vector().into()).unwrap();
    for kept in [0, 1] {
        let mut builder = BatchBuilder::rewrite(batch.header(), Compression::NONE);
        let record = batch.records().unwrap().nth(kept).unwrap().unwrap();
        let timestamp = batch.header().record_timestamp(record.timestamp_delta);
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        builder.append_at(record.offset_delta, timestamp, key, value, &record.headers);
        let rewritten = builder.build().unwrap();
        rewritten.verify_crc().unwrap();
        let header = rewritten.header();
        assert_eq!(
            (header.base_offset, header.last_offset(), header.record_count),
            (Offset(40), Offset(41), 1)
        );
        assert_eq!((header.base_timestamp, header.max_timestamp), (timestamp, timestamp));
        let found = rewritten.records().unwrap().next().unwrap().unwrap();
        assert_eq!(header.record_offset(found.offset_delta), Offset(40 + kept as i64));
        assert_eq!((found.key, found.value, found.headers), (record.key, record.value, record.headers));
    }
}

/// The base timestamp is the first record's, not the least (storage-formats §1).
#[test]
fn deltas_may_be_negative() {
    let mut builder = vector_builder();
    for timestamp in [T, T - 7, T + 3] {
        builder.append(Millis(timestamp), None, None, &[]);
    }
    let batch = builder.build().unwrap();
    assert_eq!((batch.header().base_timestamp, batch.header().max_timestamp), (Millis(T), Millis(T + 3)));
    let deltas: Vec<_> = batch.records().unwrap().map(|record| record.unwrap().timestamp_delta).collect();
    assert_eq!(deltas, [0, -7, 3]);
}

/// storage-formats trap 17: coordinators of groups write sequence 0 without a producer id, and readers do not infer
/// idempotence from it.
#[test]
fn a_sequence_without_a_producer() {
    let mut builder = BatchBuilder::new(Offset(7), LeaderEpoch(0)).base_sequence(Sequence(0));
    builder.append(Millis(T), Some(b"k"), Some(b"v"), &[]);
    let batch = builder.build().unwrap();
    assert_eq!(batch.header().base_sequence, Sequence(0));
    assert_eq!(batch.header().producer_id, ProducerId::NONE);
    assert!(!batch.header().has_producer_id());
}

/// storage-formats trap 22: a delete horizon stays when a batch is rewritten, and deltas count from it.
#[test]
fn a_delete_horizon_survives_a_rewrite() {
    let horizon = Millis(T + 86_400_000);
    let mut builder = vector_builder().delete_horizon(horizon);
    builder.append(Millis(T), Some(b"k"), None, &[]);
    let first = builder.build().unwrap();
    assert_eq!((first.header().base_timestamp, first.header().max_timestamp), (horizon, Millis(T)));
    let mut builder = BatchBuilder::rewrite(first.header(), Compression::NONE);
    builder.append(Millis(T), Some(b"k"), None, &[]);
    let second = builder.build().unwrap();
    assert_eq!(second, first);
    assert_eq!(second.header().delete_horizon(), Some(horizon));
    let delta = second.records().unwrap().next().unwrap().unwrap().timestamp_delta;
    assert_eq!(second.header().record_timestamp(delta), Millis(T));
    // Without records the horizon is all the base timestamp says.
    let empty = BatchBuilder::rewrite(first.header(), Compression::NONE).build().unwrap();
    assert_eq!(empty.header().delete_horizon(), Some(horizon));
}

/// Append time: every record reads as the time of the append, whatever it was appended with.
#[test]
fn append_time() {
    let mut builder = vector_builder().log_append_time(Millis(T + 99));
    builder.append(Millis(T), None, None, &[]);
    let batch = builder.build().unwrap();
    assert_eq!(batch.header().max_timestamp, Millis(T + 99));
    let delta = batch.records().unwrap().next().unwrap().unwrap().timestamp_delta;
    assert_eq!(batch.header().record_timestamp(delta), Millis(T + 99));
}

/// Control records are never compressed, and neither is nothing (storage-formats §1, §3).
#[cfg(feature = "compression")]
#[test]
fn control_and_empty_batches_stay_plain() {
    use crate::compression::CompressionType;
    let gzip = Compression::new(CompressionType::Gzip);
    let mut builder = vector_builder().control(true).compression(gzip);
    builder.append(Millis(T), Some(&[0; 4]), Some(&[0; 6]), &[]);
    assert_eq!(builder.build().unwrap().compression(), Ok(CompressionType::None));
    assert_eq!(vector_builder().compression(gzip).build().unwrap().bytes().len(), HEADER_BYTES);
}

/// storage-formats trap 14: a batch may grow when it is written again in its codec; nothing bounds it here.
#[cfg(feature = "compression")]
#[test]
fn a_batch_may_grow_when_compressed() {
    use crate::compression::CompressionType;
    for codec in CompressionType::ALL {
        let mut builder = vector_builder().compression(Compression::new(codec));
        builder.append(Millis(T), Some(b"\x93\x1f"), None, &[]);
        let plain = builder.plain_bytes();
        let batch = builder.build().unwrap();
        assert_eq!(batch.bytes().len() > plain, codec != CompressionType::None, "{codec}");
        assert_eq!(
            batch.records().unwrap().next().unwrap().unwrap().key.unwrap(),
            "\u{93}\u{1f}".chars().map(|c| c as u8).collect::<Vec<_>>()
        );
    }
}
