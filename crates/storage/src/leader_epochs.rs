//! Which leader epoch began at which offset: Kafka's `leader-epoch-checkpoint`.

use fencepost_types::{LeaderEpoch, Offset};

/// Epochs rise strictly, start offsets do not fall.
///
/// Source: KIP-101, Kafka LeaderEpochFileCache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LeaderEpochs {
    entries: Vec<(LeaderEpoch, Offset)>,
}

impl LeaderEpochs {
    /// From what the file holds.
    pub(crate) fn new(entries: Vec<(LeaderEpoch, Offset)>) -> Self {
        Self { entries }
    }

    pub(crate) fn entries(&self) -> &[(LeaderEpoch, Offset)] {
        &self.entries
    }

    /// The newest epoch.
    pub(crate) fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|(epoch, _)| *epoch)
    }

    /// Notes that `epoch` begins at `start`, if it is newer than all known. Whether anything changed. Entries at or after
    /// `start` go: nothing was written under them.
    pub(crate) fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        if epoch.0 < 0 || self.latest().is_some_and(|latest| epoch <= latest) {
            return false;
        }
        self.entries.retain(|(_, known)| *known < start);
        self.entries.push((epoch, start));
        true
    }

    /// The log now ends at `end`. Whether anything changed.
    pub(crate) fn truncate_from_end(&mut self, end: Offset) -> bool {
        let before = self.entries.len();
        self.entries.retain(|(_, start)| *start < end);
        before != self.entries.len()
    }

    /// The log now starts at `log_start`: the entry that covers it starts there. Whether anything changed.
    pub(crate) fn truncate_from_start(&mut self, log_start: Offset) -> bool {
        let Some(covering) = self.entries.iter().rposition(|(_, start)| *start <= log_start) else {
            return false;
        };
        if covering == 0 && self.entries[0].1 == log_start {
            return false;
        }
        self.entries.drain(..covering);
        self.entries[0].1 = log_start;
        true
    }

    /// Where `epoch` ends, as OffsetForLeaderEpoch answers: the largest epoch known that is not above it, and the offset
    /// at which the next one begins (the log end for the newest). `None` if that cannot be said.
    ///
    /// Source: Kafka LeaderEpochFileCache.endOffsetFor.
    pub(crate) fn end_offset_for(
        &self,
        epoch: LeaderEpoch,
        log_end: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        let latest = self.latest()?;
        if epoch == LeaderEpoch::NONE || epoch > latest {
            return None;
        }
        if epoch == latest {
            return Some((epoch, log_end));
        }
        let next = self.entries.partition_point(|(known, _)| *known <= epoch);
        let floor = next.checked_sub(1).map_or(epoch, |at| self.entries[at].0);
        Some((floor, self.entries[next].1))
    }

    /// The epoch under which the record at `offset` was written.
    pub(crate) fn epoch_for(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|(_, start)| *start <= offset);
        after.checked_sub(1).map(|at| self.entries[at].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        LeaderEpochs::new(
            entries.iter().map(|(epoch, start)| (LeaderEpoch(*epoch), Offset(*start))).collect(),
        )
    }

    /// Only newer epochs count; one without data gives way to the next (storage-formats §7.6).
    #[test]
    fn assigning() {
        let mut cache = epochs(&[]);
        assert!(cache.assign(LeaderEpoch(0), Offset(0)));
        assert!(!cache.assign(LeaderEpoch(0), Offset(5)));
        assert!(!cache.assign(LeaderEpoch(-1), Offset(5)));
        assert!(cache.assign(LeaderEpoch(2), Offset(24)));
        assert_eq!(cache, epochs(&[(0, 0), (2, 24)]));
        assert!(cache.assign(LeaderEpoch(4), Offset(24)));
        assert_eq!(cache, epochs(&[(0, 0), (4, 24)]));
    }

    /// Truncation at both ends (storage-formats §7.6).
    #[test]
    fn truncating() {
        let mut cache = epochs(&[(0, 0), (2, 24), (5, 30)]);
        assert!(cache.truncate_from_end(Offset(30)));
        assert!(!cache.truncate_from_end(Offset(30)));
        assert_eq!(cache, epochs(&[(0, 0), (2, 24)]));
        assert!(cache.truncate_from_start(Offset(26)));
        assert!(!cache.truncate_from_start(Offset(26)));
        assert!(!cache.truncate_from_start(Offset(20)));
        assert_eq!(cache, epochs(&[(2, 26)]));
    }

    /// The four cases of OffsetForLeaderEpoch (storage-formats §7.6).
    #[test]
    fn end_offsets() {
        let cache = epochs(&[(2, 10), (4, 20), (7, 30)]);
        let end = |epoch| cache.end_offset_for(LeaderEpoch(epoch), Offset(42)).map(|(e, o)| (e.0, o.0));
        assert_eq!(end(7), Some((7, 42)));
        assert_eq!(end(8), None);
        assert_eq!(end(-1), None);
        assert_eq!(end(4), Some((4, 30)));
        assert_eq!(end(6), Some((4, 30)));
        assert_eq!(end(1), Some((1, 10)));
        assert_eq!(epochs(&[]).end_offset_for(LeaderEpoch(0), Offset(1)), None);
        assert_eq!(cache.epoch_for(Offset(19)), Some(LeaderEpoch(2)));
        assert_eq!(cache.epoch_for(Offset(9)), None);
    }
}
