//! Frames captured between Apache Kafka 4.4.0 and its clients: each is read, and written back to the same bytes.

use bytes::Bytes;
use fencepost_protocol::{ApiKey, RequestBody, RequestHeader, ResponseBody, ResponseHeader, encode_response};
use fencepost_types::wire::{Reader, Writer};
use serde_json::Value;

fn frames() -> Vec<Value> {
    let text = include_str!("../testdata/frames.json");
    let file: Value = serde_json::from_str(text).unwrap();
    file["frames"].as_array().unwrap().clone()
}

fn bytes(frame: &Value, name: &str) -> Option<Bytes> {
    frame[name].as_str().map(|text| hex::decode(text).unwrap().into())
}

/// W4 on real traffic: requests, header and body.
#[test]
fn captured_requests_are_written_back_the_same() {
    let mut seen = 0;
    for frame in frames() {
        let Some(bytes) = bytes(&frame, "request") else { continue };
        let mut r = Reader::new(bytes.clone());
        let header = RequestHeader::decode(&mut r).unwrap();
        let api_key = header.api_key().unwrap();
        assert_eq!(api_key.name(), frame["api"].as_str().unwrap());
        assert_eq!(i64::from(header.api_version), frame["version"].as_i64().unwrap());
        assert_eq!(header.client_id.as_deref(), frame["client_id"].as_str());
        let body = RequestBody::decode(api_key, header.api_version, &mut r).unwrap();
        assert_eq!((body.api_key(), r.remaining()), (api_key, 0));
        let mut w = Writer::new();
        header.encode(&mut w);
        body.encode(&mut w, header.api_version);
        assert_eq!(w.into_bytes(), bytes, "{frame}");
        seen += 1;
    }
    assert!(seen > 100);
}

/// W4 on real traffic: responses. W5: the captured answers to ApiVersions have a header of version 0.
#[test]
fn captured_responses_are_written_back_the_same() {
    let mut seen = 0;
    for frame in frames() {
        let Some(bytes) = bytes(&frame, "response") else { continue };
        let api_key = ApiKey::from_code(frame["api_key"].as_i64().unwrap() as i16).unwrap();
        let version = frame["version"].as_i64().unwrap() as i16;
        let mut r = Reader::new(bytes.clone());
        let header = ResponseHeader::decode(&mut r, api_key, version).unwrap();
        let body = ResponseBody::decode(api_key, version, &mut r).unwrap();
        assert_eq!(r.remaining(), 0, "{frame}");
        let again = encode_response(header.correlation_id, api_key, version, &body);
        assert_eq!(again.into_bytes(), bytes, "{frame}");
        seen += 1;
    }
    assert!(seen > 100);
}
