//! The group coordinator's side of the engine: its shards by partition of the offsets topic.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use fencepost_group::{GroupRecord, GroupShard, Request};
use fencepost_types::{ErrorCode, PartitionIndex, Sequence, TopicName, TopicPartition, partition_for};

use crate::cx::{Cx, Task};
use crate::runtime::{HostedShard, Respond, ShardCell};
use crate::{Broker, Exchange};

/// Name of the topic that holds the coordinator's log.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// A shard of the group coordinator with its log.
pub type GroupCell = ShardCell<GroupShard>;

/// All shards that this broker coordinates.
#[derive(Default)]
pub(crate) struct GroupCoordinator {
    cells: RwLock<Cells>,
}

#[derive(Default)]
struct Cells {
    partition_count: i32,
    by_partition: BTreeMap<PartitionIndex, Arc<GroupCell>>,
}

impl GroupCoordinator {
    /// Installs the loaded shards. The partition count is fixed from then on.
    pub(crate) fn install(&self, partition_count: i32, cells: BTreeMap<PartitionIndex, Arc<GroupCell>>) {
        *self.cells.write().expect("no holder of this lock panics") =
            Cells { partition_count, by_partition: cells };
    }

    /// The shard of a group.
    pub(crate) fn cell_for(&self, group: &str) -> Result<Arc<GroupCell>, ErrorCode> {
        let cells = self.cells.read().expect("no holder of this lock panics");
        if cells.partition_count == 0 {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let partition = partition_for(group, cells.partition_count);
        cells.by_partition.get(&partition).cloned().ok_or(ErrorCode::NotCoordinator)
    }

    /// The partition that holds a group's offsets; `None` before the topic is there.
    pub(crate) fn offsets_partition(&self, group: &str) -> Option<TopicPartition> {
        let count = self.cells.read().expect("no holder of this lock panics").partition_count;
        (count > 0).then(|| TopicPartition {
            topic: TopicName::from(OFFSETS_TOPIC),
            partition: partition_for(group, count),
        })
    }

    /// The shard over a partition, if that is one of the offsets topic.
    pub(crate) fn cell_of(&self, partition: &TopicPartition) -> Option<Arc<GroupCell>> {
        if &*partition.topic != OFFSETS_TOPIC {
            return None;
        }
        let cells = self.cells.read().expect("no holder of this lock panics");
        cells.by_partition.get(&partition.partition).cloned()
    }

    /// Every shard, in order of the partitions.
    pub(crate) fn all(&self) -> Vec<Arc<GroupCell>> {
        self.cells.read().expect("no holder of this lock panics").by_partition.values().cloned().collect()
    }

    /// Asks the shard of one group; `respond` gets an error too when there is no such shard.
    pub(crate) fn ask(
        &self,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        group: &str,
        request: Request,
        respond: Respond<GroupShard>,
    ) {
        match self.cell_for(group) {
            Ok(cell) => cell.ask(broker, cx, request, respond),
            Err(code) => respond(broker, cx, Err(crate::runtime::AskError::Failed(code))),
        }
    }
}

impl HostedShard for GroupShard {
    // Kafka's builder leaves 0 here for plain and transactional batches alike (storage-formats §13, trap 17).
    const BASE_SEQUENCE: Sequence = Sequence(0);

    fn refresh(broker: &Broker, request: &mut Request) {
        if let Some(topics) = request.existing_topics_mut() {
            *topics = broker.topic_facts();
        }
    }

    fn stepped(&mut self, _: &Arc<GroupCell>, _: &mut Cx, _: &[GroupRecord]) -> Option<Task> {
        None
    }

    /// Source: Kafka GroupCoordinatorService's mapping of append errors (`coordinator §11.2`).
    fn append_error(code: ErrorCode) -> ErrorCode {
        match code {
            ErrorCode::UnknownTopicOrPartition
            | ErrorCode::NotEnoughReplicas
            | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
            ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
            ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
                ErrorCode::UnknownServerError
            }
            code => code,
        }
    }
}

/// The client of a request, as groups keep it.
pub(crate) fn client_of(exchange: &Exchange) -> fencepost_group::Client {
    fencepost_group::Client {
        id: exchange.client_id().into(),
        host: exchange.connection.client_host.as_str().into(),
    }
}
