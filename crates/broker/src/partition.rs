//! A partition that this broker leads: its log, and who waits for it.
//!
//! One lock, held for stage, append and replay. Everything that is woken is pushed to [`Cx`] and runs without it.

use std::sync::{Arc, Mutex, MutexGuard};

use fencepost_metadata::TopicConfig;
use fencepost_partition::VerificationGuard;
use fencepost_records::{AppendRules, Batch, ValidatedBatch};
use fencepost_storage::{
    AppendError, AppendOutcome, FlushScope, FlushTicket, Log, LogConfig, LogOffsets, MarkerAppend,
    StorageError,
};
use fencepost_types::{CoordinatorEpoch, ErrorCode, LeaderEpoch, Offset, ProducerId, TopicPartition, Uuid};

use crate::Broker;
use crate::cx::Cx;
use crate::fetch_wait::FetchWatch;
use crate::flush_rule::FlushRule;
use crate::producer_budget::ProducerCount;
use crate::sync::Durability;
use crate::waiting::{HighWatermarkTask, Waited, Waiting};

/// So long an append that nobody waits for may stay without a sync of its own.
const UNHURRIED_SYNC_MS: i64 = 5;
/// A sync that lacked a file handle is run again after this.
const SYNC_RETRY_MS: i64 = 50;

/// How a coordinator's batch is appended, beyond the ordinary.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoordinatorAppend {
    /// The guard of the verification that the batch went through, for offsets in a transaction.
    pub guard: Option<VerificationGuard>,
    /// Whether nobody waits until the batch is durable. It then shares the sync of what is appended next, which may be
    /// [`UNHURRIED_SYNC_MS`] later.
    pub is_unhurried: bool,
}

/// One partition. See the page of this module.
pub struct Partition {
    /// Topic and number.
    pub name: TopicPartition,
    /// The topic's id.
    pub topic_id: Uuid,
    state: Mutex<State>,
}

/// What the lock guards.
pub(crate) struct State {
    pub(crate) log: Log,
    pub(crate) leader_epoch: LeaderEpoch,
    /// What is asked of produced batches.
    pub(crate) rules: AppendRules,
    /// Whether `cleanup.policy` is exactly `compact`: then nobody may delete records by hand.
    pub(crate) is_compacted_only: bool,
    pub(crate) producer_count: ProducerCount,
    /// Whether the last append lacked room or a file handle: said once, not at every retry of every client.
    is_short: bool,
    waiting: Waiting,
    syncing: Syncing,
    flush: FlushRule,
    /// Whether the next sync takes everything, though the page cache would do: `flush.messages` or `flush.ms` asks for it.
    is_flush_due: bool,
    /// Whether something is not durable that no queued sync is for.
    owes_sync: bool,
    /// Whether a deadline will look whether a sync is owed still.
    sync_is_due: bool,
    /// A log start that a restart finds again, whatever happens.
    remembered_log_start: Offset,
    gone: Option<ErrorCode>,
}

/// Where a partition stands in the group commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncing {
    /// Everything is durable, but for what is owed.
    Clean,
    /// In the queue.
    Queued,
    /// Being synced.
    Running,
    /// Being synced, and dirty again meanwhile.
    RunningAndDirty,
}

impl Partition {
    /// A partition over its opened log, led from now on under `leader_epoch`. What the log holds is taken for durable:
    /// opening has synced it.
    pub(crate) fn new(
        name: TopicPartition,
        topic_id: Uuid,
        leader_epoch: LeaderEpoch,
        mut log: Log,
        rules: AppendRules,
        config: &TopicConfig,
    ) -> Arc<Self> {
        log.assign_leader_epoch(leader_epoch);
        log.update_high_watermark(log.log_end_offset());
        let gone = log.is_unopened().then_some(ErrorCode::KafkaStorageError);
        // Out of the checkpoint, or out of names that opening has synced.
        let remembered_log_start = log.log_start_offset();
        let state = State {
            log,
            leader_epoch,
            rules,
            is_compacted_only: is_compacted_only(config),
            producer_count: ProducerCount::default(),
            is_short: false,
            waiting: Waiting::default(),
            syncing: Syncing::Clean,
            flush: FlushRule::new(config),
            is_flush_due: false,
            owes_sync: false,
            sync_is_due: false,
            remembered_log_start,
            gone,
        };
        Arc::new(Self { name, topic_id, state: Mutex::new(state) })
    }

