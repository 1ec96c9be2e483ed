use alloc::vec::Vec;

use super::*;
use crate::builder::BatchBuilder;
use crate::control::EndTxnMarker;
use crate::header::Attributes;
use fencepost_types::{CoordinatorEpoch, ErrorCode, ProducerEpoch, ProducerId, Sequence, TransactionResult};

const NOW: Millis = Millis(1_700_000_000_000);
const CLIENT: AppendOrigin = AppendOrigin::Client { produce_version: 9 };

/// A batch as bytes, every field free, for what no builder makes.
#[derive(Clone)]
struct Raw {
    header: BatchHeader,
    payload: Vec<u8>,
}

impl Raw {
    fn new(payload: Vec<u8>, record_count: i32) -> Self {
        let header = BatchHeader {
            base_offset: Offset(0),
            batch_length: 0,
            leader_epoch: LeaderEpoch::NONE,
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: record_count.wrapping_sub(1),
            base_timestamp: NOW,
            max_timestamp: NOW,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: Sequence::NONE,
            record_count,
        };
        Self { header, payload }
    }

    /// Records with these keys and distances from now.
    fn records(records: &[(Option<&[u8]>, i64)]) -> Self {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
        // The base is now, whatever the first record's time.
        builder.append(NOW, None, None, &[]);
        let skip = builder.plain_bytes();
        for (key, distance) in records {
            builder.append(NOW.plus(*distance), *key, Some(b"value"), &[]);
        }
        let payload = builder.build().unwrap().payload().slice(skip - HEADER_BYTES..);
        // Offset deltas began at 1: one varint further on than they should be.
        let mut payload = payload.to_vec();
        let mut at = 0;
        for (index, (_, distance)) in records.iter().enumerate() {
            let length = payload[at] as usize / 2;
            let delta_at = at + 2 + crate::varint::varlong_bytes(*distance);
            payload[delta_at] = 2 * index as u8;
            at += 1 + length;
        }
        Self::new(payload, records.len() as i32)
    }

    #[cfg(feature = "compression")]
    fn packed(codec: CompressionType, payload: Vec<u8>, record_count: i32) -> Self {
        Self::new(payload, record_count).with(|header| header.attributes = Attributes(i16::from(codec.id())))
    }

    fn with(mut self, change: impl FnOnce(&mut BatchHeader)) -> Self {
        change(&mut self.header);
        self
    }

    fn bytes(&self) -> Bytes {
        let mut header = self.header;
        header.batch_length = (HEADER_BYTES - LOG_OVERHEAD_BYTES + self.payload.len()) as i32;
        header.crc = header.compute_crc(&self.payload);
        [&header.encode()[..], &self.payload].concat().into()
    }
}

fn two() -> Raw {
    Raw::records(&[(Some(b"a"), 0), (Some(b"b"), 0)])
}

fn check(records: impl Into<Bytes>, rules: &AppendRules) -> Result<ValidatedBatch, AppendRefusal> {
    validate(Some(records.into()), rules, CLIENT, NOW)
}

/// Code, whether there is a message, refused records, whether the log start offset is told.
fn answer(records: impl Into<Bytes>, rules: &AppendRules) -> (ErrorCode, bool, Vec<i32>, bool) {
    let refusal = check(records, rules).expect_err("refused");
    assert!(!alloc::string::ToString::to_string(&refusal).is_empty());
    let indexes = refusal.record_refusals().iter().map(|refused| refused.index).collect();
    (refusal.code(), refusal.message(&"t-0").is_some(), indexes, refusal.carries_log_start_offset())
}

fn is_invalid_record(records: impl Into<Bytes>) -> bool {
    check(records, &AppendRules::default()).is_err_and(|refusal| refusal.code() == ErrorCode::InvalidRecord)
}

