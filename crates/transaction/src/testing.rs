//! What the tests of this crate share: a shard driven as the engine drives it, and states to begin from.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use fencepost_coordinator::{LogPosition, Record, Refusal as _, Shard, Token};
use fencepost_types::{
    Millis, Nanos, Now, Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionResult,
    TransactionVersion,
};

use crate::shard::Outcome;
use crate::*;

/// The id that most tests are about.
pub(crate) const TX: &str = "tx";
/// The current producer id of [`txn_in`], and the first that [`Coordinator`] hands out.
pub(crate) const P: ProducerId = ProducerId(100);
/// The one that follows it.
pub(crate) const FRESH: ProducerId = ProducerId(101);
/// One that nobody has.
pub(crate) const STRANGER: ProducerId = ProducerId(1 << 40);
/// The time at which tests begin.
pub(crate) const T: i64 = 1_700_000_000_000;

pub(crate) use TransactionResult::{Abort, Commit};
pub(crate) use TransactionVersion::{V0, V1, V2};

/// Where the monotonic clock stands when the wall clock shows [`T`]: before it there is room for the past.
const MONO_MS: i64 = 10_000_000;

/// Both clocks at `ms` after [`T`].
pub(crate) fn at(ms: i64) -> Now {
    Now { wall: Millis(T + ms), mono: mono(ms) }
}

/// The monotonic clock at `ms` after [`T`].
pub(crate) fn mono(ms: i64) -> Nanos {
    Nanos(0).plus_ms(MONO_MS + ms)
}

/// Partitions `orders-N`.
pub(crate) fn orders(partitions: &[i32]) -> Vec<TopicPartition> {
    partitions.iter().map(|partition| TopicPartition::new("orders", *partition)).collect()
}

/// A shard driven as the engine drives it; every append works and is durable at once. After each step the state is
/// checked, and compared with that of a shard that loads the log.
#[derive(Clone, Debug)]
pub(crate) struct Coordinator {
    pub(crate) shard: TransactionShard,
    pub(crate) log: Vec<(Bytes, Option<Bytes>)>,
    pub(crate) now: Now,
    next_producer_id: i64,
}

impl Coordinator {
    pub(crate) fn new() -> Self {
        Self::at_level(V2)
    }

    pub(crate) fn at_level(transaction_version: TransactionVersion) -> Self {
        let config = ShardConfig { transaction_version, ..ShardConfig::default() };
        let shard = TransactionShard::new(config);
        Self { shard, log: Vec::new(), now: at(0), next_producer_id: P.0 }
    }

    /// One that has [`TX`] in the log already.
    pub(crate) fn with(transaction_version: TransactionVersion, txn: TxnMetadata) -> Self {
        let mut coordinator = Self::at_level(transaction_version);
        coordinator.next_producer_id = txn.producer_id.0.max(txn.next_producer_id.0) + 1;
        coordinator.append(&record(TX, txn));
        coordinator
    }

    /// A record that is in the log before the shard is loaded.
    pub(crate) fn append(&mut self, record: &TransactionRecord) {
        self.take_in(record);
        self.shard.loaded(self.now);
    }

    fn take_in(&mut self, record: &TransactionRecord) {
        let offset = Offset(self.log.len() as i64);
        let (key, value) = record.encode();
        self.log.push((key.expect("every record has a key"), value));
        self.shard.replay(LogPosition::plain(offset), record);
    }

