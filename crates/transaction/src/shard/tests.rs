//! Random requests, failures and restarts, against the invariants of the crate page and of `coordinator §17`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::testing::*;
use crate::*;
use fencepost_coordinator::{Record, Shard, Token};
use fencepost_types::{ProducerEpoch, ProducerId, TransactionResult, TransactionVersion};
use proptest::prelude::*;

/// One step of a random run. Producers are named by how they stand to the current one.
#[derive(Clone, Debug)]
enum Step {
    Init { expected: Option<Named> },
    Add { producer: Named, partitions: Vec<i32>, version: TransactionVersion },
    Verify { producer: Named },
    End { producer: Named, result: TransactionResult, version: TransactionVersion },
    Written { partition: i32 },
    GivenUp { partition: i32 },
    Deleted { partition: i32 },
    Late,
    Wait { ms: i64 },
    Tick,
    Restart,
}

#[derive(Clone, Copy, Debug)]
struct Named {
    /// The current producer id, the previous one, or a stranger's.
    who: u8,
    /// How far below the current epoch; the last epoch above 2.
    below: i16,
}

impl Named {
    fn of(self, txn: Option<&TxnMetadata>) -> (ProducerId, i16) {
        let Some(txn) = txn else { return (STRANGER, 0) };
        let producer_id = match self.who {
            0..=5 => txn.producer_id,
            6 | 7 => txn.previous_producer_id,
            _stranger => STRANGER,
        };
        let epoch = match self.below {
            -1..=2 => txn.producer_epoch.0.saturating_sub(self.below).max(0),
            _last if self.who >= 6 => 32766,
            _last => txn.last_producer_epoch.0.max(0),
        };
        (producer_id, epoch)
    }
}

fn named() -> impl Strategy<Value = Named> {
    let below = prop_oneof![6 => Just(0i16), 2 => Just(1), 1 => Just(2), 1 => Just(-1), 2 => Just(3)];
    (0..9u8, below).prop_map(|(who, below)| Named { who, below })
}

fn version() -> impl Strategy<Value = TransactionVersion> {
    prop_oneof![Just(V0), Just(V2), Just(V2)]
}

fn step() -> impl Strategy<Value = Step> {
    let result = prop_oneof![Just(Commit), Just(Abort)];
    prop_oneof![
        2 => prop::option::of(named()).prop_map(|expected| Step::Init { expected }),
        5 => (named(), prop::collection::vec(0..3i32, 0..3), version())
            .prop_map(|(producer, partitions, version)| Step::Add { producer, partitions, version }),
        1 => named().prop_map(|producer| Step::Verify { producer }),
        5 => (named(), result, version())
            .prop_map(|(producer, result, version)| Step::End { producer, result, version }),
        6 => (0..3i32).prop_map(|partition| Step::Written { partition }),
        1 => (0..3i32).prop_map(|partition| Step::GivenUp { partition }),
        1 => (0..3i32).prop_map(|partition| Step::Deleted { partition }),
        1 => Just(Step::Late),
        2 => prop_oneof![10 => 0..70_000i64, 1 => Just(604_800_000)].prop_map(|ms| Step::Wait { ms }),
        4 => Just(Step::Tick),
        1 => Just(Step::Restart),
    ]
}

/// A run, with what must hold over its whole length.
struct Run {
    coordinator: Coordinator,
    /// Reports that were made once and may come again.
    reports: Vec<Request>,
    seen: usize,
    /// X2: the highest epoch of each producer id.
    highest: BTreeMap<ProducerId, ProducerEpoch>,
    /// X4: what is decided and not complete.
    decided: Option<TransactionState>,
    /// Whether a timeout has come.
    timed_out: bool,
    /// X3: producers of decided transactions, while version 2 alone is spoken.
    spent: BTreeSet<(ProducerId, ProducerEpoch)>,
}

impl Run {
    fn new(level: TransactionVersion, epoch: i16) -> Self {
        let coordinator = Coordinator::with(level, txn_at(TransactionState::Empty, V0, epoch));
        let (highest, spent) = (BTreeMap::new(), BTreeSet::new());
        Self { coordinator, reports: Vec::new(), seen: 0, highest, decided: None, timed_out: false, spent }
    }

