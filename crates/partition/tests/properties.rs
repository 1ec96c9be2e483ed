//! Any sequence of appends, markers, moves of the high watermark, restarts and truncations: live state equals replayed
//! state, the last stable offset never goes back, what it exposes is decided, and the aborted list of any range is what
//! a naive scan of the log finds.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use fencepost_partition::{
    AbortedTxn, AppendOrigin, BatchContent, BatchFacts, Marker, ProducerStates, Staged, VerificationGuard,
    collect_aborted,
};
use fencepost_types::{
    CoordinatorEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
};
use proptest::prelude::*;

/// A batch as the generator has it: sequence and epoch relative to what the partition knows.
#[derive(Clone, Copy, Debug)]
struct Shape {
    producer_id: i64,
    epoch_step: i16,
    sequence_step: i32,
    count: i32,
    is_transactional: bool,
    bumps: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A client's batch, verified and appended at once.
    Produce(Shape),
    /// The first half of a transactional append.
    Verify(Shape),
    /// The second half of an earlier one.
    Finish(usize),
    /// A marker of a coordinator.
    Mark { producer_id: i64, epoch_step: i16, coordinator_epoch: i32, version: i8, committed: bool },
    /// The high watermark moves this part (of 255) of the way to the end.
    Replicate(u8),
    /// A snapshot from this part of the way to the high watermark is loaded, the rest is replayed.
    Restart(u8),
    /// The log is cut this part of the way from the end to the high watermark, and the state rebuilt.
    Truncate(u8),
}