    /// Asks, and does what was decided.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let decision = self.shard.decide(self.now, Token(7), request)?;
        assert_eq!(decision.transactional, None);
        decision.records.iter().for_each(|record| self.take_in(record));
        decision.soft.into_iter().for_each(|soft| self.shard.absorb(self.now, soft));
        self.shard.check();
        self.assert_every_timeout_runs();
        self.assert_live_equals_loaded();
        assert_eq!(decision.replies.len(), 1, "every request is answered by its own decision");
        Ok(decision.replies[0].clone().1)
    }

    /// As [`Self::ask`], with a fresh producer id where one is needed.
    pub(crate) fn ask_with_ids(&mut self, request: &Request) -> Result<Reply, Refusal> {
        match self.ask(request) {
            Err(Refusal::ProducerIdNeeded) => {
                let fresh = Some(ProducerId(self.next_producer_id));
                self.next_producer_id += 1;
                let mut request = request.clone();
                match &mut request {
                    Request::InitProducerId(InitProducerId { fresh_producer_id, .. })
                    | Request::EndTxn(EndTxn { fresh_producer_id, .. })
                    | Request::Tick { fresh_producer_id } => *fresh_producer_id = fresh,
                    other => panic!("{other:?} needs no producer id"),
                }
                self.ask(&request)
            }
            answer => answer,
        }
    }

    /// A shard that has loaded the log.
    pub(crate) fn loaded(&self) -> TransactionShard {
        let mut shard = TransactionShard::new(self.shard.config().clone());
        for (offset, (key, value)) in self.log.iter().enumerate() {
            let record = TransactionRecord::decode(Some(key), value.as_ref());
            let record = record.expect("our own records can be read").expect("and are ours");
            shard.replay(LogPosition::plain(Offset(offset as i64)), &record);
        }
        shard.check();
        shard
    }

    /// X7: an open transaction has a deadline, and nothing else has.
    fn assert_every_timeout_runs(&self) {
        for (id, txn) in self.shard.transactions() {
            let is_timed = txn.state == TransactionState::Ongoing && !txn.is_two_phase_commit();
            let due = self.shard.timeouts.due(Nanos(u64::MAX)).any(|timed| timed == id);
            assert_eq!(due, is_timed, "X7: {id}: {txn:?}");
        }
    }

    /// X1. What is known about markers, and when timeouts began to run, is lost with the process, and is left out.
    fn assert_live_equals_loaded(&self) {
        let (mut live, mut loaded) = (self.shard.clone(), self.loaded());
        live.progress.clear();
        live.timeouts = Default::default();
        for shard in [&mut live, &mut loaded] {
            let durable: Vec<_> = shard.as_loaded().map(|(_, txn)| txn).collect();
            shard.entries.values_mut().zip(durable).for_each(|(entry, txn)| entry.txn = txn);
        }
        assert_eq!(live, loaded);
    }

    /// The process dies and comes back.
    pub(crate) fn restart(&mut self) {
        self.shard = self.loaded();
        self.shard.loaded(self.now);
    }

    pub(crate) fn txn(&self) -> &TxnMetadata {
        self.shard.get(TX).expect("the id is known")
    }

    /// State, producer id, epoch.
    pub(crate) fn state(&self) -> (TransactionState, ProducerId, i16) {
        (self.txn().state, self.txn().producer_id, self.txn().producer_epoch.0)
    }

    pub(crate) fn init(&mut self, expected: Option<(ProducerId, i16)>) -> String {
        word(&self.ask_with_ids(&init(expected)))
    }

    pub(crate) fn add(
        &mut self,
        producer: (ProducerId, i16),
        partitions: &[i32],
        version: TransactionVersion,
    ) {
        let answer = self.ask(&add(producer, partitions, version));
        assert_eq!(answer, Ok(Reply::PartitionsAdded));
    }

    pub(crate) fn end(
        &mut self,
        producer: (ProducerId, i16),
        result: TransactionResult,
        version: TransactionVersion,
    ) -> String {
        word(&self.ask_with_ids(&end(producer, result, version)))
    }

    /// Carries out every marker that is owed, and what is due at once.
    pub(crate) fn settle(&mut self) {
        for owed in self.shard.markers_owed().collect::<Vec<_>>() {
            let written = Request::MarkersWritten(news(&owed));
            assert_eq!(self.ask(&written), Ok(Reply::Markers(MarkersLeft::Nothing)));
        }
        while self.shard.next_deadline().is_some_and(|due| due.is_due(at(-T))) {
            let ticked = self.ask(&TransactionShard::tick());
            assert!(matches!(ticked, Ok(Reply::Ticked(TickOutcome::Completed(_)))), "{ticked:?}");
        }
    }

    /// Ends the transaction and completes it.
    pub(crate) fn finish(
        &mut self,
        producer: (ProducerId, i16),
        result: TransactionResult,
        version: TransactionVersion,
    ) {
        let answer = self.end(producer, result, version);
        assert!(answer.starts_with("NONE"), "{answer}");
        self.settle();
    }

    /// Ticks while something is due, and says what happened.
    pub(crate) fn tick(&mut self) -> Vec<TickOutcome> {
        let mut outcomes = Vec::new();
        while self.shard.next_deadline().is_some_and(|due| due.is_due(self.now)) {
            match self.ask_with_ids(&TransactionShard::tick()) {
                Ok(Reply::Ticked(TickOutcome::Nothing)) => panic!("something is due, and nothing is done"),
                Ok(Reply::Ticked(outcome)) => outcomes.push(outcome),
                other => panic!("a tick answers otherwise: {other:?}"),
            }
        }
        outcomes
    }

    /// The states of the log's records from `offset` on, with producer ids and epoch: `PrepareAbort 100/3 N101 TV2`.
    pub(crate) fn written(&self, offset: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, value) in &self.log[offset..] {
            let record = TransactionRecord::decode(Some(key), value.as_ref()).unwrap().unwrap();
            let Some(TransactionValue { txn, .. }) = record.value else {
                lines.push(String::from("tombstone"));
                continue;
            };
            let mut line = alloc::format!("{} {}/{}", txn.state, txn.producer_id, txn.producer_epoch);
            if txn.previous_producer_id != txn.producer_id {
                line += &alloc::format!(" V{}", txn.previous_producer_id);
            }
            if txn.next_producer_id != ProducerId::NONE {
                line += &alloc::format!(" N{}", txn.next_producer_id);
            }
            if txn.client_transaction_version != V0 {
                line += &alloc::format!(" TV{}", txn.client_transaction_version.level());
            }
            lines.push(line);
        }
        lines
    }
}

