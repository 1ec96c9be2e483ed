//! Record batches (magic 2): header, view, builder, control batches, compression, what a leader does to a produced
//! batch, and the persisted records of the internal topics.
//!
//! ```text
//! Produce ─► records of one partition (slice of the frame)
//!              │ validate: checks, new attributes, maximum timestamp, checksum
//!              ▼
//!            ValidatedBatch = header (61 bytes, by value) + payload (the same slice)
//!              │ place: base offset and leader epoch, outside the checksum
//!              ▼
//!            one vectored write
//!
//! file ─► Batches ─► Batch (view of a slice) ─► RecordIter (decompresses when needed)
//! coordinator, marker ─► BatchBuilder, EndTxnMarker ─► Batch
//! ```
//!
//! Invariants
//! - R1: a [`Batch`] has magic 2, a length of at least 49, and exactly the bytes its length announces. Nothing else
//!   about it is believed until it is checked: the checksum by [`Batch::verify_crc`], the records by walking them.
//! - R2: nothing that bytes contain makes this crate panic, or allocate more than the limits in
//!   [`fencepost_types::limits`] and beside the codecs.
//! - R3: a produced batch keeps its payload as the slice it is, unless the topic asks for another codec; producer id,
//!   epoch, base sequence and the transactional bit are carried over even then.
//! - R4: base offset and leader epoch lie outside the checksum; everything from the attributes on is inside it, and
//!   whoever changes it recomputes the checksum.
//! - R5: offsets within a batch come from its header. After compaction a batch may hold fewer records than its range
//!   has offsets, also none: readers go on at the last offset + 1, never by counting records.
//!
//! The core is `no_std`; the codecs need the standard library and sit behind the feature `compression` (on by default).
//! Without it a compressed batch is [`CompressionError::Unsupported`].

#![cfg_attr(not(any(feature = "std", test)), no_std)]

extern crate alloc;

mod batch;
mod builder;
pub mod compression;
pub mod control;
mod header;
pub mod persisted;
mod record;
pub mod validate;
mod varint;
mod walk;

pub use batch::{Batch, BatchError, Batches};
pub use builder::BatchBuilder;
pub use compression::{Compression, CompressionError, CompressionType};
pub use control::{ControlRecordType, EndTxnMarker};
pub use header::{
    Attributes, BatchHeader, HEADER_BYTES, LENGTH_MIN, LOG_OVERHEAD_BYTES, MAGIC, TimestampType,
};
pub use record::{Record, RecordHeader, RecordIter};
pub use validate::{
    AppendOrigin, AppendRefusal, AppendRules, RecordFault, RecordRefusal, ValidatedBatch, validate,
};
pub use walk::{RecordError, RecordShape, walk};
