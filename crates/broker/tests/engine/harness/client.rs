//! One client on one connection.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use bytes::Bytes;
use fencepost_broker::{Connection, ConnectionId, Listener, Outcome};
use fencepost_protocol::{Message, Request, ResponseHeader, encode_request};
use fencepost_types::wire::Reader;

use super::World;

/// A client; its requests leave in the order in which they are sent.
pub struct Client {
    world: Rc<World>,
    connection: Arc<Connection>,
    next_correlation_id: Cell<i32>,
}

impl Client {
    pub(super) fn new(world: Rc<World>, number: u64, listener: Listener) -> Self {
        let connection = Connection::new(ConnectionId(number), "/127.0.0.1".to_owned(), listener);
        Self { world, connection, next_correlation_id: Cell::new(1) }
    }

    /// Whether more would be read from its connection now: nothing heavy of it is to be done.
    pub fn is_read(&self) -> bool {
        self.connection.poll_rest(Waker::noop()).is_ready()
    }

    /// The number of its connection.
    pub fn connection(&self) -> ConnectionId {
        self.connection.id
    }

    /// The world that it lives in.
    pub fn world(&self) -> &Rc<World> {
        &self.world
    }

    /// Sends a request and does nothing else: its answer is there when it is there.
    pub fn send<R: Request>(&self, version: i16, request: &R) -> Call<R> {
        let correlation_id = self.next_correlation_id.get();
        self.next_correlation_id.set(correlation_id + 1);
        let frame = encode_request(correlation_id, Some("test"), version, request).into_bytes();
        let outcome = self.send_frame(frame);
        Call { version, correlation_id, outcome, request: PhantomData }
    }

    /// Sends a frame (without its length) as it is.
    pub fn send_frame(&self, frame: Bytes) -> OutcomeSlot {
        let slot = OutcomeSlot::default();
        let to = Arc::clone(&slot.0);
        let faults = self.world.disk.faults.clone();
        let respond = Box::new(move |outcome| {
            if faults.is_off() {
                return;
            }
            let before = to.lock().unwrap().replace(outcome);
            assert_eq!(before, None, "B1: a request is answered once");
        });
        self.world.broker().handle(self.world.now(), &self.connection, frame, respond);
        self.world.do_works();
        slot
    }

    /// Sends a request, lets everything settle, and takes the answer.
    pub fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        let call = self.send(version, request);
        self.world.settle();
        call.answer()
    }
}

/// What became of a request.
#[derive(Clone, Default)]
pub struct OutcomeSlot(Arc<Mutex<Option<Outcome>>>);

impl OutcomeSlot {
    /// `None` while it is parked.
    pub fn get(&self) -> Option<Outcome> {
        self.0.lock().unwrap().clone()
    }

    /// The bytes of the answer, without the length. Panics when there is no answer.
    pub fn frame(&self) -> Bytes {
        match self.get() {
            Some(Outcome::Frame(frame)) => frame.read().unwrap(),
            other => panic!("no answer but {other:?}"),
        }
    }
}

/// A request that was sent.
pub struct Call<R> {
    version: i16,
    correlation_id: i32,
    /// What became of it.
    pub outcome: OutcomeSlot,
    request: PhantomData<R>,
}

impl<R: Request> Call<R> {
    /// Whether there is an answer (or none will come).
    pub fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// The answer. Panics when there is none.
    pub fn answer(&self) -> R::Response {
        let mut reader = Reader::new(self.outcome.frame());
        let header = ResponseHeader::decode(&mut reader, R::API_KEY, self.version).unwrap();
        assert_eq!(header.correlation_id, self.correlation_id, "an answer to another request");
        let response = R::Response::decode(&mut reader, self.version).unwrap();
        assert_eq!(reader.remaining(), 0, "bytes behind the answer");
        response
    }
}
