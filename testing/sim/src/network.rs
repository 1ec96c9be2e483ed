//! Frames on their way to the broker and answers on their way back.
//!
//! A connection keeps the order of its requests, and its frames die with it, as with TCP when both ends close. A request
//! that is lost, or whose answer is lost, is a connection that breaks: the client's patience ends and it connects anew.
//! Beyond that, a request may arrive a second time: at once, or (where the client's protocol can bear it) much later.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fencepost_broker::{Connection, ConnectionId, Listener, Outcome};

use crate::world::{Event, MS, World};

/// The broker answers every request within this long (the longest wait that a request of ours asks for is far below);
/// one that it does not answer hangs.
const ANSWER_NS_MAX: u64 = 10_000 * MS;

/// A connection to one life of the broker. Dropped, it is closed.
pub struct SimConnection {
    generation: u64,
    connection: Arc<Connection>,
    is_open: Rc<Cell<bool>>,
    bears_late: bool,
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        self.is_open.set(false);
    }
}

/// What an actor waits for.
pub(crate) enum Arrival {
    /// Nothing has come yet.
    Waiting,
    /// An answer, or the end of the connection (or of the actor's patience).
    Came(Option<Bytes>),
}

/// Where an actor looks for it.
pub(crate) type ArrivalCell = Rc<RefCell<Arrival>>;

/// A frame on its way to the broker.
pub(crate) struct Delivery {
    generation: u64,
    connection: Arc<Connection>,
    is_open: Rc<Cell<bool>>,
    is_repeat: bool,
    outlives_connection: bool,
    frame: Bytes,
    label: Rc<str>,
    arrival: Option<ArrivalCell>,
}

/// A request that the broker has.
pub(crate) struct Asked {
    slot: Arc<Mutex<Slot>>,
    at: u64,
    label: Rc<str>,
    arrival: Option<ArrivalCell>,
}

/// Where the engine puts an outcome.
enum Slot {
    Waiting,
    Came(Outcome),
    Dropped,
}

/// The engine's end of a [`Slot`]: notices when it is thrown away.
struct Responder(Arc<Mutex<Slot>>);

impl Responder {
    fn answer(self, outcome: Outcome) {
        *self.0.lock().expect("one thread") = Slot::Came(outcome);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let mut slot = self.0.lock().expect("one thread");
        if matches!(*slot, Slot::Waiting) {
            *slot = Slot::Dropped;
        }
    }
}

/// The address that the broker tells its clients.
pub(crate) fn listener() -> Listener {
    Listener { name: "PLAINTEXT".to_owned(), host: "127.0.0.1".to_owned(), port: 9092 }
}

impl World {
    /// Connects to the broker as it runs now. `bears_late`: requests may arrive a second time when everything has gone on.
    pub(crate) fn connect(&mut self, bears_late: bool) -> SimConnection {
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        SimConnection {
            generation: self.generation,
            connection: Connection::new(id, "/127.0.0.1".to_owned(), listener()),
            is_open: Rc::new(Cell::new(true)),
            bears_late,
        }
    }

    /// Sends a frame; what comes back, if anything does, is put into `arrival`.
    pub(crate) fn send(
        &mut self,
        connection: &SimConnection,
        frame: Bytes,
        label: &Rc<str>,
        arrival: &ArrivalCell,
    ) {
        if connection.generation != self.generation || self.node.is_none() {
            self.arrive_later(arrival, None);
            return;
        }
        if self.rng.one_in(self.faults.lose_request) {
            self.note(&format!("{label}: the request is lost"));
            return;
        }
        let delivery = |is_repeat: bool| Delivery {
            generation: connection.generation,
            connection: Arc::clone(&connection.connection),
            is_open: Rc::clone(&connection.is_open),
            is_repeat,
            outlives_connection: is_repeat && connection.bears_late,
            frame: frame.clone(),
            label: Rc::clone(label),
            arrival: (!is_repeat).then(|| Rc::clone(arrival)),
        };
        let after = self.latency();
        self.plan(after, Event::Deliver(delivery(false)));
        if self.rng.one_in(self.faults.repeat_request) {
            let late =
                if connection.bears_late { self.rng.range(0, self.faults.late_ms_max * MS + 1) } else { 0 };
            self.plan(after + late, Event::Deliver(delivery(true)));
        }
    }

    /// A frame reaches the broker, if that is still there.
    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        let now = self.clock();
        if delivery.generation != self.generation || self.node.is_none() {
            return;
        }
        if !delivery.is_open.get() && !delivery.outlives_connection {
            return;
        }
        let again = if delivery.is_repeat { " (again)" } else { "" };
        self.note(&format!("{}{again}: delivered", delivery.label));
        let slot = Arc::new(Mutex::new(Slot::Waiting));
        let responder = Responder(Arc::clone(&slot));
        let at = self.now;
        let Some(node) = &mut self.node else { return };
        node.asked.push(Asked { slot, at, label: delivery.label, arrival: delivery.arrival });
        let respond = Box::new(move |outcome| responder.answer(outcome));
        node.broker.handle(now, &delivery.connection, delivery.frame, respond);
    }

    /// Sends on what the engine has answered. Panics when it has dropped a request, closed a connection on a good one, or
    /// sits on one for ever. Answers how many there were.
    pub(crate) fn collect_answers(&mut self) -> usize {
        let Some(node) = &mut self.node else { return 0 };
        let asked = std::mem::take(&mut node.asked);
        let (count, mut waiting) = (asked.len(), Vec::with_capacity(asked.len()));
        for asked in asked {
            let slot = std::mem::replace(&mut *asked.slot.lock().expect("one thread"), Slot::Waiting);
            match slot {
                Slot::Waiting => {
                    let waited = self.now - asked.at;
                    assert!(waited <= ANSWER_NS_MAX, "hangs: {} waits for {waited} ns", asked.label);
                    waiting.push(asked);
                }
                Slot::Came(Outcome::Frame(frame)) => {
                    self.answer(&asked, frame.read().expect("the disk can be read"))
                }
                Slot::Came(outcome @ (Outcome::Close | Outcome::Nothing)) => {
                    panic!("{}: answered with {outcome:?}", asked.label)
                }
                Slot::Dropped => panic!("B1: {} was dropped without an answer", asked.label),
            }
        }
        let answered = count - waiting.len();
        if let Some(node) = &mut self.node {
            node.asked = waiting;
        }
        answered
    }

    fn answer(&mut self, asked: &Asked, frame: Bytes) {
        self.trace.bytes(&frame);
        let Some(arrival) = &asked.arrival else { return };
        if self.rng.one_in(self.faults.lose_answer) {
            self.note(&format!("{}: the answer is lost", asked.label));
            return;
        }
        self.note(&format!("{}: answered, {} bytes", asked.label, frame.len()));
        self.arrive_later(arrival, Some(frame));
    }

    fn arrive_later(&mut self, arrival: &ArrivalCell, with: Option<Bytes>) {
        let after = self.latency();
        self.plan(after, Event::Arrive { arrival: Rc::clone(arrival), with });
    }

    fn latency(&mut self) -> u64 {
        self.rng.range(20_000, 2 * MS)
    }
}