const DEFAULT: AppendRules = AppendRules {
    message_bytes_max: 1_048_588,
    segment_bytes: 1 << 30,
    timestamp_type: TimestampType::CreateTime,
    timestamp_before_max_ms: i64::MAX,
    timestamp_after_max_ms: 3_600_000,
    keys_required: false,
    record_bytes_max: i32::MAX,
    compression: None,
};

/// R3: a batch that is right keeps its bytes; the payload is the slice it was, and only its place changes.
#[test]
fn an_untouched_batch_keeps_its_bytes() {
    assert_eq!(AppendRules::default(), DEFAULT);
    let bytes = two().bytes();
    let mut validated = check(bytes.clone(), &DEFAULT).unwrap();
    assert_eq!(validated.payload().as_ptr(), bytes[HEADER_BYTES..].as_ptr());
    assert_eq!(validated.to_batch().bytes(), &bytes);
    assert_eq!((validated.max_timestamp_offset_delta(), validated.log_append_time()), (Some(0), None));
    validated.place(Offset(77), LeaderEpoch(4));
    let placed = validated.to_batch();
    placed.verify_crc().unwrap();
    assert_eq!((placed.base_offset(), placed.header().leader_epoch), (Offset(77), LeaderEpoch(4)));
    assert_eq!(validated.encode_header(), placed.bytes()[..HEADER_BYTES]);
    assert_eq!(validated.total_bytes(), bytes.len());
}

/// Check 1. Scenarios `produce-null-records`, `produce-torn-batch`, `idem-two-batches-refused`.
#[test]
fn exactly_one_batch() {
    let good = two().bytes();
    let none = (ErrorCode::InvalidRecord, false, vec![], false);
    let null = validate(None, &DEFAULT, CLIENT, NOW).unwrap_err();
    assert_eq!((null.code(), null.carries_log_start_offset()), (ErrorCode::InvalidRecord, false));
    for length in [0, 12, 16, 17, 61, good.len() - 1] {
        assert_eq!(answer(good.slice(..length), &DEFAULT), none, "{length} bytes");
    }
    assert_eq!(answer([&good[..], &good].concat(), &DEFAULT), none, "two batches");
    for tail in [&[0][..], &good[..12], &good[..40], &good[..good.len() - 1]] {
        let validated =
            check([&good[..], tail].concat(), &DEFAULT).expect("a cut-off second batch is dropped");
        assert_eq!(validated.to_batch().bytes(), &good);
    }
    for length in [10i32, -5, 48] {
        let mut short = good.to_vec();
        short[8..12].copy_from_slice(&length.to_be_bytes());
        assert_eq!(
            answer(short, &DEFAULT),
            (ErrorCode::CorruptMessage, true, vec![], false),
            "length {length}"
        );
    }
}

/// Check 1. Scenario `produce-old-magic`; KIP-724.
#[test]
fn old_formats() {
    for (magic, expected) in [
        (0u8, (ErrorCode::InvalidRecord, false, vec![], false)),
        (1, (ErrorCode::InvalidRecord, false, vec![], false)),
        (3, (ErrorCode::CorruptMessage, true, vec![], false)),
        (0xff, (ErrorCode::CorruptMessage, true, vec![], false)),
    ] {
        let mut marked = two().bytes().to_vec();
        marked[16] = magic;
        assert_eq!(answer(marked, &DEFAULT), expected, "format {magic}");
    }
    // A message of format 0: offset, length, checksum, magic, attributes, null key, value "a".
    let message =
        [&[0; 8][..], &[0, 0, 0, 15], &[1, 2, 3, 4], &[0, 0], &[0xff; 4], &[0, 0, 0, 1], b"a"].concat();
    assert_eq!(answer(message, &DEFAULT), (ErrorCode::InvalidRecord, false, vec![], false));
}

/// Check 2. Scenario `produce-bad-checksum`: the leader epoch lies outside the checksum.
#[test]
fn checksum() {
    let mut flipped = two().bytes().to_vec();
    let at = flipped.len() - 2;
    flipped[at] ^= 1;
    assert_eq!(answer(flipped, &DEFAULT), (ErrorCode::CorruptMessage, false, vec![], false));
    let other_epoch = two().with(|header| header.leader_epoch = LeaderEpoch(77));
    assert!(check(other_epoch.bytes(), &DEFAULT).is_ok());
}

