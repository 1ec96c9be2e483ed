//! What the engine asks of the edge. The simulator implements it too.

use fencepost_types::Nanos;

use crate::work::Work;

/// Hooks by which the engine wakes the threads around it. They must not call back into the engine.
pub trait Edge: Send + Sync {
    /// Something is due at `at` now, which is before everything else that is due: ask `Broker::next_deadline` again, unless
    /// that would be done by then anyway.
    fn deadline_changed(&self, at: Nanos);

    /// The same for the lane of chores alone.
    fn chores_changed(&self, at: Nanos) {
        self.deadline_changed(at);
    }

    /// A partition is dirty: call `Broker::sync_next`.
    fn sync_needed(&self);

    /// Something is too much for the calling thread, which serves others too: run it soon, on a thread that serves no connection,
    /// connections in turn. This one is called without a lock of the engine; so an edge that has one thread may run it
    /// here and now.
    fn work(&self, work: Work) {
        let now = work.handed_over;
        work.run(now);
    }

    /// 128 random bits: topic ids, member ids, incarnations.
    fn random(&self) -> u128;

    /// The broker cannot go on: stop the process, with one sentence for the operator.
    fn stop(&self, sentence: &str);
}
