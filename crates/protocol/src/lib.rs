//! Kafka's wire protocol: every message as a struct with its codec, generated from `schema/schema.txt` by
//! `cargo xtask codegen`; headers; dispatch by API key.
//!
//! ```text
//!   frame (without its length)
//!   ┌────────────────┬──────────────┐   RequestHeader::decode      RequestBody::decode
//!   │ request header │ request body │ ───────────────────────►  ──────────────────────►  RequestBody::Produce(…)
//!   └────────────────┴──────────────┘
//!   ┌─────────────────┬───────────────┐                 encode_response
//!   │ response header │ response body │ ◄──────────────────────────────────────────────  ResponseBody::Produce(…)
//!   └─────────────────┴───────────────┘  as chunks: records are kept as the slices they are
//! ```
//!
//! Invariants
//! - W1: no bytes make decoding panic, recurse, or take memory beyond `limits::DECODED_ELEMENT_RATIO_MAX` times their
//!   number (and `DECODED_ELEMENT_BYTES_FREE` besides) for elements; byte fields are slices of the frame.
//! - W2: what Kafka takes as well-formed decodes, what it calls malformed is an error (`wire-apis §2`).
//! - W3: a field that a version lacks decodes to the schema's default and is left out when written.
//! - W4: decoding what was encoded gives the same bytes when encoded again, for every version of every message.
//! - W5: the answer to ApiVersions has a header of version 0, whatever its version.
//!
//! Requests are read and responses written always; the other way round is behind the feature `client`.

#![no_std]

extern crate alloc;

mod api_key;
mod body;
mod header;
mod message;
pub mod messages;

pub use api_key::ApiKey;
pub use body::{RequestBody, ResponseBody};
#[cfg(feature = "client")]
pub use header::encode_request;
pub use header::{RequestHeader, ResponseHeader, encode_response};
pub use message::{Message, Request};
