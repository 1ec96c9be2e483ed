//! What stays of a batch.

use std::collections::BTreeMap;

use fencepost_partition::LastRecord;
use fencepost_records::{Batch, BatchBuilder, BatchHeader, Compression, Record, RecordIter};
use fencepost_types::{Millis, Offset, ProducerId};

use super::key_offsets::KeyOffsets;
use super::transactions::ControlUse;
use crate::scan::batch_facts;

/// What is written of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nothing.
    Nothing,
    /// The batch as it is, byte for byte.
    Whole,
    /// The same range of offsets with fewer records, or with a delete horizon.
    Rewritten(Batch),
}

/// What decides about batches in one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeper<'a> {
    pub(crate) now: Millis,
    pub(crate) delete_retention_ms: i64,
    pub(crate) keys: &'a KeyOffsets,
    pub(crate) last_records: &'a BTreeMap<ProducerId, LastRecord>,
}

impl Keeper<'_> {
    /// What stays of a control batch. `is_last` says that it is the last batch of a replacement (C4).
    pub(crate) fn control(&self, batch: &Batch, used: ControlUse, is_last: bool) -> Result<Kept, String> {
        let header = batch.header();
        let is_pinned = self.is_last_of_producer(header);
        let is_past = header.delete_horizon().is_some_and(|horizon| horizon <= self.now);
        match used {
            ControlUse::Needed => Ok(Kept::Whole),
            ControlUse::Empty if is_pinned || is_last => Ok(Kept::Whole),
            ControlUse::Empty => Ok(Kept::Nothing),
            // C3: emptied, it would not tell a rebuild the epoch that it stands for.
            ControlUse::Outlived if is_past && is_pinned => Ok(Kept::Whole),
            ControlUse::Outlived if is_past => {
                if is_last {
                    emptied(header)
                } else {
                    Ok(Kept::Nothing)
                }
            }
            ControlUse::Outlived if header.delete_horizon().is_some() => Ok(Kept::Whole),
            ControlUse::Outlived => rewrite(batch, Some(self.new_horizon()), &records_of(batch)?, |_| true),
        }
    }

    /// What stays of a data batch. `is_aborted` says that its transaction was.
    pub(crate) fn data(&self, batch: &Batch, is_aborted: bool, is_last: bool) -> Result<Kept, String> {
        let header = batch.header();
        let must_stay = is_last || self.is_last_of_producer(header);
        let must_stay_empty = || match must_stay {
            false => Ok(Kept::Nothing),
            true if header.record_count == 0 => Ok(Kept::Whole),
            true => emptied(header),
        };
        if is_aborted {
            return must_stay_empty();
        }
        // Differs from Kafka, which writes such a batch again: here that would need all its plain records at once.
        let records = match batch.records() {
            Err(error) if error.is_too_large_to_hold() => return Ok(Kept::Whole),
            read => read.map_err(|error| error.to_string())?,
        };
        let (mut kept, mut gone, mut has_tombstone) = (0, 0, false);
        for record in records.clone() {
            let record = record.map_err(|error| error.to_string())?;
            if self.keeps(header, &record) {
                kept += 1;
                has_tombstone |= record.value.is_none();
            } else {
                gone += 1;
            }
        }
        let needs_horizon = has_tombstone && header.delete_horizon().is_none();
        match (kept, gone) {
            (0, _) => must_stay_empty(),
            (_, 0) if !needs_horizon => Ok(Kept::Whole),
            (_, _) => {
                let new_horizon = needs_horizon.then(|| self.new_horizon());
                rewrite(batch, new_horizon, &records, |record| self.keeps(header, record))
            }
        }
    }

    /// Whether a record of a data batch that was not aborted stays.
    fn keeps(&self, header: &BatchHeader, record: &Record) -> bool {
        let offset = header.record_offset(record.offset_delta);
        if offset >= self.keys.covered_end() {
            return true;
        }
        let Some(key) = &record.key else { return false };
        let is_newest = self.keys.get(key).is_none_or(|newest: Offset| offset >= newest);
        let is_lasting = header.delete_horizon().is_none_or(|horizon| self.now < horizon);
        is_newest && (record.value.is_some() || is_lasting)
    }

    /// Whether its producer's state hangs on this batch (C3).
    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        let last = self.last_records.get(&header.producer_id);
        header.has_producer_id() && last.is_some_and(|last| last.is_in(&batch_facts(header, None)))
    }

    /// Until when what could go now must stay.
    fn new_horizon(&self) -> Millis {
        self.now.plus(self.delete_retention_ms)
    }
}

fn records_of(batch: &Batch) -> Result<RecordIter, String> {
    batch.records().map_err(|error| error.to_string())
}

/// The batch with those of its records that stay, in its own codec. It may come out larger than it was (storage-formats
/// trap 14); deltas of time count from the horizon, if there is one (trap 22).
fn rewrite(
    batch: &Batch,
    new_horizon: Option<Millis>,
    records: &RecordIter,
    keeps: impl Fn(&Record) -> bool,
) -> Result<Kept, String> {
    let header = batch.header();
    let codec = batch.compression().map_err(|error| error.to_string())?;
    let mut builder = BatchBuilder::rewrite(header, Compression::new(codec));
    if let Some(horizon) = new_horizon {
        builder = builder.delete_horizon(horizon);
    }
    let mut deltas = 0..=header.last_offset_delta;
    for record in records.clone() {
        let record = record.map_err(|error| error.to_string())?;
        if !deltas.contains(&record.offset_delta) {
            return Err(format!("offset delta {} does not rise, or leads out of it", record.offset_delta));
        }
        deltas = record.offset_delta.saturating_add(1)..=header.last_offset_delta;
        if keeps(&record) {
            let timestamp = header.record_timestamp(record.timestamp_delta);
            builder.append_at(
                record.offset_delta,
                timestamp,
                record.key.as_deref(),
                record.value.as_deref(),
                &record.headers,
            );
        }
    }
    builder.build().map(Kept::Rewritten).map_err(|error| error.to_string())
}

/// The batch without records: what its header says stays, but for codec and times.
fn emptied(header: &BatchHeader) -> Result<Kept, String> {
    let attributes = header.attributes.with_delete_horizon(false);
    let builder = BatchBuilder::rewrite(&BatchHeader { attributes, ..*header }, Compression::NONE);
    builder.build().map(Kept::Rewritten).map_err(|error| error.to_string())
}
