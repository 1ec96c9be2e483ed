//! The cleaner of compacted logs: the dirtiest log first, one at a time, in small steps between everything else.
//!
//! A step reads and writes without the partition's lock; only the moment at which a cleaned segment takes the place of others
//! needs it. While there is work the next step is planned at once, so whatever else is due comes in between; when there is
//! none, after `log.cleaner.backoff.ms`. The internal topics are logs like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use fencepost_metadata::{BrokerConfig, TopicConfig};
use fencepost_storage::{Checkpoint, CleanerConfig, Cleaning, CleaningStep, CleaningTurn, StorageError};
use fencepost_types::{Now, TopicName, TopicPartition, Uuid};

use crate::Broker;
use crate::cx::Cx;
use crate::housekeeping::chore_failed;
use crate::partition::Partition;

/// A step works through so many bytes of a log: a few milliseconds, by which other chores may be late.
const STEP_BYTES: u64 = 1 << 20;
/// Milliseconds in a second.
const SECOND_MS: f64 = 1_000.0;
/// A throttled step is never waited for longer.
const THROTTLE_MS_MAX: f64 = 60_000.0;

/// What the cleaner is at.
#[derive(Default)]
pub(crate) struct Cleaner {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Box<Current>>,
    /// Logs with a batch that cannot be read: they are left alone until the next start, as Kafka does.
    uncleanable: BTreeSet<(TopicPartition, Uuid)>,
}

/// A log that is being cleaned.
struct Current {
    partition: Arc<Partition>,
    cleaning: Cleaning,
}

/// What became of a cleaning in one step.
enum Stepped {
    /// It goes on.
    On(Box<Current>),
    /// It is over.
    Over,
    /// It has failed.
    Failed,
}

impl Cleaner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl Broker {
    /// Plans the first look at the logs, if `log.cleaner.enable` says so.
    pub(crate) fn start_cleaner(self: &Arc<Self>, now: Now) {
        let config = self.config();
        if config.log_cleaner_enable {
            self.plan_cleaning(now, config.log_cleaner_backoff_ms.max(1));
        }
    }

    fn plan_cleaning(self: &Arc<Self>, now: Now, wait_ms: i64) {
        let clean = |broker: &Arc<Self>, cx: &mut Cx| {
            let backoff_ms = broker.config().log_cleaner_backoff_ms.max(1);
            let wait_ms = broker.clean_a_little(cx).unwrap_or(backoff_ms);
            broker.plan_cleaning(cx.now, wait_ms);
        };
        self.add_chore(now.mono.plus_ms(wait_ms), Box::new(clean));
    }

    /// Before a clean stop: a replacement that has begun is completed, the rest is left to another time.
    pub(crate) fn stop_cleaner(self: &Arc<Self>, cx: &mut Cx) {
        let mut current = self.cleaner.lock().current.take();
        while let Some(half_done) = current.take_if(|current| !current.cleaning.is_harmless()) {
            current = match self.step(cx, half_done) {
                Stepped::On(current) => Some(current),
                Stepped::Over | Stepped::Failed => None,
            };
        }
        if let Some(Current { cleaning, .. }) = current.map(|current| *current) {
            cleaning.abandon();
        }
    }

    /// One step of the cleaning under way, or of the next; after how many milliseconds there is another one. `None` where
    /// nothing is due, or can be done.
    fn clean_a_little(self: &Arc<Self>, cx: &mut Cx) -> Option<i64> {
        let current = self.cleaner.lock().current.take();
        let current = current.or_else(|| self.dirtiest(cx).map(Box::new))?;
        let moved_before = current.cleaning.report().bytes_moved;
        match self.step(cx, current) {
            Stepped::On(current) => {
                let moved = current.cleaning.report().bytes_moved - moved_before;
                self.cleaner.lock().current = Some(current);
                Some(throttle_ms(moved, self.config().log_cleaner_io_max_bytes_per_second))
            }
            Stepped::Over => Some(0),
            Stepped::Failed => None,
        }
    }

    fn step(self: &Arc<Self>, cx: &mut Cx, mut current: Box<Current>) -> Stepped {
        // A log that is gone has no directory any more, and another one may have its name.
        let stepped = match current.partition.with(|_| ()) {
            Err(_gone) => Ok(CleaningTurn::Stale),
            Ok(()) => match current.cleaning.step(STEP_BYTES) {
                Err(error) => Err(error),
                Ok(CleaningStep::More) => Ok(CleaningTurn::GoOn),
                Ok(CleaningStep::WantsLog) => {
                    let Current { partition, cleaning } = &mut *current;
                    let turn = partition.with(|state| cleaning.with_log(&mut state.log));
                    turn.unwrap_or(Ok(CleaningTurn::Stale))
                }
            },
        };
        let retired = current.cleaning.take_retired();
        if !retired.is_empty() {
            self.unlink_later(cx.now, &current.partition.name.topic, retired);
        }
        match stepped {
            Ok(CleaningTurn::GoOn) => Stepped::On(current),
            Ok(CleaningTurn::Done) => {
                self.cleaned(cx, &current);
                Stepped::Over
            }
            Ok(CleaningTurn::Stale) => {
                current.cleaning.abandon();
                Stepped::Over
            }
            Err(error) => {
                self.cleaning_failed(cx, *current, &error);
                Stepped::Failed
            }
        }
    }

