//! The invariants, asserted, and the views in which live and replayed state are compared (P8).

use fencepost_types::limits::PRODUCER_BATCHES_CACHED_MAX;

use crate::producer_states::ProducerStates;

impl ProducerStates {
    /// Panics if one of the invariants P1 to P5 of this crate's page is broken.
    pub fn check(&self) {
        let open =
            self.producers.iter().filter(|(_, entry)| entry.current_txn_first_offset.is_some()).count();
        assert_eq!(open, self.ongoing.len(), "P1: `ongoing` names as many transactions as the table");
        for (first_offset, producer_id) in &self.ongoing {
            let entry = self.producers.get(producer_id).expect("P1: an open transaction has a producer");
            assert_eq!(entry.current_txn_first_offset, Some(*first_offset), "P1: producer {producer_id}");
            assert!(*first_offset < self.map_end_offset, "P3: open from {first_offset}");
            assert!(!self.unreplicated.contains_key(&(*first_offset, *producer_id)), "P4: {first_offset}");
        }
        for (producer_id, entry) in &self.producers {
            assert!(producer_id.0 >= 0, "P1: a producer without an id");
            assert!(entry.batches.len() <= PRODUCER_BATCHES_CACHED_MAX, "P2: producer {producer_id}");
            for batch in &entry.batches {
                assert!(batch.offset_delta >= 0, "P2: producer {producer_id}, {batch:?}");
                assert!(batch.last_offset < self.map_end_offset, "P3: producer {producer_id}, {batch:?}");
            }
        }
        for ((first_offset, producer_id), marker_offset) in &self.unreplicated {
            assert!(first_offset < marker_offset, "P4: producer {producer_id} ended before it began");
            assert!(*marker_offset < self.map_end_offset, "P3: marker at {marker_offset}");
        }
        for (producer_id, entry) in &self.verifications {
            assert!(entry.guard.0 <= self.next_guard, "P5: producer {producer_id}, {entry:?}");
            assert!(entry.lowest_sequence.is_none_or(|sequence| sequence.0 >= 0), "P5: {entry:?}");
        }
    }

    /// What the log alone says: without verification entries and times of appends. Equal for live state and for a
    /// replay of the whole log under the same high watermark, as long as nobody has expired.
    pub fn logged(&self) -> Self {
        let mut logged = Self { next_guard: 0, ..self.clone() };
        logged.verifications.clear();
        logged.producers.values_mut().for_each(|entry| entry.appended_at = None);
        logged
    }

    /// What a restart restores of [`ProducerStates::logged`]: no transactions that wait for replication.
    pub fn restorable(&self) -> Self {
        let mut restorable = self.logged();
        restorable.unreplicated.clear();
        restorable
    }

    /// What a restart restores from a snapshot without windows, as Kafka's are: of [`ProducerStates::restorable`] one batch of
    /// each window.
    pub fn restorable_by_kafka(&self) -> Self {
        let mut restorable = self.restorable();
        for entry in restorable.producers.values_mut() {
            entry.batches.drain(..entry.batches.len().saturating_sub(1));
            // The file has one timestamp for the producer and its batch.
            entry.batches.iter_mut().for_each(|batch| batch.timestamp = entry.last_timestamp);
        }
        restorable
    }
}
