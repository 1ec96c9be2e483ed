//! Partitions whose logs are damaged: they are offline, and everything else is served.
//!
//! Differs from Kafka, which cuts a log at the first broken batch after a crash, whatever is behind it, and takes the whole log
//! directory offline for one that it cannot open (docs/decisions/0014).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_storage::{Log, LogConfig, LogOffsets, StorageError};
use fencepost_types::{ErrorCode, TopicPartition, Uuid};

use crate::Broker;
use crate::cx::Cx;
use crate::partition::Partition;

/// What an operator can do about a damaged log.
const REMEDY: &str = "the partition is offline and its files stay as they are; put back the damaged file from a copy, or delete \
    the topic; to keep what is before the damage stop the broker, cut the file at that byte, delete the segments behind it, and take \
    the partition out of the checkpoints of recovery points and of replication";

impl Broker {
    /// Opens the log of a partition and says in the log what opening it has found. One that is damaged comes back offline.
    ///
    /// Errors: the disk.
    pub(crate) fn open_log(
        &self,
        cx: &Cx,
        name: &TopicPartition,
        topic_id: Uuid,
        config: &LogConfig,
    ) -> Result<Log, StorageError> {
        let open = || self.log_dir.open_log(name.clone(), topic_id, config.clone(), cx.now);
        // Later on what was remembered may be an earlier topic's.
        let had_data = !self.open.load(Ordering::Acquire) && self.log_dir.remembers_data(name);
        let damage = match open() {
            Ok(log) if had_data && !log.has_directory() => {
                let problem = "the directory is missing, and there were records in it".to_owned();
                StorageError::Corrupt { path: name.to_string(), problem }
            }
            Ok(log) => {
                report(&log);
                return Ok(log);
            }
            // The directory is an earlier topic's of the same name: it is put aside, and the log begins anew.
            Err(StorageError::TopicId { .. }) if !had_data => {
                let aside = self.log_dir.set_aside(name, self.edge.random())?;
                tracing::warn!(partition = %name, directory = aside, "a stray directory was put aside");
                return open();
            }
            Err(error @ (StorageError::Corrupt { .. } | StorageError::TopicId { .. })) => error,
            Err(error) => return Err(error),
        };
        tracing::error!(partition = %name, error = %damage, "a log is damaged: {REMEDY}");
        self.partitions.add_damaged(name.clone());
        Ok(Log::unopened(Arc::clone(&self.disk), name.clone(), topic_id, config.clone(), damage.to_string()))
    }

    /// Takes a partition offline in whose log damage was found while it was served.
    pub(crate) fn partition_damaged(&self, cx: &mut Cx, partition: &Partition, problem: &str) {
        tracing::error!(partition = %partition.name, error = problem, "a log is damaged: {REMEDY}");
        self.partitions.add_damaged(partition.name.clone());
        partition.go(cx, ErrorCode::KafkaStorageError);
    }

    /// Adds what is remembered of damaged partitions: the next start judges them by it.
    pub(crate) fn add_damaged_offsets(&self, offsets: &mut LogOffsets) {
        for name in self.partitions.damaged() {
            if let Some(partition) = self.partitions.get(&name) {
                partition.add_offsets(offsets);
            }
            if !offsets.has(&name) {
                self.log_dir.keep_remembered(&name, offsets);
            }
        }
    }

    /// The partitions that nobody leads because their logs are damaged.
    pub(crate) fn damaged_partitions(&self) -> BTreeSet<TopicPartition> {
        self.partitions.damaged()
    }
}

/// One line for each thing that was found.
fn report(log: &Log) {
    let (partition, report) = (log.partition(), log.recovery_report());
    if let Some(cut) = &report.cut {
        tracing::warn!(
            %partition, file = cut.path, position = cut.position, bytes = cut.bytes, batches = cut.batches,
            end_offset = %cut.end_offset, previous_end_offset = %cut.previous_end_offset,
            "the torn end of a log was cut off: it was not known to be durable"
        );
    }
    for (from, to) in &report.gaps {
        tracing::warn!(%partition, %from, %to, "offsets are missing in a log: a segment has gone, or its end");
    }
    if let Some(offset) = report.checkpoint_beyond_end {
        let end_offset = log.log_end_offset();
        tracing::warn!(%partition, %offset, %end_offset, "a checkpoint has an offset beyond the end of the log, which is whole: it is not believed");
    }
    if !report.rebuilt.is_empty() {
        let files = report.rebuilt.join(", ");
        tracing::warn!(%partition, files, "files did not fit the log and were made anew");
    }
}
