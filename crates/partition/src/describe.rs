//! The rows of DescribeProducers (producer-state §15).

use fencepost_types::{CoordinatorEpoch, Millis, Offset, ProducerId, Sequence};

use crate::producer_states::ProducerStates;

/// One producer, as DescribeProducers answers.
///
/// Source: KIP-664.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DescribedProducer {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch; the answer has 32 bits for it.
    pub producer_epoch: i32,
    /// Sequence of its newest batch, or −1.
    pub last_sequence: Sequence,
    /// Timestamp of its last batch or marker, or −1.
    pub last_timestamp: Millis,
    /// Coordinator epoch of its last marker, or −1.
    pub coordinator_epoch: CoordinatorEpoch,
    /// First offset of its open transaction, or −1.
    pub current_txn_start_offset: Offset,
}

impl ProducerStates {
    /// All producers known, by id.
    pub fn describe_producers(&self) -> impl Iterator<Item = DescribedProducer> {
        self.producers().map(|(producer_id, entry)| DescribedProducer {
            producer_id,
            producer_epoch: i32::from(entry.producer_epoch.0),
            last_sequence: entry.last_sequence(),
            last_timestamp: entry.last_timestamp,
            coordinator_epoch: entry.coordinator_epoch,
            current_txn_start_offset: entry.current_txn_first_offset.unwrap_or(Offset::NONE),
        })
    }
}

#[cfg(test)]
mod tests;
