//! One test for each rule of storage-formats §12 and of the cleaner's page.

use std::collections::BTreeMap;

use fencepost_records::{Batch, CompressionType, TimestampType};
use fencepost_storage::{
    Checkpoint, CleanerConfig, CleaningStep, CleaningTurn, CleanupPolicy, Disk, LogConfig, MemoryDisk,
    Recovery, StorageError,
};
use fencepost_types::{Millis, Offset, ProducerId};

use crate::common::*;
use crate::views::*;
use crate::writer::*;

fn writer() -> Writer<MemoryDisk> {
    Writer::new(MemoryDisk::new(), compacted())
}

fn batch_at(writer: &Writer<MemoryDisk>, offset: i64) -> Option<Batch> {
    writer.batches().into_iter().find(|batch| batch.base_offset() == Offset(offset))
}

/// Forgets all snapshots and opens after a crash: everything is made anew out of the batches.
fn rebuild(writer: &mut Writer<MemoryDisk>) {
    for name in writer.files().iter().filter(|name| name.ends_with(".snapshot")) {
        writer.disk.remove(&format!("t-0/{name}")).unwrap();
    }
    writer.reopen(unclean(0));
}

/// C1: of each key the newest record stays, in its batch, at its offset; batches with nothing left go.
#[test]
fn the_newest_record_of_a_key_stays() {
    let mut writer = writer();
    writer.plain(&[("a", Some("1")), ("b", Some("1")), ("c", Some("1"))]);
    writer.plain(&[("a", Some("2"))]);
    writer.plain(&[("b", Some("2")), ("a", Some("3"))]);
    writer.roll();
    let (values, before) = (newest_values(&writer.log, 99), writer.batches());
    assert!(writer.clean());
    assert_eq!(writer.shape(), ["0-2 [2]", "4-5 [4 5]", "6-6 [6]"]);
    assert_eq!(newest_values(&writer.log, 99), values);
    check_kept(&before, &writer.batches());
    check_files(&writer.disk, &writer.log);
    assert_eq!(writer.log.cleaner_checkpoint(), Some(Offset(6)));
    assert!(!writer.clean(), "there is nothing dirty but the active segment");
    let slice = writer.log.read(Offset(3), 1 << 20, Offset(7), true).unwrap();
    assert_eq!(slice.base_offset, Some(Offset(4)), "a read steps over what is gone");
}

/// Records without a key, from a time before the topic was compacted, go.
#[test]
fn records_without_a_key_go() {
    let mut writer = writer();
    let mut builder = fencepost_records::BatchBuilder::new(Offset(0), fencepost_types::LeaderEpoch::NONE);
    builder.append(Millis(T), None, Some(b"v"), &[]);
    builder.append(Millis(T), Some(b"k"), Some(b"v"), &[]);
    writer.log.append_as_coordinator(at(T), &builder.build().unwrap(), LEADER, None, false).unwrap();
    writer.log.update_high_watermark(Offset(2));
    writer.roll();
    writer.clean();
    assert_eq!(writer.shape(), ["0-1 [1]", "2-2 [2]"]);
}

/// C2, storage-formats traps 8, 9 and 35: aborted data goes at once; its marker, and that of a committed transaction whose
/// data was replaced, gets a horizon in the first pass that meets no data, and goes in the first pass after the horizon. All
/// commit markers have the same key, which means nothing.
#[test]
fn markers_outlive_their_data_by_the_horizon() {
    let mut writer = writer();
    writer.transactional(1, 0, &[("a", Some("aborted"))]);
    writer.end(1, 0, false, 2);
    writer.transactional(2, 0, &[("a", Some("old"))]);
    writer.end(2, 0, true, 2);
    // Both producers go on, so that their state hangs on later batches.
    writer.transactional(1, 1, &[("b", Some("1"))]);
    writer.transactional(2, 1, &[("c", Some("1"))]);
    writer.end(1, 1, true, 2);
    writer.end(2, 1, true, 2);
    writer.plain(&[("a", Some("new"))]);
    let roll = writer.roll();
    writer.clean();
    let live = ["4-4 [4]", "5-5 [5]", "6-6! [6]", "7-7! [7]", "8-8 [8]"];
    assert_eq!(writer.shape()[..2], ["1-1! [1]", "3-3! [3]"]);
    assert_eq!(writer.shape()[2..7], live);
    let sizes = |writer: &Writer<MemoryDisk>| {
        [1, 3].map(|offset| batch_at(writer, offset).map(|marker| marker.bytes().len()))
    };
    assert_eq!(sizes(&writer), [Some(78), Some(78)], "the pass that dropped the data leaves the markers");
    let aborted = writer.log.aborted_transactions_in(Offset(0), roll);
    assert!(aborted.is_empty(), "there is no data left to leave out");
    assert!(read(&writer.disk, "t-0/00000000000000000000.txnindex").is_none(), "no entry, no file");

    writer.now_ms += 10;
    writer.roll();
    writer.clean();
    assert_eq!(sizes(&writer), [Some(81), Some(81)], "the next one sets their horizon");
    let marker = batch_at(&writer, 1).unwrap();
    assert_eq!(marker.header().delete_horizon(), Some(Millis(T + 10 + DELETE_RETENTION_MS)));
    assert_eq!(marker.header().max_timestamp, Millis(T));

    writer.now_ms += DELETE_RETENTION_MS - 1;
    writer.roll();
    writer.clean();
    assert_eq!(sizes(&writer), [Some(81), Some(81)]);
    assert_eq!(batch_at(&writer, 1).unwrap(), marker, "a horizon is set once");
    writer.now_ms += 1;
    writer.roll();
    writer.clean();
    assert_eq!(sizes(&writer), [None, None]);
    assert_eq!(writer.shape()[..5], live);
}

