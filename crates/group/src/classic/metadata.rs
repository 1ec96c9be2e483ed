//! What the log has of a classic group.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_types::{KeptBytes, Millis};

use crate::classic::group::{ClassicGroup, ClassicMember, ClassicState};
use crate::{GroupId, InstanceId, MemberId};

/// A classic group in the log: its last complete generation. A group that only keeps offsets has the default.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassicMetadata {
    /// The kind of protocol; empty if there never was a member.
    pub protocol_type: Arc<str>,
    /// The generation.
    pub generation: i32,
    /// The protocol of a generation with members.
    pub protocol_name: Option<Arc<str>>,
    /// The leader.
    pub leader: Option<MemberId>,
    /// When the group came into its state, or none.
    pub current_state_timestamp: Millis,
    /// The members.
    pub members: Vec<ClassicMemberMetadata>,
}

/// A member of a classic group in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassicMemberMetadata {
    /// Its id.
    pub member_id: MemberId,
    /// Its static name.
    pub instance_id: Option<InstanceId>,
    /// Its client's id.
    pub client_id: Arc<str>,
    /// Its client's address.
    pub client_host: Arc<str>,
    /// Milliseconds it may take to rejoin.
    pub rebalance_timeout_ms: i32,
    /// Milliseconds it may be silent.
    pub session_timeout_ms: i32,
    /// Its metadata for the chosen protocol.
    pub subscription: KeptBytes,
    /// What the leader gave it.
    pub assignment: KeptBytes,
}

impl Default for ClassicMetadata {
    fn default() -> Self {
        Self {
            protocol_type: Arc::from(""),
            generation: 0,
            protocol_name: None,
            leader: None,
            current_state_timestamp: Millis::NONE,
            members: Vec::new(),
        }
    }
}

impl ClassicGroup {
    /// The group as the log will have it.
    pub fn to_metadata(&self) -> ClassicMetadata {
        let protocol = self.protocol_name.as_deref().unwrap_or("");
        let members = self.members.iter().map(|(member_id, member)| ClassicMemberMetadata {
            member_id: member_id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(protocol).cloned().unwrap_or_default(),
            assignment: member.assignment.clone(),
        });
        ClassicMetadata {
            protocol_type: self.protocol_type.clone().unwrap_or_else(|| Arc::from("")),
            generation: self.generation,
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone(),
            current_state_timestamp: self.current_state_timestamp,
            members: members.collect(),
        }
    }

    /// The group as the log has it: Stable or Empty, nobody waits. The log may be anybody's, so what contradicts
    /// itself is put right: of two members with one static name the later one holds it, a leader who is no member is
    /// replaced, and a protocol that is not named has an empty name.
    pub fn from_metadata(id: GroupId, metadata: &ClassicMetadata) -> Self {
        let state = if metadata.members.is_empty() { ClassicState::Empty } else { ClassicState::Stable };
        let mut members: BTreeMap<MemberId, ClassicMember> = BTreeMap::new();
        let mut static_members: BTreeMap<InstanceId, MemberId> = BTreeMap::new();
        let named = || metadata.protocol_name.clone().unwrap_or_else(|| Arc::from(""));
        let protocol_name = (!metadata.members.is_empty()).then(named);
        for member in &metadata.members {
            if let Some(instance_id) = &member.instance_id
                && let Some(earlier) = static_members.insert(instance_id.clone(), member.member_id.clone())
                && earlier != member.member_id
            {
                members.remove(&earlier);
            }
            let protocols = protocol_name.iter().map(|name| (name.clone(), member.subscription.clone()));
            let restored = ClassicMember {
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout_ms,
                protocols: protocols.collect(),
                assignment: member.assignment.clone(),
                joining: None,
                syncing: None,
                is_new: false,
            };
            members.insert(member.member_id.clone(), restored);
        }
        let leader = metadata.leader.clone().filter(|leader| members.contains_key(leader));
        let mut group = Self::new(id, metadata.current_state_timestamp);
        group.state = state;
        group.generation = metadata.generation;
        group.protocol_type = Some(metadata.protocol_type.clone()).filter(|name| !name.is_empty());
        group.protocol_name = protocol_name;
        group.leader = leader.or_else(|| members.keys().next().cloned());
        let is_there = |(_, member_id): &(InstanceId, MemberId)| members.contains_key(member_id);
        group.static_members = static_members.into_iter().filter(is_there).collect();
        members.values().for_each(|member| group.count(member));
        group.members =
            members.into_iter().map(|(member_id, member)| (member_id, Arc::new(member))).collect();
        group
    }
}
