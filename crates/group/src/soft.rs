//! What is only hoped for: sessions, members that wait, timers. Gone after a restart, as in Kafka.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use fencepost_types::{Deadline, Nanos, Now};

use crate::classic::group::ClassicGroup;
use crate::consumer::group::ConsumerGroup;
use crate::durable::{Durable, Group};
use crate::timers::{Timer, TimerKind, Timers};
use crate::{GroupConfig, GroupId, MemberState, Topics};

/// The volatile half of a group shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volatile {
    /// Whether the sessions of those members have started that the log was loaded with.
    pub is_loaded: bool,
    /// The classic groups with members, or with ids that were handed out. Every other one is as the log says.
    pub classic: BTreeMap<GroupId, ClassicGroup>,
    /// The topics as they were last seen.
    pub topics: Option<Arc<Topics>>,
    /// The version of the topics with which each consumer group was last looked at.
    pub seen: BTreeMap<GroupId, i64>,
    /// What is waited for.
    pub timers: Timers,
    /// When offsets are looked at for their age, and where to go on.
    pub expiry: Expiry,
}

/// The sweep for offsets that are too old.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Expiry {
    /// When to go on.
    pub due: Nanos,
    /// The last group that was looked at in the sweep that runs.
    pub after: Option<GroupId>,
}

/// A change of the volatile half.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Soft {
    /// The log has been read: the sessions of all its members start now.
    Loaded,
    /// A classic group has become this.
    PutClassic(Box<ClassicGroup>),
    /// A group has changed its type, or is gone: nothing volatile is left of it.
    Forget(GroupId),
    /// A consumer group has been looked at with these topics.
    Topics(GroupId, Arc<Topics>),
    /// A timer is due at that time.
    Arm(Timer, Nanos),
    /// A timer is not waited for any more.
    Disarm(Timer),
    /// The sweep for old offsets goes on like that.
    Expiry(Expiry),
}

impl Volatile {
    /// Takes in a change.
    pub fn absorb(&mut self, now: Now, soft: Soft, durable: &Durable, config: &GroupConfig) {
        match soft {
            Soft::Loaded => self.start_sessions(now, durable, config),
            Soft::PutClassic(group) if group.is_idle() => {
                self.classic.remove(&group.id);
            }
            Soft::PutClassic(group) => {
                self.classic.insert(group.id.clone(), *group);
            }
            Soft::Forget(group) => {
                self.classic.remove(&group);
                self.seen.remove(&group);
                self.timers.disarm_group(&group);
            }
            Soft::Topics(group, topics) => {
                self.seen.insert(group, topics.version());
                self.topics = Some(topics);
            }
            Soft::Arm(timer, at) => self.timers.arm(timer, at),
            Soft::Disarm(timer) => self.timers.disarm(&timer),
            Soft::Expiry(expiry) => self.expiry = expiry,
        }
    }

    /// When something is due: at once until the sessions have started.
    pub fn next_deadline(&self) -> Deadline {
        if !self.is_loaded {
            return Deadline::Mono(Nanos(0));
        }
        let first = self.timers.first().map_or(self.expiry.due, |(at, _)| *at);
        Deadline::Mono(first.min(self.expiry.due))
    }

    fn start_sessions(&mut self, now: Now, durable: &Durable, config: &GroupConfig) {
        self.is_loaded = true;
        self.expiry.due = now.mono.plus_ms(config.offsets_retention_check_interval_ms);
        for (id, group) in &durable.groups {
            match group {
                Group::Classic(metadata) if !metadata.members.is_empty() => {
                    let group = ClassicGroup::from_metadata(id.clone(), metadata);
                    for (member_id, member) in group.members.iter() {
                        let due = now.mono.plus_ms(i64::from(member.session_timeout_ms));
                        self.timers.arm(TimerKind::Session(member_id.clone()).of(id), due);
                    }
                    self.classic.insert(id.clone(), group);
                }
                Group::Classic(_) => {}
                Group::Consumer(group) => self.start_consumer_sessions(now, id, group, config),
            }
        }
    }

