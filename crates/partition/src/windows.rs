//! Our own `.window` file beside a `.snapshot`: the batches of each producer's window, of which Kafka's format has room for
//! the newest alone. With it a restart knows a retry of any of the five batches that a producer may have in flight.
//!
//! ```text
//! version i16 = 1 │ CRC-32C u32 of what follows │ offset i64 │ checksum u32 in the snapshot │ count i32 │ entries
//! entry: producer id i64 │ epoch i16 │ number of batches i8 │ batches, the oldest first
//! batch: last sequence i32 │ last offset i64 │ offset delta i32 │ largest timestamp i64
//! ```
//!
//! The file belongs to one snapshot, by the offset in its name and by its checksum: where Kafka has written the snapshot
//! anew, the windows are another state's and are not taken. Only producers are in it whose window the snapshot does not tell
//! in full. All numbers are big-endian.

use alloc::vec::Vec;

use fencepost_types::limits::PRODUCER_BATCHES_CACHED_MAX;
use fencepost_types::{Millis, Offset, ProducerEpoch, ProducerId, Sequence};

use crate::entry::{CachedBatch, ProducerEntry};
use crate::producer_states::ProducerStates;
use crate::snapshot::{SnapshotEntry, stored_crc};

const VERSION: i16 = 1;
const CRC_AT: usize = 2;
const BODY_AT: usize = 6;
const SNAPSHOT_CRC_AT: usize = 14;
const COUNT_AT: usize = 18;
const ENTRIES_AT: usize = 22;
const ENTRY_HEAD_BYTES: usize = 11;
const BATCH_BYTES: usize = 24;

/// Why a `.window` file is not taken. The answer to all of them: the newest batch of each producer is known, as with Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowError {
    /// Another version than 1.
    UnknownVersion(i16),
    /// The bytes are not what was written: a checksum that does not match, or too few of them.
    Damaged,
    /// It was written beside another snapshot.
    OtherSnapshot,
    /// The window of this producer cannot be, or is not the one whose newest batch the snapshot has.
    BadWindow(ProducerId),
}

impl core::fmt::Display for WindowError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownVersion(version) => write!(f, "the producer windows have version {version}"),
            Self::Damaged => f.write_str("the producer windows are damaged"),
            Self::OtherSnapshot => f.write_str("the producer windows belong to another snapshot"),
            Self::BadWindow(producer_id) => {
                write!(f, "the window of producer {producer_id} is not the snapshot's")
            }
        }
    }
}

impl core::error::Error for WindowError {}

impl ProducerStates {
    /// The bytes of the `.window` file that belongs to `snapshot`, which is what [`ProducerStates::encode_snapshot`] gives now.
    /// `None` where the snapshot says everything.
    pub fn encode_windows(&self, snapshot: &[u8]) -> Option<Vec<u8>> {
        let mut entries = Vec::new();
        let mut count = 0_i32;
        for (producer_id, entry) in &self.producers {
            if SnapshotEntry::of(*producer_id, entry).restore().batches != entry.batches {
                encode_window(*producer_id, entry, &mut entries);
                count += 1;
            }
        }
        if count == 0 {
            return None;
        }
        let mut bytes = Vec::with_capacity(ENTRIES_AT + entries.len());
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.map_end_offset.0.to_be_bytes());
        bytes.extend_from_slice(&stored_crc(snapshot)?.to_be_bytes());
        bytes.extend_from_slice(&count.to_be_bytes());
        bytes.extend_from_slice(&entries);
        let crc = crc32c::crc32c(&bytes[BODY_AT..]);
        bytes[CRC_AT..BODY_AT].copy_from_slice(&crc.to_be_bytes());
        Some(bytes)
    }

    /// Takes in the windows that were noted beside `snapshot`, which has just been loaded: nothing has been replayed since.
    /// Producers that were left out as expired stay out. On an error nothing has changed.
    pub fn load_windows(&mut self, bytes: &[u8], snapshot: &[u8]) -> Result<(), WindowError> {
        let entries = check_head(bytes, snapshot, self.map_end_offset)?;
        for window in Windows(entries) {
            let Window { producer_id, epoch, batches } = window?;
            let known = self.producers.get(&producer_id);
            let is_possible = is_possible(batches, self.map_end_offset)
                && known.is_none_or(|entry| entry.producer_epoch == epoch && ends_alike(entry, batches));
            if !is_possible {
                return Err(WindowError::BadWindow(producer_id));
            }
        }
        for Window { producer_id, batches, .. } in Windows(entries).flatten() {
            if let Some(entry) = self.producers.get_mut(&producer_id) {
                entry.batches = batches.iter().map(decode_batch).collect();
            }
        }
        Ok(())
    }
}

