//! One connection to a broker.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::Bytes;
use fencepost_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use fencepost_protocol::{ApiKey, Message, Request, ResponseHeader, encode_request};
use fencepost_types::ErrorCode;
use fencepost_types::wire::Reader;

use crate::requests::code;
use crate::{Apis, ClientError};

/// The largest answer that is taken.
pub const FRAME_BYTES_MAX: i32 = 100 << 20;
/// ApiVersions is first asked in this version, then as the broker wants it.
const API_VERSIONS_VERSION: i16 = 3;

/// How to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What this client calls itself.
    pub client_id: String,
    /// How long one answer may take.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { client_id: "fencepost".to_owned(), timeout: Duration::from_secs(30) }
    }
}

/// A connection that knows what its broker can do. See the page of this crate.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    client_id: String,
    next_correlation_id: i32,
    apis: Apis,
}

impl Connection {
    /// Connects and asks for the versions.
    pub fn open(address: impl ToSocketAddrs, options: &Options) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address).map_err(during("connect"))?;
        let setup = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(options.timeout))?;
            stream.set_write_timeout(Some(options.timeout))
        };
        setup().map_err(during("set up the connection"))?;
        let client_id = options.client_id.clone();
        let mut connection = Self { stream, client_id, next_correlation_id: 0, apis: Apis::default() };
        connection.apis = connection.ask_versions()?;
        Ok(connection)
    }

    /// What the broker can do.
    pub fn apis(&self) -> &Apis {
        &self.apis
    }

    /// Asks in the highest version that both sides know.
    pub fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        self.call_up_to(R::VERSION_MAX, request)
    }

    /// Asks in the highest version up to `wanted` that both sides know.
    pub fn call_up_to<R: Request>(&mut self, wanted: i16, request: &R) -> Result<R::Response, ClientError> {
        let version = self.apis.version::<R>(wanted)?;
        self.call_at(version, request)
    }

    /// Asks in exactly this version, whatever the broker says about it.
    pub fn call_at<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, ClientError> {
        let mut reader = self.exchange(version, request)?;
        R::Response::decode(&mut reader, version).map_err(|source| malformed::<R>(version, source))
    }

    /// Source: KIP-511, wire-apis §2.
    fn ask_versions(&mut self) -> Result<Apis, ClientError> {
        let request = ApiVersionsRequest {
            client_software_name: self.client_id.clone(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ApiVersionsRequest::default()
        };
        let reader = self.exchange(API_VERSIONS_VERSION, &request)?;
        // A broker that does not know the version answers in version 0.
        let old = ApiVersionsResponse::decode(&mut reader.clone(), 0);
        if old.is_ok_and(|old| code(old.error_code) == ErrorCode::UnsupportedVersion) {
            let response = self.call_at(0, &request)?;
            ClientError::check(ApiKey::ApiVersions, code(response.error_code))?;
            return Ok(Apis::new(&response));
        }
        let response = ApiVersionsResponse::decode(&mut reader.clone(), API_VERSIONS_VERSION)
            .map_err(|source| malformed::<ApiVersionsRequest>(API_VERSIONS_VERSION, source))?;
        ClientError::check(ApiKey::ApiVersions, code(response.error_code))?;
        Ok(Apis::new(&response))
    }

    /// Sends a request and answers a reader that stands before the body of what came back.
    fn exchange<R: Request>(&mut self, version: i16, request: &R) -> Result<Reader, ClientError> {
        let expected = self.next_correlation_id;
        self.next_correlation_id = expected.wrapping_add(1);
        self.write_frame(&encode_request(expected, Some(&self.client_id), version, request).into_bytes())?;
        let mut reader = Reader::new(self.read_frame()?);
        let header = ResponseHeader::decode(&mut reader, R::API_KEY, version)
            .map_err(|source| malformed::<R>(version, source))?;
        if header.correlation_id != expected {
            return Err(ClientError::Correlation { expected, found: header.correlation_id });
        }
        Ok(reader)
    }

    fn write_frame(&mut self, frame: &[u8]) -> Result<(), ClientError> {
        let length = i32::try_from(frame.len()).map_err(|_| ClientError::FrameSize(i32::MAX))?;
        // One write: with two, the peer may wait for the rest of a packet.
        let mut bytes = Vec::with_capacity(4 + frame.len());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(frame);
        self.stream.write_all(&bytes).map_err(during("send a request"))
    }

    fn read_frame(&mut self) -> Result<Bytes, ClientError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(during("wait for an answer"))?;
        let length = i32::from_be_bytes(length);
        if length <= 0 || length > FRAME_BYTES_MAX {
            return Err(ClientError::FrameSize(length));
        }
        // K2: `read_to_end` grows the buffer as bytes come.
        let mut frame = Vec::new();
        let read = Read::by_ref(&mut self.stream).take(length as u64).read_to_end(&mut frame);
        match read.map_err(during("read an answer"))? {
            read if read == length as usize => Ok(frame.into()),
            _ => Err(during("read an answer")(ErrorKind::UnexpectedEof.into())),
        }
    }
}

fn during(operation: &'static str) -> impl Fn(std::io::Error) -> ClientError {
    move |source| ClientError::Io { operation, source }
}

fn malformed<R: Request>(version: i16, source: fencepost_types::wire::DecodeError) -> ClientError {
    ClientError::Malformed { api_key: R::API_KEY, version, source }
}
