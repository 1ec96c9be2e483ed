//! The world around one broker: time, network, disk and power, all from one seed, on one thread.
//!
//! Everything that happens is an event with a time. The world takes the next one, lets the broker or an actor act, and
//! goes on. Actors are futures that wait for an answer or for time to pass; they run here, one at a time.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use fencepost_broker::{Broker, BrokerSettings, Connection, ConnectionId, Edge, Listener, Outcome};
use fencepost_storage::Disk;
use fencepost_types::{Millis, Nanos, Now};

use crate::disk::SimDisk;
use crate::rng::Rng;
use crate::trace::Trace;

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Wall time at which every run begins.
const WALL_START_MS: i64 = 1_700_000_000_000;
/// A run that has not ended after so many events hangs.
const EVENTS_MAX: u64 = 5_000_000;

/// How hostile the world is. Each number is "once in so many times"; 0 is never.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// A request is lost on its way.
    pub lose_request: u64,
    /// An answer is lost on its way back.
    pub lose_answer: u64,
    /// A request arrives twice.
    pub repeat_request: u64,
    /// Milliseconds between two crashes, at most; 0 is no crash.
    pub crash_every_ms: u64,
}

impl Faults {
    /// A friendly world.
    pub const NONE: Self = Self { lose_request: 0, lose_answer: 0, repeat_request: 0, crash_every_ms: 0 };
}

/// What the engine asks of its surroundings, simulated.
struct SimEdge {
    sync_wanted: AtomicBool,
    rng: Mutex<Rng>,
    stopped: Mutex<Option<String>>,
}

impl Edge for SimEdge {
    fn deadline_changed(&self) {}

    fn sync_needed(&self) {
        self.sync_wanted.store(true, Ordering::Relaxed);
    }

    fn random(&self) -> u128 {
        let mut rng = self.rng.lock().expect("one thread");
        u128::from(rng.bits()) << 64 | u128::from(rng.bits())
    }

    fn stop(&self, sentence: &str) {
        self.stopped.lock().expect("one thread").get_or_insert(sentence.to_owned());
    }
}

/// Where an answer is put.
type Slot = Arc<Mutex<Option<Outcome>>>;

enum Event {
    Deliver { generation: u64, connection: Arc<Connection>, frame: Bytes, slot: Slot },
    Arrive { answer: Rc<RefCell<Arrival>>, with: Option<Bytes> },
    Sync { generation: u64 },
    Crash,
    Restart,
    Wake,
}

/// What an actor waits for.
enum Arrival {
    Waiting,
    Came(Option<Bytes>),
}

struct Planned {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The running broker, and what is on its way from it.
struct Node {
    broker: Arc<Broker>,
    edge: Arc<SimEdge>,
    answers: Vec<(Slot, Rc<RefCell<Arrival>>)>,
}

/// The world. See the page of this module.
pub struct World {
    /// Nanoseconds since the start.
    pub now: u64,
    /// Everything that happened.
    pub trace: Trace,
    /// Chance.
    pub rng: Rng,
    faults: Faults,
    settings: BrokerSettings,
    disk: Arc<SimDisk>,
    node: Option<Node>,
    generation: u64,
    next_order: u64,
    next_connection: u64,
    events: BinaryHeap<Reverse<Planned>>,
    sync_planned: bool,
    crashes: u64,
}

impl World {
    /// A world with an empty disk and a broker that has just started on it.
    pub fn new(seed: u64, faults: Faults, settings: BrokerSettings, trace: Trace) -> Rc<RefCell<Self>> {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(rng.bits());
        let mut world = Self {
            now: 0,
            trace,
            rng,
            faults,
            settings,
            disk,
            node: None,
            generation: 0,
            next_order: 0,
            next_connection: 0,
            events: BinaryHeap::new(),
            sync_planned: false,
            crashes: 0,
        };
        world.start();
        world.plan_crash();
        Rc::new(RefCell::new(world))
    }

    /// The present, as the broker is told.
    pub fn clock(&self) -> Now {
        Now { wall: Millis(WALL_START_MS + (self.now / MS) as i64), mono: Nanos(self.now) }
    }

    /// The running broker, if there is one.
    pub fn broker(&self) -> Option<Arc<Broker>> {
        self.node.as_ref().map(|node| Arc::clone(&node.broker))
    }

    /// How often the power went.
    pub fn crashes(&self) -> u64 {
        self.crashes
    }

    /// From now on nothing goes wrong any more.
    pub fn make_peace(&mut self) {
        self.faults = Faults::NONE;
        self.note("peace");
    }