    fn markers(&self, partition: i32) -> Markers {
        let owed = self.coordinator.shard.markers_owed_by(TX).map(|owed| news(&owed));
        let nothing = Markers {
            transactional_id: TransactionalId::from(TX),
            decided_at: fencepost_types::Offset(0),
            partitions: Vec::new(),
        };
        Markers { partitions: orders(&[partition]), ..owed.unwrap_or(nothing) }
    }

    fn request(&mut self, step: &Step) -> Option<Request> {
        let txn = self.coordinator.shard.get(TX);
        let request = match step {
            Step::Init { expected } => init(expected.map(|expected| expected.of(txn))),
            Step::Add { producer, partitions, version } => add(producer.of(txn), partitions, *version),
            Step::Verify { producer } => verify(producer.of(txn), &[0]),
            Step::End { producer, result, version } => end(producer.of(txn), *result, *version),
            Step::Written { partition } => Request::MarkersWritten(self.markers(*partition)),
            Step::GivenUp { partition } => Request::MarkersGivenUp(self.markers(*partition)),
            Step::Deleted { partition } => Request::PartitionsDeleted(self.markers(*partition)),
            Step::Late => return self.reports.first().cloned(),
            Step::Tick => TransactionShard::tick(),
            Step::Wait { ms } => {
                let now = &mut self.coordinator.now;
                (now.wall, now.mono) = (now.wall.plus(*ms), now.mono.plus_ms(*ms));
                return None;
            }
            Step::Restart => {
                self.coordinator.restart();
                return None;
            }
        };
        if let Request::MarkersWritten(_) = &request {
            self.reports.push(request.clone());
        }
        Some(request)
    }

    /// `append_works`: whether the decision reaches the log.
    fn take(&mut self, step: &Step, append_works: bool, only_version_2: bool) {
        let Some(request) = self.request(step) else { return };
        if !append_works {
            let before = self.coordinator.shard.clone();
            let _ = self.coordinator.shard.decide(self.coordinator.now, Token(0), &request);
            assert_eq!(self.coordinator.shard, before);
            return;
        }
        let open = self.coordinator.shard.get(TX).cloned();
        let answer = self.coordinator.ask_with_ids(&request);
        self.look_at_the_log(open.as_ref(), only_version_2);
        self.timed_out |= matches!(answer, Ok(Reply::Ticked(TickOutcome::TimedOut(_))));
        if let (Ok(Reply::Ended { .. }), Request::EndTxn(end)) = (&answer, &request) {
            // §17.4: what the client was told is what is decided, or complete already.
            let state = self.coordinator.txn().state;
            let told = [TransactionState::prepared(end.result), TransactionState::completed(end.result)];
            assert!(told.contains(&state), "told {:?}, but {state}", end.result);
        }
    }

    fn look_at_the_log(&mut self, before: Option<&TxnMetadata>, only_version_2: bool) {
        for (key, value) in &self.coordinator.log[self.seen..] {
            let record = TransactionRecord::decode(Some(key), value.as_ref()).unwrap().unwrap();
            let Some(TransactionValue { txn, .. }) = record.value else {
                assert_eq!(self.decided, None, "X4: a decided transaction was forgotten");
                continue;
            };
            let highest = self.highest.entry(txn.producer_id).or_insert(txn.producer_epoch);
            assert!(txn.producer_epoch >= *highest, "X2: the epoch of {} fell", txn.producer_id);
            *highest = txn.producer_epoch;
            match (self.decided, txn.state.completing()) {
                (Some(prepared), _) => {
                    let complete = prepared.completing().map(TransactionState::completed);
                    assert_eq!(Some(txn.state), complete, "X4: after {prepared} comes {}", txn.state);
                    self.decided = None;
                }
                (None, Some(_)) => {
                    self.decided = Some(txn.state);
                    let producer = before.map(|txn| (txn.producer_id, txn.producer_epoch)).expect("known");
                    assert!(self.spent.insert(producer) || !only_version_2, "X3: {producer:?} ended twice");
                }
                (None, None) => {}
            }
        }
        self.seen = self.coordinator.log.len();
    }

