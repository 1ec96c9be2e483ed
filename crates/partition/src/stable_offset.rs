//! How far read_committed may read (producer-state §8).

use fencepost_types::{Millis, Offset, ProducerId};

use crate::batch::CompletedTxn;
use crate::producer_states::ProducerStates;

/// A transaction counts as late once its producer has been silent for `transaction.max.timeout.ms` and this long more.
///
/// Source: Kafka ProducerStateManager.LATE_TRANSACTION_BUFFER_MS.
pub const LATE_TRANSACTION_BUFFER_MS: i64 = 300_000;

/// The open transaction that holds the last stable offset back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenTransaction {
    /// Its producer.
    pub producer_id: ProducerId,
    /// Base offset of its first batch here.
    pub first_offset: Offset,
    /// Timestamp of the producer's last batch here.
    pub last_timestamp: Millis,
}

impl ProducerStates {
    /// The high watermark is now `high_watermark`: transactions whose marker lies below it are stable.
    pub fn on_high_watermark(&mut self, high_watermark: Offset) {
        self.unreplicated.retain(|_, marker_offset| *marker_offset >= high_watermark);
    }

    /// The log now starts at `log_start_offset`. Open transactions stay, whatever was deleted of them: their marker
    /// must still come (producer-state trap 32).
    pub fn on_log_start(&mut self, log_start_offset: Offset) {
        self.unreplicated.retain(|_, marker_offset| *marker_offset >= log_start_offset);
    }

    /// First offset of the earliest transaction that is open, or whose marker is not below the high watermark.
    ///
    /// Source: Kafka ProducerStateManager.firstUnstableOffset.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let open = self.ongoing.first().map(|(first_offset, _)| *first_offset);
        let unreplicated = self.unreplicated.keys().next().map(|(first_offset, _)| *first_offset);
        open.into_iter().chain(unreplicated).min()
    }

    /// The offset below which every record is decided and replicated; exclusive, as the high watermark is.
    ///
    /// Differs from Kafka: a first unstable offset below the log start becomes the log start itself, not the base
    /// offset of the batch that holds it, which a Fetch would refuse.
    ///
    /// Source: Kafka UnifiedLog.fetchLastStableOffsetMetadata.
    pub fn last_stable_offset(&self, high_watermark: Offset, log_start_offset: Offset) -> Offset {
        assert!(
            log_start_offset <= high_watermark,
            "log start {log_start_offset}, watermark {high_watermark}"
        );
        match self.first_unstable_offset() {
            Some(unstable) if unstable < high_watermark => unstable.max(log_start_offset),
            Some(_) | None => high_watermark,
        }
    }

    /// What the transaction index keeps as the last stable offset of a transaction that a marker has just ended: the
    /// first offset of the earliest open transaction of another producer, else the offset after the marker. Ask before
    /// the next batch is replayed.
    ///
    /// Source: Kafka ProducerStateManager.lastStableOffset.
    pub fn last_stable_offset_for(&self, completed: &CompletedTxn) -> Offset {
        let after_marker = Offset(completed.last_offset.0.saturating_add(1));
        // The completed transaction has left `ongoing`, and its producer has no other (P1).
        self.ongoing.first().map_or(after_marker, |(first_offset, _)| *first_offset)
    }

    /// The open transaction that begins first.
    pub fn oldest_open_transaction(&self) -> Option<OpenTransaction> {
        let (first_offset, producer_id) = *self.ongoing.first()?;
        let last_timestamp = self.producers[&producer_id].last_timestamp;
        Some(OpenTransaction { producer_id, first_offset, last_timestamp })
    }

    /// Whether the earliest open transaction should long have been ended by its timeout: it is probably hanging.
    ///
    /// Source: KIP-664, Kafka ProducerStateManager.hasLateTransaction.
    pub fn has_late_transaction(&self, now: Millis, transaction_max_timeout_ms: i64) -> bool {
        let late_after_ms = transaction_max_timeout_ms.saturating_add(LATE_TRANSACTION_BUFFER_MS);
        self.oldest_open_transaction()
            .is_some_and(|open| open.last_timestamp.0 > 0 && now.since(open.last_timestamp) > late_after_ms)
    }
}

#[cfg(test)]
mod tests;
