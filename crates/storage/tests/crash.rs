//! Random lives of a log on a disk that forgets, tears, fills up and fails. Whatever happens: what was acknowledged is
//! there, what is there was appended, producer state is the fold of it, and every read is what a plain walk would give.

mod common;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use common::crash_disk::{CrashDisk, Dice};
use common::*;
use fencepost_partition::{AbortedTxn, DescribedProducer, ProducerStates};
use fencepost_records::{AppendOrigin, AppendRules, Batch, BatchBuilder, EndTxnMarker, validate};
use fencepost_storage::{
    AppendError, AppendOutcome, Disk, DiskErrorKind, FlushScope, FlushTicket, Log, LogConfig, MarkerAppend,
    Recovery, StorageError,
};
use fencepost_types::{
    CoordinatorEpoch, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
    Uuid,
};
use proptest::prelude::*;

const DIRECTORY: &str = "t-0";
const PRODUCERS: u64 = 4;
const T: i64 = 1_700_000_000_000;

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 900,
        index_interval_bytes: 150,
        segment_index_bytes: 96,
        ..LogConfig::default()
    }
}

/// A log and what it must hold.
struct Life {
    dice: Dice,
    disk: CrashDisk,
    log: Log,
    epoch: LeaderEpoch,
    /// Every batch since the beginning, also those that retention has removed.
    appended: Vec<Batch>,
    /// Every batch there ever was, also those that were cut off.
    ever: HashSet<Bytes>,
    /// Everything below was acknowledged.
    acknowledged: Offset,
    /// What the checkpoint says.
    recovery_point: Offset,
    log_start: Offset,
    high_watermark: Offset,
    tickets: Vec<FlushTicket>,
    sequences: [i32; PRODUCERS as usize],
    in_transaction: [bool; PRODUCERS as usize],
}

impl Life {
    fn new(seed: u64) -> Self {
        let disk = CrashDisk::new();
        let log = open(&disk, Recovery { clean: true, ..Recovery::default() });
        assert!(names(&disk, "").is_empty(), "L4: no directory before the first batch");
        Self {
            dice: Dice::new(seed),
            disk,
            log,
            epoch: LeaderEpoch(0),
            appended: Vec::new(),
            ever: HashSet::new(),
            acknowledged: Offset(0),
            recovery_point: Offset(0),
            log_start: Offset(0),
            high_watermark: Offset(0),
            tickets: Vec::new(),
            sequences: [0; PRODUCERS as usize],
            in_transaction: [false; PRODUCERS as usize],
        }
    }

    fn step(&mut self) {
        match self.dice.below(40) {
            0..=13 => self.append_data(),
            14..=17 => self.append_marker(),
            18..=20 => self.sync(),
            21..=22 => self.take_ticket(),
            23..=24 => self.finish_ticket(),
            25 => self.checkpoint(),
            26 => self.crash(),
            27 => self.kill(),
            28 => self.restart(),
            29 => self.raise_epoch(),
            30 => self.delete_records(),
            31 => self.apply_retention(),
            32 => self.truncate(),
            33 => self.fill_up(),
            34 => self.break_down(),
            _ => self.look(),
        }
    }

    fn append_data(&mut self) {
        let who = self.dice.below(PRODUCERS + 1);
        let count = 1 + self.dice.below(4) as i32;
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
        let transactional = who % 2 == 1;
        if who < PRODUCERS {
            let sequence = Sequence(self.sequences[who as usize]);
            builder = builder
                .producer(ProducerId(who as i64), ProducerEpoch(0), sequence)
                .transactional(transactional);
        }
        for _ in 0..count {
            let value = vec![b'v'; self.dice.below(60) as usize];
            builder.append(Millis(T + self.dice.below(1_000) as i64), Some(b"k"), Some(&value), &[]);
        }
        let bytes = builder.build().unwrap().into_bytes();
        let rules = AppendRules { timestamp_after_max_ms: i64::MAX, ..AppendRules::default() };
        let batch =
            validate(Some(bytes), &rules, AppendOrigin::Client { produce_version: 12 }, Millis(T)).unwrap();
        match self.log.append_as_leader(at(T), &batch, self.epoch, None, false) {
            Ok(AppendOutcome::Appended(appended)) => {
                assert_eq!(appended.base_offset, self.end());
                let mut placed = batch;
                placed.place(appended.base_offset, self.epoch);
                self.note(placed.to_batch());
                if who < PRODUCERS {
                    self.sequences[who as usize] += count;
                    self.in_transaction[who as usize] |= transactional;
                }
            }
            Ok(AppendOutcome::Duplicate { .. }) => panic!("sequences rise"),
            Err(error) => self.failed(&error),
        }
    }

