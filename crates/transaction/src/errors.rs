//! Why a shard refuses, and the tables by which codes change on their way to a client.

use fencepost_types::{ErrorCode, ProducerEpoch, ProducerId, TransactionResult};

use crate::state::{TransactionState, TransactionalId};

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The transaction is decided and not yet complete: worth another try once it is.
    Completing {
        /// Whose transaction.
        transactional_id: TransactionalId,
        /// A marker has been given up, so it will not complete before the next load: waiting is no use.
        is_given_up: bool,
    },
    /// A fresh producer id is needed: ask again with one. When there is none, this is what the client is told.
    ProducerIdNeeded,
    /// An empty transactional id, or half of an expected pair.
    InvalidRequest,
    /// No such transactional id (any more).
    UnknownTransactionalId,
    /// No such transactional id, to be described.
    NothingToDescribe,
    /// The producer id is not that of the transactional id.
    ProducerIdMapping {
        /// The one in the request.
        given: ProducerId,
        /// The current one.
        current: ProducerId,
    },
    /// Another instance of the producer, or the coordinator, has moved the epoch on; or the producer is ahead of it.
    ProducerFenced {
        /// The epoch in the request.
        given: ProducerEpoch,
        /// The current one.
        current: ProducerEpoch,
    },
    /// The transaction cannot end like this from where it stands.
    InvalidTxnState {
        /// Where it stands.
        state: TransactionState,
        /// What was asked for.
        result: TransactionResult,
    },
    /// The timeout is not above 0, or above the broker's limit.
    InvalidTimeout {
        /// The one in the request.
        timeout_ms: i32,
        /// The largest one.
        timeout_ms_max: i32,
    },
    /// Two-phase commit is not enabled.
    TwoPhaseCommitDisabled,
    /// Keeping a prepared transaction is not supported.
    KeepPreparedUnsupported,
}

impl fencepost_coordinator::Refusal for Refusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Completing { .. } => ErrorCode::ConcurrentTransactions,
            // Old clients take a timeout for fatal, and this for a reason to come again.
            Self::ProducerIdNeeded => ErrorCode::CoordinatorLoadInProgress,
            Self::InvalidRequest => ErrorCode::InvalidRequest,
            Self::UnknownTransactionalId | Self::ProducerIdMapping { .. } => {
                ErrorCode::InvalidProducerIdMapping
            }
            Self::NothingToDescribe => ErrorCode::TransactionalIdNotFound,
            Self::ProducerFenced { .. } => ErrorCode::ProducerFenced,
            Self::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
            Self::InvalidTimeout { .. } => ErrorCode::InvalidTransactionTimeout,
            Self::TwoPhaseCommitDisabled => ErrorCode::TransactionalIdAuthorizationFailed,
            Self::KeepPreparedUnsupported => ErrorCode::UnsupportedVersion,
        }
    }
}

/// The APIs that answer with a coordinator's own codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoordinatorApi {
    /// InitProducerId.
    InitProducerId,
    /// AddPartitionsToTxn.
    AddPartitionsToTxn,
    /// AddOffsetsToTxn.
    AddOffsetsToTxn,
    /// EndTxn.
    EndTxn,
}

/// The code that `version` of `api` knows for `code`. Source: KIP-588.
pub fn code_for_version(api: CoordinatorApi, version: i16, code: ErrorCode) -> ErrorCode {
    let fenced_from = match api {
        CoordinatorApi::InitProducerId => 4,
        CoordinatorApi::AddPartitionsToTxn | CoordinatorApi::AddOffsetsToTxn | CoordinatorApi::EndTxn => 2,
    };
    if code == ErrorCode::ProducerFenced && version < fenced_from {
        ErrorCode::InvalidProducerEpoch
    } else {
        code
    }
}

/// The code that a Produce of `version` is answered when the verification or the add of its partition ended in `code`.
/// Each waiting request has its own version (`coordinator trap 23`).
///
/// Source: KIP-890, Kafka ReplicaManager (`producer-state §6.4`).
pub fn produce_code(version: i16, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::NetworkException => ErrorCode::NotEnoughReplicas,
        ErrorCode::ConcurrentTransactions if version <= 11 => ErrorCode::NotEnoughReplicas,
        ErrorCode::TransactionAbortable if version <= 10 => ErrorCode::InvalidTxnState,
        code => code,
    }
}

/// The code that a TxnOffsetCommit of `version` is answered when the verification or the add of its offsets partition,
/// or the append, ended in `code`.
///
/// Source: KIP-890, KIP-447 (`coordinator §11.1, §11.2`).
pub fn txn_offset_commit_code(version: i16, code: ErrorCode) -> ErrorCode {
    let code = match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::NetworkException => ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::UnknownTopicOrPartition | ErrorCode::NotEnoughReplicas | ErrorCode::RequestTimedOut => {
            ErrorCode::CoordinatorNotAvailable
        }
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
            ErrorCode::UnknownServerError
        }
        code => code,
    };
    match code {
        ErrorCode::TransactionAbortable if version <= 3 => ErrorCode::InvalidTxnState,
        ErrorCode::CoordinatorLoadInProgress if version <= 1 => ErrorCode::CoordinatorNotAvailable,
        code => code,
    }
}

/// The code for a request whose record could not be appended to the transaction log because of `code`.
///
/// Source: Kafka TransactionStateManager.appendTransactionToLog.
pub fn append_code(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
        code => code,
    }
}

/// What to do about a partition after its leader's answer to a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkerAction {
    /// Written: [`crate::Request::MarkersWritten`].
    Written,
    /// It can hold no transaction: [`crate::Request::PartitionsDeleted`].
    NothingOwed,
    /// Find the leader again, and try again after a bounded back-off.
    Retry,
    /// Refused for good: [`crate::Request::MarkersGivenUp`].
    GiveUp,
}

/// What to do about a partition whose leader answered `code` to a marker. A code that no leader should send is tried
/// again; Kafka's process ends on it (`coordinator trap 17`).
///
/// Source: Kafka TransactionMarkerRequestCompletionHandler.
pub fn marker_action(code: ErrorCode) -> MarkerAction {
    match code {
        ErrorCode::None => MarkerAction::Written,
        ErrorCode::UnsupportedForMessageFormat | ErrorCode::UnsupportedVersion => MarkerAction::NothingOwed,
        ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced => MarkerAction::GiveUp,
        _other => MarkerAction::Retry,
    }
}

#[cfg(test)]
mod tests;
