//! A `.log` or a metadata snapshot: batch by batch, and record by record where that is asked for.

use fencepost_records::{BatchHeader, Record};
use fencepost_types::Sequence;

use super::batches::{BATCH_BYTES_MAX, Found, batch_at, computed_crc, whole_batch};
use super::content::{Content, contents, control};
use super::kind::file_name;
use super::options::{Decoder, DumpOptions};
use super::output::{Output, Walked};
use super::partition_check::PartitionCheck;
use super::problem::{KafkaSays, Problem, corrupt_record};
use super::row::{BatchRow, FileHead, RecordRow, Row};
use super::window::FileWindow;

/// Dumps the file. `check`, where a whole directory is dumped, sees every batch.
pub(super) fn dump_log(
    file: FileWindow,
    head: &FileHead,
    options: &DumpOptions,
    output: &mut Output<'_>,
    check: Option<&mut PartitionCheck>,
) -> Walked {
    let decoder = options.decoder_for(&head.path);
    let walk = LogWalk {
        file,
        head,
        options,
        decoder,
        output,
        check,
        last_offset: None,
        last_record: -1,
        gaps: None,
    };
    walk.run()
}

struct LogWalk<'a, 'o> {
    file: FileWindow,
    head: &'a FileHead,
    options: &'a DumpOptions,
    decoder: Decoder,
    output: &'a mut Output<'o>,
    check: Option<&'a mut PartitionCheck>,
    /// The last offset of the batch before.
    last_offset: Option<i64>,
    /// The offset of the record before, as Kafka counts: −1 before the first.
    last_record: i64,
    gaps: Option<Gaps>,
}

/// Offsets that are missing between batches: how often, and where first.
struct Gaps {
    count: u64,
    after: i64,
    before: i64,
}

impl LogWalk<'_, '_> {
    fn run(mut self) -> Walked {
        let end = self.options.max_bytes.min(self.file.bytes());
        let mut position = 0;
        let found = loop {
            match batch_at(&mut self.file, position, end)? {
                Found::Batch(batch) => {
                    position = batch.end();
                    self.batch(batch)?;
                }
                other => break other,
            }
        };
        if let Some(Gaps { count, after, before }) = self.gaps.take() {
            let text = format!(
                "{count} times offsets are missing, first between {after} and {before}: compacted, or lost"
            );
            self.output.problem(&Problem::notice("gaps", text))?;
        }
        self.tail(position, end, found)
    }

    fn batch(&mut self, mut batch: BatchRow) -> Walked {
        let computed = computed_crc(&mut self.file, &batch)?;
        let has_crc = computed == batch.header.crc;
        batch.is_valid &= has_crc;
        self.output.row(&Row::Batch(batch))?;
        let (base, last) = (batch.header.base_offset.0, batch.header.last_offset().0);
        if !batch.is_whole() {
            let text =
                format!("the batch at {base} has length {}, below the least", batch.header.batch_length);
            let problem = Problem::error("bad-length", text);
            // Its tool looks for the records all the same.
            let is_read = self.options.reads_records();
            let exception = "IndexOutOfBoundsException: null";
            self.output.problem(&if is_read { problem.kills_kafka(exception) } else { problem })?;
        } else if !has_crc {
            let stored = batch.header.crc;
            let text = format!("the batch at {base} has checksum {computed}, its header says {stored}");
            self.output.problem(&Problem::error("bad-crc", text))?;
        }
        if batch.magic != fencepost_records::MAGIC {
            let text = format!("the batch at {base} has format {}, and was read as format 2", batch.magic);
            self.output.problem(&Problem::error("unknown-format", text))?;
        }
        self.offsets(base, last)?;
        if let Some(check) = &mut self.check {
            check.batch(&self.file, &batch, self.output)?;
        }
        if self.options.reads_records() { self.records(&batch) } else { Ok(()) }
    }

    /// Offsets rise, and lie at or above the one in the file's name.
    fn offsets(&mut self, base: i64, last: i64) -> Walked {
        let first = self.head.base_offset.unwrap_or(0);
        if base < first || last < base {
            let text = format!("a batch from {base} to {last} cannot be in a file from {first} on");
            self.output.problem(&Problem::error("impossible-offsets", text))?;
        }
        match self.last_offset {
            Some(before) if base <= before => {
                let text = format!("a batch begins at {base}, after offset {before}");
                self.output.problem(&Problem::error("offsets-go-back", text))?;
            }
            Some(before) if base - 1 > before => self.gap(before, base),
            Some(_) | None => {}
        }
        self.last_offset = Some(self.last_offset.map_or(last, |before| before.max(last)));
        Ok(())
    }

