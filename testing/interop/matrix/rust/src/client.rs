//! Producers, consumers, and reading whole topics.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::sync::{Arc, Mutex};

pub const CALL: Duration = Duration::from_secs(20);
pub const PAUSE: Duration = Duration::from_millis(200);
/// The value of the last record of a partition.
pub const END: &str = "end";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub partition: i32,
    pub key: String,
    pub value: String,
    pub header: String,
}

/// `count` records, dealt out over the partitions in turn.
pub fn made(prefix: &str, count: i32, partitions: i32) -> Vec<Item> {
    (0..count)
        .map(|i| Item {
            partition: i % partitions,
            key: format!("k{i}"),
            value: format!("{prefix}{i}"),
            header: format!("h{i}"),
        })
        .collect()
}

fn arrived(message: &impl Message) -> Result<Item> {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let headers = message.headers().context("no headers")?;
    ensure!(headers.count() == 1 && headers.get(0).key == "h", "other headers");
    Ok(Item {
        partition: message.partition(),
        key: text(message.key()),
        value: text(message.payload()),
        header: text(headers.get(0).value),
    })
}

/// Keeps the first error of a delivery.
#[derive(Clone, Default)]
pub struct Deliveries(Arc<Mutex<Option<rdkafka::error::KafkaError>>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().expect("nobody panics").get_or_insert_with(|| error.clone());
        }
    }
}

pub struct Sender {
    pub inner: BaseProducer<Deliveries>,
    deliveries: Deliveries,
}

