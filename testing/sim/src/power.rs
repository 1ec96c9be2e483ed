//! The life of the broker's process and of its machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_broker::{Broker, Durability, Edge, SyncRound};
use fencepost_storage::{Disk, StorageError};
use fencepost_types::{Nanos, Now};

use crate::disk::Faults as DiskFaults;
use crate::edge::SimEdge;
use crate::faults::Accident;
use crate::network::{Asked, listener};
use crate::world::{Event, MS, World};

/// Every life of the process sees its monotonic clock begin here.
const MONO_START_NS: u64 = 1_000 * MS;
/// A mid-step accident comes after so many further changes to the disk, at most.
const CALLS_BEFORE_ACCIDENT_MAX: u64 = 60;
/// The process is back after so long, at most.
const DOWN_MS_MAX: u64 = 50;
/// One start in so many meets an accident, where there are accidents.
const ACCIDENT_AT_START_ONE_IN: u64 = 4;

/// The running broker, and what it was asked.
pub(crate) struct Node {
    pub(crate) broker: Arc<Broker>,
    pub(crate) edge: Arc<SimEdge>,
    pub(crate) asked: Vec<Asked>,
    /// When the deadline that the edge knows of is due, in the world's nanoseconds.
    pub(crate) wake_at: Option<u64>,
    /// Threads that sync and are awake.
    pub(crate) syncers_at_work: u64,
    /// Pieces of heavy work whose threads have been woken.
    pub(crate) works_planned: usize,
    /// What they are at, and what has become of it.
    pub(crate) rounds: BTreeMap<u64, (SyncRound, Result<(), StorageError>)>,
    started_at: u64,
}

impl Node {
    /// The process's monotonic clock at the world's time `now`.
    pub(crate) fn mono(&self, now: u64) -> Nanos {
        Nanos(MONO_START_NS + now - self.started_at)
    }

    /// Asks for the next deadline, as an edge does that has been told of a change.
    pub(crate) fn look_at_deadline(&mut self) {
        let due = self.broker.next_deadline();
        self.wake_at = due.map(|mono| (mono.0 + self.started_at).saturating_sub(MONO_START_NS));
    }
}

impl World {
    /// The process begins. Panics when the broker does not start on whatever the last life has left.
    pub(crate) fn start(&mut self) {
        self.generation += 1;
        if self.armed.is_none()
            && self.faults.accident_every_steps > 0
            && self.rng.one_in(ACCIDENT_AT_START_ONE_IN)
        {
            self.arm_some();
        }
        let edge = Arc::new(SimEdge::new(self.rng.fork()));
        let disk = Arc::new(self.disk.clone()) as Arc<dyn Disk>;
        let clock = Now { wall: self.wall(), mono: Nanos(MONO_START_NS) };
        let as_edge = Arc::clone(&edge) as Arc<dyn Edge>;
        let started = Broker::start(disk, as_edge, self.settings.clone(), listener(), &|| clock);
        if self.disk.is_off() {
            self.note("the accident comes during the start");
            let accident = self.armed.take().expect("only an accident takes the disk");
            return self.lose(accident);
        }
        let broker = match started {
            Ok(broker) => broker,
            Err(error) if self.faults.fail_sync_permille > 0 => {
                self.note(&format!("the start fails: {error}"));
                return self.lose(Accident::MachineCrash);
            }
            Err(error) => panic!("the broker must start on whatever is there: {error}"),
        };
        let started_at = self.now;
        self.node = Some(Node {
            broker,
            edge,
            asked: Vec::new(),
            wake_at: None,
            syncers_at_work: 0,
            works_planned: 0,
            rounds: BTreeMap::new(),
            started_at,
        });
        self.note("broker started");
        self.verify();
    }