/// Checks 3 and 4. Scenarios `produce-max-message-bytes`, `produce-segment-bytes`: the whole batch counts.
#[test]
fn sizes() {
    let bytes = two().bytes();
    let size = bytes.len() as i32;
    let rules =
        |message_bytes_max, segment_bytes| AppendRules { message_bytes_max, segment_bytes, ..DEFAULT };
    assert!(check(bytes.clone(), &rules(size, size)).is_ok());
    let too_large = (ErrorCode::MessageTooLarge, false, vec![], false);
    assert_eq!(answer(bytes.clone(), &rules(size - 1, size)), too_large);
    assert_eq!(answer(bytes.clone(), &rules(0, size)), too_large);
    let above_segment = (ErrorCode::RecordListTooLarge, false, vec![], false);
    assert_eq!(answer(bytes.clone(), &rules(size, size - 1)), above_segment);
    // Our own writes know no max.message.bytes.
    let own = |rules| validate(Some(bytes.clone()), &rules, AppendOrigin::Coordinator, NOW);
    assert!(own(rules(0, size)).is_ok());
    assert!(own(rules(0, size - 1)).is_err());
}

/// Check 5. Scenarios `produce-base-offset`, `produce-count-mismatch`, `produce-compressed-count-mismatch`.
#[test]
fn offsets_and_counts() {
    let refused = (ErrorCode::InvalidRecord, false, vec![], true);
    for offset in [7, 2, -1] {
        assert_eq!(
            answer(two().with(|header| header.base_offset = Offset(offset)).bytes(), &DEFAULT),
            refused
        );
    }
    let counts = |payload: &[u8], last_offset_delta, record_count| {
        Raw::new(payload.to_vec(), record_count)
            .with(|header| header.last_offset_delta = last_offset_delta)
            .bytes()
    };
    let payload = &two().payload[..];
    for (payload, last_offset_delta, record_count) in [
        (&[][..], -1, 0),
        (&[], 0, 0),
        (payload, 1, 3),
        (payload, 2, 2),
        (payload, 1, -1),
        (payload, 0, 1),
        (payload, 2, 3),
        (payload, i32::MAX - 1, i32::MAX),
        (payload, i32::MAX, i32::MIN),
    ] {
        let found = answer(counts(payload, last_offset_delta, record_count), &DEFAULT);
        assert_eq!(found, refused, "range {last_offset_delta}, count {record_count}");
    }
}

/// Check 5: `produce-offset-deltas` as wanted: deltas are 0, 1, 2 …, in plain batches and in compressed ones.
#[test]
fn offset_deltas() {
    for deltas in [[0u8, 2], [1, 0], [0, 0], [1, 2]] {
        let mut raw = two();
        let second = raw.payload.len() / 2;
        raw.payload[3] = deltas[0] * 2;
        raw.payload[second + 3] = deltas[1] * 2;
        let refusal = check(raw.bytes(), &DEFAULT).unwrap_err();
        assert!(matches!(refusal, AppendRefusal::OffsetDelta { .. }), "{deltas:?}: {refusal:?}");
        assert_eq!(refusal.code(), ErrorCode::InvalidRecord);
        #[cfg(feature = "compression")]
        {
            let packed = Compression::new(CompressionType::Gzip).compress(&raw.payload).unwrap();
            assert!(is_invalid_record(Raw::packed(CompressionType::Gzip, packed, 2).bytes()));
        }
    }
}

