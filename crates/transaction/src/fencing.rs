//! Aborts that the coordinator starts itself: of a transaction that outlived its timeout, or that a new instance found
//! open. The fence and the abort are one record (`coordinator trap 14`).
//!
//! Source: KIP-98, KIP-890, KAFKA-19367, KAFKA-20090.

use fencepost_types::{Millis, Now, ProducerId, TransactionResult};

use crate::end_txn::prepared_with_bump;
use crate::errors::Refusal;
use crate::shard::TransactionShard;
use crate::state::TxnMetadata;

impl TransactionShard {
    /// PrepareAbort of an open transaction. The finalized level decides the version, whatever opened it: under
    /// version 2 the old instance may still ask how its transaction ended, below it may not.
    pub(crate) fn aborted_by_coordinator(
        &self,
        txn: &TxnMetadata,
        now: Millis,
        fresh: Option<ProducerId>,
    ) -> Result<TxnMetadata, Refusal> {
        if self.config.transaction_version.bumps_epoch() {
            let now = Now { wall: now, ..Now::default() };
            prepared_with_bump(txn, TransactionResult::Abort, now, fresh)
        } else {
            Ok(txn.fenced(now))
        }
    }
}

#[cfg(test)]
mod tests;