    fn append_marker(&mut self) {
        let who = self.dice.below(PRODUCERS);
        let result = TransactionResult::from_committed(self.dice.one_in(2));
        let marker = MarkerAppend {
            producer_id: ProducerId(who as i64),
            producer_epoch: ProducerEpoch(0),
            result,
            coordinator_epoch: CoordinatorEpoch(0),
            transaction_version: Some(0),
        };
        match self.log.append_marker(at(T), marker, self.epoch) {
            Ok(appended) => {
                assert_eq!(appended.completed.is_some(), self.in_transaction[who as usize]);
                let marker = EndTxnMarker { result, coordinator_epoch: CoordinatorEpoch(0) };
                let (id, epoch) = (ProducerId(who as i64), ProducerEpoch(0));
                self.note(marker.to_batch(appended.base_offset, self.epoch, id, epoch, Millis(T)));
                self.in_transaction[who as usize] = false;
            }
            Err(error) => self.failed(&error),
        }
    }

    fn note(&mut self, batch: Batch) {
        self.ever.insert(batch.bytes().clone());
        self.appended.push(batch);
    }

    /// L2: a failed append changes nothing.
    fn failed(&mut self, error: &AppendError) {
        assert!(matches!(error, AppendError::Storage(_)), "{error}");
        assert_eq!(self.log.log_end_offset(), self.end());
        self.check_state();
    }

    fn end(&self) -> Offset {
        self.appended.last().map_or(Offset(0), |last| last.header().next_offset())
    }

    fn sync(&mut self) {
        if let Some(ticket) = self.log.dirty(FlushScope::All) {
            ticket.run().unwrap();
            let durable = self.log.mark_synced(&ticket);
            assert_eq!(durable, self.end());
            self.acknowledge(durable);
        }
    }

    fn acknowledge(&mut self, durable: Offset) {
        self.acknowledged = self.acknowledged.max(durable);
        self.log.update_high_watermark(self.acknowledged);
    }

    fn take_ticket(&mut self) {
        let scope = if self.dice.one_in(3) { FlushScope::RolledSegments } else { FlushScope::All };
        self.tickets.extend(self.log.dirty(scope));
    }

    fn finish_ticket(&mut self) {
        if !self.tickets.is_empty() {
            let at = self.dice.below(self.tickets.len() as u64) as usize;
            let ticket = self.tickets.swap_remove(at);
            ticket.run().unwrap();
            let durable = self.log.mark_synced(&ticket);
            self.acknowledge(durable);
        }
    }

    fn checkpoint(&mut self) {
        self.recovery_point = self.log.recovery_point();
        self.log_start = self.log.log_start_offset();
        self.high_watermark = self.log.high_watermark();
    }

    fn crash(&mut self) {
        self.disk = self.disk.crash(&mut self.dice);
        self.reopen_after_crash();
    }

    fn kill(&mut self) {
        let end = self.end();
        self.disk = self.disk.kill();
        self.reopen_after_crash();
        assert_eq!(self.end(), end, "a process that dies loses nothing");
    }

    fn remembered(&self) -> Recovery {
        Recovery {
            recovery_point: self.recovery_point,
            log_start_offset: self.log_start,
            high_watermark: self.high_watermark,
            ..Recovery::default()
        }
    }

