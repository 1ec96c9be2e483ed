//! What a dump says, as values: one row for each thing found, in the order of the file.

use fencepost_records::{Attributes, BatchHeader, CompressionType, TimestampType};
use fencepost_types::{Millis, Offset};

use super::content::Content;
use super::json::Json;
use super::kind::FileKind;

/// The file that the rows after it come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// As it was given, or as the directory has it.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// The offset in its name.
    pub base_offset: Option<i64>,
    /// Offset and epoch in the name of a metadata snapshot.
    pub snapshot_id: Option<(i64, i32)>,
    /// Its length in bytes, where it could be opened.
    pub bytes: Option<u64>,
}

/// One thing found in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// A batch, of a log or a metadata snapshot.
    Batch(BatchRow),
    /// A record of the batch before.
    Record(Box<RecordRow>),
    /// An entry of an offset index.
    OffsetEntry {
        /// The last offset of a batch.
        offset: i64,
        /// Where that batch starts, bytes.
        position: i32,
    },
    /// An entry of a time index.
    TimeEntry {
        /// The largest timestamp so far.
        timestamp: i64,
        /// The last offset of the batch that has it.
        offset: i64,
    },
    /// An index has no entries.
    IndexEmpty,
    /// An index passed what a start-up checks.
    IndexSane,
    /// An entry of a transaction index.
    AbortedTxn {
        /// Its version.
        version: i16,
        /// The producer.
        producer_id: i64,
        /// First offset of the transaction.
        first_offset: i64,
        /// Offset of its marker.
        last_offset: i64,
        /// First offset of the earliest other transaction open then, or the offset after the marker.
        last_stable_offset: i64,
    },
    /// A producer of a snapshot.
    Producer(ProducerRow),
    /// A line of `leader-epoch-checkpoint`.
    LeaderEpoch {
        /// The epoch.
        epoch: i32,
        /// Its first offset.
        start_offset: i64,
    },
    /// A line of an offset checkpoint.
    Checkpoint {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: i32,
        /// The offset.
        offset: i64,
    },
    /// A property: of `meta.properties` or `partition.metadata`.
    Property {
        /// Its name.
        key: String,
        /// Its value.
        value: String,
    },
    /// A line of another text file.
    Line(String),
}

/// A batch's header and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// Where it starts, bytes.
    pub position: u64,
    /// The header; its magic is read as 2.
    pub header: BatchHeader,
    /// The magic that stands there.
    pub magic: i8,
    /// Whether the checksum is that of the bytes.
    pub is_valid: bool,
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRow {
    /// Its offset.
    pub offset: Offset,
    /// What its timestamp means.
    pub timestamp_type: TimestampType,
    /// Its timestamp.
    pub timestamp: Millis,
    /// Bytes of the key, −1 for null.
    pub key_bytes: i64,
    /// Bytes of the value, −1 for null.
    pub value_bytes: i64,
    /// Its sequence, −1 for none.
    pub sequence: i32,
    /// Keys and values of its headers.
    pub headers: Vec<(Content, Option<Content>)>,
    /// What a control record says.
    pub control: Option<ControlRow>,
    /// The key, where contents are shown.
    pub key: Option<Content>,
    /// The value, where contents are shown.
    pub value: Option<Content>,
}

/// What a control record says.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRow {
    /// A transaction ended.
    EndTxn {
        /// "COMMIT" or "ABORT".
        result: &'static str,
        /// The epoch of the coordinator that decided.
        coordinator_epoch: i32,
    },
    /// A record of KRaft: its name, and its content.
    KRaft(&'static str, Json),
    /// A type without a meaning.
    Unknown(i16),
    /// It is not what its type says.
    Malformed(String),
}

/// A producer in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerRow {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Last sequence of its newest batch, or −1.
    pub last_sequence: i32,
    /// Last offset of its newest batch; below 0 where none is kept.
    pub last_offset: i64,
    /// Last minus first offset of that batch.
    pub offset_delta: i32,
    /// Timestamp of its last batch or marker.
    pub timestamp: i64,
    /// Coordinator epoch of its last marker, or −1.
    pub coordinator_epoch: i32,
    /// Where its open transaction began, or −1.
    pub current_txn_first_offset: i64,
}

impl BatchRow {
    /// Whether the codec's number has a codec.
    pub fn codec(&self) -> Result<CompressionType, i16> {
        let number = self.header.attributes.0 & Attributes::COMPRESSION_MASK;
        self.header.compression().ok_or(number)
    }

    /// The codec's name, also where there is none.
    pub fn codec_name(&self) -> String {
        match self.codec() {
            Ok(codec) => codec.name().to_owned(),
            Err(number) => format!("unknown ({number})"),
        }
    }
}

impl ProducerRow {
    /// The sequence that the newest batch began with.
    pub fn first_sequence(&self) -> i32 {
        // Sequences wrap from the largest number to 0.
        let first = i64::from(self.last_sequence) - i64::from(self.offset_delta);
        let wrapped = if first < 0 { first + (1 << 31) } else { first };
        wrapped as i32
    }

    /// Whether the newest batch is known.
    pub fn has_batch(&self) -> bool {
        self.last_offset >= 0
    }
}

