//! Segment files that Apache Kafka wrote: every batch decodes, its checksum is right, its records are those expected,
//! and what a leader would make of the producer's batch is, byte for byte, what Kafka made of it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use fencepost_records::*;
use fencepost_types::{LeaderEpoch, Millis, Offset, ProducerId, Sequence, TransactionResult};
use serde_json::{Value, json};

fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/logs")
}

/// The batches of one file, all of it.
fn batches(path: &Path) -> Vec<Batch> {
    let mut batches = Batches::new(std::fs::read(path).expect("testdata is there").into());
    let found = batches.by_ref().collect::<Result<_, _>>().expect("batches only");
    assert!(batches.rest().is_empty(), "nothing is left of {}", path.display());
    found
}

/// The batches of a partition, over all its files in order.
fn partition(name: &str) -> Vec<Batch> {
    let mut files: Vec<_> =
        std::fs::read_dir(logs().join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| batches(file)).collect()
}

fn records(batch: &Batch) -> Vec<Record> {
    batch.records().unwrap().collect::<Result<_, _>>().unwrap()
}

fn text(bytes: &Bytes) -> Value {
    match core::str::from_utf8(bytes) {
        Ok(text) if text.bytes().all(|byte| (32..127).contains(&byte)) => json!(text),
        _ => json!(format!("hex:{}", hex::encode(bytes))),
    }
}

fn record_as_json(header: &BatchHeader, record: &Record) -> Value {
    let headers: Vec<_> = record
        .headers
        .iter()
        .map(|header| json!([text(&header.key), header.value.as_ref().map(text)]))
        .collect();
    json!({
        "offset": header.record_offset(record.offset_delta).0,
        "timestamp": header.record_timestamp(record.timestamp_delta).0,
        "key": record.key.as_ref().map(text),
        "value": record.value.as_ref().map(text),
        "headers": headers,
    })
}

fn marker_as_json(batch: &Batch) -> Value {
    let record = records(batch).remove(0);
    let key = record.key.unwrap();
    let value = record.value.unwrap();
    let marker = EndTxnMarker::from_batch(batch).unwrap().unwrap();
    let (id, name) = match marker.result {
        TransactionResult::Abort => (0, "ABORT"),
        TransactionResult::Commit => (1, "COMMIT"),
    };
    json!({
        "key_version": i16::from_be_bytes([key[0], key[1]]),
        "type": id,
        "name": name,
        "version": i16::from_be_bytes([value[0], value[1]]),
        "coordinator_epoch": marker.coordinator_epoch.0,
        "value_bytes": value.len(),
    })
}

fn batch_as_json(position: usize, batch: &Batch) -> Value {
    let header = batch.header();
    let mut found = json!({
        "position": position,
        "size": header.total_bytes(),
        "base_offset": header.base_offset.0,
        "last_offset": header.last_offset().0,
        "leader_epoch": header.leader_epoch.0,
        "crc": header.crc,
        "codec": header.compression().unwrap().name(),
        "timestamp_type": format!("{:?}", header.timestamp_type()),
        "transactional": header.is_transactional(),
        "control": header.is_control(),
        "delete_horizon": header.delete_horizon().is_some(),
        "base_timestamp": header.base_timestamp.0,
        "max_timestamp": header.max_timestamp.0,
        "producer_id": header.producer_id.0,
        "producer_epoch": header.producer_epoch.0,
        "base_sequence": header.base_sequence.0,
        "count": header.record_count,
    });
    if header.is_control() {
        found["marker"] = marker_as_json(batch);
    } else {
        found["records"] = records(batch).iter().map(|record| record_as_json(header, record)).collect();
    }
    found
}

/// Every field of every batch and record, with every codec and client.
#[test]
fn every_file_reads_as_expected() {
    let expected = std::fs::read_to_string(logs().join("expected.json")).unwrap();
    let expected: serde_json::Map<String, Value> = serde_json::from_str(&expected).unwrap();
    assert_eq!(expected.len(), 24);
    for (file, expected) in expected {
        let mut position = 0;
        let mut found = Vec::new();
        for batch in batches(&logs().join(&file)) {
            batch.verify_crc().unwrap();
            let mut count = 0;
            batch.walk_records(|_| count += 1).unwrap();
            assert_eq!(count, batch.header().record_count);
            found.push(batch_as_json(position, &batch));
            position += batch.bytes().len();
        }
        assert_eq!(Value::from(found), expected, "{file}");
    }
}

