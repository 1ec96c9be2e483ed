//! A coordinator with a log, a clock and people who wait: what the engine does, in a few lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_coordinator::{LogPosition, Record, Shard, Token};
use fencepost_group::{GroupConfig, GroupRecord, GroupRefusal, GroupShard, Reply, Request};
use fencepost_types::{Deadline, Millis, Nanos, Now, Offset, ProducerEpoch, ProducerId, TransactionResult};

/// What lies in the log.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A record.
    Record(LogPosition, GroupRecord),
    /// The end of a transaction.
    Marker(LogPosition, TransactionResult),
}

/// The coordinator under test.
pub struct Driver {
    pub shard: GroupShard,
    pub config: GroupConfig,
    pub log: Vec<Entry>,
    pub now: Now,
    /// Answers that nobody has looked at yet, in the order they were given.
    pub answers: Vec<(Token, Reply)>,
    next_token: u64,
    next_offset: i64,
}

impl Driver {
    pub fn new(config: GroupConfig) -> Self {
        let now = Now { wall: Millis(1_700_000_000_000), mono: Nanos(1_000_000_000) };
        let shard = GroupShard::new(Arc::new(config.clone()));
        let mut driver =
            Self { shard, config, log: Vec::new(), now, answers: Vec::new(), next_token: 1, next_offset: 0 };
        driver.tick();
        driver
    }

    /// Asks; the answer, if it came at once, is among `answers`.
    pub fn ask(&mut self, request: &Request) -> Result<Token, GroupRefusal> {
        let token = Token(self.next_token);
        self.next_token += 1;
        let before = self.shard.clone();
        let decision = self.shard.decide(self.now, token, request)?;
        assert_eq!(before, self.shard, "decide has changed something");
        let (producer_id, producer_epoch) =
            decision.transactional.unwrap_or((ProducerId::NONE, ProducerEpoch::NONE));
        for record in decision.records {
            let at = LogPosition {
                offset: Offset(self.next_offset),
                producer_id,
                producer_epoch,
                is_transactional: decision.transactional.is_some(),
            };
            self.next_offset += 1;
            let (key, value) = record.encode();
            let decoded =
                GroupRecord::decode(key.as_ref(), value.as_ref()).expect("what we write can be read");
            assert_eq!(decoded.as_ref(), Some(&record), "what is written is read back");
            self.shard.replay(at, &record);
            self.log.push(Entry::Record(at, record));
        }
        for soft in decision.soft {
            self.shard.absorb(self.now, soft);
        }
        self.answers.extend(decision.replies);
        self.check();
        Ok(token)
    }

    /// The end of a producer's transaction.
    pub fn marker(&mut self, producer_id: ProducerId, result: TransactionResult) {
        let at = LogPosition {
            offset: Offset(self.next_offset),
            producer_id,
            producer_epoch: ProducerEpoch(0),
            is_transactional: true,
        };
        self.next_offset += 1;
        self.shard.replay_marker(at, result);
        self.log.push(Entry::Marker(at, result));
        self.check();
    }

    /// Lets time pass, and everything happen that is due meanwhile.
    pub fn wait(&mut self, ms: i64) {
        let end = self.now.mono.plus_ms(ms);
        while let Some(Deadline::Mono(due)) = self.shard.next_deadline()
            && due <= end
        {
            self.pass(due);
            self.tick();
        }
        self.pass(end);
    }

    /// Loses everything but the log.
    pub fn restart(&mut self) {
        self.shard = self.replayed();
        self.answers.clear();
        self.tick();
    }

    fn replayed(&self) -> GroupShard {
        let mut shard = GroupShard::new(Arc::new(self.config.clone()));
        for entry in &self.log {
            match entry {
                Entry::Record(at, record) => shard.replay(*at, record),
                Entry::Marker(at, result) => shard.replay_marker(*at, *result),
            }
        }
        shard
    }

    fn pass(&mut self, until: Nanos) {
        let ms = until.0.saturating_sub(self.now.mono.0) / 1_000_000;
        self.now = Now { wall: self.now.wall.plus(ms as i64), mono: self.now.mono.max(until) };
    }

    fn tick(&mut self) {
        let token = self.ask(&GroupShard::tick()).expect("a tick is never refused");
        self.answers.retain(|(answered, _)| *answered != token);
    }

    /// Invariants, and G1: the durable half equals a replay of the log.
    fn check(&self) {
        self.shard.check();
        assert_eq!(self.shard.durable(), self.replayed().durable(), "live state equals replayed state");
    }
}

/// Short names for long ids, in order of appearance.
#[derive(Default)]
pub struct Mask {
    names: BTreeMap<String, String>,
}

impl Mask {
    /// Gives an id its short name.
    pub fn saw(&mut self, id: &str) -> String {
        if id.is_empty() {
            return String::from("-");
        }
        let next = format!("M{}", self.names.len());
        self.names.entry(id.to_owned()).or_insert(next).clone()
    }

    /// The short name of an id, if it has one.
    pub fn show(&self, id: &str) -> String {
        if id.is_empty() {
            String::from("-")
        } else {
            self.names.get(id).cloned().unwrap_or_else(|| id.to_owned())
        }
    }

    /// The id behind a short name.
    pub fn id(&self, name: &str) -> String {
        let found = self.names.iter().find(|(_, short)| *short == name);
        found.map_or_else(|| name.to_owned(), |(id, _)| id.clone())
    }
}
