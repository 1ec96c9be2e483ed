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
