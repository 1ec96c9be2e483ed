//! A broker in the test's own hands: memory for a disk, a clock that the test moves, syncs that the test runs one by one,
//! and clients whose answers come as values.

mod client;
mod disk;
mod producer;
pub mod requests;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fencepost_broker::metadata::StaticConfig;
use fencepost_broker::{
    Broker, BrokerSettings, ConnectionId, Durability, Edge, KnownWindows, Listener, Span, Standing, Work,
};
use fencepost_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, UpdateFeaturesRequest, create_topics_request,
    update_features_request,
};
use fencepost_storage::Disk;
use fencepost_types::{Millis, Nanos, Now, TopicPartition, Uuid};

pub use client::{Call, Client, OutcomeSlot};
pub use disk::TestDisk;
pub use producer::{Producer, batch, plain_batch, values_of};

/// Where every test's clock begins.
const START: Now = Now { wall: Millis(1_700_000_000_000), mono: Nanos(1_000_000_000) };
/// Kinds of UpdateFeatures: up, and down where nothing is lost.
const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
/// More syncs than any test needs: beyond them something goes in a circle.
const SYNCS_MAX: usize = 10_000;
/// The same for deadlines.
const TICKS_MAX: usize = 100_000;
/// The most random numbers that one world draws.
const DRAWN_ELSEWHERE_MAX: u64 = 1 << 32;

/// What the engine asked of its surroundings.
#[derive(Default)]
pub struct TestEdge {
    random: AtomicU64,
    /// How often a sync was asked for.
    pub syncs_wanted: AtomicUsize,
    /// How often the next deadline was said to have come nearer.
    pub deadlines_changed: AtomicUsize,
    /// Heavy work that is not done yet, in the order of its coming.
    works: Mutex<VecDeque<Work>>,
    /// The sentences with which the engine said that it cannot go on.
    pub stops: Mutex<Vec<String>>,
}

impl Edge for TestEdge {
    fn deadline_changed(&self, _: Nanos) {
        self.deadlines_changed.fetch_add(1, Ordering::Relaxed);
    }

    fn sync_needed(&self) {
        self.syncs_wanted.fetch_add(1, Ordering::Relaxed);
    }

    fn work(&self, work: Work) {
        self.works.lock().unwrap().push_back(work);
    }

    fn random(&self) -> u128 {
        // Different bits every time, and the same in every run.
        let number = self.random.fetch_add(1, Ordering::Relaxed) + 1;
        u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn stop(&self, sentence: &str) {
        self.stops.lock().unwrap().push(sentence.to_owned());
    }
}

/// A broker and all that is around it.
pub struct World {
    pub disk: TestDisk,
    pub settings: BrokerSettings,
    pub edge: Arc<TestEdge>,
    broker: RefCell<Option<Arc<Broker>>>,
    now: Cell<Now>,
    next_connection: Cell<u64>,
    holds_works: Cell<bool>,
}

impl World {
    /// A broker on an empty disk that acknowledges what is on the disk.
    pub fn new() -> Rc<Self> {
        Self::with(&[])
    }

    /// [`Self::new`] with settings beyond those of every test: small internal topics, no delay in groups.
    pub fn with(settings: &[(&str, &str)]) -> Rc<Self> {
        Self::on(&TestDisk::default(), settings)
    }

    /// [`Self::with`] on a copy of a disk.
    pub fn on(disk: &TestDisk, settings: &[(&str, &str)]) -> Rc<Self> {
        Self::with_durability(Durability::Fsync, disk, settings)
    }

    /// A broker on an empty disk that acknowledges what is in the page cache.
    pub fn page_cache() -> Rc<Self> {
        Self::page_cache_with(&[])
    }

    /// [`Self::page_cache`] with settings.
    pub fn page_cache_with(settings: &[(&str, &str)]) -> Rc<Self> {
        Self::with_durability(Durability::PageCache, &TestDisk::default(), settings)
    }

    fn with_durability(durability: Durability, disk: &TestDisk, settings: &[(&str, &str)]) -> Rc<Self> {
        let settings = broker_settings(durability, settings);
        let disk = disk.copy();
        // Another world may have drawn its topic ids for what is on the disk.
        let is_used = !disk.list("").unwrap_or_default().is_empty();
        let drawn = if is_used { DRAWN_ELSEWHERE_MAX } else { 0 };
        let world = Self {
            disk,
            settings,
            edge: Arc::new(TestEdge { random: AtomicU64::new(drawn), ..TestEdge::default() }),
            broker: RefCell::new(None),
            now: Cell::new(START),
            next_connection: Cell::new(0),
            holds_works: Cell::new(false),
        };
        world.start();
        Rc::new(world)
    }

