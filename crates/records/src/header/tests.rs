use super::*;

/// A transactional batch of two records, storage-formats §17.
pub(crate) const DATA_VECTOR: &str = "\
    00000000000000280000004c0000000502292118420010000000010000018bcf\
    e568000000018bcfe5680500000000000003e800030000000000000002140000\
    00046b31047631001e000a02010476320402680278026801";

pub(crate) fn data_vector() -> Vec<u8> {
    hex::decode(DATA_VECTOR).unwrap()
}

/// What compaction leaves of it when it removes both records, storage-formats §17.
pub(crate) const EMPTY_VECTOR: &str = "\
    00000000000000280000003100000005022a31e791001000000001ffffffffff\
    ffffff0000018bcfe5680500000000000003e800030000000000000000";

fn vector_header() -> BatchHeader {
    BatchHeader {
        base_offset: Offset(40),
        batch_length: 76,
        leader_epoch: LeaderEpoch(5),
        crc: 0x2921_1842,
        attributes: Attributes(0x10),
        last_offset_delta: 1,
        base_timestamp: Millis(1_700_000_000_000),
        max_timestamp: Millis(1_700_000_000_005),
        producer_id: ProducerId(1000),
        producer_epoch: ProducerEpoch(3),
        base_sequence: Sequence(0),
        record_count: 2,
    }
}

/// storage-formats §1 and §17: every field, both ways.
#[test]
fn vector_both_ways() {
    let bytes = data_vector();
    assert_eq!(BatchHeader::parse(&bytes), Ok(vector_header()));
    assert_eq!(vector_header().encode(), bytes[..HEADER_BYTES]);
    assert_eq!(vector_header().total_bytes(), bytes.len());
    assert_eq!(vector_header().compute_crc(&bytes[HEADER_BYTES..]), vector_header().crc);
    assert_eq!(vector_header().last_offset(), Offset(41));
    assert_eq!(vector_header().next_offset(), Offset(42));
    assert_eq!(vector_header().last_sequence(), Sequence(1));
}

/// R1: length and magic are looked at, and the format before the length.
#[test]
fn length_and_magic_are_checked() {
    let bytes = data_vector();
    assert_eq!(BatchHeader::parse(&bytes[..60]), Err(BatchError::Truncated));
    for magic in [-1, 0, 1, 3] {
        let mut wrong = bytes.clone();
        wrong[16] = magic as u8;
        wrong[11] = 15;
        assert_eq!(BatchHeader::parse(&wrong), Err(BatchError::Magic(magic)));
    }
    for length in [i32::MIN, -5, 0, 48] {
        let mut wrong = bytes.clone();
        wrong[8..12].copy_from_slice(&length.to_be_bytes());
        assert_eq!(BatchHeader::parse(&wrong), Err(BatchError::Length(length)));
    }
}

/// storage-formats trap 18: the last sequence wraps to 0; a batch without a sequence has no last one either.
#[test]
fn last_sequence_wraps_to_zero() {
    let with = |base_sequence, last_offset_delta| BatchHeader {
        base_sequence: Sequence(base_sequence),
        last_offset_delta,
        ..vector_header()
    };
    assert_eq!(with(i32::MAX - 1, 3).last_sequence(), Sequence(1));
    assert_eq!(with(i32::MAX, 0).last_sequence(), Sequence::MAX);
    assert_eq!(with(-1, 3).last_sequence(), Sequence::NONE);
    assert_eq!(with(0, -7).last_sequence(), Sequence(0), "a corrupt range does not count backwards");
}

/// R2: a corrupt header's offsets saturate.
#[test]
fn offsets_saturate() {
    let header =
        BatchHeader { base_offset: Offset(i64::MAX), last_offset_delta: i32::MAX, ..vector_header() };
    assert_eq!(header.last_offset(), Offset(i64::MAX));
    assert_eq!(header.next_offset(), Offset(i64::MAX));
    assert_eq!(header.record_offset(1), Offset(i64::MAX));
}

/// storage-formats §1: attribute bits, each on its own, and bits without a meaning stay.
#[test]
fn attribute_bits() {
    let all = Attributes(0x7ff8u16 as i16);
    assert!(all.is_transactional() && all.is_control() && all.has_delete_horizon());
    assert_eq!(all.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(all.with_timestamp_type(TimestampType::CreateTime), Attributes(0x7ff0));
    assert_eq!(all.with_transactional(false), Attributes(0x7fe8));
    assert_eq!(all.with_control(false), Attributes(0x7fd8));
    assert_eq!(all.with_delete_horizon(false), Attributes(0x7fb8));
    assert_eq!(all.with_compression(CompressionType::Zstd), Attributes(0x7ffc));
    assert_eq!(Attributes(7).with_compression(CompressionType::None), Attributes(0));
    for (id, codec) in CompressionType::ALL.into_iter().enumerate() {
        assert_eq!(Attributes(id as i16 | 0x40).compression(), Some(codec));
        assert_eq!(CompressionType::from_name(codec.name()), Some(codec));
    }
    for id in 5..8 {
        assert_eq!(Attributes(id).compression(), None);
    }
}

/// Under append time each record's time is the batch's; under CreateTime deltas count, also negative ones, and also
/// from a delete horizon (storage-formats trap 22).
#[test]
fn record_timestamps() {
    let create = vector_header();
    assert_eq!(create.record_timestamp(-3), Millis(1_699_999_999_997));
    let append = BatchHeader { attributes: Attributes(0x18), ..create };
    assert_eq!(append.record_timestamp(-3), Millis(1_700_000_000_005));
    let horizon =
        BatchHeader { attributes: Attributes(0x50), base_timestamp: Millis(1_700_086_400_000), ..create };
    assert_eq!(horizon.delete_horizon(), Some(Millis(1_700_086_400_000)));
    assert_eq!(horizon.record_timestamp(-86_400_000), Millis(1_700_000_000_000));
    assert_eq!(create.delete_horizon(), None);
}
