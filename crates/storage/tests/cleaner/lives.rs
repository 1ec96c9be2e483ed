//! Random lives: several producers of every kind, commits and aborts, keys that come again, tombstones, passes with little
//! memory, stops of every kind in between. No reader ever sees that anything was cleaned.

use std::collections::BTreeMap;

use bytes::Bytes;
use fencepost_partition::DescribedProducer;
use fencepost_records::CompressionType;
use fencepost_storage::{CleanerConfig, Disk, LogConfig, Recovery};
use fencepost_types::{CoordinatorEpoch, Millis, Offset};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::common::crash_disk::{CrashDisk, Dice};
use crate::common::*;
use crate::views::*;
use crate::writer::*;

const KEYS: u64 = 7;
const STEPS: usize = 160;

/// How a producer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Idempotent,
    /// The marker has the epoch of the data.
    Version0,
    /// The marker raises the epoch.
    Version2,
}

const PRODUCERS: [Kind; 6] =
    [Kind::Plain, Kind::Idempotent, Kind::Version0, Kind::Version0, Kind::Version2, Kind::Version2];

struct Written {
    offset: Offset,
    key: Bytes,
    value: Option<Bytes>,
    /// The transaction that it belongs to, by its number.
    transaction: Option<usize>,
}

/// A log, and everything that was ever written to it.
struct Life {
    dice: Dice,
    writer: Writer<CrashDisk>,
    written: Vec<Written>,
    /// Outcome of each transaction, once there is one.
    committed: Vec<Option<bool>>,
    open: BTreeMap<usize, usize>,
    epochs: [i16; PRODUCERS.len()],
    /// Whether producers may be known by snapshots alone.
    has_lost_data: bool,
}

impl Life {
    fn new(seed: u64) -> Self {
        let config = LogConfig { segment_bytes: 700, ..compacted() };
        Self {
            dice: Dice::new(seed),
            writer: Writer::new(CrashDisk::new(), config),
            written: Vec::new(),
            committed: Vec::new(),
            open: BTreeMap::new(),
            epochs: [0; PRODUCERS.len()],
            has_lost_data: false,
        }
    }

    fn step(&mut self) {
        match self.dice.below(40) {
            0..=17 => self.write(),
            18..=23 => self.end(),
            24 => self.end_nothing(),
            25..=27 => self.writer.now_ms += self.dice.below(2_000_000) as i64,
            28..=32 => self.clean(),
            33 => self.stop_cleanly(),
            34 => self.die(),
            35 => self.lose_snapshots(),
            36 => self.delete_records(),
            37 => self.writer.codec = CompressionType::ALL[self.dice.below(5) as usize],
            38 => self.writer.sync(),
            _ => self.check(),
        }
    }

    fn write(&mut self) {
        let who = self.dice.below(PRODUCERS.len() as u64) as usize;
        let transaction = match PRODUCERS[who] {
            Kind::Plain | Kind::Idempotent => None,
            Kind::Version0 | Kind::Version2 => Some(*self.open.entry(who).or_insert_with(|| {
                self.committed.push(None);
                self.committed.len() - 1
            })),
        };
        let pairs: Vec<(String, Option<String>)> = (0..1 + self.dice.below(3))
            .map(|_| {
                let value = format!("{:0width$}", self.written.len(), width = self.dice.below(40) as usize);
                (format!("k{}", self.dice.below(KEYS)), (!self.dice.one_in(6)).then_some(value))
            })
            .collect();
        let borrowed: Vec<Pair<'_>> =
            pairs.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        let producer = match PRODUCERS[who] {
            Kind::Plain => None,
            Kind::Idempotent => Some((who as i64, 0, false)),
            Kind::Version0 | Kind::Version2 => Some((who as i64, self.epochs[who], true)),
        };
        let base = self.writer.append(producer, &borrowed).unwrap();
        for (at, (key, value)) in pairs.into_iter().enumerate() {
            let (key, value) = (Bytes::from(key), value.map(Bytes::from));
            self.written.push(Written { offset: base.plus(at as i64), key, value, transaction });
        }
    }

    fn end(&mut self) {
        let Some((who, number)) = self.open.pop_first() else { return };
        let committed = !self.dice.one_in(3);
        self.committed[number] = Some(committed);
        self.mark(who, committed);
    }

    /// A marker for a transaction without data here: the partition was added, and nothing came.
    fn end_nothing(&mut self) {
        let who = 2 + self.dice.below(4) as usize;
        if !self.open.contains_key(&who) {
            let committed = self.dice.one_in(2);
            self.mark(who, committed);
        }
    }

    fn mark(&mut self, who: usize, committed: bool) {
        let version = if PRODUCERS[who] == Kind::Version2 { 2 } else { 0 };
        self.writer.end(who as i64, self.epochs[who], committed, version);
        if version == 2 {
            self.epochs[who] += 1;
        }
    }

