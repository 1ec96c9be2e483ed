//! Whether a request of an older client may have been under way since an earlier transaction (KAFKA-17754).

use std::sync::{Mutex, MutexGuard};

use fencepost_transaction::{Arrival, Arrivals, ConnectionNumber, ProducerName, Step};
use fencepost_types::ProducerId;

use crate::Broker;
use crate::connection::Connection;

/// So many locks share the producers: batches of different ones seldom meet.
const STRIPES: usize = 64;

/// The order in which requests of producers below version 2 have come, by their ids, which are handed out one after the
/// other. Leaves among the locks.
pub(crate) struct RequestOrder([Mutex<Arrivals>; STRIPES]);

impl Default for RequestOrder {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl RequestOrder {
    fn lock(&self, producer_id: ProducerId) -> MutexGuard<'_, Arrivals> {
        let stripe = producer_id.0 as u64 % STRIPES as u64;
        self.0[stripe as usize].lock().expect("no holder of this lock panics")
    }
}

impl Broker {
    /// Whether a request of a producer below version 2 comes on a connection that the producer has left for a newer one:
    /// then it has to come again. A pair that is not in force is left to the coordinator, which refuses it.
    ///
    /// Switched off by `transaction.partition.verification.enable`, as all that looks after older clients.
    pub(crate) fn is_doubtful(
        &self,
        connection: &Connection,
        producer: ProducerName<'_>,
        step: &Step,
    ) -> bool {
        if !self.verifies_transactions() {
            return false;
        }
        let number = ConnectionNumber(connection.id.0);
        let order = &self.transactions.order;
        let known = order.lock(producer.producer_id).arrive(producer, number, step);
        match known {
            Some(Arrival::InOrder) => false,
            Some(Arrival::Doubtful) => {
                let is_in_force = self.is_in_force(producer);
                if is_in_force {
                    tracing::debug!(peer = connection.client_host, ?producer, ?step, "told to come again");
                }
                is_in_force
            }
            None => {
                if self.is_in_force(producer) {
                    order.lock(producer.producer_id).begin(producer, number, step);
                }
                false
            }
        }
    }

    fn is_in_force(&self, producer: ProducerName<'_>) -> bool {
        let Ok(cell) = self.transactions.cell_for(producer.transactional_id) else { return false };
        let pair = cell.read(|shard| {
            shard.get(producer.transactional_id).map(|txn| (txn.producer_id, txn.producer_epoch))
        });
        pair == Some((producer.producer_id, producer.producer_epoch))
    }
}
