//! ListGroups.
//!
//! Source: KIP-518 (states), KIP-848 (types), Kafka GroupMetadataManager.listGroups.

use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};

use crate::classic::draft::Decided;
use crate::classic::group::CONSUMER_PROTOCOL_TYPE;
use crate::shard::Found;
use crate::{GroupId, GroupShard, ListGroups, ListedGroup, Reply};

impl GroupShard {
    /// Lists groups. Names that stand for no state or type match nothing.
    pub(crate) fn list_groups(&self, token: Token, request: &ListGroups) -> Decided {
        let is_wanted = |names: &[Arc<str>], name: &str| {
            names.is_empty() || names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        let listed = self.durable.groups.keys().filter_map(|id| self.listed(id));
        let wanted = listed.filter(|group| {
            is_wanted(&request.states, group.state) && is_wanted(&request.types, group.group_type)
        });
        let groups: Vec<ListedGroup> = wanted.collect();
        Ok(Decision::answer(token, Reply::List(groups)))
    }

    fn listed(&self, id: &GroupId) -> Option<ListedGroup> {
        match self.find(id) {
            Found::Nothing => None,
            Found::Classic(group) => Some(ListedGroup {
                group: id.clone(),
                protocol_type: group.protocol_type.clone().unwrap_or_else(|| Arc::from("")),
                state: group.state.name(),
                group_type: "classic",
            }),
            Found::Consumer(group) => Some(ListedGroup {
                group: id.clone(),
                protocol_type: Arc::from(CONSUMER_PROTOCOL_TYPE),
                state: group.state().name(),
                group_type: "consumer",
            }),
        }
    }
}
