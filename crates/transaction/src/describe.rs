//! DescribeTransactions and ListTransactions.
//!
//! Source: KIP-664, KIP-994; Kafka TransactionCoordinator.handleDescribeTransactions and handleListTransactions.

use fencepost_coordinator::{Decision, Token};
use fencepost_types::Now;

use crate::errors::Refusal;
use crate::request::{ListFilter, Reply, TransactionDescription, TransactionListing};
use crate::shard::{Entry, Outcome, TransactionShard};
use crate::state::TransactionalId;

impl TransactionShard {
    pub(crate) fn decide_describe(&self, token: Token, transactional_id: &TransactionalId) -> Outcome {
        if transactional_id.is_empty() {
            return Err(Refusal::InvalidRequest);
        }
        let entry = self.entries.get(transactional_id).ok_or(Refusal::NothingToDescribe)?;
        let Entry { txn, .. } = entry;
        let description = TransactionDescription {
            transactional_id: transactional_id.clone(),
            state: txn.state,
            timeout_ms: txn.timeout_ms,
            start: txn.start,
            producer_id: txn.producer_id,
            producer_epoch: txn.producer_epoch,
            partitions: self.partitions_lacking(transactional_id, entry),
        };
        Ok(Decision::answer(token, Reply::Described(description)))
    }

    pub(crate) fn decide_list(&self, now: Now, token: Token, filter: &ListFilter) -> Outcome {
        let rows = self
            .transactions()
            .filter(|(_, txn)| {
                (filter.producer_ids.is_empty() || filter.producer_ids.contains(&txn.producer_id))
                    && filter.states.lets(txn.state)
                    && (filter.duration_ms < 0 || now.wall.since(txn.start) > filter.duration_ms)
            })
            .map(|(id, txn)| TransactionListing {
                transactional_id: id.clone(),
                producer_id: txn.producer_id,
                state: txn.state,
            })
            .collect();
        Ok(Decision::answer(token, Reply::Listed(rows)))
    }
}

#[cfg(test)]
mod tests;
