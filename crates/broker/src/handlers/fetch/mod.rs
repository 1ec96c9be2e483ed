//! Fetch: plan (sessions), count what is there, and read it, or park until there is enough.
//!
//! ```text
//! request ─► session.rs: which partitions ─► counted: enough? ──► read.rs ─► answer.rs
//!                                              ▲          │ no      ▲
//!                                              └── more ──┴─ parked ┴ enough, or the deadline
//!
//! A parked fetch is tested by byte counts (`fetch_wait.rs`), at each change of one of its partitions by that one alone.
//! ```

mod answer;
mod read;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_protocol::messages::{FetchRequest, FetchResponse};
use fencepost_types::{ErrorCode, Offset, PartitionIndex, TopicName, Uuid};

use crate::Broker;
use crate::cx::Cx;
use crate::deadlines::DeadlineKey;
use crate::fetch_wait::{Available, FetchPoint, FetchWait, FetchWatch};
use crate::once::Once;
use crate::partition::Partition;
use crate::respond::Exchange;

pub(crate) use read::check_epoch;
pub(crate) use session::FetchSessions;
use session::{FetchKey, FetchParams, Plan, Session, SessionClaim};

/// From this version on topics are named by id.
const TOPIC_IDS_FROM: i16 = 13;
/// From this version on an error can name the current leader (KIP-951).
const CURRENT_LEADER_FROM: i16 = 16;
/// From this version on a replica says so in a tagged field.
const REPLICA_STATE_FROM: i16 = 15;
/// The isolation level of read_committed.
const READ_COMMITTED: i8 = 1;

/// Who reads, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    read_committed: bool,
    bytes_max: usize,
    /// Never more than `bytes_max`: that could not be had.
    bytes_min: u64,
    max_wait_ms: i64,
}

/// One partition of a request.
pub(crate) struct Wanted {
    key: FetchKey,
    params: FetchParams,
    /// The partition, or what is wrong with its name.
    found: Result<Arc<Partition>, ErrorCode>,
}

/// Takes a Fetch request.
///
/// Source: wire-apis §6, `producer-state §9`, KIP-227.
pub(crate) fn fetch(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: FetchRequest) {
    let version = exchange.version();
    let replica_id =
        if version >= REPLICA_STATE_FROM { request.replica_state.replica_id } else { request.replica_id };
    let (wanted, forgotten) = named(&request);
    let claim = SessionClaim { id: request.session_id, epoch: request.session_epoch };
    let by_id = version >= TOPIC_IDS_FROM;
    let random = broker.edge.random();
    let plan = broker.fetch_sessions.plan(cx.now, random, claim, by_id, &wanted, &forgotten);
    let plan = match plan {
        Ok(plan) => plan,
        Err(code) => {
            return exchange.reply(FetchResponse { error_code: code.code(), ..Default::default() });
        }
    };
    let partitions = match &plan {
        Plan::Sessionless => wanted,
        Plan::Session { session, .. } => session.lock().expect("no holder of this lock panics").partitions(),
    };
    let mut wanted: Vec<Wanted> =
        partitions.into_iter().map(|(key, params)| find(broker, by_id, replica_id, key, params)).collect();
    if let (Plan::Session { session, .. }, true) = (&plan, by_id) {
        name_topics(broker, session, &mut wanted);
    }
    let bytes_max = (request.max_bytes.max(0) as usize).min(broker.config().fetch_max_bytes.max(0) as usize);
    let reading = Reading {
        read_committed: request.isolation_level == READ_COMMITTED,
        bytes_max,
        bytes_min: (request.min_bytes.max(0) as u64).min(bytes_max as u64),
        max_wait_ms: i64::from(request.max_wait_ms),
    };
    let parked = Arc::new(Parked {
        reading,
        wanted,
        available: AtomicU64::new(0),
        pending: Once::new(Pending { exchange, plan }),
        deadline: std::sync::Mutex::new(None),
    });
    parked.begin(broker, cx);
}

/// The partitions that a request wants and forgets. One that is named twice keeps its place and takes the later wish.
fn named(request: &FetchRequest) -> (Vec<(FetchKey, FetchParams)>, Vec<FetchKey>) {
    let mut wanted: Vec<(FetchKey, FetchParams)> = Vec::new();
    let mut places = BTreeMap::new();
    for topic in &request.topics {
        let name = TopicName::from(topic.topic.as_str());
        for partition in &topic.partitions {
            let key = FetchKey {
                topic: name.clone(),
                topic_id: topic.topic_id,
                partition: PartitionIndex(partition.partition),
            };
            let params = FetchParams {
                offset: Offset(partition.fetch_offset),
                current_leader_epoch: partition.current_leader_epoch,
                last_fetched_epoch: partition.last_fetched_epoch,
                bytes_max: partition.partition_max_bytes,
            };
            match places.get(&key) {
                Some(at) => {
                    let place: &mut (FetchKey, FetchParams) = &mut wanted[*at];
                    place.1 = params;
                }
                None => {
                    places.insert(key.clone(), wanted.len());
                    wanted.push((key, params));
                }
            }
        }
    }
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
        let name = TopicName::from(topic.topic.as_str());
        topic.partitions.iter().map(move |partition| FetchKey {
            topic: name.clone(),
            topic_id: topic.topic_id,
            partition: PartitionIndex(*partition),
        })
    });
    (wanted, forgotten.collect())
}

