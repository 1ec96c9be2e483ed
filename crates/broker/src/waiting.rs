//! Who waits for a partition: for its high watermark to pass an offset, or for any change that a fetch can see.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_types::{ErrorCode, Offset};

use crate::Broker;
use crate::cx::Cx;

/// How a wait for the high watermark ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The high watermark is at or above the offset.
    Reached,
    /// The partition went away, or its log directory did; the code says which.
    Gone(ErrorCode),
}

/// Runs once the wait is over.
pub type HighWatermarkTask = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Waited) + Send>;

/// Something that looks at several partitions and completes by itself (a parked Fetch).
pub trait Watcher: Send + Sync {
    /// A watched partition has changed: look again.
    fn changed(self: Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx);

    /// Whether it has completed and may be forgotten.
    fn is_done(&self) -> bool;
}

/// The two lists of one partition. Guarded by the partition's lock.
pub(crate) struct Waiting {
    by_offset: BTreeMap<(Offset, u64), HighWatermarkTask>,
    watchers: Vec<Arc<dyn Watcher>>,
    /// Done watchers are swept out when the list has grown to this.
    sweep_at: usize,
    next_number: u64,
}

/// The list is let grow to this, and to twice what a sweep has left.
const WATCHERS_SWEEP_AT_MIN: usize = 64;

impl Default for Waiting {
    fn default() -> Self {
        Self {
            by_offset: BTreeMap::new(),
            watchers: Vec::new(),
            sweep_at: WATCHERS_SWEEP_AT_MIN,
            next_number: 0,
        }
    }
}

impl Waiting {
    pub(crate) fn for_offset(&mut self, offset: Offset, task: HighWatermarkTask) {
        self.next_number += 1;
        self.by_offset.insert((offset, self.next_number), task);
    }

    pub(crate) fn watch(&mut self, watcher: Arc<dyn Watcher>) {
        if self.watchers.len() >= self.sweep_at {
            self.watchers.retain(|watcher| !watcher.is_done());
            self.sweep_at = (2 * self.watchers.len()).max(WATCHERS_SWEEP_AT_MIN);
        }
        self.watchers.push(watcher);
    }

    /// The high watermark is at `high_watermark`: wakes everyone who waited for that or less, in the order of offsets.
    pub(crate) fn reached(&mut self, high_watermark: Offset, cx: &mut Cx) {
        while let Some(entry) = self.by_offset.first_entry() {
            if entry.key().0 > high_watermark {
                break;
            }
            let task = entry.remove();
            cx.push(Box::new(move |broker, cx| task(broker, cx, Waited::Reached)));
        }
    }

    /// Something that a fetch can see has changed.
    pub(crate) fn changed(&mut self, cx: &mut Cx) {
        self.watchers.retain(|watcher| !watcher.is_done());
        for watcher in &self.watchers {
            let watcher = Arc::clone(watcher);
            cx.push(Box::new(move |broker, cx| watcher.changed(broker, cx)));
        }
    }

    /// Nothing will ever be reached any more. Nobody is kept: a watcher knows its partitions, and they would keep one
    /// another alive.
    pub(crate) fn gone(&mut self, code: ErrorCode, cx: &mut Cx) {
        for (_, task) in std::mem::take(&mut self.by_offset) {
            cx.push(Box::new(move |broker, cx| task(broker, cx, Waited::Gone(code))));
        }
        self.changed(cx);
        self.watchers = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::partition::Partition;
    use crate::testing::{NOW, broker, create_topic};

    /// Like a parked Fetch: it knows the partition that it watches.
    struct Watching {
        partition: Arc<Partition>,
        looks: AtomicUsize,
        done: AtomicBool,
    }

    impl Watching {
        fn over(partition: &Arc<Partition>) -> Arc<Self> {
            let partition = Arc::clone(partition);
            Arc::new(Self { partition, looks: AtomicUsize::new(0), done: AtomicBool::new(false) })
        }
    }

    impl Watcher for Watching {
        fn changed(self: Arc<Self>, _: &Arc<Broker>, _: &mut Cx) {
            self.looks.fetch_add(1, Ordering::Relaxed);
            let is_gone = self.partition.with(|_| ()).is_err();
            self.done.fetch_or(is_gone, Ordering::Relaxed);
        }

        fn is_done(&self) -> bool {
            self.done.load(Ordering::Relaxed)
        }
    }

    /// A partition that is gone lets go of those who watched it, and takes no new ones: they would keep one another alive.
    #[test]
    fn a_partition_that_is_gone_keeps_nobody() {
        let broker = broker();
        let partition = create_topic(&broker, "t");
        let early = Watching::over(&partition);
        partition.watch(Arc::clone(&early) as Arc<dyn Watcher>);
        broker.partitions.remove_if(&partition.name, partition.topic_id);
        broker.enter(NOW, |_, cx| partition.go(cx, ErrorCode::UnknownTopicOrPartition));
        assert_eq!(early.looks.load(Ordering::Relaxed), 1, "it was told");
        let late = Watching::over(&partition);
        partition.watch(Arc::clone(&late) as Arc<dyn Watcher>);
        let weak = Arc::downgrade(&partition);
        drop((early, late, partition));
        assert!(weak.upgrade().is_none());
    }

    /// Those who wait for an offset are woken in the order of offsets, ties in the order of coming, and only as far as the
    /// high watermark goes; each once.
    #[test]
    fn who_waits_is_woken_in_order() {
        let (broker, woken) = (broker(), Arc::new(Mutex::new(Vec::new())));
        let mut waiting = Waiting::default();
        for (offset, name) in [(5, "d"), (3, "b"), (1, "a"), (3, "c"), (9, "gone")] {
            let woken = Arc::clone(&woken);
            let task: HighWatermarkTask =
                Box::new(move |_, _, waited| woken.lock().unwrap().push((name, waited)));
            waiting.for_offset(Offset(offset), task);
        }
        let mut cx = Cx::new(NOW);
        waiting.reached(Offset(5), &mut cx);
        waiting.reached(Offset(5), &mut cx);
        waiting.gone(ErrorCode::KafkaStorageError, &mut cx);
        assert!(woken.lock().unwrap().is_empty(), "B2: nobody is called under the lock");
        cx.run(&broker);
        let gone = Waited::Gone(ErrorCode::KafkaStorageError);
        let reached = Waited::Reached;
        assert_eq!(
            *woken.lock().unwrap(),
            [("a", reached), ("b", reached), ("c", reached), ("d", reached), ("gone", gone)]
        );
    }

    /// Watchers that are done are swept out while others come, however many live beside them.
    #[test]
    fn done_watchers_do_not_pile_up() {
        let broker = broker();
        let partition = create_topic(&broker, "t");
        let mut waiting = Waiting::default();
        let living: Vec<_> = (0..100).map(|_| Watching::over(&partition)).collect();
        for watching in &living {
            waiting.watch(Arc::clone(watching) as Arc<dyn Watcher>);
        }
        for _ in 0..10_000 {
            let watching = Watching::over(&partition);
            watching.done.store(true, Ordering::Relaxed);
            waiting.watch(watching);
            assert!(waiting.watchers.len() <= 256, "{} watchers", waiting.watchers.len());
        }
    }
}
