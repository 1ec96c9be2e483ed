//! What becomes due by itself: timeouts, the completion of decided transactions without partitions, and the end of
//! unused transactional ids.
//!
//! Source: KIP-98, KIP-890; Kafka TransactionCoordinator.abortTimedOutTransactions,
//! TransactionStateManager.removeExpiredTransactionalIds.

use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{Now, ProducerId};

use crate::record::TransactionRecord;
use crate::request::{Reply, TickOutcome};
use crate::shard::{Outcome, Soft, TransactionShard};
use crate::state::TransactionalId;

/// Tombstones of one decision: the most, …
const TOMBSTONES_PER_TICK_MAX: usize = 1_000;
/// … and the most bytes of ids in them, far below any sensible `max.message.bytes`. One id always fits.
const TOMBSTONE_BYTES_PER_TICK_MAX: usize = 64 * 1024;

impl TransactionShard {
    /// Does the first due thing that can be done. A timeout at an exhausted epoch needs a fresh producer id; while
    /// there is none, others do not wait for it.
    pub(crate) fn decide_tick(&self, now: Now, token: Token, fresh: Option<ProducerId>) -> Outcome {
        if let Some(id) = self.index.first_without_partitions() {
            return self.complete(now, token, id, Reply::Ticked(TickOutcome::Completed(id.clone())));
        }
        let mut needs_producer_id = None;
        for id in self.timeouts.due(now.mono) {
            match self.aborted_by_coordinator(&self.entries[id].txn, now.wall, fresh) {
                Ok(aborted) => {
                    let reply = Reply::Ticked(TickOutcome::TimedOut(id.clone()));
                    return self.write(id, aborted, token, reply);
                }
                Err(refusal) => needs_producer_id = Some(refusal),
            }
        }
        let expired = self.expired(now);
        match (expired.is_empty(), needs_producer_id) {
            (false, _) => Ok(forget(expired, token)),
            (true, Some(refusal)) => Err(refusal),
            (true, None) => Ok(Decision::answer(token, Reply::Ticked(TickOutcome::Nothing))),
        }
    }

    /// Ids that have been unused for `transactional.id.expiration.ms`, as many as one batch takes.
    fn expired(&self, now: Now) -> Vec<TransactionalId> {
        let mut bytes = 0;
        self.index
            .expired(now.wall, self.config.transactional_id_expiration_ms)
            .take(TOMBSTONES_PER_TICK_MAX)
            .take_while(|id| {
                let is_first = bytes == 0;
                bytes += id.len().max(1);
                is_first || bytes <= TOMBSTONE_BYTES_PER_TICK_MAX
            })
            .cloned()
            .collect()
    }
}

/// Tombstones.
fn forget(expired: Vec<TransactionalId>, token: Token) -> Decision<TransactionRecord, Soft, Reply> {
    let count = expired.len();
    let tombstones = expired
        .into_iter()
        .map(|transactional_id| TransactionRecord { transactional_id, value: None })
        .collect();
    Decision::write(tombstones, token, Reply::Ticked(TickOutcome::Expired(count)))
}

#[cfg(test)]
mod tests;
