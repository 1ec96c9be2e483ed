//! The state itself, and `replay`, by which alone the log changes it.

use alloc::collections::{BTreeMap, BTreeSet};

use fencepost_types::{Millis, Offset, ProducerEpoch, ProducerId};

use crate::batch::{BatchContent, BatchFacts, CompletedTxn, Marker};
use crate::entry::ProducerEntry;
use crate::verification::VerificationEntry;

/// Everything one partition replica knows of its producers and their transactions. See the page of this crate.
///
/// Source: Kafka ProducerStateManager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProducerStates {
    /// By producer id. Expiry alone removes entries; deleting old segments does not (producer-state §12).
    pub(crate) producers: BTreeMap<ProducerId, ProducerEntry>,
    /// Open transactions by first offset. The producer id is in the key because a damaged log may give two the same.
    pub(crate) ongoing: BTreeSet<(Offset, ProducerId)>,
    /// Completed transactions whose marker is not below the high watermark: first offset → offset of the marker.
    pub(crate) unreplicated: BTreeMap<(Offset, ProducerId), Offset>,
    /// The state covers all offsets below this one.
    pub(crate) map_end_offset: Offset,
    /// Verifications that have begun and were not used up; hoped for, never persisted.
    pub(crate) verifications: BTreeMap<ProducerId, VerificationEntry>,
    /// Number of the next guard; never goes back (P5).
    pub(crate) next_guard: u64,
}

impl ProducerStates {
    /// Knows nobody; covers the offsets below `map_end_offset` (the log start of a new or emptied log).
    pub fn new(map_end_offset: Offset) -> Self {
        Self { map_end_offset, ..Self::default() }
    }

    /// Takes in one batch that is in the log: the same way live, at a follower and at recovery. Never refuses: lower
    /// epochs and older coordinator epochs are applied as they stand (producer-state trap 8). Returns the transaction
    /// that a marker has ended; for an aborted one the caller writes [`ProducerStates::aborted_txn`] to the
    /// transaction index before it replays the next batch.
    ///
    /// `appended_at` is the wall clock when the batch is being appended, `None` at recovery.
    ///
    /// Source: Kafka ProducerAppendInfo.append, ProducerStateManager.update and completeTxn.
    pub fn replay(&mut self, appended_at: Option<Millis>, facts: &BatchFacts) -> Option<CompletedTxn> {
        let completed = if facts.has_producer_id() {
            match &facts.content {
                BatchContent::Data => {
                    self.replay_data(appended_at, facts);
                    None
                }
                BatchContent::Marker(marker) => self.replay_marker(appended_at, facts, marker),
                // An emptied control batch has lost its record: it closes nothing (producer-state trap 36).
                BatchContent::OtherControl => None,
            }
        } else {
            None
        };
        self.advance_map_end_offset(facts.next_offset());
        completed
    }

    fn replay_data(&mut self, appended_at: Option<Millis>, facts: &BatchFacts) {
        if facts.is_transactional {
            self.end_verification(facts);
        }
        let entry = self.producers.entry(facts.producer_id).or_insert_with(ProducerEntry::new);
        entry.take_data(facts);
        entry.appended_at = appended_at.or(entry.appended_at);
        // A batch joins the transaction that is open, also one that an older epoch left.
        if facts.is_transactional && entry.current_txn_first_offset.is_none() {
            entry.current_txn_first_offset = Some(facts.base_offset);
            self.ongoing.insert((facts.base_offset, facts.producer_id));
        }
    }

    /// An unknown producer gets an entry: that is how a fence reaches a partition that never saw it (trap 11).
    fn replay_marker(
        &mut self,
        appended_at: Option<Millis>,
        facts: &BatchFacts,
        marker: &Marker,
    ) -> Option<CompletedTxn> {
        self.end_verification(facts);
        let entry = self.producers.entry(facts.producer_id).or_insert_with(ProducerEntry::new);
        let first_offset = entry.current_txn_first_offset;
        entry.take_marker(facts, marker);
        entry.appended_at = appended_at.or(entry.appended_at);
        let first_offset = first_offset?;
        let key = (first_offset, facts.producer_id);
        assert!(self.ongoing.remove(&key), "P1: an open transaction is not in `ongoing`: {key:?}");
        self.unreplicated.insert(key, facts.last_offset());
        Some(CompletedTxn {
            producer_id: facts.producer_id,
            first_offset,
            last_offset: facts.last_offset(),
            is_aborted: !marker.result.is_commit(),
        })
    }

    /// Says that the state covers everything below `offset`, where the log has a gap or batches without producers.
    /// Never goes back.
    pub fn advance_map_end_offset(&mut self, offset: Offset) {
        self.map_end_offset = self.map_end_offset.max(offset);
    }

    /// Forgets what the log said, as the first step of a rebuild (truncation, a log that starts anew): what follows is
    /// [`ProducerStates::load_snapshot`] and `replay`, or nothing. Verification entries stay: they end with the next
    /// transactional batch or expire (producer-state §12).
    ///
    /// Source: Kafka ProducerStateManager.truncateAndReload, truncateFullyAndStartAt.
    pub fn clear(&mut self, map_end_offset: Offset) {
        self.producers.clear();
        self.ongoing.clear();
        self.unreplicated.clear();
        self.map_end_offset = map_end_offset;
    }

    /// The state covers all offsets below this one.
    pub fn map_end_offset(&self) -> Offset {
        self.map_end_offset
    }

    /// Whether nothing is known of any producer.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Number of producers known.
    pub fn producer_count(&self) -> usize {
        self.producers.len()
    }

    /// Number of open transactions.
    pub fn open_transaction_count(&self) -> usize {
        self.ongoing.len()
    }

    /// What is known of one producer.
    pub fn producer(&self, producer_id: ProducerId) -> Option<&ProducerEntry> {
        self.producers.get(&producer_id)
    }

    /// All producers, by id.
    pub fn producers(&self) -> impl Iterator<Item = (ProducerId, &ProducerEntry)> {
        self.producers.iter().map(|(producer_id, entry)| (*producer_id, entry))
    }

    /// Whether `producer_id` has a transaction open here at exactly `epoch`: then its batches need no verification.
    pub fn has_open_transaction_at(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.producer(producer_id).is_some_and(|entry| entry.has_open_transaction_at(epoch))
    }
}

#[cfg(test)]
mod tests;
