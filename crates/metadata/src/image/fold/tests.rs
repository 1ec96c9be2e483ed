//! Replay rules of cluster §7.2, and metadata transactions (§5.6).

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::image::{
    BrokerEpoch, ConfigResource, LeaderRecoveryState, MIGRATING, Partition, PartitionEpoch, ResourceType,
};
use fencepost_records::persisted::abort_transaction_record::AbortTransactionRecord;
use fencepost_records::persisted::begin_transaction_record::BeginTransactionRecord;
use fencepost_records::persisted::broker_registration_change_record::BrokerRegistrationChangeRecord;
use fencepost_records::persisted::clear_elr_record::ClearElrRecord;
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_records::persisted::end_transaction_record::EndTransactionRecord;
use fencepost_records::persisted::feature_level_record::FeatureLevelRecord;
use fencepost_records::persisted::fence_broker_record::FenceBrokerRecord;
use fencepost_records::persisted::partition_change_record::PartitionChangeRecord;
use fencepost_records::persisted::partition_record::PartitionRecord;
use fencepost_records::persisted::register_broker_record::RegisterBrokerRecord;
use fencepost_records::persisted::remove_topic_record::RemoveTopicRecord;
use fencepost_records::persisted::topic_record::TopicRecord;
use fencepost_records::persisted::unfence_broker_record::UnfenceBrokerRecord;
use fencepost_types::{BrokerId, Uuid};

const ID: Uuid = Uuid::from_u128(7_000);

#[derive(Default)]
struct Log {
    fold: ImageFold,
}

impl Log {
    fn with_topic() -> Self {
        let mut log = Self::default();
        log.put(TopicRecord { name: "t".to_string(), topic_id: ID });
        log.put(partition());
        log
    }

    fn try_put(&mut self, record: impl Into<MetadataRecord>) -> Result<(), ReplayFault> {
        let at = self.fold.next_offset();
        self.fold.replay(at, &record.into()).map_err(|error| {
            assert_eq!(error.offset, at);
            error.fault
        })
    }

    fn put(&mut self, record: impl Into<MetadataRecord>) {
        self.try_put(record).expect("it fits");
        self.fold.image().check();
    }

    fn partition(&self) -> &Partition {
        self.fold.image().partition("t", 0).expect("it is there")
    }
}

fn partition() -> PartitionRecord {
    PartitionRecord {
        partition_id: 0,
        topic_id: ID,
        replicas: Vec::from([1, 2, 3]),
        isr: Vec::from([1, 2, 3]),
        leader: 1,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: [11u128, 12, 13].map(Uuid::from_u128).to_vec(),
        ..PartitionRecord::default()
    }
}

fn change() -> PartitionChangeRecord {
    PartitionChangeRecord { partition_id: 0, topic_id: ID, ..PartitionChangeRecord::default() }
}

/// Every change raises the partition epoch; naming a leader raises the leader epoch, even when it is the same leader
/// (cluster §7.2, DANGER).
#[test]
fn epochs_are_counted_not_carried() {
    let mut log = Log::with_topic();
    let epochs = |log: &Log| (log.partition().leader_epoch.0, log.partition().partition_epoch.0);
    log.put(PartitionChangeRecord { isr: Some(Vec::from([1, 2])), ..change() });
    assert_eq!(epochs(&log), (0, 1));
    log.put(PartitionChangeRecord { leader: 1, ..change() });
    assert_eq!(epochs(&log), (1, 2));
    log.put(PartitionChangeRecord { leader: -1, ..change() });
    assert_eq!((epochs(&log), log.partition().leader), ((2, 3), BrokerId::NONE));
    log.put(change());
    assert_eq!(epochs(&log), (2, 4));
}

/// A missing recovery state leaves it as it was.
#[test]
fn the_recovery_state_stays_unless_named() {
    let mut log = Log::with_topic();
    log.put(PartitionChangeRecord { leader_recovery_state: 1, ..change() });
    log.put(PartitionChangeRecord { leader: 1, ..change() });
    assert_eq!(log.partition().leader_recovery_state, LeaderRecoveryState::Recovering);
    log.put(PartitionChangeRecord { leader_recovery_state: 0, ..change() });
    assert_eq!(log.partition().leader_recovery_state, LeaderRecoveryState::Recovered);
    let fault = log.try_put(PartitionChangeRecord { leader_recovery_state: 5, ..change() });
    assert!(matches!(fault, Err(ReplayFault::InvalidPartition(_))));
}

