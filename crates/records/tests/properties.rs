//! What holds for any records, and for any bytes.

use bytes::Bytes;
use fencepost_records::*;
use fencepost_types::{LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence};
use proptest::prelude::*;

type Field = Option<Vec<u8>>;

#[derive(Clone, Debug)]
struct Input {
    timestamp: i64,
    key: Field,
    value: Field,
    headers: Vec<(Vec<u8>, Field)>,
}

fn input() -> impl Strategy<Value = Input> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let field = move || proptest::option::of(bytes());
    let headers = proptest::collection::vec((bytes(), field()), 0..4);
    // Times a producer may send: the present, and any past.
    (0..1_700_000_000_000i64, field(), field(), headers).prop_map(|(timestamp, key, value, headers)| Input {
        timestamp,
        key,
        value,
        headers,
    })
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    proptest::collection::vec(input(), 1..20)
}

fn codec() -> impl Strategy<Value = CompressionType> {
    proptest::sample::select(CompressionType::ALL.to_vec())
}

fn build(inputs: &[Input], codec: CompressionType) -> Batch {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE)
        .producer(ProducerId(7), ProducerEpoch(2), Sequence(i32::MAX - 3))
        .transactional(true)
        .compression(Compression::new(codec));
    for Input { timestamp, key, value, headers } in inputs {
        let headers: Vec<_> = headers
            .iter()
            .map(|(key, value)| RecordHeader {
                key: key.clone().into(),
                value: value.clone().map(Bytes::from),
            })
            .collect();
        builder.append(Millis(*timestamp), key.as_deref(), value.as_deref(), &headers);
    }
    builder.build().unwrap()
}

fn read(batch: &Batch) -> Vec<Input> {
    let field = |field: Option<Bytes>| field.map(|bytes| bytes.to_vec());
    let records = batch.records().unwrap().map(|record| record.unwrap());
    records
        .enumerate()
        .map(|(index, record)| {
            assert_eq!(record.offset_delta, index as i32);
            Input {
                timestamp: batch.header().record_timestamp(record.timestamp_delta).0,
                key: field(record.key),
                value: field(record.value),
                headers: record.headers.into_iter().map(|h| (h.key.to_vec(), field(h.value))).collect(),
            }
        })
        .collect()
}

fn rules() -> impl Strategy<Value = AppendRules> {
    (any::<bool>(), any::<bool>(), proptest::option::of(codec())).prop_map(
        |(append_time, keys_required, codec)| AppendRules {
            timestamp_type: if append_time {
                TimestampType::LogAppendTime
            } else {
                TimestampType::CreateTime
            },
            keys_required,
            compression: codec.map(Compression::new),
            ..AppendRules::default()
        },
    )
}

const NOW: Millis = Millis(1_700_000_000_000);
const CLIENT: AppendOrigin = AppendOrigin::Client { produce_version: 13 };