/// Whatever the header, it is written as it was read.
#[test]
fn headers_are_written_as_read() {
    for directory in std::fs::read_dir(logs()).unwrap().map(|entry| entry.unwrap()) {
        if !directory.file_type().unwrap().is_dir() {
            continue;
        }
        for batch in partition(directory.file_name().to_str().unwrap()) {
            assert_eq!(batch.header().encode(), batch.bytes()[..HEADER_BYTES]);
            assert_eq!(batch.header().compute_crc(&batch.payload()), batch.header().crc);
            assert!(records(&batch).len() <= (batch.last_offset().0 - batch.base_offset().0 + 1) as usize);
        }
    }
}

/// The batch as its producer sent it: without place, and with `change`.
fn as_produced(batch: &Batch, change: impl FnOnce(&mut BatchHeader)) -> Bytes {
    let mut header = *batch.header();
    header.base_offset = Offset(0);
    header.leader_epoch = LeaderEpoch::NONE;
    change(&mut header);
    header.crc = header.compute_crc(&batch.payload());
    [&header.encode()[..], &batch.payload()].concat().into()
}

fn append(produced: Bytes, like: &Batch, rules: &AppendRules) -> Batch {
    let origin = AppendOrigin::Client { produce_version: 12 };
    let mut validated = validate(Some(produced), rules, origin, like.header().max_timestamp).unwrap();
    validated.place(like.base_offset(), like.header().leader_epoch);
    validated.to_batch()
}

/// What a leader writes is what Kafka wrote, byte for byte: CreateTime with the maximum timestamp told wrong.
#[test]
fn produced_batches_are_written_as_kafka_wrote_them() {
    for name in ["codecs-0", "plain-0", "bytime-0", "expired-0", "txns-0", "txns-1"] {
        for batch in partition(name).iter().filter(|batch| !batch.header().is_control()) {
            let produced = as_produced(batch, |header| header.max_timestamp = Millis(5));
            assert_eq!(&append(produced, batch, &AppendRules::default()), batch, "{name}");
        }
    }
}

/// The same under LogAppendTime, from batches that claim no append time.
#[test]
fn append_time_is_written_as_kafka_wrote_it() {
    let rules = AppendRules { timestamp_type: TimestampType::LogAppendTime, ..AppendRules::default() };
    let batches = partition("appendtime-0");
    assert!(batches.len() > 10);
    for batch in &batches {
        let produced = as_produced(batch, |header| {
            header.attributes = header.attributes.with_timestamp_type(TimestampType::CreateTime);
            header.max_timestamp = header.base_timestamp;
        });
        assert_eq!(&append(produced, batch, &rules), batch);
    }
}

/// A topic with its own codec: other bytes may come out, but the header's fields and the records are those that Kafka
/// wrote (R3).
#[test]
fn recompressed_batches_hold_what_kafkas_hold() {
    let zstd = Compression::new(CompressionType::Zstd);
    let rules = AppendRules { compression: Some(zstd), ..AppendRules::default() };
    for batch in partition("recompressed-0") {
        assert_eq!(batch.compression(), Ok(CompressionType::Zstd));
        for sent in CompressionType::ALL {
            let header = batch.header();
            let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE)
                .producer(header.producer_id, header.producer_epoch, header.base_sequence)
                .compression(Compression::new(sent));
            for record in records(&batch) {
                let timestamp = header.record_timestamp(record.timestamp_delta);
                builder.append(timestamp, record.key.as_deref(), record.value.as_deref(), &record.headers);
            }
            let written = append(builder.build().unwrap().into_bytes(), &batch, &rules);
            written.verify_crc().unwrap();
            let same =
                BatchHeader { batch_length: header.batch_length, crc: header.crc, ..*written.header() };
            assert_eq!(&same, header);
            assert_eq!(records(&written), records(&batch));
        }
    }
}

