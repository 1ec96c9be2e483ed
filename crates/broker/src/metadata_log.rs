//! The metadata log at a start: whose it is, the snapshot that it goes on from, the epoch in which we lead it, and the
//! first records of an empty one.
//!
//! The directory may come from Apache Kafka: a node of its own that was stopped, or one that was only formatted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_metadata::quorum::{
    QUORUM_STATE_FILE, QuorumState, Voter, VoterEndpoint, parse_checkpoint_file_name,
};
use fencepost_metadata::{
    BrokerConfig, Controller, Image, ImageFold, Request, StaticConfig, TopicConfig, features, read_snapshot,
};
use fencepost_records::{AppendRules, Batches};
use fencepost_storage::{
    Disk, DiskErrorKind, Log, LogConfig, LogDir, Recovery, StorageError, write_atomically,
};
use fencepost_types::{BrokerId, LeaderEpoch, Now, Offset, TopicPartition, Uuid};

use crate::Broker;
use crate::boot::StartError;
use crate::controller::{ControllerCell, FirstLeadership};
use crate::partition::Partition;
use crate::runtime::ShardCell;
use crate::settings::BrokerSettings;

/// Name of the topic that holds the metadata log.
pub(crate) const METADATA_TOPIC: &str = "__cluster_metadata";
/// The name of a controller's listener.
pub(crate) const CONTROLLER_LISTENER: &str = "CONTROLLER";
/// The controller's port beside the broker's, as Kafka's examples have it.
pub(crate) const CONTROLLER_PORT_STEP: u16 = 1;
/// What Kafka's format tool left in the log directory up to version 4.3; later ones leave a snapshot that ends at 0.
const BOOTSTRAP_FILE: &str = "bootstrap.checkpoint";
/// No snapshot is longer: a million partitions take a tenth of it.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;
/// `quorum-state` is one short line.
const QUORUM_STATE_BYTES_MAX: u64 = 1 << 20;

/// The metadata log of a node that has not begun to lead it.
pub(crate) struct MetadataLog {
    /// The controller over it, with everything replayed.
    pub(crate) controller: Arc<ControllerCell>,
    /// The epoch in which we lead it.
    epoch: LeaderEpoch,
    /// What a format tool has left for an empty log to begin with.
    bootstrap: Option<Image>,
}

impl MetadataLog {
    /// Opens the metadata log and replays it, from its newest snapshot on.
    ///
    /// Errors: the log cannot be read, begins above 0 without a snapshot, or belongs to a quorum of which we are not the
    /// only voter.
    pub(crate) fn open(log_dir: &LogDir, settings: &BrokerSettings, now: Now) -> Result<Self, StartError> {
        let name = TopicPartition::new(METADATA_TOPIC, 0);
        let directory = name.to_string();
        let disk = &**log_dir.disk();
        let (log, snapshot) = open_log(log_dir, &name, settings, now)?;
        let state = read_state(disk, &directory)?;
        let known = [
            log.latest_leader_epoch(),
            state.as_ref().map(|state| state.leader_epoch),
            snapshot.as_ref().map(Image::epoch),
        ];
        let epoch = LeaderEpoch(known.into_iter().flatten().map(|epoch| epoch.0).max().unwrap_or(0) + 1);
        let (rules, topic_config) = (AppendRules::default(), TopicConfig::default());
        let partition = Partition::new(name, Uuid::METADATA_TOPIC, epoch, log, rules, &topic_config);
        let statics: Arc<StaticConfig> = Arc::new(settings.statics.clone());
        let controller = load(partition, settings.node_id, statics, snapshot)?;
        let is_bootstrapped = controller.read(Controller::is_bootstrapped);
        let bootstrap = if is_bootstrapped { None } else { read_bootstrap(disk, &directory)? };
        let opened = Self { controller, epoch, bootstrap };
        opened.check_voters(settings.node_id, log_dir.directory_id(), state.as_ref())?;
        Ok(opened)
    }