    fn reopen_after_crash(&mut self) {
        self.tickets.clear();
        let recovery = Recovery { clean: false, ..self.remembered() };
        self.log = open(&self.disk, recovery);
        let end = self.log.log_end_offset();
        assert!(end >= self.acknowledged, "L3: {end} is below what was acknowledged, {}", self.acknowledged);
        self.appended.retain(|batch| batch.header().next_offset() <= self.acknowledged);
        assert_eq!(self.end(), self.acknowledged, "what is acknowledged ends with a batch");
        // What was not acknowledged may be there or not, also where it had been cut off; but it was appended once, and
        // nothing is left out in between.
        for batch in read_all(&self.log).into_iter().filter(|batch| batch.base_offset() >= self.acknowledged)
        {
            assert!(self.ever.contains(batch.bytes()), "{batch:?} was never appended");
            assert_eq!(batch.base_offset(), self.end());
            self.appended.push(batch);
        }
        assert_eq!(self.end(), end, "the log ends with a batch");
        self.settle_after_open();
    }

    /// A clean stop and start.
    fn restart(&mut self) {
        self.log.close().unwrap();
        self.tickets.clear();
        self.checkpoint();
        self.acknowledged = self.end();
        // Nothing that was closed is lost by a loss of power.
        self.disk = self.disk.crash(&mut self.dice);
        let recovery = Recovery { clean: true, ..self.remembered() };
        self.log = open(&self.disk, recovery);
        assert_eq!(self.log.log_end_offset(), self.end());
        self.settle_after_open();
    }

    fn settle_after_open(&mut self) {
        self.check_windows();
        assert!(self.log.log_start_offset() >= self.log_start);
        self.log_start = self.log.log_start_offset();
        self.acknowledge(self.log.log_end_offset());
        self.settle_producers();
    }

    fn raise_epoch(&mut self) {
        self.epoch = LeaderEpoch(self.epoch.0 + 1);
        self.log.assign_leader_epoch(self.epoch);
    }

    fn delete_records(&mut self) {
        let span = self.log.high_watermark().0 - self.log.log_start_offset().0;
        let to = self.log.log_start_offset().plus(self.dice.below(span as u64 + 1) as i64 / 2);
        self.log.delete_records(to).unwrap();
        // DeleteRecords is answered once the checkpoint has it.
        self.log_start = self.log.log_start_offset();
    }

    fn apply_retention(&mut self) {
        self.log.update_config(LogConfig { retention_bytes: 3_000, ..config() });
        let retired = self.log.apply_retention(at(T)).unwrap();
        for path in retired.files {
            self.disk.remove(&path).unwrap();
        }
    }

    fn truncate(&mut self) {
        // Only what was not acknowledged is ever cut.
        let floor = self.acknowledged.max(self.log.log_start_offset());
        let cut: Vec<Offset> =
            self.appended.iter().map(Batch::base_offset).filter(|base| *base > floor).collect();
        if cut.is_empty() {
            return;
        }
        let end = cut[self.dice.below(cut.len() as u64) as usize];
        self.log.truncate_to(end, at(T)).unwrap();
        self.appended.retain(|batch| batch.base_offset() < end);
        self.settle_after_truncation();
    }

    fn settle_after_truncation(&mut self) {
        assert_eq!(self.log.log_end_offset(), self.end());
        self.recovery_point = self.recovery_point.min(self.end());
        self.settle_producers();
    }

    /// The producers go on from what the log remembers of them; all else is as it was.
    fn settle_producers(&mut self) {
        let described: Vec<DescribedProducer> = self.log.producer_states().describe_producers().collect();
        self.sequences = [0; PRODUCERS as usize];
        self.in_transaction = [false; PRODUCERS as usize];
        for producer in described {
            let who = producer.producer_id.0 as usize;
            self.sequences[who] = producer.last_sequence.0 + 1;
            self.in_transaction[who] = producer.current_txn_start_offset.0 >= 0;
        }
        self.check_state();
        self.check_reads();
    }

    /// The disk is full for a while: appends fail, nothing changes, and afterwards all goes on.
    fn fill_up(&mut self) {
        self.disk.set_free_bytes(Some(self.dice.below(400)));
        for _ in 0..8 {
            self.append_data();
        }
        self.disk.set_free_bytes(None);
        self.append_data();
        self.check_reads();
    }