    /// Leads under a new epoch from here on. Fetches that wait look again: they may name the old one.
    pub(crate) fn take_over(&self, cx: &mut Cx, leader_epoch: LeaderEpoch) {
        let mut state = self.lock();
        if leader_epoch > state.leader_epoch {
            state.leader_epoch = leader_epoch;
            state.log.assign_leader_epoch(leader_epoch);
            state.waiting.wake_fetches(cx);
        }
    }

    /// Takes new settings.
    pub(crate) fn configure(&self, log_config: LogConfig, rules: AppendRules, config: &TopicConfig) {
        let mut state = self.lock();
        state.log.update_config(log_config);
        state.rules = rules;
        state.is_compacted_only = is_compacted_only(config);
        state.flush = FlushRule::new(config);
    }

    /// Renames the directory of a deleted partition; answers its new name, if it had one.
    pub(crate) fn delete(&self, unique: u128) -> Result<Option<String>, StorageError> {
        self.lock().log.delete(unique)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Looks at the state, or changes what nobody waits for. An error when the partition is gone.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> Result<T, ErrorCode> {
        let mut state = self.lock();
        match state.gone {
            Some(code) => Err(code),
            None => Ok(look(&mut state)),
        }
    }

    /// The offset after the last record.
    pub fn log_end_offset(&self) -> Offset {
        self.lock().log.log_end_offset()
    }

    /// Records below it are acknowledged.
    pub fn high_watermark(&self) -> Offset {
        self.lock().log.high_watermark()
    }

    /// For a partition of `__transaction_state`: the epoch under which its decisions are sent.
    pub fn coordinator_epoch(&self) -> CoordinatorEpoch {
        CoordinatorEpoch(self.lock().leader_epoch.0)
    }

    /// Appends a produced batch as leader.
    pub(crate) fn append_as_leader(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        batch: &ValidatedBatch,
        guard: Option<VerificationGuard>,
    ) -> Result<AppendOutcome, ErrorCode> {
        let (now, verify) = (cx.now, broker.verifies_transactions());
        let newcomer = Some(batch.header().producer_id);
        self.append(broker, cx, newcomer, false, |log, epoch| {
            log.append_as_leader(now, batch, epoch, guard, verify)
        })
    }

    /// Appends a coordinator's batch; answers its base offset.
    pub(crate) fn append_as_coordinator(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        batch: &Batch,
        append: CoordinatorAppend,
    ) -> Result<Offset, ErrorCode> {
        let (now, verify) = (cx.now, broker.verifies_transactions());
        let newcomer = Some(batch.header().producer_id);
        let appended = self.append(broker, cx, newcomer, append.is_unhurried, |log, epoch| {
            log.append_as_coordinator(now, batch, epoch, append.guard, verify)
        })?;
        Ok(appended.base_offset)
    }

    /// Appends a transaction marker; answers its offset.
    pub(crate) fn append_marker(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        marker: MarkerAppend,
    ) -> Result<Offset, ErrorCode> {
        let now = cx.now;
        let appended =
            self.append(broker, cx, None, false, |log, epoch| log.append_marker(now, marker, epoch))?;
        Ok(appended.base_offset)
    }

    /// Under the lock: appends if there is room for `newcomer` in the table of producers, and then either lets the high
    /// watermark follow or queues the partition to be synced.
    fn append<T>(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        newcomer: Option<ProducerId>,
        is_unhurried: bool,
        append: impl FnOnce(&mut Log, LeaderEpoch) -> Result<T, AppendError>,
    ) -> Result<T, ErrorCode> {
        let mut state = self.lock();
        if let Some(code) = state.gone {
            return Err(code);
        }
        if let Some(producer_id) = newcomer {
            state.admit(broker, cx, producer_id)?;
        }
        let epoch = state.leader_epoch;
        let before = state.log.log_end_offset();
        match append(&mut state.log, epoch) {
            Ok(appended) => {
                if std::mem::take(&mut state.is_short) {
                    tracing::info!(partition = %self.name, "appends succeed again");
                }
                if state.log.log_end_offset() > before {
                    state.count_producers(&broker.producer_budget);
                    self.grown(&mut state, broker, cx, is_unhurried);
                }
                Ok(appended)
            }
            Err(error) => {
                let shortage = if let AppendError::Storage(error) = &error { error.shortage() } else { None };
                let was_short = shortage.is_some() && std::mem::replace(&mut state.is_short, true);
                drop(state);
                if let AppendError::Storage(error) = &error {
                    // After a shortage the log is as it was, and goes on once it has passed.
                    match shortage {
                        None => broker.log_dir_failed(cx, error),
                        Some(_) if was_short => {}
                        Some(shortage) => {
                            tracing::error!(partition = %self.name, %error, "appends fail: {shortage}");
                        }
                    }
                } else {
                    tracing::debug!(partition = %self.name, %error, "an append was refused");
                }
                Err(error.code())
            }
        }
    }

    fn grown(self: &Arc<Self>, state: &mut State, broker: &Arc<Broker>, cx: &mut Cx, is_unhurried: bool) {
        match self.durability(broker) {
            Durability::PageCache => {
                let end = state.log.log_end_offset();
                if end.0.saturating_sub(state.log.durable_end().0) >= state.flush.messages {
                    // The append is answered when it is on the disk, as with Kafka.
                    state.is_flush_due = true;
                    return self.queue(state, broker);
                }
                state.advance(end, cx);
                if state.flush.ms < i64::MAX {
                    state.is_flush_due = true;
                    self.queue_later(state, broker, cx, state.flush.ms);
                }
            }
            Durability::Fsync if is_unhurried => self.queue_later(state, broker, cx, UNHURRIED_SYNC_MS),
            Durability::Fsync => self.queue(state, broker),
        }
    }

    /// When an append counts as done. What the controller has decided is always on the disk before anybody is told, as Kafka's
    /// quorum does it.
    pub(crate) fn durability(&self, broker: &Broker) -> Durability {
        if self.topic_id == Uuid::METADATA_TOPIC { Durability::Fsync } else { broker.durability() }
    }

    /// Leaves what was appended to the next sync, and sees to it that there is one.
    fn queue_later(self: &Arc<Self>, state: &mut State, broker: &Arc<Broker>, cx: &Cx, after_ms: i64) {
        state.owes_sync = true;
        if !std::mem::replace(&mut state.sync_is_due, true) {
            let partition = Arc::clone(self);
            let due = move |broker: &Arc<Broker>, _: &mut Cx| {
                partition.lock().sync_is_due = false;
                partition.queue_owed_sync(broker);
            };
            broker.add_deadline(cx.now.mono.plus_ms(after_ms), Box::new(due));
        }
    }

    /// Queues the sync that is owed, if one is: somebody waits for it now.
    pub(crate) fn queue_owed_sync(self: &Arc<Self>, broker: &Arc<Broker>) {
        let mut state = self.lock();
        if state.owes_sync && state.gone.is_none() {
            self.queue(&mut state, broker);
        }
    }

    /// Queues the partition to be synced, whether or not anybody waits for that.
    pub(crate) fn queue_sync(self: &Arc<Self>, broker: &Arc<Broker>) {
        let mut state = self.lock();
        if state.gone.is_none() {
            self.queue(&mut state, broker);
        }
    }

    fn queue(self: &Arc<Self>, state: &mut State, broker: &Arc<Broker>) {
        state.owes_sync = false;
        match state.syncing {
            Syncing::Clean => {
                state.syncing = Syncing::Queued;
                broker.queue_sync(Arc::clone(self));
            }
            Syncing::Running => state.syncing = Syncing::RunningAndDirty,
            Syncing::Queued | Syncing::RunningAndDirty => {}
        }
    }

    /// Says what must be synced within `scope`; whoever runs it does so without the lock, and then calls
    /// [`Self::after_sync`]. `None`: there is nothing, or the partition is gone.
    pub(crate) fn begin_sync(&self, scope: FlushScope) -> Option<FlushTicket> {
        let mut state = self.lock();
        state.syncing = Syncing::Running;
        state.owes_sync = false;
        let scope = if std::mem::take(&mut state.is_flush_due) { FlushScope::All } else { scope };
        if state.gone.is_some() { None } else { state.log.dirty(scope) }
    }

    /// A sync could not be begun for want of a file handle: nothing was lost, and it is run again a little later.
    pub(crate) fn put_sync_off(self: &Arc<Self>, broker: &Arc<Broker>, cx: &Cx) {
        self.lock().syncing = Syncing::Queued;
        let partition = Arc::clone(self);
        let due = move |broker: &Arc<Broker>, _: &mut Cx| broker.queue_sync(partition);
        broker.add_deadline(cx.now.mono.plus_ms(SYNC_RETRY_MS), Box::new(due));
    }

    /// A sync has succeeded: the high watermark follows, and who waited for it is woken.
    pub(crate) fn after_sync(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        ticket: Option<&FlushTicket>,
    ) {
        let mut state = self.lock();
        if let Some(ticket) = ticket {
            let durable_end = state.log.mark_synced(ticket);
            state.advance(durable_end, cx);
        }
        match state.syncing {
            Syncing::RunningAndDirty => {
                state.syncing = Syncing::Queued;
                broker.queue_sync(Arc::clone(self));
            }
            Syncing::Running | Syncing::Clean | Syncing::Queued => state.syncing = Syncing::Clean,
        }
    }

    /// Runs `task` when the high watermark is at or above `offset`: soon, if it is already.
    pub(crate) fn when_high_watermark(&self, cx: &mut Cx, offset: Offset, task: HighWatermarkTask) {
        let mut state = self.lock();
        let waited = match state.gone {
            Some(code) => Waited::Gone(code),
            None if state.log.high_watermark() >= offset => Waited::Reached,
            None => return state.waiting.for_offset(offset, task),
        };
        drop(state);
        cx.push(Box::new(move |broker, cx| task(broker, cx, waited)));
    }

    /// Lets a fetch wait here: it is woken when its partitions have enough for it. Answers whether it is to be answered right
    /// now instead: there is enough, or the partition is gone.
    pub(crate) fn add_fetch(&self, mut watch: FetchWatch) -> bool {
        let mut state = self.lock();
        let answer_now = state.gone.is_some() || watch.is_enough(&mut state.log);
        if !answer_now {
            state.waiting.add_fetch(watch);
        }
        answer_now
    }

    /// Has every fetch that waits here answered, though nothing has changed.
    pub(crate) fn look_again(&self, cx: &mut Cx) {
        self.lock().waiting.wake_fetches(cx);
    }

    /// Moves the log start, and wakes fetches that are below it. Answers where the log starts now; it must be remembered
    /// before anybody is told, see [`Broker::remember_log_starts`].
    pub(crate) fn delete_records(&self, cx: &mut Cx, offset: Offset) -> Result<Offset, ErrorCode> {
        let mut state = self.lock();
        if let Some(code) = state.gone {
            return Err(code);
        }
        let before = state.log.log_start_offset();
        let moved = state.log.delete_records(offset).map_err(|error| error.code())?;
        if moved > before {
            state.wake_satisfied_fetches(cx);
        }
        Ok(moved)
    }

    /// The partition is no more (or its log directory is not): everyone who waits for it is told so.
    pub(crate) fn go(&self, cx: &mut Cx, code: ErrorCode) {
        let mut state = self.lock();
        state.gone.get_or_insert(code);
        state.waiting.gone(code, cx);
    }

    /// Removes what retention lets go; answers the files that are to be unlinked later.
    pub(crate) fn apply_retention(&self, cx: &mut Cx) -> Result<Vec<String>, StorageError> {
        let mut state = self.lock();
        if state.gone.is_some() {
            return Ok(Vec::new());
        }
        let before = state.log.log_start_offset();
        let retired = state.log.apply_retention(cx.now)?;
        if state.log.log_start_offset() > before {
            state.wake_satisfied_fetches(cx);
        }
        Ok(retired.files)
    }

    /// Closes the log at a clean stop, and adds what is to be remembered of it. Nothing is appended afterwards: the
    /// snapshot that closing leaves is the last word on the producers.
    pub(crate) fn close(&self, offsets: &mut LogOffsets) -> Result<(), StorageError> {
        let mut state = self.lock();
        if state.gone.is_none() {
            state.log.close()?;
            offsets.add(&state.log);
            state.gone = Some(ErrorCode::NotLeaderOrFollower);
        }
        Ok(())
    }

    /// Adds what has to be remembered of the log, also where the partition is gone.
    pub(crate) fn add_offsets(&self, offsets: &mut LogOffsets) {
        offsets.add(&self.lock().log);
    }
}

fn is_compacted_only(config: &TopicConfig) -> bool {
    config.is_compacted() && !config.is_deleted()
}

impl State {
    /// Whether a restart finds the log start where it is, or further on.
    pub(crate) fn is_log_start_remembered(&self) -> bool {
        self.remembered_log_start >= self.log.log_start_offset()
    }

    /// A restart finds the log start at `offset` or further on.
    pub(crate) fn log_start_is_remembered(&mut self, offset: Offset) {
        self.remembered_log_start = self.remembered_log_start.max(offset);
    }

    /// Lets the high watermark go up to `end`, and wakes who waited for that.
    fn advance(&mut self, end: Offset, cx: &mut Cx) {
        if end <= self.log.high_watermark() {
            return;
        }
        self.log.update_high_watermark(end);
        self.waiting.reached(self.log.high_watermark(), cx);
        self.wake_satisfied_fetches(cx);
    }

    fn wake_satisfied_fetches(&mut self, cx: &mut Cx) {
        self.waiting.changed(&mut self.log, cx);
    }
}
