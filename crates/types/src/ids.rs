//! Newtypes for Kafka's numbers, each with its "none" value where Kafka has one.

use alloc::sync::Arc;
use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

number! {
    /// A position in a partition's log, counted in records.
    Offset(i64)
}
number! {
    /// Identifies a producer; −1 is none. Handed out in blocks by the controller.
    ProducerId(i64)
}
number! {
    /// Tells instances (and, under transaction version 2, transactions) of one producer id apart; −1 is none.
    ProducerEpoch(i16)
}
number! {
    /// The position of a record in the stream of one producer to one partition; −1 is none. Wraps to 0.
    Sequence(i32)
}
number! {
    /// Leader epoch of the `__transaction_state` partition that decided an outcome; −1 is none.
    CoordinatorEpoch(i32)
}
number! {
    /// Counts the leaderships of a partition; −1 is none.
    LeaderEpoch(i32)
}
number! {
    /// A broker's (node's) id; −1 is none.
    BrokerId(i32)
}
number! {
    /// The number of a partition within its topic.
    PartitionIndex(i32)
}

impl Offset {
    /// No offset.
    pub const NONE: Self = Self(-1);

    /// The offset `count` records further on.
    pub fn plus(self, count: i64) -> Self {
        Self(self.0 + count)
    }

    /// The offset after this one.
    pub fn next(self) -> Self {
        self.plus(1)
    }
}

impl ProducerId {
    /// No producer id.
    pub const NONE: Self = Self(-1);
}

impl ProducerEpoch {
    /// No epoch.
    pub const NONE: Self = Self(-1);
    /// The largest epoch. It exists only in the coordinator and in markers; clients hold at most one less.
    pub const MAX: Self = Self(i16::MAX);

    /// The epoch after this one; `None` after [`Self::MAX`].
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// Whether no further epoch can be given to a client: at or above `i16::MAX - 1`.
    pub fn is_exhausted(self) -> bool {
        self.0 >= i16::MAX - 1
    }
}

impl Sequence {
    /// No sequence.
    pub const NONE: Self = Self(-1);
    /// The largest sequence; the next one is 0.
    pub const MAX: Self = Self(i32::MAX);

    /// The sequence `count` (≥ 0) records further on, wrapping from `i32::MAX` to 0.
    ///
    /// Source: Kafka DefaultRecordBatch.incrementSequence.
    pub fn plus(self, count: i32) -> Self {
        if self.0 > i32::MAX - count { Self(count - (i32::MAX - self.0) - 1) } else { Self(self.0 + count) }
    }

    /// The sequence `count` (≥ 0) records before this one, wrapping from 0 to `i32::MAX`.
    ///
    /// Source: Kafka DefaultRecordBatch.decrementSequence.
    pub fn minus(self, count: i32) -> Self {
        if self.0 < count { Self(i32::MAX - (count - self.0) + 1) } else { Self(self.0 - count) }
    }

    /// The sequence that must follow this one.
    pub fn next(self) -> Self {
        self.plus(1)
    }
}

impl CoordinatorEpoch {
    /// No marker seen yet.
    pub const NONE: Self = Self(-1);
}

impl LeaderEpoch {
    /// No epoch.
    pub const NONE: Self = Self(-1);
}

impl BrokerId {
    /// No broker.
    pub const NONE: Self = Self(-1);
}

/// A topic's name, shared.
pub type TopicName = Arc<str>;

/// A topic's name and a partition number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: TopicName,
    /// The partition's number within the topic.
    pub partition: PartitionIndex,
}

impl TopicPartition {
    /// Names partition number `partition` of `topic`.
    pub fn new(topic: impl Into<TopicName>, partition: i32) -> Self {
        Self { topic: topic.into(), partition: PartitionIndex(partition) }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionResult {
    /// Its records become visible to read_committed readers.
    Commit,
    /// Its records stay hidden from read_committed readers.
    Abort,
}

impl TransactionResult {
    /// From the wire's boolean: true is commit.
    pub fn from_committed(committed: bool) -> Self {
        if committed { Self::Commit } else { Self::Abort }
    }

    /// Whether this is [`Self::Commit`].
    pub fn is_commit(self) -> bool {
        self == Self::Commit
    }
}

/// The protocol a transaction runs under, as the level of the feature `transaction.version`.
///
/// Source: KIP-890, KIP-1228.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionVersion {
    /// The original protocol.
    #[default]
    V0,
    /// The original protocol with flexible log records.
    V1,
    /// One epoch per transaction, partitions added by the partition leader.
    V2,
}

impl TransactionVersion {
    /// The level as a number.
    pub fn level(self) -> i16 {
        match self {
            Self::V0 => 0,
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// From a level; levels above 2 follow the rules of 2, levels below 0 those of 0.
    pub fn from_level(level: i16) -> Self {
        match level {
            i16::MIN..=0 => Self::V0,
            1 => Self::V1,
            2.. => Self::V2,
        }
    }

    /// Whether each transaction gets an epoch of its own and the leader adds partitions.
    pub fn bumps_epoch(self) -> bool {
        self == Self::V2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequence wrap is to 0, not to i32::MIN (storage-formats trap 18, producer-state trap 15).
    #[test]
    fn sequence_wraps_to_zero_and_back() {
        assert_eq!(Sequence(i32::MAX).next(), Sequence(0));
        assert_eq!(Sequence(i32::MAX - 1).plus(3), Sequence(1));
        assert_eq!(Sequence(0).minus(1), Sequence(i32::MAX));
        assert_eq!(Sequence(1).minus(3), Sequence(i32::MAX - 1));
        for (start, count) in [(0, 0), (5, 7), (i32::MAX, 10), (i32::MAX - 3, i32::MAX)] {
            assert_eq!(Sequence(start).plus(count).minus(count), Sequence(start));
        }
    }

    /// Clients never get epoch 32767: 32766 is the last.
    #[test]
    fn epoch_is_exhausted_one_before_the_largest() {
        assert!(!ProducerEpoch(32765).is_exhausted());
        assert!(ProducerEpoch(32766).is_exhausted());
        assert!(ProducerEpoch::MAX.is_exhausted());
        assert_eq!(ProducerEpoch::MAX.next(), None);
    }
}