/// An answer in a word: NONE with the pair that came with it, or the code.
pub(crate) fn word(answer: &Result<Reply, Refusal>) -> String {
    match answer {
        Ok(Reply::ProducerId { producer_id, producer_epoch }) => {
            alloc::format!("NONE {producer_id}/{producer_epoch}")
        }
        Ok(Reply::Ended { producer_id: ProducerId::NONE, producer_epoch: ProducerEpoch::NONE }) => {
            String::from("NONE")
        }
        Ok(Reply::Ended { producer_id, producer_epoch }) => {
            alloc::format!("NONE {producer_id}/{producer_epoch}")
        }
        Ok(Reply::PartitionsAdded) => String::from("NONE"),
        Ok(Reply::Fencing { .. }) => String::from("fencing"),
        Ok(Reply::PartitionsVerified(verified)) => {
            let all = verified.iter().all(|(_, is_in)| *is_in);
            String::from(if all { "NONE" } else { "TRANSACTION_ABORTABLE" })
        }
        Ok(other) => alloc::format!("{other:?}"),
        Err(refusal) => refusal.code().to_string(),
    }
}

/// A decision in words: the states of what it writes, and its answer.
pub(crate) fn words(outcome: &Outcome) -> String {
    match outcome {
        Err(refusal) => refusal.code().to_string(),
        Ok(decision) => {
            let mut line = String::new();
            for record in &decision.records {
                match &record.value {
                    None => line += "tombstone: ",
                    Some(TransactionValue { txn, .. }) => line += &alloc::format!("{}: ", txn.state),
                }
            }
            line + &word(&Ok(decision.replies[0].1.clone()))
        }
    }
}

/// What `request` is answered when [`TX`] stands at `txn`.
pub(crate) fn decided(txn: &TxnMetadata, request: &Request) -> String {
    let coordinator = Coordinator::with(V2, txn.clone());
    words(&coordinator.shard.decide(coordinator.now, Token(7), request))
}

