//! What one partition replica knows of its producers: their epochs and sequences, which transactions are open, which
//! offset is the last stable one, and which transactions were aborted.
//!
//! ```text
//!   Produce ──► start_verification ──► (coordinator says yes) ──► stage ──► append ──► replay ─┐
//!   marker  ───────────────────────────────────────────► stage_marker ──► append ──► replay ──┤
//!   recovery, replication ───────────────────────────────────────────────────────► replay ──┤
//!                                                                                             ▼
//!        producers ── ongoing ──(marker)──► unreplicated ──(high watermark passes the marker)──► stable
//!            │            └─────────┬────────────┘                     └──(aborted)──► AbortedTxn
//!            ▼                      ▼
//!        snapshot          first unstable offset ──► last stable offset
//! ```
//!
//! [`ProducerStates`] is a fold of the partition's log: `stage` and `stage_marker` judge a batch and change nothing,
//! `replay` takes in what is in the log and cannot fail. The engine holds the partition's lock over stage, append,
//! replay, and stages one batch at a time.
//!
//! Invariants ([`ProducerStates::check`] asserts P1 to P6)
//! - P1: a producer has at most one open transaction; `ongoing` names exactly the open transactions of the table.
//! - P2: a producer's window holds at most five batches, all written under its present epoch.
//! - P3: every offset in the state lies below `map_end_offset`.
//! - P4: a completed transaction is `unreplicated` until the high watermark is above its marker; no transaction is both
//!   `ongoing` and `unreplicated`.
//! - P5: a guard is handed out once: a verification that ended never matches a later one (KAFKA-14884).
//! - P6: what is only hoped for (verification entries, times of appends) is never in a snapshot, nor in the windows beside it.
//! - P7: log start ≤ last stable offset ≤ high watermark, and no open transaction begins below the last stable offset
//!   unless the log start has passed it.
//! - P8: live state equals replayed state, windows and all, except for producers that have expired or were evicted. From a
//!   snapshot without windows beside it (Kafka's, or a damaged file) only the newest batch of each window is known.
//! - P9: no batch, snapshot or index entry makes this crate panic, and none allocates more than its own size.
//!
//! Source: Kafka ProducerStateManager, ProducerAppendInfo, ProducerStateEntry, TransactionIndex,
//! VerificationStateEntry; KIP-98, KIP-360, KIP-664, KIP-890, KIP-1228. The rules are `spec: producer-state`.

#![no_std]

extern crate alloc;

mod aborted_txn;
mod batch;
mod check;
mod compaction;
mod describe;
mod entry;
mod eviction;
mod expiry;
mod markers;
mod producer_states;
mod sequence;
mod snapshot;
mod stable_offset;
mod stage;
#[cfg(test)]
mod testing;
mod verification;
mod windows;

pub use aborted_txn::{
    ABORTED_TXN_BYTES, AbortedIndexError, AbortedTxn, UnknownVersion, collect_aborted, decode_aborted_index,
};
pub use batch::{AppendOrigin, BatchContent, BatchFacts, CompletedTxn, Marker};
pub use compaction::LastRecord;
pub use describe::DescribedProducer;
pub use entry::{CachedBatch, ProducerEntry};
pub use eviction::{Evicted, PRODUCER_EVICTION_IDLE_MIN_MS};
pub use expiry::Expired;
pub use markers::MarkerRefusal;
pub use producer_states::ProducerStates;
pub use snapshot::{ProducerSnapshot, SnapshotEntry, SnapshotError};
pub use stable_offset::{LATE_TRANSACTION_BUFFER_MS, OpenTransaction};
pub use stage::{ProduceRefusal, Staged};
pub use verification::{VerificationEntry, VerificationGuard};
pub use windows::WindowError;
