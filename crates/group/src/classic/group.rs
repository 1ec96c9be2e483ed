//! A classic group as it lives: its members, who of them waits, and how far the rebalance is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::Token;
use fencepost_types::{KeptBytes, Millis, java_string_hash};

use crate::classic::subscription::subscribed_topics;
use crate::{GroupId, GroupRefusal, InstanceId, JoinedMember, MemberId, SharedMap, SharedSet};

/// The protocol type of consumers. Groups of other types (Connect, for one) keep their own rules.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// How far a classic group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClassicState {
    /// No members.
    Empty,
    /// Members are joining.
    PreparingRebalance,
    /// All have joined; the leader is making the assignment.
    CompletingRebalance,
    /// All have their assignments.
    Stable,
}

impl ClassicState {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A classic group. What the log has of it is [`crate::ClassicMetadata`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassicGroup {
    /// Its name.
    pub id: GroupId,
    /// How far it is.
    pub state: ClassicState,
    /// When it came there.
    pub current_state_timestamp: Millis,
    /// Its generation; 0 before the first.
    pub generation: i32,
    /// The kind of protocol, since the first member came.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol of this generation.
    pub protocol_name: Option<Arc<str>>,
    /// The member that assigns.
    pub leader: Option<MemberId>,
    /// Its members. Shared, like the maps here: a decision starts from a copy of the group and changes few of them.
    pub members: SharedMap<MemberId, Arc<ClassicMember>>,
    /// Who holds which static name.
    pub static_members: SharedMap<InstanceId, MemberId>,
    /// Ids that were handed out and have not joined yet.
    pub pending_members: SharedSet<MemberId>,
    /// Who has joined this generation and not synced yet.
    pub pending_sync: SharedSet<MemberId>,
    /// Set while the members of an empty group are waited for.
    pub initial: Option<InitialRebalance>,
    /// How many members wait in JoinGroup; counted as they come and go, so that one more costs no look at all of them.
    pub(super) joining_count: usize,
    /// How many members know each protocol.
    pub(super) protocol_counts: SharedMap<Arc<str>, usize>,
}

/// The first rebalance of an empty group, which waits a little for more members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InitialRebalance {
    /// The delay that is running, in milliseconds.
    pub delay_ms: i32,
    /// How much longer it may be drawn out, in milliseconds.
    pub remaining_ms: i32,
    /// Whether somebody came while it ran.
    pub new_member_added: bool,
}

/// A member of a classic group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassicMember {
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
    /// The protocols it knows, best first, with its metadata for each.
    pub protocols: Vec<(Arc<str>, KeptBytes)>,
    /// What the leader gave it.
    pub assignment: KeptBytes,
    /// Its JoinGroup that waits.
    pub joining: Option<Token>,
    /// Its SyncGroup that waits.
    pub syncing: Option<Token>,
    /// Whether it waits in its very first JoinGroup, so that it cannot have sent a heartbeat.
    pub is_new: bool,
}

impl ClassicMember {
    /// Its metadata for `protocol`.
    pub fn metadata(&self, protocol: &str) -> Option<&KeptBytes> {
        self.protocols.iter().find(|(name, _)| **name == *protocol).map(|(_, metadata)| metadata)
    }

    /// The names of the protocols it knows, each once.
    fn protocol_names(&self) -> BTreeSet<&Arc<str>> {
        self.protocols.iter().map(|(name, _)| name).collect()
    }
}

impl ClassicGroup {
    /// A group without members.
    pub fn new(id: GroupId, now: Millis) -> Self {
        Self {
            id,
            state: ClassicState::Empty,
            current_state_timestamp: now,
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: SharedMap::default(),
            static_members: SharedMap::default(),
            pending_members: SharedSet::default(),
            pending_sync: SharedSet::default(),
            initial: None,
            joining_count: 0,
            protocol_counts: SharedMap::default(),
        }
    }

    /// Moves to `state`.
    pub fn transition(&mut self, state: ClassicState, now: Millis) {
        self.state = state;
        self.current_state_timestamp = now;
    }

