//! The transaction coordinator: who may use a transactional id, what is in its transaction, and how it ends.
//!
//! One [`TransactionShard`] per partition of `__transaction_state`, a fold of that partition's log. It decides; the
//! engine appends, waits for durability, carries markers to partition leaders and brings back what they answered.
//!
//! ```text
//!              InitProducerId         AddPartitions               EndTxn, timeout, a new instance
//!   (unknown) ──────────────► Empty ────────────────► Ongoing ───────────────────────────┐
//!       ▲                      ▲ │                       ▲                               ▼
//!       │ long unused          │ │ abort of nothing      │ AddPartitions     PrepareCommit, PrepareAbort
//!       │                      │ │ (version 2)           │                               │
//!       │       InitProducerId │ └───────────────────────┼──────► to PrepareAbort        │ every marker
//!       │                      │                         │                               │ is written
//!       └──────────────────────┴─────── CompleteCommit, CompleteAbort ◄──────────────────┘
//!                                       (like Empty in all respects)
//!
//!   request ─► decide ─► record ─► replay ─► [durable] ─► reply
//!                                    └─► markers_owed ─► [leaders] ─► MarkersWritten ─► decide ─► Complete*
//! ```
//!
//! Kafka keeps a pending state beside the state, for the time in which a record is being appended. Here a decision is
//! appended and replayed at once and only its answer waits, so there is none: what Kafka answers while something is
//! pending is answered while a transaction is *completing*, in PrepareCommit or PrepareAbort.
//!
//! Invariants
//! - X1: what is known of an id is its newest record (with the time it was written in), and nothing else; live state
//!   equals the state replayed from the log. Values of version 0 hold less ([`TxnMetadata::as_version_0`]): written
//!   at `transaction.version` 0, they lose a rotation in flight and the last epoch at a failover, as Kafka's do.
//! - X2: of one producer id the epoch never falls, and no two transactional ids share a producer id.
//! - X3: under version 2, two transactions of one id never share producer id and epoch.
//! - X4: a decided transaction (Prepare*) becomes Complete* with the same outcome, and only when every one of its
//!   partitions has been reported written or deleted since the decision, or since the load.
//! - X5: which markers have been written is memory only. After a load every partition of a decided transaction is
//!   owed its marker again.
//! - X6: the fence and the abort of an open transaction are one decision: no request can come between them
//!   (`coordinator trap 14`). A failed append has therefore fenced nobody, and the next try raises the epoch once.
//! - X7: an open transaction is aborted once it is more than its timeout old, by [`Request::Tick`], to the tick. Its
//!   age is counted on the monotonic clock; the wall clock, in which its start is persisted, is asked once, at a load.
//! - X8: every decision writes one record, but for the tombstones of expired ids.
//!
//! Source: KIP-98, KIP-360, KIP-588, KIP-664, KIP-890, KIP-939, KIP-994, KIP-1228; Kafka TransactionCoordinator,
//! TransactionStateManager, TransactionMetadata, TransactionMarkerChannelManager.

#![no_std]

extern crate alloc;

mod arrivals;
mod describe;
mod end_txn;
mod errors;
mod fencing;
mod index;
mod init_producer_id;
mod markers;
mod partitions;
mod record;
mod request;
mod shard;
mod state;
mod tick;
mod timeouts;
mod transition;

pub use arrivals::{Arrival, Arrivals, ConnectionNumber, ProducerName, Step};
pub use errors::{
    CoordinatorApi, MarkerAction, Refusal, append_code, code_for_version, marker_action, produce_code,
    txn_offset_commit_code,
};
pub use markers::{MarkerProgress, MarkersOwed};
pub use record::{TransactionRecord, TransactionValue, value_version};
pub use request::{
    AddPartitions, EndTxn, ExpectedProducer, InitProducerId, ListFilter, Markers, MarkersLeft, Reply,
    Request, StateFilter, TickOutcome, TransactionDescription, TransactionListing, VerifyPartitions,
};
pub use shard::{ShardConfig, Soft, TransactionShard};
pub use state::{TWO_PHASE_COMMIT_TIMEOUT_MS, TransactionState, TransactionalId, TxnMetadata};

#[cfg(test)]
mod tables;
#[cfg(test)]
mod testing;
