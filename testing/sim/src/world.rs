//! The world around one broker: time, network, disk and power, all from one seed, on one thread.
//!
//! Everything that happens is an event with a time. The world takes the next one, lets the broker or an actor act, and
//! goes on. After every step of the engine its invariants are checked.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_broker::{Broker, BrokerSettings, Durability, KnownWindows};
use fencepost_types::{Millis, Now};

use crate::disk::SimDisk;
use crate::faults::{Accident, Faults};
use crate::network::{Arrival, ArrivalCell, Delivery};
use crate::power::Node;
use crate::rng::Rng;
use crate::trace::{Fingerprint, Trace};

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Wall time at which every run begins.
const WALL_START_MS: i64 = 1_700_000_000_000;
/// So many events in a row without time going on are a loop.
const EVENTS_AT_ONCE_MAX: u64 = 100_000;
/// The process has so many threads that sync, at most.
const SYNCERS_MAX: u64 = 3;
/// Heavy work is begun after so long, at most.
const WORK_US_MAX: u64 = 20_000;
/// Live state is compared with replayed state once in so many steps of the engine, and after every start.
const STEPS_BETWEEN_VERIFICATIONS: u64 = 100;

/// What is planned to happen.
pub(crate) enum Event {
    /// A frame reaches the broker.
    Deliver(Delivery),
    /// An answer reaches an actor, or its patience ends.
    Arrive { arrival: ArrivalCell, with: Option<Bytes> },
    /// A thread that syncs wakes up, or is done with a partition.
    Sync { generation: u64, round: Option<u64> },
    /// A thread for heavy work wakes up.
    Work { generation: u64 },
    /// The process comes back.
    Restart,
    /// Somebody has slept long enough.
    Wake,
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

/// The world. See the page of this module.
pub struct World {
    /// Nanoseconds since the start.
    pub(crate) now: u64,
    pub(crate) trace: Trace,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    pub(crate) durability: Durability,
    pub(crate) settings: BrokerSettings,
    pub(crate) disk: SimDisk,
    pub(crate) node: Option<Node>,
    /// Counts the lives of the process.
    pub(crate) generation: u64,
    pub(crate) next_connection: u64,
    /// Threads that sync.
    syncers: u64,
    next_round: u64,
    /// The accident that the disk's calls are counted down to.
    pub(crate) armed: Option<Accident>,
    pub(crate) accidents: u64,
    pub(crate) steps_to_accident: u64,
    next_order: u64,
    events: BinaryHeap<Reverse<Planned>>,
    steps: u64,
    events_at_once: u64,
}

impl World {
    /// A world with an empty disk and a broker that has just started on it.
    pub fn new(seed: u64, faults: Faults, settings: BrokerSettings, trace: Trace) -> Rc<RefCell<Self>> {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(rng.bits());
        let syncers = rng.range(1, SYNCERS_MAX + 1);
        let mut world = Self {
            now: 0,
            trace,
            rng,
            faults,
            durability: settings.durability,
            settings,
            disk,
            node: None,
            generation: 0,
            next_connection: 0,
            syncers,
            next_round: 0,
            armed: None,
            accidents: 0,
            steps_to_accident: faults.accident_every_steps,
            next_order: 0,
            events: BinaryHeap::new(),
            steps: 0,
            events_at_once: 0,
        };
        world.note(&format!("{faults:?}, {:?}", world.durability));
        world.set_disk_faults();
        world.start();
        Rc::new(RefCell::new(world))
    }

    /// The present, as the broker is told.
    pub(crate) fn clock(&self) -> Now {
        let mono = self.node.as_ref().map(|node| node.mono(self.now)).unwrap_or_default();
        Now { wall: self.wall(), mono }
    }

    /// Wall time.
    pub(crate) fn wall(&self) -> Millis {
        Millis(WALL_START_MS + (self.now / MS) as i64)
    }

    /// The running broker, if there is one.
    pub fn broker(&self) -> Option<Arc<Broker>> {
        self.node.as_ref().map(|node| Arc::clone(&node.broker))
    }

    /// How often the process came to an end, in one way or another.
    pub fn accidents(&self) -> u64 {
        self.accidents
    }

    /// What goes wrong at the moment.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// What an acknowledged record survives.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// From now on nothing goes wrong any more.
    pub fn make_peace(&mut self) {
        self.faults = Faults::NONE;
        self.set_disk_faults();
        if self.armed.take().is_some() {
            self.disk.power_off_after(u64::MAX);
        }
        self.note("peace");
    }

    /// Writes a line into the trace.
    pub fn note(&mut self, line: &str) {
        let now = self.now;
        self.trace.line(now, line);
    }

    /// Ends the trace with what lies on the disk.
    pub fn fingerprint(&mut self) -> Fingerprint {
        for (path, content) in self.disk.files() {
            self.trace.bytes(path.as_bytes());
            self.trace.bytes(&content);
        }
        self.trace.fingerprint()
    }

    pub(crate) fn plan(&mut self, after: u64, event: Event) {
        self.next_order += 1;
        let planned = Planned { at: self.now + after, order: self.next_order, event };
        self.events.push(Reverse(planned));
    }

