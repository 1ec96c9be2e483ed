//! Requests that met a transaction which is completing. They are parked until it has completed, and asked again.
//!
//! Differs from Kafka: there the client gets `CONCURRENT_TRANSACTIONS` and comes back after 20 ms.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fencepost_transaction::{TransactionShard, TransactionalId};
use fencepost_types::Nanos;

use crate::Broker;
use crate::cx::{Cx, Task};
use crate::deadlines::DeadlineKey;
use crate::runtime::Asked;

/// A request is parked for at most this long in all, then answered `CONCURRENT_TRANSACTIONS`.
pub(crate) const COMPLETING_WAIT_MS_MAX: i64 = 1_000;
/// Requests parked for one transactional id; further ones are answered at once.
const PARKED_PER_ID_MAX: usize = 64;

/// Parked requests by transactional id. An id without any has no entry.
#[derive(Default)]
pub(crate) struct Completing {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    parked: BTreeMap<TransactionalId, BTreeMap<u64, Parked>>,
    next_number: u64,
}

/// Whoever takes it out of the map answers it: the completion or the deadline.
struct Parked {
    asked: Asked<TransactionShard>,
    again: Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Asked<TransactionShard>) + Send>,
    deadline: Option<DeadlineKey>,
}

impl Completing {
    /// Parks a request: `again` takes it when the transaction has completed, `give_up` when `until` has come. Gives it
    /// back where too many are parked already.
    pub(crate) fn park(
        &self,
        broker: &Arc<Broker>,
        transactional_id: &TransactionalId,
        until: Nanos,
        asked: Asked<TransactionShard>,
        again: impl FnOnce(&Arc<Broker>, &mut Cx, Asked<TransactionShard>) + Send + 'static,
        give_up: impl FnOnce(&Arc<Broker>, &mut Cx, Asked<TransactionShard>) + Send + 'static,
    ) -> Result<(), Box<Asked<TransactionShard>>> {
        let number = {
            let mut state = self.lock();
            state.next_number += 1;
            let number = state.next_number;
            let waiting = state.parked.entry(Arc::clone(transactional_id)).or_default();
            if waiting.len() >= PARKED_PER_ID_MAX {
                return Err(Box::new(asked));
            }
            waiting.insert(number, Parked { asked, again: Box::new(again), deadline: None });
            number
        };
        let id = Arc::clone(transactional_id);
        let due: Task = Box::new(move |broker, cx| {
            if let Some(parked) = broker.transactions.completing.take(&id, number) {
                give_up(broker, cx, parked.asked);
            }
        });
        let key = broker.add_deadline(until, due);
        let mut state = self.lock();
        match state.parked.get_mut(transactional_id).and_then(|waiting| waiting.get_mut(&number)) {
            Some(parked) => parked.deadline = Some(key),
            // It is answered already.
            None => {
                drop(state);
                broker.deadlines.cancel(key);
            }
        }
        Ok(())
    }

    /// A transaction has completed, or never will before a restart: everyone who waits for it asks again, in the order of
    /// coming.
    pub(crate) fn completed(&self, broker: &Arc<Broker>, cx: &mut Cx, transactional_id: &str) {
        let waiting = self.lock().parked.remove(transactional_id);
        for parked in waiting.into_iter().flat_map(BTreeMap::into_values) {
            if let Some(key) = parked.deadline {
                broker.deadlines.cancel(key);
            }
            let Parked { asked, again, .. } = parked;
            cx.push(Box::new(move |broker, cx| again(broker, cx, asked)));
        }
    }

    fn take(&self, transactional_id: &str, number: u64) -> Option<Parked> {
        let mut state = self.lock();
        let waiting = state.parked.get_mut(transactional_id)?;
        let parked = waiting.remove(&number);
        if waiting.is_empty() {
            state.parked.remove(transactional_id);
        }
        parked
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}
