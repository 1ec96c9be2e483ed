use fencepost_types::ErrorCode;

use super::*;

/// §2.2: InitProducerId knows PRODUCER_FENCED from version 4, the others from 2 (KIP-588). Other codes stay.
#[test]
fn old_versions_know_no_producer_fenced() {
    use CoordinatorApi::*;
    for (api, first) in [(InitProducerId, 4), (AddPartitionsToTxn, 2), (AddOffsetsToTxn, 2), (EndTxn, 2)] {
        for version in 0..6 {
            let expected =
                if version < first { ErrorCode::InvalidProducerEpoch } else { ErrorCode::ProducerFenced };
            assert_eq!(code_for_version(api, version, ErrorCode::ProducerFenced), expected);
            let other = ErrorCode::InvalidProducerIdMapping;
            assert_eq!(code_for_version(api, version, other), other);
        }
    }
}

/// producer-state §6.4, by the version of each request by itself (coordinator trap 23).
#[test]
fn produce_hears_of_the_verification_by_its_version() {
    use ErrorCode::*;
    for code in [CoordinatorNotAvailable, NotCoordinator, CoordinatorLoadInProgress, NetworkException] {
        assert!([3, 11, 12].map(|version| produce_code(version, code)) == [NotEnoughReplicas; 3]);
    }
    let by_version = |code| [10, 11, 12].map(|version| produce_code(version, code));
    assert_eq!(
        by_version(ConcurrentTransactions),
        [NotEnoughReplicas, NotEnoughReplicas, ConcurrentTransactions]
    );
    assert_eq!(
        by_version(TransactionAbortable),
        [InvalidTxnState, TransactionAbortable, TransactionAbortable]
    );
    assert_eq!(by_version(ProducerFenced), [InvalidProducerEpoch; 3]);
    for code in [InvalidProducerIdMapping, InvalidTxnState, None] {
        assert_eq!(by_version(code), [code; 3]);
    }
}

/// §11.2, and COORDINATOR_LOAD_IN_PROGRESS that versions 0 and 1 crash on (§11.1).
#[test]
fn txn_offset_commit_hears_of_the_verification_by_its_version() {
    use ErrorCode::*;
    let by_version = |code| [1, 3, 4, 5].map(|version| txn_offset_commit_code(version, code));
    assert_eq!(
        by_version(TransactionAbortable),
        [InvalidTxnState, InvalidTxnState, TransactionAbortable, TransactionAbortable]
    );
    let load = CoordinatorLoadInProgress;
    assert_eq!(by_version(NetworkException), [CoordinatorNotAvailable, load, load, load]);
    assert_eq!(by_version(load), [CoordinatorNotAvailable, load, load, load]);
    assert_eq!(by_version(ProducerFenced), [InvalidProducerEpoch; 4]);
    for (expected, codes) in [
        (CoordinatorNotAvailable, &[UnknownTopicOrPartition, NotEnoughReplicas, RequestTimedOut][..]),
        (NotCoordinator, &[NotLeaderOrFollower, KafkaStorageError]),
        (UnknownServerError, &[MessageTooLarge, RecordListTooLarge, InvalidFetchSize]),
    ] {
        for code in codes {
            assert_eq!(by_version(*code), [expected; 4], "{code}");
        }
    }
    for code in
        [InvalidProducerEpoch, InvalidProducerIdMapping, ConcurrentTransactions, InvalidTxnState, None]
    {
        assert_eq!(by_version(code), [code; 4], "{code}");
    }
}

/// §5: what a failed append to the transaction log is to the one who asked (coordinator trap 29: it may yet be
/// replicated, so retriable failures say that the coordinator is not available).
#[test]
fn failed_appends_have_codes_of_their_own() {
    use ErrorCode::*;
    for (log, client) in [
        (UnknownTopicOrPartition, CoordinatorNotAvailable),
        (NotEnoughReplicas, CoordinatorNotAvailable),
        (NotEnoughReplicasAfterAppend, CoordinatorNotAvailable),
        (RequestTimedOut, CoordinatorNotAvailable),
        (NotLeaderOrFollower, NotCoordinator),
        (KafkaStorageError, NotCoordinator),
        (MessageTooLarge, UnknownServerError),
        (RecordListTooLarge, UnknownServerError),
        (NotCoordinator, NotCoordinator),
    ] {
        assert_eq!(append_code(log), client);
    }
}

/// §10.3: which answers to a marker settle it, end it, or ask for another try; a code that no leader should send is
/// of the last kind and harms nothing (coordinator trap 17).
#[test]
fn every_answer_to_a_marker_has_an_action() {
    use ErrorCode::*;
    let expected = |code| match code {
        None => MarkerAction::Written,
        UnsupportedForMessageFormat | UnsupportedVersion => MarkerAction::NothingOwed,
        InvalidProducerEpoch | TransactionCoordinatorFenced => MarkerAction::GiveUp,
        _other => MarkerAction::Retry,
    };
    for code in ErrorCode::ALL {
        assert_eq!(marker_action(*code), expected(*code), "{code}");
    }
    for code in [
        UnknownTopicOrPartition,
        NotLeaderOrFollower,
        NotEnoughReplicas,
        NotEnoughReplicasAfterAppend,
        RequestTimedOut,
        KafkaStorageError,
        CorruptMessage,
        MessageTooLarge,
    ] {
        assert_eq!(marker_action(code), MarkerAction::Retry, "{code}");
    }
}
