//! The embedded controller: its shard runs over the metadata log like any other, and what its log says becomes the
//! image in force once it is durable.

use std::sync::Arc;

use fencepost_metadata::{Controller, QuorumRecord, VersionedRecord, control_batch, quorum};
use fencepost_records::Batch;
use fencepost_types::{BrokerId, ErrorCode, LeaderEpoch, Now, Offset, Sequence};

use crate::Broker;
use crate::cx::{Cx, Task};
use crate::partition::CoordinatorAppend;
use crate::runtime::{HostedShard, ShardCell};

/// The controller with the metadata log.
pub(crate) type ControllerCell = ShardCell<Controller>;

impl HostedShard for Controller {
    // The metadata log's batches carry no sequence.
    const BASE_SEQUENCE: Sequence = Sequence::NONE;
    // M5: an image with a hole in it is none.
    const SKIPS_UNREADABLE: bool = false;

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

/// What the first leadership of an empty log says of the quorum.
#[derive(Clone, Debug)]
pub(crate) struct FirstLeadership {
    /// The level of `kraft.version`; at 0 the log says nothing of the quorum, and the voters are static.
    pub(crate) kraft_version: i16,
    /// The voters.
    pub(crate) voters: Vec<quorum::Voter>,
}

/// The control batch with which a new leadership of the metadata log begins: the change of leader, and in an empty
/// log also the version of the quorum and its voters.
///
/// Source: KIP-595, KIP-853, storage-formats §3.
fn leadership_batch(
    now: Now,
    base_offset: Offset,
    epoch: LeaderEpoch,
    node_id: BrokerId,
    first: &FirstLeadership,
) -> Batch {
    let mut records = vec![QuorumRecord::LeaderChange(quorum::leader_change(node_id, &[node_id]))];
    if base_offset == Offset(0) && first.kraft_version > 0 {
        records.push(QuorumRecord::KRaftVersion(quorum::kraft_version(first.kraft_version)));
        records.push(QuorumRecord::Voters(quorum::voters(&first.voters)));
    }
    control_batch(base_offset, epoch, now.wall, &records)
}

impl ShardCell<Controller> {
    /// Writes the beginning of our leadership into the metadata log; `first` counts where that is empty.
    pub(crate) fn begin_leadership(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        epoch: LeaderEpoch,
        first: &FirstLeadership,
    ) -> Result<(), ErrorCode> {
        let end = self.partition().log_end_offset();
        let batch = leadership_batch(cx.now, end, epoch, broker.node_id, first);
        self.partition().append_as_coordinator(broker, cx, &batch, CoordinatorAppend::default())?;
        self.configure(|controller| controller.replay_control(&batch))
    }
}
