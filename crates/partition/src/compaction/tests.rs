use fencepost_types::{Offset, ProducerEpoch, ProducerId};

use crate::testing::{Replica, abort, commit, data, txn};
use crate::{BatchContent, BatchFacts, LastRecord};

/// Kept for each producer: the batch with its last data, or, without data of its epoch, the marker of that epoch; else
/// a zombie gets through after a restart (producer-state trap 35).
#[test]
fn the_last_record_of_each_producer() {
    let mut replica = Replica::new();
    replica.produce(data(1, 0, 0, 3)).unwrap();
    replica.produce(data(1, 0, 3, 2)).unwrap();
    replica.produce(txn(2, 0, 0, 1)).unwrap();
    replica.mark(commit(2, 0, 0), Some(1)).unwrap();
    replica.produce(txn(3, 0, 0, 1)).unwrap();
    replica.mark(abort(3, 1, 0), Some(2)).unwrap();
    replica.mark(abort(4, 9, 0), Some(2)).unwrap();
    let last = replica.states.last_records();
    assert_eq!(last[&ProducerId(1)], LastRecord::Data(Offset(4)));
    assert_eq!(last[&ProducerId(2)], LastRecord::Data(Offset(5)));
    assert_eq!(last[&ProducerId(3)], LastRecord::Marker(ProducerEpoch(1)));
    assert_eq!(last[&ProducerId(4)], LastRecord::Marker(ProducerEpoch(9)));

    let kept = replica.log.iter().filter(|facts| last[&facts.producer_id].is_in(facts));
    let kept = kept.map(|facts| facts.last_offset().0).collect::<alloc::vec::Vec<_>>();
    assert_eq!(kept, [4, 5, 8, 9]);
    // A marker that an earlier pass emptied still carries the fence.
    let emptied = |epoch| BatchFacts { content: BatchContent::OtherControl, ..abort(4, epoch, 0) };
    assert!(last[&ProducerId(4)].is_in(&emptied(9)));
    assert!(!last[&ProducerId(4)].is_in(&emptied(8)));
}
