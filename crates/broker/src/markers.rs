//! Writing transaction markers to partitions that this broker leads: what a WriteTxnMarkers asks for, and the entry by
//! which each marker comes, whether it is the own coordinator's or came over the wire.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_protocol::messages::WriteTxnMarkersRequest;
use fencepost_storage::MarkerAppend;
use fencepost_transaction::{MarkerAction, marker_action};
use fencepost_types::{
    CoordinatorEpoch, ErrorCode, ProducerEpoch, ProducerId, TopicName, TopicPartition, TransactionResult,
};

use crate::Broker;
use crate::cx::Cx;
use crate::waiting::Waited;

/// Gets the code once the marker is durable, or was refused.
pub(crate) type MarkerWritten = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, ErrorCode) + Send>;

/// The marker for each partition that a request names, in its order. Where its version says nothing of the transaction's
/// version, that is 0, and the older rule holds.
pub(crate) fn marker_appends(request: &WriteTxnMarkersRequest) -> Vec<(TopicPartition, MarkerAppend)> {
    let mut appends = Vec::new();
    for marker in &request.markers {
        let append = MarkerAppend {
            producer_id: ProducerId(marker.producer_id),
            producer_epoch: ProducerEpoch(marker.producer_epoch),
            result: TransactionResult::from_committed(marker.transaction_result),
            coordinator_epoch: CoordinatorEpoch(marker.coordinator_epoch),
            transaction_version: Some(marker.transaction_version),
        };
        for topic in &marker.topics {
            let topic_name = TopicName::from(topic.name.as_str());
            let names = topic.partition_indexes.iter().map(|at| TopicPartition::new(topic_name.clone(), *at));
            appends.extend(names.map(|name| (name, append)));
        }
    }
    appends
}

impl Broker {
    /// How many markers have been appended since the start: each of them by the one function below.
    pub fn markers_written(&self) -> u64 {
        self.transactions.markers_written.load(Ordering::Relaxed)
    }

    /// Writes a marker; `written` gets the code when it is durable. A partition of the offsets topic goes through its
    /// group shard, which takes the marker in with the append (`coordinator §11.4`).
    pub(crate) fn write_marker(
        self: &Arc<Self>,
        cx: &mut Cx,
        name: &TopicPartition,
        marker: MarkerAppend,
        written: MarkerWritten,
    ) {
        let appended = if let Some(cell) = self.groups.cell_of(name) {
            let partition = Arc::clone(cell.partition());
            cell.append_marker(self, cx, marker).map(|offset| (partition, offset))
        } else if let Some(partition) = self.partitions.get(name) {
            partition.append_marker(self, cx, marker).map(|offset| (partition, offset))
        } else {
            Err(ErrorCode::UnknownTopicOrPartition)
        };
        match appended {
            Err(code) => written(self, cx, code),
            Ok((partition, offset)) => {
                self.transactions.markers_written.fetch_add(1, Ordering::Relaxed);
                partition.when_high_watermark(
                    cx,
                    offset.next(),
                    Box::new(move |broker, cx, waited| match waited {
                        Waited::Reached => written(broker, cx, ErrorCode::None),
                        Waited::Gone(code) => written(broker, cx, code),
                    }),
                );
            }
        }
    }

    /// What to do about a partition after the answer to its marker. Only a topic that the metadata has seen deleted
    /// lets a marker go (`coordinator traps 34, 35`): alone, this node's metadata is the newest there is.
    pub(crate) fn marker_action(&self, name: &TopicPartition, code: ErrorCode) -> MarkerAction {
        if code == ErrorCode::UnknownTopicOrPartition
            && self.image().partition(&name.topic, name.partition.0).is_none()
        {
            return MarkerAction::NothingOwed;
        }
        marker_action(code)
    }
}

#[cfg(test)]
mod tests {
    use fencepost_transaction::{AddPartitions, EndTxn, InitProducerId, Request, TransactionalId};
    use fencepost_types::{Now, Offset, TransactionVersion};

