//! The metadata log's batches: taking them in, control records included, and writing those of the quorum and of snapshots.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use fencepost_records::persisted::kraft_version_record::KRaftVersionRecord;
use fencepost_records::persisted::leader_change_message::LeaderChangeMessage;
use fencepost_records::persisted::snapshot_footer_record::SnapshotFooterRecord;
use fencepost_records::persisted::snapshot_header_record::SnapshotHeaderRecord;
use fencepost_records::persisted::voters_record::VotersRecord;
use fencepost_records::{Batch, BatchBuilder, BatchError, Batches, ControlRecordType, Record};
use fencepost_types::wire::{DecodeError, Reader, Writer};
use fencepost_types::{LeaderEpoch, Millis, Offset};

use crate::image::{Image, ImageFold, ReplayError, SnapshotRecords};
use crate::quorum;
use crate::record::{RecordError, VersionedRecord};

/// Why a batch of the metadata log, or a snapshot, cannot be taken in. Whoever meets one stops (cluster §6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataLogError {
    /// The batch is damaged.
    Batch(BatchError),
    /// A record cannot be read.
    Record {
        /// Its offset.
        offset: Offset,
        /// Why.
        error: RecordError,
    },
    /// A control record cannot be read.
    Control {
        /// Its offset.
        offset: Offset,
        /// Why.
        error: DecodeError,
    },
    /// A record does not fit.
    Replay(ReplayError),
    /// A snapshot does not begin with its header, or does not end with its footer.
    IncompleteSnapshot,
}

impl From<BatchError> for MetadataLogError {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}

impl From<ReplayError> for MetadataLogError {
    fn from(error: ReplayError) -> Self {
        Self::Replay(error)
    }
}

impl core::fmt::Display for MetadataLogError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Batch(error) => write!(f, "a batch of the metadata log is damaged: {error}"),
            Self::Record { offset, error } => {
                write!(f, "the metadata record at offset {offset} cannot be read: {error}")
            }
            Self::Control { offset, error } => {
                write!(f, "the control record at offset {offset} cannot be read: {error}")
            }
            Self::Replay(error) => error.fmt(f),
            Self::IncompleteSnapshot => f.write_str("the metadata snapshot is incomplete"),
        }
    }
}

impl core::error::Error for MetadataLogError {}

/// A control record of the metadata log or of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub enum QuorumRecord {
    /// An epoch begins.
    LeaderChange(LeaderChangeMessage),
    /// A snapshot begins.
    SnapshotHeader(SnapshotHeaderRecord),
    /// A snapshot ends.
    SnapshotFooter(SnapshotFooterRecord),
    /// The level of `kraft.version`.
    KRaftVersion(KRaftVersionRecord),
    /// The voters.
    Voters(VotersRecord),
}

impl QuorumRecord {
    /// The record's type.
    pub fn control_type(&self) -> ControlRecordType {
        match self {
            Self::LeaderChange(_) => ControlRecordType::LeaderChange,
            Self::SnapshotHeader(_) => ControlRecordType::SnapshotHeader,
            Self::SnapshotFooter(_) => ControlRecordType::SnapshotFooter,
            Self::KRaftVersion(_) => ControlRecordType::KRaftVersion,
            Self::Voters(_) => ControlRecordType::KRaftVoters,
        }
    }

    /// The record's value: the message in the version that it names itself.
    pub fn to_value(&self) -> Bytes {
        let mut writer = Writer::new();
        match self {
            Self::LeaderChange(message) => message.encode(&mut writer, message.version),
            Self::SnapshotHeader(message) => message.encode(&mut writer, message.version),
            Self::SnapshotFooter(message) => message.encode(&mut writer, message.version),
            Self::KRaftVersion(message) => message.encode(&mut writer, message.version),
            Self::Voters(message) => message.encode(&mut writer, message.version),
        }
        writer.into_bytes()
    }

