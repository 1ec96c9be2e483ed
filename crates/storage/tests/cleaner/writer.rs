//! A log that is written to and cleaned, batch by batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_records::{
    AppendOrigin, AppendRules, Batch, BatchBuilder, Compression, CompressionType, RecordHeader, validate,
};
use fencepost_storage::{
    AppendOutcome, CleanerConfig, Cleaning, CleaningStep, CleaningTurn, CleanupPolicy, Disk, FlushScope, Log,
    LogConfig, MarkerAppend, Recovery, StorageError,
};
use fencepost_types::{
    CoordinatorEpoch, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
    Uuid,
};

use crate::common::*;

pub const T: i64 = 1_700_000_000_000;
pub const ID: Uuid = Uuid::from_u128(77);
pub const LEADER: LeaderEpoch = LeaderEpoch(3);
pub const DELETE_RETENTION_MS: i64 = 3_600_000;

/// Key and value of a record; without a value it is a tombstone.
pub type Pair<'a> = (&'a str, Option<&'a str>);

/// The settings of a compacted log with small segments.
pub fn compacted() -> LogConfig {
    LogConfig {
        segment_bytes: 1 << 20,
        segment_index_bytes: 1 << 16,
        index_interval_bytes: 100,
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        ..LogConfig::default()
    }
}

/// The settings of the cleaner.
pub fn cleaner() -> CleanerConfig {
    CleanerConfig { delete_retention_ms: DELETE_RETENTION_MS, ..CleanerConfig::default() }
}

/// A log, its disk, and what its producers have sent.
pub struct Writer<D> {
    pub disk: D,
    pub log: Log,
    pub now_ms: i64,
    pub codec: CompressionType,
    sequences: BTreeMap<(i64, i16), i32>,
}

