//! The text files: checkpoints, ids, properties.

use fencepost_storage::MetaProperties;
use fencepost_types::Uuid;

use super::kind::FileKind;
use super::output::{Output, Walked};
use super::problem::Problem;
use super::row::Row;
use super::window::FileWindow;

/// No such file is longer: a checkpoint of a hundred thousand partitions with the longest names.
const TEXT_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Dumps the file. Lines that say nothing are problems, the others are shown.
pub(super) fn dump_text(file: &FileWindow, kind: FileKind, output: &mut Output<'_>) -> Walked {
    let Some(text) = text_of(file, output)? else { return Ok(()) };
    match kind {
        FileKind::LeaderEpochs => leader_epochs(&text, output),
        FileKind::OffsetCheckpoint => checkpoint(&text, output, |line| {
            let (topic, partition, offset) = offset_line(line)?;
            Some(Row::Checkpoint { topic: topic.to_owned(), partition, offset })
        }),
        FileKind::PartitionMetadata => partition_metadata(&text, output),
        FileKind::MetaProperties => meta_properties(&text, output),
        FileKind::JsonLine
        | FileKind::Log
        | FileKind::OffsetIndex
        | FileKind::TimeIndex
        | FileKind::TxnIndex
        | FileKind::ProducerSnapshot
        | FileKind::ProducerWindows
        | FileKind::MetadataSnapshot
        | FileKind::Directory
        | FileKind::Unknown => text.lines().try_for_each(|line| output.row(&Row::Line(line.to_owned()))),
    }
}

/// The epochs of a `leader-epoch-checkpoint`; `None` where it says something else, or epochs do not rise.
pub(super) fn read_epochs(file: &FileWindow) -> Walked<Option<Vec<(i32, i64)>>> {
    if file.bytes() > TEXT_BYTES_MAX {
        return Ok(None);
    }
    let bytes = file.copy(0, file.bytes() as usize)?;
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(None) };
    let epochs: Option<Vec<_>> = text.lines().skip(2).map(epoch_line).collect();
    Ok(epochs.filter(|epochs| epochs.is_sorted_by(|a, b| a.0 < b.0)))
}

fn text_of(file: &FileWindow, output: &mut Output<'_>) -> Walked<Option<String>> {
    if file.bytes() > TEXT_BYTES_MAX {
        let text = format!("{} bytes, more than such a file ever has", file.bytes());
        output.problem(&Problem::error("too-long", text))?;
        return Ok(None);
    }
    let bytes = file.copy(0, file.bytes() as usize)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            output.problem(&Problem::error("bad-text", "the file is not UTF-8"))?;
            Ok(Some(String::from_utf8_lossy(error.as_bytes()).into_owned()))
        }
    }
}

fn bad_line(number: usize, why: &str, output: &mut Output<'_>) -> Walked {
    output.problem(&Problem::error("bad-text", format!("line {number}: {why}")))
}

/// `0`, the number of lines, the lines. A file of no bytes is an empty one.
fn checkpoint(text: &str, output: &mut Output<'_>, row: impl Fn(&str) -> Option<Row>) -> Walked {
    if text.is_empty() {
        return Ok(());
    }
    let mut lines = text.lines();
    if lines.next() != Some("0") {
        bad_line(1, "the version is not 0", output)?;
    }
    let count = lines.next().and_then(|line| line.parse::<usize>().ok());
    let mut found = 0;
    for (at, line) in lines.enumerate() {
        match row(line) {
            Some(row) => output.row(&row)?,
            None => bad_line(at + 3, "it does not say what such a line says", output)?,
        }
        found += 1;
    }
    if count != Some(found) {
        bad_line(2, &format!("{found} lines follow, which is not what it says"), output)?;
    }
    if text.ends_with('\n') { Ok(()) } else { bad_line(found + 2, "the last line does not end", output) }
}

fn leader_epochs(text: &str, output: &mut Output<'_>) -> Walked {
    checkpoint(text, output, |line| {
        let (epoch, start_offset) = epoch_line(line)?;
        Some(Row::LeaderEpoch { epoch, start_offset })
    })?;
    let mut before: Option<(i32, i64)> = None;
    for (at, line) in text.lines().enumerate().skip(2) {
        let Some((epoch, start)) = epoch_line(line) else { continue };
        if before.is_some_and(|(before, from)| epoch <= before || start < from) || epoch < 0 || start < 0 {
            bad_line(at + 1, "epochs and offsets do not rise", output)?;
        }
        before = Some((epoch, start));
    }
    Ok(())
}

fn epoch_line(line: &str) -> Option<(i32, i64)> {
    let (epoch, start) = line.split_once(' ')?;
    Some((epoch.parse().ok()?, start.parse().ok()?))
}

fn offset_line(line: &str) -> Option<(&str, i32, i64)> {
    let mut words = line.split(' ');
    let found = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(found)
}

fn partition_metadata(text: &str, output: &mut Output<'_>) -> Walked {
    for (at, line) in text.lines().enumerate() {
        match line.split_once(": ") {
            Some((key, value)) => property(key, value, output)?,
            None => bad_line(at + 1, "it has no name and value", output)?,
        }
    }
    let mut lines = text.lines();
    if lines.next() != Some("version: 0") {
        bad_line(1, "the version is not 0", output)?;
    }
    let id = lines.next().and_then(|line| line.strip_prefix("topic_id: ")).and_then(Uuid::parse);
    if id.is_none_or(Uuid::is_zero) { bad_line(2, "it is no topic's id", output) } else { Ok(()) }
}

/// Lines of comments apart, as they stand; what the whole means is read as a start-up reads it.
fn meta_properties(text: &str, output: &mut Output<'_>) -> Walked {
    for line in
        text.lines().filter(|line| !line.trim_start().starts_with(['#', '!']) && !line.trim().is_empty())
    {
        let (key, value) = line.split_once(['=', ':']).unwrap_or((line, ""));
        property(key.trim(), value.trim(), output)?;
    }
    match MetaProperties::parse(text) {
        Ok(_) => Ok(()),
        Err(why) => output.problem(&Problem::error("bad-text", why)),
    }
}

fn property(key: &str, value: &str, output: &mut Output<'_>) -> Walked {
    output.row(&Row::Property { key: key.to_owned(), value: value.to_owned() })
}
