//! Any sequence of appends, markers, rolls, truncations, restarts: live state is replayed state, live files are those that
//! recovery makes, the aborted list of any range is what a plain walk over the log finds, and so is every look-up.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::*;
use fencepost_partition::AbortedTxn;
use fencepost_records::{AppendOrigin, AppendRules, Batch, BatchBuilder, validate};
use fencepost_storage::{AppendOutcome, Disk, Log, LogConfig, MarkerAppend, MemoryDisk, Recovery};
use fencepost_types::{
    CoordinatorEpoch, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
    Uuid,
};
use proptest::prelude::*;

const T: i64 = 1_700_000_000_000;
/// Records have times below `T` and this.
const TIMES_MS: i64 = 50;
const EPOCH: LeaderEpoch = LeaderEpoch(0);
const ID: Uuid = Uuid::from_u128(77);

#[derive(Clone, Debug)]
enum Step {
    /// A batch of a producer (or of nobody) with these times.
    Append { producer: i64, transactional: bool, times: Vec<i64>, value_bytes: usize },
    /// A marker, with the producer's epoch or the next one.
    Mark { producer: i64, committed: bool, bumps: bool },
    /// So many parts of 255 of what is not acknowledged is.
    Acknowledge(u8),
    /// So many parts of 255 of what is not acknowledged stays.
    Truncate(u8),
    /// A stop or a kill, with or without the snapshots.
    Restart { clean: bool, snapshots: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let times = prop::collection::vec(0..TIMES_MS, 1..4);
    prop_oneof![
        12 => (-1..3i64, any::<bool>(), times, 0..80usize).prop_map(
            |(producer, transactional, times, value_bytes)| Step::Append { producer, transactional, times, value_bytes }
        ),
        6 => (0..3i64, any::<bool>(), any::<bool>())
            .prop_map(|(producer, committed, bumps)| Step::Mark { producer, committed, bumps }),
        2 => any::<u8>().prop_map(Step::Acknowledge),
        1 => any::<u8>().prop_map(Step::Truncate),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(clean, snapshots)| Step::Restart { clean, snapshots }),
    ]
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 700, index_interval_bytes: 120, ..LogConfig::default() }
}

fn open_log(disk: &MemoryDisk, recovery: Recovery) -> Log {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(shared, partition("t-0"), ID, config(), recovery, at(T)).unwrap()
}

/// A log, and all batches that it must hold.
struct Life {
    disk: MemoryDisk,
    log: Log,
    history: Vec<Batch>,
    /// The log has been appended to and nothing else: its indexes are those that recovery makes. A restart begins to count
    /// the bytes between two entries anew, as Kafka's does.
    only_appended: bool,
}