/// [`TX`] in `state`, as a transaction of `version` leaves it: producer id [`P`] at epoch 5, last epoch 4. States with
/// partitions hold `orders-0` and `orders-1`.
pub(crate) fn txn_in(state: TransactionState, version: TransactionVersion) -> TxnMetadata {
    use TransactionState::*;
    let partitions = match state {
        Empty | CompleteCommit | CompleteAbort => BTreeSet::new(),
        Ongoing | PrepareCommit | PrepareAbort => orders(&[0, 1]).into_iter().collect(),
    };
    TxnMetadata {
        producer_id: P,
        previous_producer_id: P,
        replaced_producer_id: ProducerId::NONE,
        next_producer_id: ProducerId::NONE,
        producer_epoch: ProducerEpoch(5),
        last_producer_epoch: ProducerEpoch(4),
        timeout_ms: 60_000,
        state,
        partitions,
        start: if state == Empty { Millis::NONE } else { Millis(T - 20) },
        last_update: Millis(T - 10),
        client_transaction_version: version,
    }
}

/// The same at another epoch, with the one before as last epoch.
pub(crate) fn txn_at(state: TransactionState, version: TransactionVersion, epoch: i16) -> TxnMetadata {
    TxnMetadata {
        producer_epoch: ProducerEpoch(epoch),
        last_producer_epoch: ProducerEpoch(epoch - 1),
        ..txn_in(state, version)
    }
}

pub(crate) fn record(id: &str, txn: TxnMetadata) -> TransactionRecord {
    TransactionRecord {
        transactional_id: TransactionalId::from(id),
        value: Some(TransactionValue { version: 1, txn }),
    }
}

pub(crate) fn init(expected: Option<(ProducerId, i16)>) -> Request {
    Request::InitProducerId(InitProducerId {
        transactional_id: TransactionalId::from(TX),
        timeout_ms: 60_000,
        expected: expected.map(|(producer_id, epoch)| ExpectedProducer {
            producer_id,
            producer_epoch: ProducerEpoch(epoch),
        }),
        enable_two_phase_commit: false,
        keep_prepared_txn: false,
        fresh_producer_id: None,
    })
}

pub(crate) fn add(
    (producer_id, epoch): (ProducerId, i16),
    partitions: &[i32],
    transaction_version: TransactionVersion,
) -> Request {
    Request::AddPartitions(AddPartitions {
        transactional_id: TransactionalId::from(TX),
        producer_id,
        producer_epoch: ProducerEpoch(epoch),
        partitions: orders(partitions),
        transaction_version,
    })
}

pub(crate) fn verify((producer_id, epoch): (ProducerId, i16), partitions: &[i32]) -> Request {
    Request::VerifyPartitions(VerifyPartitions {
        transactional_id: TransactionalId::from(TX),
        producer_id,
        producer_epoch: ProducerEpoch(epoch),
        partitions: orders(partitions),
    })
}

pub(crate) fn end(
    (producer_id, epoch): (ProducerId, i16),
    result: TransactionResult,
    transaction_version: TransactionVersion,
) -> Request {
    Request::EndTxn(EndTxn {
        transactional_id: TransactionalId::from(TX),
        producer_id,
        producer_epoch: ProducerEpoch(epoch),
        result,
        transaction_version,
        fresh_producer_id: None,
    })
}

/// News about all that is owed.
pub(crate) fn news(owed: &MarkersOwed) -> Markers {
    Markers {
        transactional_id: owed.transactional_id.clone(),
        decided_at: owed.decided_at,
        partitions: owed.partitions.clone(),
    }
}

/// The request with a fresh producer id.
pub(crate) fn with_fresh(mut request: Request) -> Request {
    match &mut request {
        Request::InitProducerId(InitProducerId { fresh_producer_id, .. })
        | Request::EndTxn(EndTxn { fresh_producer_id, .. })
        | Request::Tick { fresh_producer_id } => *fresh_producer_id = Some(FRESH),
        other => panic!("{other:?} needs no producer id"),
    }
    request
}
