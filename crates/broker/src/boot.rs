//! From a disk to a broker that serves: the metadata log, the controller's first words, the partitions, the
//! coordinators.
//!
//! Nothing is served meanwhile. What waits for a sync is driven here, in the calling thread; afterwards the edge does.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use fencepost_group::{GroupShard, Topics};
use fencepost_metadata::config::{
    InternalTopic, check_dynamic_broker_configs, offsets_topic, transaction_state_topic,
};
use fencepost_metadata::controller::{NewTopic, RegisterBroker, RegisterController};
use fencepost_metadata::image::{BrokerEpoch, Endpoint};
use fencepost_metadata::{BrokerConfig, Controller, Image, Reply, Request};
use fencepost_storage::{Disk, LogDir, MetaProperties, StorageError};
use fencepost_transaction::TransactionShard;
use fencepost_types::{ErrorCode, Now, TopicPartition, Uuid};

use crate::Broker;
use crate::apis::Apis;
use crate::connection::Listener;
use crate::edge::Edge;
use crate::group_coordinator::{GroupCell, OFFSETS_TOPIC};
use crate::handlers::fetch::FetchSessions;
use crate::metadata_log::{CONTROLLER_LISTENER, CONTROLLER_PORT_STEP, Judged, METADATA_TOPIC, MetadataLog};
use crate::producer_budget::ProducerBudget;
use crate::runtime::{Answer, ShardCell};
use crate::settings::BrokerSettings;
use crate::shard_configs::transaction_config;
use crate::transactions::{TRANSACTION_STATE_TOPIC, TransactionCell};

/// Security protocol PLAINTEXT in a registration.
const PLAINTEXT: i16 = 0;

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log directory, or a log in it, cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A setting is wrong.
    #[error("{0}")]
    Setting(String),
    /// The metadata log does not say what it must.
    #[error("the metadata log: {0}")]
    Metadata(String),
    /// A coordinator's log cannot be loaded.
    #[error("loading {partition}: {code}")]
    Load {
        /// Which partition.
        partition: TopicPartition,
        /// What is wrong.
        code: ErrorCode,
    },
}

impl Broker {
    /// Recovers what is on the disk and becomes ready to serve: when this returns, the first request of every kind
    /// succeeds. `clock` is read as time goes by.
    pub fn start(
        disk: Arc<dyn Disk>,
        edge: Arc<dyn Edge>,
        settings: BrokerSettings,
        listener: Listener,
        clock: &dyn Fn() -> Now,
    ) -> Result<Arc<Self>, StartError> {
        let new = MetaProperties {
            cluster_id: Uuid::from_random(edge.random()).to_text(),
            node_id: settings.node_id,
            directory_id: Some(Uuid::from_random(edge.random())),
        };
        // Nothing is written before everything has been read that may keep us from starting.
        let config = BrokerConfig::from_static(&settings.statics);
        let apis = Apis::limited(&config.api_versions_max, config.unstable_api_versions_enable)
            .map_err(StartError::Setting)?;
        let log_dir = LogDir::look(Arc::clone(&disk), new)?;
        let judged = Judged::of(&log_dir, &settings)?;
        check_dynamic_broker_configs(judged.image().configs(), settings.node_id)
            .map_err(|error| StartError::Setting(error.to_string()))?;
        for file in log_dir.unreadable_files() {
            tracing::warn!(file, "a checkpoint cannot be read and counts as missing: {}", lost_with(file));
        }
        log_dir.take_over()?;
        let (metadata_log, metadata_snapshots) = MetadataLog::open(&log_dir, judged, &settings, clock())?;
        let is_suspect = metadata_log.is_suspect;
        let broker = Arc::new(Self {
            node_id: settings.node_id,
            cluster_id: log_dir.meta().cluster_id.clone(),
            directory_id: log_dir.directory_id(),
            listener,
            disk,
            log_dir,
            edge,
            statics: ArcSwap::from_pointee(settings.statics.clone()),
            settings,
            log_limits: Default::default(),
            apis,
            deadlines: Default::default(),
            chores: Default::default(),
            turns: Default::default(),
            sync_queue: Default::default(),
            log_starts: Default::default(),
            partitions: Default::default(),
            producer_budget: ProducerBudget::new(&config),
            cleaner: Default::default(),
            transactions: Default::default(),
            producer_ids: Default::default(),
            groups: Default::default(),
            fetch_sessions: FetchSessions::new(&config),
            controller: Arc::clone(&metadata_log.controller),
            controller_turns: Default::default(),
            metadata_snapshots,
            image: ArcSwap::from_pointee(Image::default()),
            topics: ArcSwap::from_pointee(Topics::default()),
            config: ArcSwap::from_pointee(config),
            open: AtomicBool::new(false),
            publishing: Mutex::new(()),
            stopping: AtomicBool::new(false),
            log_dir_is_offline: AtomicBool::new(false),
            broker_epoch: Mutex::new(BrokerEpoch::NONE),
        });
        broker.lead_metadata(metadata_log, clock)?;
        broker.register(clock)?;
        broker.set_aside_strays(is_suspect)?;
        broker.open_partitions(clock)?;
        broker.load_coordinators(clock)?;
        broker.enter(clock(), |broker, cx| broker.start_housekeeping(cx));
        Ok(broker)
    }

