//! Files that Apache Kafka 4.4.0 wrote, beside the batches of the logs they came from: state is a fold of the log, and
//! its files have Kafka's bytes. `testdata/golden/*/log.txt` holds the batches and what a live broker answered.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;

use fencepost_partition::{
    AbortedTxn, BatchContent, BatchFacts, Marker, ProducerSnapshot, ProducerStates, collect_aborted,
    decode_aborted_index,
};
use fencepost_types::{
    CoordinatorEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
};

/// `producer.id.expiration.ms` of the broker that wrote the files.
const EXPIRATION_MS: i64 = 86_400_000;
/// Partitions whose log is as it was written, and one that was compacted.
const WHOLE: [&str; 8] =
    ["codecs-0", "appendtime-0", "recompressed-0", "bytime-0", "plain-0", "expired-0", "txns-0", "txns-1"];
const COMPACTED: &str = "compacted-0";

struct Partition {
    name: &'static str,
    batches: Vec<BatchFacts>,
    segments: Vec<Offset>,
    as_of: Millis,
    log_start: Offset,
    high_watermark: Offset,
    last_stable_offset: Offset,
    /// Producer id, epoch, last sequence, coordinator epoch, start of the open transaction.
    producers: Vec<[i64; 5]>,
    fetches: Vec<Fetch>,
}

/// A read_committed fetch: what was asked, the last batch that came, and the transactions that Kafka named.
struct Fetch {
    from: Offset,
    last_batch: Offset,
    listed: BTreeSet<(i64, i64)>,
}

impl Partition {
    fn read(name: &'static str) -> Self {
        let mut partition = Self {
            name,
            batches: Vec::new(),
            segments: Vec::new(),
            as_of: Millis(0),
            log_start: Offset(0),
            high_watermark: Offset(0),
            last_stable_offset: Offset(0),
            producers: Vec::new(),
            fetches: Vec::new(),
        };
        let text = fs::read_to_string(directory(name).join("log.txt")).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<i64>().unwrap();
            match words[0] {
                "segments" => {
                    partition.segments = (1..words.len()).map(|at| Offset(number(at))).collect();
                }
                "batch" => partition.batches.push(batch(&words)),
                "live" => {
                    partition.as_of = Millis(number(1));
                    partition.log_start = Offset(number(2));
                    partition.high_watermark = Offset(number(3));
                    partition.last_stable_offset = Offset(number(4));
                }
                "producer" => partition.producers.push(core::array::from_fn(|at| number(at + 1))),
                "fetch" => partition.fetches.push(Fetch {
                    from: Offset(number(1)),
                    last_batch: Offset(number(2)),
                    listed: words[3..].iter().map(|word| pair(word)).collect(),
                }),
                other => panic!("unknown line {other}"),
            }
        }
        partition
    }

    /// The files with this ending, by the offset in their name.
    fn files(&self, ending: &str) -> BTreeMap<Offset, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory(self.name)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == ending) {
                let offset = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
                files.insert(Offset(offset), fs::read(&path).unwrap());
            }
        }
        files
    }

    /// The state below `end`, and the transactions aborted on the way.
    fn fold(&self, end: Offset) -> (ProducerStates, Vec<AbortedTxn>) {
        let mut states = ProducerStates::new(self.log_start);
        let mut aborted = Vec::new();
        for facts in self.batches.iter().filter(|facts| facts.base_offset < end) {
            let completed = states.replay(None, facts);
            aborted.extend(completed.and_then(|completed| states.aborted_txn(&completed)));
            states.check();
        }
        states.advance_map_end_offset(end);
        (states, aborted)
    }
}

fn directory(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "testdata", "golden", name].iter().collect()
}

fn pair(word: &str) -> (i64, i64) {
    let (producer_id, first_offset) = word.split_once(':').unwrap();
    (producer_id.parse().unwrap(), first_offset.parse().unwrap())
}

fn batch(words: &[&str]) -> BatchFacts {
    let number = |at: usize| words[at].parse::<i64>().unwrap();
    let marker = |result| {
        let coordinator_epoch = words[7].split_once(':').unwrap().1.parse().unwrap();
        BatchContent::Marker(Marker { result, coordinator_epoch: CoordinatorEpoch(coordinator_epoch) })
    };
    let content = match words[7].split(':').next().unwrap() {
        "COMMIT" => marker(TransactionResult::Commit),
        "ABORT" => marker(TransactionResult::Abort),
        "EMPTY" => BatchContent::OtherControl,
        _ => BatchContent::Data,
    };
    BatchFacts {
        base_offset: Offset(number(1)),
        last_offset_delta: (number(2) - number(1)) as i32,
        producer_id: ProducerId(number(3)),
        producer_epoch: ProducerEpoch(number(4) as i16),
        base_sequence: Sequence(number(5) as i32),
        max_timestamp: Millis(number(6)),
        is_transactional: words[7] != "plain",
        content,
    }
}

fn by_producer(mut snapshot: ProducerSnapshot) -> ProducerSnapshot {
    snapshot.entries.sort_by_key(|entry| entry.producer_id);
    snapshot
}

/// Every snapshot is read, and written again to the same bytes.
#[test]
fn snapshots_round_trip() {
    let mut count = 0;
    for name in WHOLE.into_iter().chain([COMPACTED]) {
        for (offset, bytes) in Partition::read(name).files("snapshot") {
            let snapshot = ProducerSnapshot::decode(&bytes).unwrap();
            assert_eq!(snapshot.encode(), bytes, "{name} {offset}");
            count += 1;
        }
    }
    assert_eq!(count, 27);
}

