//! The markers of a transaction in the words in which the leader of their partitions is asked for them: a
//! WriteTxnMarkers of the version that both sides speak. A leader in this process gets the same words, unencoded.

use std::ops::RangeInclusive;

use fencepost_protocol::messages::WriteTxnMarkersRequest;
use fencepost_protocol::messages::write_txn_markers_request::{Markers, Topics};
use fencepost_transaction::MarkersOwed;
use fencepost_types::{CoordinatorEpoch, TransactionResult};

/// From this version on a marker says by which transaction version it is to be judged (KIP-1228).
const TRANSACTION_VERSION_FROM: i16 = 2;

/// The version to ask in, of a leader whose ApiVersions show `spoken`; `None` where there is none in common.
///
/// Source: KAFKA-20322: a version that the leader does not know would never be answered.
pub(crate) fn version_for(spoken: &RangeInclusive<i16>) -> Option<i16> {
    let ours = WriteTxnMarkersRequest::VERSION_MIN..=WriteTxnMarkersRequest::VERSION_MAX;
    ours.rev().find(|version| spoken.contains(version))
}

/// The request for what is owed, as `version` has it. Version 1 says nothing of the transaction's version: its leader
/// judges by the older rule, which takes the raised epoch of a version 2 marker as well.
pub(crate) fn request(
    owed: &MarkersOwed,
    coordinator_epoch: CoordinatorEpoch,
    version: i16,
) -> WriteTxnMarkersRequest {
    let says_version = version >= TRANSACTION_VERSION_FROM;
    let mut topics: Vec<Topics> = Vec::new();
    for name in &owed.partitions {
        if topics.last().is_none_or(|topic| *topic.name != *name.topic) {
            topics.push(Topics { name: name.topic.to_string(), partition_indexes: Vec::new() });
        }
        if let Some(topic) = topics.last_mut() {
            topic.partition_indexes.push(name.partition.0);
        }
    }
    let marker = Markers {
        producer_id: owed.producer_id.0,
        producer_epoch: owed.producer_epoch.0,
        transaction_result: owed.result == TransactionResult::Commit,
        topics,
        coordinator_epoch: coordinator_epoch.0,
        transaction_version: if says_version { owed.transaction_version.level() as i8 } else { 0 },
    };
    WriteTxnMarkersRequest { markers: vec![marker] }
}

#[cfg(test)]
mod tests {
    use fencepost_protocol::encode_request;
    use fencepost_protocol::{ApiKey, RequestBody, RequestHeader};
    use fencepost_types::wire::Reader;
    use fencepost_types::{Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionVersion};

    use super::*;
    use crate::markers::marker_appends;

    fn owed(transaction_version: TransactionVersion) -> MarkersOwed {
        MarkersOwed {
            transactional_id: "x".into(),
            decided_at: Offset(5),
            producer_id: ProducerId(7),
            producer_epoch: ProducerEpoch(3),
            result: TransactionResult::Abort,
            transaction_version,
            partitions: vec![
                TopicPartition::new("t", 0),
                TopicPartition::new("t", 4),
                TopicPartition::new("u", 1),
            ],
        }
    }

    /// Coordinator trap 20, KAFKA-20322: the highest version that both speak, whatever else the leader has; none where they have none.
    #[test]
    fn the_version_is_the_leaders() {
        for (spoken, version) in [
            (1..=2, Some(2)),
            (0..=1, Some(1)),
            (1..=1, Some(1)),
            (2..=2, Some(2)),
            (2..=7, Some(2)),
            (0..=0, None),
            (3..=4, None),
        ] {
            assert_eq!(version_for(&spoken), version, "{spoken:?}");
        }
    }

    /// Coordinator trap 20: what a leader of either version reads in the frame. Only version 2 says by which rule; at
    /// version 1 the marker of a version 2 transaction has its raised epoch and no version, so the older rule judges it.
    #[test]
    fn what_a_leader_reads() {
        for transaction_version in [TransactionVersion::V0, TransactionVersion::V2] {
            for version in [1, 2] {
                let owed = owed(transaction_version);
                let sent = request(&owed, CoordinatorEpoch(9), version);
                let frame = encode_request(1, Some("broker"), version, &sent).into_bytes();
                let mut reader = Reader::new(frame);
                let header = RequestHeader::decode(&mut reader).unwrap();
                assert_eq!(header.api_key(), Some(ApiKey::WriteTxnMarkers));
                let body = RequestBody::decode(ApiKey::WriteTxnMarkers, header.api_version, &mut reader);
                let Ok(RequestBody::WriteTxnMarkers(read)) = body else { panic!("{body:?}") };
                assert_eq!(read, sent, "a field that the version lacks was filled");
                let level = if version == 1 { 0 } else { transaction_version.level() as i8 };
                let appends = marker_appends(&read);
                let names: Vec<_> = appends.iter().map(|(name, _)| name.clone()).collect();
                assert_eq!(names, owed.partitions);
                for (_, append) in appends {
                    assert_eq!(append.transaction_version, Some(level), "{transaction_version:?}, {version}");
                    assert_eq!(
                        (append.producer_id, append.producer_epoch),
                        (ProducerId(7), ProducerEpoch(3))
                    );
                    assert_eq!(append.coordinator_epoch, CoordinatorEpoch(9));
                    assert_eq!(append.result, TransactionResult::Abort);
                }
            }
        }
    }
}
