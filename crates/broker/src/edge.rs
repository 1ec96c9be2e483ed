//! What the engine asks of the edge. The simulator implements it too.

/// Hooks by which the engine wakes the threads around it. They must not call back into the engine.
pub trait Edge: Send + Sync {
    /// The earliest deadline may have come nearer: ask `Broker::next_deadline` again.
    fn deadline_changed(&self);

    /// The same for the lane of chores alone.
    fn chores_changed(&self) {
        self.deadline_changed();
    }

    /// A partition is dirty: call `Broker::sync_next`.
    fn sync_needed(&self);

    /// 128 random bits: topic ids, member ids, incarnations.
    fn random(&self) -> u128;

    /// The broker cannot go on: stop the process, with one sentence for the operator.
    fn stop(&self, sentence: &str);
}
