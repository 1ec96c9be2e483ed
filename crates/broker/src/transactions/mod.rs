//! The transaction coordinator's side of the engine: its shards, who waits for a transaction to complete, in which order
//! requests come, the blocks of producer ids, and the sending of markers.

mod arrival;
mod budget;
mod completing;
mod hosting;
mod marker_request;
mod marker_sender;
mod producer_ids;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

use fencepost_transaction::TransactionShard;
use fencepost_types::{ErrorCode, PartitionIndex, partition_for};

use crate::runtime::ShardCell;

pub(crate) use arrival::RequestOrder;
pub(crate) use budget::IdBudget;
pub(crate) use completing::Completing;
pub(crate) use producer_ids::ProducerIds;

/// Name of the topic that holds the coordinator's log.
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";

/// A shard of the transaction coordinator with its log.
pub type TransactionCell = ShardCell<TransactionShard>;

/// All shards that this broker coordinates.
#[derive(Default)]
pub(crate) struct TransactionCoordinator {
    cells: RwLock<Cells>,
    pub(crate) completing: Completing,
    pub(crate) id_budget: IdBudget,
    pub(crate) order: RequestOrder,
    /// Markers appended since the start.
    pub(crate) markers_written: AtomicU64,
}

#[derive(Default)]
struct Cells {
    partition_count: i32,
    by_partition: BTreeMap<PartitionIndex, Arc<TransactionCell>>,
}

impl TransactionCoordinator {
    /// Installs the loaded shards. The partition count is fixed from then on.
    pub(crate) fn install(
        &self,
        partition_count: i32,
        cells: BTreeMap<PartitionIndex, Arc<TransactionCell>>,
    ) {
        *self.cells.write().expect("no holder of this lock panics") =
            Cells { partition_count, by_partition: cells };
    }

    /// The shard of a transactional id.
    pub(crate) fn cell_for(&self, transactional_id: &str) -> Result<Arc<TransactionCell>, ErrorCode> {
        let cells = self.cells.read().expect("no holder of this lock panics");
        if cells.partition_count == 0 {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let partition = partition_for(transactional_id, cells.partition_count);
        cells.by_partition.get(&partition).cloned().ok_or(ErrorCode::NotCoordinator)
    }

    /// How many transactional ids the shards know together.
    pub(crate) fn ids(&self) -> usize {
        let cells = self.cells.read().expect("no holder of this lock panics");
        cells.by_partition.values().map(|cell| cell.held()).sum()
    }

    /// Every shard, in order of the partitions.
    pub(crate) fn all(&self) -> Vec<Arc<TransactionCell>> {
        self.cells.read().expect("no holder of this lock panics").by_partition.values().cloned().collect()
    }
}
