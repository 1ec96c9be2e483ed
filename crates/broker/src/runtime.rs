//! One runtime for all coordinators: it drives a [`Shard`] over the log of one partition.
//!
//! ```text
//! ask ─► decide ─► append (one batch) ─► replay ─► absorb ─► park replies ─► high watermark ─► deliver
//! ```
//!
//! The shard's lock is held from `decide` to the registration of the replies, and the partition's lock inside it for
//! the append alone; neither over a sync, a parked request or foreign code.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fencepost_coordinator::{Decision, LogPosition, Record, Refusal, Shard, Token};
use fencepost_records::{Batch, EndTxnMarker};
use fencepost_storage::MarkerAppend;
use fencepost_types::{Deadline, ErrorCode, Nanos, Now, Offset, ProducerEpoch, ProducerId, Sequence};

use crate::Broker;
use crate::cx::{Cx, Task};
use crate::deadlines::DeadlineKey;
use crate::partition::{CoordinatorAppend, Partition};
use crate::shard_log::{encode_batch, position};
use crate::waiting::Waited;

/// Why an ask was not answered with a reply.
#[derive(Debug)]
pub enum AskError<F> {
    /// The shard refused.
    Refused(F),
    /// The log did not take the records, or went away before they were durable; or there is no room for what was asked.
    Failed(ErrorCode),
}

impl<F: Refusal> AskError<F> {
    /// The code that goes on the wire, before any mapping for old clients.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Failed(code) => *code,
        }
    }
}

/// What an ask ends with.
pub type Answer<S> = Result<<S as Shard>::Reply, AskError<<S as Shard>::Refusal>>;
/// Gets the answer of an ask, once.
pub type Respond<S> = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Answer<S>) + Send>;

/// What the runtime needs to know of a shard beside its rules.
pub trait HostedShard:
    Shard<Request: Send, Record: Send, Soft: Send, Reply: Send, Refusal: Send> + Send + Sized + 'static
{
    /// Base sequence that Kafka writes into this coordinator's batches.
    const BASE_SEQUENCE: Sequence;
    /// Whether a load goes on after a record that cannot be read.
    const SKIPS_UNREADABLE: bool = true;

    /// Takes in a control batch of the log, at load. An error keeps the shard from being loaded.
    fn replay_control(&mut self, batch: &Batch) -> Result<(), ErrorCode> {
        if let Ok(Some(marker)) = EndTxnMarker::from_batch(batch) {
            self.replay_marker(position(batch.base_offset(), batch), marker.result);
        }
        Ok(())
    }

    /// Gives a request what it is decided by, as it is now. Called under the shard's lock, before `decide`. The default has
    /// nothing to give.
    fn refresh(broker: &Broker, request: &mut Self::Request) {
        let _ = (broker, request);
    }

    /// Called under the shard's lock after records have been replayed. What it pushes to `cx` runs as soon as no lock
    /// is held; the task that it returns runs when the records are durable, before the replies.
    fn stepped(&mut self, cell: &Arc<ShardCell<Self>>, cx: &mut Cx, records: &[Self::Record])
    -> Option<Task>;

    /// Called without a lock when the shard refused. The default answers with the refusal.
    fn refused(
        cell: &Arc<ShardCell<Self>>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        asked: Asked<Self>,
        refusal: Self::Refusal,
    ) {
        let _ = cell;
        (asked.respond)(broker, cx, Err(AskError::Refused(refusal)));
    }

    /// How many things of clients it remembers, for budgets and metrics; 0 where nobody counts them.
    fn held(&self) -> usize {
        0
    }

    /// Maps an append error of the log to the code that the coordinator's callers get.
    fn append_error(code: ErrorCode) -> ErrorCode;
}

/// A request on its way through a shard.
pub struct Asked<S: Shard> {
    /// What is asked.
    pub request: S::Request,
    /// How its batch is to be appended, beyond the ordinary.
    pub append: CoordinatorAppend,
    /// Until when it may be parked, once it has been: the limit holds however often it is asked again.
    pub parked_until: Option<Nanos>,
    /// Who gets the answer.
    pub respond: Respond<S>,
}

impl<S: Shard> Asked<S> {
    /// A request that is appended like any other.
    pub fn new(request: S::Request, respond: Respond<S>) -> Self {
        Self { request, append: CoordinatorAppend::default(), parked_until: None, respond }
    }
}

/// A shard with its log.
pub struct ShardCell<S: Shard> {
    partition: Arc<Partition>,
    /// [`HostedShard::held`], to be read without the lock.
    held: AtomicUsize,
    state: Mutex<ShardState<S>>,
}

