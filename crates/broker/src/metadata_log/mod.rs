//! The metadata log at a start: whether it is whole and whose it is, the snapshot that it goes on from, the epoch in which we
//! lead it, and the first records of an empty one.
//!
//! The directory may come from Apache Kafka: a node of its own that was stopped, or one that was only formatted.

mod files;
mod judge;
mod snapshots;
mod turns;

use std::sync::Arc;

use fencepost_metadata::quorum::{QUORUM_STATE_FILE, QuorumState, Voter, VoterEndpoint};
use fencepost_metadata::{BrokerConfig, Controller, Image, Request, StaticConfig, TopicConfig, features};
use fencepost_records::AppendRules;
use fencepost_storage::{
    Checkpoint, DiskErrorKind, Log, LogConfig, LogDir, Recovery, StorageError, write_atomically,
};
use fencepost_types::{BrokerId, LeaderEpoch, Now, Offset, TopicPartition, Uuid};

use crate::Broker;
use crate::boot::StartError;
use crate::controller::{ControllerCell, FirstLeadership};
use crate::partition::Partition;
use crate::runtime::ShardCell;
use crate::settings::BrokerSettings;

pub(crate) use judge::Judged;
pub(crate) use snapshots::MetadataSnapshots;
pub(crate) use turns::ControllerTurns;

/// Name of the topic that holds the metadata log.
pub(crate) const METADATA_TOPIC: &str = "__cluster_metadata";
/// The name of a controller's listener.
pub(crate) const CONTROLLER_LISTENER: &str = "CONTROLLER";
/// The controller's port beside the broker's, as Kafka's examples have it.
pub(crate) const CONTROLLER_PORT_STEP: u16 = 1;
/// The metadata log of a node that has not begun to lead it.
pub(crate) struct MetadataLog {
    /// The controller over it, with everything replayed.
    pub(crate) controller: Arc<ControllerCell>,
    /// The epoch in which we lead it.
    epoch: LeaderEpoch,
    /// What a format tool has left for an empty log to begin with.
    bootstrap: Option<Image>,
    /// Whether records may be missing that were once written, see [`Judged::is_suspect`].
    pub(crate) is_suspect: bool,
}

impl MetadataLog {
    /// Opens the log that was judged, and cuts off what is torn. From here on the disk is written to. Says also when the next
    /// snapshot is due.
    ///
    /// Errors: the disk; or the log is not what it was a moment ago.
    pub(crate) fn open(
        log_dir: &LogDir,
        judged: Judged,
        settings: &BrokerSettings,
        now: Now,
    ) -> Result<(Self, MetadataSnapshots), StartError> {
        let is_suspect = judged.is_suspect();
        files::remove_unfinished(&**log_dir.disk(), &TopicPartition::new(METADATA_TOPIC, 0).to_string())?;
        let log = open_log(log_dir, &judged, settings, now)?;
        let Judged { controller, epoch, bootstrap, end_offset, torn, .. } = judged;
        let bytes_below = log.size_bytes().saturating_sub(judged.bytes_since_snapshot);
        let snapshots = MetadataSnapshots::new(judged.snapshot_end, bytes_below, now.mono);
        if let Some(torn) = torn {
            tracing::warn!(
                file = torn.path, position = torn.position, bytes = torn.bytes, batches = 1, offset = %torn.offset,
                "the last write to the metadata log was torn in a crash before anybody was told of it, and is cut off"
            );
        }
        if log.log_end_offset() != end_offset {
            let found = log.log_end_offset();
            let sentence = format!("the log was read to offset {end_offset}, and opened to {found}");
            return Err(StartError::Metadata(sentence));
        }
        let (rules, topic_config) = (AppendRules::default(), TopicConfig::default());
        let name = TopicPartition::new(METADATA_TOPIC, 0);
        let partition = Partition::new(name.clone(), Uuid::METADATA_TOPIC, epoch, log, rules, &topic_config);
        // Everything up to its end is in it already.
        let controller = ShardCell::load_from(partition, controller, end_offset)
            .map_err(|code| StartError::Load { partition: name, code })?;
        Ok((Self { controller, epoch, bootstrap, is_suspect }, snapshots))
    }

    /// How an empty log begins: as a format tool has said, or as a new node of ours does.
    fn first_leadership(&self, voter: Voter) -> FirstLeadership {
        match &self.bootstrap {
            Some(image) => {
                FirstLeadership { kraft_version: image.kraft_version(), voters: image.voters().to_vec() }
            }
            None => FirstLeadership { kraft_version: features::BOOTSTRAP_KRAFT_VERSION, voters: vec![voter] },
        }
    }
}

impl Broker {
    /// Begins our leadership of the metadata log; in an empty one also its first records. The epoch is on the disk before
    /// anything is written in it, so that no epoch is led twice.
    pub(crate) fn lead_metadata(
        self: &Arc<Self>,
        opened: MetadataLog,
        clock: &dyn Fn() -> Now,
    ) -> Result<(), StartError> {
        let epoch = opened.epoch;
        let first = opened.first_leadership(self.voter());
        let logged = self.controller().read(|controller| controller.image().clone());
        let kraft_version = if has_records(&logged) { logged.kraft_version() } else { first.kraft_version };
        let static_voters = (kraft_version == 0).then(|| vec![self.node_id]);
        let state = QuorumState { leader_id: self.node_id, leader_epoch: epoch, static_voters };
        let directory = self.controller().partition().name.to_string();
        self.disk.create_dir(&directory).map_err(StorageError::from)?;
        let path = format!("{directory}/{QUORUM_STATE_FILE}");
        write_atomically(&*self.disk, &path, state.to_json().as_bytes()).map_err(StorageError::from)?;
        let written =
            self.enter(clock(), |broker, cx| broker.controller().begin_leadership(broker, cx, epoch, &first));
        written.map_err(|code| StartError::Metadata(format!("our leadership cannot be written: {code}")))?;
        // One write after the other, as the controller's requests do.
        while self.sync_next(clock) {}
        if !self.controller().read(Controller::is_bootstrapped) {
            let request = match opened.bootstrap {
                Some(image) => Request::BootstrapFrom(Box::new(image)),
                None => Request::Bootstrap,
            };
            self.drive(request, clock)?;
            // From here on the directory is in use, and says so.
            let noted = [Checkpoint::RecoveryPoint, Checkpoint::HighWatermark];
            self.log_dir.write_checkpoints(&noted, || self.log_offsets())?;
        }
        Ok(())
    }

