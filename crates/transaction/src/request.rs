//! What can be asked of a shard, and what it answers.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use fencepost_types::{
    Millis, Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionResult, TransactionVersion,
};

use crate::errors::Refusal;
use crate::state::{TransactionState, TransactionalId};

/// What can be asked of [`crate::TransactionShard`]. Wire versions are told apart by the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// A producer asks for its producer id and epoch, and shuts earlier instances out.
    InitProducerId(InitProducerId),
    /// Partitions join the transaction (AddPartitionsToTxn, AddOffsetsToTxn, and the implicit add of version 2).
    AddPartitions(AddPartitions),
    /// Is it so that these partitions are in the transaction?
    VerifyPartitions(VerifyPartitions),
    /// Commit or abort.
    EndTxn(EndTxn),
    /// Partition leaders have written these markers.
    MarkersWritten(Markers),
    /// These partitions' topic ids have been seen deleted, or they can hold no transaction: no marker is owed to
    /// them. That a partition has no leader, or is not in the metadata, is no reason (`coordinator traps 34, 35`).
    PartitionsDeleted(Markers),
    /// Leaders have refused these markers for good: they are not asked again before the next load
    /// (`coordinator trap 18`).
    MarkersGivenUp(Markers),
    /// One transactional id in full.
    Describe {
        /// The id asked for.
        transactional_id: TransactionalId,
    },
    /// All transactional ids that pass the filter.
    List(ListFilter),
    /// Do what is due: one thing at most. Asked again while [`fencepost_coordinator::Shard::next_deadline`] is due.
    Tick {
        /// A fresh producer id, if the last tick was refused with [`Refusal::ProducerIdNeeded`].
        fresh_producer_id: Option<ProducerId>,
    },
}

/// InitProducerId with a transactional id. Without one no shard is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InitProducerId {
    /// Whose producer id.
    pub transactional_id: TransactionalId,
    /// How long a transaction may stay open.
    pub timeout_ms: i32,
    /// The pair that the producer believes to be current, if it names one.
    pub expected: Option<ExpectedProducer>,
    /// Transactions never time out.
    pub enable_two_phase_commit: bool,
    /// Keep an open transaction (KIP-939); refused, as Kafka 4.4 does.
    pub keep_prepared_txn: bool,
    /// A fresh producer id, if the request was refused with [`Refusal::ProducerIdNeeded`] before.
    pub fresh_producer_id: Option<ProducerId>,
}

/// A producer id and epoch that a client names, both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExpectedProducer {
    /// The producer id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
}

impl ExpectedProducer {
    /// From the fields of the wire, where −1 is none. One without the other is [`Refusal::InvalidRequest`], also when
    /// there is no transactional id.
    pub fn from_wire(
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
    ) -> Result<Option<Self>, Refusal> {
        match (producer_id != ProducerId::NONE, producer_epoch != ProducerEpoch::NONE) {
            (true, true) => Ok(Some(Self { producer_id, producer_epoch })),
            (false, false) => Ok(None),
            (true, false) | (false, true) => Err(Refusal::InvalidRequest),
        }
    }
}

/// AddPartitionsToTxn, AddOffsetsToTxn, or the implicit add. The caller has checked that the partitions exist: each
/// transaction is therefore bounded by the partitions of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddPartitions {
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// The producer's id.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// What is added; none opens a transaction without partitions.
    pub partitions: Vec<TopicPartition>,
    /// V2 for AddPartitionsToTxn 4 and above and for the implicit add, V0 for a client's own request.
    pub transaction_version: TransactionVersion,
}

/// The check before a leader appends for a client of version 0 or 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VerifyPartitions {
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// The producer's id.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// What is asked about.
    pub partitions: Vec<TopicPartition>,
}

/// EndTxn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndTxn {
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// The producer's id.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// How it ends.
    pub result: TransactionResult,
    /// V2 for EndTxn 5 and above, V0 below: the version of the request alone decides.
    pub transaction_version: TransactionVersion,
    /// A fresh producer id, if the request was refused with [`Refusal::ProducerIdNeeded`] before.
    pub fresh_producer_id: Option<ProducerId>,
}

/// News about markers of one decided transaction. News of an earlier one is recognized and ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Markers {
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// Where the decision lies in the log: [`crate::MarkersOwed::decided_at`].
    pub decided_at: Offset,
    /// The partitions concerned.
    pub partitions: Vec<TopicPartition>,
}