/// A PartitionRecord replaces; missing directories mean that every replica is migrating, missing lists are empty.
#[test]
fn a_partition_replaces() {
    let mut log = Log::with_topic();
    log.put(PartitionChangeRecord { eligible_leader_replicas: Some(Vec::from([3])), ..change() });
    log.put(PartitionRecord { directories: Vec::new(), leader_epoch: 9, partition_epoch: 5, ..partition() });
    assert_eq!(log.partition().directories, [MIGRATING; 3]);
    assert!(log.partition().eligible_leader_replicas.is_empty());
    assert_eq!(log.partition().partition_epoch, PartitionEpoch(5));
}

/// New replicas without directories (levels below 17) are migrating; those that stay keep theirs.
#[test]
fn replicas_without_directories_are_migrating() {
    let mut log = Log::with_topic();
    log.put(PartitionChangeRecord {
        replicas: Some(Vec::from([4, 1])),
        isr: Some(Vec::from([1])),
        ..change()
    });
    assert_eq!(log.partition().directories, [MIGRATING, Uuid::from_u128(11)]);
}

/// What no partition can be is refused, not believed: the log may be damaged.
#[test]
fn impossible_partitions_are_refused() {
    let mut log = Log::with_topic();
    for wrong in [
        PartitionRecord { leader: 9, ..partition() },
        PartitionRecord { isr: Vec::from([9]), ..partition() },
        PartitionRecord { leader_epoch: -5, ..partition() },
        PartitionRecord { directories: Vec::from([ID]), ..partition() },
    ] {
        assert!(matches!(log.try_put(wrong), Err(ReplayFault::InvalidPartition(_))));
    }
    let unknown = PartitionChangeRecord { topic_id: Uuid::ZERO, ..change() };
    assert_eq!(log.try_put(unknown), Err(ReplayFault::UnknownTopic(Uuid::ZERO)));
    let unknown = PartitionChangeRecord { partition_id: 4, ..change() };
    assert!(matches!(log.try_put(unknown), Err(ReplayFault::UnknownPartition(..))));
}

fn register(epoch: i64) -> RegisterBrokerRecord {
    RegisterBrokerRecord { broker_id: 1, broker_epoch: epoch, ..RegisterBrokerRecord::default() }
}

/// A registration replaces, fenced unless it says otherwise; changes apply to the epoch that they name alone (M3).
#[test]
fn registrations_are_changed_by_epoch() {
    let mut log = Log::default();
    log.put(register(5));
    let broker = |log: &Log| log.fold.image().broker(BrokerId(1)).cloned().expect("registered");
    assert!(broker(&log).fenced);
    log.put(UnfenceBrokerRecord { id: 1, epoch: 5 });
    assert!(broker(&log).is_eligible());
    let change = |epoch, fenced, shutdown| BrokerRegistrationChangeRecord {
        broker_id: 1,
        broker_epoch: epoch,
        fenced,
        in_controlled_shutdown: shutdown,
        ..BrokerRegistrationChangeRecord::default()
    };
    log.put(change(5, 0, 1));
    assert!(broker(&log).is_alive() && !broker(&log).is_eligible());
    log.put(change(5, 1, 0));
    assert!(broker(&log).fenced && broker(&log).in_controlled_shutdown);
    // A second, redundant fencing is taken (cluster §9.3).
    log.put(FenceBrokerRecord { id: 1, epoch: 5 });
    log.put(change(5, -1, 0));
    assert!(!broker(&log).fenced);
    let wrong = ReplayFault::BrokerEpoch { registered: BrokerEpoch(5), found: BrokerEpoch(4) };
    assert_eq!(log.try_put(change(4, 1, 0)), Err(wrong.clone()));
    assert_eq!(log.try_put(FenceBrokerRecord { id: 1, epoch: 4 }), Err(wrong));
    assert_eq!(
        log.try_put(FenceBrokerRecord { id: 2, epoch: 4 }),
        Err(ReplayFault::UnknownBroker(BrokerId(2)))
    );
    log.put(register(9));
    assert!(broker(&log).fenced && !broker(&log).in_controlled_shutdown);
}

/// Directories of a registration change only when named; cordoned ones also when named as none.
#[test]
fn directories_of_a_registration() {
    let mut log = Log::default();
    log.put(RegisterBrokerRecord {
        log_dirs: Vec::from([ID]),
        cordoned_log_dirs: Some(Vec::from([ID])),
        ..register(5)
    });
    let change = BrokerRegistrationChangeRecord {
        broker_id: 1,
        broker_epoch: 5,
        ..BrokerRegistrationChangeRecord::default()
    };
    log.put(change.clone());
    let directories = |log: &Log| {
        let broker = log.fold.image().broker(BrokerId(1)).expect("registered").clone();
        (broker.directories.len(), broker.cordoned_directories.len())
    };
    assert_eq!(directories(&log), (1, 1));
    log.put(BrokerRegistrationChangeRecord { cordoned_log_dirs: Some(Vec::new()), ..change });
    assert_eq!(directories(&log), (1, 0));
}

