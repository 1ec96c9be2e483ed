//! API key and version (two bytes each), then a response as a broker sends it, without the length of its frame: it is
//! refused, or what was read is written and read again to the same bytes.
#![no_main]

use bytes::Bytes;
use fencepost_protocol::{ApiKey, ResponseBody, ResponseHeader, encode_response};
use fencepost_types::wire::{DecodeError, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut r = Reader::new(Bytes::copy_from_slice(input));
    let (Ok(code), Ok(version)) = (r.i16(), r.i16()) else { return };
    let Some(api_key) = ApiKey::from_code(code) else { return };
    let Ok(header) = ResponseHeader::decode(&mut r, api_key, version) else { return };
    let Ok(body) = ResponseBody::decode(api_key, version, &mut r) else { return };

    let written =
        |body: &ResponseBody| encode_response(header.correlation_id, api_key, version, body).into_bytes();
    let bytes = written(&body);
    let mut r = Reader::new(bytes.clone());
    let again = ResponseHeader::decode(&mut r, api_key, version)
        .and_then(|_| ResponseBody::decode(api_key, version, &mut r));
    let again = match again {
        // What was left out may have been what paid for the elements.
        Err(DecodeError::TooManyElements) => return,
        again => again.expect("what was written is read"),
    };
    assert_eq!(written(&again), bytes);
});
