//! Group commit: appends mark their partition dirty, a round makes it durable, and everyone who came meanwhile shares
//! the next round.
//!
//! The queue holds partitions, each at most once. A thread of the edge (or the simulator) calls [`Broker::sync_next`];
//! several may: each takes another partition. No lock is held while a file is synced.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use fencepost_storage::FlushScope;
use fencepost_types::{ErrorCode, Now};

use crate::Broker;
use crate::partition::Partition;

/// When an acknowledged record survives what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Acknowledged means on the disk: survives the machine.
    Fsync,
    /// Acknowledged means in the operating system's page cache: survives the process, as Kafka's default.
    PageCache,
}

/// Partitions with bytes that are not durable yet.
#[derive(Default)]
pub(crate) struct SyncQueue {
    dirty: Mutex<VecDeque<Arc<Partition>>>,
}

impl SyncQueue {
    pub(crate) fn push(&self, partition: Arc<Partition>) {
        self.dirty.lock().expect("no holder of this lock panics").push_back(partition);
    }

    fn pop(&self) -> Option<Arc<Partition>> {
        self.dirty.lock().expect("no holder of this lock panics").pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.lock().expect("no holder of this lock panics").is_empty()
    }
}

impl Broker {
    pub(crate) fn queue_sync(&self, partition: Arc<Partition>) {
        self.sync_queue.push(partition);
        self.edge.sync_needed();
    }

    /// Whether a partition waits for [`Self::sync_next`].
    pub fn has_dirty(&self) -> bool {
        !self.sync_queue.is_empty()
    }

    /// Makes one dirty partition durable and wakes who waited for it; `clock` is read after the sync. Returns whether
    /// there was one.
    pub fn sync_next(self: &Arc<Self>, clock: impl FnOnce() -> Now) -> bool {
        let Some(partition) = self.sync_queue.pop() else { return false };
        // In the page cache only what is rolled is synced, so that recovery has less to do.
        let scope = match self.durability() {
            Durability::Fsync => FlushScope::All,
            Durability::PageCache => FlushScope::RolledSegments,
        };
        let synced = partition.sync(scope);
        self.enter(clock(), |broker, cx| match synced {
            Ok(ticket) => partition.after_sync(broker, cx, ticket.as_ref()),
            Err(error) => broker.log_dir_failed(cx, &error),
        });
        true
    }

    /// Takes the log directory offline: nothing that depended on it is ever acknowledged. The edge is told once.
    pub(crate) fn log_dir_failed(
        self: &Arc<Self>,
        cx: &mut crate::Cx,
        error: &fencepost_storage::StorageError,
    ) {
        tracing::error!(%error, "the log directory has failed and is taken offline");
        for partition in self.partitions.all() {
            partition.go(cx, ErrorCode::KafkaStorageError);
        }
        self.controller().partition().go(cx, ErrorCode::KafkaStorageError);
        if !self.log_dir_is_offline.swap(true, Ordering::AcqRel) {
            self.edge.stop(&format!("the log directory failed: {error}"));
        }
    }
}
