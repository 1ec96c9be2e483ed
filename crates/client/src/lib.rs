//! A small protocol client for the command line and the tests: blocking, one connection, one request at a time. It
//! speaks both transaction versions, which no library client does at will.
//!
//! ```text
//! TransactionalProducer   read_committed
//!          │                    │
//!          ▼                    ▼
//!      requests.rs (messages as values; no I/O)
//!          │
//!          ▼
//!     Connection ── frame ──► broker
//! ```
//!
//! Invariants
//! - K1: an answer that does not carry the correlation id of the request is an error, never another request's answer.
//! - K2: memory grows with the bytes that have come, never with the length that a peer announces.
//! - K3: after an error of the transport the connection is not used again: what was asked may have happened.
//! - K4: a version is used only if both sides know it.
//!
//! [`requests`] and [`committed`] do no I/O and read no clock; the simulator builds its requests with them.

mod apis;
pub mod committed;
mod connection;
mod error;
mod producer;
pub mod requests;

pub use apis::Apis;
pub use committed::{CommittedRecord, read_committed};
pub use connection::{Connection, FRAME_BYTES_MAX, Options};
pub use error::ClientError;
pub use fencepost_protocol as protocol;
pub use fencepost_types as types;
pub use producer::TransactionalProducer;