    /// Writes a line into the trace.
    pub fn note(&mut self, line: &str) {
        let now = self.now;
        self.trace.line(now, line);
    }

    fn plan(&mut self, after: u64, event: Event) {
        self.next_order += 1;
        let planned = Planned { at: self.now + after, order: self.next_order, event };
        self.events.push(Reverse(planned));
    }

    fn plan_crash(&mut self) {
        if self.faults.crash_every_ms > 0 {
            let after = self.rng.range(1, self.faults.crash_every_ms + 1) * MS;
            self.plan(after, Event::Crash);
        }
    }

    fn start(&mut self) {
        let edge = Arc::new(SimEdge {
            sync_wanted: AtomicBool::new(false),
            rng: Mutex::new(self.rng.fork()),
            stopped: Mutex::new(None),
        });
        let listener = Listener { name: "PLAINTEXT".to_owned(), host: "127.0.0.1".to_owned(), port: 9092 };
        let clock = self.clock();
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        let started = Broker::start(disk, Arc::clone(&edge) as Arc<dyn Edge>, self.settings.clone(), listener, &|| clock);
        let broker = started.unwrap_or_else(|error| panic!("the broker must start on whatever a crash left: {error}"));
        broker.check();
        self.node = Some(Node { broker, edge, answers: Vec::new() });
        self.generation += 1;
        self.sync_planned = false;
        self.note("broker started");
    }

    fn crash(&mut self) {
        if self.faults.crash_every_ms == 0 || self.node.is_none() {
            return;
        }
        self.crashes += 1;
        self.node = None;
        self.disk.crash();
        self.note("crash");
        let off = self.rng.range(1, 50) * MS;
        self.plan(off, Event::Restart);
        self.plan_crash();
    }

    /// Sends a frame; what comes back, if anything does, is put into `arrival`.
    fn send(&mut self, connection: &SimConnection, frame: Bytes, arrival: &Rc<RefCell<Arrival>>) {
        if connection.generation != self.generation || self.node.is_none() {
            self.arrive_later(arrival, None);
            return;
        }
        let lost = self.chance(self.faults.lose_request);
        let twice = self.chance(self.faults.repeat_request);
        let slot: Slot = Arc::default();
        if !lost {
            let deliver = |slot| Event::Deliver {
                generation: connection.generation,
                connection: Arc::clone(&connection.connection),
                frame: frame.clone(),
                slot,
            };
            let after = self.latency();
            self.plan(after, deliver(Arc::clone(&slot)));
            if twice {
                let after = self.latency();
                self.plan(after, deliver(Slot::default()));
            }
        }
        if let Some(node) = &mut self.node {
            node.answers.push((slot, Rc::clone(arrival)));
        }
    }

    fn arrive_later(&mut self, arrival: &Rc<RefCell<Arrival>>, with: Option<Bytes>) {
        let after = self.latency();
        self.plan(after, Event::Arrive { answer: Rc::clone(arrival), with });
    }

    fn latency(&mut self) -> u64 {
        self.rng.range(20_000, 2 * MS)
    }

    fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.rng.one_in(one_in)
    }

    /// Takes the next event. `false` when there is none left, and nothing is due.
    fn step(&mut self) -> bool {
        let planned = self.events.peek().map(|Reverse(planned)| planned.at);
        let due = self.node.as_ref().and_then(|node| node.broker.next_deadline()).map(|at| at.0);
        match (planned, due) {
            (None, None) => return false,
            (planned, Some(due)) if planned.is_none_or(|at| due < at) => {
                self.now = self.now.max(due);
                if let Some(node) = &self.node {
                    let now = self.clock();
                    node.broker.tick(now);
                }
            }
            _ => {
                let Some(Reverse(planned)) = self.events.pop() else { return false };
                self.now = self.now.max(planned.at);
                self.happen(planned.event);
            }
        }
        self.after_engine();
        true
    }

    fn happen(&mut self, event: Event) {
        let now = self.clock();
        match event {
            Event::Deliver { generation, connection, frame, slot } => {
                let Some(node) = self.node.as_ref().filter(|_| generation == self.generation) else { return };
                let respond = Box::new(move |outcome| {
                    *slot.lock().expect("one thread") = Some(outcome);
                });
                node.broker.handle(now, &connection, frame, respond);
            }
            Event::Arrive { answer, with } => {
                let mut answer = answer.borrow_mut();
                if matches!(*answer, Arrival::Waiting) {
                    *answer = Arrival::Came(with);
                }
            }
            Event::Sync { generation } => {
                self.sync_planned = false;
                if let Some(node) = self.node.as_ref().filter(|_| generation == self.generation) {
                    node.broker.sync_next(|| now);
                    if node.broker.has_dirty() {
                        node.edge.sync_wanted.store(true, Ordering::Relaxed);
                    }
                }
            }
            Event::Crash => self.crash(),
            Event::Restart => self.start(),
            Event::Wake => {}
        }
    }

