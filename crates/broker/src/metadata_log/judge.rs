//! The metadata log before anything is written: it is read whole and judged, and a damaged one stops the start with one
//! sentence and every file as it was.
//!
//! ```text
//!   quorum-state ─► snapshots ─► segments, batch by batch ─► controller ─► epochs, voters ─► the directory is taken over
//!        └──────────────┴───────────────────┴──────────────────────────────────┴──► or a sentence, and nothing is touched
//! ```
//!
//! What a crash can have torn is one write: appends to this log take turns, each waits until the one before it is durable
//! (see [`super::turns`]). So a batch that is not whole is damage where a whole one follows, where all its bytes are there,
//! below what was noted as durable, and after a clean stop anywhere.
//!
//! Differs from Kafka, which cuts the log at the first batch that is not whole, wherever that is: see decision 16.

use std::sync::Arc;

use fencepost_metadata::quorum::{QUORUM_STATE_FILE, QuorumState, Voter};
use fencepost_metadata::{Controller, Image, StaticConfig};
use fencepost_records::Batch;
use fencepost_storage::{Checkpoint, Inspection, LogDir, LogFault, inspect_log};
use fencepost_types::{BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid};

use super::files::{Formatted, Newest, SnapshotId, newest_snapshot, read_bootstrap, read_state, snapshots};
use super::{METADATA_TOPIC, has_records};
use crate::boot::StartError;
use crate::settings::BrokerSettings;

/// What an operator can do.
const ADVICE: &str = "no file was changed: put a backup in its place, or start with an empty log directory";

/// A metadata log that may be led.
pub(crate) struct Judged {
    /// The controller, with everything replayed.
    pub(super) controller: Controller,
    /// The epoch in which it is led from now on.
    pub(super) epoch: LeaderEpoch,
    /// What a format tool has left for an empty log to begin with.
    pub(super) bootstrap: Option<Image>,
    /// Where the newest snapshot ends; 0 without one.
    pub(super) snapshot_end: Offset,
    /// The first offset of the log without a gap behind it.
    pub(super) first_offset: Offset,
    /// Where the log ends, once what is torn is cut off.
    pub(super) end_offset: Offset,
    /// The epoch of its last batch, and the first offset of that epoch.
    pub(super) last_epoch: Option<(LeaderEpoch, Offset)>,
    /// The bytes of the log behind the newest snapshot.
    pub(super) bytes_since_snapshot: u64,
    /// What is to be cut off.
    pub(super) torn: Option<LogFault>,
    /// Whether an older snapshot stands in for the newest one.
    has_unreadable_snapshots: bool,
}

impl Judged {
    /// Reads and judges. Nothing is written.
    ///
    /// Errors: the log is damaged, cannot be read, begins above 0 without a snapshot, is missing from a directory that was
    /// in use, or belongs to a quorum of which we are not the only voter.
    pub(crate) fn of(log_dir: &LogDir, settings: &BrokerSettings) -> Result<Self, StartError> {
        let name = TopicPartition::new(METADATA_TOPIC, 0);
        let (disk, directory) = (&**log_dir.disk(), name.to_string());
        let state = read_state(disk, &directory)?;
        let ids = snapshots(disk, &directory)?;
        let newest = newest_snapshot(disk, &directory, &ids)?;
        let snapshot_end = newest.image.as_ref().map_or(Offset(0), |image| image.offset().next());
        let statics: Arc<StaticConfig> = Arc::new(settings.statics.clone());
        let mut controller = Controller::new(settings.node_id, statics);
        let snapshot_epoch = newest.image.as_ref().map(Image::epoch);
        newest.image.iter().for_each(|image| controller.load_snapshot(image.clone()));
        let mut take = |batch: &Batch| replay(&mut controller, snapshot_end, batch);
        let found = inspect_log(disk, &directory, snapshot_end, snapshot_end, &mut take)?;
        let is_empty = !controller.is_bootstrapped();
        // Of no use to a directory in use, whatever it says.
        let formatted = if is_empty { read_bootstrap(disk, &directory)? } else { Formatted::default() };

        let judge = Judge { log_dir, directory: &directory, found: &found, ids: &ids };
        judge.reaches_back_to(snapshot_end, &newest)?;
        let torn = judge.torn_tail()?;
        judge.is_not_lost(is_empty, &formatted)?;
        let epoch = judge.next_epoch(state.as_ref(), snapshot_epoch)?;
        let bootstrap = if is_empty { formatted.image } else { None };
        let judged = Self {
            controller,
            epoch,
            bootstrap,
            snapshot_end,
            first_offset: found.first_offset,
            end_offset: found.end_offset,
            last_epoch: found.last_epoch,
            bytes_since_snapshot: found.bytes_from,
            torn,
            has_unreadable_snapshots: !newest.unreadable.is_empty(),
        };
        judged.check_voters(settings.node_id, log_dir.directory_id(), state.as_ref())?;
        for (path, error) in newest.unreadable {
            tracing::warn!(
                path,
                error,
                "a snapshot of the metadata cannot be read; an older one and the log say the same"
            );
        }
        Ok(judged)
    }

