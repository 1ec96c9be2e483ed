//! What the engine asks of its surroundings, simulated.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fencepost_broker::{Edge, Work};
use fencepost_types::Nanos;

use crate::rng::Rng;

/// Remembers what the engine has asked for; the world looks after every step. What the engine forgets to ask for does not
/// happen, as with the real edge.
pub(crate) struct SimEdge {
    sync_needed: AtomicBool,
    deadline_changed: AtomicBool,
    rng: Mutex<Rng>,
    works: Mutex<VecDeque<Work>>,
    stopped: Mutex<Option<String>>,
}

impl SimEdge {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            sync_needed: AtomicBool::new(false),
            deadline_changed: AtomicBool::new(true),
            rng: Mutex::new(rng),
            works: Mutex::default(),
            stopped: Mutex::new(None),
        }
    }

    /// Whether a sync was asked for since the last look.
    pub(crate) fn take_sync_needed(&self) -> bool {
        self.sync_needed.swap(false, Ordering::Relaxed)
    }

    /// Whether the next deadline must be asked for again.
    pub(crate) fn take_deadline_changed(&self) -> bool {
        self.deadline_changed.swap(false, Ordering::Relaxed)
    }

    /// How many pieces of heavy work there are that no thread has begun.
    pub(crate) fn works(&self) -> usize {
        self.works.lock().expect("one thread").len()
    }

    /// The oldest of them.
    pub(crate) fn take_work(&self) -> Option<Work> {
        self.works.lock().expect("one thread").pop_front()
    }

    /// The sentence with which the engine asked to be stopped.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.stopped.lock().expect("one thread").clone()
    }
}

impl Edge for SimEdge {
    fn deadline_changed(&self, _: Nanos) {
        self.deadline_changed.store(true, Ordering::Relaxed);
    }

    fn sync_needed(&self) {
        self.sync_needed.store(true, Ordering::Relaxed);
    }

    fn work(&self, work: Work) {
        self.works.lock().expect("one thread").push_back(work);
    }

    fn random(&self) -> u128 {
        let mut rng = self.rng.lock().expect("one thread");
        u128::from(rng.bits()) << 64 | u128::from(rng.bits())
    }

    fn stop(&self, sentence: &str) {
        self.stopped.lock().expect("one thread").get_or_insert_with(|| sentence.to_owned());
    }
}
