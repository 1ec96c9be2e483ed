//! How a request is answered.

use std::sync::Arc;

use fencepost_protocol::{ApiKey, RequestHeader, ResponseBody, encode_response};
use fencepost_storage::FilePart;

use crate::connection::Connection;
use crate::frame::Frame;

/// What the edge does for one request, in the order of the requests of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Sends these chunks as one frame (the length goes before them).
    Frame(Frame),
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
        self.send(version, &response.into(), Vec::new());
    }

    /// Answers with records that lie in files, in the order in which the response leaves them out.
    pub fn reply_with_files(self, response: impl Into<ResponseBody>, parts: Vec<FilePart>) {
        let version = self.version();
        self.send(version, &response.into(), parts);
    }

    fn send(self, version: i16, response: &ResponseBody, parts: Vec<FilePart>) {
        let body = encode_response(self.header.correlation_id, self.api_key, version, response);
        (self.respond)(Outcome::Frame(Frame::new(body.into_pieces(), parts)));
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