    /// The disk fails for good: nothing is acknowledged any more, and a restart finds what was.
    fn break_down(&mut self) {
        self.disk.fail_after(Some(self.dice.below(20)));
        for _ in 0..6 {
            self.append_data();
            self.append_marker();
            match self.log.dirty(FlushScope::All).map(|ticket| (ticket.run(), ticket)) {
                Some((Ok(()), ticket)) => {
                    let durable = self.log.mark_synced(&ticket);
                    self.acknowledge(durable);
                }
                Some((Err(error), _)) => {
                    self.log.fail(error.to_string());
                    break;
                }
                None => {}
            }
        }
        if self.dice.one_in(2) { self.crash() } else { self.kill_broken() }
    }

    fn kill_broken(&mut self) {
        self.disk = self.disk.kill();
        self.reopen_after_crash();
    }

    fn look(&mut self) {
        self.check_state();
        self.check_reads();
        self.check_times();
    }

    /// Invariant 1 of producer-state §16, L1, L8: state is the fold of the whole history.
    fn check_state(&self) {
        let (mut whole, aborted) = fold(&self.appended);
        whole.advance_map_end_offset(self.end());
        // All five batches of every window, whatever crash came before (issue 12, A1).
        assert_eq!(self.log.producer_states().restorable(), whole.restorable());
        let oldest = |states: &ProducerStates| states.oldest_open_transaction();
        assert_eq!(oldest(self.log.producer_states()), oldest(&whole));
        self.log.producer_states().check();
        let first = self.log.first_segment_base();
        let kept: Vec<_> = aborted.into_iter().filter(|aborted| aborted.last_offset >= first).collect();
        let mut found = self.log.aborted_transactions_in(first, Offset(i64::MAX));
        found.sort_by_key(|aborted| aborted.last_offset);
        assert_eq!(found, kept);
    }

    /// The windows of producers go with the snapshot that they stand beside.
    fn check_windows(&self) {
        let names = if self.log.has_directory() { names(&self.disk, DIRECTORY) } else { Vec::new() };
        for windows in names.iter().filter(|name| name.ends_with(".window")) {
            let snapshot = windows.replace(".window", ".snapshot");
            assert!(names.contains(&snapshot), "{windows} stands alone: {names:?}");
        }
    }

    fn visible(&self) -> Vec<&Batch> {
        let start = self.log.log_start_offset();
        self.appended.iter().filter(|batch| batch.last_offset() >= start).collect()
    }

