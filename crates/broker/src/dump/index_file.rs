//! `.index` and `.timeindex`, compared with the log beside them.

use fencepost_records::{Batch, TimestampType};
use fencepost_storage::{Disk, DiskError, DiskErrorKind, DiskResult};

use super::batches::{Found, batch_at, whole_batch};
use super::kind::{file_name, sibling};
use super::options::DumpOptions;
use super::output::{Output, Walked};
use super::problem::{KafkaSays, Problem, corrupt_record};
use super::row::{BatchRow, FileHead, Row};
use super::window::FileWindow;

const OFFSET_ENTRY_BYTES: u64 = 8;
const TIME_ENTRY_BYTES: u64 = 12;

/// An entry of an offset index, its offset made whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetEntry {
    offset: i64,
    position: i32,
}

/// Dumps an `.index`.
pub(super) fn dump_offset_index(
    disk: &dyn Disk,
    mut index: FileWindow,
    head: &FileHead,
    options: &DumpOptions,
    output: &mut Output<'_>,
) -> Walked {
    let Some(base) = head.base_offset else { return bad_name(output) };
    let Some(mut log) = open_beside(disk, head, ".log")? else {
        return output.problem(&Problem::missing(&beside(head, ".log")));
    };
    let (bytes, count) = (index.bytes(), index.bytes() / OFFSET_ENTRY_BYTES);
    if !bytes.is_multiple_of(OFFSET_ENTRY_BYTES) && !options.index_sanity_check {
        output.problem(&bad_size(bytes, OFFSET_ENTRY_BYTES))?;
    }
    if count == 0 {
        return output.row(&Row::IndexEmpty);
    }
    if options.index_sanity_check {
        return offset_sanity(&mut index, base, head, output);
    }
    let mut before: Option<OffsetEntry> = None;
    for at in 0..count {
        let Some(entry) = offset_entry(&mut index, base, at)? else { break };
        // The file may have been sized in advance: zeros are no entries. Kafka takes the first for one all the same.
        let is_unused = entry.offset == base && entry.position == 0 && !options.like_kafka;
        if is_unused || (entry.offset == base && at > 0) {
            break;
        }
        compare_offset_entry(&mut log, head, entry, options, output)?;
        if !options.verify_index_only {
            output.row(&Row::OffsetEntry { offset: entry.offset, position: entry.position })?;
        }
        let rises = |before: OffsetEntry| before.offset < entry.offset && before.position < entry.position;
        if let Some(before) = before.filter(|before| !rises(*before)) {
            let text = format!(
                "the entry of {} at {} follows the one of {} at {}",
                entry.offset, entry.position, before.offset, before.position
            );
            output.problem(&Problem::error("entries-go-back", text))?;
        }
        before = Some(entry);
    }
    Ok(())
}

/// The batch at the entry's position ends at the entry's offset.
fn compare_offset_entry(
    log: &mut FileWindow,
    head: &FileHead,
    entry: OffsetEntry,
    options: &DumpOptions,
    output: &mut Output<'_>,
) -> Walked {
    let none = |exception: &str| {
        let text =
            format!("the batch that ends at {} should begin at {}: none does", entry.offset, entry.position);
        Problem::error("no-batch-there", text).kills_kafka(exception)
    };
    let Ok(position) = u64::try_from(entry.position) else {
        return output
            .problem(&none(&format!("IllegalArgumentException: Invalid position: {}", entry.position)));
    };
    match batch_at(log, position, position.saturating_add(options.max_message_size))? {
        Found::Batch(batch) if batch.header.last_offset().0 == entry.offset => Ok(()),
        Found::Batch(batch) => {
            let log_offset = batch.header.last_offset().0;
            let text = format!(
                "the index says {} of the batch at {}, which ends at {log_offset}",
                entry.offset, entry.position
            );
            let says = KafkaSays::IndexMismatch { index_offset: entry.offset, log_offset };
            output.problem(&Problem::error("index-mismatch", text).kafka(says))
        }
        Found::Length(length) => output.problem(&none(&corrupt_record(length, &beside(head, ".log")))),
        Found::End | Found::Torn | Found::Magic(_) => output.problem(&none("NoSuchElementException: null")),
    }
}

/// What a start-up looks at: the last entry, and the size.
fn offset_sanity(index: &mut FileWindow, base: i64, head: &FileHead, output: &mut Output<'_>) -> Walked {
    let bytes = index.bytes();
    let last = offset_entry(index, base, bytes / OFFSET_ENTRY_BYTES - 1)?.map_or(base, |entry| entry.offset);
    if last < base {
        let text = format!("the last entry has offset {last}, below the first offset {base}");
        return output.problem(&Problem::error("unsound-index", text).kills_kafka(format!(
            "CorruptIndexException: Corrupt index found, index file {} has non-zero size but the last offset is {last} \
             which is less than the base offset {base}",
            head.path
        )));
    }
    if !bytes.is_multiple_of(OFFSET_ENTRY_BYTES) {
        return output.problem(&bad_size(bytes, OFFSET_ENTRY_BYTES).kills_kafka(format!(
            "CorruptIndexException: Index file {} is corrupt, found {bytes} bytes which is neither positive nor a \
             multiple of 8",
            head.path
        )));
    }
    output.row(&Row::IndexSane)
}