/// A horizon far from the marker's time takes one byte more (storage-formats trap 35).
#[test]
fn a_marker_grows_with_its_distance_from_the_horizon() {
    let mut writer = writer();
    writer.end(1, 0, true, 2);
    writer.roll();
    writer.now_ms += 40 * 3_600_000;
    writer.clean();
    assert_eq!(batch_at(&writer, 0).unwrap().bytes().len(), 82);
}

/// A tombstone stays until its horizon, counted from the pass that first met it; a batch that is written again keeps the
/// horizon it has, and the times of its records (storage-formats trap 22).
#[test]
fn tombstones_go_after_their_horizon() {
    let mut writer = writer();
    writer.plain(&[("a", Some("1"))]);
    writer.plain(&[("a", None), ("b", Some("1")), ("c", Some("1"))]);
    writer.roll();
    writer.now_ms += 5;
    writer.clean();
    let horizon = Some(Millis(T + 5 + DELETE_RETENTION_MS));
    assert_eq!(writer.shape()[0], "1-3 [1 2 3]");
    assert_eq!(batch_at(&writer, 1).unwrap().header().delete_horizon(), horizon);

    writer.plain(&[("b", Some("2"))]);
    writer.roll();
    writer.now_ms += DELETE_RETENTION_MS - 1;
    writer.clean();
    let batch = batch_at(&writer, 1).unwrap();
    assert_eq!(writer.shape()[0], "1-3 [1 3]", "the batch was written again for the sake of b");
    assert_eq!(batch.header().delete_horizon(), horizon);
    let times = batch
        .records()
        .unwrap()
        .map(|record| batch.header().record_timestamp(record.unwrap().timestamp_delta));
    assert_eq!(times.collect::<Vec<_>>(), [Millis(T), Millis(T)]);

    writer.now_ms += 1;
    writer.roll();
    writer.clean();
    assert_eq!(writer.shape()[0], "1-3 [3]", "the horizon itself is the end");
    assert_eq!(newest_values(&writer.log, 99).get(&b"a"[..]), None);
}

/// C3: the last data batch of a live producer stays, emptied, so that a rebuild knows the sequence; so does the marker after
/// it. With the next batch it goes. Readers get on over it by its last offset (storage-formats trap 10).
#[test]
fn the_last_batch_of_a_producer_stays_empty() {
    let mut writer = writer();
    writer.idempotent(9, &[("a", Some("1")), ("b", Some("1"))]);
    writer.transactional(8, 0, &[("a", Some("2")), ("b", Some("2"))]);
    writer.end(8, 0, true, 0);
    writer.plain(&[("a", Some("3")), ("b", Some("3"))]);
    writer.roll();
    writer.clean();
    assert_eq!(writer.shape(), ["0-1 []", "2-3 []", "4-4! [4]", "5-6 [5 6]", "7-7 [7]"]);
    let emptied = batch_at(&writer, 2).unwrap();
    assert_eq!((emptied.bytes().len(), emptied.header().base_timestamp), (61, Millis::NONE));
    assert_eq!(emptied.header().max_timestamp, Millis(T));
    let described = bounds(&writer.log).4;
    rebuild(&mut writer);
    assert_eq!(bounds(&writer.log).4, described, "made anew out of the batches alone");
    assert_eq!(newest_values(&writer.log, 1).len(), 3, "in fetches of one batch");

    writer.idempotent(9, &[("a", Some("4"))]);
    writer.transactional(8, 0, &[("b", Some("4"))]);
    writer.end(8, 0, true, 0);
    writer.roll();
    writer.clean();
    assert_eq!(writer.shape()[..2], ["4-4! [4]", "7-7 [7]"], "their state hangs on later batches now");
}

