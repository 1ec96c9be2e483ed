//! JoinGroup of a classic group.
//!
//! Source: KIP-345 (static members), KIP-394 (member ids first), KIP-814 (static leader skips the assignment),
//! Kafka GroupMetadataManager.classicGroupJoinToClassicGroup and what it calls.

use alloc::format;
use alloc::string::String;

use fencepost_coordinator::Token;
use fencepost_types::{ErrorCode, Uuid};

use crate::classic::draft::{Decided, Draft, GroupDecision};
use crate::classic::group::{ClassicMember, ClassicState};
use crate::timers::TimerKind;
use crate::{GroupRefusal, InstanceId, JoinGroup, JoinReply, MemberId, Reply};

/// From this version on a new dynamic member is given an id and must come back with it (KIP-394).
pub const MEMBER_ID_REQUIRED_FROM: i16 = 4;
/// From this version on a static leader that comes back may be told to skip the assignment (KIP-814).
const SKIP_ASSIGNMENT_FROM: i16 = 9;
/// The most ids of one group that were handed out and have not joined yet. Who asks for one more is told to ask again.
///
/// Differs from Kafka, which has no limit.
pub const PENDING_MEMBERS_MAX: usize = 100_000;
/// The most bytes of a client id or instance id that go into a member id, so that member ids fit a wire string.
const MEMBER_ID_PREFIX_BYTES_MAX: usize = 32_000;