struct ShardState<S: Shard> {
    shard: S,
    next_token: u64,
    parked: BTreeMap<Token, Respond<S>>,
    armed: Option<Armed>,
    /// Ticks in a row that changed nothing though something was due.
    idle_ticks: u32,
    /// After an idle tick: when the next one may come.
    next_tick_at: Nanos,
    /// What is due by the wall clock alone waits for this turn, once it has asked for one.
    turn: Option<Nanos>,
}

/// The entry in the queue of deadlines that stands for the shard's own.
struct Armed {
    deadline: Deadline,
    at: Nanos,
    key: DeadlineKey,
}

/// A wall clock may be set: what is due by it is looked at this often, however far away it seems.
const WALL_LOOK_AGAIN_MS: i64 = 600_000;
/// The most requests that may be parked in one shard; the next one gets `COORDINATOR_LOAD_IN_PROGRESS`.
const PARKED_MAX: usize = 100_000;
/// What the log says once a clean stop has begun; each coordinator has its own word for that.
const STOPPING: ErrorCode = ErrorCode::NotLeaderOrFollower;
/// A tick that changed nothing (the log took no records, a producer id has to be fetched first) is asked again after this
/// long, then twice as long, …
const TICK_AGAIN_MS_MIN: i64 = 1;
/// … up to this long, …
const TICK_AGAIN_MS_MAX: i64 = 1_000;
/// … which it has reached after so many.
const TICK_DOUBLINGS_MAX: u32 = 10;

impl<S: HostedShard> ShardCell<S> {
    /// Makes the cell by replaying the partition's log into `shard`, from its start to its end.
    ///
    /// Source: Kafka CoordinatorLoaderImpl. Unknown record types are skipped (storage-formats §13).
    pub fn load(partition: Arc<Partition>, shard: S) -> Result<Arc<Self>, ErrorCode> {
        Self::load_from(partition, shard, Offset(0))
    }

    /// [`Self::load`] into a shard that has everything below `from` already: a batch begins there.
    pub fn load_from(partition: Arc<Partition>, mut shard: S, from: Offset) -> Result<Arc<Self>, ErrorCode> {
        partition.for_each_batch(from, |batch| {
            let header = batch.header();
            if header.base_offset < from {
                tracing::error!(partition = %partition.name, %from, "the load begins inside a batch");
                return Err(ErrorCode::CorruptMessage);
            }
            // A part of its state, or a wrong one, is worse than none.
            if let Err(error) = batch.verify_crc() {
                tracing::error!(partition = %partition.name, offset = %header.base_offset, %error, "a batch is broken");
                return Err(ErrorCode::CorruptMessage);
            }
            if header.is_control() {
                return shard.replay_control(batch);
            }
            let records = batch.records().map_err(|_| ErrorCode::CorruptMessage)?;
            for record in records {
                let record = record.map_err(|_| ErrorCode::CorruptMessage)?;
                let at = position(header.base_offset.plus(i64::from(record.offset_delta)), batch);
                match S::Record::decode(record.key.as_ref(), record.value.as_ref()) {
                    Ok(Some(decoded)) => shard.replay(at, &decoded),
                    Ok(None) => tracing::debug!(partition = %partition.name, offset = %at.offset, "skipped a record of an unknown type"),
                    Err(error) if S::SKIPS_UNREADABLE => tracing::warn!(partition = %partition.name, offset = %at.offset, %error, "skipped a record that cannot be read"),
                    Err(error) => {
                        tracing::error!(partition = %partition.name, offset = %at.offset, %error, "a record cannot be read");
                        return Err(ErrorCode::CorruptMessage);
                    }
                }
            }
            Ok(())
        })?;
        check_in_debug(&shard);
        let held = AtomicUsize::new(shard.held());
        let state = ShardState {
            shard,
            next_token: 0,
            parked: BTreeMap::new(),
            armed: None,
            idle_ticks: 0,
            next_tick_at: Nanos(0),
            turn: None,
        };
        Ok(Arc::new(Self { partition, held, state: Mutex::new(state) }))
    }

    /// The partition that holds this shard's log.
    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// How many things of clients the shard remembers, a moment ago.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// How many requests wait, for other requests or for a disk.
    pub(crate) fn parked_requests(&self) -> usize {
        self.lock().parked.len()
    }