    fn cleaned(self: &Arc<Self>, cx: &mut Cx, current: &Current) {
        let (name, report) = (&current.partition.name, current.cleaning.report());
        tracing::info!(
            partition = %name,
            from = %report.first_dirty_offset,
            to = %report.clean_end_offset,
            keys = report.keys,
            bytes_before = report.bytes_before,
            bytes_after = report.bytes_after,
            "a log was compacted"
        );
        self.remember(cx, &[Checkpoint::Cleaner]);
    }

    fn cleaning_failed(self: &Arc<Self>, cx: &mut Cx, current: Current, error: &StorageError) {
        let Current { partition, cleaning } = current;
        let is_gone = partition.with(|_| ()).is_err();
        let shortage = error.shortage();
        let is_harmless = cleaning.is_harmless();
        cleaning.abandon();
        match error {
            _ if is_gone => {}
            StorageError::Corrupt { .. } => {
                self.is_uncleanable(&partition, error);
            }
            StorageError::Disk(_) if shortage.is_some() && is_harmless => {
                tracing::warn!(partition = %partition.name, %error, "a log cannot be compacted for now");
            }
            StorageError::Disk(_)
            | StorageError::TopicId { .. }
            | StorageError::WrongOwner { .. }
            | StorageError::Offline { .. } => self.log_dir_failed(cx, error),
        }
    }

    fn is_uncleanable(&self, partition: &Partition, error: &StorageError) {
        tracing::warn!(partition = %partition.name, %error, "a log cannot be compacted, and is left as it is");
        let log = (partition.name.clone(), partition.topic_id);
        self.cleaner.lock().uncleanable.insert(log);
    }

    /// Begins to clean the dirtiest of the logs that are due.
    fn dirtiest(self: &Arc<Self>, cx: &mut Cx) -> Option<Current> {
        let (broker_config, mut configs) = (self.config(), BTreeMap::<TopicName, CleanerConfig>::new());
        let mut best: Option<(f64, Arc<Partition>, CleanerConfig)> = None;
        for partition in self.partitions.all() {
            let is_compacted = partition.with(|state| state.log.config().cleanup_policy.compact);
            let log = (partition.name.clone(), partition.topic_id);
            if is_compacted != Ok(true) || self.cleaner.lock().uncleanable.contains(&log) {
                continue;
            }
            let topic = &partition.name.topic;
            let config = *configs
                .entry(topic.clone())
                .or_insert_with(|| cleaner_config(&broker_config, &self.topic_config(topic)));
            match partition.with(|state| state.log.cleanable(cx.now, &config)) {
                Err(_gone) => {}
                Ok(Ok(cleanable)) => {
                    let ratio = cleanable.dirty_ratio();
                    let is_dirtier = best.as_ref().is_none_or(|(best, _, _)| ratio > *best);
                    if cleanable.is_due(config.min_cleanable_dirty_ratio) && is_dirtier {
                        best = Some((ratio, partition, config));
                    }
                }
                Ok(Err(error @ StorageError::Corrupt { .. })) => self.is_uncleanable(&partition, &error),
                Ok(Err(error)) => chore_failed(self, cx, &error),
            }
        }
        let (_, partition, config) = best?;
        match partition.with(|state| state.log.start_cleaning(cx.now, &config)).ok()? {
            Ok(cleaning) => cleaning.map(|cleaning| Current { partition, cleaning }),
            Err(error @ StorageError::Corrupt { .. }) => {
                self.is_uncleanable(&partition, &error);
                None
            }
            Err(error) => {
                chore_failed(self, cx, &error);
                None
            }
        }
    }
}

/// How long a step is waited for, so that no more is read and written in a second than allowed.
fn throttle_ms(bytes: u64, bytes_per_second_max: f64) -> i64 {
    let wait_ms = bytes as f64 * SECOND_MS / bytes_per_second_max.max(1.0);
    wait_ms.min(THROTTLE_MS_MAX) as i64
}

fn cleaner_config(broker: &BrokerConfig, topic: &TopicConfig) -> CleanerConfig {
    CleanerConfig {
        delete_retention_ms: topic.delete_retention_ms,
        min_compaction_lag_ms: topic.min_compaction_lag_ms,
        min_cleanable_dirty_ratio: topic.min_cleanable_dirty_ratio,
        dedupe_buffer_bytes: broker.log_cleaner_dedupe_buffer_size.max(0) as u64,
        load_factor: broker.log_cleaner_io_buffer_load_factor,
        io_buffer_bytes: broker.log_cleaner_io_buffer_size.max(0) as usize,
    }
}
