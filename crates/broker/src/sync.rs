//! Group commit: appends mark their partition dirty, a round makes it durable, and everyone who came meanwhile shares
//! the next round. What nobody waits for waits itself for the next append, and has a round of its own only if none comes.
//!
//! The queue holds partitions, each at most once. A thread of the edge (or the simulator) calls [`Broker::sync_next`];
//! several may: each takes another partition. No lock is held while a file is synced. The simulator takes the three parts
//! of a round one by one, so that other things happen in between.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use fencepost_storage::{FlushScope, FlushTicket, Shortage, StorageError};
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

    pub(crate) fn len(&self) -> usize {
        self.dirty.lock().expect("no holder of this lock panics").len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.lock().expect("no holder of this lock panics").is_empty()
    }
}

/// One partition that is being synced.
pub struct SyncRound {
    partition: Arc<Partition>,
    ticket: Option<FlushTicket>,
}

impl SyncRound {
    /// Syncs. This is what takes time; no lock is held meanwhile.
    pub fn run(&self) -> Result<(), StorageError> {
        self.ticket.as_ref().map_or(Ok(()), |ticket| Ok(ticket.run()?))
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

    /// Takes the next dirty partition; between this and [`Self::end_sync`] it goes on being appended to. `None`: nothing
    /// is dirty.
    pub fn begin_sync(&self) -> Option<SyncRound> {
        let partition = self.sync_queue.pop()?;
        // In the page cache only what is rolled is synced, so that recovery has less to do.
        let scope = match partition.durability(self) {
            Durability::Fsync => FlushScope::All,
            Durability::PageCache => FlushScope::RolledSegments,
        };
        let ticket = partition.begin_sync(scope);
        Some(SyncRound { partition, ticket })
    }

    /// A round has been run: wakes who waited for it, or takes the log directory offline. One that lacked a file handle is
    /// run again: what it had to sync is still to be synced.
    pub fn end_sync(self: &Arc<Self>, now: Now, round: SyncRound, synced: Result<(), StorageError>) {
        let SyncRound { partition, ticket } = round;
        self.enter(now, |broker, cx| match synced {
            Ok(()) => partition.after_sync(broker, cx, ticket.as_ref()),
            Err(error) if error.shortage() == Some(Shortage::Handles) => partition.put_sync_off(broker, cx),
            Err(error) => broker.log_dir_failed(cx, &error),
        });
    }

    /// Makes one dirty partition durable and wakes who waited for it; `clock` is read after the sync. Returns whether
    /// there was one.
    pub fn sync_next(self: &Arc<Self>, clock: impl FnOnce() -> Now) -> bool {
        let Some(round) = self.begin_sync() else { return false };
        let synced = round.run();
        self.end_sync(clock(), round, synced);
        true
    }

    /// Takes the log directory offline: nothing that depended on it is ever acknowledged. The edge is told once.
    pub(crate) fn log_dir_failed(self: &Arc<Self>, cx: &mut crate::Cx, error: &StorageError) {
        tracing::error!(%error, "the log directory has failed and is taken offline");
        // First of all, so that a partition that is being opened sees it, or is seen here.
        let is_first = !self.log_dir_is_offline.swap(true, Ordering::SeqCst);
        for partition in self.partitions.all() {
            partition.go(cx, ErrorCode::KafkaStorageError);
        }
        self.controller().partition().go(cx, ErrorCode::KafkaStorageError);
        if is_first {
            self.edge.stop(&format!("the log directory failed: {error}"));
        }
    }
}
