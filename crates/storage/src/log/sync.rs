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
    /// In order. All belong to offsets below the base of the active segment, or to no offset.
    owed: Vec<SyncStep>,
    /// How many steps were dropped from the front of `owed` since the log was opened.
    done: u64,
    /// Goes up when the log is truncated: an older ticket then says nothing of the new end.
    truncations: u64,
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
        Self { durable_end, owed: Vec::new(), done: 0, truncations: 0 }
    }

    pub(crate) fn durable_end(&self) -> Offset {
        self.durable_end
    }

    pub(crate) fn push(&mut self, steps: impl IntoIterator<Item = SyncStep>) {
        for step in steps {
            // One sync of a directory stands for all that came before it.
            if let SyncStep::Directory(path) = &step
                && matches!(self.owed.last(), Some(SyncStep::Directory(last)) if last == path)
            {
                continue;
            }
            self.owed.push(step);
        }
    }

    /// The log is now known to be durable up to `end`.
    pub(crate) fn set_durable_end(&mut self, end: Offset) {
        self.durable_end = end;
    }

    /// The log was cut to `end`.
    pub(crate) fn truncate(&mut self, end: Offset) {
        self.truncations += 1;
        self.durable_end = self.durable_end.min(end);
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
        let mut steps = self.sync.owed.clone();
        steps.extend(active.map(|segment| SyncStep::File(segment.log.clone())));
        Some(FlushTicket {
            disk: self.disk.clone(),
            steps,
            end_offset,
            owed_end: self.sync.done + self.sync.owed.len() as u64,
            truncations: self.sync.truncations,
        })
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
