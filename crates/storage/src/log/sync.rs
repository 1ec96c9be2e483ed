//! How a log becomes durable without anybody holding it: it hands out a ticket, whoever has the ticket syncs, and the log
//! is told.

use std::sync::Arc;

use fencepost_types::Offset;

use super::Log;
use crate::disk::{Disk, DiskErrorKind, DiskFile, DiskResult};

/// One thing to sync.
#[derive(Clone, Debug)]
pub(crate) enum SyncStep {
    File(Arc<dyn DiskFile>),
    Directory(String),
}

impl SyncStep {
    /// The file, if it is one.
    pub(crate) fn file(&self) -> Option<&Arc<dyn DiskFile>> {
        match self {
            Self::File(file) => Some(file),
            Self::Directory(_) => None,
        }
    }
}

/// What of a log is durable, and what is owed before more of it is.
#[derive(Debug)]
pub(crate) struct SyncState {
    durable_end: Offset,
    /// The log end when the indexes of the active segment were last durable: when the log was opened or closed.
    settled_end: Offset,
    /// In order.
    owed: Vec<Owed>,
    /// How many steps were dropped from the front of `owed` since the log was opened.
    done: u64,
    /// The step, counted from the same beginning, with which the newest retirement of segments is durable.
    retired_at: u64,
    /// Goes up when the log is truncated: an older ticket then says nothing of the new end.
    truncations: u64,
}

/// A step that was not run yet.
#[derive(Clone, Debug)]
struct Owed {
    step: SyncStep,
    /// A restart may not believe the segment with this base until the step was run.
    segment: Option<Offset>,
}

/// How much a ticket is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// Everything appended so far.
    All,
    /// What lies below the active segment: enough for a recovery point when nothing waits for durability.
    RolledSegments,
}

/// What must be synced so that a log is durable up to an offset. Running it needs nothing of the log.
#[derive(Debug)]
pub struct FlushTicket {
    disk: Arc<dyn Disk>,
    steps: Vec<SyncStep>,
    end_offset: Offset,
    owed_end: u64,
    truncations: u64,
}

impl FlushTicket {
    /// Syncs, in order. After an error nothing that waited for this ticket may be acknowledged, ever: the system may have
    /// dropped the pages, and the next sync would not tell.
    pub fn run(&self) -> DiskResult<()> {
        for step in &self.steps {
            match step {
                SyncStep::File(file) => file.sync()?,
                SyncStep::Directory(path) => match self.disk.sync_dir(path) {
                    // The partition was deleted meanwhile: nobody waits for it any more.
                    Err(error) if error.kind == DiskErrorKind::NotFound => {}
                    synced => synced?,
                },
            }
        }
        Ok(())
    }

    /// Once it has been run, everything below is durable.
    pub fn end_offset(&self) -> Offset {
        self.end_offset
    }
}

impl SyncState {
    pub(crate) fn new(durable_end: Offset) -> Self {
        Self {
            durable_end,
            settled_end: durable_end,
            owed: Vec::new(),
            done: 0,
            retired_at: 0,
            truncations: 0,
        }
    }

    pub(crate) fn durable_end(&self) -> Offset {
        self.durable_end
    }

    /// Up to where a restart may believe what it finds: the durable end, but not beyond a segment whose indexes and names
    /// are not durable themselves. It never stands at the end of the active segment: the next one may begin right there,
    /// and this one would not be looked at any more.
    pub(crate) fn recovery_point(&self, log_end: Offset) -> Offset {
        let unfinished = self.owed.iter().filter_map(|owed| owed.segment).min();
        let believed = unfinished.map_or(self.durable_end, |base| base.min(self.durable_end));
        if believed == log_end && believed > self.settled_end { log_end.plus(-1) } else { believed }
    }

    /// Everything is durable up to the log end, the indexes too.
    pub(crate) fn settle(&mut self, log_end: Offset) {
        self.durable_end = log_end;
        self.settled_end = log_end;
    }

    /// Owes steps that only whoever waits for the data waits for.
    pub(crate) fn owe(&mut self, steps: impl IntoIterator<Item = SyncStep>) {
        self.owed.extend(steps.into_iter().map(|step| Owed { step, segment: None }));
    }

    /// Owes steps without which a restart may not believe the segment with base `segment`.
    pub(crate) fn owe_for(&mut self, segment: Offset, steps: impl IntoIterator<Item = SyncStep>) {
        self.owed.extend(steps.into_iter().map(|step| Owed { step, segment: Some(segment) }));
    }

    /// Owes the sync without which segments that were retired may be there again after a loss of power.
    pub(crate) fn owe_retirement(&mut self, directory: String) {
        self.owe([SyncStep::Directory(directory)]);
        self.retired_at = self.done + self.owed.len() as u64;
    }

    /// The log was cut to `end`.
    pub(crate) fn truncate(&mut self, end: Offset) {
        self.truncations += 1;
        self.durable_end = self.durable_end.min(end);
        self.settled_end = self.settled_end.min(end);
    }
}

impl Log {
    /// What has to be synced so that everything in `scope` is durable; `None` if it is already. Take it under the
    /// partition's lock, run it without, then call [`Log::mark_synced`]. Several may be out at a time.
    pub fn dirty(&self, scope: FlushScope) -> Option<FlushTicket> {
        let (end_offset, active) = match scope {
            FlushScope::All => (self.log_end_offset, self.segments.last()),
            FlushScope::RolledSegments => (self.active_segment_base(), None),
        };
        if self.sync.owed.is_empty() && self.sync.durable_end >= end_offset {
            return None;
        }
        let active = active.filter(|_| self.sync.durable_end < end_offset);
        let mut steps: Vec<SyncStep> = self.sync.owed.iter().map(|owed| owed.step.clone()).collect();
        // One sync of a directory stands for those right before it.
        steps.dedup_by(|next, step| {
            matches!((next, step), (SyncStep::Directory(next), SyncStep::Directory(step)) if next == step)
        });
        steps.extend(active.map(|segment| SyncStep::File(segment.log.clone())));
        Some(FlushTicket {
            disk: self.disk.clone(),
            steps,
            end_offset,
            owed_end: self.sync.done + self.sync.owed.len() as u64,
            truncations: self.sync.truncations,
        })
    }

    /// Whether every segment that was taken out stays away, even if the power is lost.
    pub fn is_retirement_durable(&self) -> bool {
        self.sync.retired_at <= self.sync.done
    }

    /// The ticket has been run without an error. Answers up to where the log is durable now.
    pub fn mark_synced(&mut self, ticket: &FlushTicket) -> Offset {
        let sync = &mut self.sync;
        let finished = ticket.owed_end.saturating_sub(sync.done).min(sync.owed.len() as u64);
        sync.owed.drain(..finished as usize);
        sync.done += finished;
        if ticket.truncations == sync.truncations {
            sync.durable_end = sync.durable_end.max(ticket.end_offset);
        }
        sync.durable_end
    }
}