/// Every snapshot of an uncompacted log is the fold of the log below it.
#[test]
fn snapshots_are_a_fold_of_the_log() {
    for name in WHOLE {
        let partition = Partition::read(name);
        for (offset, bytes) in partition.files("snapshot") {
            let expected = by_producer(ProducerSnapshot::decode(&bytes).unwrap());
            assert_eq!(partition.fold(offset).0.snapshot(), expected, "{name} {offset}");
        }
    }
}

/// A compacted log folds to the same state as before compaction: what must be kept was kept (producer-state §14).
#[test]
fn a_compacted_log_folds_to_the_same_state() {
    let partition = Partition::read(COMPACTED);
    let (offset, bytes) = partition.files("snapshot").pop_last().unwrap();
    let (states, _) = partition.fold(offset);
    assert_eq!(states.snapshot(), by_producer(ProducerSnapshot::decode(&bytes).unwrap()));
    for (producer_id, last) in states.last_records() {
        let mut of_producer = partition.batches.iter().filter(|facts| facts.producer_id == producer_id);
        assert!(of_producer.any(|facts| last.is_in(facts)), "producer {producer_id}");
    }
}

/// A state loaded from any snapshot and replayed to the end is the state replayed from the beginning, but for the older
/// batches of the windows.
#[test]
fn snapshot_and_replay_meet() {
    for name in WHOLE {
        let partition = Partition::read(name);
        let end = partition.high_watermark;
        for (offset, bytes) in partition.files("snapshot") {
            let mut states = ProducerStates::new(Offset(0));
            states.load_snapshot(&bytes, offset, Millis(0), EXPIRATION_MS).unwrap();
            let rest = partition.batches.iter().filter(|facts| facts.base_offset >= offset);
            rest.for_each(|facts| _ = states.replay(None, facts));
            states.check();
            assert_eq!(states.encode_snapshot(), partition.fold(end).0.encode_snapshot(), "{name} {offset}");
        }
    }
}

/// The transaction index of every segment is the fold of the log, entry by entry.
#[test]
fn transaction_indexes_are_a_fold_of_the_log() {
    let mut count = 0;
    for name in WHOLE {
        let partition = Partition::read(name);
        let mut indexes: BTreeMap<Offset, Vec<AbortedTxn>> = BTreeMap::new();
        for entry in partition.fold(partition.high_watermark).1 {
            let segment = partition.segments.iter().rfind(|base| **base <= entry.last_offset).unwrap();
            indexes.entry(*segment).or_default().push(entry);
        }
        for (base_offset, bytes) in partition.files("txnindex") {
            let expected = indexes.remove(&base_offset).unwrap_or_default();
            assert_eq!(decode_aborted_index(&bytes, base_offset).unwrap(), expected, "{name} {base_offset}");
            let encoded: Vec<u8> = expected.iter().flat_map(AbortedTxn::encode).collect();
            assert_eq!(encoded, bytes, "{name} {base_offset}");
            count += expected.len();
        }
        assert!(indexes.is_empty(), "{name}");
    }
    assert_eq!(count, 13);
}

/// Producers and last stable offset are what a live broker said of the same log.
#[test]
fn a_live_broker_says_the_same() {
    for name in WHOLE.into_iter().chain([COMPACTED]) {
        let partition = Partition::read(name);
        let (mut states, _) = partition.fold(partition.high_watermark);
        states.on_high_watermark(partition.high_watermark);
        states.expire(partition.as_of, EXPIRATION_MS);
        states.check();
        let stable = states.last_stable_offset(partition.high_watermark, partition.log_start);
        assert_eq!(stable, partition.last_stable_offset, "{name}");
        let rows = states.describe_producers().map(|row| {
            let numbers = [row.producer_epoch, row.last_sequence.0, row.coordinator_epoch.0].map(i64::from);
            let [epoch, sequence, coordinator_epoch] = numbers;
            [row.producer_id.0, epoch, sequence, coordinator_epoch, row.current_txn_start_offset.0]
        });
        assert_eq!(rows.collect::<Vec<_>>(), partition.producers, "{name}");
    }
}

/// For every fetch, what the collection names is needed, nothing needed is missing, and Kafka named it, too. (Kafka's
/// upper bound comes from bytes, so its list may go on beyond the data: storage-formats §7.4.)
#[test]
fn fetches_name_the_aborted_transactions() {
    let mut count = 0;
    for name in WHOLE.into_iter().chain([COMPACTED]) {
        let partition = Partition::read(name);
        let aborted: Vec<AbortedTxn> = partition
            .files("txnindex")
            .iter()
            .flat_map(|(base_offset, bytes)| decode_aborted_index(bytes, *base_offset).unwrap())
            .collect();
        for fetch in &partition.fetches {
            let last = partition.batches.iter().find(|facts| facts.base_offset == fetch.last_batch).unwrap();
            let upper_bound = last.next_offset();
            let segment = partition.segments.iter().rfind(|base| **base <= fetch.from).unwrap();
            let entries = aborted.iter().filter(|entry| entry.last_offset >= *segment);
            let Ok(found) =
                collect_aborted(fetch.from, upper_bound, entries.map(|entry| Ok::<_, Infallible>(*entry)));
            let named: BTreeSet<_> =
                found.iter().map(|entry| (entry.producer_id.0, entry.first_offset.0)).collect();
            let needed: BTreeSet<_> = aborted
                .iter()
                .filter(|entry| entry.last_offset >= fetch.from && entry.first_offset < upper_bound)
                .map(|entry| (entry.producer_id.0, entry.first_offset.0))
                .collect();
            assert_eq!(named, needed, "{name} from {} to {upper_bound}", fetch.from);
            assert!(named.is_subset(&fetch.listed), "{name} from {} to {upper_bound}", fetch.from);
            count += 1;
        }
    }
    assert!(count > 100, "{count} fetches");
}