/// C3, producer-state traps 35 and 36: the marker of a producer without data stays with its record, past its horizon, as
/// long as the producer is known: emptied it would tell a rebuild nothing, and a zombie would get through.
#[test]
fn the_last_marker_of_a_producer_stays_whole() {
    let mut writer = writer();
    writer.transactional(1, 0, &[("a", Some("1"))]);
    writer.end(1, 0, true, 2);
    writer.end(2, 6, false, 2);
    writer.plain(&[("a", Some("2"))]);
    for _ in 0..4 {
        writer.roll();
        writer.clean();
        writer.now_ms += DELETE_RETENTION_MS;
    }
    let markers: Vec<_> = writer.shape().into_iter().filter(|batch| batch.contains('!')).collect();
    assert_eq!(markers, ["1-1! [1]", "2-2! [2]"]);
    let described = bounds(&writer.log).4;
    rebuild(&mut writer);
    assert_eq!(bounds(&writer.log).4, described);
    let epoch = |log: &fencepost_storage::Log, id| {
        log.producer_states().producer(ProducerId(id)).unwrap().producer_epoch.0
    };
    assert_eq!((epoch(&writer.log, 1), epoch(&writer.log, 2)), (1, 7));

    // Once the producers are forgotten nothing hangs on the markers.
    writer.log.producer_states_mut().expire(Millis(writer.now_ms + 100_000_000), 86_400_000);
    writer.roll();
    writer.clean();
    assert!(writer.shape().iter().all(|batch| !batch.contains('!')), "{:?}", writer.shape());
}

/// Two equal markers in a row, as a retry leaves them, are two markers: the second ends nothing (storage-formats trap 29).
#[test]
fn a_repeated_marker_ends_nothing() {
    let mut writer = writer();
    writer.transactional(1, 0, &[("a", Some("1"))]);
    writer.end(1, 0, false, 2);
    writer.end(1, 0, false, 2);
    writer.transactional(1, 1, &[("a", Some("2"))]);
    writer.end(1, 1, true, 2);
    writer.roll();
    writer.clean();
    assert_eq!(batch_at(&writer, 1).unwrap().header().delete_horizon(), None, "its data was met");
    assert!(batch_at(&writer, 2).unwrap().header().delete_horizon().is_some());
    assert_eq!(writer.shape(), ["1-1! [1]", "2-2! [2]", "3-3 [3]", "4-4! [4]", "5-5 [5]"]);
}

/// C2: DeleteRecords takes the data of a transaction away, and the snapshot behind it still says that it is open. The marker
/// stays as long as that snapshot: a rebuild from there would open the transaction for ever.
#[test]
fn a_snapshot_keeps_the_marker_that_it_needs() {
    let mut writer = writer();
    writer.transactional(1, 0, &[("a", Some("1"))]);
    writer.transactional(2, 0, &[("b", Some("1"))]);
    let second = writer.roll();
    writer.end(1, 0, true, 0);
    writer.end(2, 0, false, 0);
    writer.plain(&[("c", Some("1"))]);
    writer.roll();
    writer.log.delete_records(second).unwrap();
    for file in writer.log.apply_retention(at(writer.now_ms)).unwrap().files {
        writer.disk.remove(&file).unwrap();
    }
    for _ in 0..3 {
        assert!(writer.clean());
        writer.now_ms += DELETE_RETENTION_MS + 1;
        writer.roll();
    }
    assert_eq!(writer.shape()[..2], ["3-3! [3]", "4-4! [4]"]);
    assert_eq!(batch_at(&writer, 3).unwrap().header().delete_horizon(), None);
    let all = bounds(&writer.log);
    writer.reopen(Recovery { log_start_offset: second, ..unclean(0) });
    assert_eq!(bounds(&writer.log), all);
}

/// Nothing at or above the last stable offset is touched, not even the segment that holds it; what is aborted later is data
/// until then.
#[test]
fn nothing_is_cleaned_from_the_last_stable_offset_on() {
    let mut writer = writer();
    writer.plain(&[("a", Some("1"))]);
    writer.plain(&[("a", Some("2"))]);
    writer.roll();
    writer.plain(&[("a", Some("3"))]);
    writer.transactional(1, 0, &[("a", Some("open"))]);
    writer.plain(&[("a", Some("4"))]);
    writer.roll();
    writer.roll();
    writer.clean();
    let shape = writer.shape();
    assert_eq!(shape[..4], ["1-1 [1]", "2-2 [2]", "3-3 [3]", "4-4 [4]"], "{shape:?}");
    assert_eq!(writer.log.cleaner_checkpoint(), Some(Offset(2)));
    writer.end(1, 0, false, 2);
    writer.roll();
    writer.clean();
    assert_eq!(writer.shape()[0], "5-5 [5]");
    assert_eq!(newest_values(&writer.log, 99)[&b"a"[..]], "4");
}

