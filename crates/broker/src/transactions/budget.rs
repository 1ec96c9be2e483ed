//! How many transactional ids the coordinators remember together: clients choose how many they use, and each takes
//! memory until it expires.
//!
//! At the limit an id that is not known is refused with POLICY_VIOLATION, whoever asks; known ones go on, and ids that
//! expire give room. There is no early expiry, unlike that of producers: an id that is forgotten no longer fences its
//! older instances, so it must have been unused for as long as the operator said.
//!
//! The code says that a limit of the operator's is in the way and that nothing is wrong with the request's form. The Java
//! client ends with it, where a retriable one would be asked again until the client gives up with a timeout that names
//! no reason; librdkafka asks again twice a second until the application's own deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_transaction::Request;
use fencepost_types::ErrorCode;

use super::TransactionCell;
use crate::Broker;

/// What became of the limit.
#[derive(Debug, Default)]
pub(crate) struct IdBudget {
    refused: AtomicU64,
    /// Whether the log says that there is no room.
    is_announced: AtomicBool,
}

impl Broker {
    /// Whether the request may go on: unless it brings a transactional id that there is no room for.
    ///
    /// Requests that are decided in the same moment may go over the limit together, by as many as there are threads.
    pub(crate) fn admit_id(&self, cell: &Arc<TransactionCell>, request: &Request) -> Result<(), ErrorCode> {
        let Request::InitProducerId(init) = request else { return Ok(()) };
        let budget = &self.transactions.id_budget;
        let (ids, ids_max) = (self.transactional_ids(), self.transactional_ids_max());
        if i64::try_from(ids).is_ok_and(|ids| ids < ids_max) {
            if budget.is_announced.swap(false, Ordering::Relaxed) {
                tracing::info!(ids, ids_max, "there is room for transactional ids again");
            }
            return Ok(());
        }
        if cell.read(|shard| shard.get(&init.transactional_id).is_some()) {
            return Ok(());
        }
        budget.refused.fetch_add(1, Ordering::Relaxed);
        if !budget.is_announced.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                ids,
                ids_max,
                transactional_id = %init.transactional_id,
                "new transactional ids are refused until some expire or fencepost.transactional.ids.max is raised"
            );
        }
        Err(ErrorCode::PolicyViolation)
    }

    /// `fencepost.transactional.ids.max`.
    pub fn transactional_ids_max(&self) -> i64 {
        self.config().transactional_ids_max
    }

    /// How many requests for new transactional ids were refused because there was no room, since the start.
    pub fn transactional_ids_refused(&self) -> u64 {
        self.transactions.id_budget.refused.load(Ordering::Relaxed)
    }
}
