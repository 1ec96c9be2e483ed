//! What a scenario must come to, wherever the power failed.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_records::{Batches, EndTxnMarker};
use fencepost_types::TransactionResult;

use super::run::Run;
use crate::harness::requests::{READ_COMMITTED, committed_offset, read};

/// Partitions with what is visible in them, groups with their offsets, and ids with their states.
#[derive(Default)]
pub struct Outcome {
    values: Vec<(&'static str, i32, Vec<&'static str>)>,
    offsets: Vec<(&'static str, &'static str, i64)>,
    states: Vec<(&'static str, &'static str)>,
}

impl Outcome {
    /// A read_committed consumer of this partition gets this, in this order, each value once.
    pub fn values(mut self, topic: &'static str, partition: i32, values: &[&'static str]) -> Self {
        self.values.push((topic, partition, values.to_vec()));
        self
    }

    /// The group's offset for partition 0 of the topic; −1 for none.
    pub fn offset(mut self, group: &'static str, topic: &'static str, offset: i64) -> Self {
        self.offsets.push((group, topic, offset));
        self
    }

    /// The state of a transactional id, by Kafka's name; empty for an unknown one.
    pub fn state(mut self, id: &'static str, state: &'static str) -> Self {
        self.states.push((id, state));
        self
    }

    /// Compares it with what there is.
    pub fn assert(&self, run: &Run) {
        let world = &run.world;
        for (id, state) in &self.states {
            assert_eq!(run.state(id), *state, "{id}");
        }
        for (topic, partition, values) in &self.values {
            assert_eq!(visible(run, topic, *partition), *values, "{topic}-{partition}");
        }
        for (group, topic, offset) in &self.offsets {
            let found = committed_offset(&world.client(), group, topic, true);
            assert_eq!(found, (*offset, 0), "{group} {topic}");
        }
        for standing in world.broker().standings() {
            assert_eq!(standing.open_transactions, 0, "{standing:?}");
        }
    }
}

/// What a read_committed consumer gets, by the list of aborted transactions; the markers in the log must say the same.
fn visible(run: &Run, topic: &str, partition: i32) -> Vec<String> {
    let row = read(&run.world.client(), topic, partition, 0, READ_COMMITTED);
    assert_eq!(row.error_code, 0);
    assert_eq!(row.last_stable_offset, row.high_watermark, "{topic}-{partition}: somebody is stuck");
    let mut aborted: Vec<_> = row.aborted_transactions.unwrap();
    aborted.sort_by_key(|one| one.first_offset);
    let (mut aborting, mut by_list) = (BTreeSet::new(), Vec::new());
    let mut open = BTreeMap::<i64, Vec<(i64, String)>>::new();
    let mut by_marker = Vec::new();
    for batch in Batches::new(row.records.unwrap().into_bytes()) {
        let batch = batch.unwrap();
        let (producer, offset) = (batch.header().producer_id.0, batch.header().base_offset.0);
        if batch.header().is_control() {
            let ended = open.remove(&producer).unwrap_or_default();
            aborting.remove(&producer);
            match EndTxnMarker::from_batch(&batch).unwrap().unwrap().result {
                TransactionResult::Commit => by_marker.extend(ended),
                TransactionResult::Abort => {}
            }
            continue;
        }
        aborting.extend(aborted.extract_if(.., |one| one.first_offset <= offset).map(|one| one.producer_id));
        for record in batch.records().unwrap() {
            let value = String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap();
            if !aborting.contains(&producer) {
                by_list.push(value.clone());
            }
            open.entry(producer).or_default().push((offset, value));
        }
    }
    assert!(open.is_empty(), "{topic}-{partition} lacks a marker for {open:?}");
    by_marker.sort();
    let by_marker: Vec<_> = by_marker.into_iter().map(|(_, value)| value).collect();
    assert_eq!(by_marker, by_list, "{topic}-{partition}");
    by_list
}