/// An aborted transaction whose marker lies beyond the cleaned part is dropped as far as it reaches in; one that began in an
/// earlier pass's part is still known.
#[test]
fn transactions_span_passes() {
    let mut writer = writer();
    writer.transactional(1, 0, &[("a", Some("aborted"))]);
    writer.roll();
    writer.transactional(1, 0, &[("b", Some("aborted"))]);
    writer.roll();
    writer.end(1, 0, false, 0);
    writer.clean();
    // The state of the producer hangs on its last batch; the end of the first segment reaches up to the next (C4).
    assert_eq!(writer.shape(), ["1-1 [1]", "2-2 []", "3-3 [3]", "4-4! [4]"]);
    writer.roll();
    writer.clean();
    let aborted = writer.log.aborted_transactions_in(Offset(0), Offset(9));
    assert_eq!(aborted.len(), 1, "data of it, though emptied, is still there");
    assert_eq!(newest_values(&writer.log, 99).keys().collect::<Vec<_>>(), ["roll"]);
}

/// C4, storage-formats trap 7: a segment of which nothing stays keeps its last batch without records, and with the next one in
/// reach of one segment it goes.
#[test]
fn a_segment_reaches_up_to_the_next() {
    let config = LogConfig { segment_bytes: 250, ..compacted() };
    let mut writer = Writer::new(MemoryDisk::new(), config.clone());
    for number in 0..12 {
        let value = format!("{number:040}");
        writer.plain(&[("a", Some(&value))]);
    }
    writer.clean();
    check_files(&writer.disk, &writer.log);
    let emptied = |writer: &Writer<MemoryDisk>| {
        writer.batches().iter().filter(|batch| batch.header().record_count == 0).count()
    };
    let (closed, empty) = (writer.log.segment_count() - 1, emptied(&writer));
    assert!(closed > 2, "{closed}");
    assert_eq!(empty, closed - 1, "the last closed one has the newest record below the active one");
    writer.plain(&[("a", Some("x"))]);
    writer.roll();
    for _ in 0..4 {
        writer.clean_with(&CleanerConfig { min_cleanable_dirty_ratio: 0.0, ..cleaner() });
        writer.roll();
    }
    assert!(writer.log.segment_count() <= 4, "what is small is put together: {:?}", writer.files());
    check_files(&writer.disk, &writer.log);

    // With gaps between segments a crash under another policy would cut the log.
    let values = newest_values(&writer.log, 99);
    let delete = CleanupPolicy { delete: true, compact: false };
    writer.log.update_config(LogConfig { cleanup_policy: delete, ..config });
    writer.reopen(unclean(0));
    assert_eq!(newest_values(&writer.log, 99), values);
}

/// Compressed batches are written again in their own codec, and may come out larger than they were: nothing that they pass
/// through has a size of its own (storage-formats trap 14).
#[test]
fn codecs_stay_and_batches_may_grow() {
    for codec in CompressionType::ALL {
        let mut writer = writer();
        writer.codec = codec;
        let keys: Vec<String> = (0..3_000).map(|number| format!("key {number}")).collect();
        let pairs: Vec<Pair<'_>> = keys.iter().map(|key| (key.as_str(), None)).collect();
        writer.plain(&pairs);
        writer.plain(&[("key 7", Some("7")), ("key 8", Some("8"))]);
        writer.roll();
        let before = writer.batches();
        writer.now_ms += 100_000_000;
        writer.clean();
        let after = writer.batches();
        check_kept(&before, &after);
        assert_eq!(after[0].compression().unwrap(), codec);
        assert_eq!((after[0].header().record_count, after[0].header().last_offset_delta), (2_998, 2_999));
        if codec == CompressionType::None {
            assert!(after[0].bytes().len() > before[0].bytes().len(), "two records less, and larger");
        }
        check_files(&writer.disk, &writer.log);
    }
}

/// Issue 12, C20: a batch whose records cannot all be held at once stays whole, and so do older records of its keys; the others
/// are cleaned.
#[test]
fn a_batch_too_large_to_hold_stays_whole() {
    let mut writer = writer();
    writer.codec = CompressionType::Zstd;
    let large = "0".repeat(fencepost_types::limits::DECOMPRESSED_BATCH_BYTES_MAX);
    writer.plain(&[("a", Some("1")), ("b", Some("1"))]);
    writer.plain(&[("a", Some(&large))]);
    writer.plain(&[("b", Some("2"))]);
    writer.roll();
    let before = writer.batches();
    assert!(before[1].records().is_err() && before[1].walk_records(|_| ()).is_ok());
    assert!(writer.clean());
    let after = writer.batches();
    let counts: Vec<i32> = after.iter().map(|batch| batch.header().record_count).collect();
    assert_eq!(counts, [1, 1, 1, 1]);
    assert_eq!(after[1], before[1]);
    assert_eq!(writer.log.cleaner_checkpoint(), Some(Offset(4)));
}

