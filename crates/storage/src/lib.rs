//! Kafka's log directory, byte for byte, over the [`Disk`] trait: segments, indexes, producer snapshots, leader epochs,
//! checkpoints, recovery.
//!
//! ```text
//!                     LogDir  .lock  meta.properties  .kafka_cleanshutdown  four offset checkpoints
//!                        │ lists, one directory for each partition
//!                        ▼
//!  append ─► stage ─► Log ─┬─ Segment  .log .index .timeindex .txnindex      (the last one is active)
//!            (partition)   ├─ ProducerStates ─► .snapshot at every roll and at a clean stop
//!            replay  ◄─────┤─ LeaderEpochs   ─► leader-epoch-checkpoint
//!                          └─ partition.metadata
//!                             │ dirty() ─► FlushTicket ─► run() without any lock ─► mark_synced()
//!                             ▼
//!                           Disk  (real at the edge, in memory here, simulated in the tests)
//! ```
//!
//! A [`Log`] is what Kafka calls UnifiedLog. It belongs to one owner at a time (the partition's lock); nothing here waits,
//! sleeps, reads a clock or starts a thread, and no call but [`Log::open`], [`Log::close`] and [`FlushTicket::run`] syncs.
//!
//! Invariants
//! - L1: the log is the truth. Every index, snapshot and leader-epoch file is a function of the `.log` files, and what
//!   recovery makes of them is what they were live.
//! - L2: an append that fails changes nothing: not the log, not the producer state, not an index.
//! - L3: an offset counts as durable only after the file that holds it, the names that lead to it, and everything that a
//!   restart would trust below it are durable: segment, then snapshot, then recovery point.
//! - L4: the directory of a partition comes into being with its first batch, `partition.metadata` first. A directory that
//!   is not there is an empty log at offset 0.
//! - L5: a read answers whole batches, in order, all of them below its bound, and skips nothing: an index entry is
//!   believed only after the batch that it points at confirmed it.
//! - L6: no content of a file makes this crate panic or allocate more than a named limit or the file's own size.
//! - L7: a crash leaves a prefix of what was appended, all of it that was acknowledged. (Where a cleaner leaves gaps between
//!   segments, one that a crash made cannot be told from its own, and what follows it is kept; none of that was
//!   acknowledged. Where somebody took a segment away, what is known to have been acknowledged is kept behind the gap.)
//! - L8: producer state outlives the data it came from; only expiry and full truncation take it away.

mod cleaner;
mod config;
mod disk;
mod entry_file;
mod error;
mod file_name;
mod index;
mod leader_epochs;
mod log;
mod log_dir;
mod memory_disk;
mod scan;
mod segment;
mod text_file;

pub use cleaner::{Cleanable, CleanerConfig, Cleaning, CleaningReport, CleaningStep, CleaningTurn};
pub use config::{CleanupPolicy, LogConfig};
pub use disk::{
    DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult, DiskSpace, FilePart,
    write_atomically,
};
pub use error::{AppendError, ReadError, Shortage, StorageError};
pub use file_name::{PartitionDirKind, is_topic_name};
pub use log::{
    AppendOutcome, Appended, Counted, Cut, FlushScope, FlushTicket, FoundTimestamp, Inspection, Log,
    LogFault, LogPosition, LogRecords, MarkerAppend, ReadSlice, Recovery, RecoveryReport, RetentionReason,
    Retired, inspect_log,
};
pub use log_dir::{Checkpoint, LogDir, LogOffsets, PartitionDir};
pub use memory_disk::MemoryDisk;
pub use scan::batch_facts;
pub use text_file::MetaProperties;
