//! What a broker does beside serving: producers expire, old segments go, checkpoints are written; and the clean stop. The
//! cleaner has a file of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_metadata::Request;
use fencepost_storage::{Checkpoint, DiskErrorKind, LogOffsets, StorageError};
use fencepost_types::Now;

use crate::Broker;
use crate::boot::StartError;
use crate::cx::Cx;
use crate::sync::Durability;

type Chore = fn(&Arc<Broker>, &mut Cx);

impl Broker {
    /// Plans every chore for the first time.
    pub(crate) fn start_housekeeping(self: &Arc<Self>, cx: &mut Cx) {
        let now = cx.now;
        let config = self.config();
        let expiry_ms = i64::from(config.producer_id_expiration_check_interval_ms);
        self.plan_chore(now, expiry_ms, expire_producers);
        self.plan_chore(now, config.log_retention_check_interval_ms, apply_retention);
        let checkpoint_ms = i64::from(config.log_flush_offset_checkpoint_interval_ms);
        self.plan_chore(now, checkpoint_ms, write_checkpoints);
        self.start_cleaner(now);
        self.look_at_metadata_snapshots(cx);
    }

    fn plan_chore(self: &Arc<Self>, now: Now, every_ms: i64, chore: Chore) {
        let at = now.mono.plus_ms(every_ms.max(1));
        self.add_chore(
            at,
            Box::new(move |broker, cx| {
                chore(broker, cx);
                broker.plan_chore(cx.now, every_ms, chore);
            }),
        );
    }

    /// Unlinks the files of segments that are no more, after the topic's `file.delete.delay.ms`.
    pub(crate) fn unlink_later(self: &Arc<Self>, now: Now, topic: &str, files: Vec<String>) {
        let delay_ms = self.topic_config(topic).file_delete_delay_ms;
        let unlink = move |broker: &Arc<Self>, _: &mut Cx| {
            for file in &files {
                match broker.disk.remove(file) {
                    Ok(()) => {}
                    // Its topic was deleted, or a later file of that name was waiting for the same.
                    Err(error) if error.kind == DiskErrorKind::NotFound => {}
                    Err(error) => tracing::warn!(file, %error, "an old segment could not be unlinked"),
                }
            }
        };
        self.add_chore(now.mono.plus_ms(delay_ms), Box::new(unlink));
    }

    /// What is to be remembered of every log.
    ///
    /// Errors: [`StorageError::Offline`] where the log directory has failed. Its partitions are gone then, and what was
    /// remembered of them must stay.
    pub(crate) fn log_offsets(&self) -> Result<LogOffsets, StorageError> {
        let mut offsets = LogOffsets::default();
        for partition in self.partitions.all() {
            // A partition that is gone needs no checkpoint.
            let _ = partition.with(|state| offsets.add(&state.log));
        }
        let _ = self.controller().partition().with(|state| offsets.add(&state.log));
        self.add_damaged_offsets(&mut offsets);
        // After they were looked at: no partition goes with its directory before this is set.
        self.check_log_dir()?;
        Ok(offsets)
    }

    fn check_log_dir(&self) -> Result<(), StorageError> {
        if self.log_dir_is_offline.load(Ordering::SeqCst) {
            let reason = "it has failed before".to_owned();
            return Err(StorageError::Offline { directory: String::new(), reason });
        }
        Ok(())
    }

    /// Remembers what `which` are about. A full disk puts it off until the next checkpoint.
    pub(crate) fn remember(self: &Arc<Self>, cx: &mut Cx, which: &[Checkpoint]) {
        if let Err(error) = self.log_dir.write_checkpoints(which, || self.log_offsets()) {
            chore_failed(self, cx, &error);
        }
    }

    /// At the start: forgets partitions that were deleted, or put aside, while nobody wrote that down.
    pub(crate) fn forget_strangers(self: &Arc<Self>) -> Result<(), StorageError> {
        let offsets = self.log_offsets()?;
        if self.log_dir.remembered().all(|partition| offsets.has(partition)) {
            return Ok(());
        }
        match self.log_dir.write_checkpoints(&Checkpoint::ALL, || self.log_offsets()) {
            Err(error) => match error.shortage() {
                Some(shortage) => {
                    tracing::warn!(%error, "put off: {shortage}");
                    Ok(())
                }
                None => Err(error),
            },
            Ok(()) => Ok(()),
        }
    }