/// Scenario `produce-malformed-record` as wanted.
#[test]
fn malformed_records() {
    let good = &b"\x18\x00\x00\x00\x06key\x06abc\x00"[..];
    let changed = |at: usize, to: &[u8]| [&good[..at], to, &good[at + 1..]].concat();
    for body in [
        changed(0, &[0xc8, 1]),
        changed(0, &[8]),
        changed(0, &[1]),
        changed(4, &[100]),
        vec![0xff; 12],
        good[..good.len() - 3].to_vec(),
        changed(12, &[1]),
        changed(12, &[2]),
    ] {
        assert!(is_invalid_record(Raw::new(body.clone(), 1).bytes()), "{body:?}");
    }
    assert!(check(Raw::new(good.to_vec(), 1).bytes(), &DEFAULT).is_ok());
}

/// Check 6. Scenario `idem-client-control-batch-refused`; the coordinator's way may write them, and its markers get the
/// append time where the topic has it: attributes 0x38 (storage-formats §3).
#[test]
fn control_batches() {
    let control = two().with(|header| header.attributes = Attributes::default().with_control(true));
    assert!(is_invalid_record(control.bytes()));
    let marker = EndTxnMarker { result: TransactionResult::Abort, coordinator_epoch: CoordinatorEpoch(1) };
    let batch = marker.to_batch(Offset(0), LeaderEpoch::NONE, ProducerId(1), ProducerEpoch(2), NOW);
    let rules = AppendRules {
        timestamp_type: TimestampType::LogAppendTime,
        keys_required: true,
        message_bytes_max: 10,
        compression: Some(Compression::new(CompressionType::Gzip)),
        ..DEFAULT
    };
    let later = NOW.plus(5);
    let validated = validate(Some(batch.into_bytes()), &rules, AppendOrigin::Coordinator, later).unwrap();
    assert_eq!(validated.header().attributes, Attributes(0x38));
    assert_eq!((validated.header().base_timestamp, validated.header().max_timestamp), (NOW, later));
    let batch = validated.to_batch();
    batch.verify_crc().unwrap();
    assert_eq!(batch.bytes().len(), 78);
    assert_eq!(EndTxnMarker::from_batch(&batch), Ok(Some(marker)));
}

/// Check 7. Scenarios `idem-negative-sequence-refused` and `idem-txn-without-producer-id` as wanted.
/// storage-formats trap 17: a sequence without a producer id says nothing.
#[test]
fn producers() {
    let with = |id, epoch, sequence, transactional| {
        two()
            .with(|header| {
                header.producer_id = ProducerId(id);
                header.producer_epoch = ProducerEpoch(epoch);
                header.base_sequence = Sequence(sequence);
                header.attributes = header.attributes.with_transactional(transactional);
            })
            .bytes()
    };
    for transactional in [false, true] {
        assert!(check(with(5, 0, 0, transactional), &DEFAULT).is_ok());
        assert!(check(with(0, 0, i32::MAX, transactional), &DEFAULT).is_ok());
        assert!(is_invalid_record(with(5, 0, -1, transactional)));
        assert!(is_invalid_record(with(5, 0, i32::MIN, transactional)));
        // An epoch below 0 is for producer state to judge.
        assert!(check(with(5, -1, 0, transactional), &DEFAULT).is_ok());
    }
    assert!(is_invalid_record(with(-1, -1, -1, true)));
    assert!(check(with(-1, -1, 0, false), &DEFAULT).is_ok());
    // A coordinator's transactional offsets carry sequence 0; a marker none.
    let own = |bytes| validate(Some(bytes), &DEFAULT, AppendOrigin::Coordinator, NOW);
    assert!(own(with(5, 0, -1, true)).is_ok());
}

/// Check 8. Scenario `produce-unknown-codec` as wanted.
#[test]
fn unknown_codecs() {
    for codec in 5..8 {
        let refusal =
            check(two().with(|header| header.attributes = Attributes(codec)).bytes(), &DEFAULT).unwrap_err();
        assert_eq!(refusal.code(), ErrorCode::UnsupportedCompressionType);
    }
}