    /// Registers this node, makes the internal topics if they are missing, and takes the leaderships.
    fn register(self: &Arc<Self>, clock: &dyn Fn() -> Now) -> Result<(), StartError> {
        let incarnation_id = Uuid::from_random(self.edge.random());
        let endpoint = |listener: &str, port: u16| Endpoint {
            listener: listener.to_owned(),
            host: self.listener.host.clone(),
            port,
            security_protocol: PLAINTEXT,
        };
        let controller_port = self.listener.port.wrapping_add(CONTROLLER_PORT_STEP);
        let controller = RegisterController {
            incarnation_id,
            endpoints: vec![endpoint(CONTROLLER_LISTENER, controller_port)],
        };
        self.drive(Request::RegisterController(controller), clock)?;
        let broker = RegisterBroker {
            incarnation_id,
            endpoints: vec![endpoint(&self.listener.name, self.listener.port)],
            rack: self.rack(),
            directories: vec![self.directory_id],
            previous_epoch: self.log_dir.clean_broker_epoch().map_or(BrokerEpoch::NONE, BrokerEpoch),
        };
        let Reply::Registered { epoch } = self.drive(Request::RegisterBroker(broker), clock)? else {
            return Err(StartError::Metadata("a registration was answered with something else".to_owned()));
        };
        *self.broker_epoch.lock().expect("no holder of this lock panics") = epoch;
        self.drive(Request::UnfenceBroker, clock)?;
        self.create_internal_topics(clock)
    }

    fn create_internal_topics(self: &Arc<Self>, clock: &dyn Fn() -> Now) -> Result<(), StartError> {
        let config = self.config();
        let missing = |topic: &InternalTopic| {
            self.controller().read(|controller| controller.image().topic_by_name(topic.name).is_none())
        };
        let topics = [offsets_topic(&config), transaction_state_topic(&config)];
        let topics: Vec<NewTopic> = topics
            .into_iter()
            .filter(missing)
            .map(|topic| NewTopic {
                name: topic.name.to_owned(),
                id: Uuid::from_random(self.edge.random()),
                num_partitions: topic.partitions,
                replication_factor: topic.replication_factor,
                assignments: Vec::new(),
                configs: topic.configs.into_iter().map(|(key, value)| (key, Some(value))).collect(),
            })
            .collect();
        if topics.is_empty() {
            return Ok(());
        }
        match self.drive(Request::CreateTopics { topics, validate_only: false }, clock)? {
            Reply::CreateTopics(results) => {
                let failed = results.into_iter().find_map(|(name, result)| Some((name, result.err()?)));
                match failed {
                    None => Ok(()),
                    Some((name, refusal)) => {
                        Err(StartError::Metadata(format!("{name} cannot be created: {refusal:?}")))
                    }
                }
            }
            other => Err(StartError::Metadata(format!("CreateTopics was answered {other:?}"))),
        }
    }

    /// Publishes what the metadata log says: opens the log of every partition that is ours.
    fn open_partitions(self: &Arc<Self>, clock: &dyn Fn() -> Now) -> Result<(), StartError> {
        let image = Arc::new(self.controller().read(|controller| controller.image().clone()));
        self.enter(clock(), |broker, cx| broker.publish_first(cx, image))?;
        self.forget_strangers()?;
        self.open.store(true, std::sync::atomic::Ordering::Release);
        Ok(())
    }