fn offset_entry(index: &mut FileWindow, base: i64, at: u64) -> DiskResult<Option<OffsetEntry>> {
    let Some(bytes) = index.at(at * OFFSET_ENTRY_BYTES, OFFSET_ENTRY_BYTES as usize)? else {
        return Ok(None);
    };
    let bits = u64::from_be_bytes(*bytes.first_chunk().expect("as many bytes as asked for"));
    let (relative, position) = ((bits >> 32) as i32, bits as i32);
    Ok(Some(OffsetEntry { offset: base.saturating_add(relative.into()), position }))
}

/// Dumps a `.timeindex`.
pub(super) fn dump_time_index(
    disk: &dyn Disk,
    mut index: FileWindow,
    head: &FileHead,
    options: &DumpOptions,
    output: &mut Output<'_>,
) -> Walked {
    let Some(base) = head.base_offset else { return bad_name(output) };
    let Some(mut log) = open_beside(disk, head, ".log")? else {
        return output.problem(&Problem::missing(&beside(head, ".log")));
    };
    // Without one the search begins at the start of the log.
    let mut offsets = open_beside(disk, head, ".index")?;
    if offsets.is_none() && options.like_kafka {
        let problem = Problem::missing(&beside(head, ".index"));
        return output.problem(&problem.kills_kafka("IllegalArgumentException: Invalid max index size: -1"));
    }
    if options.index_sanity_check {
        return time_sanity(&mut index, base, head, output);
    }
    let bytes = index.bytes();
    if !bytes.is_multiple_of(TIME_ENTRY_BYTES) {
        output.problem(&bad_size(bytes, TIME_ENTRY_BYTES))?;
    }
    let mut before = -1;
    for at in 0..bytes / TIME_ENTRY_BYTES {
        let Some((timestamp, offset)) = time_entry(&mut index, base, at)? else { break };
        let is_unused = (timestamp, offset) == (0, base) && !options.like_kafka;
        if is_unused || (offset == base && at > 0) {
            break;
        }
        let position = match &mut offsets {
            Some(offsets) => floor(offsets, base, offset)?,
            None => 0,
        };
        if at == 0 && options.like_kafka {
            kafka_reads_all(&mut log, position, head, output)?;
        }
        compare_time_entry(&mut log, position, (timestamp, offset), before, output)?;
        if !options.verify_index_only {
            output.row(&Row::TimeEntry { timestamp, offset })?;
        }
        before = timestamp;
    }
    Ok(())
}

/// A batch from `position` on ends at the entry's offset, its records reach the entry's timestamp, and that is above the
/// one before.
fn compare_time_entry(
    log: &mut FileWindow,
    position: u64,
    (timestamp, offset): (i64, i64),
    before: i64,
    output: &mut Output<'_>,
) -> Walked {
    let batch = match batch_that_reaches(log, position, offset)? {
        Some(batch) if batch.header.last_offset().0 == offset => batch,
        other => {
            let log_offset = other.map_or(-1, |batch| batch.header.last_offset().0);
            let text = match log_offset {
                -1 => format!("the index says {offset}, which the log does not have"),
                log_offset => format!("the index says {offset} where a batch ends at {log_offset}"),
            };
            let says = KafkaSays::OffsetNotFound { index_offset: offset, log_offset };
            return output.problem(&Problem::error("offset-not-found", text).kafka(says));
        }
    };
    match largest_timestamp(log, &batch)? {
        Some(largest) if largest != timestamp => {
            let text = format!(
                "the index says {timestamp} of the batch that ends at {offset}, which reaches {largest}"
            );
            let says = KafkaSays::TimestampMismatch { index_timestamp: timestamp, log_timestamp: largest };
            output.problem(&Problem::error("timestamp-mismatch", text).kafka(says))?;
        }
        Some(_) => {}
        None => {
            let text = format!("the batch that ends at {offset} cannot be looked into");
            output.problem(&Problem::error("bad-records", text).kills_kafka("InvalidRecordException"))?;
        }
    }
    if before >= timestamp {
        let text = format!("timestamp {timestamp} follows {before}");
        let says = KafkaSays::TimestampsGoBack { timestamp, before };
        output.problem(&Problem::error("timestamps-go-back", text).kafka(says))?;
    }
    Ok(())
}

fn batch_that_reaches(log: &mut FileWindow, mut position: u64, offset: i64) -> DiskResult<Option<BatchRow>> {
    while let Found::Batch(batch) = batch_at(log, position, u64::MAX)? {
        if batch.header.last_offset().0 >= offset {
            return Ok(Some(batch));
        }
        position = batch.end();
    }
    Ok(None)
}

