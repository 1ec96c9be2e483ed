//! Side files that do not fit the log are made anew out of its batches.

use fencepost_partition::AbortedTxn;
use fencepost_types::{LeaderEpoch, Millis, Offset};

use super::read::damaged;
use super::{BatchOrder, Log, segment_files};
use crate::error::StorageError;
use crate::leader_epochs::LeaderEpochs;
use crate::scan::Scan;
use crate::segment::{IndexFaults, Segment};

/// After a clean stop so many entries of transaction indexes are held against the log, the newest first: some 10 ms of look-ups.
const ABORTS_CHECKED_MAX: usize = 10_000;
/// So many bytes of a log are replayed to see whether its transaction indexes are right, the newest segments first; after a
/// clean stop so many of segments without one to see that nothing was aborted in them.
const ABORTS_SCANNED_BYTES_MAX: u64 = 16 * 1024 * 1024;

impl Log {
    /// Makes the `.index` and `.timeindex` anew of segments whose batches are believed and whose indexes are not. It may be the
    /// batch that is wrong and not the entry that names it: so checksums are looked at, and what the checksum leaves out.
    ///
    /// Differs from Kafka, which trusts them below the recovery point, and then skips records (storage-formats §10).
    pub(super) fn repair_positions(
        &mut self,
        faults: &[IndexFaults],
        first_recovered: usize,
        durable_end: Offset,
    ) -> Result<(), StorageError> {
        let (disk, interval_bytes) = (self.disk.clone(), self.config.index_interval_bytes);
        let bases: Vec<Offset> = self.segments.iter().map(|segment| segment.base_offset).collect();
        for at in (0..first_recovered).filter(|at| faults[*at].positions) {
            let gaps = self.gaps_of(at, durable_end);
            let segment = &mut self.segments[at];
            segment.clear_positions(&*disk)?;
            let log = segment.log.clone();
            let mut walk = Scan::walk(&*log, 0, segment.bytes);
            let (mut position, mut order) = (0, BatchOrder::new(segment.base_offset, gaps));
            while let Some(batch) = walk.next()? {
                if !order.admits(&batch.header) || !walk.is_intact(&batch)? {
                    break;
                }
                order.pass(&batch.header);
                segment.index_batch(&batch, interval_bytes);
                position = batch.end();
            }
            let next_base = bases.get(at + 1).copied();
            let is_damaged = match next_base {
                Some(base) => position < segment.bytes || order.end_offset() > base,
                None => position < segment.bytes && order.end_offset() < durable_end,
            };
            if is_damaged {
                return Err(damaged(segment, position));
            }
            segment.finish(&*disk)?;
            if segment.bytes > 0 {
                self.report.rebuilt.extend(segment.position_paths().map(str::to_owned));
            }
            let files = segment_files(segment, &*disk)?;
            self.sync.owe(files);
        }
        self.segments.iter_mut().take(first_recovered).for_each(Segment::read_largest);
        Ok(())
    }

    /// Makes the transaction indexes anew that cannot be believed, by what their entries say. One that is missing is right
    /// where nothing was aborted: it is only believed where the next snapshot knows no producer that ever had a marker. After
    /// a clean stop only the newest entries and segments are looked at: a start must not take longer for every abort of the
    /// past.
    pub(super) fn repair_aborts(
        &mut self,
        faults: &[IndexFaults],
        first_recovered: usize,
        now: Millis,
    ) -> Result<(), StorageError> {
        let is_crash = first_recovered < self.segments.len();
        let (mut to_check, mut to_scan) = (ABORTS_CHECKED_MAX, ABORTS_SCANNED_BYTES_MAX);
        for (at, faults) in faults.iter().enumerate().take(first_recovered).rev() {
            let segment = &self.segments[at];
            let count = segment.txn_index.entries().len();
            let is_looked_at = is_crash || count <= to_check;
            to_check -= count.min(to_check);
            let bytes = segment.bytes;
            let is_replayed = count > 0 && bytes <= to_scan && !self.is_cleaned(at);
            let mut is_lost = faults.transactions || (is_looked_at && !self.aborts_hit(at)?);
            if is_replayed && !is_lost {
                to_scan -= bytes;
                is_lost = !self.aborts_replay(at, now)?;
            }
            let segment = &self.segments[at];
            if faults.transactions_absent && segment.bytes > 0 && (is_crash || segment.bytes <= to_scan) {
                to_scan -= segment.bytes.min(to_scan);
                let snapshot = self.read_snapshot_above(segment.end_offset)?;
                is_lost |= snapshot.is_none_or(|snapshot| {
                    snapshot.entries.iter().any(|entry| entry.coordinator_epoch.0 >= 0)
                });
            }
            if is_lost {
                self.rebuild_aborts(at, now)?;
            }
        }
        Ok(())
    }