/// Check 9. Scenarios `produce-append-time`, `produce-append-time-bit-from-client`.
#[test]
fn append_time() {
    let rules = AppendRules { timestamp_type: TimestampType::LogAppendTime, ..DEFAULT };
    let old = Raw::records(&[(None, -3_600_000), (None, 0)]);
    let bytes = old.bytes();
    let validated = check(bytes.clone(), &rules).unwrap();
    assert_eq!(validated.header().attributes, Attributes(0x8));
    assert_eq!(validated.header().base_timestamp, old.header.base_timestamp, "the client's base stays");
    assert_eq!((validated.header().max_timestamp, validated.log_append_time()), (NOW, Some(NOW)));
    assert_eq!(validated.payload().as_ptr(), bytes[HEADER_BYTES..].as_ptr());
    validated.to_batch().verify_crc().unwrap();
    // The bit is the broker's: refused record by record where it would count, cleared where it does not.
    let claimed = two().with(|header| {
        header.attributes = Attributes(0x8);
        header.max_timestamp = NOW.plus(-99);
    });
    assert_eq!(answer(claimed.bytes(), &rules), (ErrorCode::InvalidTimestamp, true, vec![0, 1], true));
    let cleared = check(claimed.bytes(), &DEFAULT).unwrap();
    assert_eq!((cleared.header().attributes, cleared.header().max_timestamp), (Attributes(0), NOW));
    cleared.to_batch().verify_crc().unwrap();
    // Scenario `produce-append-time-ignores-bounds`.
    let bounded = AppendRules { timestamp_before_max_ms: 1000, ..rules };
    for distance in [-NOW.0, 864_000_000] {
        assert!(check(Raw::records(&[(None, distance)]).bytes(), &bounded).is_ok());
    }
}

/// storage-formats trap 3. Scenario `produce-max-timestamp-recomputed`: the maximum is taken from the records, never from
/// the header, and the checksum follows; where nothing changed it stays.
#[test]
fn the_maximum_timestamp_is_the_records() {
    let raw = Raw::records(&[(None, 5), (None, -7), (None, 3)]);
    for told in [NOW.plus(900), NOW.plus(-900), Millis::NONE, NOW.plus(5)] {
        let bytes = raw.clone().with(|header| header.max_timestamp = told).bytes();
        let validated = check(bytes.clone(), &DEFAULT).unwrap();
        assert_eq!(validated.header().max_timestamp, NOW.plus(5));
        assert_eq!(validated.max_timestamp_offset_delta(), Some(0));
        validated.to_batch().verify_crc().unwrap();
        assert_eq!(validated.to_batch().bytes() == &bytes, told == NOW.plus(5));
    }
    let none = Raw::records(&[(None, -1 - NOW.0), (None, -2 - NOW.0)]);
    let validated = check(none.bytes(), &DEFAULT).unwrap();
    assert_eq!(
        (validated.header().max_timestamp, validated.max_timestamp_offset_delta()),
        (Millis::NONE, None)
    );
    // A base and a delta that overflow wrap, as the Java client's do, and do not panic.
    let wraps = two().with(|header| header.base_timestamp = Millis(i64::MAX));
    assert!(check(wraps.bytes(), &DEFAULT).is_err());
}

/// Check 10. Scenarios `produce-timestamp-bounds`, `produce-timestamp-default-bounds`.
#[test]
fn timestamp_bounds() {
    let rules = AppendRules { timestamp_before_max_ms: 60_000, timestamp_after_max_ms: 60_000, ..DEFAULT };
    let five = [0, -120_000, 0, 120_000, -30_000].map(|distance| (None, distance));
    let refused = (ErrorCode::InvalidTimestamp, true, vec![1, 3], true);
    assert_eq!(answer(Raw::records(&five).bytes(), &rules), refused);
    let one = |distance| Raw::records(&[(None, distance)]).bytes();
    for (distance, taken) in [
        (-60_000, true),
        (-60_001, false),
        (60_000, true),
        (60_001, false),
        (-1 - NOW.0, true),
        (-NOW.0, false),
    ] {
        assert_eq!(check(one(distance), &rules).is_ok(), taken, "{distance}");
    }
    for (distance, taken) in
        [(-NOW.0, true), (-2 - NOW.0, true), (3_000_000, true), (3_600_000, true), (4_200_000, false)]
    {
        assert_eq!(check(one(distance), &DEFAULT).is_ok(), taken, "{distance}");
    }
    let widest = AppendRules { timestamp_after_max_ms: i64::MAX, ..DEFAULT };
    assert!(check(one(i64::MAX - NOW.0), &widest).is_ok());
    assert!(validate(Some(one(0)), &widest, CLIENT, Millis(i64::MAX)).is_ok(), "bounds saturate");
}

