//! The transaction index: which transactions were aborted (producer-state §10, storage-formats §7.4).

use alloc::vec::Vec;

use fencepost_types::{Offset, ProducerId};

use crate::batch::CompletedTxn;
use crate::producer_states::ProducerStates;

/// Size of one entry of a `.txnindex` file.
pub const ABORTED_TXN_BYTES: usize = 34;
const VERSION: i16 = 0;

/// One aborted transaction, as the `.txnindex` file of its marker's segment has it.
///
/// Source: Kafka AbortedTxn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AbortedTxn {
    /// Its producer.
    pub producer_id: ProducerId,
    /// Base offset of its first batch.
    pub first_offset: Offset,
    /// Offset of its marker.
    pub last_offset: Offset,
    /// First offset of the earliest transaction of another producer that was open when the marker came, else the offset
    /// after the marker: everything aborted below it is in this entry or an earlier one.
    pub last_stable_offset: Offset,
}

/// The entry has a version that nobody has given a meaning to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnknownVersion(pub i16);

/// Why a `.txnindex` file cannot be trusted. The answer to all of them: rebuild it from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortedIndexError {
    /// The file ends inside an entry; Kafka ignores the rest, and the abort in it is lost.
    Torn {
        /// Bytes after the last whole entry.
        rest_bytes: usize,
    },
    /// An entry has an unknown version.
    UnknownVersion(i16),
    /// A marker lies below the segment's base offset.
    BelowBase(AbortedTxn),
    /// A marker does not lie above the one before it.
    OutOfOrder(AbortedTxn),
}

impl core::fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a transaction index entry has version {}", self.0)
    }
}

impl core::error::Error for UnknownVersion {}

impl core::fmt::Display for AbortedIndexError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Torn { rest_bytes } => {
                write!(f, "the transaction index ends with {rest_bytes} bytes of an entry")
            }
            Self::UnknownVersion(version) => UnknownVersion(*version).fmt(f),
            Self::BelowBase(entry) => write!(f, "the marker of {entry:?} lies below the segment"),
            Self::OutOfOrder(entry) => write!(f, "the marker of {entry:?} lies below the one before it"),
        }
    }
}

impl core::error::Error for AbortedIndexError {}

impl AbortedTxn {
    /// The entry's bytes.
    pub fn encode(&self) -> [u8; ABORTED_TXN_BYTES] {
        let mut bytes = [0; ABORTED_TXN_BYTES];
        bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        let numbers =
            [self.producer_id.0, self.first_offset.0, self.last_offset.0, self.last_stable_offset.0];
        for (field, number) in bytes[2..].chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Reads one entry.
    pub fn decode(bytes: &[u8; ABORTED_TXN_BYTES]) -> Result<Self, UnknownVersion> {
        let version = i16::from_be_bytes([bytes[0], bytes[1]]);
        if version != VERSION {
            return Err(UnknownVersion(version));
        }
        let mut numbers = [0; 4];
        for (number, field) in numbers.iter_mut().zip(bytes[2..].as_chunks::<8>().0) {
            *number = i64::from_be_bytes(*field);
        }
        let [producer_id, first_offset, last_offset, last_stable_offset] = numbers;
        Ok(Self {
            producer_id: ProducerId(producer_id),
            first_offset: Offset(first_offset),
            last_offset: Offset(last_offset),
            last_stable_offset: Offset(last_stable_offset),
        })
    }
}

/// Reads the whole `.txnindex` file of the segment with `base_offset`.
///
/// Differs from Kafka: a torn last entry is an error; there the abort in it is lost, and its data reads as committed
/// (storage-formats §10).
pub fn decode_aborted_index(bytes: &[u8], base_offset: Offset) -> Result<Vec<AbortedTxn>, AbortedIndexError> {
    let (whole, rest) = bytes.as_chunks::<ABORTED_TXN_BYTES>();
    if !rest.is_empty() {
        return Err(AbortedIndexError::Torn { rest_bytes: rest.len() });
    }
    let mut entries: Vec<AbortedTxn> = Vec::with_capacity(whole.len());
    for bytes in whole {
        let entry = AbortedTxn::decode(bytes).map_err(|error| AbortedIndexError::UnknownVersion(error.0))?;
        if entry.last_offset < base_offset {
            return Err(AbortedIndexError::BelowBase(entry));
        }
        if entries.last().is_some_and(|previous| previous.last_offset >= entry.last_offset) {
            return Err(AbortedIndexError::OutOfOrder(entry));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The aborted transactions that a reader of the offsets from `from` (inclusive) to `upper_bound` (exclusive) must
/// know: `entries` are those of the segment that was read and of all following ones, in order, read only as far as
/// needed.
/// The answer is ordered by first offset.
///
/// A transaction that ends in a later segment stands there, so the walk goes on until an entry says that nothing below
/// `upper_bound` was open any more; neither its first nor its last offset says that (producer-state trap 27).
///
/// Differs from Kafka: there the answer is in the order of the markers, and a client that walks the list without
/// sorting it hands out aborted records.
///
/// Source: Kafka TransactionIndex.collectAbortedTxns, LocalLog.collectAbortedTransactions.
pub fn collect_aborted<E>(
    from: Offset,
    upper_bound: Offset,
    entries: impl IntoIterator<Item = Result<AbortedTxn, E>>,
) -> Result<Vec<AbortedTxn>, E> {
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.last_offset >= from && entry.first_offset < upper_bound {
            found.push(entry);
        }
        if entry.last_stable_offset >= upper_bound {
            break;
        }
    }
    found.sort_by_key(|entry| (entry.first_offset, entry.last_offset));
    Ok(found)
}

impl ProducerStates {
    /// The transaction index's entry for a transaction that a marker has just ended; `None` if it was committed. Ask
    /// before the next batch is replayed.
    pub fn aborted_txn(&self, completed: &CompletedTxn) -> Option<AbortedTxn> {
        completed.is_aborted.then(|| AbortedTxn {
            producer_id: completed.producer_id,
            first_offset: completed.first_offset,
            last_offset: completed.last_offset,
            last_stable_offset: self.last_stable_offset_for(completed),
        })
    }
}

#[cfg(test)]
mod tests;
