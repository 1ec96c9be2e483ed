//! What Kafka calls malformed and what it lets pass (wire-apis §2), one test a rule.

use bytes::Bytes;
use fencepost_protocol::messages::*;
use fencepost_protocol::{ApiKey, RequestBody, RequestHeader};
use fencepost_types::wire::{DecodeError, Decoded, Reader, Writer};

fn decode(api_key: ApiKey, version: i16, bytes: &[u8]) -> Decoded<RequestBody> {
    RequestBody::decode(api_key, version, &mut Reader::new(Bytes::copy_from_slice(bytes)))
}

fn metadata(version: i16, bytes: &[u8]) -> Decoded<MetadataRequest> {
    MetadataRequest::decode(&mut Reader::new(Bytes::copy_from_slice(bytes)), version)
}

/// Versions that an API does not have are refused, on either side.
#[test]
fn unknown_versions_are_refused() {
    for version in [-1, 2, 14] {
        assert_eq!(decode(ApiKey::Produce, version, &[0; 64]), Err(DecodeError::UnsupportedVersion));
    }
    assert_eq!(ApiKey::from_code(4), None);
}

/// Null topics mean all from version 1 on; in version 0 null is malformed and empty means all.
#[test]
fn null_passes_only_where_it_is_allowed() {
    assert_eq!(metadata(0, &[0xff; 4]), Err(DecodeError::UnexpectedNull));
    assert_eq!(metadata(0, &[0; 4]).unwrap().topics, Some(vec![]));
    assert_eq!(metadata(1, &[0xff; 4]).unwrap().topics, None);
    assert_eq!(metadata(9, &[0, 1, 0, 0, 0]).unwrap().topics, None);
    assert_eq!(metadata(9, &[1, 1, 0, 0, 0]).unwrap().topics, Some(vec![]));
}

/// A length below −1 is null like −1; so is the largest varint.
#[test]
fn lengths_below_minus_one_are_null() {
    for length in [-2, i32::MIN] {
        assert_eq!(metadata(1, &length.to_be_bytes()).unwrap().topics, None);
    }
    assert_eq!(metadata(9, &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 0, 0]).unwrap().topics, None);
}

/// Five bytes are a varint whatever their bits, six are not.
#[test]
fn varints_have_at_most_five_bytes() {
    assert_eq!(metadata(9, &[0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0]).unwrap().topics, None);
    assert_eq!(metadata(9, &[0x80, 0x80, 0x80, 0x80, 0x00, 0, 0, 0, 0]).unwrap().topics, None);
    let six = [0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0, 0, 0];
    assert_eq!(metadata(9, &six), Err(DecodeError::VarintTooLong));
}

/// Any byte but zero is true; bytes behind the body pass; a name need not be UTF-8.
#[test]
fn leniencies() {
    let body = metadata(4, &[0, 0, 0, 1, 0, 2, 0xc3, 0x28, 7, 1, 2, 3]).unwrap();
    assert!(body.allow_auto_topic_creation);
    assert_eq!(body.topics.unwrap()[0].name.as_deref(), Some("\u{fffd}("));
}

/// A tag that only later versions of the message have is malformed, as it is to Kafka.
#[test]
fn tags_of_other_versions_are_refused() {
    let body = |version: i16, tags: &[u8]| {
        let mut w = Writer::new();
        FetchRequest::default().encode(&mut w, version);
        let mut bytes = w.into_bytes().to_vec();
        bytes.pop();
        bytes.extend(tags);
        FetchRequest::decode(&mut Reader::new(bytes.into()), version)
    };
    let replica_state = [1, 1, 13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0];
    assert_eq!(body(15, &replica_state).unwrap().replica_state.replica_epoch, 2);
    assert_eq!(body(12, &replica_state), Err(DecodeError::UnexpectedTag));
    // Differs from Kafka, which does not look at the size of a tag that it knows: the size must be the field's own.
    let mut longer = replica_state.to_vec();
    longer[2] += 1;
    longer.push(0);
    assert_eq!(body(15, &longer), Err(DecodeError::TaggedFieldSize));
}