/// Check 11. Scenario `produce-compacted-needs-keys`: an empty key is a key.
#[test]
fn compacted_topics_need_keys() {
    let rules = AppendRules { keys_required: true, ..DEFAULT };
    let three = Raw::records(&[(None, 0), (Some(b"k"), 0), (None, 0)]);
    assert_eq!(answer(three.bytes(), &rules), (ErrorCode::InvalidRecord, true, vec![0, 2], true));
    assert!(check(three.bytes(), &DEFAULT).is_ok());
    assert!(check(Raw::records(&[(Some(b""), 0)]).bytes(), &rules).is_ok());
    assert!(validate(Some(three.bytes()), &rules, AppendOrigin::Coordinator, NOW).is_ok());
}

/// Checks 10 and 11 together. Scenario `produce-mixed-record-errors`: all are listed, a timestamp among them names the
/// error, and a record with both faults counts as keyless.
#[test]
fn mixed_record_errors() {
    let rules = AppendRules { keys_required: true, timestamp_before_max_ms: 60_000, ..DEFAULT };
    let (good, keyless): ((Option<&[u8]>, i64), _) = ((Some(b"k"), 0), (None, 0));
    let (old, both): ((Option<&[u8]>, i64), _) = ((Some(b"k"), -120_000), (None, -120_000));
    let time = ErrorCode::InvalidTimestamp;
    for (records, code, refused) in [
        (vec![good, keyless, old], time, vec![1, 2]),
        (vec![old, good, keyless], time, vec![0, 2]),
        (vec![good, both], ErrorCode::InvalidRecord, vec![1]),
        (vec![good, old], time, vec![1]),
    ] {
        assert_eq!(answer(Raw::records(&records).bytes(), &rules), (code, true, refused, true));
    }
}

/// The list of refused records ends somewhere; the count does not, nor does the code forget a timestamp behind the end.
#[test]
fn the_list_of_refused_records_is_bounded() {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    for _ in 0..RECORD_REFUSALS_MAX {
        builder.append(NOW, None, None, &[]);
    }
    builder.append(NOW.plus(i64::from(i32::MAX)), Some(b"k"), None, &[]);
    let rules = AppendRules { keys_required: true, ..DEFAULT };
    let refusal = check(builder.build().unwrap().into_bytes(), &rules).unwrap_err();
    assert_eq!(refusal.record_refusals().len(), RECORD_REFUSALS_MAX);
    assert_eq!(refusal.code(), ErrorCode::InvalidTimestamp);
    assert!(matches!(refusal, AppendRefusal::Records { refused_count, .. } if refused_count == 10_001));
}

/// Scenario `produce-attribute-bits`: bits without a meaning are kept, also where the batch is rewritten.
#[test]
fn attribute_bits_are_kept() {
    for bits in [0x80, 0x4000] {
        for max_timestamp in [NOW, Millis(0)] {
            let raw = two().with(|header| {
                header.attributes = Attributes(bits);
                header.max_timestamp = max_timestamp;
            });
            assert_eq!(check(raw.bytes(), &DEFAULT).unwrap().header().attributes, Attributes(bits));
        }
    }
}

#[cfg(feature = "compression")]
mod with_codecs {
    use super::*;
    use crate::compression::tests::{client_payloads, record};
    use crate::walk::RecordError;

