//! What only a whole partition directory tells: whether segments follow one another, whether every aborted transaction is
//! in its segment's index, whether the leader epochs of the batches are those of the checkpoint.

use std::collections::BTreeMap;

use fencepost_records::EndTxnMarker;
use fencepost_types::TransactionResult;

use super::batches::whole_batch;
use super::output::{Output, Walked};
use super::problem::Problem;
use super::row::BatchRow;
use super::txn_index::{AbortedEntries, AbortedEntry};
use super::window::FileWindow;

/// Open transactions that are kept count of; beyond it the transaction indexes are not compared.
const OPEN_TRANSACTIONS_MAX: usize = 1024 * 1024;
/// A transaction marker is 78 to 82 bytes; a control batch larger than this is none.
const MARKER_BATCH_BYTES_MAX: usize = 4 * 1024;

/// What is known of the partition so far: its segments come in order.
#[derive(Debug, Default)]
pub(super) struct PartitionCheck {
    /// The last offset of the segments before.
    last_offset: Option<i64>,
    /// First offsets of the open transactions, by producer.
    open: BTreeMap<i64, i64>,
    gave_up: bool,
    /// The transaction index of the segment that is being read, as far as it was not compared yet.
    aborted: Option<AbortedEntries>,
    /// The leader epochs of the checkpoint and where they begin; none where it cannot be read.
    epochs: Option<Vec<(i32, i64)>>,
    /// The last epoch that was found not to be there: said once.
    unknown_epoch: Option<i32>,
}

impl PartitionCheck {
    /// With what `leader-epoch-checkpoint` says.
    pub(super) fn new(epochs: Option<Vec<(i32, i64)>>) -> Self {
        Self { epochs, ..Self::default() }
    }

    /// A segment begins; `aborted` is its transaction index, if it has one.
    pub(super) fn segment(
        &mut self,
        base_offset: i64,
        aborted: Option<AbortedEntries>,
        output: &mut Output<'_>,
    ) -> Walked {
        self.aborted = aborted;
        match self.last_offset {
            Some(last) if base_offset <= last => {
                let text = format!("the segment begins at {base_offset}, the one before ends at {last}");
                output.problem(&Problem::error("segments-overlap", text))
            }
            Some(last) if base_offset > last.saturating_add(1) => {
                let text = format!(
                    "the segment begins at {base_offset}, the one before ends at {last}: compacted, or lost"
                );
                output.problem(&Problem::notice("gap-between-segments", text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A batch of the segment.
    pub(super) fn batch(&mut self, file: &FileWindow, batch: &BatchRow, output: &mut Output<'_>) -> Walked {
        let header = &batch.header;
        let (base, last) = (header.base_offset.0, header.last_offset().0);
        self.last_offset = self.last_offset.max(Some(last));
        self.epoch(base, header.leader_epoch.0, output)?;
        if !header.is_transactional() || header.producer_id.0 < 0 {
            return Ok(());
        }
        if header.is_control() {
            return self.marker(file, batch, output);
        }
        if self.open.len() < OPEN_TRANSACTIONS_MAX {
            self.open.entry(header.producer_id.0).or_insert(base);
        } else if !self.gave_up {
            self.gave_up = true;
            let text =
                "too many open transactions: the transaction indexes are not compared with the log any more";
            output.problem(&Problem::notice("too-many-transactions", text))?;
        }
        Ok(())
    }

    /// The segment ends: what is left of its transaction index has no marker.
    pub(super) fn segment_end(&mut self, output: &mut Output<'_>) -> Walked {
        while let Some(entry) = self.next_aborted()? {
            without_marker(&entry, output)?;
        }
        self.aborted = None;
        Ok(())
    }

    fn next_aborted(&mut self) -> Walked<Option<AbortedEntry>> {
        match &mut self.aborted {
            Some(entries) => Ok(entries.next()?),
            None => Ok(None),
        }
    }

    fn marker(&mut self, file: &FileWindow, batch: &BatchRow, output: &mut Output<'_>) -> Walked {
        let header = &batch.header;
        if header.record_count != 1 || !batch.can_be_read() || header.total_bytes() > MARKER_BATCH_BYTES_MAX {
            return Ok(());
        }
        let whole = whole_batch(file, batch)?;
        // What is malformed was or will be said where the records are read.
        let marker = whole.and_then(|whole| EndTxnMarker::from_batch(&whole).ok().flatten());
        let Some(marker) = marker else { return Ok(()) };
        let producer_id = header.producer_id.0;
        let first = self.open.remove(&producer_id);
        match marker.result {
            TransactionResult::Commit => Ok(()),
            TransactionResult::Abort => self.aborted_at(producer_id, header.base_offset.0, first, output),
        }
    }

    /// The index has the abort whose marker is at `last` exactly if data of it was met, and begins it no later.
    fn aborted_at(
        &mut self,
        producer_id: i64,
        last: i64,
        first: Option<i64>,
        output: &mut Output<'_>,
    ) -> Walked {
        let mut entry = self.next_aborted()?;
        while let Some(before) = entry.filter(|entry| entry.last_offset < last) {
            without_marker(&before, output)?;
            entry = self.next_aborted()?;
        }
        if let Some(other) = entry.filter(|entry| entry.last_offset > last)
            && let Some(entries) = &mut self.aborted
        {
            entries.put_back(other);
            entry = None;
        }
        let Some(first) = first.filter(|_| !self.gave_up) else { return Ok(()) };
        match entry.filter(|entry| entry.producer_id == producer_id) {
            None => {
                let text = format!(
                    "the aborted transaction {first} to {last} of producer {producer_id} is not in the transaction \
                     index: its data reads as committed"
                );
                output.problem(&Problem::error("abort-not-indexed", text))
            }
            Some(entry) if entry.first_offset > first => {
                let text = format!(
                    "the aborted transaction of producer {producer_id} that ends at {last} begins at {first}, the \
                     index says {}: what lies between reads as committed",
                    entry.first_offset
                );
                output.problem(&Problem::error("abort-indexed-late", text))
            }
            Some(_) => Ok(()),
        }
    }

    /// The checkpoint has the batch's epoch, and it begins at or below the batch; but epochs before the first are gone with
    /// their data, and the first begins where the log does, which may be within a segment.
    fn epoch(&mut self, base: i64, epoch: i32, output: &mut Output<'_>) -> Walked {
        let Some(epochs) = &self.epochs else { return Ok(()) };
        let at = epochs.binary_search_by_key(&epoch, |(epoch, _)| *epoch);
        let is_known = match at {
            Ok(at) => at == 0 || epochs[at].1 <= base,
            Err(at) => at == 0 && !epochs.is_empty(),
        };
        if is_known || self.unknown_epoch == Some(epoch) {
            return Ok(());
        }
        self.unknown_epoch = Some(epoch);
        let text = format!(
            "leader-epoch-checkpoint does not have epoch {epoch} at offset {base}, where a batch has it"
        );
        output.problem(&Problem::error("unknown-epoch", text))
    }
}

fn without_marker(entry: &AbortedEntry, output: &mut Output<'_>) -> Walked {
    let text = format!(
        "the transaction index has an abort of producer {} at {}, where the log has no such marker",
        entry.producer_id, entry.last_offset
    );
    output.problem(&Problem::notice("abort-without-marker", text))
}
