//! What the engine keeps of a connection: who it is, and the order of its Produce requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::Broker;
use crate::cx::{Cx, Task};

/// Names a connection within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// One client connection.
pub struct Connection {
    /// Its number.
    pub id: ConnectionId,
    /// The peer's address, as groups show it: `/127.0.0.1`.
    pub client_host: String,
    /// The address of the listener that the client came to; it is what Metadata tells this client.
    pub listener: Listener,
    gate: Mutex<Gate>,
}

/// Where a listener can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// Kafka's name of the listener, such as `PLAINTEXT`.
    pub name: String,
    /// Host that clients are told.
    pub host: String,
    /// Port that clients are told.
    pub port: u16,
}

#[derive(Default)]
struct Gate {
    busy: bool,
    waiting: VecDeque<Task>,
    /// Batches of acks 0 that are not durable yet, and the requests that came after them.
    unanswered: usize,
    held: VecDeque<Task>,
}

impl Connection {
    /// A new connection.
    pub fn new(id: ConnectionId, client_host: String, listener: Listener) -> Arc<Self> {
        Arc::new(Self { id, client_host, listener, gate: Mutex::new(Gate::default()) })
    }

    /// Runs `produce` when every earlier Produce of this connection has been appended (or refused): an idempotent
    /// producer has up to five batches in flight, and their order is the order of their sequences.
    /// `produce` must end in [`Self::leave_produce`].
    pub(crate) fn enter_produce(&self, broker: &Arc<Broker>, cx: &mut Cx, produce: Task) {
        {
            let mut gate = self.gate.lock().expect("no holder of this lock panics");
            if gate.busy {
                gate.waiting.push_back(produce);
                return;
            }
            gate.busy = true;
        }
        produce(broker, cx);
    }

    /// Lets the next Produce of this connection in.
    pub(crate) fn leave_produce(&self, cx: &mut Cx) {
        let mut gate = self.gate.lock().expect("no holder of this lock panics");
        match gate.waiting.pop_front() {
            Some(next) => cx.push(next),
            None => gate.busy = false,
        }
    }

    /// A batch that nobody answers for is not durable yet.
    pub(crate) fn hold(&self) {
        self.gate.lock().expect("no holder of this lock panics").unanswered += 1;
    }

    /// It is now, or never will be: with the last one, what came after them goes on.
    pub(crate) fn release(&self, cx: &mut Cx) {
        let mut gate = self.gate.lock().expect("no holder of this lock panics");
        gate.unanswered -= 1;
        if gate.unanswered == 0 {
            gate.held.drain(..).for_each(|task| cx.push(task));
        }
    }

    /// Runs a request other than Produce: at once, unless batches of acks 0 are on their way to the disk.
    pub(crate) fn enter_other(&self, broker: &Arc<Broker>, cx: &mut Cx, request: Task) {
        {
            let mut gate = self.gate.lock().expect("no holder of this lock panics");
            if gate.unanswered > 0 {
                gate.held.push_back(request);
                return;
            }
        }
        request(broker, cx);
    }
}