    /// A pass changes nothing but what is in the files, and leaves those as the rules say.
    fn clean(&mut self) {
        let config = CleanerConfig {
            dedupe_buffer_bytes: self.dice.below(2) * 4_096,
            delete_retention_ms: 1_000_000,
            ..cleaner()
        };
        let (before, all) = (self.writer.batches(), bounds(&self.writer.log));
        let now = at(self.writer.now_ms);
        let Some(cleaning) = self.writer.log.start_cleaning(now, &config).unwrap() else { return };
        let bytes = 1 + self.dice.below(400);
        self.writer.run(cleaning, bytes);
        assert_eq!(bounds(&self.writer.log), all);
        check_kept(&before, &self.writer.batches());
        check_files(&self.writer.disk, &self.writer.log);
        self.check();
    }

    fn stop_cleanly(&mut self) {
        let all = bounds(&self.writer.log);
        self.writer.log.close().unwrap();
        self.writer.reopen(Recovery { log_start_offset: all.0, ..clean() });
        assert_eq!(bounds(&self.writer.log), all);
        self.check();
    }

    /// The process dies: everything is made anew from the log start on.
    fn die(&mut self) {
        let all = bounds(&self.writer.log);
        self.writer.disk = self.writer.disk.kill();
        self.writer.reopen(Recovery { log_start_offset: all.0, ..unclean(0) });
        let again = bounds(&self.writer.log);
        assert_eq!((again.0, again.1, again.2, again.3), (all.0, all.1, all.2, all.3));
        check_producers(&all.4, &again.4);
        self.check();
    }

    fn lose_snapshots(&mut self) {
        if self.has_lost_data || !self.writer.log.has_directory() {
            return;
        }
        for name in self.writer.files().iter().filter(|name| name.ends_with(".snapshot")) {
            self.writer.disk.remove(&format!("t-0/{name}")).unwrap();
        }
        self.die();
    }

    fn delete_records(&mut self) {
        let (start, stable) = (self.writer.log.log_start_offset(), self.writer.log.last_stable_offset());
        let to = start.plus(self.dice.below((stable.0 - start.0) as u64 / 3 + 1) as i64);
        self.writer.log.delete_records(to).unwrap();
        let retired = self.writer.log.apply_retention(at(self.writer.now_ms)).unwrap();
        for file in &retired.files {
            self.writer.disk.remove(file).unwrap();
        }
        self.has_lost_data |= !retired.segments.is_empty();
        self.check();
    }

    /// What a reader finds is what was written, decided and not replaced.
    fn check(&mut self) {
        let log = &self.writer.log;
        let (start, stable) = (log.log_start_offset(), log.last_stable_offset());
        let mut wanted = BTreeMap::new();
        for record in self.written.iter().filter(|record| (start..stable).contains(&record.offset)) {
            let outcome = record.transaction.map_or(Some(true), |number| self.committed[number]);
            match (outcome.expect("what is below the last stable offset is decided"), &record.value) {
                (false, _) => {}
                (true, Some(value)) => {
                    wanted.insert(record.key.clone(), value.clone());
                }
                (true, None) => {
                    wanted.remove(&record.key);
                }
            }
        }
        for fetch_bytes in [1, 300, 1 << 20] {
            assert_eq!(newest_values(log, fetch_bytes), wanted, "in fetches of {fetch_bytes} bytes");
        }
    }
}

/// What a rebuild knows is what was known: but for what only a marker said that is gone, its time and its coordinator's
/// epoch (as with Kafka, which rebuilds from the same batches).
fn check_producers(before: &[DescribedProducer], after: &[DescribedProducer]) {
    let without_markers = |producer: &DescribedProducer| DescribedProducer {
        last_timestamp: Millis::NONE,
        coordinator_epoch: CoordinatorEpoch::NONE,
        ..*producer
    };
    let both = |producers: &[DescribedProducer]| producers.iter().map(without_markers).collect::<Vec<_>>();
    assert_eq!(both(before), both(after));
    for (before, after) in before.iter().zip(after) {
        assert!(after.last_timestamp <= before.last_timestamp);
        assert!([CoordinatorEpoch::NONE, before.coordinator_epoch].contains(&after.coordinator_epoch));
    }
}

fn live(seed: u64) {
    let mut life = Life::new(seed);
    for _ in 0..STEPS {
        life.step();
    }
    while !life.open.is_empty() {
        life.end();
    }
    life.writer.roll();
    life.written.push(Written {
        offset: life.writer.log.active_segment_base(),
        key: "roll".into(),
        value: Some(".".into()),
        transaction: None,
    });
    for _ in 0..3 {
        life.writer.now_ms += 2_000_000;
        life.clean();
    }
    life.lose_snapshots();
    life.check();
}

proptest! {
    // The same lives every time, so that what passes here passes everywhere.
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(28), ..ProptestConfig::default() })]

    /// See the page of this file.
    #[test]
    fn nobody_sees_that_a_log_was_cleaned(seed in any::<u64>()) {
        live(seed);
    }
}
