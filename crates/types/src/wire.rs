//! The primitives of Kafka's encoding, shared by the messages of the protocol and by persisted records.
//!
//! A [`Reader`] stands on a [`Bytes`](bytes::Bytes): byte fields come out as slices of it, without a copy. A [`Writer`] collects
//! chunks: small fields go into one growing buffer, large byte fields are kept as the slices they are, so that a
//! Fetch answer leaves with one vectored write.
//!
//! What counts as malformed is Kafka's rule (`spec: wire-apis §2`): lengths below −1 read as null, booleans are any
//! non-zero byte, text that is not UTF-8 is taken with replacement characters, unknown tags are skipped.

mod reader;
mod writer;

pub use reader::{DecodeError, Decoded, Reader};
pub use writer::Writer;

#[cfg(test)]
mod tests;