    /// Scenario `produce-codecs`: what every client sends is taken, and kept as it is.
    #[test]
    fn codecs_are_kept() {
        for (name, codec, payload) in client_payloads() {
            let bytes = Raw::packed(codec, payload, 6).bytes();
            let validated = check(bytes.clone(), &DEFAULT).expect(name);
            assert_eq!(validated.to_batch().bytes(), &bytes, "{name}");
            assert_eq!(validated.payload().as_ptr(), bytes[HEADER_BYTES..].as_ptr());
        }
    }

    /// Check 8. Scenario `produce-zstd-needs-version-7`; KIP-110.
    #[test]
    fn zstd_needs_version_7() {
        let (_, codec, payload) = client_payloads().pop().unwrap();
        let bytes = Raw::packed(codec, payload, 6).bytes();
        for (produce_version, taken) in [(3, false), (6, false), (7, true), (13, true)] {
            let origin = AppendOrigin::Client { produce_version };
            match validate(Some(bytes.clone()), &DEFAULT, origin, NOW) {
                Ok(_) => assert!(taken),
                Err(refusal) => {
                    assert!(!taken);
                    assert_eq!(refusal.code(), ErrorCode::UnsupportedCompressionType);
                    assert!(!refusal.carries_log_start_offset());
                }
            }
        }
    }

    /// Check 8. Scenarios `produce-compressed-garbage` as wanted, and `produce-compressed-count-mismatch`.
    #[test]
    fn garbage_and_counts() {
        for (name, codec, payload) in client_payloads() {
            assert!(is_invalid_record(Raw::packed(codec, b"\x13garbage".repeat(5), 1).bytes()), "{name}");
            let cut = payload[..payload.len() - 20].to_vec();
            assert!(is_invalid_record(Raw::packed(codec, cut, 6).bytes()), "{name}, cut off");
            for count in [5, 7] {
                let expected = (ErrorCode::InvalidRecord, false, vec![], true);
                assert_eq!(
                    answer(Raw::packed(codec, payload.clone(), count).bytes(), &DEFAULT),
                    expected,
                    "{name}"
                );
            }
        }
    }

    /// Check 11 looks inside compressed batches.
    #[test]
    fn keys_inside_compressed_batches() {
        let plain = Raw::records(&[(Some(b"k"), 0), (None, 0)]).payload;
        let rules = AppendRules { keys_required: true, ..DEFAULT };
        let packed = Compression::new(CompressionType::Gzip).compress(&plain).unwrap();
        let found = answer(Raw::packed(CompressionType::Gzip, packed, 2).bytes(), &rules);
        assert_eq!(found, (ErrorCode::InvalidRecord, true, vec![1], true));
    }

    /// R3. Scenario `produce-topic-compression`: another codec keeps producer, sequence, transactional bit and counts; the
    /// records are the same bytes.
    #[test]
    fn recompression_keeps_the_producer() {
        let plain = two();
        for source in CompressionType::ALL {
            let payload = Compression::new(source).compress(&plain.payload).unwrap();
            let raw = Raw::packed(source, payload, 2).with(|header| {
                header.attributes = header.attributes.with_transactional(true);
                header.producer_id = ProducerId(9);
                header.producer_epoch = ProducerEpoch(3);
                header.base_sequence = Sequence(i32::MAX);
                header.max_timestamp = Millis::NONE;
            });
            let bytes = raw.bytes();
            for target in CompressionType::ALL {
                let rules = AppendRules { compression: Some(Compression::new(target)), ..DEFAULT };
                let validated = check(bytes.clone(), &rules).unwrap();
                let batch = validated.to_batch();
                batch.verify_crc().unwrap();
                let header = batch.header();
                assert_eq!(header.attributes, Attributes(0x10).with_compression(target));
                assert_eq!((header.producer_id, header.producer_epoch), (ProducerId(9), ProducerEpoch(3)));
                assert_eq!((header.base_sequence, header.last_sequence()), (Sequence(i32::MAX), Sequence(0)));
                assert_eq!(
                    (header.record_count, header.last_offset_delta, header.max_timestamp),
                    (2, 1, NOW)
                );
                assert_eq!(batch.plain_payload().unwrap(), plain.payload, "{source} to {target}");
                let kept = validated.payload().as_ptr() == bytes[HEADER_BYTES..].as_ptr();
                assert_eq!(kept, source == target, "{source} to {target}");
            }
        }
    }

