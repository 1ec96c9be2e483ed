//! Work that is too much for the thread that reads requests: it is handed to the edge, which has threads for it
//! ([`Edge::work`]), so that it holds up no client that the same thread serves.
//!
//! ```text
//! dispatch.rs ─► weight.rs: light ─► handler, here and now
//!                           heavy ─► Edge::work ─► handler
//! produce/append.rs: each heavy batch by itself, while the connection's turn is kept
//! ```
//!
//! What is heavy is told from sizes that a request declares, before anything is done for it. While a connection has heavy work
//! to be done, nothing more is read from it, and requests that were read already wait behind it: so its requests
//! keep their order, and a connection has no more than [`WORKS_OF_A_CONNECTION_MAX`] pieces of work at the edge.
//!
//! [`Edge::work`]: crate::Edge::work

use std::fmt;
use std::sync::Arc;

use fencepost_types::Now;

use crate::Broker;
use crate::connection::{Connection, ConnectionId};
use crate::cx::Task;

/// The most pieces of work that one connection has handed to the edge and that are not done: a batch that has its turn, a
/// Produce that is to be read, and another request.
pub const WORKS_OF_A_CONNECTION_MAX: usize = 3;

/// How long a piece of work may take, as far as it can be told beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Some tens of milliseconds: what a good client may ask for every day.
    Short,
    /// Seconds.
    Long,
}

/// A piece of heavy work. Dropping it undone is for an edge that stops: the request is not answered then.
pub struct Work {
    /// Whose it is: connections are served in turn.
    pub connection: ConnectionId,
    /// How long it may take: who asks for little should not wait behind who asks for much.
    pub span: Span,
    /// When it was handed over.
    pub handed_over: Now,
    run: Box<dyn FnOnce(Now) + Send>,
}

impl Work {
    /// A piece that `run` does, given the time at which it is begun.
    pub fn new(
        connection: ConnectionId,
        span: Span,
        handed_over: Now,
        run: impl FnOnce(Now) + Send + 'static,
    ) -> Self {
        Self { connection, span, handed_over, run: Box::new(run) }
    }

    /// Does it. Takes as long as it takes; call it from a thread that serves no connection, and never from within `Edge::work`
    /// while that has a lock.
    pub fn run(self, now: Now) {
        (self.run)(now);
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Work").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Broker {
    /// Has `task` done by the edge. To be called without a lock.
    pub(crate) fn work(self: &Arc<Self>, now: Now, connection: &Arc<Connection>, span: Span, task: Task) {
        connection.begin_work();
        let (broker, worker) = (Arc::clone(self), Arc::clone(connection));
        let run = move |now| {
            broker.enter(now, |broker, cx| {
                task(broker, cx);
                worker.end_work(cx);
            });
        };
        self.edge.work(Work::new(connection.id, span, now, run));
    }
}
