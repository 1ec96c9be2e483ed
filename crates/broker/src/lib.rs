//! The engine: request handlers, coordinator runtime, delayed operations. Synchronous: it reaches the world through the
//! [`Disk`](fencepost_storage::Disk), the [`Edge`] and its arguments (`now`), and runs unchanged in the simulator.
//!
//! ```text
//! frame ─► dispatch.rs ─► handlers/… ─► partition.rs (one lock: stage, append, replay)
//!                            │             │
//!                            ▼             ▼ dirty
//!                         runtime.rs     sync.rs ─► high watermark ─► waiting.rs ─► answer
//!                         (shards: decide, append, replay, park)
//! ```
//!
//! Invariants
//! - B1: a request is answered once: by a frame, by nothing (acks 0), or by the end of its connection.
//! - B2: no lock is held over a sync, a parked request, or foreign code; whatever is woken goes through [`Cx`]. The
//!   exceptions: [`Edge`] is told under locks (it must not call back), and the publication of an image, which opens logs,
//!   has a lock of its own. To write checkpoints takes the log directory's turn, for which no request waits. What a
//!   write that failed has left is cut off durably under its partition's lock.
//! - B3: an answer never precedes what it promises: it waits for the high watermark to pass what it wrote, or for the
//!   checkpoint that holds a log start.
//! - B4: nothing polls and nothing sleeps: conditions wake, and deadlines sit in two queues: one for clients, one for
//!   chores.
//! - B5: lock order: publication, shard, partition; the table of fetch sessions, a session. Every other lock is a leaf.
//! - B6: what is kept for clients (parked requests, sessions, watchers) has a limit, and goes when it is answered.
//! - B7: what is heavy by its declared size is never done on the thread that hands a request in, but by way of [`Edge::work`].

mod apis;
mod apply;
mod boot;
mod broker;
mod cleaning;
mod connection;
mod controller;
mod cx;
mod damaged;
mod deadlines;
mod dispatch;
pub mod dump;
mod edge;
mod fetch_wait;
mod flush_rule;
mod frame;
mod gather;
mod group_coordinator;
mod handlers;
mod housekeeping;
mod inspect;
mod lag;
mod log_limit;
mod log_starts;
mod markers;
mod metadata_log;
mod once;
mod partition;
mod partitions;
mod producer_budget;
mod reload;
mod report;
mod respond;
mod runtime;
mod settings;
mod shard_configs;
mod shard_log;
mod sync;
#[cfg(test)]
mod testing;
mod transactions;
mod waiting;
mod weight;
mod work;

pub use boot::StartError;
pub use broker::Broker;
pub use connection::{Connection, ConnectionId, Listener};
pub use cx::Cx;
pub use deadlines::Lane;
pub use edge::Edge;
pub use fencepost_metadata as metadata;
pub use frame::{Chunk, Frame};
pub use inspect::{KnownWindows, Standing};
pub use lag::{GroupLag, LagLimits, LagReport, PartitionLag, RecordsLeft};
pub use log_limit::{Allowed, LogLimit};
pub use reload::Reloaded;
pub(crate) use respond::Exchange;
pub use respond::{Outcome, Respond};
pub use settings::{BrokerSettings, ConnectionLimits, SocketOptions};
pub use sync::{Durability, SyncRound};
pub use work::{Span, WORKS_OF_A_CONNECTION_MAX, Work};