/// "CreateTime" or "LogAppendTime".
pub(super) fn timestamp_name(timestamp_type: TimestampType) -> &'static str {
    match timestamp_type {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

impl Row {
    /// What kind of row it is.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Batch(_) => "batch",
            Self::Record(_) => "record",
            Self::OffsetEntry { .. } => "offset-entry",
            Self::TimeEntry { .. } => "time-entry",
            Self::IndexEmpty => "index-empty",
            Self::IndexSane => "index-sane",
            Self::AbortedTxn { .. } => "aborted-transaction",
            Self::Producer(_) => "producer",
            Self::LeaderEpoch { .. } => "leader-epoch",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Property { .. } => "property",
            Self::Line(_) => "line",
        }
    }

    /// Its fields, for JSON.
    pub fn fields(&self) -> Vec<(&'static str, Json)> {
        let int = |number: i64| Json::Int(number);
        match self {
            Self::Batch(batch) => batch.fields(),
            Self::Record(record) => record.fields(),
            Self::OffsetEntry { offset, position } => {
                vec![("offset", int(*offset)), ("position", int((*position).into()))]
            }
            Self::TimeEntry { timestamp, offset } => {
                vec![("timestamp", int(*timestamp)), ("offset", int(*offset))]
            }
            Self::IndexEmpty | Self::IndexSane => Vec::new(),
            Self::AbortedTxn { version, producer_id, first_offset, last_offset, last_stable_offset } => vec![
                ("version", int((*version).into())),
                ("producerId", int(*producer_id)),
                ("firstOffset", int(*first_offset)),
                ("lastOffset", int(*last_offset)),
                ("lastStableOffset", int(*last_stable_offset)),
            ],
            Self::Producer(producer) => producer.fields(),
            Self::LeaderEpoch { epoch, start_offset } => {
                vec![("epoch", int((*epoch).into())), ("startOffset", int(*start_offset))]
            }
            Self::Checkpoint { topic, partition, offset } => vec![
                ("topic", Json::text(topic.clone())),
                ("partition", int((*partition).into())),
                ("offset", int(*offset)),
            ],
            Self::Property { key, value } => {
                vec![("key", Json::text(key.clone())), ("value", Json::text(value.clone()))]
            }
            Self::Line(text) => vec![("text", Json::text(text.clone()))],
        }
    }
}

impl BatchRow {
    fn fields(&self) -> Vec<(&'static str, Json)> {
        let header = &self.header;
        vec![
            ("baseOffset", Json::Int(header.base_offset.0)),
            ("lastOffset", Json::Int(header.last_offset().0)),
            ("count", Json::Int(header.record_count.into())),
            ("baseSequence", Json::Int(header.base_sequence.0.into())),
            ("lastSequence", Json::Int(header.last_sequence().0.into())),
            ("producerId", Json::Int(header.producer_id.0)),
            ("producerEpoch", Json::Int(header.producer_epoch.0.into())),
            ("leaderEpoch", Json::Int(header.leader_epoch.0.into())),
            ("isTransactional", Json::Bool(header.is_transactional())),
            ("isControl", Json::Bool(header.is_control())),
            ("deleteHorizonMs", Json::or_null(header.delete_horizon().map(|horizon| Json::Int(horizon.0)))),
            ("position", Json::Int(self.position as i64)),
            ("timestampType", Json::text(timestamp_name(header.timestamp_type()))),
            ("maxTimestamp", Json::Int(header.max_timestamp.0)),
            ("size", Json::Int(header.total_bytes() as i64)),
            ("magic", Json::Int(self.magic.into())),
            ("compression", Json::text(self.codec_name())),
            ("crc", Json::Int(header.crc.into())),
            ("isValid", Json::Bool(self.is_valid)),
        ]
    }
}

impl RecordRow {
    fn fields(&self) -> Vec<(&'static str, Json)> {
        let mut fields = vec![
            ("offset", Json::Int(self.offset.0)),
            ("timestamp", Json::Int(self.timestamp.0)),
            ("keySize", Json::Int(self.key_bytes)),
            ("valueSize", Json::Int(self.value_bytes)),
            ("sequence", Json::Int(self.sequence.into())),
        ];
        let header = |(key, value): &(Content, Option<Content>)| {
            let value = Json::or_null(value.as_ref().map(Content::to_json));
            Json::Object(vec![("key", key.to_json()), ("value", value)])
        };
        fields.push(("headers", Json::List(self.headers.iter().map(header).collect())));
        fields.extend(self.control.as_ref().map(|control| ("control", control.to_json())));
        fields.extend(self.key.as_ref().map(|key| ("key", key.to_json())));
        fields.extend(self.value.as_ref().map(|value| ("value", value.to_json())));
        fields
    }
}

impl ControlRow {
    fn to_json(&self) -> Json {
        let named = |name: &'static str| ("type", Json::text(name));
        Json::Object(match self {
            Self::EndTxn { result, coordinator_epoch } => {
                vec![named(result), ("coordinatorEpoch", Json::Int((*coordinator_epoch).into()))]
            }
            Self::KRaft(name, content) => vec![named(name), ("data", content.clone())],
            Self::Unknown(id) => vec![named("UNKNOWN"), ("id", Json::Int((*id).into()))],
            Self::Malformed(why) => vec![named("MALFORMED"), ("reason", Json::text(why.clone()))],
        })
    }
}

impl ProducerRow {
    fn fields(&self) -> Vec<(&'static str, Json)> {
        let open = Some(self.current_txn_first_offset).filter(|first| *first >= 0);
        let mut fields = vec![
            ("producerId", Json::Int(self.producer_id)),
            ("producerEpoch", Json::Int(self.producer_epoch.into())),
            ("coordinatorEpoch", Json::Int(self.coordinator_epoch.into())),
            ("currentTxnFirstOffset", Json::or_null(open.map(Json::Int))),
            ("lastTimestamp", Json::Int(self.timestamp)),
        ];
        if self.has_batch() {
            fields.extend([
                ("firstSequence", Json::Int(self.first_sequence().into())),
                ("lastSequence", Json::Int(self.last_sequence.into())),
                ("lastOffset", Json::Int(self.last_offset)),
                ("offsetDelta", Json::Int(self.offset_delta.into())),
            ]);
        }
        fields
    }
}
