//! Threads for requests that are too much for the threads that serve connections. Connections take turns: however much one asks
//! for, another waits for no more than a piece of its work.
//!
//! A connection hands in `WORKS_OF_A_CONNECTION_MAX` pieces at most and is not read while it has any, so the queue is bounded
//! by the number of connections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fencepost_broker::{ConnectionId, WORKS_OF_A_CONNECTION_MAX, Work};

use crate::clock::Clock;
use crate::server::CONNECTIONS_MAX;

/// Threads there are at least: one piece does not hold up all others on a machine of one core.
const WORKERS_MIN: usize = 2;
/// Threads there are at most; each may hold what a batch inflates to.
const WORKERS_MAX: usize = 16;
/// Pieces that wait at most. Nobody is refused: whoever has some is not read.
const QUEUE_MAX: usize = CONNECTIONS_MAX * WORKS_OF_A_CONNECTION_MAX;

/// The queue that the threads share.
#[derive(Default)]
pub(crate) struct Workers {
    queue: Mutex<Queue>,
    wanted: Condvar,
}

#[derive(Default)]
struct Queue {
    by_connection: BTreeMap<ConnectionId, VecDeque<Work>>,
    /// The connections that have some, in the order of their turns.
    turns: VecDeque<ConnectionId>,
    count: usize,
    stopping: bool,
}

impl Queue {
    fn push(&mut self, work: Work) {
        self.count += 1;
        assert!(self.count <= QUEUE_MAX, "{} pieces of work", self.count);
        let of_connection = self.by_connection.entry(work.connection).or_default();
        if of_connection.is_empty() {
            self.turns.push_back(work.connection);
        }
        of_connection.push_back(work);
    }

    /// The next piece of whose turn it is; that connection goes to the end.
    fn pop(&mut self) -> Option<Work> {
        let connection = self.turns.pop_front()?;
        let of_connection = self.by_connection.get_mut(&connection)?;
        let work = of_connection.pop_front();
        if of_connection.is_empty() {
            self.by_connection.remove(&connection);
        } else {
            self.turns.push_back(connection);
        }
        self.count -= 1;
        work
    }
}

impl Workers {
    /// How many threads there are to be: one for each core.
    pub(crate) fn count() -> usize {
        std::thread::available_parallelism().map_or(WORKERS_MIN, usize::from).clamp(WORKERS_MIN, WORKERS_MAX)
    }

    /// Adds a piece.
    pub(crate) fn push(&self, work: Work) {
        let mut queue = self.lock();
        if queue.stopping {
            drop(queue);
            // Nobody would do it. Its request is not answered.
            return drop(work);
        }
        queue.push(work);
        drop(queue);
        self.wanted.notify_one();
    }

    /// The life of a thread: until the end, one piece after the other.
    pub(crate) fn run(&self, clock: Clock) {
        while let Some(work) = self.next() {
            work.run(clock.now());
        }
    }

    fn next(&self) -> Option<Work> {
        let mut queue = self.lock();
        loop {
            if queue.stopping {
                return None;
            }
            if let Some(work) = queue.pop() {
                return Some(work);
            }
            queue = self.wanted.wait(queue).expect("no holder of this lock panics");
        }
    }

    /// Ends the threads, each after the piece that it is at; what has not been begun never is.
    pub(crate) fn stop(&self) {
        let mut queue = self.lock();
        queue.stopping = true;
        // Pieces keep the broker alive; dropped without the lock.
        let undone = std::mem::take(&mut *queue);
        queue.stopping = true;
        drop(queue);
        self.wanted.notify_all();
        drop(undone);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no holder of this lock panics")
    }
}

/// Starts the threads.
pub(crate) fn start_workers(workers: &Arc<Workers>, clock: Clock) -> std::io::Result<Vec<JoinHandle<()>>> {
    let start = |number| {
        let workers = Arc::clone(workers);
        std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || workers.run(clock))
    };
    (0..Workers::count()).map(start).collect()
}
