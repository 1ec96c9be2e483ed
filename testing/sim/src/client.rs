//! A client in the world: frames, correlation ids, patience, reconnects.

use std::rc::Rc;

use bytes::Bytes;
use fencepost_protocol::{Message, Request, ResponseHeader, encode_request};
use fencepost_types::ErrorCode;
use fencepost_types::wire::Reader;

use crate::actors::Handle;
use crate::network::SimConnection;
use crate::rng::Rng;

/// Pause before a request is sent again: from, and up to.
const BACKOFF_MS: (u64, u64) = (5, 40);
/// A request that gets no good answer in so many tries hangs.
const TRIES_MAX: u32 = 5_000;

/// One client, with one request in flight.
pub struct SimClient {
    handle: Handle,
    name: String,
    rng: Rng,
    bears_late: bool,
    patience_ms: u64,
    connection: Option<SimConnection>,
    next_correlation_id: i32,
}

/// An answer, and what it took.
pub struct Answer<R> {
    /// The answer.
    pub response: R,
    /// The code in it, none or not retriable.
    pub code: ErrorCode,
    /// Whether this answer tells what the request did: nothing of it was lost, repeated or left open before.
    pub is_certain: bool,
}

impl SimClient {
    /// A client that has not connected yet. `bears_late`: see [`Handle::connect`].
    pub fn new(handle: &Handle, name: impl Into<String>, bears_late: bool) -> Self {
        let mut rng = handle.fork_rng();
        let patience_ms = rng.pick(&[100, 400, 1_500]);
        Self {
            handle: handle.clone(),
            name: name.into(),
            rng,
            bears_late,
            patience_ms,
            connection: None,
            next_correlation_id: 0,
        }
    }

    /// Asks once. `None`: no answer came, and what was asked may have happened.
    pub async fn call<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.handle.connect(self.bears_late),
        };
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.wrapping_add(1);
        let frame = encode_request(correlation_id, Some(&self.name), version, request).into_bytes();
        let label: Rc<str> =
            format!("{} {} v{version} #{correlation_id}", self.name, R::API_KEY.name()).into();
        let answer = self.handle.exchange(&connection, frame, &label, self.patience_ms).await?;
        self.connection = Some(connection);
        Some(read_answer::<R>(version, correlation_id, answer, &label))
    }

    /// Asks until there is an answer that does not say "later", at most `tries` times. `None`: no such answer came, and
    /// what was asked may have happened.
    pub async fn try_ask<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        code: impl Fn(&R::Response) -> ErrorCode,
        tries: u32,
    ) -> Option<Answer<R::Response>> {
        let mut is_certain = self.handle.with_world(|world| world.faults().repeat_request == 0);
        for _ in 0..tries {
            match self.call(version, request).await {
                Some(response) => {
                    let code = code(&response);
                    self.handle.note(&format!("{} {}: {code}", self.name, R::API_KEY.name()));
                    if !code.is_retriable() {
                        return Some(Answer { response, code, is_certain });
                    }
                    // Any other "later" may have come after the fact.
                    is_certain &= code == ErrorCode::ConcurrentTransactions;
                }
                None => is_certain = false,
            }
            let pause = self.rng.range(BACKOFF_MS.0, BACKOFF_MS.1);
            self.handle.sleep(pause).await;
        }
        None
    }

    /// Asks until there is such an answer. Panics when it takes too long.
    pub async fn ask<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        code: impl Fn(&R::Response) -> ErrorCode,
    ) -> Answer<R::Response> {
        let answer = self.try_ask(version, request, code, TRIES_MAX).await;
        answer.unwrap_or_else(|| panic!("hangs: {} gets no answer to {}", self.name, R::API_KEY.name()))
    }
}

/// Invariant 6: an answer is the one to the request asked, and can be read.
fn read_answer<R: Request>(version: i16, correlation_id: i32, frame: Bytes, label: &str) -> R::Response {
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(&mut reader, R::API_KEY, version);
    let header = header.unwrap_or_else(|error| panic!("{label}: the answer's header: {error}"));
    assert_eq!(header.correlation_id, correlation_id, "{label}: an answer to another request");
    let response = R::Response::decode(&mut reader, version);
    let response = response.unwrap_or_else(|error| panic!("{label}: the answer: {error}"));
    assert_eq!(reader.remaining(), 0, "{label}: bytes behind the answer");
    response
}
