//! Writing one transaction marker to one partition that this broker leads: the entry that the coordinator's own
//! markers and WriteTxnMarkers share.

use std::sync::Arc;

use fencepost_storage::MarkerAppend;
use fencepost_transaction::{MarkerAction, marker_action};
use fencepost_types::{ErrorCode, TopicPartition};

use crate::Broker;
use crate::cx::Cx;
use crate::waiting::Waited;

/// Gets the code once the marker is durable, or was refused.
pub(crate) type MarkerWritten = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, ErrorCode) + Send>;

impl Broker {
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
            Ok((partition, offset)) => partition.when_high_watermark(
                cx,
                offset.next(),
                Box::new(move |broker, cx, waited| match waited {
                    Waited::Reached => written(broker, cx, ErrorCode::None),
                    Waited::Gone(code) => written(broker, cx, code),
                }),
            ),
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
