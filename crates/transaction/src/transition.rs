//! The images that transitions lead to, and what each of them must keep.
//!
//! Source: Kafka TransactionMetadata.prepareXxx and completeTransitionTo.

use alloc::collections::BTreeSet;

use fencepost_types::{
    Millis, ProducerEpoch, ProducerId, TopicPartition, TransactionResult, TransactionVersion,
};

use crate::state::{LAST_CLIENT_EPOCH, TransactionState, TxnMetadata};

impl TxnMetadata {
    /// A new transactional id with the producer id that it was given.
    pub(crate) fn new(
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        timeout_ms: i32,
        now: Millis,
    ) -> Self {
        Self {
            producer_id,
            previous_producer_id: producer_id,
            replaced_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            producer_epoch,
            last_producer_epoch: ProducerEpoch::NONE,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            start: Millis::NONE,
            last_update: now,
            client_transaction_version: TransactionVersion::V0,
        }
    }

    /// What every transition does: the time moves on, and the producer id becomes the previous one.
    fn next(&self, state: TransactionState, now: Millis) -> Self {
        Self { state, previous_producer_id: self.producer_id, last_update: now, ..self.clone() }
    }

    /// The producer id before `producer_id`, once that is the current one.
    fn replaced_by(&self, producer_id: ProducerId) -> ProducerId {
        if producer_id == self.producer_id { self.replaced_producer_id } else { self.producer_id }
    }

    /// Empty, after InitProducerId.
    pub(crate) fn initialized(
        &self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        last_producer_epoch: ProducerEpoch,
        timeout_ms: i32,
        now: Millis,
    ) -> Self {
        Self {
            producer_id,
            producer_epoch,
            last_producer_epoch,
            timeout_ms,
            replaced_producer_id: self.replaced_by(producer_id),
            next_producer_id: ProducerId::NONE,
            partitions: BTreeSet::new(),
            start: Millis::NONE,
            ..self.next(TransactionState::Empty, now)
        }
    }

    /// Ongoing, with `partitions` added.
    pub(crate) fn with_partitions(
        &self,
        partitions: &[TopicPartition],
        version: TransactionVersion,
        now: Millis,
    ) -> Self {
        let is_open = self.state == TransactionState::Ongoing;
        let mut next = self.next(TransactionState::Ongoing, now);
        next.partitions.extend(partitions.iter().cloned());
        next.start = if is_open { self.start } else { now };
        next.next_producer_id = ProducerId::NONE;
        next.client_transaction_version = version;
        next
    }

    /// Prepare* under version 0 or 1: the epoch stays.
    pub(crate) fn prepared(&self, result: TransactionResult, now: Millis) -> Self {
        Self {
            next_producer_id: ProducerId::NONE,
            client_transaction_version: TransactionVersion::V0,
            ..self.next(TransactionState::prepared(result), now)
        }
    }

    /// PrepareAbort under version 0 or 1, started by the coordinator: the epoch rises once, to shut the old
    /// instance out. Epoch 32767 stays.
    pub(crate) fn fenced(&self, now: Millis) -> Self {
        Self {
            producer_epoch: self.producer_epoch.next().unwrap_or(ProducerEpoch::MAX),
            last_producer_epoch: ProducerEpoch::NONE,
            ..self.prepared(TransactionResult::Abort, now)
        }
    }

    /// Prepare* under version 2: the epoch rises once, whoever asked (`coordinator trap 6`); an exhausted one brings
    /// `next_producer_id` with it. A transaction that starts here (an empty abort) starts `now`
    /// (`coordinator trap 13`).
    pub(crate) fn prepared_with_bump(
        &self,
        result: TransactionResult,
        next_producer_id: ProducerId,
        now: Millis,
    ) -> Self {
        let is_open = self.state == TransactionState::Ongoing;
        Self {
            next_producer_id,
            producer_epoch: self.producer_epoch.next().unwrap_or(ProducerEpoch::MAX),
            last_producer_epoch: self.producer_epoch.min(LAST_CLIENT_EPOCH),
            start: if is_open { self.start } else { now },
            client_transaction_version: TransactionVersion::V2,
            ..self.next(TransactionState::prepared(result), now)
        }
    }

    /// Complete*: what a Prepare* becomes when no marker is owed any more. An exhausted producer id gives way here.
    ///
    /// # Panics
    /// When nothing is decided: that is our own mistake.
    pub(crate) fn completed(&self, now: Millis) -> Self {
        let Some(result) = self.state.completing() else { panic!("{} cannot be completed", self.state) };
        let rotates =
            self.client_transaction_version.bumps_epoch() && self.next_producer_id != ProducerId::NONE;
        let producer_id = if rotates { self.next_producer_id } else { self.producer_id };
        Self {
            producer_id,
            replaced_producer_id: self.replaced_by(producer_id),
            producer_epoch: if rotates { ProducerEpoch(0) } else { self.producer_epoch },
            next_producer_id: ProducerId::NONE,
            partitions: BTreeSet::new(),
            ..self.next(TransactionState::completed(result), now)
        }
    }

    /// Asserts that our own decision may follow `before`. Records that are only loaded are not asked this: what
    /// another broker wrote is taken as it is.
    ///
    /// Source: Kafka TransactionMetadata.completeTransitionTo.
    pub(crate) fn assert_follows(&self, before: &Self) {
        let version = self.client_transaction_version;
        assert!(
            self.state.allowed_from(version).contains(&before.state),
            "{} cannot follow {}: {self:?} after {before:?}",
            self.state,
            before.state
        );
        let is_same_producer =
            self.producer_id == before.producer_id && self.producer_epoch == before.producer_epoch;
        let is_kept = match self.state {
            TransactionState::Empty => {
                let rises = self.producer_id == before.producer_id
                    && before.producer_epoch.next() == Some(self.producer_epoch);
                let begins = self.producer_epoch == ProducerEpoch(0)
                    && (self.producer_id != before.producer_id || before.producer_epoch < ProducerEpoch(0));
                (is_same_producer || rises || begins)
                    && self.partitions.is_empty()
                    && self.start == Millis::NONE
            }
            TransactionState::Ongoing => {
                is_same_producer
                    && self.timeout_ms == before.timeout_ms
                    && self.partitions.is_superset(&before.partitions)
            }
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                let epoch_is_right = match version.bumps_epoch() {
                    true => self.producer_epoch == before.producer_epoch.next().unwrap_or(ProducerEpoch::MAX),
                    false => self.producer_epoch >= before.producer_epoch,
                };
                self.producer_id == before.producer_id
                    && epoch_is_right
                    && self.timeout_ms == before.timeout_ms
                    && self.partitions == before.partitions
                    && (self.start == before.start || before.state != TransactionState::Ongoing)
            }
            TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                let rotates =
                    self.producer_id == before.next_producer_id && self.producer_epoch == ProducerEpoch(0);
                (is_same_producer || rotates)
                    && self.previous_producer_id == before.producer_id
                    && self.last_producer_epoch == before.last_producer_epoch
                    && self.timeout_ms == before.timeout_ms
                    && self.start == before.start
            }
        };
        let remembers = self.replaced_producer_id == before.replaced_by(self.producer_id);
        assert!(is_kept && remembers, "a transition lost something: {self:?} after {before:?}");
    }
}