impl Sender {
    /// Returns when every record is acknowledged.
    pub fn send(&self, topic: &str, items: &[Item]) -> Result<()> {
        for item in items {
            let header = Header { key: "h", value: Some(&item.header) };
            let record = BaseRecord::to(topic)
                .partition(item.partition)
                .key(&item.key)
                .payload(&item.value)
                .headers(OwnedHeaders::new().insert(header));
            self.inner.send(record).map_err(|(error, _)| error)?;
        }
        self.inner.flush(CALL)?;
        match self.deliveries.0.lock().expect("nobody panics").take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

pub struct Client {
    bootstrap: String,
    pub admin: AdminClient<DefaultClientContext>,
}

impl Client {
    pub fn new(bootstrap: &str) -> Result<Client> {
        let admin = config(bootstrap).create()?;
        Ok(Client { bootstrap: bootstrap.into(), admin })
    }

    /// Makes topics and waits a moment: with Apache Kafka a broker hears of them later than the controller answers.
    pub fn create(&self, partitions: i32, topics: &[&str]) -> Result<()> {
        let new: Vec<_> =
            topics.iter().map(|topic| NewTopic::new(topic, partitions, TopicReplication::Fixed(1))).collect();
        for made in block_on(self.admin.create_topics(&new, &AdminOptions::new()))? {
            made.map_err(|(topic, code)| anyhow::anyhow!("{topic}: {code}"))?;
        }
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    }

    pub fn producer(&self, settings: &[(&str, &str)]) -> Result<Sender> {
        let mut config = config(&self.bootstrap);
        config.set("linger.ms", "2");
        settings.iter().for_each(|(key, value)| {
            config.set(*key, *value);
        });
        let deliveries = Deliveries::default();
        let inner: BaseProducer<Deliveries> = config.create_with_context(deliveries.clone())?;
        if settings.iter().any(|(key, _)| *key == "transactional.id") {
            inner.init_transactions(CALL)?;
        }
        Ok(Sender { inner, deliveries })
    }

    pub fn transactional(&self, id: &str) -> Result<Sender> {
        self.producer(&[("transactional.id", id)])
    }

    pub fn send(&self, settings: &[(&str, &str)], topic: &str, items: &[Item]) -> Result<()> {
        self.producer(settings)?.send(topic, items)
    }

    /// Puts the last record on every partition.
    pub fn seal(&self, topic: &str, partitions: i32) -> Result<()> {
        let mut ends = made("", partitions, partitions);
        ends.iter_mut().for_each(|item| item.value = END.into());
        self.send(&[], topic, &ends)
    }

    fn consumer(&self, group: &str, settings: &[(&str, &str)]) -> Result<BaseConsumer> {
        let mut config = config(&self.bootstrap);
        config.set("group.id", group).set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        settings.iter().for_each(|(key, value)| {
            config.set(*key, *value);
        });
        Ok(config.create()?)
    }

    /// A consumer that has not subscribed.
    pub fn plain(&self, group: &str) -> Result<BaseConsumer> {
        self.consumer(group, &[])
    }

    pub fn member(&self, group: &str, topic: &str, protocol: &str) -> Result<Member> {
        let settings: &[(&str, &str)] = match protocol {
            "consumer" => &[("group.protocol", "consumer")],
            _ => &[("session.timeout.ms", "10000"), ("heartbeat.interval.ms", "300")],
        };
        let inner = self.consumer(group, settings)?;
        inner.subscribe(&[topic])?;
        Ok(Member { inner, topic: topic.into() })
    }

    /// What each partition of a sealed topic holds before its last record.
    pub fn read(&self, topic: &str, partitions: i32, committed: bool) -> Result<BTreeMap<i32, Vec<Item>>> {
        let level = if committed { "read_committed" } else { "read_uncommitted" };
        let consumer = self.consumer("reader", &[("isolation.level", level)])?;
        let mut from = TopicPartitionList::new();
        let mut read = BTreeMap::new();
        for partition in 0..partitions {
            from.add_partition_offset(topic, partition, Offset::Beginning)?;
            read.insert(partition, Vec::new());
        }
        consumer.assign(&from)?;
        let mut open = partitions;
        while open > 0 {
            let Some(message) = consumer.poll(PAUSE) else { continue };
            let item = arrived(&message?)?;
            if item.value == END {
                open -= 1;
            } else {
                read.get_mut(&item.partition).context("another partition")?.push(item);
            }
        }
        Ok(read)
    }

    /// Compares a sealed topic with what was sent, each partition in order.
    pub fn holds(&self, topic: &str, partitions: i32, committed: bool, sent: &[Item]) -> Result<()> {
        for (partition, items) in self.read(topic, partitions, committed)? {
            let wanted: Vec<Item> = sent.iter().filter(|item| item.partition == partition).cloned().collect();
            let level = if committed { " read_committed" } else { "" };
            ensure!(items == wanted, "{topic}-{partition}{level}: wanted {wanted:?}, read {items:?}");
        }
        Ok(())
    }

    pub fn committed(&self, group: &str, topic: &str, partitions: i32) -> Result<BTreeMap<i32, i64>> {
        let mut asked = TopicPartitionList::new();
        (0..partitions).for_each(|partition| {
            asked.add_partition(topic, partition);
        });
        let found = self.consumer(group, &[])?.committed_offsets(asked, CALL)?;
        Ok(found
            .elements()
            .iter()
            .filter_map(|e| e.offset().to_raw().filter(|at| *at >= 0).map(|at| (e.partition(), at)))
            .collect())
    }
}

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    // Being fenced is expected here, and librdkafka would shout about it.
    config.set("bootstrap.servers", bootstrap).set("log_level", "0").set_log_level(RDKafkaLogLevel::Emerg);
    config
}

pub struct Member {
    pub inner: BaseConsumer,
    topic: String,
}

impl Member {
    /// What comes within a moment, twenty records at most.
    pub fn poll(&self) -> Result<Vec<Item>> {
        let mut came = Vec::new();
        let mut wait = PAUSE;
        while came.len() < 20 {
            let Some(message) = self.inner.poll(wait) else { break };
            came.push(arrived(&message?)?);
            wait = Duration::ZERO;
        }
        Ok(came)
    }

    pub fn assigned(&self) -> Result<Vec<i32>> {
        let mut own: Vec<i32> =
            self.inner.assignment()?.elements_for_topic(&self.topic).iter().map(|e| e.partition()).collect();
        own.sort_unstable();
        Ok(own)
    }

    pub fn commit(&self) -> Result<()> {
        Ok(self.inner.commit_consumer_state(CommitMode::Sync)?)
    }
}