fn shape() -> impl Strategy<Value = Shape> {
    let sequence_step = prop_oneof![8 => Just(0), 1 => -3..4i32];
    (
        0..4i64,
        prop_oneof![8 => Just(0i16), 1 => -1..3i16],
        sequence_step,
        1..4i32,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(producer_id, epoch_step, sequence_step, count, is_transactional, bumps)| Shape {
            producer_id,
            epoch_step,
            sequence_step,
            count,
            is_transactional,
            bumps,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let mark = (0..4i64, -1..3i16, 0..3i32, 0..3i8, any::<bool>());
    prop_oneof![
        8 => shape().prop_map(Step::Produce),
        2 => shape().prop_map(|shape| Step::Verify(Shape { is_transactional: true, ..shape })),
        2 => any::<usize>().prop_map(Step::Finish),
        4 => mark.prop_map(|(producer_id, epoch_step, coordinator_epoch, version, committed)| Step::Mark {
            producer_id, epoch_step, coordinator_epoch, version, committed,
        }),
        3 => any::<u8>().prop_map(Step::Replicate),
        1 => any::<u8>().prop_map(Step::Restart),
        1 => any::<u8>().prop_map(Step::Truncate),
    ]
}

/// A replica, and what its tests keep beside it.
struct Replica {
    states: ProducerStates,
    log: Vec<BatchFacts>,
    aborted: Vec<AbortedTxn>,
    waiting: Vec<(BatchFacts, Option<VerificationGuard>)>,
    high_watermark: Offset,
    clock: i64,
    /// Whether a snapshot was loaded: then windows are shorter than replayed ones.
    restarted: bool,
}

impl Replica {
    fn new() -> Self {
        Self {
            states: ProducerStates::new(Offset(0)),
            log: Vec::new(),
            aborted: Vec::new(),
            waiting: Vec::new(),
            high_watermark: Offset(0),
            clock: 1_000,
            restarted: false,
        }
    }

    fn end(&self) -> Offset {
        self.log.last().map_or(Offset(0), BatchFacts::next_offset)
    }

    /// The offset this part of the way from `from` to `to`.
    fn part(from: Offset, to: Offset, part: u8) -> Offset {
        Offset(from.0 + (to.0 - from.0) * i64::from(part) / 255)
    }

    fn batch(&self, shape: Shape) -> BatchFacts {
        let known = self.states.producer(ProducerId(shape.producer_id));
        let epoch = known.map_or(0, |entry| entry.producer_epoch.0) + shape.epoch_step;
        let next = match known {
            Some(entry) if shape.epoch_step == 0 => entry.last_sequence().next(),
            Some(_) => Sequence(0),
            // The first producer begins near the wrap.
            None if shape.producer_id == 0 => Sequence(i32::MAX - 4),
            None => Sequence(0),
        };
        let step = shape.sequence_step;
        let base_sequence = if step < 0 { next.minus(-step) } else { next.plus(step) };
        BatchFacts {
            base_offset: Offset(0),
            last_offset_delta: shape.count - 1,
            producer_id: ProducerId(shape.producer_id),
            producer_epoch: ProducerEpoch(epoch),
            base_sequence,
            max_timestamp: Millis(self.clock),
            is_transactional: shape.is_transactional,
            content: BatchContent::Data,
        }
    }

    fn verify(&mut self, facts: &BatchFacts, bumps: bool) -> Option<Option<VerificationGuard>> {
        let (id, epoch, sequence) = (facts.producer_id, facts.producer_epoch, facts.base_sequence);
        self.states.start_verification(Millis(self.clock), id, epoch, sequence, bumps).ok()
    }

    fn finish(&mut self, facts: BatchFacts, guard: Option<VerificationGuard>) {
        match self.states.stage(AppendOrigin::Client, &facts, guard, true) {
            Ok(Staged::Append) => self.append(facts),
            Ok(Staged::Duplicate { base_offset, last_offset, .. }) => {
                let same = |original: &&BatchFacts| {
                    let range = (original.base_offset, original.last_offset());
                    range == (base_offset, last_offset) && original.producer_id == facts.producer_id
                };
                let original = self.log.iter().find(same).expect("a duplicate has an original in the log");
                assert_eq!(original.base_sequence, facts.base_sequence);
                assert_eq!(original.producer_epoch, facts.producer_epoch);
            }
            Err(_) => {}
        }
    }

    fn append(&mut self, facts: BatchFacts) {
        let facts = BatchFacts { base_offset: self.end(), ..facts };
        self.log.push(facts);
        let completed = self.states.replay(Some(Millis(self.clock)), &facts);
        self.aborted.extend(completed.and_then(|completed| self.states.aborted_txn(&completed)));
    }

    fn mark(
        &mut self,
        producer_id: i64,
        epoch_step: i16,
        coordinator_epoch: i32,
        version: i8,
        committed: bool,
    ) {
        let known = self.states.producer(ProducerId(producer_id));
        let marker = Marker {
            result: TransactionResult::from_committed(committed),
            coordinator_epoch: CoordinatorEpoch(coordinator_epoch),
        };
        let facts = BatchFacts {
            base_offset: Offset(0),
            last_offset_delta: 0,
            producer_id: ProducerId(producer_id),
            producer_epoch: ProducerEpoch(known.map_or(0, |entry| entry.producer_epoch.0) + epoch_step),
            base_sequence: Sequence::NONE,
            max_timestamp: Millis(self.clock),
            is_transactional: true,
            content: BatchContent::Marker(marker),
        };
        let origin = AppendOrigin::Coordinator;
        let (id, epoch) = (facts.producer_id, facts.producer_epoch);
        if self.states.stage_marker(origin, id, epoch, marker.coordinator_epoch, Some(version)).is_ok() {
            self.append(facts);
        }
    }

    /// Rebuilds as start-up and truncation do: the snapshot of `from`, then the log.
    fn rebuild(&mut self, from: Offset) {
        let batches = self.log.partition_point(|facts| facts.next_offset() <= from);
        let (covered, rest) = self.log.split_at(batches);
        let snapshot_offset = covered.last().map_or(Offset(0), BatchFacts::next_offset);
        let mut before = ProducerStates::new(Offset(0));
        covered.iter().for_each(|facts| _ = before.replay(None, facts));
        let bytes = before.encode_snapshot();
        self.states.load_snapshot(&bytes, snapshot_offset, Millis(self.clock), i64::MAX).unwrap();
        assert_eq!(self.states.restorable(), before.restorable_by_kafka());
        if let Some(windows) = before.encode_windows(&bytes) {
            self.states.load_windows(&windows, &bytes).unwrap();
        }
        assert_eq!(self.states.restorable(), before.restorable());
        rest.iter().for_each(|facts| _ = self.states.replay(None, facts));
        self.states.on_high_watermark(self.high_watermark);
        self.restarted = true;
    }

    fn step(&mut self, step: Step) {
        self.clock += 1;
        match step {
            Step::Produce(shape) => {
                let facts = self.batch(shape);
                let guard =
                    if facts.is_transactional { self.verify(&facts, shape.bumps) } else { Some(None) };
                if let Some(guard) = guard {
                    self.finish(facts, guard);
                }
            }
            Step::Verify(shape) => {
                let facts = self.batch(shape);
                if let Some(guard) = self.verify(&facts, shape.bumps) {
                    self.waiting.push((facts, guard));
                }
            }
            Step::Finish(index) if !self.waiting.is_empty() => {
                let (facts, guard) = self.waiting.remove(index % self.waiting.len());
                self.finish(facts, guard);
            }
            Step::Finish(_) => {}
            Step::Mark { producer_id, epoch_step, coordinator_epoch, version, committed } => {
                self.mark(producer_id, epoch_step, coordinator_epoch, version, committed);
            }
            Step::Replicate(part) => {
                self.high_watermark = Self::part(self.high_watermark, self.end(), part);
                self.states.on_high_watermark(self.high_watermark);
            }
            Step::Restart(part) => self.rebuild(Self::part(Offset(0), self.high_watermark, part)),
            Step::Truncate(part) => {
                let target = Self::part(self.end(), self.high_watermark, part);
                let is_replicated = |facts: &BatchFacts| facts.base_offset < self.high_watermark;
                self.log.retain(|facts| facts.next_offset() <= target || is_replicated(facts));
                let end = self.end();
                self.aborted.retain(|entry| entry.last_offset < end);
                self.rebuild(Self::part(Offset(0), self.high_watermark, 128));
            }
        }
    }

    /// P8: the log replayed from its beginning gives the live state.
    fn check_replay(&self) {
        self.states.check();
        let mut replayed = ProducerStates::new(Offset(0));
        let mut aborted = Vec::new();
        for facts in &self.log {
            let completed = replayed.replay(None, facts);
            aborted.extend(completed.and_then(|completed| replayed.aborted_txn(&completed)));
        }
        replayed.on_high_watermark(self.high_watermark);
        assert_eq!(self.aborted, aborted);
        assert_eq!(self.states.restorable(), replayed.restorable());
        if !self.restarted {
            assert_eq!(self.states.logged(), replayed.logged());
        }
    }

    /// P7, told from the log alone: every transaction that begins below the last stable offset has its marker below the
    /// high watermark, and the offset is as far as it can be.
    fn check_stable_offset(&self, stable: Offset) {
        let undecided = transactions(&self.log)
            .into_iter()
            .filter(|txn| txn.marker.is_none_or(|(marker_offset, _)| marker_offset >= self.high_watermark))
            .map(|txn| txn.first_offset)
            .min();
        let expected = undecided.map_or(self.high_watermark, |first| first.min(self.high_watermark));
        assert_eq!(stable, expected);
    }

    /// No epoch goes back in the log, and no sequence of one epoch is there twice.
    fn check_log(&self) {
        let mut epochs = BTreeMap::new();
        let mut sequences = BTreeSet::new();
        for facts in &self.log {
            let epoch = epochs.entry(facts.producer_id).or_insert(facts.producer_epoch);
            assert!(*epoch <= facts.producer_epoch, "a fenced batch was appended: {facts:?}");
            *epoch = facts.producer_epoch;
            if facts.content == BatchContent::Data {
                for step in 0..=facts.last_offset_delta {
                    let sequence = facts.base_sequence.plus(step);
                    let key = (facts.producer_id, facts.producer_epoch, sequence);
                    assert!(sequences.insert(key), "written twice: {key:?}");
                }
            }
        }
    }

    /// The aborted list of every range of batches is what a naive scan finds, in the order of first offsets.
    fn check_aborted_lists(&self) {
        let ended = transactions(&self.log);
        for from in &self.log {
            for to in self.log.iter().filter(|to| to.base_offset >= from.base_offset).step_by(3) {
                let (from, to) = (from.base_offset, to.next_offset());
                // The index of the segment read, and of those behind it.
                let entries = self.aborted.iter().filter(|entry| entry.last_offset >= from);
                let Ok(found) = collect_aborted(from, to, entries.map(|entry| Ok::<_, Infallible>(*entry)));
                let found: Vec<_> =
                    found.iter().map(|entry| (entry.first_offset, entry.producer_id)).collect();
                let is_hidden = |txn: &&Txn| {
                    txn.marker.is_some_and(|(marker_offset, committed)| !committed && marker_offset >= from)
                        && txn.first_offset < to
                };
                let naive = ended.iter().filter(is_hidden).map(|txn| (txn.first_offset, txn.producer_id));
                let mut naive: Vec<_> = naive.collect();
                naive.sort();
                assert_eq!(found, naive, "from {from} to {to}");
            }
        }
    }
}

/// A transaction as a scan of the log finds it.
struct Txn {
    producer_id: ProducerId,
    first_offset: Offset,
    /// Offset of the marker, and whether it commits.
    marker: Option<(Offset, bool)>,
}

fn transactions(log: &[BatchFacts]) -> Vec<Txn> {
    let mut found: Vec<Txn> = Vec::new();
    for facts in log.iter().filter(|facts| facts.is_transactional) {
        let is_open = |txn: &&mut Txn| txn.producer_id == facts.producer_id && txn.marker.is_none();
        let open = found.iter_mut().find(is_open);
        match (facts.content, open) {
            (BatchContent::Marker(marker), Some(open)) => {
                open.marker = Some((facts.base_offset, marker.result.is_commit()));
            }
            (BatchContent::Data, None) => found.push(Txn {
                producer_id: facts.producer_id,
                first_offset: facts.base_offset,
                marker: None,
            }),
            (BatchContent::Data | BatchContent::OtherControl, _) | (BatchContent::Marker(_), None) => {}
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Everything above, after every step.
    #[test]
    fn live_is_replayed_and_stable_is_decided(steps in prop::collection::vec(step(), 1..70)) {
        let mut replica = Replica::new();
        let mut exposed = Offset(0);
        for step in steps {
            replica.step(step);
            replica.check_replay();
            replica.check_log();
            let stable = replica.states.last_stable_offset(replica.high_watermark, Offset(0));
            assert!(stable >= exposed, "the last stable offset went back from {exposed} to {stable}");
            replica.check_stable_offset(stable);
            exposed = stable;
        }
        replica.check_aborted_lists();
    }

    /// Whatever the log says, replay takes it, the state stays sound, and its snapshot is read again.
    #[test]
    fn replay_takes_any_log(
        batches in prop::collection::vec(
            (0..3i64, any::<i16>(), any::<i32>(), 0..5i32, any::<i64>(), any::<bool>(), 0..4u8), 0..40)
    ) {
        let mut states = ProducerStates::new(Offset(0));
        for (producer_id, epoch, sequence, delta, timestamp, is_transactional, kind) in batches {
            let result = TransactionResult::from_committed(kind == 1);
            let marker = Marker { result, coordinator_epoch: CoordinatorEpoch(sequence) };
            let facts = BatchFacts {
                base_offset: states.map_end_offset(),
                last_offset_delta: delta,
                producer_id: ProducerId(producer_id - 1),
                producer_epoch: ProducerEpoch(epoch % 3),
                base_sequence: Sequence(sequence),
                max_timestamp: Millis(timestamp),
                is_transactional,
                content: match kind {
                    0 | 1 => BatchContent::Marker(marker),
                    2 => BatchContent::Data,
                    _ => BatchContent::OtherControl,
                },
            };
            let _ = states.stage(AppendOrigin::Client, &facts, None, true);
            states.replay(None, &facts);
            states.check();
        }
        let mut loaded = ProducerStates::new(Offset(0));
        let snapshot = states.encode_snapshot();
        loaded.load_snapshot(&snapshot, states.map_end_offset(), Millis(0), i64::MAX).unwrap();
        loaded.check();
        let mut expected = states.restorable_by_kafka();
        expected.expire(Millis(0), i64::MAX);
        prop_assert_eq!(loaded.logged(), expected);
        if let Some(windows) = states.encode_windows(&snapshot) {
            loaded.load_windows(&windows, &snapshot).unwrap();
        }
        let mut expected = states.restorable();
        expected.expire(Millis(0), i64::MAX);
        prop_assert_eq!(loaded.logged(), expected);
    }

    /// Bytes that are no snapshot, no windows and no index are errors.
    #[test]
    fn garbage_is_an_error(garbage: Vec<u8>) {
        let mut states = ProducerStates::new(Offset(0));
        prop_assert!(states.load_snapshot(&garbage, Offset(1), Millis(0), 1).is_err());
        prop_assert!(states.load_windows(&garbage, &garbage).is_err());
        let _ = fencepost_partition::decode_aborted_index(&garbage, Offset(0));
    }
}