/// Under LogAppendTime what is written again keeps the time of its append, marker and data.
#[test]
fn append_time_stays() {
    let config = LogConfig { timestamp_type: TimestampType::LogAppendTime, ..compacted() };
    let mut writer = Writer::new(MemoryDisk::new(), config);
    writer.end(1, 0, true, 2);
    writer.roll();
    let before = writer.batches();
    writer.now_ms += 77;
    writer.clean();
    check_kept(&before, &writer.batches());
    let marker = batch_at(&writer, 0).unwrap();
    assert_eq!(marker.header().timestamp_type(), TimestampType::LogAppendTime);
    assert!(marker.header().delete_horizon().is_some());
}

/// The table of keys has a fixed size: what does not fit is left to the next pass, which begins where the table ended, in the
/// middle of a segment if need be. At least one batch always fits.
#[test]
fn a_full_table_ends_the_pass() {
    let mut writer = writer();
    let key = |number: usize| format!("key {}", number % 200);
    for batch in 0..60 {
        let keys: Vec<String> = (0..10).map(|at| key(batch * 10 + at)).collect();
        let value = format!("{batch}");
        let pairs: Vec<Pair<'_>> = keys.iter().map(|key| (key.as_str(), Some(value.as_str()))).collect();
        writer.plain(&pairs);
    }
    writer.roll();
    let (values, before) = (newest_values(&writer.log, 1 << 20), writer.batches());
    let small = CleanerConfig { dedupe_buffer_bytes: 0, ..cleaner() };
    let (mut passes, mut checkpoint) = (0, Offset(0));
    while writer.clean_with(&small) {
        passes += 1;
        let next = writer.log.cleaner_checkpoint().unwrap();
        assert!(next > checkpoint, "every pass gets on");
        checkpoint = next;
        assert_eq!(newest_values(&writer.log, 1 << 20), values);
        check_kept(&before, &writer.batches());
        check_files(&writer.disk, &writer.log);
    }
    assert_eq!(checkpoint, Offset(600));
    assert!(passes >= 10, "57 keys at a time: {passes}");
    let records: i32 = writer.batches().iter().map(|batch| batch.header().record_count).sum();
    assert_eq!(records, 201);

    let mut writer = self::writer();
    let keys: Vec<String> = (0..1_000).map(|number| format!("{number}")).collect();
    let pairs: Vec<Pair<'_>> = keys.iter().map(|key| (key.as_str(), Some("v"))).collect();
    writer.plain(&pairs);
    writer.plain(&[("1", Some("w"))]);
    writer.roll();
    assert!(writer.clean_with(&small));
    assert_eq!(writer.log.cleaner_checkpoint(), Some(Offset(1_000)), "one batch, however many keys");
}

/// A log is due when it is dirtier than `min.cleanable.dirty.ratio`, by bytes of whole segments, or when what is dirty is older
/// than `max.compaction.lag.ms`; what is younger than `min.compaction.lag.ms` is not cleanable.
#[test]
fn when_a_log_is_due() {
    let mut writer = writer();
    let due = |writer: &Writer<MemoryDisk>, config: &CleanerConfig| {
        let cleanable = writer.log.cleanable(at(writer.now_ms), config).unwrap();
        (cleanable.is_due(config.min_cleanable_dirty_ratio), cleanable)
    };
    assert!(!due(&writer, &cleaner()).0, "without a directory there is nothing");
    assert!(!writer.clean());
    writer.plain(&[("a", Some("1"))]);
    let (is_due, cleanable) = due(&writer, &cleaner());
    assert_eq!((is_due, cleanable.cleanable_bytes, cleanable.dirty_ratio()), (false, 0, 0.0));
    writer.roll();
    assert!(due(&writer, &cleaner()).0, "nothing was ever cleaned: all is dirty");
    let lag = CleanerConfig { min_compaction_lag_ms: 1_000, ..cleaner() };
    assert!(!due(&writer, &lag).0, "too young");
    writer.now_ms += 1_000;
    assert!(due(&writer, &lag).0);
    writer.clean();
    assert!(!due(&writer, &cleaner()).0);

    let clean_bytes = writer.log.cleanable(at(T), &cleaner()).unwrap().clean_bytes;
    writer.roll();
    let cleaner = || CleanerConfig { min_cleanable_dirty_ratio: 0.6, ..cleaner() };
    let (is_due, cleanable) = due(&writer, &cleaner());
    assert_eq!(cleanable.clean_bytes, clean_bytes);
    assert!(!is_due && cleanable.dirty_ratio() <= 0.6, "{cleanable:?}");
    assert!(due(&writer, &CleanerConfig { min_cleanable_dirty_ratio: 0.1, ..cleaner() }).0);
    writer.log.update_config(LogConfig { max_compaction_lag_ms: 5_000, ..compacted() });
    assert!(!due(&writer, &cleaner()).0);
    writer.now_ms = T + 6_001;
    assert!(due(&writer, &cleaner()).0, "overdue, whatever the ratio (KIP-354)");
}