    /// §17.4 and 5: whatever is decided completes with the same outcome once leaders answer.
    fn end(mut self, only_version_2: bool) {
        let decided = self.decided;
        self.coordinator.restart();
        let before = self.coordinator.shard.get(TX).cloned();
        self.coordinator.settle();
        self.look_at_the_log(before.as_ref(), only_version_2);
        assert_eq!(self.decided, None);
        if let Some(decided) = decided.and_then(TransactionState::completing) {
            assert_eq!(self.coordinator.txn().state, TransactionState::completed(decided));
        }
    }
}

fn run(level: TransactionVersion, epoch: i16, only_version_2: bool, steps: Vec<(Step, bool)>) {
    let mut run = Run::new(level, epoch);
    for (step, append_works) in &steps {
        let step = match step.clone() {
            Step::Add { producer, partitions, version } => {
                Step::Add { producer, partitions, version: if only_version_2 { V2 } else { version } }
            }
            Step::End { producer, result, version } => {
                Step::End { producer, result, version: if only_version_2 { V2 } else { version } }
            }
            step => step,
        };
        run.take(&step, *append_works, only_version_2);
    }
    run.end(only_version_2);
}

fn steps() -> impl Strategy<Value = Vec<(Step, bool)>> {
    prop::collection::vec((step(), prop::bool::weighted(0.95)), 1..80)
}

fn epoch() -> impl Strategy<Value = i16> {
    prop_oneof![Just(0i16), Just(5), Just(32763), Just(32765), Just(32766), Just(32767)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// X1, X2, X4, X5 and §17 over any mix of versions, at every level. `Coordinator::ask` compares live and loaded
    /// state after each step.
    #[test]
    fn invariants_hold_over_any_mix(level in 0..3i16, epoch in epoch(), steps in steps()) {
        run(TransactionVersion::from_level(level), epoch, false, steps);
    }

    /// X3: under version 2 alone, no two transactions share producer id and epoch.
    #[test]
    fn version_2_never_shares_an_epoch(epoch in epoch(), steps in steps()) {
        run(V2, epoch, true, steps);
    }
}

/// The random runs reach what they are for: each of these is seen within a few hundred of them.
#[test]
fn random_runs_reach_every_corner() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    for _ in 0..300 {
        let (start, steps) = (epoch(), steps()).new_tree(&mut runner).unwrap().current();
        let mut run = Run::new(V2, start);
        for (step, append_works) in &steps {
            run.take(step, *append_works, false);
        }
        if run.timed_out {
            reached.insert(String::from("timeout"));
        }
        for line in run.coordinator.written(0) {
            reached.insert(String::from(line.split(' ').next().expect("a state")));
            for corner in [" V", " N", " TV2", "/32767", "tombstone"] {
                if line.contains(corner) {
                    reached.insert(String::from(corner));
                }
            }
        }
        run.end(false);
    }
    let wanted = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"];
    for corner in wanted.into_iter().chain([" V", " N", " TV2", "/32767", "tombstone", "timeout"]) {
        assert!(reached.contains(corner), "{corner} is never reached: {reached:?}");
    }
}

/// X2: a check notices two ids with one producer id.
#[test]
#[should_panic(expected = "X2: tx shares producer id 100")]
fn a_check_notices_a_shared_producer_id() {
    let mut coordinator = Coordinator::with(V2, txn_in(TransactionState::Empty, V2));
    coordinator.append(&record("another", txn_in(TransactionState::Empty, V2)));
    coordinator.shard.check();
}

/// X1: what a load would give is all there is from level 1 on; at level 0 it is what a value without tags holds.
#[test]
fn what_a_load_would_give() {
    let whole = txn_in(TransactionState::Ongoing, V2);
    for (level, expected) in [(V0, whole.as_version_0()), (V1, whole.clone()), (V2, whole.clone())] {
        let mut coordinator = Coordinator::with(level, txn_in(TransactionState::Empty, V2));
        coordinator.add((P, 5), &[0, 1], V2);
        let [(_, txn)] = &coordinator.shard.as_loaded().collect::<Vec<_>>()[..] else { panic!("one id") };
        let expected = TxnMetadata { start: txn.start, last_update: txn.last_update, ..expected };
        assert_eq!(*txn, expected, "{level:?}");
    }
}