    fn gap(&mut self, after: i64, before: i64) {
        self.gaps.get_or_insert(Gaps { count: 0, after, before }).count += 1;
    }

    fn records(&mut self, batch: &BatchRow) -> Walked {
        let base = batch.header.base_offset.0;
        if !batch.can_be_read() {
            let bytes = batch.header.total_bytes();
            if batch.is_whole() {
                let text = format!(
                    "the batch at {base} has {bytes} bytes; above {BATCH_BYTES_MAX} it is not looked into"
                );
                self.output.problem(&Problem::notice("batch-too-large", text))?;
            }
            return Ok(());
        }
        let Some(whole) = whole_batch(&self.file, batch)? else { return Ok(()) };
        let records = match whole.records() {
            Ok(records) => records,
            Err(error) => return self.bad_records(base, &error),
        };
        for record in records {
            match record {
                Ok(record) => self.record(&batch.header, &record)?,
                Err(error) => return self.bad_records(base, &error),
            }
        }
        Ok(())
    }

    fn bad_records(&mut self, base: i64, error: &dyn std::fmt::Display) -> Walked {
        let text = format!("the batch at {base} does not hold the records it should: {error}");
        let problem = Problem::error("bad-records", text);
        self.output.problem(&problem.kills_kafka(format!("InvalidRecordException: {error}")))
    }

    fn record(&mut self, header: &BatchHeader, record: &Record) -> Walked {
        let offset = header.record_offset(record.offset_delta);
        if self.options.like_kafka && offset.0 != self.last_record + 1 {
            let text = format!("{} is followed by {offset}", self.last_record);
            let says = KafkaSays::NotConsecutive { offset: self.last_record, next_offset: offset.0 };
            self.output.problem(&Problem::notice("not-consecutive", text).kafka(says))?;
        }
        self.last_record = offset.0;
        let row = self.record_row(header, record);
        self.output.row(&Row::Record(Box::new(row)))
    }

    fn record_row(&self, header: &BatchHeader, record: &Record) -> RecordRow {
        let offset = header.record_offset(record.offset_delta);
        let size = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(-1, |bytes| bytes.len() as i64);
        let shows_contents = self.options.shows_contents() && !header.is_control();
        let (key, value) = if shows_contents { contents(self.decoder, offset, record) } else { (None, None) };
        let header_of = |header: &fencepost_records::RecordHeader| {
            (Content::Bytes(header.key.clone()), header.value.clone().map(Content::Bytes))
        };
        RecordRow {
            offset,
            timestamp_type: header.timestamp_type(),
            timestamp: header.record_timestamp(record.timestamp_delta),
            key_bytes: size(&record.key),
            value_bytes: size(&record.value),
            sequence: sequence(header.base_sequence, record.offset_delta),
            headers: record.headers.iter().map(header_of).collect(),
            control: header.is_control().then(|| control(record)),
            key,
            value,
        }
    }

    /// What stands where no batch begins.
    fn tail(&mut self, position: u64, end: u64, found: Found) -> Walked {
        let bytes = self.file.bytes() - position;
        let is_limited = end < self.file.bytes();
        let why = match found {
            Found::Batch(_) | Found::End => return Ok(()),
            Found::Torn if is_limited => return Ok(()),
            Found::Torn => "the file ends before the batch does".to_owned(),
            Found::Length(length) => format!("a batch of length {length} cannot be"),
            Found::Magic(magic) => format!("format {magic} is not read"),
        };
        let problem = Problem::error(
            "trailing-bytes",
            format!("{bytes} bytes from {position} on are no batches: {why}"),
        );
        let problem = match found {
            Found::Length(length) => problem.kills_kafka(corrupt_record(length, &self.head.path)),
            Found::Batch(_) | Found::End | Found::Torn | Found::Magic(_) => {
                let name = file_name(&self.head.path);
                problem.kafka(KafkaSays::Here(format!("Found {bytes} invalid bytes at the end of {name}")))
            }
        };
        self.output.problem(&problem)
    }
}

/// The sequence of a record, wrapping from the largest number to 0.
fn sequence(base: Sequence, offset_delta: i32) -> i32 {
    if base.0 < 0 { -1 } else { base.plus(offset_delta.max(0)).0 }
}