/// A checkpoint below the log start or above the log end says nothing; DeleteRecords moves the first one.
#[test]
fn a_checkpoint_outside_the_log_says_nothing() {
    let config = LogConfig { cleanup_policy: CleanupPolicy { delete: true, compact: true }, ..compacted() };
    let mut writer = Writer::new(MemoryDisk::new(), config);
    writer.plain(&[("a", Some("1")), ("a", Some("2"))]);
    writer.roll();
    let first_dirty =
        |writer: &Writer<MemoryDisk>| writer.log.cleanable(at(T), &cleaner()).unwrap().first_dirty_offset;
    for (checkpoint, wanted) in [(0, 0), (2, 2), (3, 3), (4, 0), (-5, 0)] {
        writer.log.set_cleaner_checkpoint(Some(Offset(checkpoint)));
        assert_eq!(first_dirty(&writer), Offset(wanted), "{checkpoint}");
    }
    writer.log.set_cleaner_checkpoint(Some(Offset(0)));
    writer.log.delete_records(Offset(1)).unwrap();
    assert_eq!(first_dirty(&writer), Offset(1));
}

/// `compact,delete`: segments go by age and size too, and a cleaned segment is as old as the newest record that it has left.
#[test]
fn retention_and_compaction_together() {
    let policy = CleanupPolicy { delete: true, compact: true };
    let config = LogConfig { cleanup_policy: policy, retention_ms: 50_000, ..compacted() };
    let mut writer = Writer::new(MemoryDisk::new(), config);
    writer.plain(&[("a", Some("1"))]);
    writer.roll();
    writer.now_ms += 40_000;
    writer.plain(&[("a", Some("2"))]);
    writer.roll();
    writer.clean();
    assert_eq!(writer.shape(), ["1-1 [1]", "2-2 [2]", "3-3 [3]"]);
    assert_eq!(writer.log.apply_retention(at(T + 90_000)).unwrap().segments.len(), 0);
    assert_eq!(writer.log.apply_retention(at(T + 90_001)).unwrap().segments.len(), 2);
}

/// While a replacement is under way nothing is taken out of the log by age; a segment that went before makes it stale, and
/// its files are removed.
#[test]
fn retention_and_a_cleaning_do_not_meet() {
    let policy = CleanupPolicy { delete: true, compact: true };
    let config =
        LogConfig { cleanup_policy: policy, retention_ms: 50_000, segment_bytes: 120, ..compacted() };
    for turns_before in 0..4 {
        let mut writer = Writer::new(MemoryDisk::new(), config.clone());
        for _ in 0..3 {
            writer.plain(&[("a", Some("1"))]);
        }
        let mut cleaning = writer.log.start_cleaning(at(T), &cleaner()).unwrap().unwrap();
        let (mut turns, mut is_stale) = (0, false);
        while !is_stale {
            if cleaning.step(10).unwrap() == CleaningStep::More {
                continue;
            }
            if turns == turns_before {
                let retired = writer.log.apply_retention(at(T + 100_000)).unwrap();
                assert_eq!(retired.segments.is_empty(), matches!(turns, 1 | 2), "turn {turns}");
            }
            turns += 1;
            match cleaning.with_log(&mut writer.log).unwrap() {
                CleaningTurn::GoOn => {}
                CleaningTurn::Done => break,
                CleaningTurn::Stale => is_stale = true,
            }
        }
        assert_eq!(is_stale, matches!(turns_before, 0 | 3), "{turns_before}");
        assert!(!writer.files().iter().any(|name| name.ends_with(".cleaned") || name.ends_with(".swap")));
        assert!(cleaning.step(10).unwrap() == CleaningStep::WantsLog, "it stays over");
    }
}

