//! TxnOffsetCommit: offsets that count when a transaction is committed.
//!
//! Source: KIP-98, KIP-447, KIP-890, KIP-1319, Kafka OffsetMetadataManager.commitTransactionalOffset;
//! transaction-coordinator §11.

use fencepost_coordinator::{Decision, Token};
use fencepost_types::Now;

use crate::classic::draft::Decided;
use crate::classic::group::{ClassicGroup, ClassicState};
use crate::consumer::fencing;
use crate::shard::Found;
use crate::{Committer, GroupRefusal, GroupShard, Reply, TxnOffsetCommit};

/// From this version on an unknown group and an old member epoch are told from a wrong generation.
const PRECISE_ERRORS_FROM: i16 = 6;

impl GroupShard {
    /// Notes offsets of a transaction, or says why not.
    pub(crate) fn txn_offset_commit(&self, now: Now, token: Token, request: &TxnOffsetCommit) -> Decided {
        if request.group.is_empty() {
            return Err(GroupRefusal::InvalidGroupId);
        }
        self.validate_txn_commit(request).map_err(|refusal| for_version(refusal, request))?;
        let (records, answer) =
            self.commit_records(now, &request.group, &request.topics, &request.existing, None);
        let mut decision = Decision::write(records, token, Reply::Commit(answer));
        if !decision.records.is_empty() {
            decision.transactional = Some((request.producer_id, request.producer_epoch));
        }
        Ok(decision)
    }

    fn validate_txn_commit(&self, request: &TxnOffsetCommit) -> Result<(), GroupRefusal> {
        match self.find(&request.group) {
            Found::Nothing if request.committer.generation < 0 => Ok(()),
            Found::Nothing => Err(GroupRefusal::GroupIdNotFound { group: request.group.clone() }),
            Found::Classic(group) => validate_classic(&group, &request.committer),
            Found::Consumer(_) if request.committer.is_nobody() => Ok(()),
            Found::Consumer(group) => {
                fencing::validate_commit(group, &request.committer, &request.topics, true)
            }
        }
    }
}

/// Whether the classic group takes a transactional commit from this committer. Not as for a plain commit
/// (transaction-coordinator trap 30): whoever names no member passes, also while there are members, and a rebalance
/// does not matter.
fn validate_classic(group: &ClassicGroup, committer: &Committer) -> Result<(), GroupRefusal> {
    if committer.is_nobody() || (committer.generation < 0 && group.state == ClassicState::Empty) {
        return Ok(());
    }
    group.validate_member(&committer.member_id, committer.instance_id.as_ref())?;
    group.validate_generation(committer.generation)
}

/// The refusal as the request's version can understand it.
fn for_version(refusal: GroupRefusal, request: &TxnOffsetCommit) -> GroupRefusal {
    if request.api_version >= PRECISE_ERRORS_FROM {
        return refusal;
    }
    let found = request.committer.generation;
    match refusal {
        GroupRefusal::GroupIdNotFound { .. } => GroupRefusal::IllegalGeneration { expected: -1, found },
        GroupRefusal::StaleMemberEpoch { expected, found } => {
            GroupRefusal::IllegalGeneration { expected, found }
        }
        other => other,
    }
}