    /// A clean stop begins: whatever waits for something that may never come is answered now, and nothing new waits. A
    /// Fetch gets what there is; a member of a group that waits for others is sent to look for its coordinator, as Kafka
    /// does when a coordinator goes. What waits for a disk or for markers goes on, and is answered.
    ///
    /// The edge calls this when it has stopped taking requests, waits for their answers, and then calls [`Self::stop`].
    pub fn end_waits(self: &Arc<Self>, now: Now) {
        // First of all: a request that begins to wait looks at this when it can be found already.
        self.stopping.store(true, Ordering::SeqCst);
        self.enter(now, |broker, cx| {
            for partition in broker.partitions.all() {
                partition.look_again(cx);
            }
            for cell in broker.groups.all() {
                cell.end_waits(broker, cx);
            }
        });
    }

    /// Stops cleanly: everything is synced and closed, the metadata says so, and the mark of a clean stop is left. The
    /// edge has stopped serving before; what is appended all the same is refused once its partition is closed.
    pub fn stop(self: &Arc<Self>, clock: &dyn Fn() -> Now) -> Result<(), StartError> {
        while self.sync_next(clock) {}
        self.enter(clock(), |broker, cx| broker.stop_cleaner(cx));
        self.drive(Request::ShutDownBroker, clock)?;
        let mut offsets = LogOffsets::default();
        for partition in self.partitions.all() {
            partition.close(&mut offsets)?;
        }
        self.controller().partition().close(&mut offsets)?;
        self.add_damaged_offsets(&mut offsets);
        self.check_log_dir()?;
        self.log_dir.write_checkpoints(&Checkpoint::ALL, || Ok(offsets))?;
        let damaged = self.damaged_partitions();
        if !damaged.is_empty() {
            // The next start must look at them again, and not take them for closed.
            tracing::warn!(partitions = damaged.len(), "no mark of a clean stop is left: logs are damaged");
            return Ok(());
        }
        let epoch = *self.broker_epoch.lock().expect("no holder of this lock panics");
        self.log_dir.mark_clean(epoch.0)?;
        Ok(())
    }
}

fn expire_producers(broker: &Arc<Broker>, cx: &mut Cx) {
    let expiration_ms = i64::from(broker.config().producer_id_expiration_ms);
    for partition in broker.partitions.all() {
        let now = cx.now.wall;
        // A partition that is gone has no producers to lose.
        let _ = partition.with(|state| {
            state.log.producer_states_mut().expire(now, expiration_ms);
            state.count_producers(&broker.producer_budget);
        });
    }
}

fn apply_retention(broker: &Arc<Broker>, cx: &mut Cx) {
    for partition in broker.partitions.all() {
        match partition.apply_retention(cx) {
            Ok(files) if files.is_empty() => {}
            Ok(files) => {
                // The names that they have now: until those are durable the log start is in the checkpoint.
                partition.queue_sync(broker);
                broker.unlink_later(cx.now, &partition.name.topic, files);
            }
            Err(error @ StorageError::Corrupt { .. }) => {
                broker.partition_damaged(cx, &partition, &error.to_string());
            }
            Err(error) => chore_failed(broker, cx, &error),
        }
    }
    if let Err(error) = broker.clean_metadata_log(cx) {
        chore_failed(broker, cx, &error);
    }
}

fn write_checkpoints(broker: &Arc<Broker>, cx: &mut Cx) {
    if broker.durability() == Durability::PageCache {
        for partition in broker.partitions.all() {
            partition.queue_sync(broker);
        }
    }
    broker.remember(cx, &Checkpoint::ALL);
}

/// A full disk, or a lack of file handles, puts a chore off until the next time; whatever else is wrong takes the log
/// directory offline.
pub(crate) fn chore_failed(broker: &Arc<Broker>, cx: &mut Cx, error: &StorageError) {
    if let Some(shortage) = error.shortage() {
        tracing::warn!(%error, "put off: {shortage}");
    } else {
        broker.log_dir_failed(cx, error);
    }
}