    /// The sentence with which a start with these settings is refused.
    pub fn refusal(settings: &[(&str, &str)]) -> String {
        let started = Broker::start(
            Arc::new(TestDisk::default()) as Arc<dyn Disk>,
            Arc::new(TestEdge::default()) as Arc<dyn Edge>,
            broker_settings(Durability::Fsync, settings),
            listener(),
            &|| START,
        );
        started.err().expect("the start is refused").to_string()
    }

    /// Starts a broker on whatever is on the disk.
    pub fn start(&self) {
        let started = Broker::start(
            Arc::new(self.disk.clone()) as Arc<dyn Disk>,
            Arc::clone(&self.edge) as Arc<dyn Edge>,
            self.settings.clone(),
            listener(),
            &|| self.now.get(),
        );
        *self.broker.borrow_mut() = Some(started.unwrap());
        self.check();
    }

    /// The process is gone, without a word. What it wrote is there: only a crash of the machine would lose that.
    pub fn kill(&self) {
        let broker = self.broker.borrow_mut().take().expect("a broker runs");
        self.edge.works.lock().unwrap().clear();
        assert_eq!(Arc::strong_count(&broker), 1, "somebody keeps the broker alive");
    }

    /// [`Self::kill`], then [`Self::start`]. Nothing is synced that was not asked to be.
    pub fn restart(&self) {
        self.kill();
        self.start();
    }

    /// A clean stop, then a start.
    pub fn stop_and_start(&self) {
        self.broker().stop(&|| self.now()).unwrap();
        self.restart();
    }

    /// The running broker.
    pub fn broker(&self) -> Arc<Broker> {
        Arc::clone(self.broker.borrow().as_ref().expect("a broker runs"))
    }

    /// The test's time.
    pub fn now(&self) -> Now {
        self.now.get()
    }

    /// Makes one dirty partition durable; `false` when there is none.
    pub fn sync_one(&self) -> bool {
        let synced = self.broker().sync_next(|| self.now());
        self.do_works();
        synced
    }

    /// From now on heavy work is done when the test says so ([`Self::work_one`]); else as soon as it comes.
    pub fn hold_works(&self) {
        self.holds_works.set(true);
    }

    /// Does one piece of heavy work; answers whose it was.
    pub fn work_one(&self) -> Option<ConnectionId> {
        let work = self.edge.works.lock().unwrap().pop_front()?;
        let connection = work.connection;
        work.run(self.now());
        Some(connection)
    }

    /// How long the oldest piece of heavy work may take.
    pub fn span_of_work(&self) -> Option<Span> {
        self.edge.works.lock().unwrap().front().map(|work| work.span)
    }

    /// How many pieces of heavy work there are to be done.
    pub fn works(&self) -> usize {
        self.edge.works.lock().unwrap().len()
    }

    fn do_works(&self) {
        while !self.holds_works.get() && self.work_one().is_some() {}
    }

    /// Makes partitions durable one after the other until `done`. Panics when there is nothing left to sync.
    pub fn sync_until(&self, done: impl Fn() -> bool) {
        while !done() {
            assert!(self.sync_one(), "everything is durable, and still it is not so");
        }
    }

    /// Runs all syncs and what is due now, until nothing is left to do; then checks every invariant.
    pub fn settle(&self) {
        for _ in 0..SYNCS_MAX {
            let synced = self.sync_one();
            let ticked = self.tick_if_due();
            if !synced && !ticked {
                self.check();
                return;
            }
        }
        panic!("{SYNCS_MAX} syncs, and still something to do");
    }

    /// Time goes by: everything that becomes due runs at its own time.
    pub fn advance_ms(&self, span_ms: i64) {
        let from = self.now();
        let end = Now { wall: from.wall.plus(span_ms), mono: from.mono.plus_ms(span_ms) };
        for _ in 0..TICKS_MAX {
            match self.broker().next_deadline().filter(|at| *at <= end.mono) {
                Some(at) if at > self.now().mono => {
                    let later_ns = at.0 - from.mono.0;
                    let wall = from.wall.plus((later_ns / 1_000_000) as i64);
                    self.now.set(Now { wall, mono: at });
                    self.tick_if_due();
                }
                Some(_) => {
                    self.tick_if_due();
                }
                None => {
                    self.now.set(end);
                    return;
                }
            }
        }
        panic!("{TICKS_MAX} ticks, and still something is due");
    }

    /// Somebody sets the wall clock; no time goes by.
    pub fn step_wall_ms(&self, span_ms: i64) {
        let now = self.now();
        self.now.set(Now { wall: now.wall.plus(span_ms), ..now });
    }

