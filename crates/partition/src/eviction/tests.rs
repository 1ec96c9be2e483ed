use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use fencepost_types::{Millis, ProducerId};
use proptest::prelude::*;

use super::Evicted;
use crate::testing::{Replica, START, abort, commit, data, txn};

const IDLE_MIN_MS: i64 = 1_000;

fn ids(replica: &Replica) -> Vec<i64> {
    replica.states.producers().map(|(id, _)| id.0).collect()
}

/// Who was silent longest goes first; who was heard of a moment ago stays, whatever the need.
#[test]
fn the_longest_silent_go_first() {
    let mut replica = Replica::new();
    for id in [3, 1, 2] {
        replica.produce(data(id, 0, 0, 1)).unwrap();
        replica.now = replica.now.plus(100);
    }
    let now = START.plus(IDLE_MIN_MS + 100);
    assert_eq!(replica.states.evict(now, IDLE_MIN_MS, 1), Evicted { producers: 1, look_again_at: None });
    assert_eq!(ids(&replica), [1, 2]);
    let again = replica.states.evict(now, IDLE_MIN_MS, 2);
    assert_eq!(again, Evicted { producers: 1, look_again_at: Some(START.plus(IDLE_MIN_MS + 200)) });
    assert_eq!(ids(&replica), [2]);
}

/// An open transaction, one whose marker is not replicated, and one that is being verified keep their producer, however
/// old.
#[test]
fn transactions_keep_their_producers() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 0, 0, 1)).unwrap();
    replica.produce(txn(2, 0, 0, 1)).unwrap();
    replica.mark(abort(2, 0, 0), Some(1)).unwrap();
    replica.produce(data(3, 0, 0, 1)).unwrap();
    replica.verify(&txn(3, 0, 1, 1), false).unwrap();
    let late = START.plus(1_000_000);
    assert_eq!(replica.states.evict(late, IDLE_MIN_MS, 9).producers, 0);
    replica.replicate();
    assert_eq!(replica.states.evict(late, IDLE_MIN_MS, 9).producers, 1);
    assert_eq!(ids(&replica), [1, 3]);
    assert_eq!(replica.last_stable_offset(), 0);
}

/// Who was evicted is unknown, as after expiry: the next batch may have any sequence.
#[test]
fn who_was_evicted_is_unknown() {
    let mut replica = Replica::new();
    replica.produce(data(1, 4, 0, 2)).unwrap();
    replica.states.evict(START.plus(IDLE_MIN_MS), IDLE_MIN_MS, 1);
    assert_eq!(replica.produce(data(1, 3, 9, 2)), Ok(2));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Plain(i64),
    InTransaction(i64),
    End(i64, bool),
    Verify(i64),
    Wait(i64),
    Replicate,
    Restart,
    Evict(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..8i64;
    prop_oneof![
        4 => id.clone().prop_map(Step::Plain),
        3 => id.clone().prop_map(Step::InTransaction),
        3 => (id.clone(), any::<bool>()).prop_map(|(id, committed)| Step::End(id, committed)),
        1 => id.prop_map(Step::Verify),
        4 => (0..2 * IDLE_MIN_MS).prop_map(Step::Wait),
        2 => Just(Step::Replicate),
        1 => Just(Step::Restart),
        3 => (0..5usize).prop_map(Step::Evict),
    ]
}

proptest! {
    /// Whatever happened before: an eviction takes at most as many as asked for, only such as may go, the longest silent
    /// first, all that may if it says that there are no more; and it changes nothing else, neither for readers nor for
    /// those who stay.
    #[test]
    fn an_eviction_breaks_no_promise(steps in prop::collection::vec(step(), 1..80)) {
        let mut replica = Replica::new();
        let mut heard: BTreeMap<i64, Millis> = BTreeMap::new();
        for step in steps {
            let now = replica.now;
            let next = |replica: &Replica, id: i64| {
                let known = replica.states.producer(ProducerId(id));
                known.map_or(0, |entry| entry.last_sequence().0 + 1)
            };
            let in_transaction = |replica: &Replica, id: i64| {
                let known = replica.states.producer(ProducerId(id));
                known.is_some_and(|entry| entry.current_txn_first_offset.is_some())
            };
            match step {
                Step::Plain(id) if !in_transaction(&replica, id) => {
                    let sequence = next(&replica, id);
                    replica.produce(crate::BatchFacts { max_timestamp: now, ..data(id, 0, sequence, 1) }).unwrap();
                    heard.insert(id, now);
                }
                Step::InTransaction(id) => {
                    let sequence = next(&replica, id);
                    replica.produce(crate::BatchFacts { max_timestamp: now, ..txn(id, 0, sequence, 1) }).unwrap();
                    heard.insert(id, now);
                }
                Step::End(id, committed) if in_transaction(&replica, id) => {
                    let marker = if committed { commit(id, 0, 0) } else { abort(id, 0, 0) };
                    replica.mark(crate::BatchFacts { max_timestamp: now, ..marker }, Some(1)).unwrap();
                    heard.insert(id, now);
                }
                Step::Verify(id) => {
                    let sequence = next(&replica, id);
                    replica.verify(&txn(id, 0, sequence, 1), false).unwrap();
                }
                Step::Plain(_) | Step::End(..) => {}
                Step::Wait(ms) => replica.now = replica.now.plus(ms),
                Step::Replicate => replica.replicate(),
                Step::Restart => {
                    replica.replicate();
                    replica.restart();
                }
                Step::Evict(count) => {
                    let before = replica.clone();
                    let evicted = replica.states.evict(now, IDLE_MIN_MS, count);
                    replica.states.check();
                    let kept = ids(&replica);
                    let gone: Vec<i64> = ids(&before).into_iter().filter(|id| !kept.contains(id)).collect();
                    prop_assert_eq!(gone.len(), evicted.producers);
                    prop_assert!(gone.len() <= count);
                    let may_go = |id: &i64| {
                        let id = ProducerId(*id);
                        let unreplicated = before.states.unreplicated.keys().any(|(_, owner)| *owner == id);
                        !in_transaction(&before, id.0) && !unreplicated
                            && before.states.verification(id).is_none()
                            && now.since(heard[&id.0]) >= IDLE_MIN_MS
                    };
                    prop_assert!(gone.iter().all(may_go));
                    let youngest_gone = gone.iter().map(|id| heard[id]).max();
                    for id in kept.iter().filter(|id| may_go(id)) {
                        prop_assert!(youngest_gone.is_some_and(|gone| gone <= heard[id]) || count == 0);
                        prop_assert!(evicted.look_again_at.is_none(), "there are more");
                    }
                    prop_assert_eq!(evicted.look_again_at.is_some(), gone.len() < count);
                    // Nothing else has changed.
                    prop_assert_eq!(replica.last_stable_offset(), before.last_stable_offset());
                    prop_assert_eq!(&replica.states.ongoing, &before.states.ongoing);
                    prop_assert_eq!(&replica.states.unreplicated, &before.states.unreplicated);
                    prop_assert_eq!(&replica.states.verifications, &before.states.verifications);
                    for id in kept {
                        let id = ProducerId(id);
                        prop_assert_eq!(replica.states.producer(id), before.states.producer(id));
                    }
                }
            }
        }
    }
}
