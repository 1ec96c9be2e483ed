//! Values of the quorum's files and control records.

use super::*;

/// Names of snapshots: 20 digits, a dash, 10 digits (cluster §5.4).
#[test]
fn checkpoint_names() {
    let name = checkpoint_file_name(Offset(299), LeaderEpoch(1));
    assert_eq!(name, "00000000000000000299-0000000001.checkpoint");
    assert_eq!(parse_checkpoint_file_name(&name), Some((Offset(299), LeaderEpoch(1))));
    for wrong in
        ["", "299-1.checkpoint", "00000000000000000299-0000000001.checkpoint.part", "bootstrap.checkpoint"]
    {
        assert_eq!(parse_checkpoint_file_name(wrong), None, "{wrong}");
    }
}

/// Text that is no quorum state is none.
#[test]
fn quorum_state_is_read_or_not() {
    for wrong in ["", "{}", "{\"leaderId\":1,\"leaderEpoch\":1,\"data_version\":7}", "{\"leaderId\":\"x\"}"] {
        assert_eq!(QuorumState::parse(wrong), None, "{wrong}");
    }
    let spaced = "{ \"leaderId\" : -1, \"leaderEpoch\" : 12, \"data_version\" : 1 }";
    let state = QuorumState::parse(spaced).expect("blanks do not matter");
    assert_eq!((state.leader_id, state.leader_epoch), (BrokerId::NONE, LeaderEpoch(12)));
}

/// The leader change of one voter is the 19 bytes that Kafka writes.
#[test]
fn leader_change_is_kafkas() {
    let message = crate::QuorumRecord::LeaderChange(leader_change(BrokerId(1), &[BrokerId(1)]));
    let bytes = [0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0];
    assert_eq!(&message.to_value()[..], bytes);
}