fn level(name: &str, level: i16) -> FeatureLevelRecord {
    FeatureLevelRecord { name: name.to_string(), feature_level: level }
}

/// Level 0 removes a feature; kraft.version in a record is ignored; a level above ours stops (cluster §6.3, §7.2).
#[test]
fn feature_levels() {
    let mut log = Log::default();
    log.put(level("metadata.version", 27));
    log.put(level("group.version", 1));
    log.put(level("group.version", 0));
    log.put(level("kraft.version", 1));
    assert_eq!(log.fold.image().finalized_features().len(), 1);
    assert_eq!(log.fold.image().kraft_version(), 0);
    log.fold.replay_kraft_version(log.fold.next_offset(), 1);
    assert_eq!(log.fold.image().kraft_version(), 1);
    assert_eq!(log.try_put(level("metadata.version", 34)), Err(ReplayFault::UnsupportedMetadataVersion(34)));
}

/// ClearElr empties both lists of a topic, or of all; a partition that had any gets a new partition epoch.
#[test]
fn clear_elr() {
    let mut log = Log::with_topic();
    log.put(PartitionChangeRecord { eligible_leader_replicas: Some(Vec::from([3])), ..change() });
    log.put(ClearElrRecord { topic_name: "t".to_string() });
    assert!(log.partition().eligible_leader_replicas.is_empty());
    assert_eq!(log.partition().partition_epoch, PartitionEpoch(2));
    log.put(ClearElrRecord { topic_name: "t".to_string() });
    assert_eq!(log.partition().partition_epoch, PartitionEpoch(2), "there was nothing to clear");
    log.put(PartitionChangeRecord { last_known_elr: Some(Vec::from([3])), ..change() });
    log.put(ClearElrRecord { topic_name: alloc::string::String::new() });
    assert!(log.partition().last_known_elr.is_empty());
    assert_eq!(log.partition().partition_epoch, PartitionEpoch(4));
    let unknown = ClearElrRecord { topic_name: "none".to_string() };
    assert!(matches!(log.try_put(unknown), Err(ReplayFault::UnknownTopicName(_))));
}

fn config(name: &str, value: Option<&str>) -> ConfigRecord {
    ConfigRecord {
        resource_type: ResourceType::TOPIC.0,
        resource_name: "t".to_string(),
        name: name.to_string(),
        value: value.map(ToString::to_string),
    }
}

/// A null value removes a key; RemoveTopic takes the topic's settings along; a name may come back with another id.
#[test]
fn configs_go_with_their_topic() {
    let mut log = Log::with_topic();
    let resource = ConfigResource::topic("t");
    log.put(config("retention.ms", Some("1")));
    log.put(config("segment.ms", Some("2")));
    log.put(config("retention.ms", None));
    assert_eq!(log.fold.image().configs().value(&resource, "segment.ms"), Some("2"));
    assert_eq!(log.fold.image().configs().value(&resource, "retention.ms"), None);
    let again = TopicRecord { name: "t".to_string(), topic_id: Uuid::from_u128(8_000) };
    assert!(matches!(log.try_put(again.clone()), Err(ReplayFault::TopicExists(_))));
    log.put(RemoveTopicRecord { topic_id: ID });
    assert!(log.fold.image().configs().get(&resource).is_none());
    log.put(again);
    assert!(log.fold.image().topic(ID).is_none());
}

/// Between Begin and End nothing shows; End shows all at once, Abort nothing but the offset (M4).
#[test]
fn transactions_show_at_once_or_never() {
    let mut log = Log::with_topic();
    log.put(BeginTransactionRecord { name: None });
    log.put(config("retention.ms", Some("1")));
    log.put(PartitionChangeRecord { leader: 2, ..change() });
    assert!(log.fold.in_transaction());
    assert_eq!((log.partition().leader, log.fold.image().offset()), (BrokerId(1), Offset(1)));
    assert_eq!(log.try_put(BeginTransactionRecord { name: None }), Err(ReplayFault::TransactionOpen));
    log.put(EndTransactionRecord {});
    assert_eq!(log.partition().leader, BrokerId(2));
    assert_eq!(log.fold.image().offset().next(), log.fold.next_offset());

    log.put(BeginTransactionRecord { name: None });
    log.put(RemoveTopicRecord { topic_id: ID });
    log.put(AbortTransactionRecord { reason: None });
    assert_eq!(log.partition().leader, BrokerId(2));
    assert_eq!(log.fold.image().offset().next(), log.fold.next_offset());
    assert_eq!(log.try_put(EndTransactionRecord {}), Err(ReplayFault::NoTransaction));
    assert_eq!(log.try_put(AbortTransactionRecord { reason: None }), Err(ReplayFault::NoTransaction));
}