    use super::*;
    use crate::testing::{NOW, broker, create_topic, later};

    /// Coordinator traps 34 and 35: only a topic that the metadata does not know lets a marker go. A partition that it
    /// knows and nobody serves just now is owed its marker still.
    #[test]
    fn only_a_deleted_topic_lets_a_marker_go() {
        let broker = broker();
        let partition = create_topic(&broker, "t");
        let (unknown, name) = (ErrorCode::UnknownTopicOrPartition, TopicPartition::new("t", 0));
        assert_eq!(broker.marker_action(&TopicPartition::new("gone", 0), unknown), MarkerAction::NothingOwed);
        assert_eq!(broker.marker_action(&TopicPartition::new("t", 1), unknown), MarkerAction::NothingOwed);
        assert_eq!(broker.marker_action(&name, unknown), MarkerAction::Retry);
        broker.partitions.remove_if(&name, partition.topic_id);
        assert_eq!(broker.marker_action(&name, unknown), MarkerAction::Retry);
    }

    /// Coordinator trap 17: whatever else a partition answers, the marker is owed until it is written.
    #[test]
    fn an_unexpected_answer_is_tried_again() {
        let (broker, name) = (broker(), TopicPartition::new("t", 0));
        for code in [ErrorCode::CorruptMessage, ErrorCode::UnknownServerError, ErrorCode::KafkaStorageError] {
            assert_eq!(broker.marker_action(&name, code), MarkerAction::Retry, "{code}");
        }
    }

    /// What a producer asks to commit a transaction of one partition: its id, the partition, the end.
    fn commit_of(name: &TopicPartition, producer_id: ProducerId) -> [Request; 2] {
        let transactional_id = TransactionalId::from("x");
        let producer_epoch = ProducerEpoch(0);
        let add = AddPartitions {
            transactional_id: transactional_id.clone(),
            producer_id,
            producer_epoch,
            partitions: vec![name.clone()],
            transaction_version: TransactionVersion::V2,
        };
        let end = EndTxn {
            transactional_id,
            producer_id,
            producer_epoch,
            result: TransactionResult::Commit,
            transaction_version: TransactionVersion::V2,
            fresh_producer_id: None,
        };
        [Request::AddPartitions(add), Request::EndTxn(end)]
    }

    /// Coordinator trap 35: a commit meets a partition that is there and that nobody serves. However long that lasts, its marker
    /// is owed; once the partition is served again, it gets it, and only then is the transaction complete.
    #[test]
    fn a_marker_waits_until_its_partition_is_served() {
        let broker = broker();
        let partition = create_topic(&broker, "t");
        let cell = broker.transactions.cell_for("x").unwrap();
        let ask = |now: Now, request: Request| {
            broker.enter(now, |broker, cx| {
                cell.ask(broker, cx, request, Box::new(|_, _, answer| assert!(answer.is_ok())));
            });
        };
        let init = InitProducerId {
            transactional_id: "x".into(),
            timeout_ms: 60_000,
            expected: None,
            enable_two_phase_commit: false,
            keep_prepared_txn: false,
            fresh_producer_id: Some(ProducerId(70_000)),
        };
        ask(NOW, Request::InitProducerId(init));
        let [add, end] = commit_of(&partition.name, ProducerId(70_000));
        ask(NOW, add);
        broker.partitions.remove_if(&partition.name, partition.topic_id);
        ask(NOW, end);
        let hour_ms = 3_600_000;
        for span_ms in [0, 10, 1_000, hour_ms] {
            broker.tick(later(span_ms));
            let owed = cell.read(|shard| shard.markers_owed_by("x")).expect("the marker is owed");
            assert_eq!(owed.partitions, std::slice::from_ref(&partition.name), "after {span_ms} ms");
        }
        broker.partitions.insert(Arc::clone(&partition));
        broker.tick(later(hour_ms + 1_000));
        assert_eq!(partition.log_end_offset(), Offset(1), "the marker");
        assert!(!cell.read(|shard| shard.is_completing("x")));
    }
}
