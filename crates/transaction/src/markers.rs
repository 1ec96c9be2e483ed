//! What a decided transaction still owes: a marker to each of its partitions, then its completion.
//!
//! Source: KIP-98, KIP-890, KIP-1228; Kafka TransactionMarkerChannelManager.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{
    Now, Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionResult, TransactionVersion,
};

use crate::request::{Markers, MarkersLeft, Reply};
use crate::shard::{Entry, Outcome, Soft, TransactionShard};
use crate::state::TransactionalId;

/// The markers that one decided transaction owes now. The coordinator epoch is the engine's.
///
/// They may leave once the decision at `decided_at` is durable. Several reports about the same partition are fine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MarkersOwed {
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// Where the decision lies in the log; names it in [`Markers`].
    pub decided_at: Offset,
    /// The producer id in the markers: still the old one if it is exhausted.
    pub producer_id: ProducerId,
    /// The epoch in the markers: under version 2 already the next one.
    pub producer_epoch: ProducerEpoch,
    /// What the markers say.
    pub result: TransactionResult,
    /// The version of the markers.
    pub transaction_version: TransactionVersion,
    /// The partitions that lack theirs, those given up left out.
    pub partitions: Vec<TopicPartition>,
}

/// News about markers, kept in memory only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MarkerProgress {
    /// These partitions are owed nothing any more.
    Settled(Markers),
    /// These partitions are not asked again.
    GivenUp(Markers),
    /// The transaction is complete.
    Done(TransactionalId),
}

/// What is known about the markers of one decision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Progress {
    decided_at: Offset,
    settled: BTreeSet<TopicPartition>,
    given_up: BTreeSet<TopicPartition>,
}

impl TransactionShard {
    /// The markers owed by all decided transactions, in order of their ids. After a load: all of all.
    pub fn markers_owed(&self) -> impl Iterator<Item = MarkersOwed> {
        self.index.completing().filter_map(|id| self.markers_owed_by(id))
    }

    /// The markers owed by one transaction; `None` when it is not completing, or when all that are left have been
    /// given up or are none.
    pub fn markers_owed_by(&self, transactional_id: &str) -> Option<MarkersOwed> {
        let (id, entry) = self.entries.get_key_value(transactional_id)?;
        let result = entry.txn.state.completing()?;
        let progress = self.progress_of(id, entry);
        let partitions: Vec<_> = entry
            .txn
            .partitions
            .iter()
            .filter(|partition| {
                progress.is_none_or(|known| {
                    !known.settled.contains(*partition) && !known.given_up.contains(*partition)
                })
            })
            .cloned()
            .collect();
        (!partitions.is_empty()).then(|| MarkersOwed {
            transactional_id: id.clone(),
            decided_at: entry.offset,
            producer_id: entry.txn.producer_id,
            producer_epoch: entry.txn.producer_epoch,
            result,
            transaction_version: entry.txn.client_transaction_version,
            partitions,
        })
    }

    /// Whether some marker of the decided transaction has been given up: it completes after the next load at the
    /// earliest.
    pub fn is_given_up(&self, transactional_id: &str) -> bool {
        self.entries
            .get_key_value(transactional_id)
            .and_then(|(id, entry)| self.progress_of(id, entry))
            .is_some_and(|known| !known.given_up.is_empty())
    }

    /// The partitions that lack their marker, those given up among them.
    pub(crate) fn partitions_lacking(&self, id: &TransactionalId, entry: &Entry) -> BTreeSet<TopicPartition> {
        match self.progress_of(id, entry) {
            Some(known) => entry.txn.partitions.difference(&known.settled).cloned().collect(),
            None => entry.txn.partitions.clone(),
        }
    }

    /// What is known about the markers of the newest decision.
    fn progress_of(&self, id: &TransactionalId, entry: &Entry) -> Option<&Progress> {
        self.progress.get(id).filter(|progress| progress.decided_at == entry.offset)
    }

    /// The decided transaction that news is about, if it is still the one.
    fn entry_of(&self, markers: &Markers) -> Option<&Entry> {
        let entry = self.entries.get(&markers.transactional_id)?;
        let is_same = entry.offset == markers.decided_at && entry.txn.state.completing().is_some();
        is_same.then_some(entry)
    }