    /// Replays the logs of both coordinators, and lets what is owed go out.
    fn load_coordinators(self: &Arc<Self>, clock: &dyn Fn() -> Now) -> Result<(), StartError> {
        let (image, config) = (self.image(), self.config());
        let group_config = Arc::new(self.group_config(&image, &config));
        let transaction_config = transaction_config(&image, &config);
        let mut groups: BTreeMap<_, Arc<GroupCell>> = BTreeMap::new();
        let mut transactions: BTreeMap<_, Arc<TransactionCell>> = BTreeMap::new();
        let damaged = self.damaged_partitions();
        for partition in self.partitions.all() {
            let name = partition.name.clone();
            if damaged.contains(&name) {
                continue;
            }
            let load = Arc::clone(&partition);
            let failed = match &*name.topic {
                OFFSETS_TOPIC => {
                    let shard = GroupShard::new(Arc::clone(&group_config));
                    ShardCell::load(load, shard).map(|cell| groups.insert(name.partition, cell)).err()
                }
                TRANSACTION_STATE_TOPIC => {
                    let shard = TransactionShard::new(transaction_config.clone());
                    ShardCell::load(load, shard).map(|cell| transactions.insert(name.partition, cell)).err()
                }
                _ => None,
            };
            if let Some(code) = failed {
                // A part of its state is worse than none: this shard is not there, the others are.
                let problem = format!("the coordinator's state cannot be loaded from it: {code}");
                self.enter(clock(), |broker, cx| broker.partition_damaged(cx, &partition, &problem));
            }
        }
        let count = |topic: &str| image.topic_by_name(topic).map_or(0, |topic| topic.partitions.len() as i32);
        self.groups.install(count(OFFSETS_TOPIC), groups);
        self.transactions.install(count(TRANSACTION_STATE_TOPIC), transactions);
        self.enter(clock(), |broker, cx| {
            for cell in broker.groups.all() {
                cell.start(broker, cx.now);
            }
            // A crash may have come between the deletion of a topic and the tombstones of its offsets.
            broker.forget_offsets(cx, Vec::new());
            for cell in broker.transactions.all() {
                cell.start(broker, cx.now);
                cell.send_all_markers(broker, cx);
            }
        });
        Ok(())
    }

    /// Directories that the metadata does not know are put aside, so that nothing is served from them: a topic that is not
    /// there, or not by that id. Where the directory does not say whose it is (storage-formats §7.7) it is ours only as
    /// long as there is nothing in it. Where the metadata may have lost something (`is_suspect`) such a directory stays where
    /// it is.
    fn set_aside_strays(&self, is_suspect: bool) -> Result<(), StartError> {
        let image = self.controller().read(|controller| controller.image().clone());
        for directory in self.log_dir.partitions()? {
            let name = &directory.partition;
            if &*name.topic == METADATA_TOPIC {
                continue;
            }
            let topic = image.topic_by_name(&name.topic);
            let topic = topic.filter(|topic| topic.partitions.contains_key(&name.partition));
            let is_ours = match (topic, directory.topic_id) {
                (Some(topic), Some(topic_id)) => topic.id == topic_id,
                (Some(_), None) => !self.has_data(&name.to_string())?,
                (None, _) => false,
            };
            if topic.is_some() && !is_ours && self.log_dir.remembers_data(name) {
                // What says whose it is was damaged: opening the log says so.
                continue;
            }
            if !is_ours && is_suspect {
                tracing::warn!(partition = %name, "the metadata do not know this directory, and may have lost its topic: it stays");
            } else if !is_ours {
                let aside = self.log_dir.set_aside(name, self.edge.random())?;
                tracing::warn!(partition = %name, directory = aside, "a stray directory was put aside");
            }
        }
        Ok(())
    }

    fn has_data(&self, directory: &str) -> Result<bool, StorageError> {
        let entries = self.disk.list(directory)?;
        Ok(entries.iter().any(|entry| entry.name.ends_with(".log") && entry.bytes > 0))
    }

    /// Asks the controller, and syncs until it has answered.
    pub(crate) fn drive(
        self: &Arc<Self>,
        request: Request,
        clock: &dyn Fn() -> Now,
    ) -> Result<Reply, StartError> {
        let answered: Arc<Mutex<Option<Answer<Controller>>>> = Arc::default();
        let slot = Arc::clone(&answered);
        self.enter(clock(), |broker, cx| {
            let respond = Box::new(move |_: &Arc<Self>, _: &mut crate::Cx, answer| {
                *slot.lock().expect("no holder of this lock panics") = Some(answer);
            });
            broker.ask_controller(cx, request, respond);
        });
        loop {
            let answer = answered.lock().expect("no holder of this lock panics").take();
            match answer {
                Some(Ok(reply)) => return Ok(reply),
                Some(Err(error)) => return Err(StartError::Metadata(format!("{error:?}"))),
                None if self.sync_next(clock) => {}
                None => {
                    return Err(StartError::Metadata("a record is not durable after all syncs".to_owned()));
                }
            }
        }
    }
}

/// What is lost with a checkpoint that cannot be read.
fn lost_with(file: &str) -> &'static str {
    match file {
        "log-start-offset-checkpoint" => "records that were deleted before it may be there again",
        _ => "recovery takes longer",
    }
}
