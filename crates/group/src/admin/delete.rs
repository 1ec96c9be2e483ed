//! DeleteGroups: groups without members, with all their offsets, also pending ones.
//!
//! Source: KIP-229, Kafka GroupCoordinatorShard.deleteGroups.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};

use crate::classic::draft::{Decided, GroupDecision};
use crate::classic::group::ClassicState;
use crate::shard::{Found, code_of};
use crate::{DeleteGroups, GroupId, GroupRecord, GroupRefusal, GroupShard, Reply, Soft};

impl GroupShard {
    /// Deletes groups; each has an error of its own.
    pub(crate) fn delete_groups(&self, token: Token, request: &DeleteGroups) -> Decided {
        let mut decision = Decision::nothing();
        let mut deleted = BTreeSet::new();
        let mut answer = Vec::with_capacity(request.groups.len());
        for id in &request.groups {
            let result = if deleted.contains(id) { Ok(()) } else { self.delete_group(id, &mut decision) };
            if result.is_ok() {
                deleted.insert(id.clone());
            }
            answer.push((id.clone(), code_of(&result)));
        }
        decision.replies.push((token, Reply::Delete(answer)));
        Ok(decision)
    }

    fn delete_group(&self, id: &GroupId, decision: &mut GroupDecision) -> Result<(), GroupRefusal> {
        let mut group_tombstones = Vec::new();
        match self.find(id) {
            Found::Nothing => return Err(GroupRefusal::GroupIdNotFound { group: id.clone() }),
            Found::Classic(group) if group.state != ClassicState::Empty => {
                return Err(GroupRefusal::NonEmptyGroup);
            }
            Found::Consumer(group) if !group.members.is_empty() => return Err(GroupRefusal::NonEmptyGroup),
            Found::Classic(_) => {
                group_tombstones.push(GroupRecord::GroupMetadata { group: id.clone(), value: None });
            }
            Found::Consumer(group) => group_tombstones.extend(group.tombstones(id)),
        }
        decision.records.extend(self.all_tombstones(id));
        decision.records.append(&mut group_tombstones);
        decision.soft.push(Soft::Forget(id.clone()));
        Ok(())
    }
}
