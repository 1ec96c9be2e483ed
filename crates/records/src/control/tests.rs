use super::*;
use crate::compression::Compression;
use fencepost_types::TransactionResult::{Abort, Commit};

const T: i64 = 1_700_000_000_000;

fn marker(result: TransactionResult) -> EndTxnMarker {
    EndTxnMarker { result, coordinator_epoch: CoordinatorEpoch(3) }
}

fn marker_batch(result: TransactionResult) -> Batch {
    marker(result).to_batch(Offset(42), LeaderEpoch(5), ProducerId(1000), ProducerEpoch(4), Millis(T))
}

/// storage-formats trap 5, §17: the commit marker, 78 bytes, byte for byte, with a version before the epoch.
#[test]
fn marker_vector_both_ways() {
    let text = "000000000000002a00000042000000050223f1f13a0030000000000000018bcf\
        e568000000018bcfe5680000000000000003e80004ffffffff00000001200000\
        0008000000010c00000000000300";
    let batch = marker_batch(Commit);
    assert_eq!(hex::encode(batch.bytes()), text);
    assert_eq!(batch.bytes().len(), 78);
    assert_eq!(EndTxnMarker::from_batch(&batch), Ok(Some(marker(Commit))));
    assert_eq!(EndTxnMarker::from_batch(&marker_batch(Abort)), Ok(Some(marker(Abort))));
    assert!(batch.header().is_control() && batch.header().is_transactional());
    assert_eq!(batch.header().base_sequence, Sequence::NONE);
}

/// Readers take any version of the key and a longer one; higher versions of the value are read as version 0, whatever
/// follows the epoch.
#[test]
fn later_versions_are_read() {
    let read = |key: &[u8], value: &[u8]| EndTxnMarker::from_record(Some(key), Some(value));
    assert_eq!(read(&[0, 9, 0, 1, 7, 7], &[0, 5, 0, 0, 0, 3, 9, 9]), Ok(Some(marker(Commit))));
    assert_eq!(read(&[0, 0, 0, 0], &[0, 0, 0, 0, 0, 3]), Ok(Some(marker(Abort))));
    assert_eq!(read(&[0, 0, 0], &[0; 6]), Err(ControlError::Key));
    assert_eq!(read(&[0xff, 0xff, 0, 0], &[0; 6]), Err(ControlError::Key));
    assert_eq!(read(&[0, 0, 0, 0], &[0; 5]), Err(ControlError::MarkerValue));
    assert_eq!(read(&[0, 0, 0, 0], &[0x80, 0, 0, 0, 0, 0]), Err(ControlError::MarkerValue));
    assert_eq!(EndTxnMarker::from_record(None, None), Err(ControlError::Key));
    assert_eq!(EndTxnMarker::from_record(Some(&[0; 4]), None), Err(ControlError::MarkerValue));
}

/// Types that are not markers, known or not, are left out (storage-formats §3).
#[test]
fn other_types_are_not_markers() {
    for id in 2..9 {
        let record_type = ControlRecordType::from_id(id);
        assert_eq!(record_type.id(), id);
        assert_eq!(EndTxnMarker::from_record(Some(&record_type.key()), None), Ok(None), "{record_type:?}");
    }
    assert_eq!(ControlRecordType::from_id(-3), ControlRecordType::Unknown(-3));
}

/// producer-state §7.1: an empty control batch changes nothing; a batch of data is no marker.
#[test]
fn empty_control_batches_and_data() {
    let empty = BatchBuilder::rewrite(marker_batch(Commit).header(), Compression::NONE).build().unwrap();
    assert!(empty.header().is_control());
    assert_eq!(EndTxnMarker::from_batch(&empty), Ok(None));
    let mut data = BatchBuilder::new(Offset(0), LeaderEpoch(0));
    data.append(Millis(T), Some(&ControlRecordType::Commit.key()), Some(&marker(Commit).value()), &[]);
    assert_eq!(EndTxnMarker::from_batch(&data.build().unwrap()), Ok(None));
}

/// storage-formats trap 35: with a delete horizon a marker has 81 bytes, 82 when more than 37 hours from it.
#[test]
fn markers_grow_with_a_horizon() {
    let first = marker_batch(Commit);
    for (hours, bytes) in [(24, 81), (37, 81), (38, 82)] {
        let horizon = Millis(T + hours * 3_600_000);
        let mut builder = BatchBuilder::rewrite(first.header(), Compression::NONE).delete_horizon(horizon);
        let record = first.records().unwrap().next().unwrap().unwrap();
        builder.append(Millis(T), record.key.as_deref(), record.value.as_deref(), &[]);
        let later = builder.build().unwrap();
        assert_eq!(later.bytes().len(), bytes, "{hours} hours");
        assert_eq!(later.header().attributes.0, 0x70);
        assert_eq!(later.header().max_timestamp, Millis(T));
        assert_eq!(EndTxnMarker::from_batch(&later), Ok(Some(marker(Commit))));
    }
}
