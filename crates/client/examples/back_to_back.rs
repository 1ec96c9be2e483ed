//! Back-to-back transactions of one record each by one raw producer, timed: what a broker can do when the client costs nothing.
//!
//!   back_to_back HOST:PORT TOPIC SECONDS
//!
//! The topic must exist. Prints the figures as JSON.

use std::time::{Duration, Instant, SystemTime};

use fencepost_client::{ClientError, Connection, Options, TransactionalProducer};
use fencepost_types::{Millis, PartitionIndex, TopicName, TopicPartition, TransactionResult};

const WARM_UP: usize = 200;
const TIMEOUT_MS: i32 = 60_000;
/// So many durations are kept, and no more transactions are made.
const TRANSACTIONS_MAX: usize = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, topic, seconds] = &arguments[..] else {
        return Err("usage: back_to_back HOST:PORT TOPIC SECONDS".into());
    };
    let limit = Duration::from_secs(seconds.parse()?);
    let partition = TopicPartition { topic: TopicName::from(topic.as_str()), partition: PartitionIndex(0) };
    let connection = Connection::open(address.as_str(), &Options::default())?;
    let mut producer = TransactionalProducer::open(connection, "back-to-back", TIMEOUT_MS, None)?;
    for _ in 0..WARM_UP {
        transact(&mut producer, &partition)?;
    }
    let began = Instant::now();
    let mut took = Vec::new();
    while took.len() < TRANSACTIONS_MAX && began.elapsed() < limit {
        let before = Instant::now();
        transact(&mut producer, &partition)?;
        took.push(before.elapsed());
    }
    let per_second = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |part: usize| took.get(took.len() * part / 100).map_or(0.0, |took| took.as_secs_f64() * 1e3);
    println!(
        r#"{{"transactions": {}, "per_second": {per_second:.1}, "median_ms": {:.3}, "p99_ms": {:.3}}}"#,
        took.len(),
        at(50),
        at(99)
    );
    Ok(())
}

fn transact(producer: &mut TransactionalProducer, partition: &TopicPartition) -> Result<(), ClientError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    producer.send(partition, now, &[(None, Some(b"one record"))])?;
    producer.end(TransactionResult::Commit)
}