impl<D: Disk + Clone + 'static> Writer<D> {
    pub fn new(disk: D, config: LogConfig) -> Self {
        let log = open_log(&disk, &config, clean(), T);
        Self::over(disk, log)
    }

    /// Over a log that is open.
    pub fn over(disk: D, log: Log) -> Self {
        Self { disk, log, now_ms: T, codec: CompressionType::None, sequences: BTreeMap::new() }
    }

    /// Closes or crashes, and opens again; sequences go on where the log's producers are.
    pub fn reopen(&mut self, recovery: Recovery) {
        let (config, checkpoint) = (self.log.config().clone(), self.log.cleaner_checkpoint());
        let recovery = Recovery { cleaner_checkpoint: checkpoint, ..recovery };
        self.log = open_log(&self.disk, &config, recovery, self.now_ms);
        self.log.update_high_watermark(self.log.log_end_offset());
        self.read_sequences();
    }

    pub fn read_sequences(&mut self) {
        self.sequences.clear();
        for producer in self.log.producer_states().describe_producers() {
            let id = (producer.producer_id.0, producer.producer_epoch as i16);
            self.sequences.insert(id, producer.last_sequence.0 + 1);
        }
    }

    /// Records without a producer.
    pub fn plain(&mut self, pairs: &[Pair<'_>]) -> Offset {
        self.append(None, pairs).unwrap()
    }

    /// Records of an idempotent producer.
    pub fn idempotent(&mut self, producer: i64, pairs: &[Pair<'_>]) -> Offset {
        self.append(Some((producer, 0, false)), pairs).unwrap()
    }

    /// Records in a transaction.
    pub fn transactional(&mut self, producer: i64, epoch: i16, pairs: &[Pair<'_>]) -> Offset {
        self.append(Some((producer, epoch, true)), pairs).unwrap()
    }

    /// Appends one batch.
    pub fn append(
        &mut self,
        producer: Option<(i64, i16, bool)>,
        pairs: &[Pair<'_>],
    ) -> Result<Offset, StorageError> {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
        if let Some((id, epoch, transactional)) = producer {
            let sequence = Sequence(self.sequences.get(&(id, epoch)).copied().unwrap_or(0));
            builder =
                builder.producer(ProducerId(id), ProducerEpoch(epoch), sequence).transactional(transactional);
        }
        let header = RecordHeader { key: "h".into(), value: None };
        for (key, value) in pairs {
            let value = value.map(str::as_bytes);
            builder.append(Millis(self.now_ms), Some(key.as_bytes()), value, std::slice::from_ref(&header));
        }
        let batch = builder.compression(Compression::new(self.codec)).build().unwrap();
        let rules = AppendRules { timestamp_after_max_ms: i64::MAX, ..AppendRules::default() };
        let origin = AppendOrigin::Client { produce_version: 12 };
        let valid = validate(Some(batch.into_bytes()), &rules, origin, Millis(self.now_ms)).unwrap();
        match self.log.append_as_leader(at(self.now_ms), &valid, LEADER, None, false) {
            Ok(AppendOutcome::Appended(appended)) => {
                if let Some((id, epoch, _)) = producer {
                    *self.sequences.entry((id, epoch)).or_default() += pairs.len() as i32;
                }
                self.log.update_high_watermark(self.log.log_end_offset());
                Ok(appended.base_offset)
            }
            Ok(AppendOutcome::Duplicate { .. }) => panic!("sequences rise"),
            Err(fencepost_storage::AppendError::Storage(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    /// Ends a transaction under the rules of version 0 (the marker has the data's epoch) or 2 (one more).
    pub fn end(&mut self, producer: i64, epoch: i16, committed: bool, version: i8) -> Offset {
        let marker = MarkerAppend {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(if version == 2 { epoch + 1 } else { epoch }),
            result: TransactionResult::from_committed(committed),
            coordinator_epoch: CoordinatorEpoch(5),
            transaction_version: Some(version),
        };
        let appended = self.log.append_marker(at(self.now_ms), marker, LEADER).unwrap();
        self.log.update_high_watermark(self.log.log_end_offset());
        appended.base_offset
    }

    /// Closes the active segment; the next one begins with a record of the key `roll`.
    pub fn roll(&mut self) -> Offset {
        let config = self.log.config().clone();
        self.log.update_config(LogConfig { segment_bytes: 120, ..config.clone() });
        let codec = std::mem::replace(&mut self.codec, CompressionType::None);
        let offset = self.plain(&[("roll", Some("."))]);
        self.codec = codec;
        self.log.update_config(config);
        assert_eq!(self.log.active_segment_base(), offset);
        offset
    }

    pub fn sync(&mut self) {
        if let Some(ticket) = self.log.dirty(FlushScope::All) {
            ticket.run().unwrap();
            self.log.mark_synced(&ticket);
        }
    }

    /// One pass, and the unlinking of what it replaced. Whether there was anything to clean.
    pub fn clean(&mut self) -> bool {
        self.clean_with(&cleaner())
    }

    pub fn clean_with(&mut self, config: &CleanerConfig) -> bool {
        let Some(cleaning) = self.log.start_cleaning(at(self.now_ms), config).unwrap() else { return false };
        self.run(cleaning, 64);
        true
    }

    /// Drives a cleaning to its end, `bytes` at a time.
    pub fn run(&mut self, mut cleaning: Cleaning, bytes: u64) {
        loop {
            match cleaning.step(bytes).unwrap() {
                CleaningStep::More => {}
                CleaningStep::WantsLog => match cleaning.with_log(&mut self.log).unwrap() {
                    CleaningTurn::GoOn => {}
                    CleaningTurn::Done => break,
                    CleaningTurn::Stale => panic!("nothing else happens to the log"),
                },
            }
        }
        for file in cleaning.take_retired() {
            self.disk.remove(&file).unwrap();
        }
    }

    /// Every batch, in order.
    pub fn batches(&self) -> Vec<Batch> {
        read_all(&self.log)
    }

    /// Base and last offset of each batch, its offsets of records, and `!` if it is a control batch.
    pub fn shape(&self) -> Vec<String> {
        let shape = |batch: &Batch| {
            let records = batch
                .records()
                .unwrap()
                .map(|record| batch.header().record_offset(record.unwrap().offset_delta).0.to_string());
            let records: Vec<String> = records.collect();
            let mark = if batch.header().is_control() { "!" } else { "" };
            format!("{}-{}{mark} [{}]", batch.base_offset(), batch.last_offset(), records.join(" "))
        };
        self.batches().iter().map(shape).collect()
    }

    pub fn files(&self) -> Vec<String> {
        names(&self.disk, "t-0")
    }
}

pub fn open_log<D: Disk + Clone + 'static>(
    disk: &D,
    config: &LogConfig,
    recovery: Recovery,
    now_ms: i64,
) -> Log {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(shared, partition("t-0"), ID, config.clone(), recovery, at(now_ms)).unwrap()
}
