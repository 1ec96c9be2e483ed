//! Requests that met a transaction which is completing. They are parked until it has completed, and asked again.
//!
//! Differs from Kafka: there the client gets `CONCURRENT_TRANSACTIONS` and comes back after 20 ms.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fencepost_transaction::TransactionalId;
use fencepost_types::Now;

use crate::Broker;
use crate::cx::{Cx, Task};
use crate::once::Once;

/// A request is parked for at most this long, then answered `CONCURRENT_TRANSACTIONS`.
pub(crate) const COMPLETING_WAIT_MS_MAX: i64 = 1_000;
/// Requests parked for one transactional id; further ones are answered at once.
const PARKED_PER_ID_MAX: usize = 64;

type Parked = Arc<Once<(Task, Task)>>;

/// Parked requests by transactional id.
#[derive(Default)]
pub(crate) struct Completing {
    parked: Mutex<BTreeMap<TransactionalId, Vec<Parked>>>,
}

impl Completing {
    /// Parks a request: `again` runs when the transaction has completed, `give_up` after `wait_ms`.
    pub(crate) fn park(
        &self,
        broker: &Arc<Broker>,
        now: Now,
        transactional_id: &TransactionalId,
        wait_ms: i64,
        again: Task,
        give_up: Task,
    ) {
        let parked = Arc::new(Once::new((again, give_up)));
        {
            let mut ids = self.parked.lock().expect("no holder of this lock panics");
            let waiting = ids.entry(Arc::clone(transactional_id)).or_default();
            waiting.retain(|parked| !parked.is_taken());
            if waiting.len() < PARKED_PER_ID_MAX {
                waiting.push(Arc::clone(&parked));
            }
        }
        let deadline = now.mono.plus_ms(wait_ms.min(COMPLETING_WAIT_MS_MAX));
        let id = Arc::clone(transactional_id);
        broker.add_deadline(
            deadline,
            Box::new(move |broker, cx| {
                if let Some((_, give_up)) = parked.take() {
                    broker.transactions.completing.forget_answered(&id);
                    give_up(broker, cx);
                }
            }),
        );
    }

    /// Drops what has been answered, so that an id that never completes leaves nothing behind.
    fn forget_answered(&self, transactional_id: &str) {
        let mut ids = self.parked.lock().expect("no holder of this lock panics");
        if let Some(waiting) = ids.get_mut(transactional_id) {
            waiting.retain(|parked| !parked.is_taken());
            if waiting.is_empty() {
                ids.remove(transactional_id);
            }
        }
    }

    /// A transaction has completed: everyone who waits for it asks again, in the order of coming.
    pub(crate) fn completed(&self, transactional_id: &str, cx: &mut Cx) {
        let waiting = self.parked.lock().expect("no holder of this lock panics").remove(transactional_id);
        for parked in waiting.into_iter().flatten() {
            if let Some((again, _)) = parked.take() {
                cx.push(again);
            }
        }
    }
}
