//! The frame, and what is refused.

use alloc::vec::Vec;

use super::*;
use fencepost_records::persisted::broker_registration_change_record::BrokerRegistrationChangeRecord;
use fencepost_records::persisted::no_op_record::NoOpRecord;
use fencepost_records::persisted::topic_record::TopicRecord;
use fencepost_types::Uuid;

fn read(bytes: &[u8]) -> Result<VersionedRecord, RecordError> {
    VersionedRecord::from_value(&Bytes::copy_from_slice(bytes))
}

/// A frame is 1, type, version, message; bytes left over are an error (cluster §6.1).
#[test]
fn the_frame() {
    let no_op = MetadataRecord::from(NoOpRecord {}).at(MetadataVersion(27));
    assert_eq!(&no_op.to_value()[..], [1, 20, 0, 0]);
    assert_eq!(read(&[1, 20, 0, 0]), Ok(no_op));
    assert_eq!(read(&[1, 20, 0, 0, 9]), Err(RecordError::BytesLeft { count: 1 }));
    assert_eq!(read(&[0, 20, 0, 0]), Err(RecordError::UnknownFrame { version: 0 }));
    assert_eq!(read(&[1, 20]), Err(RecordError::Malformed(DecodeError::Truncated)));
}

/// Types and versions that Kafka 4.4 does not have are errors, never skipped (cluster §6.3, DANGER).
#[test]
fn unknown_types_and_versions_are_errors() {
    for code in [6, 13, 16, 30, 127] {
        assert_eq!(read(&[1, code, 0, 0]), Err(RecordError::UnknownType { code: u32::from(code) }));
    }
    for (code, version) in [(0, 5), (3, 3), (5, 3), (17, 4), (2, 1)] {
        let error = RecordError::UnknownVersion { code: u32::from(code), version };
        assert_eq!(read(&[1, code, version as u8, 0]), Err(error));
    }
    let value = Bytes::from_static(&[1, 30, 0, 0]);
    assert_eq!(VersionedRecord::decode(None, Some(&value)), Err(DecodeError::UnsupportedVersion));
    assert_eq!(VersionedRecord::decode(None, None), Err(DecodeError::UnexpectedNull));
}

/// A change of a registration has the lowest version that holds its fields (storage-formats §15).
#[test]
fn registration_changes_have_the_lowest_version() {
    let level = MetadataVersion(33);
    let version = |change: BrokerRegistrationChangeRecord| MetadataRecord::from(change).at(level).version;
    let change = BrokerRegistrationChangeRecord::default;
    assert_eq!(version(BrokerRegistrationChangeRecord { fenced: 1, ..change() }), 0);
    assert_eq!(version(BrokerRegistrationChangeRecord { in_controlled_shutdown: 1, ..change() }), 1);
    assert_eq!(version(BrokerRegistrationChangeRecord { log_dirs: Vec::from([Uuid::ZERO]), ..change() }), 2);
    assert_eq!(
        version(BrokerRegistrationChangeRecord { cordoned_log_dirs: Some(Vec::new()), ..change() }),
        3
    );
}

/// Any bytes are a record or an error, never a panic.
#[test]
fn hostile_bytes_are_errors() {
    let good = MetadataRecord::from(TopicRecord { name: "t".into(), topic_id: Uuid::from_random(5) });
    let good = good.at(MetadataVersion(27)).to_value();
    for end in 0..good.len() {
        assert!(read(&good[..end]).is_err(), "cut at {end}");
    }
    for code in 0..32 {
        for version in 0..5 {
            let mut bytes = Vec::from([1, code, version]);
            bytes.extend([0xff; 40]);
            let _ = read(&bytes);
        }
    }
}
