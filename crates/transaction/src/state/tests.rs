use super::*;
use fencepost_types::{PartitionIndex, partition_for};

/// §5: bytes and names, both ways; Dead and PrepareEpochFence are never written.
#[test]
fn states_have_kafkas_bytes_and_names() {
    for (byte, state) in TransactionState::ALL.into_iter().enumerate() {
        assert_eq!(state.byte(), byte as i8);
        assert_eq!(TransactionState::from_byte(byte as i8), Some(state));
        assert_eq!(TransactionState::from_name(state.name()), Some(state));
    }
    for byte in [-1, 6, 7] {
        assert_eq!(TransactionState::from_byte(byte), None);
    }
    for name in ["", "ongoing", "Dead", "PrepareEpochFence"] {
        assert_eq!(TransactionState::from_name(name), None);
    }
}

/// §5: the allowed predecessors, as the table has them; only version 2 aborts what is not open.
#[test]
fn states_have_their_predecessors() {
    let table = |version| {
        TransactionState::ALL.map(|state| {
            TransactionState::ALL.map(|before| u8::from(state.allowed_from(version).contains(&before)))
        })
    };
    for (version, abort) in [
        (TransactionVersion::V0, [0, 1, 0, 0, 0, 0]),
        (TransactionVersion::V1, [0, 1, 0, 0, 0, 0]),
        (TransactionVersion::V2, [1, 1, 0, 0, 1, 1]),
    ] {
        let empty = [1, 0, 0, 0, 1, 1];
        let ongoing = [1, 1, 0, 0, 1, 1];
        let commit = [0, 1, 0, 0, 0, 0];
        let complete_commit = [0, 0, 1, 0, 0, 0];
        let complete_abort = [0, 0, 0, 1, 0, 0];
        assert_eq!(table(version), [empty, ongoing, commit, abort, complete_commit, complete_abort]);
    }
}

/// coordinator trap 1: the partition of a transactional id, as Kafka computed it for these, among 50.
#[test]
fn ids_have_kafkas_partitions() {
    for (id, partition) in [
        ("abort-tv0", 21),
        ("commit-tv1", 39),
        ("exhaust-v5", 42),
        ("offsets-only", 49),
        ("prepare-epoch-fence", 3),
        ("v5-abort-of-nothing", 36),
        ("été", 42),
        ("😀", 49),
        ("polygenelubricants", 0),
    ] {
        assert_eq!(partition_for(id, 50), PartitionIndex(partition), "{id}");
    }
}
