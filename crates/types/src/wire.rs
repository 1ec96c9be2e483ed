//! The primitives of Kafka's encoding, shared by the messages of the protocol and by persisted records.
//!
//! A [`Reader`] stands on a [`Bytes`](bytes::Bytes): byte fields come out as slices of it, without a copy. A [`Writer`] collects
//! pieces: small fields go into one growing buffer, large byte fields are kept as the slices they are, and records of a
//! Fetch answer may stay in their file until the answer leaves.
//!
//! What counts as malformed is Kafka's rule (`spec: wire-apis §2`): lengths below −1 read as null, booleans are any
//! non-zero byte, text that is not UTF-8 is taken with replacement characters, unknown tags are skipped.

mod pieces;
mod reader;
mod writer;

pub use pieces::{Piece, Pieces};
pub use reader::{DecodeError, Decoded, Reader};
pub use writer::Writer;

#[cfg(test)]
mod tests;
