//! How far groups are behind, also as a read_committed consumer counts: without markers, aborted records and gaps.
//!
//! Everything is read off the state and the logs when somebody asks. No lock is held longer than it takes to look at one
//! group or at [`BATCHES_AT_ONCE`] batches. Committed offsets are those appended, perhaps a moment before they are durable.

use std::sync::Arc;

use fencepost_types::{ErrorCode, Offset, TopicPartition};

use crate::Broker;
use crate::inspect::{Standing, standing};
use crate::partition::Partition;

/// So many batches are looked at under a partition's lock before others get it.
const BATCHES_AT_ONCE: usize = 256;

/// What one question may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagLimits {
    /// Batches whose headers are looked at for one partition of a group.
    pub batches_per_partition: usize,
    /// Batches whose headers are looked at in all.
    pub batches: usize,
    /// Partitions of groups that are answered.
    pub rows: usize,
}

impl Default for LagLimits {
    fn default() -> Self {
        Self { batches_per_partition: 10_000, batches: 50_000, rows: 100_000 }
    }
}

/// How far groups are behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagReport {
    /// The groups, by the partitions of the offsets topic and then by name.
    pub groups: Vec<GroupLag>,
    /// Whether every group and partition is there: false when [`LagLimits::rows`] was met.
    pub is_complete: bool,
}

/// How far one group is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLag {
    /// Its name.
    pub group: String,
    /// Every partition that it has an offset for.
    pub partitions: Vec<PartitionLag>,
}

/// How far a group is behind in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    /// Which one.
    pub partition: TopicPartition,
    /// The offset that counts; `None` while there are only those of open transactions.
    pub committed_offset: Option<Offset>,
    /// Open transactions that hold an offset for it.
    pub pending_transactions: usize,
    /// Where the log stands, or why that is not known: the topic may be gone.
    pub standing: Result<Standing, ErrorCode>,
    /// What a read_committed consumer has still to read.
    pub records: RecordsLeft,
}

/// How many records a read_committed consumer gets from a group's offset up to the last stable offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsLeft {
    /// So many.
    Counted(u64),
    /// More batches than may be looked at.
    BeyondLimit,
    /// No offset counts yet.
    NothingCommitted,
    /// The log cannot be read.
    Unreadable(ErrorCode),
}

impl PartitionLag {
    /// Offsets up to the high watermark, as Kafka's tool counts them; markers and undecided records among them.
    ///
    /// Source: Kafka ConsumerGroupCommand.
    pub fn lag(&self) -> Option<i64> {
        self.behind(|at| at.high_watermark)
    }

    /// Offsets up to the last stable offset, markers among them.
    pub fn stable_lag(&self) -> Option<i64> {
        self.behind(|at| at.last_stable_offset)
    }

    /// A group may have committed an offset that the log does not reach; it is not behind then.
    fn behind(&self, end: impl FnOnce(&Standing) -> Offset) -> Option<i64> {
        let standing = self.standing.as_ref().ok()?;
        Some(end(standing).0.saturating_sub(self.committed_offset?.0).max(0))
    }
}

impl Broker {
    /// How far `group` is behind, or every group that has offsets. Reads files: not for a thread that must not wait.
    pub fn lag(&self, group: Option<&str>, limits: LagLimits) -> LagReport {
        let mut asking = Asking { broker: self, limits, is_complete: true };
        let mut groups = Vec::new();
        match group {
            Some(group) => groups.extend(asking.group(group)),
            None => {
                for cell in self.groups.all() {
                    let names = cell.read(|shard| {
                        shard.durable().offsets.groups().take(limits.rows).cloned().collect::<Vec<_>>()
                    });
                    groups.extend(names.iter().filter_map(|name| asking.group(name)));
                }
            }
        }
        LagReport { groups, is_complete: asking.is_complete }
    }
}

/// One question, and what it may still cost.
struct Asking<'a> {
    broker: &'a Broker,
    limits: LagLimits,
    is_complete: bool,
}

impl Asking<'_> {
    /// The lag of a group; `None` if it has no offsets, or none that may be answered.
    fn group(&mut self, group: &str) -> Option<GroupLag> {
        let cell = self.broker.groups.cell_for(group).ok()?;
        let rows_max = self.limits.rows;
        let topics = self.broker.topic_facts();
        let mut rows = cell.read(|shard| {
            let offsets = shard.durable().offsets.of_group(group).take(rows_max.saturating_add(1));
            let row = offsets.map(|(partition, offsets)| {
                let committed = offsets.committed_in(&topics).map(|committed| committed.value.offset);
                (partition.clone(), committed, offsets.pending.len())
            });
            row.collect::<Vec<_>>()
        });
        if rows.len() > rows_max {
            rows.truncate(rows_max);
            self.is_complete = false;
        }
        self.limits.rows -= rows.len();
        let partitions: Vec<_> = rows.into_iter().map(|row| self.partition(row)).collect();
        (!partitions.is_empty()).then(|| GroupLag { group: group.to_owned(), partitions })
    }

    fn partition(
        &mut self,
        (name, committed, pending): (TopicPartition, Option<Offset>, usize),
    ) -> PartitionLag {
        let partition = self.broker.partitions.get(&name).ok_or(ErrorCode::UnknownTopicOrPartition);
        let found = partition.and_then(|partition| Ok((standing(&partition)?, partition)));
        let records = match (&found, committed) {
            (Err(code), _) => RecordsLeft::Unreadable(*code),
            (Ok(_), None) => RecordsLeft::NothingCommitted,
            (Ok((standing, partition)), Some(from)) => {
                self.count(partition, from, standing.last_stable_offset)
            }
        };
        PartitionLag {
            partition: name,
            committed_offset: committed,
            pending_transactions: pending,
            standing: found.map(|(standing, _)| standing),
            records,
        }
    }

    /// Counts from `from`, or from the log start if that is later, up to `end`.
    fn count(&mut self, partition: &Arc<Partition>, from: Offset, end: Offset) -> RecordsLeft {
        let (mut at, mut records) = (from, 0);
        let mut left = self.limits.batches_per_partition;
        while at < end {
            let batches_max = left.min(self.limits.batches).min(BATCHES_AT_ONCE);
            if batches_max == 0 {
                return RecordsLeft::BeyondLimit;
            }
            let counted = partition.with(|state| {
                let from = at.max(state.log.log_start_offset());
                // Records may have been deleted up to the end, and beyond it, meanwhile.
                (from < end).then(|| state.log.count_records(from, end, batches_max)).transpose()
            });
            match counted {
                Err(code) => return RecordsLeft::Unreadable(code),
                Ok(Err(error)) => return RecordsLeft::Unreadable(error.code()),
                Ok(Ok(None)) => break,
                Ok(Ok(Some(counted))) => {
                    records += counted.records;
                    left -= counted.batches;
                    self.limits.batches -= counted.batches;
                    at = counted.next_offset;
                }
            }
        }
        RecordsLeft::Counted(records)
    }
}
