//! One partition of `__transaction_state`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, LogPosition, Shard, Token};
use fencepost_types::{Deadline, Millis, Nanos, Now, Offset, ProducerEpoch, ProducerId, TransactionVersion};

use crate::errors::Refusal;
use crate::index::Index;
use crate::markers::{MarkerProgress, Progress};
use crate::record::{TransactionRecord, TransactionValue, value_version};
use crate::request::{Reply, Request};
use crate::state::{TransactionState, TransactionalId, TxnMetadata};
use crate::timeouts::{Timeouts, is_same_open_transaction};

/// What a decision of this shard is.
pub(crate) type Outcome = Result<Decision<TransactionRecord, Soft, Reply>, Refusal>;

/// What a decision changes beside the log, gone with the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Soft {
    /// News about markers.
    Markers(MarkerProgress),
    /// A transaction has been opened now: its time runs.
    Opened(TransactionalId),
}

/// Due whatever the clock shows.
const AT_ONCE: Nanos = Nanos(0);

/// The settings that rules of this crate read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardConfig {
    /// The finalized level of `transaction.version`: the form of records, and the version of aborts that the
    /// coordinator starts itself. Requests bring their own.
    pub transaction_version: TransactionVersion,
    /// `transaction.max.timeout.ms`: the largest timeout that InitProducerId may ask for.
    pub transaction_max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`: how long an unused id is remembered.
    pub transactional_id_expiration_ms: i64,
    /// `transaction.two.phase.commit.enable`.
    pub two_phase_commit_enable: bool,
    /// `fencepost.test.initial.producer.epoch`: what new ids begin with, 0 but in tests that want to reach the last
    /// epoch. After a rotation it is 0 always.
    pub initial_producer_epoch: ProducerEpoch,
}

impl Default for ShardConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            transaction_version: TransactionVersion::V2,
            transaction_max_timeout_ms: 900_000,
            transactional_id_expiration_ms: 604_800_000,
            two_phase_commit_enable: false,
            initial_producer_epoch: ProducerEpoch(0),
        }
    }
}

/// The coordinator of the transactional ids of one partition of `__transaction_state`. See the page of this crate.
///
/// Source: Kafka TransactionCoordinator, TransactionStateManager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransactionShard {
    pub(crate) config: ShardConfig,
    /// What the log says.
    pub(crate) entries: BTreeMap<TransactionalId, Entry>,
    /// `entries` in other orders.
    pub(crate) index: Index,
    /// What partition leaders have said about markers since the decision or the load. Not in the log.
    pub(crate) progress: BTreeMap<TransactionalId, Progress>,
    /// When open transactions time out. Not in the log: there the wall clock's time of their start is.
    pub(crate) timeouts: Timeouts,
}

/// The newest record of one id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) txn: TxnMetadata,
    /// Where it lies.
    pub(crate) offset: Offset,
    /// The version of its value: one of version 0 holds less than `txn`.
    pub(crate) value_version: i16,
}

impl TransactionShard {
    /// A shard that knows nothing yet: replay its log into it.
    pub fn new(config: ShardConfig) -> Self {
        Self {
            config,
            entries: BTreeMap::new(),
            index: Index::default(),
            progress: BTreeMap::new(),
            timeouts: Timeouts::default(),
        }
    }

    /// Takes over changed settings.
    pub fn set_config(&mut self, config: ShardConfig) {
        self.config = config;
    }

    /// The settings in force.
    pub fn config(&self) -> &ShardConfig {
        &self.config
    }

    /// What is known of `transactional_id`.
    pub fn get(&self, transactional_id: &str) -> Option<&TxnMetadata> {
        self.entries.get(transactional_id).map(|entry| &entry.txn)
    }

    /// All transactional ids, in their order.
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = (&TransactionalId, &TxnMetadata)> {
        self.entries.iter().map(|(id, entry)| (id, &entry.txn))
    }

    /// What a load of the log would give, in the same order (X1): records of version 0 hold less.
    pub fn as_loaded(&self) -> impl Iterator<Item = (&TransactionalId, TxnMetadata)> {
        self.entries.iter().map(|(id, entry)| {
            let is_whole = entry.value_version > 0;
            (id, if is_whole { entry.txn.clone() } else { entry.txn.as_version_0() })
        })
    }

    /// Whether the transaction of `transactional_id` is decided and not yet complete: requests that were refused
    /// with [`Refusal::Completing`] are worth another try once this is false.
    pub fn is_completing(&self, transactional_id: &str) -> bool {
        self.get(transactional_id).is_some_and(|txn| txn.state.completing().is_some())
    }

    /// Looks up an id that a request names.
    pub(crate) fn lookup(&self, transactional_id: &TransactionalId) -> Result<&TxnMetadata, Refusal> {
        if transactional_id.is_empty() {
            return Err(Refusal::InvalidRequest);
        }
        self.get(transactional_id).ok_or(Refusal::UnknownTransactionalId)
    }

    /// Refuses while the transaction is completing.
    pub(crate) fn refuse_completing(
        &self,
        transactional_id: &TransactionalId,
        txn: &TxnMetadata,
    ) -> Result<(), Refusal> {
        match txn.state.completing() {
            None => Ok(()),
            Some(_) => Err(Refusal::Completing {
                transactional_id: transactional_id.clone(),
                is_given_up: self.is_given_up(transactional_id),
            }),
        }
    }

    /// A decision that writes `after` and then answers. Asserts that it may follow what is there (X2 to X4).
    pub(crate) fn write(
        &self,
        transactional_id: &TransactionalId,
        after: TxnMetadata,
        token: Token,
        reply: Reply,
    ) -> Outcome {
        match self.get(transactional_id) {
            Some(before) => after.assert_follows(before),
            None => assert_eq!(after.state, TransactionState::Empty, "an id begins with InitProducerId"),
        }
        let version = value_version(self.config.transaction_version, &after);
        let record = TransactionRecord {
            transactional_id: transactional_id.clone(),
            value: Some(TransactionValue { version, txn: after }),
        };
        Ok(Decision::write(Vec::from([record]), token, reply))
    }
}

/// Refuses a producer id other than the current one.
pub(crate) fn refuse_other_producer(txn: &TxnMetadata, given: ProducerId) -> Result<(), Refusal> {
    if given == txn.producer_id {
        Ok(())
    } else {
        Err(Refusal::ProducerIdMapping { given, current: txn.producer_id })
    }
}

/// Refuses the holder of the producer id that the current one took over from: an older instance, fenced like one at an
/// older epoch. For version 2, whose clients end there on it; below it such a holder is a stranger, as with
/// Kafka.
pub(crate) fn refuse_replaced_producer(
    txn: &TxnMetadata,
    given: ProducerId,
    given_epoch: ProducerEpoch,
    version: TransactionVersion,
) -> Result<(), Refusal> {
    let is_replaced = given == txn.replaced_producer_id && given > ProducerId::NONE;
    if version.bumps_epoch() && is_replaced { Err(fenced(txn, given_epoch)) } else { Ok(()) }
}

/// Refuses an epoch other than the current one, above or below; none never matches (`coordinator trap 28`).
pub(crate) fn refuse_other_epoch(txn: &TxnMetadata, given: ProducerEpoch) -> Result<(), Refusal> {
    if given == txn.producer_epoch && given > ProducerEpoch::NONE { Ok(()) } else { Err(fenced(txn, given)) }
}

/// The refusal of an epoch.
pub(crate) fn fenced(txn: &TxnMetadata, given: ProducerEpoch) -> Refusal {
    Refusal::ProducerFenced { given, current: txn.producer_epoch }
}

/// The fresh producer id that a rotation needs. One that is in use here already is as good as none.
pub(crate) fn fresh_producer_id(
    txn: Option<&TxnMetadata>,
    fresh: Option<ProducerId>,
) -> Result<ProducerId, Refusal> {
    fresh
        .filter(|fresh| *fresh > ProducerId::NONE && txn.is_none_or(|txn| txn.producer_id != *fresh))
        .ok_or(Refusal::ProducerIdNeeded)
}

impl Shard for TransactionShard {
    type Request = Request;
    type Record = TransactionRecord;
    type Soft = Soft;
    type Reply = Reply;
    type Refusal = Refusal;

    fn decide(&self, now: Now, token: Token, request: &Request) -> Outcome {
        match request {
            Request::InitProducerId(request) => self.decide_init_producer_id(now, token, request),
            Request::AddPartitions(request) => self.decide_add_partitions(now, token, request),
            Request::VerifyPartitions(request) => self.decide_verify_partitions(token, request),
            Request::EndTxn(request) => self.decide_end_txn(now, token, request),
            Request::MarkersWritten(markers) | Request::PartitionsDeleted(markers) => {
                self.decide_markers_settled(now, token, markers)
            }
            Request::MarkersGivenUp(markers) => self.decide_markers_given_up(token, markers),
            Request::Describe { transactional_id } => self.decide_describe(token, transactional_id),
            Request::List(filter) => self.decide_list(now, token, filter),
            Request::Tick { fresh_producer_id } => self.decide_tick(now, token, *fresh_producer_id),
        }
    }

    fn replay(&mut self, at: LogPosition, record: &TransactionRecord) {
        let id = &record.transactional_id;
        let old = self.entries.remove(id);
        if let Some(old) = &old {
            self.index.remove(id, &old.txn);
            if !record.value.as_ref().is_some_and(|new| is_same_open_transaction(&old.txn, &new.txn)) {
                self.timeouts.remove(id);
            }
        }
        if let Some(TransactionValue { version, txn }) = &record.value {
            self.index.insert(id, txn);
            let entry = Entry { txn: txn.clone(), offset: at.offset, value_version: *version };
            self.entries.insert(id.clone(), entry);
        }
    }

    fn absorb(&mut self, now: Now, soft: Soft) {
        match soft {
            Soft::Markers(news) => self.absorb_progress(news),
            Soft::Opened(id) => self.start_timeout(now, &id),
        }
    }

    fn loaded(&mut self, now: Now) {
        let open = self.entries.iter().filter(|(_, entry)| entry.txn.state == TransactionState::Ongoing);
        let open: Vec<TransactionalId> = open.map(|(id, _)| id.clone()).collect();
        open.iter().for_each(|id| self.start_timeout(now, id));
    }

    fn next_deadline(&self) -> Option<Deadline> {
        if self.index.first_without_partitions().is_some() {
            return Some(Deadline::Mono(AT_ONCE));
        }
        let expiry = self.index.next_expiry(self.config.transactional_id_expiration_ms);
        match (expiry, self.timeouts.next()) {
            (Some(wall), Some(mono)) => Some(Deadline::Either { wall, mono }),
            (Some(wall), None) => Some(Deadline::Wall(wall)),
            (None, timeout) => timeout.map(Deadline::Mono),
        }
    }

    fn tick() -> Request {
        Request::Tick { fresh_producer_id: None }
    }

    fn check(&self) {
        self.check_entries();
        self.check_progress();
        self.check_timeouts();
    }
}

impl TransactionShard {
    fn check_entries(&self) {
        let mut index = Index::default();
        let mut producer_ids = BTreeSet::new();
        for (id, Entry { txn, .. }) in &self.entries {
            index.insert(id, txn);
            assert!(producer_ids.insert(txn.producer_id), "X2: {id} shares producer id {}", txn.producer_id);
            if txn.next_producer_id != ProducerId::NONE {
                assert!(producer_ids.insert(txn.next_producer_id), "X2: {id} shares its next producer id");
                assert!(
                    txn.state.completing().is_some(),
                    "a next producer id is for completing only: {txn:?}"
                );
            }
            match txn.state {
                TransactionState::Empty => {
                    assert!(txn.partitions.is_empty() && txn.start == Millis::NONE, "{id}: {txn:?}");
                }
                TransactionState::Ongoing
                | TransactionState::PrepareCommit
                | TransactionState::PrepareAbort => {
                    assert!(txn.start != Millis::NONE, "{id} is open since no time: {txn:?}");
                }
                TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                    assert!(txn.partitions.is_empty() && txn.start != Millis::NONE, "{id}: {txn:?}");
                }
            }
        }
        assert_eq!(index, self.index, "the index is the entries in another order");
    }
}

#[cfg(test)]
mod tests;
