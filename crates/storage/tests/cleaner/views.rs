//! What a log looks like to those who use it, and what its files must be.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fencepost_partition::DescribedProducer;
use fencepost_records::{Batch, Batches, EndTxnMarker};
use fencepost_storage::{Disk, Log};
use fencepost_types::Offset;

use crate::common::*;

/// The newest value of each key, as a read_committed consumer that reads from the start in fetches of `fetch_bytes` finds
/// it. It sorts out aborted data as clients do: by the list of the fetch and the markers.
pub fn newest_values(log: &Log, fetch_bytes: usize) -> BTreeMap<Bytes, Bytes> {
    let (start, mut values) = (log.log_start_offset(), BTreeMap::new());
    let mut at = start;
    let bound = log.last_stable_offset();
    while at < bound {
        let slice = log.read(at, fetch_bytes, bound, true).unwrap();
        let mut ahead = log.aborted_transactions(at, &slice);
        let mut aborted = BTreeSet::new();
        assert!(slice.next_offset > at, "a consumer gets on by the last offset, whatever the batch holds");
        at = slice.next_offset;
        for batch in Batches::new(slice.records).map(Result::unwrap) {
            let header = *batch.header();
            ahead.retain(|txn| {
                let begins = txn.first_offset <= header.last_offset();
                if begins {
                    aborted.insert(txn.producer_id);
                }
                !begins
            });
            if header.is_control() {
                if let Some(marker) = EndTxnMarker::from_batch(&batch).unwrap()
                    && !marker.result.is_commit()
                {
                    aborted.remove(&header.producer_id);
                }
                continue;
            }
            if header.is_transactional() && aborted.contains(&header.producer_id) {
                continue;
            }
            let records = batch.records().unwrap().map(Result::unwrap);
            for record in records.filter(|record| header.record_offset(record.offset_delta) >= start) {
                let key = record.key.unwrap();
                match record.value {
                    Some(value) => values.insert(key, value),
                    None => values.remove(&key),
                };
            }
        }
    }
    values
}

/// What must not change by cleaning, beside the values.
pub fn bounds(log: &Log) -> (Offset, Offset, Offset, Offset, Vec<DescribedProducer>) {
    let producers = log.producer_states().describe_producers().collect();
    (log.log_start_offset(), log.last_stable_offset(), log.high_watermark(), log.log_end_offset(), producers)
}

/// Offset, timestamp, key, value and headers of every record, control records too.
fn records(batches: &[Batch]) -> BTreeMap<Offset, String> {
    let mut records = BTreeMap::new();
    for batch in batches {
        let header = batch.header();
        for record in batch.records().unwrap().map(Result::unwrap) {
            let timestamp = header.record_timestamp(record.timestamp_delta);
            let content = format!("{timestamp} {:?} {:?} {:?}", record.key, record.value, record.headers);
            records.insert(header.record_offset(record.offset_delta), content);
        }
    }
    records
}

/// What stays is what was there: the same ranges of offsets, producers, epochs and sequences, and the same records.
pub fn check_kept(before: &[Batch], after: &[Batch]) {
    let identity = |batch: &Batch| {
        let header = batch.header();
        let kind = (header.is_transactional(), header.is_control(), header.timestamp_type());
        let producer = (header.producer_id, header.producer_epoch, header.base_sequence);
        (header.base_offset, header.last_offset_delta, header.leader_epoch, producer, kind)
    };
    let known: BTreeMap<Offset, _> =
        before.iter().map(|batch| (batch.base_offset(), identity(batch))).collect();
    for batch in after {
        batch.verify_crc().unwrap();
        assert_eq!(known.get(&batch.base_offset()), Some(&identity(batch)));
    }
    let (before, after) = (records(before), records(after));
    for (offset, record) in &after {
        assert_eq!(before.get(offset), Some(record), "at {offset}");
    }
}

/// The indexes of every cleaned segment are what the rules make of its log, and each segment reaches up to the next. (The
/// indexes of others depend on when the log was opened, storage-formats §9.)
pub fn check_files(disk: &dyn Disk, log: &Log) {
    let directory = log.partition().to_string();
    let bases = bases(disk, &directory);
    for (at, base) in bases.iter().enumerate() {
        let file = |kind: &str| read(disk, &format!("{directory}/{base:020}.{kind}"));
        let batches = batches_of(disk, &format!("{directory}/{base:020}.log"));
        let Some(next) = bases.get(at + 1) else { continue };
        let last = batches.last().expect("a closed segment has a batch (C4)");
        assert_eq!(last.header().next_offset(), Offset(*next), "segment {base} reaches up to the next (C4)");
        if log.cleaner_checkpoint().is_none_or(|clean_end| Offset(*next) > clean_end) {
            continue;
        }
        let (offsets, times) = index_files(&batches, *base, log.config().index_interval_bytes);
        assert_eq!(file("index").unwrap().to_vec(), offsets, "index of {base}");
        assert_eq!(file("timeindex").unwrap().to_vec(), times, "time index of {base}");
        check_txn_index(&file("txnindex").unwrap_or_default(), &batches);
    }
    let strange = names(disk, &directory)
        .into_iter()
        .find(|name| [".cleaned", ".swap", ".deleted", ".tmp"].iter().any(|suffix| name.ends_with(suffix)));
    assert_eq!(strange, None);
}

/// `.index` and `.timeindex` of a closed segment by the rules of storage-formats §9.
fn index_files(batches: &[Batch], base: i64, interval_bytes: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut offsets, mut times) = (Vec::new(), Vec::new());
    let (mut position, mut since) = (0_usize, 0_u64);
    let (mut largest, mut noted) = ((-1_i64, 0_i64), -1_i64);
    let mut note = |largest: (i64, i64), times: &mut Vec<u8>| {
        if largest.0 > noted {
            noted = largest.0;
            times.extend(largest.0.to_be_bytes());
            times.extend(((largest.1 - base) as i32).to_be_bytes());
        }
    };
    for batch in batches {
        let header = batch.header();
        // An emptied batch has no record that its time could be looked up for.
        if header.record_count > 0 && header.max_timestamp.0 > largest.0 {
            largest = (header.max_timestamp.0, header.last_offset().0);
        }
        if since > interval_bytes {
            since = 0;
            offsets.extend(((header.last_offset().0 - base) as i32).to_be_bytes());
            offsets.extend((position as i32).to_be_bytes());
            note(largest, &mut times);
        }
        since += header.total_bytes() as u64;
        position += header.total_bytes();
    }
    note(largest, &mut times);
    (offsets, times)
}

/// Every entry has its marker in this segment, and they rise.
fn check_txn_index(content: &[u8], batches: &[Batch]) {
    let entries: Vec<_> = content
        .chunks(34)
        .map(|entry| fencepost_partition::AbortedTxn::decode(entry.try_into().unwrap()).unwrap())
        .collect();
    assert!(entries.windows(2).all(|pair| pair[0].last_offset < pair[1].last_offset));
    for entry in entries {
        let marker = batches.iter().find(|batch| batch.base_offset() == entry.last_offset);
        let marker = marker.unwrap_or_else(|| panic!("the marker of {entry:?} is gone"));
        assert_eq!(marker.header().producer_id, entry.producer_id);
        let marker = EndTxnMarker::from_batch(marker).unwrap().expect("an abort is still told");
        assert!(!marker.result.is_commit());
    }
}
