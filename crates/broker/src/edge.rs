//! What the engine asks of the edge. The simulator implements it too.

use fencepost_types::Nanos;

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

    /// 128 random bits: topic ids, member ids, incarnations.
    fn random(&self) -> u128;

    /// The broker cannot go on: stop the process, with one sentence for the operator.
    fn stop(&self, sentence: &str);
}
