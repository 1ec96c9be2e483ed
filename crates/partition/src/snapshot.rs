//! Kafka's `.snapshot` file: the producer table as it stood below one offset (producer-state §11, storage-formats
//! §7.5).

use alloc::vec::Vec;

use fencepost_types::{CoordinatorEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence};

use crate::entry::{CachedBatch, ProducerEntry};
use crate::producer_states::ProducerStates;

const VERSION: i16 = 1;
const CRC_AT: usize = 2;
const BODY_AT: usize = 6;
const ENTRIES_AT: usize = 10;
const ENTRY_BYTES: usize = 46;

/// A snapshot that was read, entry by entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProducerSnapshot {
    /// In the order of the file, which means nothing.
    pub entries: Vec<SnapshotEntry>,
}

/// One producer in a snapshot. Only the newest batch of its window is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotEntry {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// Last sequence of the newest batch, or −1.
    pub last_sequence: Sequence,
    /// Last offset of the newest batch, or −1.
    pub last_offset: Offset,
    /// Last minus base offset of the newest batch, or 0.
    pub offset_delta: i32,
    /// Timestamp of the last batch or marker.
    pub timestamp: Millis,
    /// Coordinator epoch of the last marker, or −1.
    pub coordinator_epoch: CoordinatorEpoch,
    /// First offset of the open transaction, or −1.
    pub current_txn_first_offset: Offset,
}

/// Why a snapshot cannot be used. The answer to all of them: remove it and take an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotError {
    /// Fewer bytes than a header.
    TooShort,
    /// Another version than 1.
    UnknownVersion(i16),
    /// The checksum does not match.
    BadCrc {
        /// Of the bytes.
        computed: u32,
        /// In the header.
        stored: u32,
    },
    /// The number of entries does not fit the number of bytes.
    BadCount(i32),
    /// An entry holds what no producer can have, or an offset that the snapshot does not cover.
    BadEntry(SnapshotEntry),
}

impl core::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooShort => f.write_str("the producer snapshot is shorter than its header"),
            Self::UnknownVersion(version) => write!(f, "the producer snapshot has version {version}"),
            Self::BadCrc { computed, stored } => {
                write!(
                    f,
                    "the producer snapshot has checksum {computed:#010x}, its header says {stored:#010x}"
                )
            }
            Self::BadCount(count) => write!(f, "the producer snapshot does not hold {count} entries"),
            Self::BadEntry(entry) => write!(f, "the producer snapshot holds an impossible entry: {entry:?}"),
        }
    }
}

impl core::error::Error for SnapshotError {}

impl ProducerSnapshot {
    /// Reads a `.snapshot` file.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        if bytes.len() < ENTRIES_AT {
            return Err(SnapshotError::TooShort);
        }
        let version = i16::from_be_bytes(array(bytes, 0));
        if version != VERSION {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let stored = u32::from_be_bytes(array(bytes, CRC_AT));
        let computed = crc32c::crc32c(&bytes[BODY_AT..]);
        if computed != stored {
            return Err(SnapshotError::BadCrc { computed, stored });
        }
        let count = i32::from_be_bytes(array(bytes, BODY_AT));
        let body = &bytes[ENTRIES_AT..];
        let (whole, rest) = body.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() || usize::try_from(count) != Ok(whole.len()) {
            return Err(SnapshotError::BadCount(count));
        }
        let entries = whole.iter().map(SnapshotEntry::decode).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// The bytes of a `.snapshot` file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ENTRIES_AT + self.entries.len() * ENTRY_BYTES);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let count = i32::try_from(self.entries.len()).expect("fewer than 2^31 producers");
        bytes.extend_from_slice(&count.to_be_bytes());
        self.entries.iter().for_each(|entry| entry.encode(&mut bytes));
        let crc = crc32c::crc32c(&bytes[BODY_AT..]);
        bytes[CRC_AT..BODY_AT].copy_from_slice(&crc.to_be_bytes());
        bytes
    }
}

impl SnapshotEntry {
    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Result<Self, SnapshotError> {
        let entry = Self {
            producer_id: ProducerId(i64::from_be_bytes(array(bytes, 0))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(array(bytes, 8))),
            last_sequence: Sequence(i32::from_be_bytes(array(bytes, 10))),
            last_offset: Offset(i64::from_be_bytes(array(bytes, 14))),
            offset_delta: i32::from_be_bytes(array(bytes, 22)),
            timestamp: Millis(i64::from_be_bytes(array(bytes, 26))),
            coordinator_epoch: CoordinatorEpoch(i32::from_be_bytes(array(bytes, 34))),
            current_txn_first_offset: Offset(i64::from_be_bytes(array(bytes, 38))),
        };
        if entry.is_possible() { Ok(entry) } else { Err(SnapshotError::BadEntry(entry)) }
    }

