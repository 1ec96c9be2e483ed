use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::testing::*;
use crate::*;
use fencepost_types::{Millis, ProducerEpoch, ProducerId};

/// One id in each state, named after it, with producer ids 1 to 6.
fn in_each_state() -> Coordinator {
    let mut coordinator = Coordinator::new();
    for (n, state) in TransactionState::ALL.into_iter().enumerate() {
        let producer_id = ProducerId(n as i64 + 1);
        let txn = TxnMetadata { producer_id, previous_producer_id: producer_id, ..txn_in(state, V2) };
        coordinator.append(&record(state.name(), txn));
    }
    coordinator
}

fn listed(coordinator: &mut Coordinator, filter: ListFilter) -> Vec<String> {
    let Ok(Reply::Listed(rows)) = coordinator.ask(&Request::List(filter)) else { panic!("not listed") };
    rows.iter()
        .map(|row| {
            assert_eq!(&*row.transactional_id, row.state.name());
            String::from(row.state.name())
        })
        .collect()
}

fn described(coordinator: &mut Coordinator, id: &str) -> Result<Reply, Refusal> {
    coordinator.ask(&Request::Describe { transactional_id: TransactionalId::from(id) })
}

/// §13: every field, in every state.
#[test]
fn every_state_is_described() {
    let mut coordinator = in_each_state();
    for (n, state) in TransactionState::ALL.into_iter().enumerate() {
        let partitions = match state {
            TransactionState::Ongoing | TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                orders(&[0, 1]).into_iter().collect()
            }
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                BTreeSet::new()
            }
        };
        let expected = TransactionDescription {
            transactional_id: TransactionalId::from(state.name()),
            state,
            timeout_ms: 60_000,
            start: if state == TransactionState::Empty { Millis::NONE } else { Millis(T - 20) },
            producer_id: ProducerId(n as i64 + 1),
            producer_epoch: ProducerEpoch(5),
            partitions,
        };
        assert_eq!(described(&mut coordinator, state.name()), Ok(Reply::Described(expected)));
    }
}

/// §13: empty and unknown ids.
#[test]
fn unknown_ids_are_not_described() {
    let mut coordinator = in_each_state();
    assert_eq!(word(&described(&mut coordinator, "")), "INVALID_REQUEST");
    assert_eq!(word(&described(&mut coordinator, "nobody")), "TRANSACTIONAL_ID_NOT_FOUND");
}

/// §13: state names are known letter by letter; Dead and PrepareEpochFence are known and match nothing; unknown ones
/// are named back and match nothing.
#[test]
fn state_filters() {
    let mut coordinator = in_each_state();
    let mut list = |names: &[&str]| {
        let (states, unknown) = StateFilter::from_names(names.iter().copied());
        let rows = listed(&mut coordinator, ListFilter { states, ..ListFilter::default() });
        (rows.join(","), unknown.into_iter().collect::<Vec<_>>().join(","))
    };
    let row = |rows: &str, unknown: &str| (String::from(rows), String::from(unknown));
    let all = "CompleteAbort,CompleteCommit,Empty,Ongoing,PrepareAbort,PrepareCommit";
    assert_eq!(list(&[]), row(all, ""));
    assert_eq!(list(&["Ongoing", "Ongoing"]), row("Ongoing", ""));
    assert_eq!(list(&["Empty", "CompleteAbort"]), row("CompleteAbort,Empty", ""));
    assert_eq!(list(&["Bogus"]), row("", "Bogus"));
    assert_eq!(list(&["Ongoing", "Bogus", "ongoing", ""]), row("Ongoing", ",Bogus,ongoing"));
    assert_eq!(list(&["Dead"]), row("", ""));
    assert_eq!(list(&["PrepareEpochFence"]), row("", ""));
}

/// §13: producer ids, alone and together with states.
#[test]
fn producer_filters() {
    let mut coordinator = in_each_state();
    let mut list = |producer_ids: &[i64], states| {
        let producer_ids = producer_ids.iter().copied().map(ProducerId).collect();
        listed(&mut coordinator, ListFilter { producer_ids, states, ..ListFilter::default() })
    };
    let empty = StateFilter::Only(BTreeSet::from([TransactionState::Empty]));
    assert_eq!(list(&[1, 2], StateFilter::Any), ["Empty", "Ongoing"]);
    assert_eq!(list(&[1, 2], empty), ["Empty"]);
    assert_eq!(list(&[1 << 40], StateFilter::Any), [""; 0]);
    assert_eq!(list(&[-1], StateFilter::Any), [""; 0]);
    assert_eq!(list(&[1], StateFilter::Only(BTreeSet::new())), [""; 0]);
}

/// §13 (KIP-994): kept is what started **more** than the duration ago; an id without a start always is; a negative
/// duration is no filter. A complete transaction counts from the start of its last transaction.
#[test]
fn duration_filters() {
    let mut coordinator = in_each_state();
    let mut list =
        |duration_ms| listed(&mut coordinator, ListFilter { duration_ms, ..ListFilter::default() }).len();
    assert_eq!(list(-1), 6);
    assert_eq!(list(-5), 6);
    assert_eq!(list(0), 6);
    assert_eq!(list(19), 6);
    assert_eq!(list(20), 1);
    assert_eq!(list(3_600_000), 1);
    // The clock has been set back since: it started in the future.
    coordinator.now = at(-70);
    let mut list =
        |duration_ms| listed(&mut coordinator, ListFilter { duration_ms, ..ListFilter::default() }).len();
    assert_eq!((list(-1), list(0)), (6, 1));
}
