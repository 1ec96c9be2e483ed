//! The log directory: DescribeLogDirs, AlterReplicaLogDirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fencepost_protocol::messages::describe_log_dirs_response::{Partitions, Results, Topics};
use fencepost_protocol::messages::{
    AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    alter_replica_log_dirs_response, describe_log_dirs_request,
};
use fencepost_types::{ErrorCode, PartitionIndex, TopicPartition, Uuid};

use crate::Broker;
use crate::partition::Partition;
use crate::respond::Exchange;

/// Bytes that are not known.
const BYTES_UNKNOWN: i64 = -1;

/// What lies in the log directory: partitions with their sizes, and the space that is left.
///
/// Source: KIP-113, KIP-827, KIP-1066.
pub(crate) fn describe_log_dirs(broker: &Arc<Broker>, exchange: Exchange, request: DescribeLogDirsRequest) {
    let partitions = match request.topics {
        None => broker.partitions.all(),
        Some(topics) => named(broker, topics),
    };
    let space = broker.disk.space();
    let (total_bytes, usable_bytes) = match &space {
        Ok(Some(space)) => (bytes(space.total_bytes), bytes(space.usable_bytes)),
        Ok(None) | Err(_) => (BYTES_UNKNOWN, BYTES_UNKNOWN),
    };
    if let Err(error) = space {
        tracing::warn!(%error, "the space of the log directory cannot be told");
    }
    let result = Results {
        error_code: 0,
        log_dir: broker.settings.log_dir_path.clone(),
        topics: sizes(&partitions),
        total_bytes,
        usable_bytes,
        is_cordoned: is_cordoned(broker),
    };
    exchange.reply(DescribeLogDirsResponse { results: vec![result], ..Default::default() });
}

fn bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The hosted ones of the partitions asked for, each once.
fn named(broker: &Broker, topics: Vec<describe_log_dirs_request::Topics>) -> Vec<Arc<Partition>> {
    let names: BTreeSet<TopicPartition> = topics
        .into_iter()
        .flat_map(|topic| {
            let name = fencepost_types::TopicName::from(topic.topic);
            let partitions = topic.partitions.into_iter();
            partitions
                .map(move |index| TopicPartition { topic: name.clone(), partition: PartitionIndex(index) })
        })
        .collect();
    names.iter().filter_map(|name| broker.partitions.get(name)).collect()
}

/// A partition that is being deleted is left out.
fn sizes(partitions: &[Arc<Partition>]) -> Vec<Topics> {
    let mut topics: Vec<Topics> = Vec::new();
    for partition in partitions {
        let Ok(size_bytes) = partition.with(|state| state.log.size_bytes()) else { continue };
        let row = Partitions {
            partition_index: partition.name.partition.0,
            partition_size: bytes(size_bytes),
            // A leader lags behind nobody, and there is no second directory to move to.
            offset_lag: 0,
            is_future_key: false,
        };
        match topics.last_mut() {
            Some(topic) if *topic.name == *partition.name.topic => topic.partitions.push(row),
            Some(_) | None => {
                topics.push(Topics { name: partition.name.topic.to_string(), partitions: vec![row] });
            }
        }
    }
    topics
}

fn is_cordoned(broker: &Broker) -> bool {
    let image = broker.image();
    let registered = image.broker(broker.node_id);
    registered.is_some_and(|registered| registered.cordoned_directories.contains(&broker.directory_id))
}

/// Moves replicas between log directories: there is one, so either they are there already or it is another's.
///
/// Source: KIP-113.
pub(crate) fn alter_replica_log_dirs(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: AlterReplicaLogDirsRequest,
) {
    use alter_replica_log_dirs_response::{Partitions, Results};
    let mut topics: BTreeMap<String, Vec<Partitions>> = BTreeMap::new();
    for dir in request.dirs {
        let is_ours = dir.path == broker.settings.log_dir_path;
        for topic in dir.topics {
            let rows = topic.partitions.iter().map(|index| {
                let moved = if is_ours {
                    broker.resolve(false, &topic.name, Uuid::ZERO, PartitionIndex(*index)).map(|_| ())
                } else {
                    Err(ErrorCode::LogDirNotFound)
                };
                Partitions {
                    partition_index: *index,
                    error_code: moved.err().unwrap_or(ErrorCode::None).code(),
                }
            });
            let rows: Vec<Partitions> = rows.collect();
            topics.entry(topic.name).or_default().extend(rows);
        }
    }
    let results = topics.into_iter().map(|(topic_name, partitions)| Results { topic_name, partitions });
    exchange.reply(AlterReplicaLogDirsResponse { results: results.collect(), ..Default::default() });
}
