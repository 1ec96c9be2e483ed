//! The group coordinator of one partition of `__consumer_offsets`.

use alloc::borrow::Cow;
use alloc::sync::Arc;

use fencepost_coordinator::{Decision, LogPosition, Shard, Token};
use fencepost_types::{Deadline, ErrorCode, Now, TransactionResult};

use crate::classic::draft::{Decided, Draft, GroupDecision, forget};
use crate::classic::group::ClassicGroup;
use crate::classic::heartbeat::heartbeat;
use crate::classic::leave::leave_unknown_group;
use crate::classic::sync;
use crate::consumer::group::ConsumerGroup;
use crate::durable::{Durable, Group};
use crate::soft::Volatile;
use crate::timers::{Timer, TimerKind};
use crate::{
    ClassicMetadata, GroupConfig, GroupId, GroupRecord, GroupRefusal, Heartbeat, JoinGroup, LeaveGroup,
    Reply, Request, Soft, SyncGroup,
};

/// The groups of one partition of `__consumer_offsets`. See the page of this crate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupShard {
    pub(crate) config: Arc<GroupConfig>,
    pub(crate) durable: Durable,
    pub(crate) volatile: Volatile,
}

/// A group as it is now. On the stack for as long as a decision takes.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Found<'a> {
    /// There is none.
    Nothing,
    /// A classic group, as it lives or as the log has it.
    Classic(Cow<'a, ClassicGroup>),
    /// A consumer group.
    Consumer(&'a ConsumerGroup),
}

impl GroupShard {
    /// A coordinator without groups, before its log is replayed.
    pub fn new(config: Arc<GroupConfig>) -> Self {
        Self { config, durable: Durable::default(), volatile: Volatile::default() }
    }

    /// Takes over changed settings. Timers that run keep their time.
    pub fn configure(&mut self, config: Arc<GroupConfig>) {
        self.config = config;
    }

    /// What the log says, for comparison with another replay of it.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Every group, by name.
    pub fn groups(&self) -> impl Iterator<Item = &GroupId> {
        self.durable.groups.keys()
    }

    pub(crate) fn find(&self, id: &GroupId) -> Found<'_> {
        match self.durable.groups.get(id) {
            None => Found::Nothing,
            Some(Group::Consumer(group)) => Found::Consumer(group),
            Some(Group::Classic(metadata)) => Found::Classic(match self.volatile.classic.get(id) {
                Some(group) => Cow::Borrowed(group),
                None => Cow::Owned(ClassicGroup::from_metadata(id.clone(), metadata)),
            }),
        }
    }

    fn draft(&self, now: Now, group: Cow<'_, ClassicGroup>) -> Draft<'_> {
        Draft::new(now, &self.config, group.into_owned())
    }

    fn join_group(&self, now: Now, token: Token, request: &JoinGroup) -> Decided {
        if request.group.is_empty() {
            return Err(GroupRefusal::InvalidGroupId);
        }
        let allowed = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !allowed.contains(&request.session_timeout_ms) {
            return Err(GroupRefusal::InvalidSessionTimeout);
        }
        match self.find(&request.group) {
            Found::Nothing if !request.member_id.is_empty() => {
                Err(GroupRefusal::UnknownMemberId { member_id: request.member_id.clone() })
            }
            Found::Nothing => self.new_classic_group(now, &request.group).join(token, request),
            Found::Classic(group) => self.draft(now, group).join(token, request),
            Found::Consumer(group) => self.join_consumer_group(now, token, group, request),
        }
    }

    /// A classic group that is not in the log yet: it is written before anything else, without members, so that
    /// what happens to it has a group to happen to.
    pub(crate) fn new_classic_group(&self, now: Now, id: &GroupId) -> Draft<'_> {
        let mut draft = Draft::new(now, &self.config, ClassicGroup::new(id.clone(), now.wall));
        let value = ClassicMetadata { current_state_timestamp: now.wall, ..ClassicMetadata::default() };
        draft.records.push(GroupRecord::GroupMetadata { group: id.clone(), value: Some(value) });
        draft
    }

    fn sync_group(&self, now: Now, token: Token, request: &SyncGroup) -> Decided {
        sync::validate_request(request)?;
        if request.group.is_empty() {
            return Err(GroupRefusal::InvalidGroupId);
        }
        match self.find(&request.group) {
            Found::Nothing => Err(GroupRefusal::UnknownMemberId { member_id: request.member_id.clone() }),
            Found::Classic(group) => self.draft(now, group).sync(token, request),
            Found::Consumer(group) => self.sync_consumer_group(now, token, group, request),
        }
    }

    fn heartbeat(&self, now: Now, token: Token, request: &Heartbeat) -> Decided {
        if request.group.is_empty() {
            return Err(GroupRefusal::InvalidGroupId);
        }
        match self.find(&request.group) {
            Found::Nothing => Err(GroupRefusal::UnknownMemberId { member_id: request.member_id.clone() }),
            Found::Classic(group) => heartbeat(now, token, &group, request),
            Found::Consumer(group) => self.classic_heartbeat_to_consumer_group(now, token, group, request),
        }
    }

    fn leave_group(&self, now: Now, token: Token, request: &LeaveGroup) -> Decided {
        if request.group.is_empty() {
            return Err(GroupRefusal::InvalidGroupId);
        }
        match self.find(&request.group) {
            Found::Nothing => Ok(Decision::answer(token, Reply::Leave(leave_unknown_group(request)))),
            Found::Classic(group) => Ok(self.draft(now, group).leave(token, request)),
            Found::Consumer(group) => Ok(self.leave_consumer_group(now, token, group, request)),
        }
    }

    fn tick(&self, now: Now, token: Token) -> GroupDecision {
        if !self.volatile.is_loaded {
            return self.start(now, token);
        }
        match self.volatile.timers.first() {
            Some((at, timer)) if *at <= now.mono => self.timer_is_due(now, token, timer),
            Some(_) | None if self.volatile.expiry.due <= now.mono => self.expire_offsets(now, token),
            Some(_) | None => Decision::answer(token, Reply::Done),
        }
    }

    /// The log has been read: sessions start, and groups that are larger than they may be now rebalance.
    fn start(&self, now: Now, token: Token) -> GroupDecision {
        let mut decision = Decision::answer(token, Reply::Done);
        decision.soft.push(Soft::Loaded);
        for (id, group) in &self.durable.groups {
            if let Group::Classic(metadata) = group
                && metadata.members.len() > self.config.max_size
            {
                let mut draft =
                    self.draft(now, Cow::Owned(ClassicGroup::from_metadata(id.clone(), metadata)));
                draft.prepare_rebalance();
                decision.soft.extend(draft.decide().soft);
            }
        }
        decision
    }

    fn timer_is_due(&self, now: Now, token: Token, timer: &Timer) -> GroupDecision {
        match self.find(&timer.group) {
            Found::Nothing => forget(timer, token),
            Found::Consumer(group) => self.consumer_timer_is_due(now, token, group, timer),
            Found::Classic(group) => {
                let mut draft = self.draft(now, group);
                match &timer.kind {
                    TimerKind::Join => draft.join_is_due(),
                    TimerKind::Sync => draft.sync_is_due(),
                    TimerKind::Session(member_id) => return draft.session_is_over(token, member_id),
                    TimerKind::Revocation(_) | TimerKind::MemberJoin(_) | TimerKind::MemberSync(_) => {
                        return forget(timer, token);
                    }
                }
                draft.answer(token, Reply::Done)
            }
        }
    }
}

