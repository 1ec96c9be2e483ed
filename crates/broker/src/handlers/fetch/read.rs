//! What a Fetch reads of its partitions.

use fencepost_partition::AbortedTxn;
use fencepost_storage::LogRecords;
use fencepost_types::{ErrorCode, LeaderEpoch, Offset};

use super::session::{FetchKey, FetchParams};
use super::{Reading, Wanted};
use crate::partition::State;

/// What an answer may hold of all its records. More stays in the files until the client takes it, so that one who never does
/// costs no memory; below this a copy is cheaper than a second call to the disk.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// What is answered for one partition.
pub(crate) struct Part {
    pub(crate) key: FetchKey,
    pub(crate) outcome: Outcome,
}

/// Read, diverged, or refused.
pub(crate) enum Outcome {
    Read(Read),
    Diverging { epoch: LeaderEpoch, end_offset: Offset, at: Watermarks },
    Refused { code: ErrorCode, leader_epoch: LeaderEpoch, by_log: bool },
}

/// Where a log stood when it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watermarks {
    pub(crate) high_watermark: Offset,
    pub(crate) last_stable_offset: Offset,
    pub(crate) log_start_offset: Offset,
}

pub(crate) struct Read {
    pub(crate) at: Watermarks,
    pub(crate) records: LogRecords,
    /// `None` for read_uncommitted, which differs from an empty list (`producer-state trap 30`).
    pub(crate) aborted: Option<Vec<AbortedTxn>>,
}

impl Part {
    pub(crate) fn bytes(&self) -> usize {
        match &self.outcome {
            Outcome::Read(read) => read.records.bytes(),
            Outcome::Diverging { .. } | Outcome::Refused { .. } => 0,
        }
    }
}

/// Reads all partitions in order, within the limits. The first one that has records gives at least one batch, whatever
/// its size (wire-apis trap 30).
pub(crate) fn read_all(reading: &Reading, wanted: &[Wanted]) -> Vec<Part> {
    let mut limits = Limits { bytes_max: reading.bytes_max, held_bytes_max: HELD_BYTES_MAX };
    let mut found_records = false;
    let mut parts = Vec::with_capacity(wanted.len());
    for one in wanted {
        // That a session's topic was made again is Kafka's log's to find, which holds the id.
        let by_log = one.found.as_ref().err() == Some(&ErrorCode::InconsistentTopicId);
        let refused = |code| Outcome::Refused { code, leader_epoch: LeaderEpoch::NONE, by_log };
        let outcome = match &one.found {
            Err(code) => refused(*code),
            Ok(partition) => {
                let at_least_one = !found_records && one.params.bytes_max >= 0;
                let read =
                    partition.with(|state| read_one(reading, state, &one.params, limits, at_least_one));
                read.unwrap_or_else(|code| Outcome::Refused {
                    code,
                    leader_epoch: LeaderEpoch::NONE,
                    by_log: true,
                })
            }
        };
        let part = Part { key: one.key.clone(), outcome };
        found_records |= part.bytes() > 0;
        limits.take(&part);
        parts.push(part);
    }
    parts
}

/// What the partitions that come next may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Bytes of records.
    bytes_max: usize,
    /// Bytes of records that are held in memory.
    held_bytes_max: usize,
}

impl Limits {
    fn take(&mut self, part: &Part) {
        self.bytes_max = self.bytes_max.saturating_sub(part.bytes());
        if let Outcome::Read(Read { records: LogRecords::Held(bytes), .. }) = &part.outcome {
            self.held_bytes_max = self.held_bytes_max.saturating_sub(bytes.len());
        }
    }
}

/// What of a log can be said before anything is read: where it stands, or what is wrong with the request.
pub(crate) fn look(state: &State, params: &FetchParams) -> Result<Watermarks, Outcome> {
    let refused = |code| Outcome::Refused { code, leader_epoch: state.leader_epoch, by_log: true };
    check_epoch(state, params.current_leader_epoch).map_err(refused)?;
    let log = &state.log;
    let at = Watermarks {
        high_watermark: log.high_watermark(),
        last_stable_offset: log.last_stable_offset(),
        log_start_offset: log.log_start_offset(),
    };
    if params.last_fetched_epoch >= 0 {
        let fetched = LeaderEpoch(params.last_fetched_epoch);
        match log.end_offset_for_epoch(fetched) {
            None => return Err(refused(ErrorCode::OffsetOutOfRange)),
            Some((epoch, end_offset)) if epoch < fetched || end_offset < params.offset => {
                return Err(Outcome::Diverging { epoch, end_offset, at });
            }
            Some(_) => {}
        }
    }
    Ok(at)
}

fn read_one(
    reading: &Reading,
    state: &State,
    params: &FetchParams,
    limits: Limits,
    at_least_one: bool,
) -> Outcome {
    let at = match look(state, params) {
        Ok(at) => at,
        Err(outcome) => return outcome,
    };
    let log = &state.log;
    let bound = if reading.read_committed { at.last_stable_offset } else { at.high_watermark };
    let bytes_max = (params.bytes_max.max(0) as usize).min(limits.bytes_max);
    let slice = match log.find(params.offset, bytes_max, bound, at_least_one, limits.held_bytes_max) {
        Ok(slice) => slice,
        Err(error) => {
            let (code, leader_epoch) = (error.code(), state.leader_epoch);
            return Outcome::Refused { code, leader_epoch, by_log: true };
        }
    };
    let aborted = reading.read_committed.then(|| {
        if slice.records.bytes() == 0 { Vec::new() } else { log.aborted_transactions(params.offset, &slice) }
    });
    Outcome::Read(Read { at, records: slice.records, aborted })
}

/// The client's leader epoch must be ours; negative is none.
pub(crate) fn check_epoch(state: &State, current_leader_epoch: i32) -> Result<(), ErrorCode> {
    match current_leader_epoch {
        ..0 => Ok(()),
        epoch if epoch < state.leader_epoch.0 => Err(ErrorCode::FencedLeaderEpoch),
        epoch if epoch > state.leader_epoch.0 => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}
