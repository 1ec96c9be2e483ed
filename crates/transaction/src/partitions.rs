//! AddPartitionsToTxn and AddOffsetsToTxn, and the verification of what has been added.
//!
//! Source: KIP-98, KIP-890; Kafka TransactionCoordinator.handleAddPartitionsToTransaction and
//! handleVerifyPartitionsInTransaction.

use fencepost_coordinator::{Decision, Token};
use fencepost_types::Now;

use crate::request::{AddPartitions, Reply, VerifyPartitions};
use crate::shard::{
    Outcome, Soft, TransactionShard, refuse_other_epoch, refuse_other_producer, refuse_replaced_producer,
};
use crate::state::TransactionState;

impl TransactionShard {
    /// Completing comes first: under version 2 a client may use the next epoch, or the next producer id, before the
    /// transaction before is complete (`coordinator trap 2`).
    pub(crate) fn decide_add_partitions(&self, now: Now, token: Token, request: &AddPartitions) -> Outcome {
        let id = &request.transactional_id;
        let txn = self.lookup(id)?;
        self.refuse_completing(id, txn)?;
        let (producer_id, producer_epoch) = (request.producer_id, request.producer_epoch);
        refuse_replaced_producer(txn, producer_id, producer_epoch, request.transaction_version)?;
        refuse_other_producer(txn, producer_id)?;
        refuse_other_epoch(txn, producer_epoch)?;
        let is_open = txn.state == TransactionState::Ongoing;
        if is_open && request.partitions.iter().all(|partition| txn.partitions.contains(partition)) {
            return Ok(Decision::answer(token, Reply::PartitionsAdded));
        }
        let after = txn.with_partitions(&request.partitions, request.transaction_version, now.wall);
        let mut decision = self.write(id, after, token, Reply::PartitionsAdded)?;
        if !is_open {
            decision.soft.push(Soft::Opened(id.clone()));
        }
        Ok(decision)
    }

    /// Completing comes last here: what a leader appends meanwhile is settled by its own guard
    /// (`coordinator trap 3`).
    pub(crate) fn decide_verify_partitions(&self, token: Token, request: &VerifyPartitions) -> Outcome {
        let id = &request.transactional_id;
        let txn = self.lookup(id)?;
        refuse_other_producer(txn, request.producer_id)?;
        refuse_other_epoch(txn, request.producer_epoch)?;
        self.refuse_completing(id, txn)?;
        let verified = request
            .partitions
            .iter()
            .map(|partition| (partition.clone(), txn.partitions.contains(partition)))
            .collect();
        Ok(Decision::answer(token, Reply::PartitionsVerified(verified)))
    }
}

#[cfg(test)]
mod tests;