    fn voter(&self) -> Voter {
        let endpoint = VoterEndpoint {
            listener: CONTROLLER_LISTENER.to_owned(),
            host: self.listener.host.clone(),
            port: self.listener.port.wrapping_add(CONTROLLER_PORT_STEP),
        };
        Voter { id: self.node_id, directory_id: self.directory_id, endpoints: vec![endpoint] }
    }

    /// A controller whose state is what the disk says of the metadata, apart from the running one.
    pub(crate) fn reload_controller(&self) -> Result<Arc<ControllerCell>, StartError> {
        let partition = self.controller().partition().clone();
        let directory = partition.name.to_string();
        let ids = files::snapshots(&*self.disk, &directory)?;
        let snapshot = files::newest_snapshot(&*self.disk, &directory, &ids)?.image;
        load(partition, self.node_id, self.statics(), snapshot)
    }
}

/// Whether an image has taken in anything at all.
fn has_records(image: &Image) -> bool {
    image.offset() >= Offset(0)
}

/// Opens the log with what is known of it: nothing in the checkpoints makes it lose what was judged to be whole.
///
/// Source: Kafka KafkaMetadataLog.apply.
fn open_log(
    log_dir: &LogDir,
    judged: &Judged,
    settings: &BrokerSettings,
    now: Now,
) -> Result<Log, StartError> {
    let name = TopicPartition::new(METADATA_TOPIC, 0);
    let config = BrokerConfig::from_static(&settings.statics);
    let log_config = LogConfig {
        segment_bytes: config.metadata_log_segment_bytes.max(0) as u64,
        segment_ms: config.metadata_log_segment_ms,
        // Nothing goes by itself: segments go with snapshots.
        retention_ms: -1,
        ..LogConfig::default()
    };
    let noted = |checkpoint| log_dir.offset(checkpoint, &name).unwrap_or(Offset(0));
    let recovery = Recovery {
        // The metadata log is always recovered from its recovery point (storage-formats §10).
        clean: false,
        recovery_point: noted(Checkpoint::RecoveryPoint).min(judged.end_offset),
        // Where deleted segments came back in part, the gap behind them is known.
        log_start_offset: noted(Checkpoint::LogStart).min(judged.snapshot_end).max(judged.first_offset),
        high_watermark: judged.end_offset,
        cleaner_checkpoint: None,
    };
    let open = || {
        let disk = Arc::clone(log_dir.disk());
        Log::open(disk, name.clone(), Uuid::METADATA_TOPIC, log_config.clone(), recovery, now)
    };
    let of_another = |id: Uuid| id != Uuid::METADATA_TOPIC;
    let found = log_dir.partitions()?.into_iter().find(|found| found.partition == name);
    if found.and_then(|found| found.topic_id).is_some_and(of_another) {
        make_anew(log_dir, &name, "partition.metadata")?;
    }
    let log = open()?;
    let last = judged.last_epoch.map(|(epoch, start)| (epoch, start.max(log.log_start_offset())));
    if log.leader_epochs().last().copied() == last {
        return Ok(log);
    }
    drop(log);
    make_anew(log_dir, &name, "leader-epoch-checkpoint")?;
    Ok(open()?)
}

/// Removes a file of the log's directory that says something else than the log. Opening the log writes it again.
fn make_anew(log_dir: &LogDir, name: &TopicPartition, file: &str) -> Result<(), StorageError> {
    let path = format!("{name}/{file}");
    tracing::warn!(path, "it does not fit the metadata log and is made anew");
    match log_dir.disk().remove(&path) {
        Err(error) if error.kind == DiskErrorKind::NotFound => Ok(()),
        removed => Ok(removed?),
    }
}

/// Replays the log into a controller, from where the snapshot ends.
fn load(
    partition: Arc<Partition>,
    node_id: BrokerId,
    statics: Arc<StaticConfig>,
    snapshot: Option<Image>,
) -> Result<Arc<ControllerCell>, StartError> {
    let name = partition.name.clone();
    let (start, end) = partition
        .with(|state| (state.log.log_start_offset(), state.log.log_end_offset()))
        .map_err(|code| StartError::Load { partition: name.clone(), code })?;
    let mut controller = Controller::new(node_id, statics);
    let from = match snapshot {
        Some(image) => {
            let from = image.offset().next();
            controller.load_snapshot(image);
            from
        }
        None => Offset(0),
    };
    if start > from {
        let sentence = format!("the log begins at offset {start}, and no snapshot reaches from 0 to there");
        return Err(StartError::Metadata(sentence));
    }
    let cell = ShardCell::load_from(partition, controller, from)
        .map_err(|code| StartError::Load { partition: name, code })?;
    if let Some(failure) = cell.read(|controller| controller.failure().cloned()) {
        return Err(StartError::Metadata(failure.to_string()));
    }
    let next = cell.read(Controller::next_offset);
    if next != end {
        let sentence = format!("the log was replayed to offset {next}, and ends at {end}");
        return Err(StartError::Metadata(sentence));
    }
    Ok(cell)
}