    /// Takes a member in. The first one says the protocol type, and is the leader.
    pub fn add(&mut self, member_id: MemberId, protocol_type: &Arc<str>, member: ClassicMember) {
        if let Some(instance_id) = &member.instance_id {
            let other = self.static_members.insert(instance_id.clone(), member_id.clone());
            assert_eq!(other, None, "instance id {instance_id} of group {} is taken", self.id);
        }
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type.clone());
        }
        self.leader.get_or_insert_with(|| member_id.clone());
        self.pending_members.remove(&member_id);
        self.count(&member);
        let other = self.members.insert(member_id, Arc::new(member));
        assert!(other.is_none(), "a member of group {} was there already", self.id);
    }

    /// Lets a member go; another one becomes leader if it was the leader. Also forgets a handed out id.
    pub fn remove(&mut self, member_id: &MemberId) -> Option<Arc<ClassicMember>> {
        self.pending_members.remove(member_id);
        self.pending_sync.remove(member_id);
        let removed = self.members.remove(member_id);
        if let Some(member) = &removed {
            self.discount(member);
        }
        if let Some(instance_id) = removed.as_ref().and_then(|member| member.instance_id.as_ref()) {
            self.static_members.remove(instance_id);
        }
        if self.leader.as_ref() == Some(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        removed
    }

    /// Whether nothing would be lost by forgetting this and reading the log's metadata again.
    pub fn is_idle(&self) -> bool {
        self.state == ClassicState::Empty && self.pending_members.is_empty()
    }

    /// A member, to be changed; its protocols and where it waits are counted, and change by the functions below.
    pub fn member_mut(&mut self, member_id: &MemberId) -> Option<&mut ClassicMember> {
        self.members.get_mut(member_id).map(Arc::make_mut)
    }

    /// Notes what a member knows and that it waits in JoinGroup.
    pub fn starts_joining(
        &mut self,
        member_id: &MemberId,
        protocols: Vec<(Arc<str>, KeptBytes)>,
        token: Token,
    ) -> Option<&mut ClassicMember> {
        let before = self.members.get(member_id)?.clone();
        self.discount(&before);
        let mut after = ClassicMember::clone(&before);
        (after.protocols, after.joining) = (protocols, Some(token));
        self.count(&after);
        let slot = self.member_mut(member_id)?;
        *slot = after;
        Some(slot)
    }

    /// A member does not wait in JoinGroup any more; tells which request it waited with.
    pub fn stops_joining(&mut self, member_id: &MemberId) -> Option<Token> {
        self.members.get(member_id)?.joining?;
        self.joining_count -= 1;
        self.member_mut(member_id)?.joining.take()
    }

    /// A static member goes on under another id.
    pub fn rename(&mut self, old_id: &MemberId, new_id: &MemberId, instance_id: &InstanceId) {
        let member = self.members.remove(old_id).expect("a static name belongs to a member");
        self.members.insert(new_id.clone(), member);
        self.static_members.insert(instance_id.clone(), new_id.clone());
        if self.is_leader(old_id) {
            self.leader = Some(new_id.clone());
        }
        if self.pending_sync.remove(old_id).is_some() {
            self.pending_sync.put(new_id.clone());
        }
    }

    /// Counts a member in.
    pub(super) fn count(&mut self, member: &ClassicMember) {
        self.joining_count += usize::from(member.joining.is_some());
        for name in member.protocol_names() {
            let count = self.protocol_counts.get(name).copied().unwrap_or(0);
            self.protocol_counts.insert(name.clone(), count + 1);
        }
    }

    /// Counts a member out.
    fn discount(&mut self, member: &ClassicMember) {
        self.joining_count -= usize::from(member.joining.is_some());
        for name in member.protocol_names() {
            match self.protocol_counts[name] {
                1 => drop(self.protocol_counts.remove(name)),
                count => drop(self.protocol_counts.insert(name.clone(), count - 1)),
            }
        }
    }

    /// Whether `member_id` leads.
    pub fn is_leader(&self, member_id: &MemberId) -> bool {
        self.leader.as_ref() == Some(member_id)
    }

    /// Whether this is, or may become, a group of consumers.
    pub fn is_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// Whether everyone has joined, also those who were only given an id.
    pub fn has_all_joined(&self) -> bool {
        self.pending_members.is_empty() && self.joining_count == self.members.len()
    }

    /// How many members wait in JoinGroup.
    pub fn joining_count(&self) -> usize {
        self.joining_count
    }

    /// How long a rebalance may take: as long as the most patient member allows, in milliseconds.
    pub fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0)
    }

    /// Whether a member of that type with those protocols fits in.
    ///
    /// Source: Kafka ClassicGroup.supportsProtocols.
    pub fn supports_protocols(&self, protocol_type: &str, protocols: &[(Arc<str>, KeptBytes)]) -> bool {
        match self.state {
            ClassicState::Empty => !protocol_type.is_empty() && !protocols.is_empty(),
            ClassicState::PreparingRebalance | ClassicState::CompletingRebalance | ClassicState::Stable => {
                self.protocol_type.as_deref() == Some(protocol_type)
                    && protocols.iter().any(|(name, _)| self.is_candidate(name))
            }
        }
    }

    /// Whether every member knows `protocol`.
    fn is_candidate(&self, protocol: &Arc<str>) -> bool {
        self.protocol_counts.get(protocol).copied().unwrap_or(0) == self.members.len()
    }

    /// The protocol with the most votes among those that all members know: each votes for the first on its list.
    /// A tie goes to the name that comes first in a Java hash map, as Kafka counts votes in one. Members that have
    /// nothing in common are let in nowhere; should a log hold some, each votes for its first.
    ///
    /// Source: Kafka ClassicGroup.selectProtocol.
    pub fn select_protocol(&self) -> Arc<str> {
        let known_to_one = self.members.values().next().into_iter().flat_map(|member| &member.protocols);
        let candidates: BTreeSet<&Arc<str>> =
            known_to_one.map(|(name, _)| name).filter(|name| self.is_candidate(name)).collect();
        let mut votes: BTreeMap<(u32, &Arc<str>), usize> = BTreeMap::new();
        for member in self.members.values() {
            let mut names = member.protocols.iter().map(|(name, _)| name);
            let first = names.clone().next();
            if let Some(vote) = names.find(|name| candidates.contains(*name)).or(first) {
                *votes.entry((java_map_bucket(vote), vote)).or_default() += 1;
            }
        }
        let most = votes.values().copied().max();
        let chosen = votes.into_iter().find(|(_, count)| Some(*count) == most);
        chosen.map_or_else(|| Arc::from(""), |((_, name), _)| name.clone())
    }

    /// Whether the request's member is who it says: the static name, if given, must be its own.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. Source: KIP-345, Kafka ClassicGroup.validateMember.
    pub fn validate_member(
        &self,
        member_id: &MemberId,
        instance_id: Option<&InstanceId>,
    ) -> Result<(), GroupRefusal> {
        let unknown = || GroupRefusal::UnknownMemberId { member_id: member_id.clone() };
        if let Some(instance_id) = instance_id {
            let holder = self.static_members.get(instance_id).ok_or_else(unknown)?;
            if holder != member_id {
                return Err(GroupRefusal::FencedInstanceId { member_id: member_id.clone() });
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(unknown()) }
    }

    /// Whether `generation` is the group's.
    ///
    /// # Errors
    /// ILLEGAL_GENERATION.
    pub fn validate_generation(&self, generation: i32) -> Result<(), GroupRefusal> {
        if generation == self.generation {
            return Ok(());
        }
        Err(GroupRefusal::IllegalGeneration { expected: self.generation, found: generation })
    }

    /// The members as the leader sees them.
    pub fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or("");
        let members = self.members.iter().map(|(member_id, member)| JoinedMember {
            member_id: member_id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol).cloned().unwrap_or_default(),
        });
        members.collect()
    }

    /// The topics that the members read, as far as it can be known. Members of other types than consumers read none;
    /// `None` is "any": a consumer's metadata could not be read.
    ///
    /// Source: Kafka ClassicGroup.computeSubscribedTopics.
    pub fn subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumers() {
            return Some(BTreeSet::new());
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let metadata = member.metadata(self.protocol_name.as_deref()?)?;
            topics.extend(subscribed_topics(metadata).ok()?);
        }
        Some(topics)
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        let id = &self.id;
        match self.state {
            ClassicState::Empty => assert!(self.members.is_empty(), "{id} is Empty and has members"),
            ClassicState::PreparingRebalance => {}
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                assert!(!self.members.is_empty(), "{id} is {} without members", self.state.name());
            }
        }
        assert!(self.initial.is_none() || self.state == ClassicState::PreparingRebalance, "{id}");
        let joining = self.members.values().filter(|member| member.joining.is_some());
        assert_eq!(joining.count(), self.joining_count, "{id} has miscounted who joins");
        for (name, count) in self.protocol_counts.iter() {
            let knowing = self.members.values().filter(|member| member.metadata(name).is_some());
            assert_eq!(knowing.count(), *count, "{id} has miscounted who knows {name}");
        }
        for (member_id, member) in self.members.iter() {
            let state = self.state;
            assert!(
                member.joining.is_none() || state == ClassicState::PreparingRebalance,
                "{id} {member_id}"
            );
            assert!(
                member.syncing.is_none() || state == ClassicState::CompletingRebalance,
                "{id} {member_id}"
            );
            assert!(
                !self.pending_members.contains_key(member_id),
                "{member_id} of {id} is pending and joined"
            );
            if let Some(instance_id) = &member.instance_id {
                assert_eq!(self.static_members.get(instance_id), Some(member_id), "{id}");
            }
        }
        let named = self.static_members.values().chain(&self.leader).chain(self.pending_sync.keys());
        for member_id in named {
            assert!(self.members.contains_key(member_id), "{member_id} is no member of {id}");
        }
        assert_eq!(self.leader.is_some(), !self.members.is_empty(), "{id} has a leader while it has members");
    }
}

/// Where Java's `HashMap` of sixteen buckets puts `text`.
fn java_map_bucket(text: &str) -> u32 {
    let hash = java_string_hash(text) as u32;
    (hash ^ (hash >> 16)) & 15
}
