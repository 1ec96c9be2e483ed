//! Whether a request of an older client may have been under way since an earlier transaction (KAFKA-17754).

use std::sync::{Mutex, MutexGuard};

use fencepost_transaction::{Arrival, Arrivals, ConnectionNumber, ProducerName, Step};

use crate::Broker;
use crate::connection::Connection;

/// The order in which requests of producers below version 2 have come. A leaf among the locks.
#[derive(Default)]
pub(crate) struct RequestOrder(Mutex<Arrivals>);

impl RequestOrder {
    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl Broker {
    /// Whether a request of a producer below version 2 comes on a connection that the producer has left for a newer one:
    /// then it has to come again. A pair that is not in force is left to the coordinator, which refuses it.
    ///
    /// Switched off by `transaction.partition.verification.enable`, as all that looks after older clients.
    pub(crate) fn is_doubtful(&self, connection: &Connection, producer: ProducerName, step: &Step) -> bool {
        if !self.verifies_transactions() {
            return false;
        }
        let number = ConnectionNumber(connection.id.0);
        let order = &self.transactions.order;
        let known = order.lock().arrive(&producer, number, step);
        match known {
            Some(Arrival::InOrder) => false,
            Some(Arrival::Doubtful) => {
                let is_in_force = self.is_in_force(&producer);
                if is_in_force {
                    tracing::debug!(peer = connection.client_host, ?producer, ?step, "told to come again");
                }
                is_in_force
            }
            None => {
                if self.is_in_force(&producer) {
                    order.lock().begin(producer, number, step);
                }
                false
            }
        }
    }

    fn is_in_force(&self, producer: &ProducerName) -> bool {
        let Ok(cell) = self.transactions.cell_for(&producer.transactional_id) else { return false };
        let pair = cell.read(|shard| {
            shard.get(&producer.transactional_id).map(|txn| (txn.producer_id, txn.producer_epoch))
        });
        pair == Some((producer.producer_id, producer.producer_epoch))
    }
}