    /// L5.
    fn check_reads(&mut self) {
        let (start, end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let all = read_all(&self.log);
        assert_eq!(all.iter().collect::<Vec<_>>(), self.visible());
        let bases: BTreeSet<i64> = if self.log.has_directory() {
            bases(&self.disk, DIRECTORY).into_iter().collect()
        } else {
            BTreeSet::new()
        };
        for _ in 0..4 {
            let offset = start.plus(self.dice.below((end.0 - start.0) as u64 + 1) as i64);
            let bound = start.plus(self.dice.below((end.0 - start.0) as u64 + 1) as i64);
            let (bytes_max, min_one) = (self.dice.below(700) as usize, self.dice.one_in(2));
            let slice = self.log.read(offset, bytes_max, bound, min_one).unwrap();
            let mut wanted = Vec::new();
            let mut bytes = 0;
            for batch in self.visible().into_iter().filter(|batch| batch.last_offset() >= offset) {
                bytes += batch.bytes().len();
                let fits = bytes <= bytes_max || (min_one && wanted.is_empty());
                if !fits || batch.last_offset() >= bound || offset >= bound {
                    break;
                }
                wanted.push(batch.clone());
            }
            let found: Vec<Batch> =
                fencepost_records::Batches::new(slice.records.clone()).map(Result::unwrap).collect();
            assert!(wanted.starts_with(&found), "at {offset} below {bound}, {bytes_max} bytes: {slice:?}");
            let ends_a_segment = bases.contains(&slice.next_offset.0) && !found.is_empty();
            assert!(found.len() == wanted.len() || ends_a_segment, "at {offset} below {bound}: {slice:?}");
            self.check_aborted(offset, &slice, &found);
        }
    }

    /// Invariant 3 of producer-state §16: a client that knows the list hides exactly what was aborted.
    fn check_aborted(&self, offset: Offset, slice: &fencepost_storage::ReadSlice, found: &[Batch]) {
        let known = self.log.aborted_transactions(offset, slice);
        let (_, aborted) = fold(&self.appended);
        for batch in
            found.iter().filter(|batch| batch.header().is_transactional() && !batch.header().is_control())
        {
            let holds = |aborted: &&AbortedTxn| {
                aborted.producer_id == batch.header().producer_id
                    && (aborted.first_offset..aborted.last_offset).contains(&batch.base_offset())
            };
            assert_eq!(known.iter().any(|entry| holds(&entry)), aborted.iter().any(|entry| holds(&entry)));
        }
    }

    fn check_times(&mut self) {
        let start = self.log.log_start_offset();
        let mut records: Vec<(Offset, Millis)> = Vec::new();
        for batch in self.visible() {
            let header = *batch.header();
            let visit = |record: fencepost_records::RecordShape| {
                let timestamp = header.record_timestamp(record.timestamp_delta);
                records.push((header.record_offset(record.offset_delta), timestamp));
            };
            batch.walk_records(visit).unwrap();
        }
        records.retain(|(offset, _)| *offset >= start);
        for _ in 0..4 {
            let timestamp = Millis(T + self.dice.below(1_010) as i64);
            let wanted = records.iter().find(|(_, found)| *found >= timestamp);
            let found = self.log.offset_for_timestamp(timestamp).unwrap();
            assert_eq!(found.map(|found| (found.offset, found.timestamp)), wanted.copied());
        }
        let largest = records.iter().map(|(_, timestamp)| *timestamp).max();
        let wanted = records.iter().find(|(_, timestamp)| Some(*timestamp) == largest);
        let found = self.log.max_timestamp().unwrap();
        assert_eq!(found.map(|found| (found.offset, found.timestamp)), wanted.copied());
    }
}

fn open(disk: &CrashDisk, recovery: Recovery) -> Log {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(shared, partition(DIRECTORY), Uuid::from_u128(77), config(), recovery, at(T)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any life, to its end.
    #[test]
    fn a_log_keeps_what_it_acknowledged(seed: u64) {
        let mut life = Life::new(seed);
        for _ in 0..120 {
            life.step();
        }
        life.crash();
        life.restart();
    }
}

/// A disk that is full refuses the batch with a storage error, and takes it once there is room: nothing was changed (L2).
#[test]
fn a_full_disk_refuses_and_recovers() {
    let mut life = Life::new(1);
    life.append_data();
    life.disk.set_free_bytes(Some(10));
    let end = life.end();
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.append(Millis(T), None, Some(b"value"), &[]);
    let batch = builder.build().unwrap();
    let refused = life.log.append_as_coordinator(at(T), &batch, life.epoch, None, false).unwrap_err();
    let AppendError::Storage(StorageError::Disk(error)) = &refused else { panic!("{refused}") };
    assert_eq!(error.kind, DiskErrorKind::NoSpace);
    assert_eq!(life.log.log_end_offset(), end);
    life.disk.set_free_bytes(None);
    let appended = life.log.append_as_coordinator(at(T), &batch, life.epoch, None, false).unwrap();
    assert_eq!(appended.base_offset, end);
}

/// A write that fails and cannot be cut off takes the log offline: it answers nothing any more.
#[test]
fn a_log_that_cannot_be_mended_is_offline() {
    let mut life = Life::new(2);
    life.append_data();
    life.sync();
    life.disk.fail_after(Some(0));
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.append(Millis(T), None, None, &[]);
    let batch = builder.build().unwrap();
    life.log.append_as_coordinator(at(T), &batch, life.epoch, None, false).unwrap_err();
    life.disk.fail_after(None);
    let offline = life.log.append_as_coordinator(at(T), &batch, life.epoch, None, false).unwrap_err();
    assert!(matches!(offline, AppendError::Storage(StorageError::Offline { .. })), "{offline}");
    assert!(life.log.read(Offset(0), 100, Offset(1), true).is_err());
    assert!(life.log.close().is_err());
}