    /// Finalizes a level of `transaction.version`, up or down.
    pub fn set_transaction_version(self: &Rc<Self>, level: i16) {
        let request = |upgrade_type| Self::update_request(level, upgrade_type);
        let codes = [UPGRADE, SAFE_DOWNGRADE].map(|way| self.client().ask(1, &request(way)).error_code);
        // The other way is refused.
        assert!(codes.contains(&0), "{codes:?}");
    }

    /// One request of [`Self::set_transaction_version`]: the highest level is reached from below, the others from above.
    pub fn transaction_version_request(level: i16) -> UpdateFeaturesRequest {
        const HIGHEST: i16 = 2;
        Self::update_request(level, if level == HIGHEST { UPGRADE } else { SAFE_DOWNGRADE })
    }

    fn update_request(level: i16, upgrade_type: i8) -> UpdateFeaturesRequest {
        let update = update_features_request::FeatureUpdates {
            feature: "transaction.version".to_owned(),
            max_version_level: level,
            upgrade_type,
            ..Default::default()
        };
        UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() }
    }

    /// Does what is due; `false` when nothing is.
    pub fn tick_if_due(&self) -> bool {
        let broker = self.broker();
        let due = broker.next_deadline().is_some_and(|at| at <= self.now().mono);
        if due {
            broker.tick(self.now());
            self.do_works();
        }
        due
    }

    /// Every invariant: of the shards, and that live state is what the logs say.
    pub fn check(&self) {
        let broker = self.broker();
        broker.check();
        broker.verify_replay(KnownWindows::Whole);
    }

    /// A client on a connection of its own.
    pub fn client(self: &Rc<Self>) -> Client {
        self.client_via(listener())
    }

    /// A client that came by another listener.
    pub fn client_via(self: &Rc<Self>, listener: Listener) -> Client {
        self.next_connection.set(self.next_connection.get() + 1);
        Client::new(Rc::clone(self), self.next_connection.get(), listener)
    }

    /// Creates a topic; answers its id.
    pub fn create_topic(self: &Rc<Self>, name: &str, partitions: i32) -> Uuid {
        self.create_topic_with(name, partitions, &[])
    }

    /// Creates a topic with settings of its own; answers its id.
    pub fn create_topic_with(self: &Rc<Self>, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        let mut request = Self::create_topic_request(name, partitions);
        let configs = configs.iter().map(|(key, value)| create_topics_request::Configs {
            name: (*key).to_owned(),
            value: Some((*value).to_owned()),
        });
        request.topics[0].configs = configs.collect();
        let answer = self.client().ask(7, &request);
        assert_eq!(answer.topics[0].error_code, 0, "{answer:?}");
        answer.topics[0].topic_id
    }

    /// The request that creates a topic.
    pub fn create_topic_request(name: &str, partitions: i32) -> CreateTopicsRequest {
        let topic = create_topics_request::Topics {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() }
    }

    /// Asks for a topic to be deleted; answers the code.
    pub fn delete_topic(self: &Rc<Self>, name: &str) -> i16 {
        let request = DeleteTopicsRequest {
            topic_names: vec![name.to_owned()],
            timeout_ms: 1_000,
            ..Default::default()
        };
        self.client().ask(5, &request).responses[0].error_code
    }

    /// Where a partition stands.
    pub fn standing(&self, topic: &str, partition: i32) -> Standing {
        let name = TopicPartition::new(topic, partition);
        let standings = self.broker().standings();
        standings.into_iter().find(|standing| standing.partition == name).expect("a hosted partition")
    }

    /// How many offsets there are in all partitions of a topic.
    pub fn log_ends(&self, topic: &str) -> Vec<i64> {
        let standings = self.broker().standings().into_iter();
        standings
            .filter(|standing| *standing.partition.topic == *topic)
            .map(|standing| standing.log_end_offset.0)
            .collect()
    }

    /// The sentences with which the engine said that it cannot go on.
    pub fn stops(&self) -> Vec<String> {
        self.edge.stops.lock().unwrap().clone()
    }
}

/// The listener that tests come by.
pub fn listener() -> Listener {
    Listener { name: "PLAINTEXT".to_owned(), host: "localhost".to_owned(), port: 9092 }
}

/// Small internal topics and no delay in groups, and what a test adds to that.
fn broker_settings(durability: Durability, settings: &[(&str, &str)]) -> BrokerSettings {
    let mut pairs = vec![
        ("offsets.topic.num.partitions", "2"),
        ("transaction.state.log.num.partitions", "2"),
        ("group.initial.rebalance.delay.ms", "0"),
        ("auto.create.topics.enable", "false"),
    ];
    pairs.extend_from_slice(settings);
    let pairs = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let statics = StaticConfig::new(pairs.collect::<Vec<_>>()).unwrap();
    let mut settings = BrokerSettings::new(statics, "/test".to_owned());
    settings.durability = durability;
    settings
}