/// A batch built anew from the records of a plain one is the same batch, compacted or not (storage-formats traps 22, 35).
#[test]
fn plain_batches_are_built_as_kafka_built_them() {
    let mut built = 0;
    for name in ["codecs-0", "plain-0", "bytime-0", "expired-0", "txns-0", "txns-1", "compacted-0"] {
        for batch in partition(name) {
            let header = batch.header();
            if header.compression() != Some(CompressionType::None) {
                continue;
            }
            let mut builder = BatchBuilder::rewrite(header, Compression::NONE);
            for record in records(&batch) {
                let timestamp = header.record_timestamp(record.timestamp_delta);
                let (key, value) = (record.key.as_deref(), record.value.as_deref());
                builder.append_at(record.offset_delta, timestamp, key, value, &record.headers);
            }
            assert_eq!(builder.build().unwrap(), batch, "{name} at {}", batch.base_offset());
            built += 1;
        }
    }
    assert!(built > 80, "{built} batches");
}

/// storage-formats trap 35, §3: markers have 78 bytes as appended and 81 or 82 after compaction; our own are
/// Kafka's, byte for byte.
#[test]
fn markers_are_built_as_kafka_built_them() {
    let mut built = 0;
    for batch in
        ["txns-0", "txns-1"].into_iter().flat_map(partition).filter(|batch| batch.header().is_control())
    {
        let header = batch.header();
        let marker = EndTxnMarker::from_batch(&batch).unwrap().unwrap();
        let ours = marker.to_batch(
            header.base_offset,
            header.leader_epoch,
            header.producer_id,
            header.producer_epoch,
            header.max_timestamp,
        );
        assert_eq!(ours, batch);
        assert_eq!(batch.bytes().len(), 78);
        built += 1;
    }
    assert_eq!(built, 20, "markers");
    let compacted: Vec<_> =
        partition("compacted-0").into_iter().filter(|b| b.header().is_control()).collect();
    let with_horizon = compacted.iter().filter(|batch| batch.header().delete_horizon().is_some());
    assert!(with_horizon.clone().count() > 5);
    assert!(with_horizon.into_iter().all(|batch| [81, 82].contains(&batch.bytes().len())));
}

/// storage-formats trap 17: the coordinators' batches carry sequence 0 without a producer, or none at all.
#[test]
fn coordinator_batches() {
    let offsets = partition("consumer-offsets");
    let plain: Vec<_> = offsets.iter().filter(|batch| !batch.header().is_transactional()).collect();
    assert!(plain.len() > 5);
    for batch in plain {
        batch.verify_crc().unwrap();
        assert_eq!(batch.header().base_sequence, Sequence(0));
        assert_eq!(batch.header().producer_id, ProducerId::NONE);
    }
    for batch in partition("transaction-state") {
        batch.verify_crc().unwrap();
        assert_eq!(batch.header().base_sequence, Sequence::NONE);
        assert_eq!(batch.header().record_count, 1);
    }
}

/// storage-formats trap 35, §3: KRaft's control records come several to a batch, and are no markers.
#[test]
fn kraft_control_batches() {
    use ControlRecordType::*;
    let types = |batch: &Batch| -> Vec<_> {
        let keys = records(batch).into_iter().map(|record| record.key);
        keys.map(|key| ControlRecordType::from_key(key.as_deref()).unwrap()).collect()
    };
    let control: Vec<_> = ["metadata-snapshot", "metadata-voters"]
        .into_iter()
        .flat_map(partition)
        .filter(|batch| batch.header().is_control())
        .collect();
    assert_eq!(types(&control[0]), [SnapshotHeader, KRaftVersion, KRaftVoters]);
    assert_eq!(types(&control[1]), [SnapshotFooter]);
    assert_eq!(types(&control[2]), [LeaderChange, KRaftVersion, KRaftVoters]);
    for batch in control {
        batch.verify_crc().unwrap();
        assert!(!batch.header().is_transactional());
        assert_eq!(EndTxnMarker::from_batch(&batch), Ok(None));
    }
}