/// Where the records of a request begin to be records: right header fields, so that mutations get past the checksum.
fn with_right_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Ok(header) = BatchHeader::parse(&bytes) {
        let length = (bytes.len() - LOG_OVERHEAD_BYTES) as i32;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let crc = BatchHeader { batch_length: length, ..header }.compute_crc(&bytes[HEADER_BYTES..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

/// What any validated batch is: right checksum, records that read, counts that agree.
fn assert_sound(validated: &ValidatedBatch, now: Millis) {
    let batch = validated.to_batch();
    batch.verify_crc().unwrap();
    let header = batch.header();
    let mut index = 0;
    let mut timestamps = vec![Millis::NONE];
    batch
        .walk_records(|record| {
            assert_eq!(record.offset_delta, index);
            timestamps.push(header.record_timestamp(record.timestamp_delta));
            index += 1;
        })
        .unwrap();
    assert_eq!((index, index - 1), (header.record_count, header.last_offset_delta));
    match header.timestamp_type() {
        TimestampType::CreateTime => assert_eq!(Some(&header.max_timestamp), timestamps.iter().max()),
        TimestampType::LogAppendTime => assert_eq!(header.max_timestamp, now),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// What is built is read back, with every codec, and once more after parsing its bytes.
    #[test]
    fn built_records_are_read_back(inputs in inputs(), codec in codec()) {
        let batch = build(&inputs, codec);
        batch.verify_crc().unwrap();
        let parsed = Batch::parse(batch.bytes().clone()).unwrap();
        prop_assert_eq!(&parsed, &batch);
        prop_assert_eq!(format!("{:?}", read(&parsed)), format!("{inputs:?}"));
        prop_assert_eq!(batch.header().max_timestamp.0, inputs.iter().map(|input| input.timestamp).max().unwrap());
    }

    /// A right batch is taken or refused for what its topic asks; taken, it holds the same records of the same producer,
    /// whatever the codec of the topic (R3).
    #[test]
    fn validated_records_are_the_same(inputs in inputs(), codec in codec(), rules in rules()) {
        let batch = build(&inputs, codec);
        match validate(Some(batch.bytes().clone()), &rules, CLIENT, NOW) {
            Ok(validated) => {
                assert_sound(&validated, NOW);
                let (found, sent) = (validated.header(), batch.header());
                prop_assert_eq!(found.producer_id, sent.producer_id);
                prop_assert_eq!(found.producer_epoch, sent.producer_epoch);
                prop_assert_eq!((found.base_sequence, found.last_sequence()), (sent.base_sequence, sent.last_sequence()));
                prop_assert!(found.is_transactional() && !found.is_control());
                prop_assert_eq!(found.base_timestamp, sent.base_timestamp);
                let target = rules.compression.map_or(codec, |target| target.codec);
                prop_assert_eq!(found.compression(), Some(target));
                if target == codec {
                    prop_assert_eq!(validated.payload().as_ptr(), batch.bytes()[HEADER_BYTES..].as_ptr());
                }
                let (mut found, mut sent) = (read(&validated.to_batch()), inputs);
                if rules.timestamp_type == TimestampType::LogAppendTime {
                    found.iter_mut().chain(&mut sent).for_each(|input| input.timestamp = 0);
                }
                prop_assert_eq!(format!("{found:?}"), format!("{sent:?}"));
            }
            Err(refusal) => {
                let keyless = inputs.iter().filter(|input| input.key.is_none()).count();
                prop_assert!(rules.keys_required && keyless > 0, "{refusal}");
                prop_assert_eq!(refusal.record_refusals().len(), keyless);
            }
        }
    }

    /// R2: bytes that no client would send are refused, and never more than that.
    #[test]
    fn garbage_is_refused(garbage: Vec<u8>, rules in rules()) {
        prop_assert!(validate(Some(garbage.into()), &rules, CLIENT, NOW).is_err());
    }

    /// R2: a good batch with bytes changed, added or cut away, its length and checksum made right again: whatever is
    /// taken of it is sound.
    #[test]
    fn mutated_batches_are_sound_or_refused(
        inputs in inputs(),
        codec in codec(),
        rules in rules(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in any::<prop::sample::Index>(),
        added in proptest::collection::vec(any::<u8>(), 0..3),
        own: bool,
    ) {
        let mut bytes = build(&inputs, codec).bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut.index(4) == 0 {
            let length = cut.index(bytes.len());
            bytes.truncate(length.max(HEADER_BYTES));
        }
        bytes.extend(added);
        let bytes = Bytes::from(with_right_checksum(bytes));
        let origin = if own { AppendOrigin::Coordinator } else { CLIENT };
        if let Ok(validated) = validate(Some(bytes.clone()), &rules, origin, NOW) {
            assert_sound(&validated, NOW);
        }
        // Reading a log with such a batch in it is just as safe.
        for batch in Batches::new(bytes).flatten() {
            let _ = batch.records().map(|records| records.count());
            let _ = EndTxnMarker::from_batch(&batch);
            let _ = (batch.last_offset(), batch.header().last_sequence(), batch.header().next_offset());
        }
    }

    /// R2: any 61 bytes are a header or an error, and a header is written as it was read.
    #[test]
    fn headers_round_trip(mut bytes in proptest::collection::vec(any::<u8>(), HEADER_BYTES)) {
        bytes[16] = 2;
        if let Ok(header) = BatchHeader::parse(&bytes) {
            prop_assert_eq!(&header.encode()[..], &bytes[..]);
            prop_assert!(header.total_bytes() >= HEADER_BYTES);
            let _ = (header.last_offset(), header.next_offset(), header.last_sequence());
            let _ = header.record_timestamp(i64::MAX);
        }
    }
}