/// Kafka's tool reads the whole log from there on, and dies of what it finds at the end.
fn kafka_reads_all(
    log: &mut FileWindow,
    mut position: u64,
    head: &FileHead,
    output: &mut Output<'_>,
) -> Walked {
    loop {
        match batch_at(log, position, u64::MAX)? {
            Found::Batch(batch) => position = batch.end(),
            Found::Length(length) => {
                let problem = Problem::error("trailing-bytes", "the log ends in something else");
                return output.problem(&problem.kills_kafka(corrupt_record(length, &beside(head, ".log"))));
            }
            Found::End | Found::Torn | Found::Magic(_) => return Ok(()),
        }
    }
}

/// The largest timestamp of the batch's records, −1 without any; `None` where they cannot be read.
fn largest_timestamp(log: &FileWindow, batch: &BatchRow) -> DiskResult<Option<i64>> {
    if !batch.can_be_read() {
        return Ok(None);
    }
    let Some(whole) = whole_batch(log, batch)? else { return Ok(None) };
    let mut largest = -1;
    let walked = Batch::walk_records(&whole, |record| {
        largest = largest.max(batch.header.record_timestamp(record.timestamp_delta).0);
    });
    let is_append_time = batch.header.timestamp_type() == TimestampType::LogAppendTime;
    let largest = if is_append_time && largest >= 0 { batch.header.max_timestamp.0 } else { largest };
    Ok(walked.is_ok().then_some(largest))
}

/// What a start-up looks at: the last entry against the first, and the size.
fn time_sanity(index: &mut FileWindow, base: i64, head: &FileHead, output: &mut Output<'_>) -> Walked {
    let (bytes, count) = (index.bytes(), index.bytes() / TIME_ENTRY_BYTES);
    let first = time_entry(index, base, 0)?.map_or(-1, |(timestamp, _)| timestamp);
    let last = if count == 0 { None } else { time_entry(index, base, count - 1)? };
    let (timestamp, offset) = last.unwrap_or((first, base));
    let wrong = if timestamp < first {
        Some(("timestamp", timestamp, first, "first timestamp"))
    } else if offset < base {
        Some(("offset", offset, base, "first offset"))
    } else {
        None
    };
    if let Some((what, last, first, name)) = wrong {
        let text = format!("the {what} of the last entry, {last}, is below the {name}, {first}");
        return output.problem(&Problem::error("unsound-index", text).kills_kafka(format!(
            "CorruptIndexException: Corrupt time index found, time index file ({}) has non-zero size but the last {what} \
             is {last} which is less than the {name} {first}",
            head.path
        )));
    }
    if !bytes.is_multiple_of(TIME_ENTRY_BYTES) {
        return output.problem(&bad_size(bytes, TIME_ENTRY_BYTES).kills_kafka(format!(
            "CorruptIndexException: Time index file {} is corrupt, found {bytes} bytes which is neither positive nor a \
             multiple of 12",
            head.path
        )));
    }
    output.row(&Row::IndexSane)
}

fn time_entry(index: &mut FileWindow, base: i64, at: u64) -> DiskResult<Option<(i64, i64)>> {
    let Some(bytes) = index.at(at * TIME_ENTRY_BYTES, TIME_ENTRY_BYTES as usize)? else { return Ok(None) };
    let (timestamp, relative) = bytes.split_first_chunk().expect("as many bytes as asked for");
    let relative = i32::from_be_bytes(*relative.first_chunk().expect("as many bytes as asked for"));
    Ok(Some((i64::from_be_bytes(*timestamp), base.saturating_add(relative.into()))))
}

/// Where to look for an offset: the position of the last entry at or below it, else the start.
fn floor(index: &mut FileWindow, base: i64, offset: i64) -> DiskResult<u64> {
    let (mut low, mut high) = (0, index.bytes() / OFFSET_ENTRY_BYTES);
    let mut position = 0;
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(entry) = offset_entry(index, base, middle)? else { break };
        // Zeros at the end of a file that was sized in advance count as above everything.
        let is_unused = entry.offset == base && entry.position == 0;
        if is_unused || entry.offset > offset {
            high = middle;
        } else {
            position = u64::try_from(entry.position).unwrap_or(0);
            low = middle + 1;
        }
    }
    Ok(position)
}

/// The file of the same segment with another suffix; `None` if there is none.
fn open_beside(disk: &dyn Disk, head: &FileHead, suffix: &str) -> DiskResult<Option<FileWindow>> {
    match FileWindow::open(disk, &beside(head, suffix)) {
        Ok(file) => Ok(Some(file)),
        Err(DiskError { kind: DiskErrorKind::NotFound, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn beside(head: &FileHead, suffix: &str) -> String {
    let stem = file_name(&head.path).split('.').next().unwrap_or_default();
    sibling(&head.path, &format!("{stem}{suffix}"))
}

fn bad_size(bytes: u64, entry_bytes: u64) -> Problem {
    Problem::error("bad-size", format!("{bytes} bytes are not a number of whole entries of {entry_bytes}"))
}

pub(super) fn bad_name(output: &mut Output<'_>) -> Walked {
    let text = "the name does not begin with an offset";
    output.problem(&Problem::error("bad-name", text).kills_kafka("NumberFormatException"))
}
