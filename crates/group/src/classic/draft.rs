//! One decision about one classic group, while it is being made: a copy of the group and everything that follows.

use alloc::boxed::Box;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, KeptBytes, Now};

use crate::classic::group::ClassicGroup;
use crate::timers::{Timer, TimerKind};
use crate::{GroupConfig, GroupRecord, GroupRefusal, JoinReply, MemberId, Reply, Soft, SyncReply};

/// A decision as the group shard makes it.
pub type GroupDecision = Decision<GroupRecord, Soft, Reply>;
/// A decision or a refusal.
pub type Decided = Result<GroupDecision, GroupRefusal>;

/// A copy of a group that is being changed, and what goes with the change.
pub struct Draft<'a> {
    /// The present.
    pub now: Now,
    /// The settings.
    pub config: &'a GroupConfig,
    /// The copy.
    pub group: ClassicGroup,
    /// What is to be logged.
    pub records: Vec<GroupRecord>,
    /// What becomes due, and what does not any more.
    pub timers: Vec<Soft>,
    /// Who is answered.
    pub replies: Vec<(Token, Reply)>,
}

impl<'a> Draft<'a> {
    /// Starts from a copy of the group as it is.
    pub fn new(now: Now, config: &'a GroupConfig, group: ClassicGroup) -> Self {
        Self { now, config, group, records: Vec::new(), timers: Vec::new(), replies: Vec::new() }
    }

    /// Everything as a decision.
    pub fn decide(mut self) -> GroupDecision {
        self.timers.insert(0, Soft::PutClassic(Box::new(self.group)));
        Decision { records: self.records, transactional: None, soft: self.timers, replies: self.replies }
    }

    /// Everything as a decision that also answers `token`.
    pub fn answer(mut self, token: Token, reply: Reply) -> GroupDecision {
        self.replies.push((token, reply));
        self.decide()
    }

    /// Logs the group as it is now.
    pub fn log_group(&mut self) {
        let value = Some(self.group.to_metadata());
        self.records.push(GroupRecord::GroupMetadata { group: self.group.id.clone(), value });
    }

    /// Makes a timer of the group due in `span_ms` milliseconds.
    pub fn arm(&mut self, kind: TimerKind, span_ms: i32) {
        self.timers.push(Soft::Arm(kind.of(&self.group.id), self.now.mono.plus_ms(i64::from(span_ms))));
    }

    /// Forgets a timer of the group.
    pub fn disarm(&mut self, kind: TimerKind) {
        self.timers.push(Soft::Disarm(kind.of(&self.group.id)));
    }

    /// Starts a member's session again.
    pub fn renew_session(&mut self, member_id: &MemberId) {
        if let Some(member) = self.group.members.get(member_id) {
            let session_timeout_ms = member.session_timeout_ms;
            self.arm(TimerKind::Session(member_id.clone()), session_timeout_ms);
        }
    }

    /// Answers a member's JoinGroup, if it waits in one.
    pub fn answer_join(&mut self, member_id: &MemberId, reply: JoinReply) {
        let token = self.group.stops_joining(member_id);
        self.replies.extend(token.map(|token| (token, Reply::Join(reply))));
    }

    /// Answers a member's SyncGroup, if it waits in one; tells whether it did.
    pub fn answer_sync(&mut self, member_id: &MemberId, error: ErrorCode) -> bool {
        let is_waiting = self.group.members.get(member_id).is_some_and(|member| member.syncing.is_some());
        let Some(member) = self.group.member_mut(member_id).filter(|_| is_waiting) else { return false };
        let Some(token) = member.syncing.take() else { return false };
        let assignment = member.assignment.clone();
        let reply = if error.is_none() { self.group.sync_reply(assignment) } else { SyncReply::error(error) };
        self.replies.push((token, Reply::Sync(reply)));
        true
    }

    /// Lets a member go, wherever it waits: its requests are answered with `error`.
    pub fn remove(&mut self, member_id: &MemberId, error: ErrorCode) {
        self.answer_join(member_id, JoinReply::error(error, "".into()));
        self.answer_sync(member_id, error);
        self.group.remove(member_id);
        self.disarm(TimerKind::Session(member_id.clone()));
    }
}

impl ClassicGroup {
    /// An answer to SyncGroup with this generation's protocol.
    pub fn sync_reply(&self, assignment: KeptBytes) -> SyncReply {
        SyncReply {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment,
        }
    }

    /// An answer to a member's JoinGroup with this generation; the leader sees all members.
    pub fn join_reply(&self, member_id: &MemberId) -> JoinReply {
        let members = if self.is_leader(member_id) { self.joined_members() } else { Vec::new() };
        JoinReply {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone().unwrap_or_else(|| MemberId::from("")),
            skip_assignment: false,
            member_id: member_id.clone(),
            members,
        }
    }
}

impl JoinReply {
    /// An answer that only says what went wrong.
    pub fn error(error: ErrorCode, member_id: MemberId) -> Self {
        Self {
            error,
            generation: -1,
            protocol_type: None,
            protocol_name: None,
            leader: MemberId::from(""),
            skip_assignment: false,
            member_id,
            members: Vec::new(),
        }
    }
}

impl SyncReply {
    /// An answer that only says what went wrong.
    pub fn error(error: ErrorCode) -> Self {
        Self { error, protocol_type: None, protocol_name: None, assignment: KeptBytes::default() }
    }
}

/// A timer that is due and has nothing left to do.
pub fn forget(timer: &Timer, token: Token) -> GroupDecision {
    let mut decision = Decision::answer(token, Reply::Done);
    decision.soft.push(Soft::Disarm(timer.clone()));
    decision
}
