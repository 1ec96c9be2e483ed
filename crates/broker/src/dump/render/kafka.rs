//! The text of Kafka's own tool, to the letter.
//!
//! Source: Kafka DumpLogSegments.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::dump::kind::file_name;
use crate::dump::output::Sink;
use crate::dump::problem::{KafkaSays, Problem};
use crate::dump::row::{BatchRow, ControlRow, FileHead, ProducerRow, RecordRow, Row, timestamp_name};
use crate::dump::{DumpOptions, FileKind};

/// What is said at the end is kept until then, up to so many lines for a whole run.
const KEPT_MAX: usize = 1024 * 1024;

/// Writes as Kafka's tool does; what that one says on its standard error goes to a second text.
pub struct KafkaText<'a> {
    out: &'a mut dyn Write,
    aside: &'a mut dyn Write,
    skip_record_metadata: bool,
    working_directory: String,
    path: String,
    /// For each file that has something to be said at the end, in order.
    kept: Vec<Kept>,
    kept_count: usize,
}

/// What is to be said of a file at the end.
#[derive(Default)]
struct Kept {
    path: String,
    index_mismatches: BTreeMap<i64, i64>,
    timestamp_mismatches: Vec<(i64, i64)>,
    timestamps_back: Vec<(i64, i64)>,
    not_found: Vec<(i64, i64)>,
    not_consecutive: BTreeMap<i64, i64>,
}

impl<'a> KafkaText<'a> {
    /// Writes to `out`, and to `aside` what Kafka's tool says on its standard error.
    pub fn new(out: &'a mut dyn Write, aside: &'a mut dyn Write, options: &DumpOptions) -> Self {
        Self {
            out,
            aside,
            skip_record_metadata: options.skip_record_metadata,
            working_directory: options.working_directory.clone(),
            path: String::new(),
            kept: Vec::new(),
            kept_count: 0,
        }
    }

    fn keep(&mut self, kept: impl FnOnce(&mut Kept)) {
        let path = match self.path.starts_with('/') {
            true => self.path.clone(),
            false => format!("{}/{}", self.working_directory, self.path),
        };
        if self.kept.last().is_none_or(|kept| kept.path != path) {
            self.kept.push(Kept { path, ..Kept::default() });
        }
        self.kept_count += 1;
        if self.kept_count <= KEPT_MAX
            && let Some(last) = self.kept.last_mut()
        {
            kept(last);
        }
    }

    fn batch(&mut self, batch: &BatchRow) -> fmt::Result {
        let header = &batch.header;
        let horizon = optional(header.delete_horizon().map(|horizon| horizon.0));
        write!(
            self.out,
            "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {} \
             partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {horizon}",
            header.base_offset,
            header.last_offset(),
            header.record_count,
            header.base_sequence,
            header.last_sequence(),
            header.producer_id,
            header.producer_epoch,
            header.leader_epoch,
            header.is_transactional(),
            header.is_control(),
        )?;
        writeln!(
            self.out,
            " position: {} {}: {} size: {} magic: {} compresscodec: {} crc: {} isvalid: {}",
            batch.position,
            timestamp_name(header.timestamp_type()),
            header.max_timestamp,
            header.total_bytes(),
            batch.magic,
            batch.codec_name(),
            header.crc,
            batch.is_valid,
        )
    }

    fn record(&mut self, record: &RecordRow) -> fmt::Result {
        let mut prefix = "| ";
        if !self.skip_record_metadata {
            write!(
                self.out,
                "{prefix}offset: {} {}: {} keySize: {} valueSize: {} sequence: {} headerKeys: [",
                record.offset,
                timestamp_name(record.timestamp_type),
                record.timestamp,
                record.key_bytes,
                record.value_bytes,
                record.sequence,
            )?;
            prefix = " ";
            for (at, (key, _)) in record.headers.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                write!(self.out, "{comma}{}", key.text())?;
            }
            self.out.write_char(']')?;
            if let Some(control) = &record.control {
                self.control(control)?;
            }
        }
        if let Some(key) = &record.key {
            write!(self.out, "{prefix}key: {}", key.text())?;
            prefix = " ";
        }
        if let Some(value) = &record.value {
            write!(self.out, "{prefix}payload: {}", value.text())?;
        }
        self.out.write_char('\n')
    }

    fn control(&mut self, control: &ControlRow) -> fmt::Result {
        match control {
            ControlRow::EndTxn { result, coordinator_epoch } => {
                write!(self.out, " endTxnMarker: {result} coordinatorEpoch: {coordinator_epoch}")
            }
            ControlRow::KRaft(name, content) => {
                let colon = if *name == "LeaderChange" { ":" } else { "" };
                write!(self.out, " {name}{colon} {content}")
            }
            ControlRow::Unknown(id) => write!(self.out, " controlType: UNKNOWN({id})"),
            ControlRow::Malformed(_) => Ok(()),
        }
    }

    fn producer(&mut self, producer: &ProducerRow) -> fmt::Result {
        let first = optional(Some(producer.current_txn_first_offset).filter(|first| *first >= 0));
        write!(
            self.out,
            "producerId: {} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: {first} lastTimestamp: {}",
            producer.producer_id, producer.producer_epoch, producer.coordinator_epoch, producer.timestamp,
        )?;
        if producer.has_batch() {
            write!(
                self.out,
                " firstSequence: {} lastSequence: {} lastOffset: {} offsetDelta: {} timestamp: {}",
                producer.first_sequence(),
                producer.last_sequence,
                producer.last_offset,
                producer.offset_delta,
                producer.timestamp,
            )?;
        }
        self.out.write_char('\n')
    }
}

