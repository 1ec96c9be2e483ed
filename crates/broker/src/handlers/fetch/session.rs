//! Fetch sessions (KIP-227): the broker remembers which partitions a client fetches, and both say only what changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fencepost_types::{ErrorCode, Nanos, Now, Offset, PartitionIndex, TopicName, Uuid};

/// What a client says of a partition that it fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FetchParams {
    /// The first offset wanted.
    pub(crate) offset: Offset,
    /// The leader epoch that the client knows; negative is none.
    pub(crate) current_leader_epoch: i32,
    /// The epoch of the last record that the client has; negative is none.
    pub(crate) last_fetched_epoch: i32,
    /// The most bytes wanted of this partition.
    pub(crate) bytes_max: i32,
}

/// A partition as the request names it: by topic name or by topic id, never both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FetchKey {
    /// The topic's name; empty where the request has ids.
    pub(crate) topic: TopicName,
    /// The topic's id; zero where the request has names.
    pub(crate) topic_id: Uuid,
    /// The partition.
    pub(crate) partition: PartitionIndex,
}

/// What a session says of itself in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionClaim {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
}

const EPOCH_NONE: i32 = -1;
const EPOCH_INITIAL: i32 = 0;

/// How a request is to be carried out.
pub(crate) enum Plan {
    /// What is in the request, and nothing is remembered.
    Sessionless,
    /// What is in the session; `is_full` answers name every partition.
    Session { session: Arc<Mutex<Session>>, id: i32, is_full: bool },
}

/// One client's partitions, in the order in which they get their turn.
pub(crate) struct Session {
    next_epoch: i32,
    uses_topic_ids: bool,
    last_used: Nanos,
    next_turn: u64,
    turns: BTreeMap<u64, FetchKey>,
    partitions: BTreeMap<FetchKey, Cached>,
    /// Names of the topics that the client names by id, as they were when it first did.
    names: BTreeMap<Uuid, TopicName>,
}

struct Cached {
    turn: u64,
    params: FetchParams,
    high_watermark: Offset,
    log_start_offset: Offset,
}

/// All sessions of this broker.
pub(crate) struct FetchSessions {
    state: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    by_id: BTreeMap<i32, Arc<Mutex<Session>>>,
}

/// `max.incremental.fetch.session.cache.slots`.
const SLOTS: usize = 1_000;
/// A session that has not been used for so long may make room for another.
const EVICTABLE_AFTER_MS: i64 = 120_000;
/// Partitions over all sessions of one client's request are bounded by its frame; over one session by this.
const PARTITIONS_PER_SESSION_MAX: usize = 200_000;

impl Default for FetchSessions {
    fn default() -> Self {
        Self { state: Mutex::new(Sessions::default()) }
    }
}

