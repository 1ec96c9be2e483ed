//! Everything that is due at a time: one queue for what clients wait for, one for chores.

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

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// What clients wait for: timeouts of transactions, sessions, parked requests.
    Prompt,
    /// What may be late by as long as a sync or a look at all partitions takes: retention, checkpoints, the cleaner.
    Chores,
}

impl Lane {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Prompt, Self::Chores];
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

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.queue.lock().expect("no holder of this lock panics").entries.len()
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

/// After a turn the next one comes no sooner than this.
const TURN_MS: i64 = 20;

/// One turn after the other for everybody's work that can wait, so that much of it at once keeps neither the thread nor the
/// disk from what cannot.
#[derive(Default)]
pub struct Turns {
    next: Mutex<Nanos>,
}

impl Turns {
    /// When whoever asks has its turn: at once if nobody had one lately, else after all who asked before.
    pub fn take(&self, now: Now) -> Nanos {
        let mut next = self.next.lock().expect("no holder of this lock panics");
        let turn = now.mono.max(*next);
        *next = turn.plus_ms(TURN_MS);
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{NOW, broker, later};

    /// What is due runs in the order of its time, ties in the order of their coming; what was taken back does not; the rest
    /// stays.
    #[test]
    fn what_is_due_runs_in_order() {
        let (broker, ran) = (broker(), Arc::new(Mutex::new(Vec::new())));
        let deadlines = Deadlines::default();
        let add = |at_ms: i64, name: &'static str| {
            let ran = Arc::clone(&ran);
            deadlines.add(NOW.mono.plus_ms(at_ms), Box::new(move |_, _| ran.lock().unwrap().push(name)))
        };
        add(20, "c");
        add(10, "a");
        add(10, "b");
        let taken_back = add(15, "never");
        add(30, "later");
        deadlines.cancel(taken_back);
        deadlines.cancel(taken_back);
        assert_eq!(deadlines.next(), Some(NOW.mono.plus_ms(10)));
        let mut cx = Cx::new(later(20));
        deadlines.take_due(cx.now, &mut cx);
        assert!(ran.lock().unwrap().is_empty(), "B2: nothing runs under the queue's lock");
        cx.run(&broker);
        assert_eq!(*ran.lock().unwrap(), ["a", "b", "c"]);
        assert_eq!(deadlines.next(), Some(NOW.mono.plus_ms(30)));
    }
    /// Turns are apart from one another; nobody waits where nobody was.
    #[test]
    fn turns_come_one_after_the_other() {
        let turns = Turns::default();
        let taken: Vec<_> = [0, 0, 5, 100].into_iter().map(|at_ms| turns.take(later(at_ms))).collect();
        let expected = [0, TURN_MS, 2 * TURN_MS, 100].map(|at_ms| NOW.mono.plus_ms(at_ms));
        assert_eq!(taken, expected);
    }
}
