//! Compaction: of each key the newest record stays, of each transaction what its readers still need.
//!
//! ```text
//!  Log ─► cleanable() ─► start_cleaning()            under the partition's lock, no I/O to speak of
//!                             │
//!                             ▼
//!        Cleaning  step() … step() ── WantsLog ──► with_log()   under the lock again: names only
//!          │ 1 map      key ─► newest offset, over the dirty part       key_offsets.rs
//!          │ 2 rewrite  groups of segments into `.cleaned` files        keep.rs  transactions.rs  output.rs
//!          │ 3 replace  `.cleaned` ─► `.swap` ─► old ones `.deleted` ─► plain, a sync between any two
//!          └ 4 the checkpoint moves on, once every name is durable
//! ```
//!
//! Nothing at or above the last stable offset is looked at, so every transaction in range is decided. Offsets, epochs and
//! sequences of what stays do not change, nor does the range of offsets that a batch covers.
//!
//! Rules that a test cites
//! - C1: the newest record of a key never goes while its value is not null; nothing goes that a later pass would miss.
//! - C2: the data of an aborted transaction goes at once, its marker only after a pass that met no data of it, and then not
//!   before its delete horizon (storage-formats traps 8 and 9). The transaction index of what is written is what a rebuild
//!   would make of it.
//!   A snapshot that stays below the marker and holds the transaction open is like data of it.
//! - C3: the batch that a live producer's state hangs on stays, emptied if it is data, whole if it is a marker: an emptied
//!   marker tells a rebuild nothing (producer-state traps 35 and 36). Differs from Kafka, which empties the marker too.
//! - C4: the last batch of every replacement stays, emptied if need be: a segment reaches up to the next one, and what an
//!   interrupted replacement replaces can be told from its offsets. Differs from Kafka, where that holds for the last batch
//!   of a pass alone, and a segment may be left with no bytes (storage-formats §6, trap 7).
//! - C5: a crash at any point leaves the log as it was before a replacement or as it is after it.
//!
//! Source: Kafka Cleaner, CleanedTransactionMetadata, LogCleanerManager; KIP-58, KIP-98, KIP-354, KIP-534.

mod cleaning;
mod keep;
mod key_offsets;
mod output;
mod plan;
mod reader;
mod transactions;

pub use cleaning::{Cleaning, CleaningReport, CleaningStep, CleaningTurn};
pub use plan::{Cleanable, CleanerConfig};

pub(crate) use output::SWAP;
pub(crate) use plan::{GroupLimits, Plan, Source};