    /// Markers are written, or owed to nobody. The last one completes the transaction.
    pub(crate) fn decide_markers_settled(&self, now: Now, token: Token, markers: &Markers) -> Outcome {
        let Some(entry) = self.entry_of(markers) else {
            return Ok(Decision::answer(token, Reply::Markers(MarkersLeft::Outdated)));
        };
        let mut lacking = self.partitions_lacking(&markers.transactional_id, entry);
        markers.partitions.iter().for_each(|partition| {
            lacking.remove(partition);
        });
        if lacking.is_empty() {
            return self.complete(
                now,
                token,
                &markers.transactional_id,
                Reply::Markers(MarkersLeft::Nothing),
            );
        }
        let reply = Reply::Markers(MarkersLeft::Owed(lacking.len()));
        let mut decision = Decision::answer(token, reply);
        decision.soft.push(Soft::Markers(MarkerProgress::Settled(markers.clone())));
        Ok(decision)
    }

    /// Markers are refused for good.
    pub(crate) fn decide_markers_given_up(&self, token: Token, markers: &Markers) -> Outcome {
        let Some(entry) = self.entry_of(markers) else {
            return Ok(Decision::answer(token, Reply::Markers(MarkersLeft::Outdated)));
        };
        let lacking = self.partitions_lacking(&markers.transactional_id, entry);
        let mut decision = Decision::answer(token, Reply::Markers(MarkersLeft::Owed(lacking.len())));
        decision.soft.push(Soft::Markers(MarkerProgress::GivenUp(markers.clone())));
        Ok(decision)
    }

    /// Writes Complete* of a transaction that owes nothing any more.
    pub(crate) fn complete(&self, now: Now, token: Token, id: &TransactionalId, reply: Reply) -> Outcome {
        let txn = &self.entries[id].txn;
        let mut decision = self.write(id, txn.completed(now.wall), token, reply)?;
        decision.soft.push(Soft::Markers(MarkerProgress::Done(id.clone())));
        Ok(decision)
    }

    pub(crate) fn absorb_progress(&mut self, news: MarkerProgress) {
        match news {
            MarkerProgress::Settled(markers) => {
                if let Some((known, partitions)) = self.known_of(markers) {
                    known.given_up.retain(|partition| !partitions.contains(partition));
                    known.settled.extend(partitions);
                }
            }
            MarkerProgress::GivenUp(markers) => {
                if let Some((known, mut partitions)) = self.known_of(markers) {
                    partitions.retain(|partition| !known.settled.contains(partition));
                    known.given_up.extend(partitions);
                }
            }
            MarkerProgress::Done(id) => {
                self.progress.remove(&id);
            }
        }
    }

    /// Where news goes, and those of its partitions that are in the transaction; `None` if there is none.
    fn known_of(&mut self, markers: Markers) -> Option<(&mut Progress, BTreeSet<TopicPartition>)> {
        let entry = self.entry_of(&markers)?;
        let partitions: BTreeSet<_> = markers
            .partitions
            .into_iter()
            .filter(|partition| entry.txn.partitions.contains(partition))
            .collect();
        if partitions.is_empty() {
            return None;
        }
        let fresh =
            Progress { decided_at: markers.decided_at, settled: BTreeSet::new(), given_up: BTreeSet::new() };
        let known = self.progress.entry(markers.transactional_id).or_insert_with(|| fresh.clone());
        if known.decided_at != fresh.decided_at {
            *known = fresh;
        }
        Some((known, partitions))
    }

    pub(crate) fn check_progress(&self) {
        for (id, progress) in &self.progress {
            let entry = self.entries.get(id).unwrap_or_else(|| panic!("X5: progress of {id}, which is gone"));
            assert_eq!(progress.decided_at, entry.offset, "X5: progress of an earlier decision of {id}");
            assert!(entry.txn.state.completing().is_some(), "X5: {id} is not completing: {:?}", entry.txn);
            assert!(progress.settled.is_subset(&entry.txn.partitions), "X4: {id}: {progress:?}");
            assert!(progress.given_up.is_subset(&entry.txn.partitions), "X4: {id}: {progress:?}");
            assert!(progress.settled.is_disjoint(&progress.given_up), "X4: {id}: {progress:?}");
            assert!(progress.settled != entry.txn.partitions, "X4: {id} owes nothing and is not complete");
        }
    }
}

#[cfg(test)]
mod tests;