    fn is_possible(&self) -> bool {
        self.producer_id.0 >= 0
            && self.offset_delta >= 0
            && self.last_offset.0 >= -1
            && (self.last_offset.0 == -1 || i64::from(self.offset_delta) <= self.last_offset.0)
            && self.current_txn_first_offset.0 >= -1
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.producer_id.0.to_be_bytes());
        bytes.extend_from_slice(&self.producer_epoch.0.to_be_bytes());
        bytes.extend_from_slice(&self.last_sequence.0.to_be_bytes());
        bytes.extend_from_slice(&self.last_offset.0.to_be_bytes());
        bytes.extend_from_slice(&self.offset_delta.to_be_bytes());
        bytes.extend_from_slice(&self.timestamp.0.to_be_bytes());
        bytes.extend_from_slice(&self.coordinator_epoch.0.to_be_bytes());
        bytes.extend_from_slice(&self.current_txn_first_offset.0.to_be_bytes());
    }

    pub(crate) fn of(producer_id: ProducerId, entry: &ProducerEntry) -> Self {
        let newest = entry.batches.last();
        Self {
            producer_id,
            producer_epoch: entry.producer_epoch,
            last_sequence: newest.map_or(Sequence::NONE, |batch| batch.last_sequence),
            last_offset: newest.map_or(Offset::NONE, |batch| batch.last_offset),
            offset_delta: newest.map_or(0, |batch| batch.offset_delta),
            timestamp: entry.last_timestamp,
            coordinator_epoch: entry.coordinator_epoch,
            current_txn_first_offset: entry.current_txn_first_offset.unwrap_or(Offset::NONE),
        }
    }

    /// The entry in memory. The batch gets the entry's timestamp: its own is not in the file.
    pub(crate) fn restore(&self) -> ProducerEntry {
        let batch = CachedBatch {
            last_sequence: self.last_sequence,
            last_offset: self.last_offset,
            offset_delta: self.offset_delta,
            timestamp: self.timestamp,
        };
        ProducerEntry {
            producer_epoch: self.producer_epoch,
            coordinator_epoch: self.coordinator_epoch,
            last_timestamp: self.timestamp,
            current_txn_first_offset: Some(self.current_txn_first_offset).filter(|offset| offset.0 >= 0),
            batches: Some(batch).filter(|batch| batch.last_offset.0 >= 0).into_iter().collect(),
            appended_at: None,
        }
    }
}

impl ProducerStates {
    /// The table as a snapshot at [`ProducerStates::map_end_offset`], ordered by producer id.
    pub fn snapshot(&self) -> ProducerSnapshot {
        let entries = self.producers.iter().map(|(id, entry)| SnapshotEntry::of(*id, entry)).collect();
        ProducerSnapshot { entries }
    }

    /// The bytes of the `.snapshot` file whose name is [`ProducerStates::map_end_offset`].
    pub fn encode_snapshot(&self) -> Vec<u8> {
        self.snapshot().encode()
    }

    /// Starts a rebuild from the bytes of the `.snapshot` file named `offset`: what was known is forgotten (except
    /// verification entries, see [`ProducerStates::clear`]), and the log is to be replayed from `offset` on. Producers
    /// that are expired by their timestamps are left out. On an error nothing has changed.
    ///
    /// A snapshot does not say which completed transactions wait for replication. One at or below the high watermark
    /// needs not: what completes above it is replayed. From one above, the last stable offset may come out higher than
    /// it was, until the high watermark has passed the snapshot.
    ///
    /// Source: Kafka ProducerStateManager.loadFromSnapshot, readSnapshot.
    pub fn load_snapshot(
        &mut self,
        bytes: &[u8],
        offset: Offset,
        now: Millis,
        expiration_ms: i64,
    ) -> Result<(), SnapshotError> {
        let snapshot = ProducerSnapshot::decode(bytes)?;
        let beyond = |entry: &&SnapshotEntry| entry.last_offset.max(entry.current_txn_first_offset) >= offset;
        if let Some(entry) = snapshot.entries.iter().find(beyond) {
            return Err(SnapshotError::BadEntry(*entry));
        }
        self.clear(offset);
        for read in &snapshot.entries {
            let entry = read.restore();
            if !entry.is_expired(now, expiration_ms) {
                self.producers.insert(read.producer_id, entry);
            }
        }
        for (producer_id, entry) in &self.producers {
            self.ongoing.extend(entry.current_txn_first_offset.map(|first| (first, *producer_id)));
        }
        Ok(())
    }
}

/// The checksum that a `.snapshot` file says it has; `None` where it is too short for one.
pub(crate) fn stored_crc(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(CRC_AT..)?.first_chunk()?))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the caller has checked the length")
}

#[cfg(test)]
mod tests;
