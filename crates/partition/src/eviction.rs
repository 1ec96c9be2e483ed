//! Making room in the producer table before producers expire: a table has a limit, and clients choose how many producer
//! ids they use.
//!
//! What an entry promises: a retry is recognised, a gap is refused, an old epoch is fenced, and an open transaction holds
//! the last stable offset. A producer that is forgotten is unknown, as after its expiry (producer-state §13): its next
//! batch may have any sequence. So only such entries may go whose promises nobody can still need:
//! - no transaction is open here, none has just been ended by a marker that is not replicated, none is being verified;
//! - the producer has been silent for longer than any client retries a batch.
//!
//! The fence of a marker lives as long: an older instance that wakes up after that is refused by the transaction
//! coordinator, which every batch that opens a transaction is verified with.
//!
//! Differs from Kafka, where the table has no limit but the memory of the process.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use fencepost_types::{Millis, ProducerId};

use crate::entry::ProducerEntry;
use crate::producer_states::ProducerStates;

/// A producer that was heard of within this time is never evicted: more than twice what clients retry a batch for
/// (`delivery.timeout.ms`, two minutes).
pub const PRODUCER_EVICTION_IDLE_MIN_MS: i64 = 300_000;

/// What became of an eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Evicted {
    /// How many producers were forgotten.
    pub producers: usize,
    /// When another look may find more, where this one found fewer than asked for: until then nothing that is known now
    /// becomes old enough.
    pub look_again_at: Option<Millis>,
}

impl ProducerStates {
    /// Forgets up to `count` producers that may be forgotten and were silent for `idle_min_ms`, those that were silent
    /// longest first.
    pub fn evict(&mut self, now: Millis, idle_min_ms: i64, count: usize) -> Evicted {
        let unreplicated: BTreeSet<ProducerId> = self.unreplicated.keys().map(|(_, id)| *id).collect();
        let is_promised = |id: &ProducerId, entry: &ProducerEntry| {
            entry.current_txn_first_offset.is_some()
                || unreplicated.contains(id)
                || self.verifications.contains_key(id)
        };
        let free = self.producers.iter().filter(|(id, entry)| !is_promised(id, entry));
        let mut by_age: Vec<(Millis, ProducerId)> = free.map(|(id, entry)| (entry.heard_at(), *id)).collect();
        by_age.sort_unstable();
        let old = by_age.partition_point(|(heard_at, _)| now.since(*heard_at) >= idle_min_ms);
        for (_, id) in &by_age[..old.min(count)] {
            self.producers.remove(id);
        }
        // With none left to grow old, a transaction that ends now is the first that may.
        let youngest = by_age.get(old).map_or(now, |(heard_at, _)| *heard_at);
        let look_again_at = (old < count).then(|| youngest.plus(idle_min_ms));
        Evicted { producers: old.min(count), look_again_at }
    }
}

#[cfg(test)]
mod tests;