    /// Panics unless live state is what the logs say (invariant 3).
    pub(crate) fn verify(&self) {
        if let Some(node) = &self.node {
            node.broker.check();
            node.broker.verify_replay(KnownWindows::Whole);
        }
    }

    /// Takes the next event. `false` when there is none left, and nothing is due.
    pub(crate) fn step(&mut self) -> bool {
        let before = self.now;
        let mut is_step = true;
        let planned = self.events.peek().map(|Reverse(planned)| planned.at);
        let due = self.node.as_ref().and_then(|node| node.wake_at);
        match (planned, due) {
            (None, None) => return false,
            (planned, Some(due)) if planned.is_none_or(|at| due <= at) => {
                self.now = self.now.max(due);
                self.tick();
            }
            _ => {
                let Some(Reverse(planned)) = self.events.pop() else { return false };
                self.now = self.now.max(planned.at);
                is_step =
                    matches!(planned.event, Event::Deliver(_) | Event::Sync { .. } | Event::Work { .. });
                self.happen(planned.event);
            }
        }
        let answered = self.after_engine();
        if is_step {
            self.count_down_to_accident(answered);
        }
        self.events_at_once = if self.now == before { self.events_at_once + 1 } else { 0 };
        assert!(self.events_at_once < EVENTS_AT_ONCE_MAX, "something goes on for ever at {} ns", self.now);
        true
    }

    fn tick(&mut self) {
        let now = self.clock();
        if let Some(node) = &mut self.node {
            node.broker.tick(now);
            node.look_at_deadline();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver(delivery) => self.deliver(delivery),
            Event::Arrive { arrival, with } => {
                let mut arrival = arrival.borrow_mut();
                if matches!(*arrival, Arrival::Waiting) {
                    *arrival = Arrival::Came(with);
                }
            }
            Event::Sync { generation, round } => self.sync(generation, round),
            Event::Work { generation } => self.work(generation),
            Event::Restart => self.start(),
            Event::Wake => {}
        }
    }

    /// A thread that syncs goes on until nothing is dirty, then waits to be told. What a round finds dirty at its beginning
    /// is on the disk at its end; what comes meanwhile may be or not.
    fn sync(&mut self, generation: u64, round: Option<u64>) {
        if generation != self.generation {
            return;
        }
        if let Some(round) = round {
            self.end_sync(round);
        }
        let Some(node) = &mut self.node else { return };
        let Some(round) = node.broker.begin_sync() else {
            node.syncers_at_work -= 1;
            return;
        };
        let synced = round.run();
        self.next_round += 1;
        node.rounds.insert(self.next_round, (round, synced));
        self.plan_sync(Some(self.next_round));
    }

    /// The engine learns what has become of a round.
    pub(crate) fn end_sync(&mut self, round: u64) {
        let now = self.clock();
        let Some(node) = &mut self.node else { return };
        let (round, synced) = node.rounds.remove(&round).expect("a round ends once");
        node.broker.end_sync(now, round, synced);
    }

    fn plan_sync(&mut self, round: Option<u64>) {
        let after = self.rng.range(50, self.faults.sync_us_max + 1) * 1_000;
        let generation = self.generation;
        self.plan(after, Event::Sync { generation, round });
    }

    /// A thread for heavy work takes the oldest piece.
    fn work(&mut self, generation: u64) {
        if generation != self.generation {
            return;
        }
        let now = self.clock();
        let Some(node) = &mut self.node else { return };
        node.works_planned -= 1;
        if let Some(work) = node.edge.take_work() {
            work.run(now);
        }
    }

    /// Each piece of heavy work wakes a thread, which comes to it later than whatever happens meanwhile.
    fn wake_workers(&mut self) {
        while let Some(node) = &mut self.node
            && node.works_planned < node.edge.works()
        {
            node.works_planned += 1;
            let (after, generation) = (self.rng.range(50, WORK_US_MAX) * 1_000, self.generation);
            self.plan(after, Event::Work { generation });
        }
    }

    /// The engine has something to sync: one more thread wakes up, if one sleeps.
    fn wake_syncer(&mut self) {
        let Some(node) = &mut self.node else { return };
        if node.syncers_at_work < self.syncers {
            node.syncers_at_work += 1;
            self.plan_sync(None);
        }
    }

    /// What the edge does when the engine has returned, and the checks. Answers how many requests were answered.
    fn after_engine(&mut self) -> usize {
        if self.node.is_none() {
            return 0;
        }
        if self.disk.is_off() {
            self.accident_came();
            return 0;
        }
        if let Some(sentence) = self.node.as_ref().and_then(|node| node.edge.stopped()) {
            self.stopped_by_itself(&sentence);
            return 0;
        }
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_BETWEEN_VERIFICATIONS) {
            self.verify();
        }
        let Some(node) = &mut self.node else { return 0 };
        node.broker.check();
        if node.edge.take_deadline_changed() {
            node.look_at_deadline();
        }
        let sync_needed = node.edge.take_sync_needed();
        if sync_needed {
            self.wake_syncer();
        }
        self.wake_workers();
        self.collect_answers()
    }
}
