//! Which batches compaction must keep for the sake of their producer (producer-state §14).

use alloc::collections::BTreeMap;

use fencepost_types::{Offset, ProducerEpoch, ProducerId};

use crate::batch::{BatchContent, BatchFacts};
use crate::producer_states::ProducerStates;

/// The batch that a producer's state hangs on after a restart.
///
/// Source: Kafka LastRecord, Cleaner.isBatchLastRecordOfProducer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastRecord {
    /// The data batch with this last offset.
    Data(Offset),
    /// There is no data of the present epoch: the markers of this epoch (producer-state trap 35).
    Marker(ProducerEpoch),
}

impl LastRecord {
    /// Whether `facts`, a batch of this producer, must stay in the log, emptied if need be.
    pub fn is_in(self, facts: &BatchFacts) -> bool {
        match (self, facts.content) {
            (Self::Data(last_offset), BatchContent::Data) => facts.last_offset() == last_offset,
            (Self::Marker(epoch), BatchContent::Marker(_) | BatchContent::OtherControl) => {
                facts.producer_epoch == epoch
            }
            (Self::Data(_), BatchContent::Marker(_) | BatchContent::OtherControl)
            | (Self::Marker(_), BatchContent::Data) => false,
        }
    }
}

impl ProducerStates {
    /// For each producer, the batch that compaction must keep.
    pub fn last_records(&self) -> BTreeMap<ProducerId, LastRecord> {
        let last = |(producer_id, entry): (ProducerId, &crate::entry::ProducerEntry)| {
            let marker = LastRecord::Marker(entry.producer_epoch);
            (producer_id, entry.last_data_offset().map_or(marker, LastRecord::Data))
        };
        self.producers().map(last).collect()
    }
}

#[cfg(test)]
mod tests;
