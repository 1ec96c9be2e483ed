//! What the engine keeps of a connection: who it is, and the order of its Produce requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

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
    /// Whether a task that lets them go on is on its way: who comes meanwhile stays behind them.
    is_releasing: bool,
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
            let mut gate = self.lock();
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
        let mut gate = self.lock();
        match gate.waiting.pop_front() {
            Some(next) => cx.push(next),
            None => gate.busy = false,
        }
    }

    /// A batch that nobody answers for is not durable yet.
    pub(crate) fn hold(&self) {
        self.lock().unanswered += 1;
    }

    /// It is now, or never will be: with the last one, what came after them goes on, in order.
    pub(crate) fn release(self: &Arc<Self>, cx: &mut Cx) {
        let mut gate = self.lock();
        gate.unanswered -= 1;
        if gate.unanswered == 0 && !gate.held.is_empty() && !gate.is_releasing {
            gate.is_releasing = true;
            let connection = Arc::clone(self);
            cx.push(Box::new(move |broker, cx| connection.let_go_on(broker, cx)));
        }
    }

    fn let_go_on(&self, broker: &Arc<Broker>, cx: &mut Cx) {
        while let Some(request) = self.next_held() {
            request(broker, cx);
        }
    }

    fn next_held(&self) -> Option<Task> {
        let mut gate = self.lock();
        // Another such batch may have come meanwhile: then its release goes on.
        let next = if gate.unanswered == 0 { gate.held.pop_front() } else { None };
        gate.is_releasing = next.is_some();
        next
    }

    /// Runs a request other than Produce: at once, unless batches of acks 0 are on their way to the disk.
    pub(crate) fn enter_other(&self, broker: &Arc<Broker>, cx: &mut Cx, request: Task) {
        {
            let mut gate = self.lock();
            if gate.unanswered > 0 || gate.is_releasing {
                gate.held.push_back(request);
                return;
            }
        }
        request(broker, cx);
    }

    fn lock(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().expect("no holder of this lock panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, broker};

    fn connection() -> Arc<Connection> {
        let listener = Listener { name: "PLAINTEXT".to_owned(), host: "localhost".to_owned(), port: 9092 };
        Connection::new(ConnectionId(1), "/127.0.0.1".to_owned(), listener)
    }

    /// One Produce at a time, in the order of their coming; the gate is free when all have left.
    #[test]
    fn produces_take_their_turn() {
        let (broker, connection) = (broker(), connection());
        let (entered, mut cx) = (Arc::new(Mutex::new(Vec::new())), Cx::new(NOW));
        let enter = |cx: &mut Cx, number: u32| {
            let entered = Arc::clone(&entered);
            let task: Task = Box::new(move |_, _| entered.lock().unwrap().push(number));
            connection.enter_produce(&broker, cx, task);
        };
        for number in 0..3 {
            enter(&mut cx, number);
        }
        assert_eq!(*entered.lock().unwrap(), [0]);
        for left in 1..3 {
            connection.leave_produce(&mut cx);
            // While one is on its way in, a new one waits behind it.
            enter(&mut cx, 10 + left);
            cx.run(&broker);
            assert_eq!(*entered.lock().unwrap().last().unwrap(), left);
        }
        for last in [11, 12] {
            connection.leave_produce(&mut cx);
            cx.run(&broker);
            assert_eq!(*entered.lock().unwrap().last().unwrap(), last);
        }
        connection.leave_produce(&mut cx);
        enter(&mut cx, 20);
        assert_eq!(*entered.lock().unwrap(), [0, 1, 2, 11, 12, 20]);
    }

    /// Requests behind batches that nobody answers for wait for the last of these, and keep their order.
    #[test]
    fn others_wait_for_what_nobody_answers_for() {
        let (broker, connection) = (broker(), connection());
        let (entered, mut cx) = (Arc::new(Mutex::new(Vec::new())), Cx::new(NOW));
        let enter = |cx: &mut Cx, number: u32| {
            let entered = Arc::clone(&entered);
            let task: Task = Box::new(move |_, _| entered.lock().unwrap().push(number));
            connection.enter_other(&broker, cx, task);
        };
        connection.hold();
        connection.hold();
        enter(&mut cx, 1);
        enter(&mut cx, 2);
        connection.release(&mut cx);
        cx.run(&broker);
        assert!(entered.lock().unwrap().is_empty());
        connection.release(&mut cx);
        // It comes between the last release and the run of those who waited: it is behind them.
        enter(&mut cx, 3);
        cx.run(&broker);
        assert_eq!(*entered.lock().unwrap(), [1, 2, 3]);
        enter(&mut cx, 4);
        assert_eq!(*entered.lock().unwrap(), [1, 2, 3, 4]);
    }
}