    /// The engine has made a step, and answered so many requests: perhaps it was the last one before an accident.
    pub(crate) fn count_down_to_accident(&mut self, answered: usize) {
        let Some(node) = &self.node else { return };
        // In the page cache nothing waits for a sync.
        let can_lose = node.broker.has_dirty() || self.durability == Durability::PageCache;
        if !can_lose || self.armed.is_some() {
            return;
        }
        if answered > 0 && self.rng.one_in(self.faults.accident_after_answer) {
            return self.accident(Accident::covered_by(self.durability)[0]);
        }
        if self.faults.accident_every_steps == 0 {
            return;
        }
        self.steps_to_accident = self.steps_to_accident.saturating_sub(1);
        if self.steps_to_accident == 0 {
            self.steps_to_accident = self.rng.range(1, self.faults.accident_every_steps + 1);
            let accident = self.rng.pick(Accident::covered_by(self.durability));
            self.accident(accident);
        }
    }

    /// `accident` happens: now, or within the next steps if it is one of those.
    pub(crate) fn accident(&mut self, accident: Accident) {
        match accident {
            Accident::MachineCrash | Accident::ProcessKill => self.lose(accident),
            Accident::MachineCrashMidStep | Accident::ProcessKillMidStep => self.arm(accident),
            Accident::CleanStop => self.stop_cleanly(),
        }
    }

    fn arm_some(&mut self) {
        let choices = Accident::covered_by(self.durability).iter().copied();
        let mid_step = choices.filter(|accident| match accident {
            Accident::MachineCrashMidStep | Accident::ProcessKillMidStep => true,
            Accident::MachineCrash | Accident::ProcessKill | Accident::CleanStop => false,
        });
        let mid_step: Vec<_> = mid_step.collect();
        let accident = self.rng.pick(&mid_step);
        self.arm(accident);
    }

    fn arm(&mut self, accident: Accident) {
        let calls = self.rng.range(1, CALLS_BEFORE_ACCIDENT_MAX + 1);
        self.note(&format!("{accident:?} after {calls} changes to the disk"));
        self.disk.power_off_after(calls);
        self.armed = Some(accident);
    }

    /// The disk has gone off in the middle of a step.
    pub(crate) fn accident_came(&mut self) {
        let accident = self.armed.take().expect("only an accident takes the disk");
        self.lose(accident);
    }

    /// The process is gone, and what else the accident takes.
    pub(crate) fn lose(&mut self, accident: Accident) {
        self.note(&format!("{accident:?}"));
        self.accidents += 1;
        self.armed = None;
        if let Some(node) = self.node.take() {
            // It would keep the broker, which keeps the edge.
            while node.edge.take_work().is_some() {}
        }
        if accident.takes_the_machine() {
            self.disk.crash();
        } else {
            self.disk.kill();
        }
        let down = self.rng.range(1, DOWN_MS_MAX + 1) * MS;
        self.plan(down, Event::Restart);
    }

    fn stop_cleanly(&mut self) {
        let rounds: Vec<u64> = self.node.iter().flat_map(|node| node.rounds.keys().copied()).collect();
        for round in rounds {
            self.end_sync(round);
        }
        let clock = self.clock();
        let Some(node) = &self.node else { return };
        let stopped = node.broker.stop(&|| clock);
        if self.disk.is_off() {
            return self.accident_came();
        }
        match stopped {
            Ok(()) => self.lose(Accident::CleanStop),
            Err(_) if self.faults.fail_sync_permille > 0 => self.lose(Accident::MachineCrash),
            Err(error) => panic!("a clean stop must not fail: {error}"),
        }
    }

    /// The engine asked to be stopped. A failed sync is a reason, and takes the machine with it; there is no other.
    pub(crate) fn stopped_by_itself(&mut self, sentence: &str) {
        assert!(self.faults.fail_sync_permille > 0, "the broker stopped by itself: {sentence}");
        self.lose(Accident::MachineCrash);
    }

    /// Tells the disk what is to go wrong.
    pub(crate) fn set_disk_faults(&mut self) {
        let sync_error_permille = self.faults.fail_sync_permille;
        self.disk.set_faults(DiskFaults { sync_error_permille, ..DiskFaults::default() });
    }
}