    /// A node that leads alone what others vote on would write another log than theirs.
    fn check_voters(
        &self,
        node_id: BrokerId,
        directory_id: Uuid,
        state: Option<&QuorumState>,
    ) -> Result<(), StartError> {
        let logged = self.controller.read(|controller| controller.image().clone());
        let image = self.bootstrap.as_ref().filter(|_| !has_records(&logged)).unwrap_or(&logged);
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
        if !self.controller().read(Controller::is_bootstrapped) {
            let request = match opened.bootstrap {
                Some(image) => Request::BootstrapFrom(Box::new(image)),
                None => Request::Bootstrap,
            };
            self.drive(request, clock)?;
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
        let snapshot = newest_snapshot(&*self.disk, &directory)?;
        load(partition, self.node_id, Arc::new(self.settings.statics.clone()), snapshot)
    }
}

/// Whether an image has taken in anything at all.
fn has_records(image: &Image) -> bool {
    image.offset() >= Offset(0)
}

fn other_quorum(voters: Vec<String>) -> StartError {
    let voters = voters.join(", ");
    StartError::Metadata(format!(
        "this node is not the only voter of the metadata quorum; the voters are {voters}. A node alone may not lead it"
    ))
}

/// Opens the log, and answers the snapshot that it goes on from. A log that ends before the newest snapshot begins anew at
/// the end of that: its writer had taken the snapshot over from a leader and not yet cut the log.
///
/// Source: Kafka KafkaMetadataLog.apply.
fn open_log(
    log_dir: &LogDir,
    name: &TopicPartition,
    settings: &BrokerSettings,
    now: Now,
) -> Result<(Log, Option<Image>), StartError> {
    let config = BrokerConfig::from_static(&settings.statics);
    let log_config = LogConfig {
        segment_bytes: config.metadata_log_segment_bytes.max(0) as u64,
        segment_ms: config.metadata_log_segment_ms,
        ..LogConfig::default()
    };
    let log = log_dir.open_log(name.clone(), Uuid::METADATA_TOPIC, log_config.clone(), now)?;
    let snapshot = newest_snapshot(&**log_dir.disk(), &name.to_string())?;
    let log_start_offset = snapshot.as_ref().map_or(Offset(0), |image| image.offset().next());
    if log_start_offset <= log.log_end_offset() {
        return Ok((log, snapshot));
    }
    tracing::warn!(offset = %log_start_offset, "the metadata log ends before its newest snapshot and begins anew there");
    drop(log);
    let recovery = Recovery { log_start_offset, ..Recovery::default() };
    let disk = Arc::clone(log_dir.disk());
    let log = Log::open(disk, name.clone(), Uuid::METADATA_TOPIC, log_config, recovery, now)?;
    Ok((log, snapshot))
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

/// The newest snapshot that can be read. One that cannot is passed over with a warning: an older one and the log say the
/// same, unless the log was cut.
fn newest_snapshot(disk: &dyn Disk, directory: &str) -> Result<Option<Image>, StartError> {
    let mut found = BTreeMap::new();
    for entry in list(disk, directory)? {
        if let Some((end_offset, epoch)) = parse_checkpoint_file_name(&entry)
            && end_offset > Offset(0)
        {
            found.insert((end_offset, epoch), entry);
        }
    }
    for ((end_offset, epoch), file) in found.into_iter().rev() {
        let path = format!("{directory}/{file}");
        let Some(bytes) = read_whole(disk, &path, SNAPSHOT_BYTES_MAX)? else { continue };
        match read_snapshot(bytes, end_offset, epoch) {
            Ok(image) => return Ok(Some(image)),
            Err(error) => tracing::warn!(path, %error, "a snapshot of the metadata cannot be read"),
        }
    }
    Ok(None)
}

/// What a format tool has left for the first start. `None` where nothing is there, or nothing in it says a level.
///
/// Source: KIP-1170, Kafka BootstrapDirectory.
fn read_bootstrap(disk: &dyn Disk, directory: &str) -> Result<Option<Image>, StartError> {
    let path = format!("{directory}/{:020}-{:010}.checkpoint", 0, 0);
    if let Some(bytes) = read_whole(disk, &path, SNAPSHOT_BYTES_MAX)? {
        return match read_snapshot(bytes, Offset(0), LeaderEpoch(0)) {
            Ok(image) => Ok(image.metadata_version().is_some().then_some(image)),
            Err(error) => Err(StartError::Metadata(format!("{path}: {error}"))),
        };
    }
    let Some(bytes) = read_whole(disk, BOOTSTRAP_FILE, SNAPSHOT_BYTES_MAX)? else { return Ok(None) };
    let mut fold = ImageFold::default();
    let broken = |error: String| StartError::Metadata(format!("{BOOTSTRAP_FILE}: {error}"));
    for batch in Batches::new(bytes) {
        let batch = batch.map_err(|error| broken(error.to_string()))?;
        batch.verify_crc().map_err(|error| broken(error.to_string()))?;
        fold.replay_batch(&batch).map_err(|error| broken(error.to_string()))?;
    }
    let image = fold.image().clone().as_of(Offset(0), LeaderEpoch(0));
    Ok(image.metadata_version().is_some().then_some(image))
}

/// The file `quorum-state`. One that cannot be read counts as missing: the log knows the epochs in which it was written.
fn read_state(disk: &dyn Disk, directory: &str) -> Result<Option<QuorumState>, StartError> {
    let path = format!("{directory}/{QUORUM_STATE_FILE}");
    let Some(content) = read_whole(disk, &path, QUORUM_STATE_BYTES_MAX)? else { return Ok(None) };
    let state = std::str::from_utf8(&content).ok().and_then(QuorumState::parse);
    if state.is_none() {
        tracing::warn!(path, "the state of the quorum cannot be read and counts as missing");
    }
    Ok(state)
}

fn list(disk: &dyn Disk, directory: &str) -> Result<Vec<String>, StartError> {
    match disk.list(directory) {
        Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
        Err(error) if error.kind == DiskErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StorageError::from(error).into()),
    }
}

/// A whole file of at most `bytes_max` bytes; `None` if there is none.
fn read_whole(disk: &dyn Disk, path: &str, bytes_max: u64) -> Result<Option<Bytes>, StartError> {
    let file = match disk.open(path) {
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(StorageError::from)?,
    };
    let bytes = file.bytes().map_err(StorageError::from)?;
    if bytes > bytes_max {
        return Err(StartError::Metadata(format!("{path} has {bytes} bytes, more than {bytes_max}")));
    }
    Ok(Some(file.read(0, bytes as usize).map_err(StorageError::from)?))
}