impl Life {
    fn new() -> Self {
        let disk = MemoryDisk::new();
        let log = open_log(&disk, clean());
        Self { disk, log, history: Vec::new(), only_appended: true }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Append { producer, transactional, times, value_bytes } => {
                self.append(*producer, *transactional, times, *value_bytes);
            }
            Step::Mark { producer, committed, bumps } => self.mark(*producer, *committed, *bumps),
            Step::Acknowledge(part) => self.log.update_high_watermark(self.above_high_watermark(*part)),
            Step::Truncate(part) => self.truncate(self.above_high_watermark(*part)),
            Step::Restart { clean, snapshots } => self.restart(*clean, *snapshots),
        }
    }

    fn above_high_watermark(&self, part: u8) -> Offset {
        let (from, to) = (self.log.high_watermark(), self.log.log_end_offset());
        from.plus((to.0 - from.0) * i64::from(part) / 255)
    }

    /// Epoch and next sequence of a producer.
    fn producer(&self, producer: i64) -> (i16, i32) {
        let mut described = self.log.producer_states().describe_producers();
        let row = described.find(|row| row.producer_id.0 == producer);
        row.map_or((0, 0), |row| (row.producer_epoch as i16, row.last_sequence.0 + 1))
    }

    fn append(&mut self, producer: i64, transactional: bool, times: &[i64], value_bytes: usize) {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
        if producer >= 0 {
            let (epoch, sequence) = self.producer(producer);
            builder = builder
                .producer(ProducerId(producer), ProducerEpoch(epoch), Sequence(sequence))
                .transactional(transactional);
        }
        for time in times {
            builder.append(Millis(T + time), None, Some(&vec![b'v'; value_bytes]), &[]);
        }
        let rules = AppendRules { timestamp_after_max_ms: i64::MAX, ..AppendRules::default() };
        let origin = AppendOrigin::Client { produce_version: 12 };
        let bytes = builder.build().unwrap().into_bytes();
        let batch = validate(Some(bytes), &rules, origin, Millis(T)).unwrap();
        match self.log.append_as_leader(at(T), &batch, EPOCH, None, false) {
            Ok(AppendOutcome::Appended(appended)) => self.note(appended.base_offset),
            // A plain batch inside a transaction: nothing has changed.
            other => assert!(other.is_err() && !transactional, "{other:?}"),
        }
    }

    fn mark(&mut self, producer: i64, committed: bool, bumps: bool) {
        let marker = MarkerAppend {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(self.producer(producer).0 + i16::from(bumps)),
            result: TransactionResult::from_committed(committed),
            coordinator_epoch: CoordinatorEpoch(0),
            transaction_version: Some(if bumps { 2 } else { 1 }),
        };
        let appended = self.log.append_marker(at(T), marker, EPOCH).unwrap();
        self.note(appended.base_offset);
    }

    fn note(&mut self, base_offset: Offset) {
        let end = self.log.log_end_offset();
        let slice = self.log.read(base_offset, 1 << 20, end, true).unwrap();
        let batch = Batch::parse(slice.records).unwrap();
        assert_eq!(batch.base_offset(), base_offset);
        self.history.push(batch);
    }

    /// Cuts where a batch ends, as followers do (they cut where a leader's epoch ends): a cut within one would leave a gap.
    fn truncate(&mut self, end: Offset) {
        let cut = self.history.iter().find(|batch| batch.last_offset() >= end);
        let end = cut.map_or(end, |batch| batch.base_offset());
        if end == self.log.log_end_offset() {
            return;
        }
        self.log.truncate_to(end, at(T)).unwrap();
        self.history.retain(|batch| batch.last_offset() < end);
        assert_eq!(self.log.log_end_offset(), end);
        self.only_appended = false;
    }

    fn restart(&mut self, clean: bool, snapshots: bool) {
        let high_watermark = self.log.high_watermark();
        if clean {
            self.log.close().unwrap();
        }
        if !snapshots && self.log.has_directory() {
            for name in names(&self.disk, "t-0").into_iter().filter(|name| name.ends_with(".snapshot")) {
                self.disk.remove(&format!("t-0/{name}")).unwrap();
            }
        }
        let recovery = if clean { common::clean() } else { unclean(0) };
        self.log = open_log(&self.disk, recovery);
        self.log.update_high_watermark(high_watermark);
        self.only_appended = false;
    }

    /// Live state is the fold of the log, and every batch is there.
    fn check_state(&self) -> Vec<AbortedTxn> {
        assert_eq!(read_all(&self.log), self.history);
        let (mut states, aborted) = fold(&self.history);
        let live = self.log.producer_states();
        live.check();
        // All five batches of every window, whatever stop came before (issue 12, A1).
        states.advance_map_end_offset(self.log.log_end_offset());
        assert_eq!(live.restorable(), states.restorable());
        assert_eq!(live.oldest_open_transaction(), states.oldest_open_transaction());
        aborted
    }

    /// The aborted list of any range is what a plain walk finds.
    fn check_aborted(&self, aborted: &[AbortedTxn]) {
        let end = self.log.log_end_offset().0;
        for from in 0..end {
            for to in from + 1..=end {
                let (from, to) = (Offset(from), Offset(to));
                let overlaps = |entry: &&AbortedTxn| entry.last_offset >= from && entry.first_offset < to;
                let mut wanted: Vec<_> = aborted.iter().filter(overlaps).copied().collect();
                wanted.sort_by_key(|entry| (entry.first_offset, entry.last_offset));
                let mut found = self.log.aborted_transactions_in(from, to);
                found.sort_by_key(|entry| (entry.first_offset, entry.last_offset));
                assert_eq!(found, wanted, "{from} to {to}");
            }
        }
    }

    /// Look-ups by offset and by time are what a plain walk over all records finds.
    fn check_look_ups(&self) {
        let end = self.log.log_end_offset();
        for offset in (0..end.0).map(Offset) {
            let wanted = self.history.iter().find(|batch| batch.last_offset() >= offset);
            let slice = common::read_both(&self.log, offset, 1, end, true).unwrap();
            let found = (!slice.records.is_empty()).then(|| Batch::parse(slice.records).unwrap());
            assert_eq!(found.as_ref(), wanted, "at {offset}");
        }
        let mut records = Vec::new();
        for batch in &self.history {
            let header = *batch.header();
            let visit = |record: fencepost_records::RecordShape| {
                let offset = header.record_offset(record.offset_delta);
                records.push((offset, header.record_timestamp(record.timestamp_delta)));
            };
            batch.walk_records(visit).unwrap();
        }
        for time in (-1..=TIMES_MS).map(|time| Millis(T + time)) {
            let wanted = records.iter().find(|(_, found)| *found >= time).copied();
            let found = self.log.offset_for_timestamp(time).unwrap();
            assert_eq!(found.map(|found| (found.offset, found.timestamp)), wanted, "at {time}");
        }
        let largest = records.iter().map(|(_, time)| *time).max();
        let wanted = records.iter().find(|(_, time)| Some(*time) == largest).copied();
        let found = self.log.max_timestamp().unwrap();
        assert_eq!(found.map(|found| (found.offset, found.timestamp)), wanted);
    }

    /// Indexes of transactions, and of everything else where nothing has begun to count anew, are those that recovery makes.
    fn check_files(mut self) {
        if !self.log.has_directory() {
            return;
        }
        self.log.close().unwrap();
        let live = self.index_files();
        for name in names(&self.disk, "t-0") {
            if !name.ends_with(".log") && name != "partition.metadata" {
                self.disk.remove(&format!("t-0/{name}")).unwrap();
            }
        }
        self.log = open_log(&self.disk, unclean(0));
        self.log.close().unwrap();
        assert_eq!(self.index_files(), live);
    }

    fn index_files(&self) -> BTreeMap<String, Vec<u8>> {
        let is_compared = |name: &String| {
            name.ends_with(".txnindex")
                || (self.only_appended && (name.ends_with(".index") || name.ends_with(".timeindex")))
        };
        let names = names(&self.disk, "t-0").into_iter().filter(is_compared);
        let read = |name: &String| read(&self.disk, &format!("t-0/{name}")).unwrap().to_vec();
        // A truncation leaves a transaction index of no bytes, as Kafka's does; it says what a missing one says.
        let files = names.map(|name| (name.clone(), read(&name)));
        files.filter(|(name, content)| !(name.ends_with(".txnindex") && content.is_empty())).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// See the page of this file.
    #[test]
    fn any_life_of_a_log(steps in prop::collection::vec(step(), 1..50)) {
        let mut life = Life::new();
        for step in &steps {
            life.step(step);
            life.check_state();
        }
        let aborted = life.check_state();
        life.check_aborted(&aborted);
        life.check_look_ups();
        life.check_files();
    }
}
