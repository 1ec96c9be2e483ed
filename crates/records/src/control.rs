//! Control records: transaction markers, and the types KRaft uses.
//!
//! A control record's key is a version and a type, both i16. Readers take any version and a longer key, and leave out
//! types they do not know. Control records occupy offsets; they are sent to consumers, but never handed to applications.

use core::fmt;

use fencepost_types::{
    CoordinatorEpoch, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
};

use crate::batch::{Batch, BatchError};
use crate::builder::BatchBuilder;

/// What a control record is. Source: Kafka ControlRecordType.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControlRecordType {
    /// A transaction was aborted.
    Abort,
    /// A transaction was committed.
    Commit,
    /// A KRaft leader took over.
    LeaderChange,
    /// A KRaft snapshot begins.
    SnapshotHeader,
    /// A KRaft snapshot ends.
    SnapshotFooter,
    /// The level of `kraft.version`.
    KRaftVersion,
    /// The voters of the metadata quorum.
    KRaftVoters,
    /// A type that came later: to be left out.
    Unknown(i16),
}

impl ControlRecordType {
    /// From its number.
    pub fn from_id(id: i16) -> Self {
        match id {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KRaftVersion,
            6 => Self::KRaftVoters,
            id => Self::Unknown(id),
        }
    }

    /// Its number.
    pub fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KRaftVersion => 5,
            Self::KRaftVoters => 6,
            Self::Unknown(id) => id,
        }
    }

    /// From a control record's key. Errors: [`ControlError::Key`].
    pub fn from_key(key: Option<&[u8]>) -> Result<Self, ControlError> {
        let key = key.and_then(|key| key.first_chunk::<4>()).ok_or(ControlError::Key)?;
        let [version, id] = [[key[0], key[1]], [key[2], key[3]]].map(i16::from_be_bytes);
        if version < 0 { Err(ControlError::Key) } else { Ok(Self::from_id(id)) }
    }

    /// The key of a control record of this type.
    pub fn key(self) -> [u8; 4] {
        let id = self.id().to_be_bytes();
        [0, 0, id[0], id[1]]
    }

    /// How a transaction ended; `None` for all types but the two markers.
    pub fn transaction_result(self) -> Option<TransactionResult> {
        match self {
            Self::Abort => Some(TransactionResult::Abort),
            Self::Commit => Some(TransactionResult::Commit),
            Self::LeaderChange
            | Self::SnapshotHeader
            | Self::SnapshotFooter
            | Self::KRaftVersion
            | Self::KRaftVoters
            | Self::Unknown(_) => None,
        }
    }
}

/// Why a control batch cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlError {
    /// No key, one shorter than four bytes, or one of a negative version.
    Key,
    /// A marker's value is missing, shorter than six bytes, or of a negative version.
    MarkerValue,
    /// The batch's records are not records.
    Batch(BatchError),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("a control record has no proper key"),
            Self::MarkerValue => f.write_str("a transaction marker has no proper value"),
            Self::Batch(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ControlError {}

/// What ends a transaction in a partition. Source: Kafka EndTransactionMarker; KIP-98.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndTxnMarker {
    /// How it ends.
    pub result: TransactionResult,
    /// The leader epoch of the `__transaction_state` partition that decided so.
    pub coordinator_epoch: CoordinatorEpoch,
}

impl EndTxnMarker {
    /// The bytes of the marker's value: version 0, coordinator epoch.
    const VALUE_BYTES: usize = 6;

    /// The batch that carries the marker: 78 bytes, CreateTime. Offset and leader epoch are the log's to set, and so is
    /// the append-time bit in a topic that has it.
    pub fn to_batch(
        self,
        base_offset: Offset,
        leader_epoch: LeaderEpoch,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        timestamp: Millis,
    ) -> Batch {
        let record_type = match self.result {
            TransactionResult::Commit => ControlRecordType::Commit,
            TransactionResult::Abort => ControlRecordType::Abort,
        };
        let mut builder = BatchBuilder::new(base_offset, leader_epoch)
            .producer(producer_id, producer_epoch, Sequence::NONE)
            .transactional(true)
            .control(true);
        builder.append(timestamp, Some(&record_type.key()), Some(&self.value()), &[]);
        builder.build().expect("control records are not compressed")
    }

    /// The value of the marker's record.
    pub fn value(self) -> [u8; Self::VALUE_BYTES] {
        let epoch = self.coordinator_epoch.0.to_be_bytes();
        [0, 0, epoch[0], epoch[1], epoch[2], epoch[3]]
    }

    /// From the key and value of a control record; `None` where it is not a marker. Higher versions of the value
    /// are read as version 0.
    pub fn from_record(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Option<Self>, ControlError> {
        let Some(result) = ControlRecordType::from_key(key)?.transaction_result() else { return Ok(None) };
        let value = value.and_then(|value| value.first_chunk::<{ Self::VALUE_BYTES }>());
        let value = value.ok_or(ControlError::MarkerValue)?;
        if i16::from_be_bytes([value[0], value[1]]) < 0 {
            return Err(ControlError::MarkerValue);
        }
        let epoch = i32::from_be_bytes([value[2], value[3], value[4], value[5]]);
        Ok(Some(Self { result, coordinator_epoch: CoordinatorEpoch(epoch) }))
    }

    /// The marker in a batch. `None` where the batch holds no control records, none at all (compaction left it
    /// empty: it changes nothing), or another type than a marker.
    pub fn from_batch(batch: &Batch) -> Result<Option<Self>, ControlError> {
        if !batch.header().is_control() {
            return Ok(None);
        }
        // A marker is the only record of its batch.
        match batch.records().map_err(ControlError::Batch)?.next() {
            None => Ok(None),
            Some(Err(error)) => Err(ControlError::Batch(error.into())),
            Some(Ok(record)) => Self::from_record(record.key.as_deref(), record.value.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests;