    /// Check 3, again where the codec changed: what came small may be too large when unpacked. storage-formats trap 14.
    #[test]
    fn recompressed_batches_are_measured_again() {
        let (_, codec, payload) = client_payloads().swap_remove(0);
        let bytes = Raw::packed(codec, payload, 6).bytes();
        let size = bytes.len() as i32;
        let rules = AppendRules { message_bytes_max: size, ..DEFAULT };
        assert!(check(bytes.clone(), &rules).is_ok());
        let unpacked = AppendRules { compression: Some(Compression::NONE), ..rules };
        let found = check(bytes.clone(), &unpacked).unwrap_err();
        assert!(matches!(found, AppendRefusal::TooLarge { bytes, .. } if bytes as i32 > size));
        let segment = AppendRules { message_bytes_max: i32::MAX, segment_bytes: size, ..unpacked };
        assert!(matches!(check(bytes, &segment).unwrap_err(), AppendRefusal::LargerThanSegment { .. }));
    }

    /// Issue 12, C20: a record of a compressed batch may have as many plain bytes as `max.decompressed.message.bytes` says, its
    /// length aside; records that come plain are not measured, and how many there are does not matter.
    #[test]
    fn the_limit_is_for_each_record() {
        // A body of 8 bytes.
        let record = b"\x10\x00\x00\x00\x01\x04ab\x00".to_vec();
        let packed = |codec| {
            let packed = Compression::new(codec).compress(&record).unwrap();
            Raw::packed(codec, packed, 1).bytes()
        };
        for codec in
            [CompressionType::Gzip, CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd]
        {
            for compression in [None, Some(Compression::NONE)] {
                let limited = |most| AppendRules { compression, record_bytes_max: most, ..DEFAULT };
                assert!(check(packed(codec), &limited(8)).is_ok());
                let refusal = check(packed(codec), &limited(7)).unwrap_err();
                let too_large = RecordError::TooLarge { bytes: 8, bytes_max: 7 };
                assert_eq!(refusal, AppendRefusal::Malformed(too_large));
                assert_eq!((refusal.code(), refusal.message(&"t-0")), (ErrorCode::InvalidRecord, None));
            }
        }
        let limited = AppendRules { record_bytes_max: 1, ..DEFAULT };
        assert!(check(Raw::new(record, 1).bytes(), &limited).is_ok());
    }

    /// Issue 12, C20: a batch may inflate to any size, kept as it is or brought to another codec; what is too large in the new
    /// codec is refused with the code that makes the Java client split the batch.
    #[test]
    fn batches_inflate_to_any_size() {
        let record = record(None, 16 * 1024 * 1024);
        let packed = Compression::new(CompressionType::Zstd).compress(&record).unwrap();
        assert!(packed.len() * 2_048 < record.len(), "{} bytes are no bomb", packed.len());
        let bytes = Raw::packed(CompressionType::Zstd, packed, 1).bytes();
        for target in [None, Some(CompressionType::Gzip), Some(CompressionType::Lz4)] {
            let rules = AppendRules { compression: target.map(Compression::new), ..DEFAULT };
            assert!(check(bytes.clone(), &rules).is_ok(), "{target:?}");
        }
        let plain = AppendRules { compression: Some(Compression::NONE), ..DEFAULT };
        let refusal = check(bytes, &plain).unwrap_err();
        assert!(matches!(refusal, AppendRefusal::TooLarge { .. }), "{refusal}");
        assert_eq!(refusal.code(), ErrorCode::MessageTooLarge);
    }
}