impl FetchSessions {
    /// Finds or makes the session of a request, and takes in what the request changes.
    ///
    /// Source: KIP-227, wire-apis §6.
    pub(crate) fn plan(
        &self,
        now: Now,
        random: u128,
        claim: SessionClaim,
        uses_topic_ids: bool,
        wanted: &[(FetchKey, FetchParams)],
        forgotten: &[FetchKey],
    ) -> Result<Plan, ErrorCode> {
        if claim.epoch == EPOCH_NONE || claim.epoch == EPOCH_INITIAL {
            if claim.id != 0 {
                self.remove(claim.id);
            }
            if claim.epoch == EPOCH_NONE {
                return Ok(Plan::Sessionless);
            }
            return Ok(self.create(now, random, uses_topic_ids, wanted));
        }
        let session = self.get(claim.id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        let is_empty = {
            let mut session = lock(&session);
            if session.next_epoch != claim.epoch {
                return Err(ErrorCode::InvalidFetchSessionEpoch);
            }
            let names_nothing = wanted.is_empty() && forgotten.is_empty();
            if session.uses_topic_ids != uses_topic_ids && !(names_nothing && session.partitions.is_empty()) {
                return Err(ErrorCode::FetchSessionTopicIdError);
            }
            session.next_epoch = if claim.epoch == i32::MAX { 1 } else { claim.epoch + 1 };
            session.last_used = now.mono;
            session.update(wanted, forgotten);
            session.partitions.is_empty()
        };
        if is_empty {
            self.remove(claim.id);
            return Ok(Plan::Sessionless);
        }
        Ok(Plan::Session { session, id: claim.id, is_full: false })
    }

    fn create(
        &self,
        now: Now,
        random: u128,
        uses_topic_ids: bool,
        wanted: &[(FetchKey, FetchParams)],
    ) -> Plan {
        let mut sessions = self.state.lock().expect("no holder of this lock panics");
        if !sessions.make_room(now) {
            return Plan::Sessionless;
        }
        let mut id = (random & 0x7fff_ffff) as i32;
        while id == 0 || sessions.by_id.contains_key(&id) {
            id = id.wrapping_add(1) & i32::MAX;
        }
        let mut session = Session {
            next_epoch: 1,
            uses_topic_ids,
            last_used: now.mono,
            next_turn: 0,
            turns: BTreeMap::new(),
            partitions: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        session.update(wanted, &[]);
        let session = Arc::new(Mutex::new(session));
        sessions.by_id.insert(id, Arc::clone(&session));
        Plan::Session { session, id, is_full: true }
    }

    fn get(&self, id: i32) -> Option<Arc<Mutex<Session>>> {
        self.state.lock().expect("no holder of this lock panics").by_id.get(&id).cloned()
    }

    fn remove(&self, id: i32) {
        self.state.lock().expect("no holder of this lock panics").by_id.remove(&id);
    }
}

fn lock(session: &Arc<Mutex<Session>>) -> std::sync::MutexGuard<'_, Session> {
    session.lock().expect("no holder of this lock panics")
}

impl Sessions {
    /// Whether there is room for one more; the longest unused one goes if it may.
    fn make_room(&mut self, now: Now) -> bool {
        if self.by_id.len() < SLOTS {
            return true;
        }
        let oldest = self.by_id.iter().map(|(id, session)| (lock(session).last_used, *id)).min();
        let Some((last_used, id)) = oldest else { return true };
        let evictable = last_used.plus_ms(EVICTABLE_AFTER_MS) <= now.mono;
        if evictable {
            self.by_id.remove(&id);
        }
        evictable
    }
}

impl Session {
    fn update(&mut self, wanted: &[(FetchKey, FetchParams)], forgotten: &[FetchKey]) {
        for (key, params) in wanted {
            if let Some(cached) = self.partitions.get_mut(key) {
                cached.params = *params;
            } else if self.partitions.len() < PARTITIONS_PER_SESSION_MAX {
                let turn = self.take_turn(key);
                let (high_watermark, log_start_offset) = (Offset::NONE, Offset::NONE);
                let cached = Cached { turn, params: *params, high_watermark, log_start_offset };
                self.partitions.insert(key.clone(), cached);
            }
        }
        // A partition both named and forgotten is forgotten.
        for key in forgotten {
            if let Some(cached) = self.partitions.remove(key) {
                self.turns.remove(&cached.turn);
            }
        }
    }

    fn take_turn(&mut self, key: &FetchKey) -> u64 {
        self.next_turn += 1;
        self.turns.insert(self.next_turn, key.clone());
        self.next_turn
    }

    /// Every partition with what is wanted of it, in turn.
    pub(crate) fn partitions(&self) -> Vec<(FetchKey, FetchParams)> {
        let keys = self.turns.values();
        keys.filter_map(|key| self.partitions.get(key).map(|cached| (key.clone(), cached.params))).collect()
    }

    /// The name that the topic of `id` has, or had when the client first named it.
    pub(crate) fn name_of(&mut self, id: Uuid, now: Option<TopicName>) -> Option<TopicName> {
        if let Some(name) = now {
            self.names.insert(id, name);
        }
        self.names.get(&id).cloned()
    }

    /// Whether an incremental answer names the partition, which is then remembered as told: it has records, or
    /// something about it is new or wrong. One with records goes to the end of the line.
    pub(crate) fn must_tell(&mut self, key: &FetchKey, told: Told, is_full: bool) -> bool {
        let Some(cached) = self.partitions.get_mut(key) else { return false };
        let changed = cached.high_watermark != told.high_watermark
            || cached.log_start_offset != told.log_start_offset
            || told.has_records
            || told.must_show;
        cached.high_watermark = if told.has_error { Offset::NONE } else { told.high_watermark };
        cached.log_start_offset = told.log_start_offset;
        // The first answer of a session names everything, and nobody loses a turn by it.
        if told.has_records && !is_full {
            let turn = cached.turn;
            self.turns.remove(&turn);
            let turn = self.take_turn(key);
            if let Some(cached) = self.partitions.get_mut(key) {
                cached.turn = turn;
            }
        }
        changed || told.has_error
    }
}

/// What an answer would say of a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) high_watermark: Offset,
    pub(crate) log_start_offset: Offset,
    pub(crate) has_records: bool,
    pub(crate) has_error: bool,
    /// A preferred replica or a diverging epoch.
    pub(crate) must_show: bool,
}
