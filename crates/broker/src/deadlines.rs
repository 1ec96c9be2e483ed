//! The one queue of everything that is due at a time.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fencepost_types::{Nanos, Now};

use crate::cx::{Cx, Task};

/// Names an entry of the queue, to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeadlineKey {
    at: Nanos,
    number: u64,
}

#[derive(Default)]
struct Queue {
    entries: BTreeMap<DeadlineKey, Task>,
    next_number: u64,
}

/// Tasks by the monotonic time at which they are due; ties run in the order of their coming.
#[derive(Default)]
pub struct Deadlines {
    queue: Mutex<Queue>,
}

impl Deadlines {
    /// Runs `task` at `at`, unless it is cancelled before.
    pub fn add(&self, at: Nanos, task: Task) -> DeadlineKey {
        let mut queue = self.queue.lock().expect("no holder of this lock panics");
        queue.next_number += 1;
        let key = DeadlineKey { at, number: queue.next_number };
        queue.entries.insert(key, task);
        key
    }

    /// Takes an entry back. Nothing happens if it has run already.
    pub fn cancel(&self, key: DeadlineKey) {
        let removed = self.queue.lock().expect("no holder of this lock panics").entries.remove(&key);
        drop(removed);
    }

    /// When the next entry is due.
    pub fn next(&self) -> Option<Nanos> {
        let queue = self.queue.lock().expect("no holder of this lock panics");
        queue.entries.first_key_value().map(|(key, _)| key.at)
    }

    /// Moves everything that is due into `cx`.
    pub fn take_due(&self, now: Now, cx: &mut Cx) {
        let mut queue = self.queue.lock().expect("no holder of this lock panics");
        while let Some(entry) = queue.entries.first_entry() {
            if entry.key().at > now.mono {
                break;
            }
            cx.push(entry.remove());
        }
    }
}
