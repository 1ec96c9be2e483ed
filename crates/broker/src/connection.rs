//! What the engine keeps of a connection: who it is, and the order of its requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::Broker;
use crate::cx::{Cx, Task};
use crate::work::WORKS_OF_A_CONNECTION_MAX;

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
    /// Whether it has heavy work to be done: `Gate::works` is not 0. Written under the gate's lock.
    is_at_work: AtomicBool,
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
    /// Pieces of heavy work that are not done: nothing else than a Produce is begun meanwhile.
    works: usize,
    /// Who reads from the connection, and waits for the last of them.
    reader: Option<Waker>,
}

impl Connection {
    /// A new connection.
    pub fn new(id: ConnectionId, client_host: String, listener: Listener) -> Arc<Self> {
        let is_at_work = AtomicBool::new(false);
        Arc::new(Self { id, client_host, listener, gate: Mutex::new(Gate::default()), is_at_work })
    }

    /// Ready when the connection has no heavy work to be done: until then nothing more should be read from it. One reader
    /// waits at a time.
    pub fn poll_rest(&self, waker: &Waker) -> Poll<()> {
        if !self.is_at_work.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut gate = self.lock();
        if gate.works == 0 {
            return Poll::Ready(());
        }
        gate.reader = Some(waker.clone());
        Poll::Pending
    }

    /// A piece of heavy work has been handed to the edge.
    pub(crate) fn begin_work(&self) {
        let mut gate = self.lock();
        gate.works += 1;
        assert!(gate.works <= WORKS_OF_A_CONNECTION_MAX, "one connection has {} works", gate.works);
        self.is_at_work.store(true, Ordering::Release);
    }

    /// It is done: with the last one, what came after it goes on, and the connection is read again.
    pub(crate) fn end_work(self: &Arc<Self>, cx: &mut Cx) {
        let mut gate = self.lock();
        gate.works -= 1;
        if gate.works > 0 {
            return;
        }
        self.is_at_work.store(false, Ordering::Release);
        self.let_held_go_on(&mut gate, cx);
        let reader = gate.reader.take();
        drop(gate);
        if let Some(reader) = reader {
            reader.wake();
        }
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
        self.let_held_go_on(&mut gate, cx);
    }

    fn let_held_go_on(self: &Arc<Self>, gate: &mut Gate, cx: &mut Cx) {
        if gate.may_begin() && !gate.held.is_empty() && !gate.is_releasing {
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
        // Another such batch, or work, may have come meanwhile: then its release goes on.
        let next = if gate.may_begin() { gate.held.pop_front() } else { None };
        gate.is_releasing = next.is_some();
        next
    }

    /// Runs a request other than Produce: at once, unless batches of acks 0 are on their way to the disk, or an earlier
    /// request is heavy.
    pub(crate) fn enter_other(&self, broker: &Arc<Broker>, cx: &mut Cx, request: Task) {
        {
            let mut gate = self.lock();
            if !gate.may_begin() || gate.is_releasing {
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

impl Gate {
    /// Whether a request other than Produce may be begun.
    fn may_begin(&self) -> bool {
        self.unanswered == 0 && self.works == 0
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
