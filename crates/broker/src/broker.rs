//! The engine as a whole: what it owns, and the ways into it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use fencepost_group::Topics;
use fencepost_metadata::image::BrokerEpoch;
use fencepost_metadata::keys::connection_limits;
use fencepost_metadata::{BrokerConfig, Image, StaticConfig};
use fencepost_storage::{Disk, LogDir};
use fencepost_types::{BrokerId, Nanos, Now, Uuid};

use crate::apis::Apis;
use crate::cleaning::Cleaner;
use crate::connection::Listener;
use crate::controller::ControllerCell;
use crate::cx::{Cx, Task};
use crate::deadlines::{DeadlineKey, Deadlines, Lane, Turns};
use crate::edge::Edge;
use crate::group_coordinator::{GroupCoordinator, OFFSETS_TOPIC};
use crate::handlers::fetch::FetchSessions;
use crate::log_limit::LogLimits;
use crate::log_starts::LogStarts;
use crate::metadata_log::{ControllerTurns, MetadataSnapshots};
use crate::partitions::Partitions;
use crate::producer_budget::ProducerBudget;
use crate::settings::{BrokerSettings, ConnectionLimits, SocketOptions};
use crate::sync::{Durability, SyncQueue};
use crate::transactions::{ProducerIds, TRANSACTION_STATE_TOPIC, TransactionCoordinator};

/// One broker. Shared by everything that calls into it; see the page of this crate.
pub struct Broker {
    pub(crate) node_id: BrokerId,
    pub(crate) cluster_id: String,
    pub(crate) directory_id: Uuid,
    pub(crate) listener: Listener,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) log_dir: LogDir,
    pub(crate) edge: Arc<dyn Edge>,
    pub(crate) settings: BrokerSettings,
    /// The settings given at the start, with what has been read again since.
    pub(crate) statics: ArcSwap<StaticConfig>,
    pub(crate) log_limits: LogLimits,
    pub(crate) apis: Apis,
    pub(crate) deadlines: Deadlines,
    pub(crate) chores: Deadlines,
    /// Whose turn it is among the shards that have something to do which can wait.
    pub(crate) turns: Turns,
    pub(crate) sync_queue: SyncQueue,
    pub(crate) log_starts: LogStarts,
    pub(crate) partitions: Partitions,
    pub(crate) producer_budget: ProducerBudget,
    pub(crate) cleaner: Cleaner,
    pub(crate) transactions: TransactionCoordinator,
    pub(crate) producer_ids: ProducerIds,
    pub(crate) groups: GroupCoordinator,
    pub(crate) fetch_sessions: FetchSessions,
    pub(crate) controller: Arc<ControllerCell>,
    /// Who waits for the controller.
    pub(crate) controller_turns: ControllerTurns,
    /// When the next snapshot of the metadata is due.
    pub(crate) metadata_snapshots: MetadataSnapshots,
    /// What the metadata log says, as far as it is durable.
    pub(crate) image: ArcSwap<Image>,
    /// The topics of `image` as groups see them.
    pub(crate) topics: ArcSwap<Topics>,
    /// Settings that may change while we run.
    pub(crate) config: ArcSwap<BrokerConfig>,
    /// Whether the start is over: from then on every new image is published.
    pub(crate) open: AtomicBool,
    /// Held while an image is being published: images take their turn. Goes before every other lock.
    pub(crate) publishing: Mutex<()>,
    /// Whether a clean stop has begun: nothing waits any more for what may never come.
    pub(crate) stopping: AtomicBool,
    /// Whether the log directory has failed: nothing is acknowledged any more.
    pub(crate) log_dir_is_offline: AtomicBool,
    /// The epoch of this process's registration.
    pub(crate) broker_epoch: Mutex<BrokerEpoch>,
}

impl Broker {
    /// Runs everything that is due at `now`, in both lanes.
    pub fn tick(self: &Arc<Self>, now: Now) {
        Lane::ALL.into_iter().for_each(|lane| self.tick_lane(lane, now));
    }