impl Draft<'_> {
    /// Joins the group, or says why not.
    pub fn join(mut self, token: Token, request: &JoinGroup) -> Decided {
        if !self.accepts(request) {
            self.remove(&request.member_id, ErrorCode::GroupMaxSizeReached);
            self.try_complete_join();
            let reply = JoinReply::error(ErrorCode::GroupMaxSizeReached, MemberId::from(""));
            return Ok(self.answer(token, Reply::Join(reply)));
        }
        if !self.group.supports_protocols(&request.protocol_type, &request.protocols) {
            return Err(GroupRefusal::InconsistentGroupProtocol);
        }
        if request.member_id.is_empty() {
            Ok(self.join_new(token, request))
        } else if self.group.pending_members.contains_key(&request.member_id) && request.instance_id.is_none()
        {
            self.add(token, request, request.member_id.clone());
            Ok(self.decide())
        } else {
            self.join_known(token, request)
        }
    }

    /// Whether there is room for this member. While members rejoin, those count that are back already, so that the
    /// last ones are left out when the limit was lowered.
    ///
    /// Differs from Kafka: a static member without its id takes the place that it has, where a full group has no room for it
    /// until its session ends.
    fn accepts(&self, request: &JoinGroup) -> bool {
        let holder = request.instance_id.as_ref().filter(|_| request.member_id.is_empty());
        let holder = holder.and_then(|instance_id| self.group.static_members.get(instance_id));
        let member = self.group.members.get(holder.unwrap_or(&request.member_id));
        match self.group.state {
            ClassicState::Empty => true,
            ClassicState::PreparingRebalance => {
                member.is_some_and(|member| member.joining.is_some())
                    || self.group.joining_count() < self.config.max_size
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                member.is_some() || self.group.members.len() < self.config.max_size
            }
        }
    }

    /// A member without an id.
    fn join_new(mut self, token: Token, request: &JoinGroup) -> GroupDecision {
        let prefix = request.instance_id.as_ref().unwrap_or(&request.client.id);
        let member_id = new_member_id(prefix, request.fresh_member_suffix);
        if let Some(instance_id) = &request.instance_id {
            match self.group.static_members.get(instance_id).cloned() {
                Some(old_id) => self.replace_static(token, request, instance_id, &old_id, member_id),
                None => self.add(token, request, member_id),
            }
            return self.decide();
        }
        if request.api_version < MEMBER_ID_REQUIRED_FROM {
            self.add(token, request, member_id);
            return self.decide();
        }
        if self.group.pending_members.len() >= PENDING_MEMBERS_MAX {
            return self
                .answer(token, Reply::Join(JoinReply::error(ErrorCode::RebalanceInProgress, "".into())));
        }
        self.group.pending_members.put(member_id.clone());
        self.arm(TimerKind::Session(member_id.clone()), request.session_timeout_ms);
        let reply = JoinReply::error(ErrorCode::MemberIdRequired, member_id);
        self.answer(token, Reply::Join(reply))
    }

    /// A member with an id that it has joined with before.
    fn join_known(mut self, token: Token, request: &JoinGroup) -> Decided {
        let member_id = &request.member_id;
        self.group.validate_member(member_id, request.instance_id.as_ref())?;
        let is_unchanged = self.group.members[member_id].protocols == request.protocols;
        match self.group.state {
            ClassicState::PreparingRebalance => self.rejoin(token, request),
            // The answer to its JoinGroup was lost: here it is again.
            ClassicState::CompletingRebalance if is_unchanged => {
                let reply = self.group.join_reply(member_id);
                return Ok(self.answer(token, Reply::Join(reply)));
            }
            // A follower that has nothing new. A leader's JoinGroup always means a rebalance.
            ClassicState::Stable if is_unchanged && !self.group.is_leader(member_id) => {
                let reply = self.group.join_reply(member_id);
                return Ok(self.answer(token, Reply::Join(reply)));
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => self.rejoin(token, request),
            ClassicState::Empty => {
                return Err(GroupRefusal::UnknownMemberId { member_id: member_id.clone() });
            }
        }
        Ok(self.decide())
    }

    /// A known member waits for the next generation.
    fn rejoin(&mut self, token: Token, request: &JoinGroup) {
        self.wait_for_join(token, request, &request.member_id);
        self.rebalance();
    }

    /// A new member waits for the next generation. It cannot send heartbeats yet, and nobody sees whether its
    /// connection is gone, so it may wait for a limited time only.
    fn add(&mut self, token: Token, request: &JoinGroup, member_id: MemberId) {
        if let Some(initial) = &mut self.group.initial {
            initial.new_member_added = true;
        }
        let member = ClassicMember {
            instance_id: request.instance_id.clone(),
            client_id: request.client.id.clone(),
            client_host: request.client.host.clone(),
            rebalance_timeout_ms: rebalance_timeout_ms(request),
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols.clone(),
            assignment: Default::default(),
            joining: Some(token),
            syncing: None,
            is_new: true,
        };
        self.group.add(member_id.clone(), &request.protocol_type, member);
        self.arm(TimerKind::Session(member_id), self.config.new_member_join_timeout_ms);
        self.rebalance();
    }

    /// Notes what a member brings and that it waits. An earlier JoinGroup of the same member waits in vain.
    pub fn wait_for_join(&mut self, token: Token, request: &JoinGroup, member_id: &MemberId) {
        self.answer_join(member_id, JoinReply::error(ErrorCode::RebalanceInProgress, member_id.clone()));
        let member = self.group.starts_joining(member_id, request.protocols.clone(), token);
        let member = member.expect("the caller has found the member");
        member.rebalance_timeout_ms = rebalance_timeout_ms(request);
        member.session_timeout_ms = request.session_timeout_ms;
    }

    /// A static member comes back without its id: it gets a new one, and its place. The old id is fenced.
    fn replace_static(
        &mut self,
        token: Token,
        request: &JoinGroup,
        instance_id: &InstanceId,
        old_id: &MemberId,
        new_id: MemberId,
    ) {
        let leader_before = self.group.leader.clone();
        self.answer_join(old_id, JoinReply::error(ErrorCode::FencedInstanceId, old_id.clone()));
        self.answer_sync(old_id, ErrorCode::FencedInstanceId);
        self.group.rename(old_id, &new_id, instance_id);
        self.disarm(TimerKind::Session(old_id.clone()));
        self.wait_for_join(token, request, &new_id);
        self.renew_session(&new_id);
        match self.group.state {
            ClassicState::Stable => {
                let chosen = self.group.select_protocol();
                if Some(&chosen) == self.group.protocol_name.as_ref() {
                    self.resume_static(request, leader_before, &new_id);
                } else {
                    self.prepare_rebalance();
                }
            }
            // The leader may already be assigning to the old id.
            ClassicState::CompletingRebalance => self.prepare_rebalance(),
            ClassicState::PreparingRebalance => self.try_complete_join(),
            ClassicState::Empty => panic!("group {} is Empty and has a static member", self.group.id),
        }
    }

    /// The chosen protocol stays: the static member goes on with its generation and assignment. A leader's old
    /// client, which cannot be told to skip the assignment, is told that its former id leads, so that it makes none.
    fn resume_static(&mut self, request: &JoinGroup, leader_before: Option<MemberId>, new_id: &MemberId) {
        let mut reply = self.group.join_reply(new_id);
        if request.api_version >= SKIP_ASSIGNMENT_FROM {
            reply.skip_assignment = self.group.is_leader(new_id);
        } else {
            reply.members.clear();
            reply.leader = leader_before.unwrap_or_else(|| MemberId::from(""));
        }
        self.answer_join(new_id, reply);
        self.log_group();
    }
}

/// How long a member may take to rejoin, in milliseconds. Version 0 has no timeout for that of its own.
pub fn rebalance_timeout_ms(request: &JoinGroup) -> i32 {
    if request.api_version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms }
}

/// A member id as Kafka makes it: whose it is, and a random UUID in its usual form.
///
/// Source: Kafka ClassicGroup.generateMemberId.
pub fn new_member_id(prefix: &str, suffix: Uuid) -> MemberId {
    let prefix = &prefix[..prefix.floor_char_boundary(MEMBER_ID_PREFIX_BYTES_MAX)];
    let mut id = String::with_capacity(prefix.len() + 37);
    id.push_str(prefix);
    for (at, byte) in suffix.0.iter().enumerate() {
        if matches!(at, 0 | 4 | 6 | 8 | 10) {
            id.push('-');
        }
        id.push_str(&format!("{byte:02x}"));
    }
    id.into()
}
