//! Committed offsets, and those that wait for the end of a transaction.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;

use fencepost_types::{Offset, ProducerId, TopicPartition, TransactionResult};

use crate::{CommittedOffset, GroupId, Topics};

/// All offsets of a coordinator. A fold of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Offsets {
    by_group: BTreeMap<GroupId, BTreeMap<TopicPartition, PartitionOffsets>>,
    pending_by_producer: BTreeMap<ProducerId, BTreeSet<(GroupId, TopicPartition)>>,
}

/// The offsets of one partition in one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PartitionOffsets {
    /// The one that counts.
    pub committed: Option<LoggedOffset>,
    /// Those of open transactions; at most one per producer, the last.
    pub pending: BTreeMap<ProducerId, LoggedOffset>,
}

/// An offset, and where in the coordinator's log it lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoggedOffset {
    /// The offset.
    pub value: CommittedOffset,
    /// The offset of its record in the coordinator's log: between two, the later record counts.
    pub record_offset: Offset,
}

impl PartitionOffsets {
    /// The offset that counts, unless its topic is gone.
    pub fn committed_in(&self, existing: &Topics) -> Option<&LoggedOffset> {
        self.committed.as_ref().filter(|logged| existing.has(logged.value.topic_id))
    }

    /// Whether an open transaction has an offset here, for a topic that is not gone.
    pub fn is_pending_in(&self, existing: &Topics) -> bool {
        self.pending.values().any(|logged| existing.has(logged.value.topic_id))
    }
}

impl Offsets {
    /// A plain commit: it counts at once.
    pub fn commit(&mut self, group: &GroupId, partition: &TopicPartition, logged: LoggedOffset) {
        self.entry(group, partition).committed = Some(logged);
    }

    /// A transactional commit: it counts when its transaction is committed.
    pub fn pend(
        &mut self,
        producer: ProducerId,
        group: &GroupId,
        partition: &TopicPartition,
        logged: LoggedOffset,
    ) {
        self.entry(group, partition).pending.insert(producer, logged);
        let of_producer = self.pending_by_producer.entry(producer).or_default();
        of_producer.insert((group.clone(), partition.clone()));
    }

    /// A tombstone: what is committed goes, and what is pending as well.
    pub fn delete(&mut self, group: &GroupId, partition: &TopicPartition) {
        let Some(of_group) = self.by_group.get_mut(group) else { return };
        let Some(gone) = of_group.remove(partition) else { return };
        if of_group.is_empty() {
            self.by_group.remove(group);
        }
        for producer in gone.pending.keys() {
            self.forget_pending(*producer, group, partition);
        }
    }

    /// The end of a producer's transaction. A commit makes its offsets count, except where a later record counts
    /// already (transaction-coordinator trap 31); an abort forgets them.
    pub fn end_transaction(&mut self, producer: ProducerId, result: TransactionResult) {
        for (group, partition) in self.pending_by_producer.remove(&producer).unwrap_or_default() {
            let entry = self.entry(&group, &partition);
            let ended =
                entry.pending.remove(&producer).expect("what a producer has pending is listed with it");
            let is_later = |counts: &LoggedOffset| counts.record_offset >= ended.record_offset;
            if result.is_commit() && !entry.committed.as_ref().is_some_and(is_later) {
                entry.committed = Some(ended);
            }
            self.forget_empty(&group, &partition);
        }
    }

    /// The offsets of a partition.
    pub fn get(&self, group: &str, partition: &TopicPartition) -> Option<&PartitionOffsets> {
        self.by_group.get(group)?.get(partition)
    }

    /// All offsets of a group, by topic and partition.
    pub fn of_group(&self, group: &str) -> impl Iterator<Item = (&TopicPartition, &PartitionOffsets)> {
        self.by_group.get(group).into_iter().flatten()
    }

    /// All offsets behind `after`, by group, topic and partition; from the beginning where there is none.
    pub fn after(
        &self,
        after: Option<&(GroupId, TopicPartition)>,
    ) -> impl Iterator<Item = (&GroupId, &TopicPartition, &PartitionOffsets)> {
        let groups = match after {
            Some((group, _)) => self.by_group.range::<GroupId, _>(group..),
            None => self.by_group.range::<GroupId, _>(..),
        };
        groups.flat_map(move |(group, of_group)| {
            let from = match after {
                Some((last, partition)) if last == group => Bound::Excluded(partition),
                Some(_) | None => Bound::Unbounded,
            };
            let rest = of_group.range::<TopicPartition, _>((from, Bound::Unbounded));
            rest.map(move |(partition, offsets)| (group, partition, offsets))
        })
    }

    /// Every group that has offsets, by name.
    pub fn groups(&self) -> impl Iterator<Item = &GroupId> {
        self.by_group.keys()
    }

    /// Whether a group has an offset of a transaction that is open.
    pub fn has_pending(&self, group: &str) -> bool {
        self.of_group(group).any(|(_, offsets)| !offsets.pending.is_empty())
    }

    fn entry(&mut self, group: &GroupId, partition: &TopicPartition) -> &mut PartitionOffsets {
        self.by_group.entry(group.clone()).or_default().entry(partition.clone()).or_default()
    }

    fn forget_pending(&mut self, producer: ProducerId, group: &GroupId, partition: &TopicPartition) {
        let Some(of_producer) = self.pending_by_producer.get_mut(&producer) else { return };
        of_producer.remove(&(group.clone(), partition.clone()));
        if of_producer.is_empty() {
            self.pending_by_producer.remove(&producer);
        }
    }

    fn forget_empty(&mut self, group: &GroupId, partition: &TopicPartition) {
        let Some(of_group) = self.by_group.get_mut(group) else { return };
        if of_group.get(partition).is_some_and(|entry| entry.committed.is_none() && entry.pending.is_empty())
        {
            of_group.remove(partition);
        }
        if of_group.is_empty() {
            self.by_group.remove(group);
        }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        let mut listed = 0;
        for (group, of_group) in &self.by_group {
            assert!(!of_group.is_empty(), "{group} is kept without offsets");
            for (partition, entry) in of_group {
                assert!(
                    entry.committed.is_some() || !entry.pending.is_empty(),
                    "{group} {partition} is empty"
                );
                for producer in entry.pending.keys() {
                    let key = (group.clone(), partition.clone());
                    assert!(self.pending_by_producer.get(producer).is_some_and(|keys| keys.contains(&key)));
                    listed += 1;
                }
            }
        }
        let indexed: usize = self.pending_by_producer.values().map(BTreeSet::len).sum();
        assert_eq!(indexed, listed, "a producer is listed with an offset that is not pending");
    }
}