/// The log is used while it is cleaned: appends and reads between any two steps find it whole.
#[test]
fn a_log_is_used_while_it_is_cleaned() {
    let mut writer = Writer::new(MemoryDisk::new(), LogConfig { segment_bytes: 600, ..compacted() });
    for number in 0..40 {
        let (key, value) = (format!("{}", number % 7), format!("{number}"));
        writer.transactional(1, 0, &[(&key, Some(&value))]);
        writer.end(1, 0, number % 3 != 0, 0);
    }
    let mut values = newest_values(&writer.log, 500);
    let mut cleaning = writer.log.start_cleaning(at(T), &cleaner()).unwrap().unwrap();
    for number in 0.. {
        if cleaning.step(150).unwrap() == CleaningStep::WantsLog
            && cleaning.with_log(&mut writer.log).unwrap() == CleaningTurn::Done
        {
            break;
        }
        let value = format!("late {number}");
        writer.plain(&[("late", Some(&value))]);
        values.insert("late".into(), value.into_bytes().into());
        assert_eq!(newest_values(&writer.log, 500), values);
    }
    for file in cleaning.take_retired() {
        writer.disk.remove(&file).unwrap();
    }
    check_files(&writer.disk, &writer.log);
    let report = cleaning.report();
    assert_eq!(Some(report.clean_end_offset), writer.log.cleaner_checkpoint());
    assert!(report.bytes_after < report.bytes_before && report.keys > 0, "{report:?}");
}

/// A truncation in the middle of a replacement completes it or forgets it, and cuts the checkpoint.
#[test]
fn truncation_in_the_middle_of_a_replacement() {
    for stop_at in 0..14 {
        let mut writer = writer();
        writer.plain(&[("a", Some("1")), ("b", Some("1"))]);
        writer.plain(&[("a", Some("2"))]);
        writer.roll();
        writer.plain(&[("b", Some("2"))]);
        let mut cleaning = writer.log.start_cleaning(at(T), &cleaner()).unwrap().unwrap();
        let mut turn = CleaningTurn::GoOn;
        for _ in 0..stop_at {
            if cleaning.step(1 << 20).unwrap() == CleaningStep::WantsLog {
                turn = cleaning.with_log(&mut writer.log).unwrap();
            }
        }
        // Never below the last stable offset, and so never into what is being cleaned.
        writer.log.truncate_to(Offset(4), at(T)).unwrap();
        while turn == CleaningTurn::GoOn {
            // Names are gone that it would rename: that is a failure like any other of the disk, and harmless here.
            let Ok(step) = cleaning.step(1 << 20) else { break };
            if step == CleaningStep::WantsLog {
                turn = cleaning.with_log(&mut writer.log).unwrap();
            }
        }
        cleaning.abandon();
        writer.plain(&[("b", Some("3"))]);
        let values = newest_values(&writer.log, 99);
        assert_eq!((&values[&b"a"[..]][..], &values[&b"b"[..]][..]), (&b"2"[..], &b"3"[..]), "{stop_at}");
        writer.reopen(unclean(0));
        assert_eq!(newest_values(&writer.log, 99), values, "{stop_at}");
    }
    let mut writer = writer();
    writer.log.set_cleaner_checkpoint(Some(Offset(9)));
    writer.plain(&[("a", Some("1"))]);
    writer.plain(&[("a", Some("2"))]);
    writer.log.truncate_to(Offset(1), at(T)).unwrap();
    assert_eq!(writer.log.cleaner_checkpoint(), Some(Offset(1)));
    writer.log.truncate_fully_and_start_at(Offset(5), at(T)).unwrap();
    assert_eq!(writer.log.cleaner_checkpoint(), None);
}

/// A partition that is deleted meanwhile ends the cleaning.
#[test]
fn deletion_ends_a_cleaning() {
    let mut writer = writer();
    writer.plain(&[("a", Some("1")), ("a", Some("2"))]);
    writer.roll();
    let mut cleaning = writer.log.start_cleaning(at(T), &cleaner()).unwrap().unwrap();
    while cleaning.step(10).unwrap() == CleaningStep::More {}
    writer.log.delete(7).unwrap();
    assert_eq!(cleaning.with_log(&mut writer.log).unwrap(), CleaningTurn::Stale);
}

/// A damaged batch is neither written again under a new checksum nor does it displace others: the log cannot be cleaned, and
/// stays as it is.
#[test]
fn damage_is_not_cleaned_away() {
    let clean_writer = || {
        let mut writer = writer();
        writer.plain(&[("a", Some("1")), ("b", Some("1"))]);
        writer.plain(&[("a", Some("2"))]);
        writer.roll();
        writer
    };
    let log_path = "t-0/00000000000000000000.log";
    let count = read(&clean_writer().disk, log_path).unwrap().len();
    for position in 0..count {
        let writer = clean_writer();
        let second = writer.batches()[0].bytes().len();
        // In place: the log has the file open.
        let file = writer.disk.open(log_path).unwrap();
        let byte = file.read(position as u64, 1).unwrap()[0];
        file.write_at(position as u64, &[&[byte ^ 0x40]]).unwrap();
        let mut cleaning = writer.log.start_cleaning(at(T), &cleaner()).unwrap().unwrap();
        let failed = loop {
            match cleaning.step(1 << 20) {
                Ok(CleaningStep::More) => {}
                Ok(CleaningStep::WantsLog) => break None,
                Err(error) => break Some(error),
            }
        };
        match failed {
            Some(StorageError::Corrupt { path, .. }) => assert_eq!(path, log_path),
            None => {
                // A leader epoch that rises in the last batch may be.
                assert!((second + 12..second + 16).contains(&position), "byte {position} was not noticed");
            }
            Some(other) => panic!("{other}"),
        }
        assert!(cleaning.is_harmless());
        cleaning.abandon();
        assert!(!writer.files().iter().any(|name| name.ends_with(".cleaned")));
    }
}

