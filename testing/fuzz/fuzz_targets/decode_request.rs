//! A request as a client sends it, without the length of its frame: it is refused, or what was read is written and read
//! again to the same bytes.
#![no_main]

use bytes::Bytes;
use fencepost_protocol::{RequestBody, RequestHeader};
use fencepost_types::wire::{DecodeError, Reader, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let mut r = Reader::new(Bytes::copy_from_slice(frame));
    let Ok(header) = RequestHeader::decode(&mut r) else { return };
    let Some(api_key) = header.api_key() else { return };
    let version = header.api_version;
    let Ok(body) = RequestBody::decode(api_key, version, &mut r) else { return };

    let written = |body: &RequestBody| {
        let mut w = Writer::new();
        body.encode(&mut w, version);
        w.into_bytes()
    };
    // The bytes need not be those that came: bytes behind the body, unknown tags, texts that are no UTF-8.
    let bytes = written(&body);
    let again = match RequestBody::decode(api_key, version, &mut Reader::new(bytes.clone())) {
        // What was left out may have been what paid for the elements.
        Err(DecodeError::TooManyElements) => return,
        again => again.expect("what was written is read"),
    };
    assert_eq!(written(&again), bytes);
});
