//! A broker for the tests of this crate's parts: on a memory disk, with an edge that asks for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_metadata::controller::NewTopic;
use fencepost_metadata::{Reply, Request, StaticConfig};
use fencepost_storage::MemoryDisk;
use fencepost_types::{Millis, Nanos, Now, TopicPartition, Uuid};

use crate::connection::Listener;
use crate::edge::Edge;
use crate::partition::Partition;
use crate::settings::BrokerSettings;
use crate::{Broker, Durability};

/// When everything happens.
pub(crate) const NOW: Now = Now { wall: Millis(1_700_000_000_000), mono: Nanos(1_000_000_000) };

/// The present, so much later.
pub(crate) fn later(span_ms: i64) -> Now {
    Now { wall: NOW.wall.plus(span_ms), mono: NOW.mono.plus_ms(span_ms) }
}

#[derive(Default)]
struct QuietEdge {
    random: AtomicU64,
}

impl Edge for QuietEdge {
    fn deadline_changed(&self, _: Nanos) {}

    fn sync_needed(&self) {}

    fn random(&self) -> u128 {
        u128::from(self.random.fetch_add(1, Ordering::Relaxed) + 1) << 64 | 1
    }

    fn stop(&self, sentence: &str) {
        panic!("the engine stops: {sentence}");
    }
}

/// A broker that acknowledges from the page cache, so that nothing waits for a sync.
pub(crate) fn broker() -> Arc<Broker> {
    let pairs = [("offsets.topic.num.partitions", "1"), ("transaction.state.log.num.partitions", "1")];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut settings = BrokerSettings::new(StaticConfig::new(pairs).unwrap(), "/test".to_owned());
    settings.durability = Durability::PageCache;
    let listener = Listener { name: "PLAINTEXT".to_owned(), host: "localhost".to_owned(), port: 9092 };
    let edge = Arc::new(QuietEdge::default());
    let broker = Broker::start(Arc::new(MemoryDisk::new()), edge, settings, listener, &|| NOW).unwrap();
    broker.tick(NOW);
    broker
}

/// Creates a topic of one partition, and answers that.
pub(crate) fn create_topic(broker: &Arc<Broker>, name: &str) -> Arc<Partition> {
    let topic = NewTopic {
        name: name.to_owned(),
        id: Uuid::from_random(broker.edge.random()),
        num_partitions: 1,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    let request = Request::CreateTopics { topics: vec![topic], validate_only: false };
    match broker.drive(request, &|| NOW).unwrap() {
        Reply::CreateTopics(results) => assert!(results[0].1.is_ok(), "{results:?}"),
        other => panic!("{other:?}"),
    }
    broker.partitions.get(&TopicPartition::new(name, 0)).unwrap()
}
