//! The embedded controller: its shard runs over the metadata log like any other, and what its log says becomes the
//! image in force once it is durable.

use std::sync::Arc;

use bytes::Bytes;
use fencepost_metadata::{Controller, VersionedRecord, features, quorum};
use fencepost_records::{Batch, BatchBuilder, ControlRecordType};
use fencepost_types::wire::Writer;
use fencepost_types::{BrokerId, ErrorCode, LeaderEpoch, Now, Offset, Sequence};

use crate::Broker;
use crate::cx::{Cx, Task};
use crate::partition::CoordinatorAppend;
use crate::runtime::{HostedShard, ShardCell};

/// The controller with the metadata log.
pub(crate) type ControllerCell = ShardCell<Controller>;

/// Version of the control records that we write.
const CONTROL_VERSION: i16 = 0;

impl HostedShard for Controller {
    // The metadata log's batches carry no sequence.
    const BASE_SEQUENCE: Sequence = Sequence::NONE;

    /// The image that these records make is published once they are durable, before anybody is told that they are.
    fn stepped(&mut self, _: &Arc<ControllerCell>, _: &mut Cx, _: &[VersionedRecord]) -> Option<Task> {
        if let Some(failure) = self.failure() {
            let sentence = format!("the metadata log has a record that does not fit: {failure}");
            return Some(Box::new(move |broker, _| broker.edge.stop(&sentence)));
        }
        let image = Arc::new(self.image().clone());
        Some(Box::new(move |broker, cx| {
            if broker.is_open() {
                broker.publish(cx, image);
            }
        }))
    }

    fn replay_control(&mut self, batch: &Batch) -> Result<(), ErrorCode> {
        self.replay_batch(batch).map_err(|error| {
            tracing::error!(%error, "a control batch of the metadata log cannot be taken in");
            ErrorCode::CorruptMessage
        })
    }

    fn append_error(code: ErrorCode) -> ErrorCode {
        code
    }
}

/// The control batch with which a new leadership of the metadata log begins: the change of leader, and in an empty
/// log also the version of the quorum and its voters.
///
/// Source: KIP-595, KIP-853, storage-formats §3.
pub(crate) fn leadership_batch(
    now: Now,
    base_offset: Offset,
    epoch: LeaderEpoch,
    node_id: BrokerId,
    voter: &quorum::Voter,
) -> Result<Batch, ErrorCode> {
    let mut builder = BatchBuilder::new(base_offset, epoch).control(true);
    let mut add = |kind: ControlRecordType, encode: &dyn Fn(&mut Writer)| {
        let mut value = Writer::new();
        encode(&mut value);
        let value: Bytes = value.into_bytes();
        builder.append(now.wall, Some(&kind.key()), Some(&value), &[]);
    };
    let change = quorum::leader_change(node_id, &[node_id]);
    add(ControlRecordType::LeaderChange, &|w| change.encode(w, CONTROL_VERSION));
    if base_offset == Offset(0) {
        let version = quorum::kraft_version(features::BOOTSTRAP_KRAFT_VERSION);
        let voters = quorum::voters(std::slice::from_ref(voter));
        add(ControlRecordType::KRaftVersion, &|w| version.encode(w, CONTROL_VERSION));
        add(ControlRecordType::KRaftVoters, &|w| voters.encode(w, CONTROL_VERSION));
    }
    builder.build().map_err(|_| ErrorCode::UnknownServerError)
}

impl ShardCell<Controller> {
    /// Writes the beginning of our leadership into the metadata log.
    pub(crate) fn begin_leadership(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        epoch: LeaderEpoch,
        voter: &quorum::Voter,
    ) -> Result<(), ErrorCode> {
        let end = self.partition().log_end_offset();
        let batch = leadership_batch(cx.now, end, epoch, broker.node_id, voter)?;
        self.partition().append_as_coordinator(broker, cx, &batch, CoordinatorAppend::default())?;
        self.configure(|controller| controller.replay_control(&batch))
    }
}