    /// Sends on what the engine has answered, and plans the sync that it asked for.
    fn after_engine(&mut self) {
        let Some(node) = &mut self.node else { return };
        node.broker.check();
        if let Some(sentence) = node.edge.stopped.lock().expect("one thread").clone() {
            panic!("the broker stopped by itself: {sentence}");
        }
        let mut ready = Vec::new();
        node.answers.retain(|(slot, arrival)| match slot.lock().expect("one thread").take() {
            None => true,
            Some(outcome) => {
                ready.push((outcome, Rc::clone(arrival)));
                false
            }
        });
        let wants_sync = node.edge.sync_wanted.swap(false, Ordering::Relaxed);
        for (outcome, arrival) in ready {
            let bytes = match outcome {
                Outcome::Frame(chunks) => Some(Bytes::from(chunks.concat())),
                Outcome::Nothing | Outcome::Close => None,
            };
            if !self.chance(self.faults.lose_answer) {
                self.arrive_later(&arrival, bytes);
            }
        }
        if wants_sync && !self.sync_planned {
            self.sync_planned = true;
            let after = self.rng.range(50_000, MS);
            let generation = self.generation;
            self.plan(after, Event::Sync { generation });
        } else if wants_sync {
            if let Some(node) = &self.node {
                node.edge.sync_wanted.store(true, Ordering::Relaxed);
            }
        }
    }

    fn connect(&mut self) -> SimConnection {
        self.next_connection += 1;
        let listener = Listener { name: "PLAINTEXT".to_owned(), host: "127.0.0.1".to_owned(), port: 9092 };
        let connection =
            Connection::new(ConnectionId(self.next_connection), "/127.0.0.1".to_owned(), listener);
        SimConnection { generation: self.generation, connection }
    }
}

/// A connection to one life of the broker.
pub struct SimConnection {
    generation: u64,
    connection: Arc<Connection>,
}

/// A handle on the world that actors share.
#[derive(Clone)]
pub struct Handle(pub Rc<RefCell<World>>);

impl Handle {
    /// Connects to the broker as it runs now.
    pub fn connect(&self) -> SimConnection {
        self.0.borrow_mut().connect()
    }

    /// Sends a frame and waits for the answer, at most `patience` nanoseconds. `None`: nothing came, and the connection
    /// may be dead.
    pub async fn exchange(&self, connection: &SimConnection, frame: Bytes, patience: u64) -> Option<Bytes> {
        let arrival = Rc::new(RefCell::new(Arrival::Waiting));
        {
            let mut world = self.0.borrow_mut();
            world.send(connection, frame, &arrival);
            world.plan(patience, Event::Arrive { answer: Rc::clone(&arrival), with: None });
        }
        std::future::poll_fn(|_| match &mut *arrival.borrow_mut() {
            Arrival::Waiting => Poll::Pending,
            Arrival::Came(with) => Poll::Ready(with.take()),
        })
        .await
    }

    /// Lets time pass.
    pub async fn sleep(&self, nanos: u64) {
        let until = {
            let mut world = self.0.borrow_mut();
            world.plan(nanos, Event::Wake);
            world.now + nanos
        };
        std::future::poll_fn(|_| if self.0.borrow().now >= until { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }

    /// A number from chance.
    pub fn range(&self, low: u64, high: u64) -> u64 {
        self.0.borrow_mut().rng.range(low, high)
    }

    /// Writes a line into the trace.
    pub fn note(&self, line: &str) {
        self.0.borrow_mut().note(line);
    }
}

/// An actor on its way.
pub type Actor = Pin<Box<dyn Future<Output = ()>>>;

/// Runs the world until every actor has ended. Panics when that takes too long: then something hangs.
pub fn run(world: &Rc<RefCell<World>>, mut actors: Vec<Actor>) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..EVENTS_MAX {
        actors.retain_mut(|actor| actor.as_mut().poll(&mut context).is_pending());
        if actors.is_empty() {
            return;
        }
        assert!(world.borrow_mut().step(), "actors wait, and nothing will ever happen");
    }
    panic!("{} actors have not ended after {EVENTS_MAX} events", actors.len());
}