/// Tags that are not known here are skipped, in any order and also repeated.
#[test]
fn unknown_tags_are_skipped() {
    assert!(metadata(9, &[0, 1, 0, 0, 3, 101, 1, 9, 100, 0, 100, 2, 1, 2]).is_ok());
    let list: fn(&[u8]) -> Decoded<RequestBody> = |bytes| decode(ApiKey::ListTransactions, 0, bytes);
    assert!(list(&[1, 1, 1, 5, 1, 0]).is_ok());
    // One tag too few, one larger than what is left, two thousand million of them.
    assert_eq!(list(&[1, 1, 2, 5, 1, 0]), Err(DecodeError::Truncated));
    assert_eq!(list(&[1, 1, 1, 5, 2, 0]), Err(DecodeError::Truncated));
    assert_eq!(list(&[1, 1, 0xff, 0xff, 0xff, 0xff, 0x07]), Err(DecodeError::Truncated));
}

/// Strings above 32767 bytes are malformed even where the bytes are there.
#[test]
fn long_strings_are_refused() {
    let long = |length: usize| {
        let mut bytes =
            vec![0x80 | (length + 1) as u8, 0x80 | ((length + 1) >> 7) as u8, ((length + 1) >> 14) as u8];
        bytes.extend(vec![b'a'; length]);
        bytes.extend([0, 0]);
        decode(ApiKey::FindCoordinator, 3, &bytes)
    };
    assert!(long(32_767).is_ok());
    assert_eq!(long(32_768), Err(DecodeError::StringTooLong));
}

/// Wire-apis trap 29: eight bytes that announce two thousand million topics are refused before anything is reserved.
#[test]
fn a_count_beyond_the_bytes_is_refused() {
    assert_eq!(metadata(0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]), Err(DecodeError::Truncated));
    // Two names of at least two bytes each do not fit into three bytes.
    assert_eq!(metadata(0, &[0, 0, 0, 2, 0, 0, 0]), Err(DecodeError::Truncated));
    assert!(metadata(0, &[0, 0, 0, 2, 0, 0, 0, 0]).is_ok());
}

/// The client id has the old encoding in both header versions; the second ends with tags, which are skipped.
#[test]
fn request_headers() {
    let header = |bytes: &[u8]| RequestHeader::decode(&mut Reader::new(Bytes::copy_from_slice(bytes)));
    let old = header(&[0, 3, 0, 8, 0, 0, 0, 7, 0xff, 0xff]).unwrap();
    assert_eq!((old.api_key(), old.correlation_id, old.client_id), (Some(ApiKey::Metadata), 7, None));
    let new = header(&[0, 3, 0, 9, 0, 0, 0, 7, 0, 1, b'c', 1, 5, 1, 9]).unwrap();
    assert_eq!(new.client_id.as_deref(), Some("c"));
    assert_eq!(header(&[0, 3, 0, 9, 0, 0, 0, 7, 0, 1, b'c']), Err(DecodeError::Truncated));
    // An unknown key is told from its header, so that it can be named when the connection is closed.
    let unknown = header(&[0, 4, 0, 0, 0, 0, 0, 7, 0, 0]).unwrap();
    assert_eq!((unknown.api_key(), unknown.api_key_code), (None, 4));
    // Versions of ApiVersions that are not known have the flexible header.
    for version in [[0, 6], [0x7f, 0xff], [0xff, 0xff]] {
        let mut bytes = vec![0, 18, version[0], version[1], 0, 0, 0, 7, 0, 0];
        assert_eq!(header(&bytes), Err(DecodeError::Truncated));
        bytes.push(0);
        assert!(header(&bytes).is_ok());
    }
}

/// Wire-apis trap 1: the answer to ApiVersions has the old header in every version; SaslHandshake and OffsetDelete
/// are never flexible.
#[test]
fn header_versions() {
    for version in ApiKey::ApiVersions.versions() {
        assert_eq!(ApiKey::ApiVersions.response_header_version(version), 0);
        assert_eq!(ApiKey::ApiVersions.request_header_version(version), if version < 3 { 1 } else { 2 });
    }
    assert_eq!(
        (ApiKey::Produce.response_header_version(8), ApiKey::Produce.response_header_version(9)),
        (0, 1)
    );
    for key in [ApiKey::SaslHandshake, ApiKey::OffsetDelete] {
        assert!(key.versions().all(|v| !key.is_flexible(v) && key.request_header_version(v) == 1));
    }
    for key in ApiKey::ALL {
        assert_eq!(ApiKey::from_code(key.code()), Some(key));
    }
}
