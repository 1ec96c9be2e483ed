//! How a request is answered.

use std::sync::Arc;

use bytes::Bytes;
use fencepost_protocol::{ApiKey, RequestHeader, ResponseBody, encode_response};

use crate::connection::Connection;

/// What the edge does for one request, in the order of the requests of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Sends these chunks as one frame (the length goes before them).
    Frame(Vec<Bytes>),
    /// Sends nothing: Produce with acks 0.
    Nothing,
    /// Closes the connection: there is no answer that the client could read.
    Close,
}

/// Takes the outcome of one request, once.
pub type Respond = Box<dyn FnOnce(Outcome) + Send>;

/// A request that has been decoded: who sent it, and how to answer.
pub struct Exchange {
    /// The connection it came on.
    pub connection: Arc<Connection>,
    /// Its header.
    pub header: RequestHeader,
    /// Its API.
    pub api_key: ApiKey,
    respond: Respond,
}

impl Exchange {
    pub(crate) fn new(
        connection: Arc<Connection>,
        header: RequestHeader,
        api_key: ApiKey,
        respond: Respond,
    ) -> Self {
        Self { connection, header, api_key, respond }
    }

    /// The version that the request was sent in, and the answer goes in.
    pub fn version(&self) -> i16 {
        self.header.api_version
    }

    /// The client id, "" where there is none.
    pub fn client_id(&self) -> &str {
        self.header.client_id.as_deref().unwrap_or("")
    }

    /// Answers.
    pub fn reply(self, response: impl Into<ResponseBody>) {
        let version = self.version();
        self.reply_in_version(version, response);
    }

    /// Answers in another version than the request's (ApiVersions of an unknown version alone).
    pub fn reply_in_version(self, version: i16, response: impl Into<ResponseBody>) {
        let body = encode_response(self.header.correlation_id, self.api_key, version, &response.into());
        (self.respond)(Outcome::Frame(body.into_chunks()));
    }

    /// Answers nothing.
    pub fn reply_nothing(self) {
        (self.respond)(Outcome::Nothing);
    }

    /// Closes the connection.
    pub fn close(self) {
        (self.respond)(Outcome::Close);
    }
}
