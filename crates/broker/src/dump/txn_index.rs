//! A `.txnindex`: the aborted transactions whose markers a segment holds.

use fencepost_storage::DiskResult;

use super::output::{Output, Walked};
use super::problem::Problem;
use super::row::{FileHead, Row};
use super::window::FileWindow;

const ENTRY_BYTES: u64 = 34;
const VERSION: i16 = 0;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AbortedEntry {
    pub(super) version: i16,
    pub(super) producer_id: i64,
    pub(super) first_offset: i64,
    pub(super) last_offset: i64,
    pub(super) last_stable_offset: i64,
}

/// The entries of a file, in order; none after one of an unknown version.
#[derive(Debug)]
pub(super) struct AbortedEntries {
    file: FileWindow,
    position: u64,
    waiting: Option<AbortedEntry>,
}

impl AbortedEntries {
    pub(super) fn new(file: FileWindow) -> Self {
        Self { file, position: 0, waiting: None }
    }

    /// The next one of a version that is known.
    pub(super) fn next(&mut self) -> DiskResult<Option<AbortedEntry>> {
        if let Some(entry) = self.waiting.take() {
            return Ok(Some(entry));
        }
        Ok(self.read()?.filter(|entry| entry.version == VERSION))
    }

    /// Makes an entry the next one again.
    pub(super) fn put_back(&mut self, entry: AbortedEntry) {
        self.waiting = Some(entry);
    }

    fn read(&mut self) -> DiskResult<Option<AbortedEntry>> {
        let Some(bytes) = self.file.at(self.position, ENTRY_BYTES as usize)? else { return Ok(None) };
        let version = i16::from_be_bytes([bytes[0], bytes[1]]);
        let mut numbers = [0; 4];
        for (number, field) in numbers.iter_mut().zip(bytes[2..].as_chunks::<8>().0) {
            *number = i64::from_be_bytes(*field);
        }
        let [producer_id, first_offset, last_offset, last_stable_offset] = numbers;
        if version == VERSION {
            self.position += ENTRY_BYTES;
        }
        Ok(Some(AbortedEntry { version, producer_id, first_offset, last_offset, last_stable_offset }))
    }
}

/// Dumps the file.
pub(super) fn dump_txn_index(file: FileWindow, head: &FileHead, output: &mut Output<'_>) -> Walked {
    let bytes = file.bytes();
    let mut entries = AbortedEntries::new(file);
    let mut before: Option<i64> = None;
    while let Some(entry) = entries.read()? {
        if entry.version != VERSION {
            let version = entry.version;
            let text = format!("an entry has version {version}: what follows is not read");
            return output.problem(&Problem::error("unknown-version", text).kills_kafka(format!(
                "KafkaException: Unexpected aborted transaction version {version} in transaction index {}, supported \
                 version range is 0 to 0",
                head.path
            )));
        }
        output.row(&Row::AbortedTxn {
            version: entry.version,
            producer_id: entry.producer_id,
            first_offset: entry.first_offset,
            last_offset: entry.last_offset,
            last_stable_offset: entry.last_stable_offset,
        })?;
        let is_below = head.base_offset.is_some_and(|base| entry.last_offset < base);
        if is_below || before.is_some_and(|before| entry.last_offset <= before) {
            let text =
                format!("the marker of producer {} cannot be at {}", entry.producer_id, entry.last_offset);
            output.problem(&Problem::error("misplaced-marker", text))?;
        }
        before = Some(entry.last_offset);
    }
    let rest = bytes % ENTRY_BYTES;
    if rest != 0 {
        let text = format!(
            "the last {rest} bytes are no entry: the abort in it is lost, its data reads as committed"
        );
        output.problem(&Problem::error("bad-size", text))?;
    }
    Ok(())
}