    /// Reads a control record; `None` for a type that says nothing here.
    fn read(record: &Record) -> Result<Option<Self>, DecodeError> {
        let key = ControlRecordType::from_key(record.key.as_deref()).map_err(|_| DecodeError::Truncated)?;
        let value = record.value.clone().unwrap_or_default();
        // Every one of these messages begins with its own version.
        let version = Reader::new(value.clone()).i16();
        let mut reader = Reader::new(value);
        Ok(Some(match key {
            ControlRecordType::LeaderChange => {
                Self::LeaderChange(LeaderChangeMessage::decode(&mut reader, version?)?)
            }
            ControlRecordType::SnapshotHeader => {
                Self::SnapshotHeader(SnapshotHeaderRecord::decode(&mut reader, version?)?)
            }
            ControlRecordType::SnapshotFooter => {
                Self::SnapshotFooter(SnapshotFooterRecord::decode(&mut reader, version?)?)
            }
            ControlRecordType::KRaftVersion => {
                Self::KRaftVersion(KRaftVersionRecord::decode(&mut reader, version?)?)
            }
            ControlRecordType::KRaftVoters => Self::Voters(VotersRecord::decode(&mut reader, version?)?),
            ControlRecordType::Abort | ControlRecordType::Commit | ControlRecordType::Unknown(_) => {
                return Ok(None);
            }
        }))
    }
}

impl ImageFold {
    /// Takes in a batch of the log whose checksum has been verified.
    pub fn replay_batch(&mut self, batch: &Batch) -> Result<(), MetadataLogError> {
        self.replay_records(batch, |_| {})
    }

    fn replay_records(
        &mut self,
        batch: &Batch,
        mut seen: impl FnMut(&QuorumRecord),
    ) -> Result<(), MetadataLogError> {
        let header = batch.header();
        let epoch = header.leader_epoch;
        for record in batch.records()? {
            let record = record.map_err(BatchError::from)?;
            let offset = header.base_offset.plus(i64::from(record.offset_delta));
            if !header.attributes.is_control() {
                let value = record.value.unwrap_or_default();
                let versioned = VersionedRecord::from_value(&value)
                    .map_err(|error| MetadataLogError::Record { offset, error })?;
                self.replay(offset, &versioned.record)?;
                continue;
            }
            let control =
                QuorumRecord::read(&record).map_err(|error| MetadataLogError::Control { offset, error })?;
            if let Some(control) = &control {
                seen(control);
            }
            match control {
                Some(QuorumRecord::LeaderChange(_)) => self.replay_leader_change(offset, epoch),
                Some(QuorumRecord::KRaftVersion(record)) => {
                    self.replay_kraft_version(offset, record.kraft_version);
                }
                Some(QuorumRecord::Voters(record)) => self.replay_voters(offset, &record),
                Some(QuorumRecord::SnapshotHeader(_) | QuorumRecord::SnapshotFooter(_)) | None => {
                    self.skip(offset)
                }
            }
        }
        Ok(())
    }
}

/// The batch of control records with which a leader begins its epoch; the first epoch of a log also says the level of
/// `kraft.version` and the voters.
pub fn control_batch(
    base_offset: Offset,
    epoch: LeaderEpoch,
    now: Millis,
    records: &[QuorumRecord],
) -> Batch {
    let mut builder = BatchBuilder::new(base_offset, epoch).control(true);
    for record in records {
        builder.append(now, Some(&record.control_type().key()), Some(&record.to_value()), &[]);
    }
    builder.build().expect("a batch that is not compressed can be built")
}

/// Records in one batch of a snapshot.
const SNAPSHOT_BATCH_RECORDS_MAX: usize = 1_000;
/// Once a batch of a snapshot has so many bytes of records it ends. Kafka reads batches up to 8 MiB.
const SNAPSHOT_BATCH_BYTES: usize = 1 << 20;

/// The batches of a snapshot of an image, one by one. The file's name is [`quorum::checkpoint_file_name`] of the offset after
/// the image's last record, and its epoch.
///
/// Source: KIP-630, KIP-853.
#[derive(Clone, Debug)]
pub struct SnapshotWriter {
    last_contained_at: Millis,
    next_offset: Offset,
    records: SnapshotRecords,
    /// Values of records that wait for a batch.
    // allow(kept): they were made for the batch, and go with it
    waiting: VecDeque<Bytes>,
    is_complete: bool,
}

impl SnapshotWriter {
    /// A snapshot of `image`; `last_contained_at` is the time of the last record in it.
    pub fn new(image: Image, last_contained_at: Millis) -> Self {
        Self {
            last_contained_at,
            next_offset: Offset(0),
            records: SnapshotRecords::new(image),
            waiting: VecDeque::new(),
            is_complete: false,
        }
    }