fn find(broker: &Arc<Broker>, by_id: bool, replica_id: i32, key: FetchKey, params: FetchParams) -> Wanted {
    let found = broker.resolve(by_id, &key.topic, key.topic_id, key.partition);
    // Alone, no other replica is part of any partition.
    let found = match found {
        Ok(_) if replica_id >= 0 => Err(ErrorCode::NotLeaderOrFollower),
        found => found,
    };
    Wanted { key, params, found }
}

/// Within a session a topic that has been deleted and made again under its name is told from one that is not known.
fn name_topics(broker: &Arc<Broker>, session: &Arc<std::sync::Mutex<Session>>, wanted: &mut [Wanted]) {
    let image = broker.image();
    let mut session = session.lock().expect("no holder of this lock panics");
    for one in wanted {
        let id = one.key.topic_id;
        let name = session.name_of(id, image.topic_name(id));
        let again = name.is_some_and(|name| image.topic_by_name(&name).is_some_and(|topic| topic.id != id));
        if again && one.found.is_err() {
            one.found = Err(ErrorCode::InconsistentTopicId);
        }
    }
}

/// A Fetch that has not been answered yet.
struct Parked {
    reading: Reading,
    wanted: Vec<Wanted>,
    /// Bytes that its partitions have for it, as far as they have been counted while it waits.
    available: AtomicU64,
    pending: Once<Pending>,
    deadline: std::sync::Mutex<Option<DeadlineKey>>,
}

struct Pending {
    exchange: Exchange,
    plan: Plan,
}

impl Parked {
    /// Answers at once if there is enough, or nothing to wait for; parks otherwise.
    fn begin(self: Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx) {
        let waits = self.reading.max_wait_ms > 0 && self.wanted.iter().any(|wanted| wanted.found.is_ok());
        if !waits || self.has_enough() {
            return self.answer(broker);
        }
        let due = Arc::clone(&self);
        let at = cx.now.mono.plus_ms(self.reading.max_wait_ms);
        let key = broker.add_deadline(at, Box::new(move |broker, _| due.answer(broker)));
        *self.deadline.lock().expect("no holder of this lock panics") = Some(key);
        for wanted in &self.wanted {
            if let Ok(partition) = &wanted.found {
                let watch = FetchWatch::new(Arc::clone(&self) as Arc<dyn FetchWait>, self.point(wanted));
                if partition.add_fetch(watch) {
                    return self.answer(broker);
                }
            }
        }
        // A stop wakes those whom it finds waiting.
        if broker.is_stopping() {
            self.answer(broker);
        }
    }

    fn point(&self, wanted: &Wanted) -> FetchPoint {
        FetchPoint {
            offset: wanted.params.offset,
            read_committed: self.reading.read_committed,
            bytes_max: wanted.params.bytes_max.max(0) as u64,
            is_any_enough: self.reading.bytes_min <= 1,
            position: None,
        }
    }

    /// Whether it need not wait, by the first look at all partitions.
    fn has_enough(&self) -> bool {
        let mut available = 0;
        self.reading.bytes_min == 0
            || self.wanted.iter().any(|wanted| {
                let partition = match &wanted.found {
                    Ok(partition) => partition,
                    Err(code) => return *code == ErrorCode::InconsistentTopicId,
                };
                let counted = partition.with(|state| match read::look(state, &wanted.params) {
                    Ok(_) => self.point(wanted).available(&mut state.log),
                    Err(_) => Available::AnswerNow,
                });
                match counted {
                    Ok(Available::Bytes(bytes)) => available += bytes,
                    Ok(Available::AnswerNow) | Err(_) => return true,
                }
                available >= self.reading.bytes_min
            })
    }

    /// Reads what there is and answers, unless it has been answered before.
    fn answer(&self, broker: &Arc<Broker>) {
        if let Some(Pending { exchange, plan }) = self.pending.take() {
            if let Some(key) = self.deadline.lock().expect("no holder of this lock panics").take() {
                broker.deadlines.cancel(key);
            }
            answer::reply(broker, exchange, plan, read::read_all(&self.reading, &self.wanted));
        }
    }
}

impl FetchWait for Parked {
    fn count(&self, more: u64) -> bool {
        self.available.fetch_add(more, Ordering::AcqRel) + more >= self.reading.bytes_min
    }

    fn wake(self: Arc<Self>, broker: &Arc<Broker>, _: &mut Cx) {
        self.answer(broker);
    }

    fn is_done(&self) -> bool {
        self.pending.is_taken()
    }
}

impl Broker {
    /// The hosted partition that a request names, by topic id or by name.
    pub(crate) fn resolve(
        &self,
        by_id: bool,
        topic: &str,
        topic_id: Uuid,
        partition: PartitionIndex,
    ) -> Result<Arc<Partition>, ErrorCode> {
        let name = if by_id {
            let image = self.image();
            image.topics().by_id(topic_id).map(|topic| topic.name.clone()).ok_or(ErrorCode::UnknownTopicId)?
        } else {
            TopicName::from(topic)
        };
        let found = self.partitions.get(&fencepost_types::TopicPartition { topic: name, partition });
        found.ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}