impl Shard for GroupShard {
    type Request = Request;
    type Record = GroupRecord;
    type Soft = Soft;
    type Reply = Reply;
    type Refusal = GroupRefusal;

    fn decide(&self, now: Now, token: Token, request: &Request) -> Decided {
        match request {
            Request::JoinGroup(request) => self.join_group(now, token, request),
            Request::SyncGroup(request) => self.sync_group(now, token, request),
            Request::Heartbeat(request) => self.heartbeat(now, token, request),
            Request::LeaveGroup(request) => self.leave_group(now, token, request),
            Request::OffsetCommit(request) => self.offset_commit(now, token, request),
            Request::TxnOffsetCommit(request) => self.txn_offset_commit(now, token, request),
            Request::OffsetFetch(request) => self.offset_fetch(token, request),
            Request::OffsetDelete(request) => self.offset_delete(token, request),
            Request::DescribeGroups(request) => self.describe_groups(token, request),
            Request::ListGroups(request) => self.list_groups(token, request),
            Request::DeleteGroups(request) => self.delete_groups(token, request),
            Request::ConsumerGroupHeartbeat(request) => self.consumer_heartbeat(now, token, request),
            Request::ConsumerGroupDescribe(request) => self.consumer_describe(token, request),
            Request::TopicsDeleted(request) => self.topics_deleted(token, request),
            Request::Tick => Ok(self.tick(now, token)),
        }
    }

    fn replay(&mut self, at: LogPosition, record: &GroupRecord) {
        self.durable.replay(at, record);
    }

    fn replay_marker(&mut self, at: LogPosition, result: TransactionResult) {
        self.durable.replay_marker(at, result);
    }

    fn absorb(&mut self, now: Now, soft: Soft) {
        self.volatile.absorb(now, soft, &self.durable, &self.config);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        Some(self.volatile.next_deadline())
    }

    fn tick() -> Request {
        Request::Tick
    }

    fn check(&self) {
        self.durable.check();
        self.volatile.check(&self.durable);
    }
}

/// The code of an answer.
pub(crate) fn code_of<T>(result: &Result<T, GroupRefusal>) -> ErrorCode {
    use fencepost_coordinator::Refusal;
    result.as_ref().map_or_else(|refusal| refusal.code(), |_| ErrorCode::None)
}