/// The windows of producers leave with the snapshot that they stand beside, when the segment of that is cleaned into another.
#[test]
fn windows_leave_with_their_snapshots() {
    let mut writer = writer();
    for number in 0..4 {
        writer.idempotent(1, &[("a", Some("1"))]);
        writer.idempotent(1, &[("b", Some(&number.to_string()))]);
        writer.roll();
    }
    let beside = |writer: &Writer<MemoryDisk>, suffix: &str| {
        let names = writer.files().into_iter();
        names.filter_map(|name| name.strip_suffix(suffix).map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(beside(&writer, ".window").len(), 4);
    writer.clean();
    let (snapshots, windows) = (beside(&writer, ".snapshot"), beside(&writer, ".window"));
    assert!(windows.len() < 4, "{windows:?}");
    assert_eq!(windows, snapshots);
}

/// What was cleaned is opened again as it is, whatever the stop was, and goes on from its checkpoint.
#[test]
fn a_cleaned_log_is_opened_again() {
    let mut writer = writer();
    for round in 0..3 {
        for number in 0..10 {
            let (key, value) = (format!("{}", number % 3), format!("{round} {number}"));
            writer.transactional(1, 0, &[(&key, Some(&value))]);
            writer.end(1, 0, number % 2 == 0, 0);
        }
        writer.roll();
        writer.clean();
        let (values, all) = (newest_values(&writer.log, 99), bounds(&writer.log));
        let files: BTreeMap<_, _> = writer
            .files()
            .into_iter()
            .filter(|name| !name.ends_with("snapshot"))
            .map(|name| (name.clone(), read(&writer.disk, &format!("t-0/{name}"))))
            .collect();
        writer.log.close().unwrap();
        writer.reopen(clean());
        assert_eq!((newest_values(&writer.log, 99), bounds(&writer.log)), (values.clone(), all.clone()));
        writer.reopen(unclean(0));
        assert_eq!((newest_values(&writer.log, 99), bounds(&writer.log)), (values, all));
        for (name, content) in files {
            let closed = name.starts_with("00000000000000000000");
            let again = read(&writer.disk, &format!("t-0/{name}"));
            assert!(!closed || again == content, "{name} is what recovery makes of the log");
        }
    }
}

/// The checkpoint is remembered from one run to the next, of a log that was never cleaned too; the next topic of a name does
/// not inherit it.
#[test]
fn the_checkpoint_is_remembered() {
    use fencepost_storage::{LogDir, LogOffsets, MetaProperties};
    use fencepost_types::{BrokerId, TopicPartition, Uuid};
    let disk = MemoryDisk::new();
    let open_dir = || {
        let shared: std::sync::Arc<dyn Disk> = std::sync::Arc::new(disk.clone());
        LogDir::open(shared, MetaProperties::new("c", BrokerId(1), Uuid::from_u128(5))).unwrap()
    };
    let name = TopicPartition::new("t", 0);
    let log_dir = open_dir();
    let log = log_dir.open_log(name.clone(), ID, compacted(), at(T)).unwrap();
    let mut writer = Writer::over(disk.clone(), log);
    writer.plain(&[("a", Some("1")), ("a", Some("2"))]);
    writer.roll();
    let remember = |log_dir: &LogDir, writer: &Writer<MemoryDisk>| {
        let mut offsets = LogOffsets::default();
        offsets.add(&writer.log);
        log_dir.write_checkpoints(&Checkpoint::ALL, || Ok(offsets)).unwrap();
        String::from_utf8(read(&disk, "cleaner-offset-checkpoint").unwrap().to_vec()).unwrap()
    };
    assert_eq!(remember(&log_dir, &writer), "0\n1\nt 0 0\n");
    writer.clean();
    assert_eq!(remember(&log_dir, &writer), "0\n1\nt 0 2\n");
    drop(log_dir);

    let log_dir = open_dir();
    writer.log = log_dir.open_log(name.clone(), ID, compacted(), at(T)).unwrap();
    assert_eq!(writer.log.cleaner_checkpoint(), Some(Offset(2)));
    let gone = writer.log.delete(9).unwrap().unwrap();
    log_dir.remove_retired(&gone).unwrap();
    let next = log_dir.open_log(name, Uuid::from_u128(78), compacted(), at(T)).unwrap();
    assert_eq!(next.cleaner_checkpoint(), None);
}
