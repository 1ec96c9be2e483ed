//! The threads around the engine: a timer for each lane of deadlines, a few syncers, workers, and what wakes them.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use fencepost_broker::{Broker, Edge, Lane, Work};
use fencepost_types::Nanos;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::timer::{Timer, run_timer};
use crate::workers::{Workers, start_workers};

/// Threads that sync files. Each takes another partition, so that syncs of different files overlap.
const SYNC_THREADS: usize = 2;
/// Random bytes are read from the system in pieces of this size.
const RANDOM_POOL_BYTES: usize = 512;

/// Wakes the timers, the syncers and the workers on behalf of the engine.
pub(crate) struct RealEdge {
    prompt: Timer,
    chores: Timer,
    sync: Mutex<SyncSignal>,
    sync_wanted: Condvar,
    workers: Arc<Workers>,
    random: Mutex<RandomPool>,
    failure: Mutex<Option<String>>,
    failed: Notify,
}

#[derive(Default)]
struct SyncSignal {
    wanted: bool,
    stopping: bool,
}

struct RandomPool {
    source: File,
    bytes: [u8; RANDOM_POOL_BYTES],
    used: usize,
}

impl RealEdge {
    pub(crate) fn new() -> std::io::Result<Self> {
        let source = File::open("/dev/urandom")?;
        let pool = RandomPool { source, bytes: [0; RANDOM_POOL_BYTES], used: RANDOM_POOL_BYTES };
        Ok(Self {
            prompt: Timer::default(),
            chores: Timer::default(),
            sync: Mutex::new(SyncSignal::default()),
            sync_wanted: Condvar::new(),
            workers: Arc::default(),
            random: Mutex::new(pool),
            failure: Mutex::new(None),
            failed: Notify::new(),
        })
    }

    /// Resolves when the engine says that it cannot go on.
    pub(crate) async fn failure(&self) -> String {
        loop {
            let failed = self.failed.notified();
            if let Some(sentence) = self.failure.lock().expect("no holder of this lock panics").clone() {
                return sentence;
            }
            failed.await;
        }
    }

    /// The timer of a lane.
    pub(crate) fn timer(&self, lane: Lane) -> &Timer {
        match lane {
            Lane::Prompt => &self.prompt,
            Lane::Chores => &self.chores,
        }
    }

    fn stop_syncers(&self) {
        self.sync.lock().expect("no holder of this lock panics").stopping = true;
        self.sync_wanted.notify_all();
    }

    /// Waits until a sync is wanted; `false` when the syncers are to stop.
    fn wait_for_sync(&self) -> bool {
        let mut signal = self.sync.lock().expect("no holder of this lock panics");
        while !signal.wanted && !signal.stopping {
            signal = self.sync_wanted.wait(signal).expect("no holder of this lock panics");
        }
        signal.wanted = false;
        !signal.stopping
    }
}

impl Edge for RealEdge {
    fn deadline_changed(&self, at: Nanos) {
        self.prompt.look_again(at);
    }

    fn chores_changed(&self, at: Nanos) {
        self.chores.look_again(at);
    }

    fn sync_needed(&self) {
        self.sync.lock().expect("no holder of this lock panics").wanted = true;
        self.sync_wanted.notify_one();
    }

    fn work(&self, work: Work) {
        self.workers.push(work);
    }

    fn random(&self) -> u128 {
        let mut pool = self.random.lock().expect("no holder of this lock panics");
        if pool.used + 16 > RANDOM_POOL_BYTES {
            let RandomPool { source, bytes, used } = &mut *pool;
            source.read_exact(bytes).expect("the system's random source can always be read");
            *used = 0;
        }
        let at = pool.used;
        pool.used += 16;
        let mut bits = [0; 16];
        bits.copy_from_slice(&pool.bytes[at..at + 16]);
        u128::from_be_bytes(bits)
    }

    fn stop(&self, sentence: &str) {
        self.failure
            .lock()
            .expect("no holder of this lock panics")
            .get_or_insert_with(|| sentence.to_owned());
        self.failed.notify_one();
    }
}

/// The running threads; they end when told to.
pub(crate) struct Threads {
    edge: Arc<RealEdge>,
    timers: Vec<JoinHandle<()>>,
    syncers: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the timers, the syncers and the workers.
    pub(crate) fn start(broker: &Arc<Broker>, edge: &Arc<RealEdge>, clock: Clock) -> std::io::Result<Self> {
        let mut syncers = Vec::new();
        for number in 0..SYNC_THREADS {
            let (broker, edge) = (Arc::clone(broker), Arc::clone(edge));
            let thread = std::thread::Builder::new().name(format!("sync-{number}"));
            syncers.push(thread.spawn(move || {
                while edge.wait_for_sync() {
                    while broker.sync_next(|| clock.now()) {}
                }
            })?);
        }
        let mut timers = Vec::new();
        for (lane, name) in [(Lane::Prompt, "timer"), (Lane::Chores, "chores")] {
            let (broker, edge) = (Arc::clone(broker), Arc::clone(edge));
            let thread = std::thread::Builder::new().name(name.to_owned());
            timers.push(thread.spawn(move || run_timer(&broker, edge.timer(lane), lane, clock))?);
        }
        let workers = start_workers(&edge.workers, clock)?;
        Ok(Self { edge: Arc::clone(edge), timers, syncers, workers })
    }

    /// Ends the timers, the syncers and the workers; what is dirty stays dirty.
    pub(crate) fn stop(self) {
        // A timer may be in the middle of a tick, which the clean stop must not meet.
        Lane::ALL.into_iter().for_each(|lane| self.edge.timer(lane).stop());
        self.edge.stop_syncers();
        self.edge.workers.stop();
        for thread in self.timers.into_iter().chain(self.syncers).chain(self.workers) {
            // One that panicked has aborted the process already.
            let _ = thread.join();
        }
    }
}