/// Which transactional ids to list: all conditions hold together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListFilter {
    /// Only these producer ids; empty lets all pass.
    pub producer_ids: BTreeSet<ProducerId>,
    /// Only these states.
    pub states: StateFilter,
    /// Only what started more than so many milliseconds ago; below 0 lets all pass. An id without a start counts
    /// from −1, and so nearly always passes (as in Kafka).
    pub duration_ms: i64,
}

impl Default for ListFilter {
    /// Lets all pass.
    fn default() -> Self {
        Self { producer_ids: BTreeSet::new(), states: StateFilter::Any, duration_ms: -1 }
    }
}

/// Which states to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum StateFilter {
    /// All.
    #[default]
    Any,
    /// These; none is none.
    Only(BTreeSet<TransactionState>),
}

impl StateFilter {
    /// From the names of a request, together with those that are not names of states; no names let all pass. Kafka's
    /// two unwritten states are known and match nothing.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> (Self, BTreeSet<String>) {
        const NEVER_WRITTEN: [&str; 2] = ["Dead", "PrepareEpochFence"];
        let (mut states, mut unknown, mut any) = (BTreeSet::new(), BTreeSet::new(), true);
        for name in names {
            any = false;
            match TransactionState::from_name(name) {
                Some(state) => {
                    states.insert(state);
                }
                None if NEVER_WRITTEN.contains(&name) => {}
                None => {
                    unknown.insert(String::from(name));
                }
            }
        }
        (if any { Self::Any } else { Self::Only(states) }, unknown)
    }

    /// Whether `state` is let through.
    pub fn lets(&self, state: TransactionState) -> bool {
        match self {
            Self::Any => true,
            Self::Only(states) => states.contains(&state),
        }
    }
}

/// What a shard answers, once what it decided is durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// InitProducerId: the pair to use from now on.
    ProducerId {
        /// The producer id.
        producer_id: ProducerId,
        /// The epoch.
        producer_epoch: ProducerEpoch,
    },
    /// InitProducerId met an open transaction and has decided its abort. On the wire this is
    /// CONCURRENT_TRANSACTIONS; asked again after completion, the producer gets its pair.
    Fencing {
        /// The id whose transaction is completing.
        transactional_id: TransactionalId,
    },
    /// AddPartitions: all of them are in the transaction.
    PartitionsAdded,
    /// VerifyPartitions: each with whether it is in the transaction. One that is not is TRANSACTION_ABORTABLE.
    PartitionsVerified(Vec<(TopicPartition, bool)>),
    /// EndTxn: decided. The pair is that of the next transaction, which under version 2 holds once the transaction is
    /// complete (`coordinator trap 5`); below version 2 both are none.
    Ended {
        /// The producer id of the next transaction.
        producer_id: ProducerId,
        /// The epoch of the next transaction.
        producer_epoch: ProducerEpoch,
    },
    /// Markers*, PartitionsDeleted: what is left to do.
    Markers(MarkersLeft),
    /// Describe.
    Described(TransactionDescription),
    /// List.
    Listed(Vec<TransactionListing>),
    /// Tick.
    Ticked(TickOutcome),
}

/// Where a decided transaction stands after news about its markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkersLeft {
    /// The news was about another decision.
    Outdated,
    /// So many partitions still lack their marker.
    Owed(usize),
    /// The transaction is complete.
    Nothing,
}

/// What a tick did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TickOutcome {
    /// Nothing was due.
    Nothing,
    /// A decided transaction without partitions is complete.
    Completed(TransactionalId),
    /// A transaction outlived its timeout; its abort is decided.
    TimedOut(TransactionalId),
    /// So many unused transactional ids are forgotten.
    Expired(usize),
}

/// One row of DescribeTransactions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransactionDescription {
    /// The id.
    pub transactional_id: TransactionalId,
    /// Its state.
    pub state: TransactionState,
    /// How long a transaction may stay open.
    pub timeout_ms: i32,
    /// When the transaction started; [`Millis::NONE`] if never.
    pub start: Millis,
    /// The producer id.
    pub producer_id: ProducerId,
    /// The epoch.
    pub producer_epoch: ProducerEpoch,
    /// The partitions; of a decided transaction only those that still lack their marker.
    pub partitions: BTreeSet<TopicPartition>,
}

/// One row of ListTransactions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransactionListing {
    /// The id.
    pub transactional_id: TransactionalId,
    /// The producer id.
    pub producer_id: ProducerId,
    /// Its state.
    pub state: TransactionState,
}