    /// The image that it is of.
    pub fn image(&self) -> &Image {
        self.records.image()
    }

    fn head(&self) -> Vec<QuorumRecord> {
        let image = self.image();
        let mut head =
            Vec::from([QuorumRecord::SnapshotHeader(quorum::snapshot_header(self.last_contained_at))]);
        if image.kraft_version() > 0 {
            head.push(QuorumRecord::KRaftVersion(quorum::kraft_version(image.kraft_version())));
            head.push(QuorumRecord::Voters(quorum::voters(image.voters())));
        }
        head
    }

    fn control(&self, records: &[QuorumRecord]) -> Batch {
        control_batch(self.next_offset, self.image().epoch(), self.last_contained_at, records)
    }

    /// The next batch of data records; `None` when there are no more.
    fn data(&mut self) -> Option<Batch> {
        while self.waiting.len() < SNAPSHOT_BATCH_RECORDS_MAX {
            let Some(records) = self.records.next() else { break };
            self.waiting.extend(records.iter().map(VersionedRecord::to_value));
        }
        self.waiting.front()?;
        let mut builder = BatchBuilder::new(self.next_offset, self.image().epoch());
        let mut bytes = 0;
        for _ in 0..SNAPSHOT_BATCH_RECORDS_MAX {
            let Some(value) = self.waiting.pop_front() else { break };
            builder.append(self.last_contained_at, None, Some(&value), &[]);
            bytes += value.len();
            if bytes >= SNAPSHOT_BATCH_BYTES {
                break;
            }
        }
        Some(builder.build().expect("a batch that is not compressed can be built"))
    }
}

impl Iterator for SnapshotWriter {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        if self.is_complete {
            return None;
        }
        let batch = if self.next_offset == Offset(0) {
            self.control(&self.head())
        } else {
            self.data().unwrap_or_else(|| {
                self.is_complete = true;
                self.control(&[QuorumRecord::SnapshotFooter(quorum::snapshot_footer())])
            })
        };
        self.next_offset = batch.last_offset().next();
        Some(batch)
    }
}

/// When the last record in a snapshot was written, out of the beginning of its file; `None` where that is no snapshot.
pub fn snapshot_time(beginning: Bytes) -> Option<Millis> {
    let batch = Batches::new(beginning).next()?.ok()?;
    let records = batch.records().ok()?;
    let controls = records.filter_map(|record| QuorumRecord::read(&record.ok()?).ok().flatten());
    controls.into_iter().find_map(|control| match control {
        QuorumRecord::SnapshotHeader(header) => Some(Millis(header.last_contained_log_timestamp)),
        QuorumRecord::LeaderChange(_)
        | QuorumRecord::SnapshotFooter(_)
        | QuorumRecord::KRaftVersion(_)
        | QuorumRecord::Voters(_) => None,
    })
}

/// Reads a snapshot's bytes: the image as of `end_offset` (exclusive) and `epoch`, which its file name says.
///
/// Errors: a batch or record that cannot be taken in; a file without header or footer is incomplete.
pub fn read_snapshot(
    bytes: Bytes,
    end_offset: Offset,
    epoch: LeaderEpoch,
) -> Result<Image, MetadataLogError> {
    let mut fold = ImageFold::default();
    let (mut has_header, mut has_footer) = (false, false);
    for batch in Batches::new(bytes) {
        let batch = batch?;
        batch.verify_crc()?;
        if has_footer {
            return Err(MetadataLogError::IncompleteSnapshot);
        }
        fold.replay_records(&batch, |control| match control {
            QuorumRecord::SnapshotHeader(_) => has_header = true,
            QuorumRecord::SnapshotFooter(_) => has_footer = true,
            QuorumRecord::LeaderChange(_) | QuorumRecord::KRaftVersion(_) | QuorumRecord::Voters(_) => {}
        })?;
        if !has_header {
            return Err(MetadataLogError::IncompleteSnapshot);
        }
    }
    if !has_footer || fold.in_transaction() {
        return Err(MetadataLogError::IncompleteSnapshot);
    }
    Ok(fold.image().clone().as_of(end_offset, epoch))
}