impl Sink for KafkaText<'_> {
    fn file(&mut self, file: &FileHead) -> fmt::Result {
        if file.kind == FileKind::Directory {
            return Ok(());
        }
        self.path = java_path(&file.path);
        writeln!(self.out, "Dumping {}", self.path)?;
        match (file.kind, file.base_offset, file.snapshot_id) {
            (FileKind::Log, Some(base), _) => writeln!(self.out, "Log starting offset: {base}"),
            (FileKind::MetadataSnapshot, _, Some((offset, epoch))) => {
                writeln!(self.out, "Snapshot end offset: {offset}, epoch: {epoch}")
            }
            (FileKind::MetadataSnapshot, ..) if file_name(&file.path) == "bootstrap.checkpoint" => {
                writeln!(self.out, "KRaft bootstrap snapshot")
            }
            // allow(catch-all): nothing more is said of the others, whatever they will be.
            _ => Ok(()),
        }
    }

    fn row(&mut self, row: &Row) -> fmt::Result {
        match row {
            Row::Batch(batch) => self.batch(batch),
            Row::Record(record) => self.record(record),
            Row::OffsetEntry { offset, position } => {
                writeln!(self.out, "offset: {offset} position: {position}")
            }
            Row::TimeEntry { timestamp, offset } => {
                writeln!(self.out, "timestamp: {timestamp} offset: {offset}")
            }
            Row::IndexEmpty => writeln!(self.out, "{} is empty.", self.path),
            Row::IndexSane => writeln!(self.out, "{} passed sanity check.", self.path),
            Row::AbortedTxn { version, producer_id, first_offset, last_offset, last_stable_offset } => {
                writeln!(
                    self.out,
                    "version: {version} producerId: {producer_id} firstOffset: {first_offset} lastOffset: {last_offset} \
                 lastStableOffset: {last_stable_offset}"
                )
            }
            Row::Producer(producer) => self.producer(producer),
            // Kafka's tool reads no such file.
            Row::LeaderEpoch { .. } | Row::Checkpoint { .. } | Row::Property { .. } | Row::Line(_) => Ok(()),
        }
    }

    fn problem(&mut self, problem: &Problem) -> fmt::Result {
        match problem.kafka.clone() {
            Some(KafkaSays::Here(text)) => writeln!(self.out, "{text}")?,
            Some(KafkaSays::Aside(text)) => writeln!(self.aside, "{text}")?,
            Some(KafkaSays::IndexMismatch { index_offset, log_offset }) => {
                self.keep(|kept| kept.index_mismatches.extend([(index_offset, log_offset)]));
            }
            Some(KafkaSays::TimestampMismatch { index_timestamp, log_timestamp }) => {
                self.keep(|kept| kept.timestamp_mismatches.push((index_timestamp, log_timestamp)));
            }
            Some(KafkaSays::TimestampsGoBack { timestamp, before }) => {
                self.keep(|kept| kept.timestamps_back.push((timestamp, before)));
            }
            Some(KafkaSays::OffsetNotFound { index_offset, log_offset }) => {
                self.keep(|kept| kept.not_found.push((index_offset, log_offset)));
            }
            Some(KafkaSays::NotConsecutive { offset, next_offset }) => {
                self.keep(|kept| kept.not_consecutive.extend([(offset, next_offset)]));
            }
            // The last words are those of whoever started the run.
            Some(KafkaSays::Dies(_)) | None => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> fmt::Result {
        let Self { aside, kept, kept_count, .. } = self;
        for file in kept.iter().filter(|file| !file.index_mismatches.is_empty()) {
            writeln!(aside, "Mismatches in :{}", file.path)?;
            for (index, log) in file.index_mismatches.iter().rev() {
                writeln!(aside, "  Index offset: {index}, log offset: {log}")?;
            }
        }
        for file in kept.iter().filter(|file| !file.timestamp_mismatches.is_empty()) {
            writeln!(aside, "Found timestamp mismatch in :{}", file.path)?;
            for (index, log) in &file.timestamp_mismatches {
                writeln!(aside, "  Index timestamp: {index}, log timestamp: {log}")?;
            }
        }
        for file in kept.iter().filter(|file| !file.timestamps_back.is_empty()) {
            writeln!(aside, "Found out of order timestamp in :{}", file.path)?;
            for (timestamp, before) in &file.timestamps_back {
                writeln!(aside, "  Index timestamp: {timestamp}, Previously indexed timestamp: {before}")?;
            }
        }
        for file in kept.iter().filter(|file| !file.not_found.is_empty()) {
            writeln!(aside, "The following indexed offsets are not found in :{}", file.path)?;
            for (index, log) in &file.not_found {
                writeln!(aside, "Indexed offset: {index}, found log offset: {log}")?;
            }
        }
        for file in kept.iter().filter(|file| !file.not_consecutive.is_empty()) {
            writeln!(aside, "Non-consecutive offsets in {}", file.path)?;
            for (offset, next) in &file.not_consecutive {
                writeln!(aside, "  {offset} is followed by {next}")?;
            }
        }
        match kept_count.saturating_sub(KEPT_MAX) {
            0 => Ok(()),
            more => writeln!(aside, "and {more} more"),
        }
    }
}

/// Java's `OptionalLong`.
fn optional(number: Option<i64>) -> String {
    number.map_or_else(|| "OptionalLong.empty".to_owned(), |number| format!("OptionalLong[{number}]"))
}

/// A path as Java's `File` has it: no doubled slashes, none at the end.
fn java_path(path: &str) -> String {
    let mut whole = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !whole.ends_with('/') {
            whole.push(c);
        }
    }
    if whole.len() > 1 && whole.ends_with('/') {
        whole.pop();
    }
    whole
}
