//! Looking into a running broker from outside: what metrics show, and what the simulator compares and asserts.

use fencepost_group::{ClassicMetadata, Durable, Group, GroupShard};
use fencepost_metadata::Controller;
use fencepost_partition::{BatchFacts, DescribedProducer, Marker, ProducerStates};
use fencepost_records::{Batch, EndTxnMarker};
use fencepost_storage::batch_facts;
use fencepost_transaction::TransactionShard;
use fencepost_types::{CoordinatorEpoch, ErrorCode, Millis, Offset, TopicPartition};

use crate::Broker;
use crate::partition::Partition;
use crate::runtime::{HostedShard, ShardCell};

/// What is known of the windows of producers since the broker started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownWindows {
    /// All batches: every snapshot that was loaded was our own.
    Whole,
    /// Perhaps the newest batch alone: Kafka has written the snapshots.
    Newest,
}

/// Where a partition stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which one.
    pub partition: TopicPartition,
    /// The first offset that may be read.
    pub log_start_offset: Offset,
    /// Records below it are decided and acknowledged.
    pub last_stable_offset: Offset,
    /// Records below it are acknowledged.
    pub high_watermark: Offset,
    /// The offset after the last record.
    pub log_end_offset: Offset,
    /// Open transactions.
    pub open_transactions: usize,
}

impl Broker {
    /// Where every partition stands, in order of their names; the metadata log is left out.
    pub fn standings(&self) -> Vec<Standing> {
        self.partitions.all().iter().filter_map(|partition| standing(partition).ok()).collect()
    }

    /// How many transactional ids the coordinators of this broker know.
    pub fn transactional_ids(&self) -> usize {
        self.transactions.ids()
    }

    /// Panics unless the live state of every partition, every coordinator and the metadata is what a replay of its log
    /// gives. Reads every log from its start: for tests and simulation. Nothing else may call into the broker
    /// meanwhile.
    pub fn verify_replay(&self, windows: KnownWindows) {
        for partition in self.partitions.all() {
            verify_producers(&partition, windows, self.producers_evicted() > 0);
        }
        for cell in self.transactions.all() {
            verify_shard(&cell, TransactionShard::new(cell.read(|shard| shard.config().clone())), |shard| {
                shard.as_loaded().map(|(id, txn)| (id.clone(), txn)).collect::<Vec<_>>()
            });
        }
        let group_config = self.group_config(&self.image(), &self.config());
        for cell in self.groups.all() {
            let fresh = GroupShard::new(group_config.clone().into());
            verify_shard(&cell, fresh, written);
        }
        match self.reload_controller() {
            Ok(loaded) => {
                let image = |controller: &Controller| controller.image().clone();
                assert_eq!(
                    self.controller.read(image),
                    loaded.read(image),
                    "the live and the replayed metadata"
                );
            }
            Err(error) => assert!(self.controller.partition().with(|_| ()).is_err(), "{error}"),
        }
    }
}

pub(crate) fn standing(partition: &Partition) -> Result<Standing, ErrorCode> {
    partition.with(|state| Standing {
        partition: partition.name.clone(),
        log_start_offset: state.log.log_start_offset(),
        last_stable_offset: state.log.last_stable_offset(),
        high_watermark: state.log.high_watermark(),
        log_end_offset: state.log.log_end_offset(),
        open_transactions: state.log.producer_states().open_transaction_count(),
    })
}

