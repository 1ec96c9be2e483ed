//! The headers in front of each body, and which version of them goes with which API.

use alloc::string::String;
use core::ops::RangeInclusive;

use fencepost_types::wire::{Decoded, Reader, Writer};

use crate::{ApiKey, ResponseBody};

impl ApiKey {
    /// Its code on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The versions that the codec knows, an unstable one among them.
    pub const fn versions(self) -> RangeInclusive<i16> {
        let (low, high) = self.bounds();
        low..=high
    }

    /// The versions that Kafka shows without being asked for unstable ones.
    pub const fn stable_versions(self) -> RangeInclusive<i16> {
        let (low, high) = self.bounds();
        low..=high - self.latest_version_unstable() as i16
    }

    /// Whether `version` has compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.flexible_from()
    }

    /// The version of the header in front of a request of `version`. A version of ApiVersions that is not known yet
    /// has the flexible one, also a negative version: only behind a good header of that kind is it answered.
    ///
    /// Source: KIP-511, wire-apis §2.
    pub const fn request_header_version(self, version: i16) -> i16 {
        let unknown = version < 0 && matches!(self, Self::ApiVersions);
        if self.is_flexible(version) || unknown { 2 } else { 1 }
    }

    /// The version of the header in front of a response of `version`. That of ApiVersions is always 0: the client
    /// that asks does not know yet what the broker can do.
    ///
    /// Source: KIP-511, wire-apis §2.
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, Self::ApiVersions) { 1 } else { 0 }
    }
}

/// What stands before a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API, perhaps one that is not known here.
    pub api_key_code: i16,
    /// The version of the request, perhaps one that is not known here.
    pub api_version: i16,
    /// Comes back in the response.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
}

impl RequestHeader {
    /// The API, if it is known here.
    pub const fn api_key(&self) -> Option<ApiKey> {
        ApiKey::from_code(self.api_key_code)
    }

    /// Reads a header, of the version that its API and version call for. An API that is not known here is taken to
    /// have the old header, so that its key and version can still be told. The client id has the old encoding in
    /// both versions.
    ///
    /// Source: KIP-482, wire-apis §2.
    pub fn decode(r: &mut Reader) -> Decoded<Self> {
        let (api_key_code, api_version) = (r.i16()?, r.i16()?);
        let (correlation_id, client_id) = (r.i32()?, r.nullable_string(false)?);
        let header = Self { api_key_code, api_version, correlation_id, client_id };
        if header.api_key().is_some_and(|key| key.request_header_version(api_version) >= 2) {
            r.skip_tagged_fields()?;
        }
        Ok(header)
    }

    /// Writes the header, of the version that its API and version call for.
    #[cfg(feature = "client")]
    pub fn encode(&self, w: &mut Writer) {
        w.i16(self.api_key_code);
        w.i16(self.api_version);
        w.i32(self.correlation_id);
        w.nullable_string(self.client_id.as_deref(), false);
        if self.api_key().is_some_and(|key| key.request_header_version(self.api_version) >= 2) {
            w.uvarint(0);
        }
    }
}

/// What stands before a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// That of the request.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads the header in front of a response of an API's `version`.
    #[cfg(feature = "client")]
    pub fn decode(r: &mut Reader, api_key: ApiKey, version: i16) -> Decoded<Self> {
        let header = Self { correlation_id: r.i32()? };
        if api_key.response_header_version(version) >= 1 {
            r.skip_tagged_fields()?;
        }
        Ok(header)
    }

    /// Writes the header in front of a response of an API's `version`.
    pub fn encode(&self, w: &mut Writer, api_key: ApiKey, version: i16) {
        w.i32(self.correlation_id);
        if api_key.response_header_version(version) >= 1 {
            w.uvarint(0);
        }
    }
}

/// A whole response, but for the length in front of its frame.
pub fn encode_response(correlation_id: i32, api_key: ApiKey, version: i16, body: &ResponseBody) -> Writer {
    assert_eq!(body.api_key(), api_key, "an answer to another API");
    let mut w = Writer::new();
    ResponseHeader { correlation_id }.encode(&mut w, api_key, version);
    body.encode(&mut w, version);
    w
}

/// A whole request, but for the length in front of its frame.
#[cfg(feature = "client")]
pub fn encode_request<R: crate::Request>(
    correlation_id: i32,
    client_id: Option<&str>,
    version: i16,
    body: &R,
) -> Writer {
    let mut w = Writer::new();
    let client_id = client_id.map(String::from);
    let header =
        RequestHeader { api_key_code: R::API_KEY.code(), api_version: version, correlation_id, client_id };
    header.encode(&mut w);
    body.encode(&mut w, version);
    w
}
