//! Who waits for a partition: for its high watermark to pass an offset, or for bytes to fetch.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_storage::Log;
use fencepost_types::{ErrorCode, Offset};

use crate::Broker;
use crate::cx::Cx;
use crate::fetch_wait::{FetchWait, FetchWatch};

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

/// The two lists of one partition. Guarded by the partition's lock.
pub(crate) struct Waiting {
    by_offset: BTreeMap<(Offset, u64), HighWatermarkTask>,
    fetches: Vec<FetchWatch>,
    /// Fetches that are done are swept out when the list has grown to this.
    sweep_at: usize,
    next_number: u64,
}

/// The list is let grow to this, and to twice what a sweep has left.
const FETCHES_SWEEP_AT_MIN: usize = 64;

impl Default for Waiting {
    fn default() -> Self {
        Self {
            by_offset: BTreeMap::new(),
            fetches: Vec::new(),
            sweep_at: FETCHES_SWEEP_AT_MIN,
            next_number: 0,
        }
    }
}

impl Waiting {
    pub(crate) fn for_offset(&mut self, offset: Offset, task: HighWatermarkTask) {
        self.next_number += 1;
        self.by_offset.insert((offset, self.next_number), task);
    }

    pub(crate) fn add_fetch(&mut self, watch: FetchWatch) {
        if self.fetches.len() >= self.sweep_at {
            self.fetches.retain(|watch| !watch.wait().is_done());
            self.sweep_at = (2 * self.fetches.len()).max(FETCHES_SWEEP_AT_MIN);
        }
        self.fetches.push(watch);
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

    /// Something that a fetch can see has changed: each that waits here counts, and is woken when it has enough.
    pub(crate) fn changed(&mut self, log: &mut Log, cx: &mut Cx) {
        self.fetches.retain_mut(|watch| {
            if watch.wait().is_done() {
                return false;
            }
            let is_enough = watch.is_enough(log);
            if is_enough {
                wake(watch.wait(), cx);
            }
            !is_enough
        });
    }

    /// Every fetch looks again, and is answered: what it knew of the partition is not so any more.
    pub(crate) fn wake_fetches(&mut self, cx: &mut Cx) {
        for watch in std::mem::take(&mut self.fetches) {
            wake(watch.wait(), cx);
        }
    }

    /// Nothing will ever be reached any more. Nobody is kept: a fetch knows its partitions, and they would keep one
    /// another alive.
    pub(crate) fn gone(&mut self, code: ErrorCode, cx: &mut Cx) {
        for (_, task) in std::mem::take(&mut self.by_offset) {
            cx.push(Box::new(move |broker, cx| task(broker, cx, Waited::Gone(code))));
        }
        self.wake_fetches(cx);
    }
}

fn wake(wait: &Arc<dyn FetchWait>, cx: &mut Cx) {
    let wait = Arc::clone(wait);
    cx.push(Box::new(move |broker, cx| wait.wake(broker, cx)));
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::fetch_wait::FetchPoint;
    use crate::partition::Partition;
    use crate::testing::{NOW, broker, create_topic};

    /// Like a parked Fetch: it knows the partition that it waits at.
    struct Waiter {
        partition: Arc<Partition>,
        wakes: AtomicUsize,
        done: AtomicBool,
    }

    impl Waiter {
        fn at(partition: &Arc<Partition>) -> Arc<Self> {
            let partition = Arc::clone(partition);
            Arc::new(Self { partition, wakes: AtomicUsize::new(0), done: AtomicBool::new(false) })
        }

        fn watch(self: &Arc<Self>) -> FetchWatch {
            let point = FetchPoint {
                offset: Offset(0),
                read_committed: false,
                bytes_max: 100,
                is_any_enough: true,
                position: None,
            };
            FetchWatch::new(Arc::clone(self) as Arc<dyn FetchWait>, point)
        }
    }

    impl FetchWait for Waiter {
        fn count(&self, more: u64) -> bool {
            more > 0
        }

        fn wake(self: Arc<Self>, _: &Arc<Broker>, _: &mut Cx) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
            let is_gone = self.partition.with(|_| ()).is_err();
            self.done.fetch_or(is_gone, Ordering::Relaxed);
        }

        fn is_done(&self) -> bool {
            self.done.load(Ordering::Relaxed)
        }
    }

    /// A partition that is gone lets go of those who waited at it, and takes no new ones: they would keep one another alive.
    #[test]
    fn a_partition_that_is_gone_keeps_nobody() {
        let broker = broker();
        let partition = create_topic(&broker, "t");
        let early = Waiter::at(&partition);
        assert!(!partition.add_fetch(early.watch()), "there is nothing yet");
        broker.partitions.remove_if(&partition.name, partition.topic_id);
        broker.enter(NOW, |_, cx| partition.go(cx, ErrorCode::UnknownTopicOrPartition));
        assert_eq!(early.wakes.load(Ordering::Relaxed), 1, "it was told");
        let late = Waiter::at(&partition);
        assert!(partition.add_fetch(late.watch()), "it is to be answered at once");
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

    /// Fetches that are done are swept out while others come, however many live beside them.
    #[test]
    fn done_fetches_do_not_pile_up() {
        let broker = broker();
        let partition = create_topic(&broker, "t");
        let mut waiting = Waiting::default();
        let living: Vec<_> = (0..100).map(|_| Waiter::at(&partition)).collect();
        for waiter in &living {
            waiting.add_fetch(waiter.watch());
        }
        for _ in 0..10_000 {
            let waiter = Waiter::at(&partition);
            waiter.done.store(true, Ordering::Relaxed);
            waiting.add_fetch(waiter.watch());
            assert!(waiting.fetches.len() <= 256, "{} fetches", waiting.fetches.len());
        }
    }
}