    fn lock(&self) -> MutexGuard<'_, ShardState<S>> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Reads the state. For work that is owed, and for checks; answers to clients go through [`Self::ask`].
    pub fn read<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.lock().shard)
    }

    /// Changes settings that are not part of the state.
    pub fn configure<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        change(&mut self.lock().shard)
    }

    /// Asks the shard; `respond` gets the answer when it is durable, perhaps much later.
    pub fn ask(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        request: S::Request,
        respond: Respond<S>,
    ) {
        self.ask_with(broker, cx, Asked::new(request, respond));
    }

    /// [`Self::ask`] with a say in how the batch is appended.
    pub fn ask_with(self: &Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx, mut asked: Asked<S>) {
        let mut state = self.lock();
        if state.parked.len() >= PARKED_MAX {
            drop(state);
            (asked.respond)(broker, cx, Err(AskError::Failed(ErrorCode::CoordinatorLoadInProgress)));
            return;
        }
        state.next_token += 1;
        let token = Token(state.next_token);
        S::refresh(broker, &mut asked.request);
        match state.shard.decide(cx.now, token, &asked.request) {
            Err(refusal) => {
                drop(state);
                S::refused(self, broker, cx, asked, refusal);
            }
            Ok(decision) => {
                state.parked.insert(token, asked.respond);
                if let Err(code) = self.carry_out(&mut state, broker, cx, decision, asked.append) {
                    let respond = state.parked.remove(&token);
                    drop(state);
                    if let Some(respond) = respond {
                        respond(broker, cx, Err(AskError::Failed(S::append_error(code))));
                    }
                    return;
                }
                self.arm(&mut state, broker, cx.now);
                let waits = broker.is_stopping().then(|| state.parked.remove(&token)).flatten();
                drop(state);
                if let Some(respond) = waits {
                    respond(broker, cx, Err(AskError::Failed(S::append_error(STOPPING))));
                }
            }
        }
    }

    /// A clean stop has begun: requests that wait for other requests are answered that the coordinator is no longer here.
    /// Those that wait for the disk are not among them.
    ///
    /// Source: Kafka GroupMetadataManager.onUnloaded.
    pub(crate) fn end_waits(&self, broker: &Arc<Broker>, cx: &mut Cx) {
        let parked = std::mem::take(&mut self.lock().parked);
        for respond in parked.into_values() {
            respond(broker, cx, Err(AskError::Failed(S::append_error(STOPPING))));
        }
    }

    /// Writes a transaction marker into this shard's log and lets the shard take it in, in one step.
    pub fn append_marker(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        marker: MarkerAppend,
    ) -> Result<Offset, ErrorCode> {
        let mut state = self.lock();
        let offset = self.partition.append_marker(broker, cx, marker)?;
        let at = LogPosition {
            offset,
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            is_transactional: true,
        };
        state.shard.replay_marker(at, marker.result);
        check_in_debug(&state.shard);
        self.arm(&mut state, broker, cx.now);
        Ok(offset)
    }

    /// Lets time run after a load.
    pub fn start(self: &Arc<Self>, broker: &Arc<Broker>, now: Now) {
        let mut state = self.lock();
        state.shard.loaded(now);
        self.arm(&mut state, broker, now);
    }

    fn carry_out(
        self: &Arc<Self>,
        state: &mut ShardState<S>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        decision: Decision<S::Record, S::Soft, S::Reply>,
        append: CoordinatorAppend,
    ) -> Result<(), ErrorCode> {
        let Decision { records, transactional, soft, replies } = decision;
        let changes = !records.is_empty() || !soft.is_empty();
        let mut durable = None;
        let end = if records.is_empty() {
            if !append.is_unhurried {
                self.partition.queue_owed_sync(broker);
            }
            self.partition.log_end_offset()
        } else {
            let batch = encode_batch::<S>(cx.now.wall, transactional, &records)?;
            let base = self.partition.append_as_coordinator(broker, cx, &batch, append)?;
            for (at, record) in records.iter().enumerate() {
                let (producer_id, producer_epoch) =
                    transactional.unwrap_or((ProducerId::NONE, ProducerEpoch::NONE));
                let position = LogPosition {
                    offset: base.plus(at as i64),
                    producer_id,
                    producer_epoch,
                    is_transactional: transactional.is_some(),
                };
                state.shard.replay(position, record);
            }
            self.held.store(state.shard.held(), Ordering::Relaxed);
            durable = state.shard.stepped(self, cx, &records);
            base.plus(records.len() as i64)
        };
        for change in soft {
            state.shard.absorb(cx.now, change);
        }
        if changes {
            (state.idle_ticks, state.next_tick_at) = (0, Nanos(0));
        }
        check_in_debug(&state.shard);
        let ready: Vec<_> = replies
            .into_iter()
            .filter_map(|(token, reply)| state.parked.remove(&token).map(|respond| (respond, reply)))
            .collect();
        if durable.is_none() && ready.is_empty() {
            return Ok(());
        }
        self.partition.when_high_watermark(
            cx,
            end,
            Box::new(move |broker, cx, waited| deliver::<S>(broker, cx, waited, durable, ready)),
        );
        Ok(())
    }

    fn arm(self: &Arc<Self>, state: &mut ShardState<S>, broker: &Arc<Broker>, now: Now) {
        let wanted = state.shard.next_deadline().map(|deadline| {
            let by_wall = |wall| {
                let at = Deadline::Wall(wall).on_mono(now).min(now.mono.plus_ms(WALL_LOOK_AGAIN_MS));
                at.max(state.turn.unwrap_or_default())
            };
            let at = match deadline {
                Deadline::Mono(at) => at,
                Deadline::Wall(wall) => by_wall(wall),
                Deadline::Either { wall, mono } => by_wall(wall).min(mono),
            };
            // A deadline that its own tick did not settle must not spin.
            (deadline, at.max(state.next_tick_at))
        });
        // An earlier look at the same deadline will do: it arms again.
        let is_armed =
            |armed: &Armed| wanted.is_some_and(|(deadline, at)| armed.deadline == deadline && armed.at <= at);
        if state.armed.as_ref().is_some_and(is_armed) {
            return;
        }
        if let Some(armed) = state.armed.take() {
            broker.deadlines.cancel(armed.key);
        }
        let Some((deadline, at)) = wanted else { return };
        let cell = Arc::clone(self);
        let key = broker.add_deadline(at, Box::new(move |broker, cx| cell.tick(broker, cx)));
        state.armed = Some(Armed { deadline, at, key });
    }

    fn tick(self: &Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx) {
        {
            let mut state = self.lock();
            state.armed = None;
            let due = state.shard.next_deadline().filter(|deadline| deadline.is_due(cx.now));
            let is_due = due.is_some_and(|due| can_not_wait(due, cx.now) || state.has_turn(broker, cx.now));
            if !is_due {
                self.arm(&mut state, broker, cx.now);
                return;
            }
            // Taken back by whatever changes the state.
            let again_ms = (TICK_AGAIN_MS_MIN << state.idle_ticks).min(TICK_AGAIN_MS_MAX);
            state.idle_ticks = (state.idle_ticks + 1).min(TICK_DOUBLINGS_MAX);
            state.next_tick_at = cx.now.mono.plus_ms(again_ms);
        }
        self.ask(broker, cx, S::tick(), Box::new(|_, _, _| ()));
        let mut state = self.lock();
        self.arm(&mut state, broker, cx.now);
    }
}