    /// What the metadata say before anything is added to them.
    pub(crate) fn image(&self) -> &Image {
        self.controller.image()
    }

    /// Whether something is missing of what was once written. What the metadata do not know is left where it is then.
    pub(super) fn is_suspect(&self) -> bool {
        self.torn.is_some() || self.has_unreadable_snapshots
    }

    /// A node that leads alone what others vote on would write another log than theirs.
    fn check_voters(
        &self,
        node_id: BrokerId,
        directory_id: Uuid,
        state: Option<&QuorumState>,
    ) -> Result<(), StartError> {
        let logged = self.controller.image();
        let image = self.bootstrap.as_ref().filter(|_| !has_records(logged)).unwrap_or(logged);
        if image.kraft_version() == 0 {
            let others = state.and_then(|state| state.static_voters.as_ref());
            return match others.filter(|voters| **voters != [node_id] && !voters.is_empty()) {
                None => Ok(()),
                Some(voters) => Err(other_quorum(voters.iter().map(ToString::to_string).collect())),
            };
        }
        let is_ours = |voter: &Voter| voter.id == node_id && voter.directory_id == directory_id;
        match image.voters() {
            [] => Ok(()),
            [voter] if is_ours(voter) => Ok(()),
            voters => {
                let name = |voter: &Voter| format!("{} in directory {}", voter.id, voter.directory_id);
                Err(other_quorum(voters.iter().map(name).collect()))
            }
        }
    }
}

fn other_quorum(voters: Vec<String>) -> StartError {
    let voters = voters.join(", ");
    StartError::Metadata(format!(
        "this node is not the only voter of the metadata quorum; the voters are {voters}. A node alone may not lead it"
    ))
}

/// Takes in a batch that the snapshot does not have.
fn replay(controller: &mut Controller, snapshot_end: Offset, batch: &Batch) -> Result<(), String> {
    if batch.header().next_offset() <= snapshot_end {
        return Ok(());
    }
    if batch.base_offset() < snapshot_end {
        return Err(format!("the newest snapshot ends at offset {snapshot_end}, within this batch"));
    }
    controller.replay_batch(batch).map_err(|error| error.to_string())
}

/// The rules, over what was found.
struct Judge<'a> {
    log_dir: &'a LogDir,
    directory: &'a str,
    found: &'a Inspection,
    ids: &'a [SnapshotId],
}

