//! The rebalance of a classic group: from the first reason for one to the answers of everyone's JoinGroup.
//!
//! ```text
//! Empty ──── first member ─────┐ (waits initial_rebalance_delay_ms, again for each latecomer, up to the timeout)
//!                              ▼
//! Stable ── join, leave ─► PreparingRebalance ── all joined, or timeout ─► CompletingRebalance ── leader syncs ─► Stable
//! Completing ── join, leave ─► (waiting syncs are told) ┘                   (nobody left: Empty, generation + 1)
//! ```
//!
//! Source: Kafka GroupMetadataManager (classic part): prepareRebalance, completeClassicGroupJoin,
//! tryCompleteInitialRebalanceElseSchedule, expirePendingSync.

use alloc::vec::Vec;

use fencepost_types::{ErrorCode, KeptBytes};

use crate::classic::draft::Draft;
use crate::classic::group::{ClassicState, InitialRebalance};
use crate::timers::TimerKind;
use crate::{MemberId, SharedSet};

impl Draft<'_> {
    /// Something about the members has changed: starts a rebalance, or sees whether the one that runs is over.
    pub fn rebalance(&mut self) {
        match self.group.state {
            ClassicState::PreparingRebalance => self.try_complete_join(),
            ClassicState::Empty | ClassicState::CompletingRebalance | ClassicState::Stable => {
                self.prepare_rebalance();
            }
        }
    }

    /// Starts a rebalance.
    pub fn prepare_rebalance(&mut self) {
        let from = self.group.state;
        assert_ne!(from, ClassicState::PreparingRebalance, "group {} rebalances already", self.group.id);
        self.tell_syncing(ErrorCode::RebalanceInProgress);
        self.group.pending_sync = SharedSet::default();
        self.disarm(TimerKind::Sync);
        self.group.transition(ClassicState::PreparingRebalance, self.now.wall);
        if from == ClassicState::Empty {
            let delay_ms = self.config.initial_rebalance_delay_ms;
            let remaining_ms = self.group.rebalance_timeout_ms().saturating_sub(delay_ms).max(0);
            self.group.initial = Some(InitialRebalance { delay_ms, remaining_ms, new_member_added: false });
            self.arm(TimerKind::Join, delay_ms);
        } else {
            let rebalance_timeout_ms = self.group.rebalance_timeout_ms();
            self.arm(TimerKind::Join, rebalance_timeout_ms);
            self.try_complete_join();
        }
    }

    /// Ends the join phase if everyone is there. The first rebalance of an empty group waits for its delay instead.
    pub fn try_complete_join(&mut self) {
        let is_preparing = self.group.state == ClassicState::PreparingRebalance;
        if is_preparing && self.group.initial.is_none() && self.group.has_all_joined() {
            self.complete_join();
        }
    }

    /// The timer of the join phase is due.
    pub fn join_is_due(&mut self) {
        if self.group.state != ClassicState::PreparingRebalance {
            self.disarm(TimerKind::Join);
            return;
        }
        match self.group.initial {
            Some(initial) if initial.new_member_added && initial.remaining_ms > 0 => {
                let delay_ms = self.config.initial_rebalance_delay_ms.min(initial.remaining_ms);
                let remaining_ms = initial.remaining_ms.saturating_sub(initial.delay_ms).max(0);
                self.group.initial =
                    Some(InitialRebalance { delay_ms, remaining_ms, new_member_added: false });
                self.arm(TimerKind::Join, delay_ms);
            }
            Some(_) | None => self.complete_join(),
        }
    }

    /// Ends the join phase: who has not joined is out, who has gets the next generation. Static members stay until
    /// their session ends (KIP-345); if nobody but them is left, the join phase goes on.
    fn complete_join(&mut self) {
        let absent = self.group.members.iter().filter(|(_, member)| member.joining.is_none());
        let dynamic = absent.filter(|(_, member)| member.instance_id.is_none());
        let dynamic: Vec<MemberId> = dynamic.map(|(member_id, _)| member_id.clone()).collect();
        dynamic.iter().for_each(|member_id| self.remove(member_id, ErrorCode::UnknownMemberId));

        if !self.group.members.is_empty() && !self.elect_joined_leader() {
            let rebalance_timeout_ms = self.group.rebalance_timeout_ms();
            self.arm(TimerKind::Join, rebalance_timeout_ms);
            return;
        }
        self.disarm(TimerKind::Join);
        self.group.initial = None;
        self.group.generation = self.group.generation.wrapping_add(1).max(0);
        if self.group.members.is_empty() {
            self.group.protocol_name = None;
            self.group.transition(ClassicState::Empty, self.now.wall);
            self.log_group();
        } else {
            self.group.protocol_name = Some(self.group.select_protocol());
            self.group.transition(ClassicState::CompletingRebalance, self.now.wall);
            self.start_sync();
        }
    }

    /// Makes sure that the leader is one who has joined; tells whether there is one.
    fn elect_joined_leader(&mut self) -> bool {
        let members = &self.group.members;
        let leader = self.group.leader.as_ref().and_then(|leader| members.get(leader));
        if leader.is_some_and(|leader| leader.joining.is_some()) {
            return true;
        }
        let joined = members.iter().find(|(_, member)| member.joining.is_some());
        let Some((member_id, _)) = joined else { return false };
        self.group.leader = Some(member_id.clone());
        true
    }

    /// Answers everyone's JoinGroup, and waits for their SyncGroups.
    fn start_sync(&mut self) {
        let member_ids: Vec<MemberId> = self.group.members.keys().cloned().collect();
        for member_id in &member_ids {
            let reply = self.group.join_reply(member_id);
            self.answer_join(member_id, reply);
            self.renew_session(member_id);
            if let Some(member) = self.group.member_mut(member_id) {
                member.is_new = false;
            }
        }
        self.group.pending_sync = member_ids.into_iter().map(|member_id| (member_id, ())).collect();
        let rebalance_timeout_ms = self.group.rebalance_timeout_ms();
        self.arm(TimerKind::Sync, rebalance_timeout_ms);
    }

    /// The timer of the sync phase is due: who has not synced is out (KAFKA-13435).
    pub fn sync_is_due(&mut self) {
        self.disarm(TimerKind::Sync);
        let late = core::mem::take(&mut self.group.pending_sync);
        if late.is_empty() {
            return;
        }
        late.keys().for_each(|member_id| self.remove(member_id, ErrorCode::UnknownMemberId));
        match self.group.state {
            ClassicState::CompletingRebalance | ClassicState::Stable => self.prepare_rebalance(),
            ClassicState::Empty | ClassicState::PreparingRebalance => {}
        }
    }

    /// A member has synced: when all have, nobody is waited for any more.
    pub fn has_synced(&mut self, member_id: &MemberId) {
        self.group.pending_sync.remove(member_id);
        if self.group.pending_sync.is_empty() {
            self.disarm(TimerKind::Sync);
        }
    }

    /// Answers everyone who waits in SyncGroup with an error. Their sessions start again: while they waited, the end
    /// of a session counted for nothing.
    pub fn tell_syncing(&mut self, error: ErrorCode) {
        let syncing = self.group.members.iter().filter(|(_, member)| member.syncing.is_some());
        let syncing: Vec<MemberId> = syncing.map(|(member_id, _)| member_id.clone()).collect();
        for member_id in &syncing {
            self.answer_sync(member_id, error);
            self.renew_session(member_id);
        }
        if self.group.state == ClassicState::CompletingRebalance {
            let assigned = self.group.members.iter().filter(|(_, member)| !member.assignment.is_empty());
            let assigned: Vec<MemberId> = assigned.map(|(member_id, _)| member_id.clone()).collect();
            for member_id in &assigned {
                if let Some(member) = self.group.member_mut(member_id) {
                    member.assignment = KeptBytes::default();
                }
            }
        }
    }
}