/// Whether what is due is due by the monotonic clock: only what takes days is due by the wall clock, and can wait a little.
fn can_not_wait(due: Deadline, now: Now) -> bool {
    match due {
        Deadline::Wall(_) => false,
        Deadline::Mono(mono) | Deadline::Either { mono, .. } => now.mono >= mono,
    }
}

impl<S: Shard> ShardState<S> {
    /// Whether it is this shard's turn; if not, it will be.
    fn has_turn(&mut self, broker: &Broker, now: Now) -> bool {
        let turn = *self.turn.get_or_insert_with(|| broker.turns.take(now));
        let is_here = turn <= now.mono;
        if is_here {
            self.turn = None;
        }
        is_here
    }
}

/// Hands replies out once their records are durable, or says that they never will be.
fn deliver<S: HostedShard>(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    waited: Waited,
    durable: Option<Task>,
    ready: Vec<(Respond<S>, S::Reply)>,
) {
    match waited {
        Waited::Reached => {
            if let Some(task) = durable {
                task(broker, cx);
            }
            for (respond, reply) in ready {
                respond(broker, cx, Ok(reply));
            }
        }
        Waited::Gone(code) => {
            for (respond, _) in ready {
                respond(broker, cx, Err(AskError::Failed(S::append_error(code))));
            }
        }
    }
}

/// A whole check takes time that grows with the state: after every step in debug builds, and wherever the simulator and
/// tests ask for it.
fn check_in_debug<S: Shard>(shard: &S) {
    if cfg!(debug_assertions) {
        shard.check();
    }
}