impl Judge<'_> {
    /// The log must go on where the snapshot ends. One that begins later goes with a snapshot that cannot be read, or that
    /// is gone.
    fn reaches_back_to(&self, snapshot_end: Offset, newest: &Newest) -> Result<(), StartError> {
        let start = self.found.first_offset;
        if start <= snapshot_end {
            return Ok(());
        }
        let lost = newest.unreadable.first().map_or_else(
            || "no snapshot reaches from 0 to there".to_owned(),
            |(path, error)| format!("the snapshot {path} cannot be read: {error}"),
        );
        Err(StartError::Metadata(format!("the log begins at offset {start}, and {lost}; {ADVICE}")))
    }

    /// A log without its first records, and a directory without an owner, are those of a new node only where nothing says
    /// that there was more.
    fn is_not_lost(&self, is_empty: bool, formatted: &Formatted) -> Result<(), StartError> {
        if !is_empty && !self.log_dir.is_new() {
            return Ok(());
        }
        let evidence = match self.evidence(formatted)? {
            Some(evidence) => evidence,
            None if is_empty => return Ok(()),
            None => format!("{} has records", self.directory),
        };
        let lost = if is_empty {
            format!("{} has no records", self.directory)
        } else {
            "meta.properties is missing".to_owned()
        };
        Err(StartError::Metadata(format!("{lost}, and this directory was in use: {evidence}; {ADVICE}")))
    }

    /// What says that the directory was in use. Of an interrupted first start nothing does: the checkpoint of recovery points
    /// is there then, and empty until the first records are durable.
    fn evidence(&self, formatted: &Formatted) -> Result<Option<String>, StartError> {
        let log_dir = self.log_dir;
        if log_dir.was_clean() {
            return Ok(Some("it has the mark of a clean stop".to_owned()));
        }
        if let Some(partition) = log_dir.remembered().next() {
            return Ok(Some(format!("a checkpoint names {partition}")));
        }
        if let Some(file) = log_dir.unreadable_files().first() {
            return Ok(Some(format!("{file} holds something that cannot be read")));
        }
        if let Some((end_offset, _)) = self.ids.last() {
            return Ok(Some(format!("there is a snapshot of the metadata up to offset {end_offset}")));
        }
        // A snapshot of the producers says nothing by itself: a first start that is cut short twice may leave one, and lose the
        // records under it, which were not durable.
        let is_other = |name: &TopicPartition| &*name.topic != METADATA_TOPIC;
        let partitions = log_dir.partitions()?;
        if let Some(partition) = partitions.iter().map(|found| &found.partition).find(|name| is_other(name)) {
            return Ok(Some(format!("there is a directory of {partition}")));
        }
        let is_formatted = formatted.is_there || log_dir.has_checkpoint(Checkpoint::RecoveryPoint);
        if !log_dir.is_new() && !is_formatted {
            return Ok(Some(
                "it has meta.properties, and neither a format tool nor a first start left it so".to_owned(),
            ));
        }
        Ok(None)
    }

    /// Below this offset everything was durable, and who says so. What stands in a file may be damaged itself: of what files
    /// say the second highest counts, where there are two. What is in the name of a whole file counts by itself.
    fn floor(&self) -> (Offset, &'static str) {
        let name = TopicPartition::new(METADATA_TOPIC, 0);
        let noted = |checkpoint| self.log_dir.offset(checkpoint, &name);
        let clean = self.log_dir.clean_broker_epoch();
        let mut said: Vec<(Offset, &'static str)> = [
            (noted(Checkpoint::RecoveryPoint), "the recovery point"),
            (noted(Checkpoint::HighWatermark), "the high watermark that was noted"),
            (clean.map(|broker_epoch| Offset(broker_epoch.saturating_add(1))), "the mark of a clean stop"),
        ]
        .into_iter()
        .filter_map(|(offset, who)| Some((offset?, who)))
        .collect();
        said.sort_unstable_by_key(|(offset, _)| std::cmp::Reverse(*offset));
        let said = said.get(1).or(said.first()).copied();
        let snapshot = self.ids.last().map(|(end_offset, _)| (*end_offset, "the newest snapshot"));
        // A clean stop leaves one right at the end.
        let producers = self.found.newest_snapshot.filter(|_| clean.is_some());
        let producers = producers.map(|offset| (offset, "the end at the clean stop"));
        let all = [said, snapshot, producers].into_iter().flatten();
        all.max_by_key(|(offset, _)| *offset).unwrap_or((Offset(0), "the beginning"))
    }

    /// What of the log is to be cut off; an error where it is damaged.
    fn torn_tail(&self) -> Result<Option<LogFault>, StartError> {
        let (floor, who) = self.floor();
        let Some(fault) = &self.found.fault else {
            let (directory, end) = (self.directory, self.found.end_offset);
            return if end >= floor {
                Ok(None)
            } else {
                Err(StartError::Metadata(format!(
                    "{directory} ends at offset {end}, and {who} is {floor}: records are missing; {ADVICE}"
                )))
            };
        };
        if fault.is_torn_tail && !self.log_dir.was_clean() && fault.offset >= floor {
            return Ok(Some(fault.clone()));
        }
        let LogFault { path, position, offset, problem, .. } = fault;
        Err(StartError::Metadata(format!(
            "{path} is damaged at byte {position} (offset {offset}): {problem}; {ADVICE}"
        )))
    }

    /// The epoch after all that are known. The file has each before anything is written in it: one below those of the log is
    /// none of its states.
    fn next_epoch(
        &self,
        state: Option<&QuorumState>,
        snapshot: Option<LeaderEpoch>,
    ) -> Result<LeaderEpoch, StartError> {
        let logged = self.found.last_epoch.map(|(epoch, _)| epoch).max(snapshot);
        let said = state.map(|state| state.leader_epoch);
        let file = format!("{}/{QUORUM_STATE_FILE}", self.directory);
        if let (Some(logged), Some(said)) = (logged, said)
            && logged > said
        {
            return Err(StartError::Metadata(format!(
                "{file} says epoch {said}, and the log has records of epoch {logged}: one of them is damaged; {ADVICE}"
            )));
        }
        if said.is_none() && logged.is_some() {
            tracing::warn!(file, "the state of the quorum is missing: the epoch of the log counts");
        }
        let known = logged.max(said).map_or(0, |epoch| epoch.0);
        let next = known.checked_add(1).ok_or_else(|| {
            StartError::Metadata(format!("{file} says epoch {known}, after which there is none; {ADVICE}"))
        })?;
        Ok(LeaderEpoch(next))
    }
}