    fn start_consumer_sessions(
        &mut self,
        now: Now,
        id: &GroupId,
        group: &ConsumerGroup,
        config: &GroupConfig,
    ) {
        for (member_id, member) in group.members.iter() {
            let session_timeout_ms = match &member.metadata.classic {
                Some(classic) => classic.session_timeout_ms,
                None => config.consumer_group(id).session_timeout_ms,
            };
            let due = now.mono.plus_ms(i64::from(session_timeout_ms));
            self.timers.arm(TimerKind::Session(member_id.clone()).of(id), due);
            if member.current.state == MemberState::UnrevokedPartitions && !member.is_classic() {
                let due = now.mono.plus_ms(i64::from(member.metadata.rebalance_timeout_ms));
                self.timers.arm(TimerKind::Revocation(member_id.clone()).of(id), due);
            }
        }
    }

    /// Whether a consumer group has been looked at with these topics, or newer ones.
    pub fn has_seen(&self, group: &GroupId, topics: &Topics) -> bool {
        self.seen.get(group).is_some_and(|seen| *seen >= topics.version())
    }

    /// Panics if an invariant is broken.
    pub fn check(&self, durable: &Durable) {
        self.timers.check();
        for (id, group) in &self.classic {
            assert_eq!(*id, group.id);
            group.check();
            match durable.groups.get(id) {
                Some(Group::Classic(metadata)) => self.check_classic(group, metadata),
                other => panic!("{id} lives as a classic group, and the log has {other:?}"),
            }
        }
        for (id, group) in durable.groups.iter().filter(|_| self.is_loaded) {
            if let Group::Consumer(group) = group {
                self.check_consumer(id, group);
            }
        }
    }

    /// While it is loaded, every member of a consumer group has an end of its session.
    fn check_consumer(&self, id: &GroupId, group: &ConsumerGroup) {
        for (member_id, member) in group.members.iter() {
            let is_armed = |kind: TimerKind| self.timers.due_at(&kind.of(id)).is_some();
            assert!(is_armed(TimerKind::Session(member_id.clone())), "the session of {member_id} has no end");
            let must_revoke =
                member.current.state == MemberState::UnrevokedPartitions && !member.is_classic();
            assert!(
                !must_revoke || is_armed(TimerKind::Revocation(member_id.clone())),
                "{member_id} of {id}"
            );
        }
    }

    /// A classic group that is Stable or Empty is what the log says; its members' sessions run, unless they wait.
    fn check_classic(&self, group: &ClassicGroup, logged: &crate::ClassicMetadata) {
        use crate::classic::group::ClassicState;
        let id = &group.id;
        match group.state {
            ClassicState::Stable => {
                let mut now = group.to_metadata();
                now.current_state_timestamp = logged.current_state_timestamp;
                let logged = ClassicGroup::from_metadata(id.clone(), logged).to_metadata();
                assert_eq!(now, logged, "{id} is not as it was logged");
            }
            ClassicState::Empty => assert_eq!(group.generation, logged.generation, "{id}"),
            ClassicState::PreparingRebalance | ClassicState::CompletingRebalance => {
                assert!(group.generation >= logged.generation, "{id} has gone back");
            }
        }
        for (member_id, member) in group.members.iter() {
            let is_waiting = member.joining.is_some() || member.syncing.is_some();
            let timer = TimerKind::Session(member_id.clone()).of(id);
            assert!(
                is_waiting || self.timers.due_at(&timer).is_some(),
                "the session of {member_id} has no end"
            );
        }
        for member_id in group.pending_members.keys() {
            let timer = TimerKind::Session(member_id.clone()).of(id);
            assert!(self.timers.due_at(&timer).is_some(), "{member_id} of {id} is pending for ever");
        }
        if group.state == ClassicState::PreparingRebalance {
            assert!(self.timers.due_at(&TimerKind::Join.of(id)).is_some(), "{id} waits for members for ever");
        }
        if !group.pending_sync.is_empty() && group.state == ClassicState::CompletingRebalance {
            assert!(self.timers.due_at(&TimerKind::Sync.of(id)).is_some(), "{id} waits for syncs for ever");
        }
    }
}
