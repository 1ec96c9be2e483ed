//! Rows and problems for people: columns under headings, a file at a time.

use std::fmt::{self, Write};

use crate::dump::output::Sink;
use crate::dump::problem::{Problem, Severity};
use crate::dump::row::{BatchRow, ControlRow, FileHead, ProducerRow, RecordRow, Row};

/// Rows that are looked at together for the widths of their columns.
const ROWS_TOGETHER: usize = 256;
/// A cell that is wider pushes the others of its row aside.
const WIDTH_MAX: usize = 40;

/// Writes a table for each file.
pub struct TableText<'a> {
    out: &'a mut dyn Write,
    has_file: bool,
    /// The kind of the rows that wait.
    kind: &'static str,
    waiting: Vec<Vec<String>>,
    /// Kinds that have their headings in this file, with the widths so far.
    shapes: Vec<(&'static str, Vec<usize>)>,
    errors: u64,
    notices: u64,
}

impl<'a> TableText<'a> {
    /// Writes to `out`.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            has_file: false,
            kind: "",
            waiting: Vec::new(),
            shapes: Vec::new(),
            errors: 0,
            notices: 0,
        }
    }

    /// Writes the rows that wait.
    fn flush(&mut self) -> fmt::Result {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let kind = self.kind;
        let at = match self.shapes.iter().position(|(name, _)| *name == kind) {
            Some(at) => at,
            None => {
                let headings: Vec<String> =
                    headings(kind).iter().map(|heading| heading.to_string()).collect();
                self.shapes.push((kind, headings.iter().map(|heading| heading.chars().count()).collect()));
                self.waiting.insert(0, headings);
                self.shapes.len() - 1
            }
        };
        let widths = &mut self.shapes[at].1;
        for row in &self.waiting {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count().min(WIDTH_MAX));
            }
        }
        let indent = if kind == "record" { "    " } else { "  " };
        for row in self.waiting.drain(..) {
            let mut line = String::from(indent);
            for (width, cell) in widths.iter().zip(&row) {
                let _ = write!(line, "{cell:<width$}  ");
            }
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl Sink for TableText<'_> {
    fn file(&mut self, file: &FileHead) -> fmt::Result {
        self.flush()?;
        self.shapes.clear();
        let blank = if self.has_file { "\n" } else { "" };
        self.has_file = true;
        write!(self.out, "{blank}{} ({}", file.path, file.kind.name())?;
        if let Some(bytes) = file.bytes {
            write!(self.out, ", {bytes} bytes")?;
        }
        if let Some((offset, epoch)) = file.snapshot_id {
            write!(self.out, ", up to offset {offset} of epoch {epoch}")?;
        }
        writeln!(self.out, ")")
    }

    fn row(&mut self, row: &Row) -> fmt::Result {
        let single = match row {
            Row::IndexEmpty => Some("no entries"),
            Row::IndexSane => Some("passes what a start looks at"),
            Row::Line(text) => Some(text.as_str()),
            Row::Batch(_)
            | Row::Record(_)
            | Row::OffsetEntry { .. }
            | Row::TimeEntry { .. }
            | Row::AbortedTxn { .. }
            | Row::Producer(_)
            | Row::LeaderEpoch { .. }
            | Row::Checkpoint { .. }
            | Row::Property { .. } => None,
        };
        if let Some(text) = single {
            self.flush()?;
            return writeln!(self.out, "  {text}");
        }
        if row.name() != self.kind || self.waiting.len() == ROWS_TOGETHER {
            self.flush()?;
            self.kind = row.name();
        }
        self.waiting.push(cells(row));
        Ok(())
    }

    fn problem(&mut self, problem: &Problem) -> fmt::Result {
        self.flush()?;
        let mark = match problem.severity {
            Severity::Error => {
                self.errors += 1;
                '!'
            }
            Severity::Notice => {
                self.notices += 1;
                '-'
            }
        };
        writeln!(self.out, "{mark} {}: {}", problem.name, problem.text)
    }

    fn finish(&mut self) -> fmt::Result {
        self.flush()?;
        if self.errors + self.notices > 0 {
            writeln!(self.out, "\n{} errors (!), {} notices (-)", self.errors, self.notices)?;
        }
        Ok(())
    }
}

fn headings(kind: &str) -> &'static [&'static str] {
    match kind {
        "batch" => &[
            "offsets",
            "records",
            "producer",
            "sequences",
            "leader",
            "flags",
            "position",
            "bytes",
            "codec",
            "largest time",
            "checksum",
        ],
        "record" => &["offset", "time", "sequence", "key", "value", "headers", "content"],
        "offset-entry" => &["offset", "position"],
        "time-entry" => &["time", "offset"],
        "aborted-transaction" => &["producer", "first", "marker", "last stable"],
        "producer" => {
            &["producer", "coordinator", "transaction from", "sequences", "last offset", "last time"]
        }
        "leader-epoch" => &["epoch", "start offset"],
        "checkpoint" => &["partition", "offset"],
        "property" => &["name", "value"],
        _ => &[],
    }
}

fn cells(row: &Row) -> Vec<String> {
    match row {
        Row::Batch(batch) => batch_cells(batch),
        Row::Record(record) => record_cells(record),
        Row::OffsetEntry { offset, position } => vec![offset.to_string(), position.to_string()],
        Row::TimeEntry { timestamp, offset } => vec![time(*timestamp), offset.to_string()],
        Row::AbortedTxn { version: _, producer_id, first_offset, last_offset, last_stable_offset } => {
            [producer_id, first_offset, last_offset, last_stable_offset].map(i64::to_string).to_vec()
        }
        Row::Producer(producer) => producer_cells(producer),
        Row::LeaderEpoch { epoch, start_offset } => vec![epoch.to_string(), start_offset.to_string()],
        Row::Checkpoint { topic, partition, offset } => {
            vec![format!("{topic}-{partition}"), offset.to_string()]
        }
        Row::Property { key, value } => vec![key.clone(), value.clone()],
        Row::IndexEmpty | Row::IndexSane | Row::Line(_) => Vec::new(),
    }
}