/// The entries of a file whose head is as it must be.
fn check_head<'a>(bytes: &'a [u8], snapshot: &[u8], offset: Offset) -> Result<&'a [u8], WindowError> {
    let Some((head, entries)) = bytes.split_first_chunk::<ENTRIES_AT>() else {
        return Err(WindowError::Damaged);
    };
    let version = i16::from_be_bytes(field(head, 0));
    if version != VERSION {
        return Err(WindowError::UnknownVersion(version));
    }
    if crc32c::crc32c(&bytes[BODY_AT..]) != u32::from_be_bytes(field(head, CRC_AT)) {
        return Err(WindowError::Damaged);
    }
    let belongs_to =
        (i64::from_be_bytes(field(head, BODY_AT)), u32::from_be_bytes(field(head, SNAPSHOT_CRC_AT)));
    if stored_crc(snapshot).is_none_or(|crc| belongs_to != (offset.0, crc)) {
        return Err(WindowError::OtherSnapshot);
    }
    let count = i32::from_be_bytes(field(head, COUNT_AT));
    if usize::try_from(count).ok() != Some(Windows(entries).count()) {
        return Err(WindowError::Damaged);
    }
    Ok(entries)
}

/// One producer's window in a file.
struct Window<'a> {
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    batches: &'a [[u8; BATCH_BYTES]],
}

/// The windows in these bytes, up to the first that is not whole.
struct Windows<'a>(&'a [u8]);

impl<'a> Iterator for Windows<'a> {
    type Item = Result<Window<'a>, WindowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let window = take_window(&mut self.0);
        if window.is_none() {
            self.0 = &[];
        }
        Some(window.ok_or(WindowError::Damaged))
    }
}

fn take_window<'a>(bytes: &mut &'a [u8]) -> Option<Window<'a>> {
    let (head, rest) = bytes.split_first_chunk::<ENTRY_HEAD_BYTES>()?;
    let count = usize::try_from(i8::from_be_bytes(field(head, 10))).ok()?;
    let (batches, rest) = rest.split_at_checked(count * BATCH_BYTES)?;
    *bytes = rest;
    Some(Window {
        producer_id: ProducerId(i64::from_be_bytes(field(head, 0))),
        epoch: ProducerEpoch(i16::from_be_bytes(field(head, 8))),
        batches: batches.as_chunks().0,
    })
}

/// Whether these can be the batches of one window below `end`: one to five, one behind the other.
fn is_possible(batches: &[[u8; BATCH_BYTES]], end: Offset) -> bool {
    let mut previous = Offset::NONE;
    let mut fits = |batch: CachedBatch| {
        let is_behind = batch.offset_delta >= 0 && batch.base_offset() > previous;
        previous = batch.last_offset;
        is_behind && batch.last_offset < end
    };
    (1..=PRODUCER_BATCHES_CACHED_MAX).contains(&batches.len())
        && batches.iter().map(decode_batch).all(&mut fits)
}

/// Whether the newest batch is the one that the snapshot has; its timestamp there is the producer's.
fn ends_alike(entry: &ProducerEntry, batches: &[[u8; BATCH_BYTES]]) -> bool {
    let place = |batch: CachedBatch| (batch.last_sequence, batch.last_offset, batch.offset_delta);
    batches.last().map(decode_batch).map(place) == entry.batches.last().copied().map(place)
}

fn encode_window(producer_id: ProducerId, entry: &ProducerEntry, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&producer_id.0.to_be_bytes());
    bytes.extend_from_slice(&entry.producer_epoch.0.to_be_bytes());
    let count = i8::try_from(entry.batches.len()).expect("P2: a window holds at most five batches");
    bytes.extend_from_slice(&count.to_be_bytes());
    for batch in &entry.batches {
        bytes.extend_from_slice(&batch.last_sequence.0.to_be_bytes());
        bytes.extend_from_slice(&batch.last_offset.0.to_be_bytes());
        bytes.extend_from_slice(&batch.offset_delta.to_be_bytes());
        bytes.extend_from_slice(&batch.timestamp.0.to_be_bytes());
    }
}

fn decode_batch(bytes: &[u8; BATCH_BYTES]) -> CachedBatch {
    CachedBatch {
        last_sequence: Sequence(i32::from_be_bytes(field(bytes, 0))),
        last_offset: Offset(i64::from_be_bytes(field(bytes, 4))),
        offset_delta: i32::from_be_bytes(field(bytes, 12)),
        timestamp: Millis(i64::from_be_bytes(field(bytes, 16))),
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the caller has checked the length")
}

#[cfg(test)]
mod tests;
