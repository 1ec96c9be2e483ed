//! Threads for requests that are too much for the threads that serve connections. Connections take turns: however much one asks
//! for, another waits for no more than a piece of its work. One thread does short pieces alone, so that no
//! short piece waits for the long ones of others.
//!
//! A connection hands in `WORKS_OF_A_CONNECTION_MAX` pieces at most and is not read while it has any, so the queue is bounded
//! by the number of connections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fencepost_broker::{ConnectionId, Span, WORKS_OF_A_CONNECTION_MAX, Work};

use crate::clock::Clock;
use crate::server::CONNECTIONS_MAX;

/// Threads there are at least: one for short pieces, one for any.
const WORKERS_MIN: usize = 2;
/// Threads there are at most; each may hold what a batch inflates to.
const WORKERS_MAX: usize = 16;
/// Pieces that wait at most. No request is refused: a connection that has some is not read.
const QUEUE_MAX: usize = CONNECTIONS_MAX * WORKS_OF_A_CONNECTION_MAX;

/// The queues that the threads share.
#[derive(Default)]
pub(crate) struct Workers {
    queues: Mutex<Queues>,
    wanted: Condvar,
}

#[derive(Default)]
struct Queues {
    short: Queue,
    long: Queue,
    /// The next piece that a thread for any takes is a long one, if there is one.
    is_turn_of_long: bool,
    stopping: bool,
}

/// Pieces in the order of their turns.
#[derive(Default)]
struct Queue {
    by_connection: BTreeMap<ConnectionId, VecDeque<Work>>,
    /// The connections that have some, in the order of their turns.
    turns: VecDeque<ConnectionId>,
    count: usize,
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

impl Queues {
    fn push(&mut self, work: Work) {
        match work.span {
            Span::Short => self.short.push(work),
            Span::Long => self.long.push(work),
        }
    }

    /// The next piece for a thread that does short ones alone, or any: then short and long ones alternate.
    fn pop(&mut self, does: Does) -> Option<Work> {
        match does {
            Does::Short => self.short.pop(),
            Does::Any => {
                self.is_turn_of_long = !self.is_turn_of_long;
                let (first, second) = if self.is_turn_of_long {
                    (&mut self.long, &mut self.short)
                } else {
                    (&mut self.short, &mut self.long)
                };
                first.pop().or_else(|| second.pop())
            }
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Short pieces alone.
    Short,
    /// Any.
    Any,
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
            // No thread would do it. Its request is not answered.
            return drop(work);
        }
        queue.push(work);
        drop(queue);
        // Not every thread may do it.
        self.wanted.notify_all();
    }

    /// The life of a thread: until the end, one piece after the other.
    pub(crate) fn run(&self, does: Does, clock: Clock) {
        while let Some(work) = self.next(does) {
            work.run(clock.now());
        }
    }

    fn next(&self, does: Does) -> Option<Work> {
        let mut queue = self.lock();
        loop {
            if queue.stopping {
                return None;
            }
            if let Some(work) = queue.pop(does) {
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

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().expect("no holder of this lock panics")
    }
}

/// Starts the threads.
pub(crate) fn start_workers(workers: &Arc<Workers>, clock: Clock) -> std::io::Result<Vec<JoinHandle<()>>> {
    let start = |number| {
        let (workers, does) = (Arc::clone(workers), if number == 0 { Does::Short } else { Does::Any });
        std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || workers.run(does, clock))
    };
    (0..Workers::count()).map(start).collect()
}

#[cfg(test)]
mod tests {
    use fencepost_types::Now;

    use super::*;

    fn queues(works: &[(u64, Span)]) -> Queues {
        let mut queues = Queues::default();
        for (connection, span) in works {
            queues.push(Work::new(ConnectionId(*connection), *span, Now::default(), |_| {}));
        }
        queues
    }

    fn order(queues: &mut Queues, does: Does) -> Vec<(u64, Span)> {
        std::iter::from_fn(|| queues.pop(does)).map(|work| (work.connection.0, work.span)).collect()
    }

    /// B10: connections take turns, whatever one of them hands in.
    #[test]
    fn connections_take_turns() {
        let short = Span::Short;
        let mut queues = queues(&[(1, short), (1, short), (1, short), (2, short), (3, short), (2, short)]);
        let order: Vec<_> =
            order(&mut queues, Does::Any).into_iter().map(|(connection, _)| connection).collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 1]);
        assert_eq!((queues.short.count, queues.long.count), (0, 0));
    }

    /// B10: a thread for short pieces takes no long one, and a thread for any lets neither wait for all of the other kind.
    #[test]
    fn short_pieces_do_not_wait_for_long_ones() {
        let works = [(1, Span::Long), (2, Span::Long), (3, Span::Long), (4, Span::Short), (5, Span::Short)];
        let mut all = queues(&works);
        assert_eq!(order(&mut all, Does::Short), [(4, Span::Short), (5, Span::Short)]);
        assert_eq!(order(&mut all, Does::Any), [(1, Span::Long), (2, Span::Long), (3, Span::Long)]);
        let order = order(&mut queues(&works), Does::Any);
        assert_eq!(order.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [1, 4, 2, 5, 3]);
    }
}