    /// When [`Self::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Nanos> {
        Lane::ALL.into_iter().filter_map(|lane| self.next_deadline_of(lane)).min()
    }

    /// Runs everything that is due in one lane. Each lane has a thread of its own: what is due to clients does not wait for
    /// a chore.
    pub fn tick_lane(self: &Arc<Self>, lane: Lane, now: Now) {
        self.enter(now, |broker, cx| broker.lane(lane).take_due(now, cx));
    }

    /// When [`Self::tick_lane`] has something to do next.
    pub fn next_deadline_of(&self, lane: Lane) -> Option<Nanos> {
        self.lane(lane).next()
    }

    fn lane(&self, lane: Lane) -> &Deadlines {
        match lane {
            Lane::Prompt => &self.deadlines,
            Lane::Chores => &self.chores,
        }
    }

    /// The way in: runs `act`, then every task that was woken, without a lock.
    pub(crate) fn enter<T>(self: &Arc<Self>, now: Now, act: impl FnOnce(&Arc<Self>, &mut Cx) -> T) -> T {
        let mut cx = Cx::new(now);
        let result = act(self, &mut cx);
        cx.run(self);
        result
    }

    /// Runs `task` at `at`, and lets the edge know if that is the next thing due.
    pub(crate) fn add_deadline(&self, at: Nanos, task: Task) -> DeadlineKey {
        let key = self.deadlines.add(at, task);
        if self.deadlines.next() == Some(at) {
            self.edge.deadline_changed(at);
        }
        key
    }

    /// Runs a chore at `at`, in its lane.
    pub(crate) fn add_chore(&self, at: Nanos, task: Task) {
        self.chores.add(at, task);
        if self.chores.next() == Some(at) {
            self.edge.chores_changed(at);
        }
    }

    /// What the metadata log says, as far as it is durable.
    pub(crate) fn image(&self) -> Arc<Image> {
        self.image.load_full()
    }

    /// The topics there are, as groups see them.
    pub(crate) fn topic_facts(&self) -> Arc<Topics> {
        self.topics.load_full()
    }

    /// The settings in force.
    pub(crate) fn config(&self) -> Arc<BrokerConfig> {
        self.config.load_full()
    }

    /// Whether the start is over.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether a clean stop has begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Panics if an invariant is broken. Called after every step in tests and in the simulator.
    pub fn check(&self) {
        for cell in self.transactions.all() {
            cell.read(fencepost_coordinator::Shard::check);
        }
        for cell in self.groups.all() {
            cell.read(fencepost_coordinator::Shard::check);
        }
    }

    /// The embedded controller.
    pub(crate) fn controller(&self) -> &Arc<ControllerCell> {
        &self.controller
    }

    /// Whether clients may not write to a topic by themselves.
    pub(crate) fn is_internal(&self, topic: &str) -> bool {
        topic == OFFSETS_TOPIC || topic == TRANSACTION_STATE_TOPIC
    }

    /// `transaction.partition.verification.enable`.
    pub(crate) fn verifies_transactions(&self) -> bool {
        self.config.load().transaction_partition_verification_enable
    }

    /// This node's rack.
    pub(crate) fn rack(&self) -> Option<String> {
        self.statics().get("broker.rack").map(str::to_owned)
    }

    /// `socket.request.max.bytes`: the largest frame.
    pub fn request_bytes_max(&self) -> usize {
        self.config.load().socket_request_max_bytes.max(0) as usize
    }

    /// Where metrics are served, as HOST:PORT; `None`: nowhere.
    pub fn metrics_listener(&self) -> Option<String> {
        self.config().metrics_listener.clone()
    }

    /// `connections.max.idle.ms`: how long a connection may say nothing.
    pub fn connection_idle_ms_max(&self) -> i64 {
        self.config.load().connections_max_idle_ms
    }

    /// How many connections may be open, and what each is opened with. Looked at for each new one: the limits can change.
    pub fn connection_limits(&self) -> ConnectionLimits {
        let config = self.config.load();
        let overrides = connection_limits(&config.max_connections_per_ip_overrides);
        ConnectionLimits {
            connections_max: config.max_connections.max(0) as usize,
            per_address_max: config.max_connections_per_ip.max(0) as usize,
            per_address_overrides: overrides.unwrap_or_default(),
        }
    }

    /// Backlog and buffers of the listener's socket.
    pub fn socket_options(&self) -> SocketOptions {
        let config = self.config.load();
        let bytes = |bytes: i32| u32::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        SocketOptions {
            backlog: config.socket_listen_backlog_size.max(1) as u32,
            send_buffer_bytes: bytes(config.socket_send_buffer_bytes),
            receive_buffer_bytes: bytes(config.socket_receive_buffer_bytes),
        }
    }

    /// When an acknowledged record survives what.
    pub(crate) fn durability(&self) -> Durability {
        self.settings.durability
    }
}