fn batch_cells(batch: &BatchRow) -> Vec<String> {
    let header = &batch.header;
    let flags = [
        (header.is_transactional(), "transaction".to_owned()),
        (header.is_control(), "control".to_owned()),
        (header.delete_horizon().is_some(), {
            format!("until {}", time(header.delete_horizon().map_or(-1, |horizon| horizon.0)))
        }),
    ];
    let flags: Vec<String> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
    vec![
        range(header.base_offset.0, header.last_offset().0),
        header.record_count.to_string(),
        producer(header.producer_id.0, header.producer_epoch.0),
        range(header.base_sequence.0.into(), header.last_sequence().0.into()),
        header.leader_epoch.to_string(),
        or_dash(flags.join(" ")),
        batch.position.to_string(),
        header.total_bytes().to_string(),
        batch.codec_name(),
        time(header.max_timestamp.0),
        if batch.is_valid { "ok".to_owned() } else { "WRONG".to_owned() },
    ]
}

fn record_cells(record: &RecordRow) -> Vec<String> {
    let bytes = |count: i64| if count < 0 { "null".to_owned() } else { format!("{count} bytes") };
    let content = match (&record.control, &record.key, &record.value) {
        (Some(control), ..) => control_text(control),
        (None, None, None) => String::new(),
        (None, key, value) => {
            let text = |part: &Option<crate::dump::Content>| {
                part.as_ref().map_or_else(|| "-".to_owned(), |part| one_line(&part.text()))
            };
            format!("{} = {}", text(key), text(value))
        }
    };
    let headers: Vec<String> = record
        .headers
        .iter()
        .map(|(key, value)| {
            let value = value.as_ref().map_or_else(|| "null".to_owned(), |value| one_line(&value.text()));
            format!("{}={value}", one_line(&key.text()))
        })
        .collect();
    vec![
        record.offset.to_string(),
        time(record.timestamp.0),
        or_dash(if record.sequence < 0 { String::new() } else { record.sequence.to_string() }),
        bytes(record.key_bytes),
        bytes(record.value_bytes),
        or_dash(headers.join(",")),
        content,
    ]
}

fn control_text(control: &ControlRow) -> String {
    match control {
        ControlRow::EndTxn { result, coordinator_epoch } => {
            format!("{result} of coordinator epoch {coordinator_epoch}")
        }
        ControlRow::KRaft(name, content) => format!("{name} {content}"),
        ControlRow::Unknown(id) => format!("control record of unknown type {id}"),
        ControlRow::Malformed(why) => format!("malformed: {why}"),
    }
}

fn producer_cells(row: &ProducerRow) -> Vec<String> {
    let open = row.current_txn_first_offset;
    vec![
        producer(row.producer_id, row.producer_epoch),
        or_dash(if row.coordinator_epoch < 0 { String::new() } else { row.coordinator_epoch.to_string() }),
        or_dash(if open < 0 { String::new() } else { open.to_string() }),
        if row.has_batch() {
            range(row.first_sequence().into(), row.last_sequence.into())
        } else {
            "-".to_owned()
        },
        if row.has_batch() { row.last_offset.to_string() } else { "-".to_owned() },
        time(row.timestamp),
    ]
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

fn producer(producer_id: i64, epoch: i16) -> String {
    if producer_id < 0 { "-".to_owned() } else { format!("{producer_id}/{epoch}") }
}

fn range(first: i64, last: i64) -> String {
    match (first, last) {
        (-1, -1) => "-".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}..{last}"),
    }
}

/// What would break the line, or move the cursor, is escaped.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

/// Milliseconds since the epoch as a date and a time of day in UTC; the number where no year of four digits has it.
fn time(millis: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    const YEAR_10000_MS: i64 = 253_402_300_800_000;
    match millis {
        -1 => return "-".to_owned(),
        0..YEAR_10000_MS => {}
        other => return other.to_string(),
    }
    let (year, month, day) = date(millis / DAY_MS);
    let of_day = millis % DAY_MS;
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{milli:03}")
}

/// Year, month and day of the day with this number since 1970-01-01. Years begin in March, so that the day that comes and
/// goes is their last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let of_era_year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_year + of_era_year / 4 - of_era_year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + of_era_year + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dates around leap days and turns of centuries.
    #[test]
    fn times() {
        for (millis, text) in [
            (-1, "-"),
            (-2, "-2"),
            (0, "1970-01-01 00:00:00.000"),
            (951_782_399_999, "2000-02-28 23:59:59.999"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (4_107_542_399_000, "2100-02-28 23:59:59.000"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000"),
            (1_795_990_000_035, "2026-11-29 22:06:40.035"),
            (253_402_300_799_999, "9999-12-31 23:59:59.999"),
            (253_402_300_800_000, "253402300800000"),
            (i64::MIN, "-9223372036854775808"),
        ] {
            assert_eq!(time(millis), text);
        }
    }

    /// Nothing of a record's content moves the cursor.
    #[test]
    fn content_stays_on_its_line() {
        assert_eq!(one_line("a\nb\u{1b}[2J\r\u{9b}é"), "a\\nb\\u{1b}[2J\\r\\u{9b}é");
    }
}
