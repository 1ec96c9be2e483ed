//! One entry into the engine: the time, and the tasks that it woke.

use std::collections::VecDeque;
use std::sync::Arc;

use fencepost_types::Now;

use crate::Broker;

/// Something to be done once no lock is held.
pub type Task = Box<dyn FnOnce(&Arc<Broker>, &mut Cx) + Send>;

/// What an entry into the engine carries along: `now`, and a queue of tasks.
///
/// Code under a lock never calls back: it pushes a task, and the outermost frame runs it (see `Broker::enter`).
/// So no lock is ever held over foreign code, and the order of tasks is the order in which they were woken.
pub struct Cx {
    /// The present, fixed for the whole entry.
    pub now: Now,
    tasks: VecDeque<Task>,
}

impl Cx {
    /// An entry at `now` with nothing to do yet.
    pub(crate) fn new(now: Now) -> Self {
        Self { now, tasks: VecDeque::new() }
    }

    /// Runs `task` after everything that was pushed before it, when no lock is held.
    pub fn push(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    /// Runs all tasks, also those that they push themselves.
    pub(crate) fn run(&mut self, broker: &Arc<Broker>) {
        while let Some(task) = self.tasks.pop_front() {
            task(broker, self);
        }
    }
}
