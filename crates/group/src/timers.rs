//! Everything that is waited for, in one ordered queue.

use alloc::collections::{BTreeMap, BTreeSet};

use fencepost_types::Nanos;

use crate::{GroupId, MemberId};

/// Something that becomes due by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    /// The group it belongs to.
    pub group: GroupId,
    /// What becomes due.
    pub kind: TimerKind,
}

/// What becomes due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKind {
    /// A classic group has waited long enough for its members to join.
    Join,
    /// A classic group has waited long enough for its members to sync.
    Sync,
    /// A member has been silent for too long.
    Session(MemberId),
    /// A member of a consumer group has not given up its partitions in time.
    Revocation(MemberId),
    /// A classic member of a consumer group has not joined again in time.
    MemberJoin(MemberId),
    /// A classic member of a consumer group has joined and not synced in time.
    MemberSync(MemberId),
}

impl TimerKind {
    /// This kind of timer for `group`.
    pub fn of(self, group: &GroupId) -> Timer {
        Timer { group: group.clone(), kind: self }
    }
}

/// The queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timers {
    due: BTreeMap<Timer, Nanos>,
    queue: BTreeSet<(Nanos, Timer)>,
}

impl Timers {
    /// Makes `timer` due at `at`, whatever it was before.
    pub fn arm(&mut self, timer: Timer, at: Nanos) {
        self.disarm(&timer);
        self.queue.insert((at, timer.clone()));
        self.due.insert(timer, at);
    }

    /// Forgets `timer`.
    pub fn disarm(&mut self, timer: &Timer) {
        if let Some((timer, at)) = self.due.remove_entry(timer) {
            self.queue.remove(&(at, timer));
        }
    }

    /// Forgets every timer of `group`.
    pub fn disarm_group(&mut self, group: &GroupId) {
        let first = TimerKind::Join.of(group);
        let of_group = self.due.range(first..).map(|(timer, _)| timer);
        let gone: BTreeSet<Timer> = of_group.take_while(|timer| timer.group == *group).cloned().collect();
        gone.iter().for_each(|timer| self.disarm(timer));
    }

    /// When `timer` is due, if it is armed.
    pub fn due_at(&self, timer: &Timer) -> Option<Nanos> {
        self.due.get(timer).copied()
    }

    /// What is due first.
    pub fn first(&self) -> Option<&(Nanos, Timer)> {
        self.queue.first()
    }

    /// Panics unless both views agree.
    pub fn check(&self) {
        assert_eq!(self.due.len(), self.queue.len(), "a timer is in one view alone");
        for (timer, at) in &self.due {
            assert!(self.queue.contains(&(*at, timer.clone())), "{timer:?} is not queued at {at:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arming again moves a timer; a group's timers go together and leave its neighbours alone.
    #[test]
    fn the_queue_follows_what_is_armed() {
        let mut timers = Timers::default();
        let (a, ab, b) = (GroupId::from("a"), GroupId::from("ab"), GroupId::from("b"));
        timers.arm(TimerKind::Sync.of(&a), Nanos(5));
        timers.arm(TimerKind::Session("m".into()).of(&a), Nanos(7));
        timers.arm(TimerKind::Join.of(&ab), Nanos(6));
        timers.arm(TimerKind::Join.of(&b), Nanos(9));
        timers.arm(TimerKind::Sync.of(&a), Nanos(8));
        timers.check();
        assert_eq!(timers.first(), Some(&(Nanos(6), TimerKind::Join.of(&ab))));
        timers.disarm_group(&a);
        timers.check();
        assert_eq!(timers.due_at(&TimerKind::Sync.of(&a)), None);
        assert_eq!(timers.due_at(&TimerKind::Join.of(&b)), Some(Nanos(9)));
        timers.disarm(&TimerKind::Join.of(&ab));
        assert_eq!(timers.first(), Some(&(Nanos(9), TimerKind::Join.of(&b))));
    }
}
