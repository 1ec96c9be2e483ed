use alloc::vec::Vec;

use fencepost_types::{CoordinatorEpoch, Offset, ProducerId, Sequence};

use super::DescribedProducer;
use crate::testing::{Replica, START, abort, txn};

/// The rows of DescribeProducers, with −1 for what there is not (KIP-664).
#[test]
fn every_producer_has_a_row() {
    let mut replica = Replica::new();
    replica.produce(txn(1, 2, 5, 2)).unwrap();
    replica.mark(abort(2, 7, 3), Some(2)).unwrap();
    let rows: Vec<_> = replica.states.describe_producers().collect();
    let open = DescribedProducer {
        producer_id: ProducerId(1),
        producer_epoch: 2,
        last_sequence: Sequence(6),
        last_timestamp: START,
        coordinator_epoch: CoordinatorEpoch(-1),
        current_txn_start_offset: Offset(0),
    };
    let fenced = DescribedProducer {
        producer_id: ProducerId(2),
        producer_epoch: 7,
        last_sequence: Sequence(-1),
        last_timestamp: START,
        coordinator_epoch: CoordinatorEpoch(3),
        current_txn_start_offset: Offset(-1),
    };
    assert_eq!(rows, [open, fenced]);
}
