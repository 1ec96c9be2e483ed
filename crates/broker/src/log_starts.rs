//! DeleteRecords is answered once a restart would find what it has done: the new log starts are in their checkpoint, and that
//! is on the disk.
//!
//! ```text
//!   requests ──► log starts move ──► waiting ─┐
//!   more requests, while a file is written ──►├─► one write for all who wait ──► answers
//!                                 a chore ────┘
//! ```
//!
//! The writing is a chore: no produce request waits for it, and one thread alone does it.

use std::sync::{Arc, Mutex};

use fencepost_storage::{Checkpoint, StorageError};
use fencepost_types::{ErrorCode, Offset};

use crate::Broker;
use crate::cx::Cx;
use crate::partition::Partition;

/// Is told whether the log starts are remembered.
pub(crate) type Remembered = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Result<(), ErrorCode>) + Send>;

/// Who waits until log starts are remembered.
#[derive(Default)]
pub(crate) struct LogStarts {
    waiting: Mutex<Vec<Waiting>>,
}

struct Waiting {
    moved: Vec<(Arc<Partition>, Offset)>,
    task: Remembered,
}

impl Broker {
    /// Runs `task` when every partition in `moved` is remembered to start at its offset or further on, or when that cannot be
    /// written. The log starts have moved already.
    pub(crate) fn remember_log_starts(
        self: &Arc<Self>,
        cx: &mut Cx,
        moved: Vec<(Arc<Partition>, Offset)>,
        task: Remembered,
    ) {
        let mut waiting = self.log_starts.waiting.lock().expect("no holder of this lock panics");
        waiting.push(Waiting { moved, task });
        // The first one has it written; whoever comes after that has been taken begins anew.
        if waiting.len() == 1 {
            drop(waiting);
            self.add_chore(cx.now.mono, Box::new(write_log_starts));
        }
    }
}

fn write_log_starts(broker: &Arc<Broker>, cx: &mut Cx) {
    // Before the offsets are looked up: these are in what is written now.
    let waiting =
        std::mem::take(&mut *broker.log_starts.waiting.lock().expect("no holder of this lock panics"));
    let written = broker.log_dir.write_checkpoints(&[Checkpoint::LogStart], || broker.log_offsets());
    let remembered = match written {
        Ok(()) => Ok(()),
        Err(error) => Err(failed(broker, cx, &error)),
    };
    for Waiting { moved, task } in waiting {
        if remembered.is_ok() {
            for (partition, offset) in moved {
                // Of a partition that is gone nothing is asked any more.
                let _ = partition.with(|state| state.log_start_is_remembered(offset));
            }
        }
        cx.push(Box::new(move |broker, cx| task(broker, cx, remembered)));
    }
}

/// On a full disk clients try again, and the next write has it.
fn failed(broker: &Arc<Broker>, cx: &mut Cx, error: &StorageError) -> ErrorCode {
    if let Some(shortage) = error.shortage() {
        tracing::error!(%error, "DeleteRecords fails: {shortage}");
    } else {
        broker.log_dir_failed(cx, error);
    }
    ErrorCode::KafkaStorageError
}
