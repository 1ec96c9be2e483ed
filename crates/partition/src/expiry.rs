//! When a producer is forgotten (producer-state §13).

use fencepost_types::Millis;

use crate::entry::ProducerEntry;
use crate::producer_states::ProducerStates;

/// How much was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Expired {
    /// Producers.
    pub producers: usize,
    /// Verification entries.
    pub verifications: usize,
}

impl ProducerStates {
    /// Forgets producers that were silent for `expiration_ms` (`producer.id.expiration.ms`) and have no open
    /// transaction, and verifications begun that long ago.
    ///
    /// Differs from Kafka: a producer is as old as the later of its last record's timestamp and the time of its last
    /// append by this process, so that one who writes back-dated records is not forgotten while alive
    /// (producer-state trap 17).
    ///
    /// Source: Kafka ProducerStateManager.removeExpiredProducers.
    pub fn expire(&mut self, now: Millis, expiration_ms: i64) -> Expired {
        let before = (self.producers.len(), self.verifications.len());
        self.producers.retain(|_, entry| !entry.is_expired(now, expiration_ms));
        self.verifications.retain(|_, entry| now.since(entry.created_at) < expiration_ms);
        Expired {
            producers: before.0 - self.producers.len(),
            verifications: before.1 - self.verifications.len(),
        }
    }
}

impl ProducerEntry {
    /// Whether nothing was heard of the producer for `expiration_ms`. With an open transaction, never (trap 18).
    pub(crate) fn is_expired(&self, now: Millis, expiration_ms: i64) -> bool {
        self.current_txn_first_offset.is_none() && now.since(self.heard_at()) >= expiration_ms
    }

    /// When the producer was last heard of: its last record's timestamp, or the time of its last append by this process
    /// where that is later.
    pub(crate) fn heard_at(&self) -> Millis {
        self.last_timestamp.max(self.appended_at.unwrap_or(Millis::NONE))
    }
}

#[cfg(test)]
mod tests;