    /// Whether Kafka's cleaner or ours may have taken batches out of a segment: then a replay knows less than the index.
    fn is_cleaned(&self, at: usize) -> bool {
        let base = self.segments[at].base_offset;
        self.cleaner_checkpoint.map_or(self.config.cleanup_policy.compact, |cleaned_end| base < cleaned_end)
    }

    /// Whether the index of a segment says what a replay from the snapshot at its beginning says: looks at single batches do
    /// not show that an entry begins at a later batch of its transaction, and that would give the records of an abort to
    /// readers. Without that snapshot, and where a transaction began before the log, it is believed. Producer state is left
    /// as nothing.
    fn aborts_replay(&mut self, at: usize, now: Millis) -> Result<bool, StorageError> {
        let (base, first) = (self.segments[at].base_offset, self.segments[0].base_offset);
        if at > 0 && !self.snapshots.contains(&base) {
            return Ok(true);
        }
        let from = self.load_snapshot_below(base, now)?;
        if from < base {
            return Ok(true);
        }
        let aborted = self.replay_segment(at, base)?;
        let entries = self.segments[at].txn_index.entries();
        let agrees = |(entry, found): (&AbortedTxn, &AbortedTxn)| {
            entry == found || entry.first_offset.min(found.first_offset) < first
        };
        Ok(entries.len() == aborted.len() && entries.iter().zip(&aborted).all(agrees))
    }

    /// Makes the `.txnindex` of a believed segment anew, from what was known where it begins. Producer state is left
    /// as nothing: the fold comes after.
    fn rebuild_aborts(&mut self, at: usize, now: Millis) -> Result<(), StorageError> {
        let base = self.segments[at].base_offset;
        let from = self.load_snapshot_below(base, now)?;
        for before in self.floor_index(from).unwrap_or(0)..at {
            self.replay_segment(before, from)?;
        }
        let aborted = self.replay_segment(at, from.max(base))?;
        let (disk, segment) = (self.disk.clone(), &mut self.segments[at]);
        if segment.txn_index.entries() != aborted {
            self.report.rebuilt.push(segment.txn_index.path().to_owned());
        }
        segment.txn_index.remove(&*disk)?;
        aborted.into_iter().for_each(|aborted| segment.txn_index.push(aborted));
        segment.txn_index.write_pending(&*disk)?;
        let files = segment_files(segment, &*disk)?;
        self.sync.owe(files);
        Ok(())
    }

    /// Makes the epochs anew out of the batches. Kafka does so only for the segments it recovers, and loses the rest.
    pub(super) fn rebuild_epochs(&mut self) -> Result<(), StorageError> {
        let mut epochs = LeaderEpochs::default();
        for segment in &self.segments {
            let mut walk = segment.ordered_walk_from(0);
            while let Some(batch) = walk.next()? {
                let epoch = batch.header.leader_epoch;
                // Neither stands below the checksum: one that falls shows that it or one before it is wrong.
                if epochs.latest().is_some_and(|latest| (LeaderEpoch(0)..latest).contains(&epoch)) {
                    return Err(damaged(segment, batch.position));
                }
                epochs.assign(epoch, batch.header.base_offset);
            }
            if walk.position() < segment.bytes {
                return Err(damaged(segment, walk.position()));
            }
        }
        self.epochs_changed = !epochs.entries().is_empty();
        self.epochs = epochs;
        Ok(())
    }
}