/// P8: what the live table says of the log is what the log says, and so is the last stable offset. Where records have been
/// deleted, the table knows more than what is left of them: producers and open transactions outlive their data.
fn verify_producers(partition: &Partition, windows: KnownWindows, some_evicted: bool) {
    let mut replayed = ProducerStates::new(Offset(0));
    let read = partition.for_each_batch(Offset(0), |batch| {
        replayed.replay(None, &facts(batch)?);
        Ok(())
    });
    let compared = read.and_then(|()| {
        partition.with(|state| {
            let (log, name) = (&state.log, &partition.name);
            let live = log.producer_states();
            live.check();
            // Batches need not reach the end: records may have been deleted beyond the last.
            replayed.advance_map_end_offset(log.log_end_offset());
            replayed.on_high_watermark(log.high_watermark());
            let is_compacted = log.config().cleanup_policy.compact;
            let start = log.log_start_offset();
            let is_whole = start == Offset(0);
            if !is_whole {
                for (id, entry) in replayed.producers() {
                    let known = live.producer(id).map(|known| known.producer_epoch);
                    assert!(known == Some(entry.producer_epoch) || some_evicted, "producer {id} of {name}");
                }
                assert!(live.open_transaction_count() >= replayed.open_transaction_count(), "{name}");
            } else if some_evicted {
                // Those that are left are what the log says, and of those that are not none is in a transaction.
                // One that has come back has a window that is younger than the log.
                let replayed = replayed.restorable_by_kafka();
                for (id, entry) in live.restorable_by_kafka().producers() {
                    assert!(is_compacted || Some(entry) == replayed.producer(id), "producer {id} of {name}");
                }
                assert_eq!(live.open_transaction_count(), replayed.open_transaction_count(), "{name}");
            } else if is_compacted {
                assert_eq!(logged(live), logged(&replayed), "live and replayed producers of {name}");
            } else {
                let known = match windows {
                    KnownWindows::Whole => ProducerStates::restorable,
                    KnownWindows::Newest => ProducerStates::restorable_by_kafka,
                };
                assert_eq!(known(live), known(&replayed), "live and replayed producers of {name}");
            }
            let replayed_stable = replayed.last_stable_offset(log.high_watermark(), start);
            let stable = log.last_stable_offset();
            assert!(stable == replayed_stable || !is_whole, "the last stable offset of {name}");
            assert!(start <= stable && stable <= replayed_stable, "{name}");
            assert!(replayed_stable <= log.high_watermark(), "{name}");
            assert!(log.high_watermark() <= log.log_end_offset(), "{name}");
        })
    });
    if let Err(code) = compared {
        assert_ne!(code, ErrorCode::CorruptMessage, "the log of {} cannot be read", partition.name);
    }
}

/// What a compacted log still says of producers: a marker may be gone, and with it its time and its coordinator's epoch,
/// as in Kafka.
fn logged(states: &ProducerStates) -> Vec<DescribedProducer> {
    let without_markers = |producer| DescribedProducer {
        last_timestamp: Millis::NONE,
        coordinator_epoch: CoordinatorEpoch::NONE,
        ..producer
    };
    states.describe_producers().map(without_markers).collect()
}

/// What the log says of groups. One that nothing but offsets has made, and that has none left, is still known, as in
/// Kafka; compaction may have removed the offsets, and then a load does not know it.
fn written(shard: &GroupShard) -> Durable {
    let mut durable = shard.durable().clone();
    let Durable { groups, offsets } = &mut durable;
    let was_written = |group: &Group| *group != Group::Classic(ClassicMetadata::default());
    groups.retain(|id, group| was_written(group) || offsets.of_group(id).next().is_some());
    durable
}

/// C2: what is kept of the log is what a load of the log gives.
fn verify_shard<S: HostedShard, T: PartialEq + std::fmt::Debug>(
    cell: &ShardCell<S>,
    fresh: S,
    durable: impl Fn(&S) -> T,
) {
    let name = &cell.partition().name;
    match ShardCell::load(cell.partition().clone(), fresh) {
        Ok(loaded) => {
            let live = cell.read(|shard| {
                shard.check();
                durable(shard)
            });
            assert_eq!(live, loaded.read(durable), "the live and the replayed state of {name}");
        }
        Err(code) => assert_ne!(code, ErrorCode::CorruptMessage, "the log of {name} cannot be read"),
    }
}

fn facts(batch: &Batch) -> Result<BatchFacts, ErrorCode> {
    let marker = EndTxnMarker::from_batch(batch).map_err(|_| ErrorCode::CorruptMessage)?;
    let marker =
        marker.map(|EndTxnMarker { result, coordinator_epoch }| Marker { result, coordinator_epoch });
    Ok(batch_facts(batch.header(), marker))
}
