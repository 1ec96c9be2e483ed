//! Fetch sessions (KIP-227): the broker remembers which partitions a client fetches, and both say only what changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fencepost_metadata::BrokerConfig;
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
    /// The partitions of all sessions, these among them.
    remembered: Arc<Remembered>,
}

struct Cached {
    turn: u64,
    params: FetchParams,
    high_watermark: Offset,
    log_start_offset: Offset,
}

/// All sessions of this broker.
pub(crate) struct FetchSessions {
    /// The most sessions.
    slots: usize,
    state: Mutex<Sessions>,
    remembered: Arc<Remembered>,
}

/// How many partitions all sessions hold.
struct Remembered {
    count: AtomicUsize,
    max: usize,
}

impl Remembered {
    fn take(&self) -> Result<(), Full> {
        if self.count.fetch_add(1, Ordering::Relaxed) < self.max {
            return Ok(());
        }
        self.give_back(1);
        Err(Full)
    }

    fn give_back(&self, count: usize) {
        self.count.fetch_sub(count, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Sessions {
    by_id: BTreeMap<i32, Arc<Mutex<Session>>>,
}

/// A session that has not been used for so long may make room for another.
const EVICTABLE_AFTER_MS: i64 = 120_000;
/// So many partitions are remembered over all sessions (some 200 bytes each). A client that asks for more is served
/// without a session, and one that adds more to its session loses that.
const PARTITIONS_MAX: usize = 500_000;

impl FetchSessions {
    /// Room for as many sessions as `max.incremental.fetch.session.cache.slots` says.
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        let slots = config.max_incremental_fetch_session_cache_slots.max(0) as usize;
        Self::remembering(slots, PARTITIONS_MAX)
    }

    fn remembering(slots: usize, max: usize) -> Self {
        let remembered = Arc::new(Remembered { count: AtomicUsize::new(0), max });
        Self { slots, state: Mutex::new(Sessions::default()), remembered }
    }

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
        let updated = {
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
            session.update(wanted, forgotten).map(|()| session.partitions.is_empty())
        };
        match updated {
            Ok(false) => Ok(Plan::Session { session, id: claim.id, is_full: false }),
            Ok(true) => {
                self.remove(claim.id);
                Ok(Plan::Sessionless)
            }
            // Gone, as far as the client can tell: it asks for everything again.
            Err(Full) => {
                self.remove(claim.id);
                Err(ErrorCode::FetchSessionIdNotFound)
            }
        }
    }

    fn create(
        &self,
        now: Now,
        random: u128,
        uses_topic_ids: bool,
        wanted: &[(FetchKey, FetchParams)],
    ) -> Plan {
        let mut sessions = self.state.lock().expect("no holder of this lock panics");
        if !sessions.make_room(self.slots, now) {
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
            remembered: Arc::clone(&self.remembered),
        };
        if session.update(wanted, &[]).is_err() {
            return Plan::Sessionless;
        }
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
    fn make_room(&mut self, slots: usize, now: Now) -> bool {
        if self.by_id.len() < slots {
            return true;
        }
        let oldest = self.by_id.iter().map(|(id, session)| (lock(session).last_used, *id)).min();
        let Some((last_used, id)) = oldest else { return false };
        let evictable = last_used.plus_ms(EVICTABLE_AFTER_MS) <= now.mono;
        if evictable {
            self.by_id.remove(&id);
        }
        evictable
    }
}

/// Too many partitions are remembered already.
struct Full;

impl Drop for Session {
    fn drop(&mut self) {
        self.remembered.give_back(self.partitions.len());
    }
}

impl Session {
    fn update(&mut self, wanted: &[(FetchKey, FetchParams)], forgotten: &[FetchKey]) -> Result<(), Full> {
        for (key, params) in wanted {
            if let Some(cached) = self.partitions.get_mut(key) {
                cached.params = *params;
                continue;
            }
            self.remembered.take()?;
            let turn = self.take_turn(key);
            let (high_watermark, log_start_offset) = (Offset::NONE, Offset::NONE);
            let cached = Cached { turn, params: *params, high_watermark, log_start_offset };
            self.partitions.insert(key.clone(), cached);
        }
        // A partition both named and forgotten is forgotten.
        for key in forgotten {
            if let Some(cached) = self.partitions.remove(key) {
                self.turns.remove(&cached.turn);
                self.remembered.give_back(1);
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use fencepost_metadata::StaticConfig;

    use super::*;
    use crate::testing::{NOW, later};

    fn wanted(topic: &str, partitions: std::ops::Range<i32>) -> Vec<(FetchKey, FetchParams)> {
        let params =
            FetchParams { offset: Offset(0), current_leader_epoch: -1, last_fetched_epoch: -1, bytes_max: 1 };
        let key = |partition| FetchKey {
            topic: topic.into(),
            topic_id: Uuid::ZERO,
            partition: PartitionIndex(partition),
        };
        partitions.map(|partition| (key(partition), params)).collect()
    }

    fn create(sessions: &FetchSessions, now: Now, wanted: &[(FetchKey, FetchParams)]) -> Option<i32> {
        let claim = SessionClaim { id: 0, epoch: EPOCH_INITIAL };
        match sessions.plan(now, 7, claim, false, wanted, &[]) {
            Ok(Plan::Session { id, .. }) => Some(id),
            Ok(Plan::Sessionless) => None,
            Err(code) => panic!("{code}"),
        }
    }

    /// However many sessions and partitions clients make up, so many are remembered; who gets no session is served all the
    /// same, and what a session held is free again when it goes.
    #[test]
    fn what_is_remembered_is_bounded() {
        let sessions = FetchSessions::remembering(10, 100);
        let many = wanted("t", 0..100);
        let (most, rest) = many.split_at(90);
        let first = create(&sessions, NOW, most).unwrap();
        assert_eq!(create(&sessions, NOW, &wanted("u", 0..11)), None);
        let second = create(&sessions, NOW, &wanted("u", 0..10)).unwrap();
        // One more: the session is lost, and its client told to begin anew.
        let claim = SessionClaim { id: second, epoch: 1 };
        let lost = sessions.plan(NOW, 7, claim, false, &wanted("u", 10..11), &[]);
        assert!(matches!(lost, Err(ErrorCode::FetchSessionIdNotFound)));
        assert_eq!(sessions.remembered.count.load(Ordering::Relaxed), most.len());
        // What is forgotten makes room.
        let forgotten: Vec<_> = most.iter().map(|(key, _)| key.clone()).collect();
        let claim = SessionClaim { id: first, epoch: 1 };
        let kept = sessions.plan(NOW, 7, claim, false, rest, &forgotten);
        assert!(matches!(kept, Ok(Plan::Session { .. })));
        drop(kept);
        assert_eq!(sessions.remembered.count.load(Ordering::Relaxed), rest.len());
        sessions.remove(first);
        assert_eq!(sessions.remembered.count.load(Ordering::Relaxed), 0);
    }

    fn with_slots(slots: &str) -> FetchSessions {
        let (key, value) = ("max.incremental.fetch.session.cache.slots".to_owned(), slots.to_owned());
        let statics = StaticConfig::new([(key, value)]).unwrap();
        FetchSessions::new(&BrokerConfig::from_static(&statics))
    }

    /// As many sessions as are configured; the next one takes the place of the longest unused, once that may go.
    #[test]
    fn an_unused_session_makes_room() {
        let sessions = with_slots("3");
        let one = wanted("t", 0..1);
        for at in 0..3 {
            assert!(create(&sessions, later(at), &one).is_some());
        }
        assert_eq!(create(&sessions, later(EVICTABLE_AFTER_MS - 1), &one), None);
        assert!(create(&sessions, later(EVICTABLE_AFTER_MS), &one).is_some());
        assert_eq!(create(&sessions, later(EVICTABLE_AFTER_MS), &one), None);
    }

    /// Without slots nobody gets a session, and everybody is served.
    #[test]
    fn no_slots_are_no_sessions() {
        assert_eq!(create(&with_slots("0"), NOW, &wanted("t", 0..1)), None);
    }
}
