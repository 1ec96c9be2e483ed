//! Bootstrap, registration, leadership at start and stop, producer ids.

use alloc::vec::Vec;

use super::*;
use crate::features;
use crate::image::{LeaderRecoveryState, PartitionEpoch};
use fencepost_types::{ProducerId, TransactionVersion};

/// A new log begins with Begin, levels, End at level 27; nobody sees a part of it (cluster §23).
#[test]
fn bootstrap_finalizes_the_levels() {
    let mut node = Node::new(&[]);
    assert_eq!(node.ask(&Request::UnfenceBroker), Err(ControllerRefusal::NotBootstrapped));
    node.begin_epoch(1);
    node.must(&Request::Bootstrap);
    let image = node.controller.image();
    let levels: Vec<(&str, i16)> =
        image.features.iter().map(|(name, level)| (name.as_str(), *level)).collect();
    assert_eq!(levels, [("group.version", 1), ("metadata.version", 27), ("transaction.version", 2)]);
    assert_eq!(image.transaction_version(), TransactionVersion::V2);
    assert_eq!(image.finalized_features().get(features::KRAFT_VERSION), Some(&1));
    let names: Vec<&str> = node.log.iter().map(|(_, value)| record_of(value).record.type_name()).collect();
    assert_eq!(names, ["BeginTransaction", "FeatureLevel", "FeatureLevel", "FeatureLevel", "EndTransaction"]);
    assert_eq!(node.ask(&Request::Bootstrap), Err(ControllerRefusal::AlreadyBootstrapped));
}

fn record_of(value: &Option<bytes::Bytes>) -> VersionedRecord {
    VersionedRecord::from_value(value.as_ref().unwrap()).unwrap()
}

/// The broker epoch is the offset at which the registration's write begins, and the registration is fenced; its record
/// has the version of level 27 (cluster §8.4, §23).
#[test]
fn registration_has_the_offset_as_epoch() {
    let mut node = Node::new(&[]);
    node.begin_epoch(1);
    node.must(&Request::Bootstrap);
    let begins_at = node.controller.next_offset();
    let registration = node.registration(BrokerEpoch::NONE);
    let reply = node.must(&Request::RegisterBroker(registration));
    assert_eq!(reply, Reply::Registered { epoch: BrokerEpoch(begins_at.0) });
    assert!(node.controller.image().broker(ME).unwrap().fenced);
    assert_eq!(record_of(&node.log.last().unwrap().1).version, 3);
    node.must(&Request::UnfenceBroker);
    assert!(node.controller.image().is_alive(ME));
    assert_eq!(record_of(&node.log.last().unwrap().1).version, 0);
}

/// Directories: at least one, each once, none reserved (cluster §8.2).
#[test]
fn registration_needs_directories() {
    let mut node = Node::new(&[]);
    node.begin_epoch(1);
    node.must(&Request::Bootstrap);
    let twice = Uuid::from_random(9);
    for directories in [Vec::new(), Vec::from([twice, twice]), Vec::from([Uuid::from_u128(99)])] {
        let mut registration = node.registration(BrokerEpoch::NONE);
        registration.directories = directories;
        let refused = node.ask(&Request::RegisterBroker(registration));
        assert_eq!(refused, Err(ControllerRefusal::InvalidDirectories));
    }
}

/// A clean stop and a start raise the leader epoch by two; without eligible leader replicas the last member stays in the
/// in-sync set (storage-formats §7.6).
#[test]
fn a_clean_restart_raises_the_leader_epoch_by_two() {
    let mut node = Node::running().with_topic("t");
    let epoch = node.controller.image().broker(ME).unwrap().epoch;
    node.must(&Request::ShutDownBroker);
    let stopped = node.controller.image().partition("t", 0).unwrap();
    assert_eq!((stopped.leader, stopped.leader_epoch), (BrokerId::NONE, LeaderEpoch(1)));
    assert_eq!(stopped.isr, [ME]);
    assert!(node.controller.image().broker(ME).unwrap().in_controlled_shutdown);
    assert!(node.controller.image().broker(ME).unwrap().fenced);
    node.start(epoch);
    let started = node.controller.image().partition("t", 0).unwrap();
    assert_eq!((started.leader, started.leader_epoch), (ME, LeaderEpoch(2)));
    assert_eq!(started.partition_epoch, PartitionEpoch(2));
}

/// After a crash the new incarnation first takes leadership from the old one: two epochs as well.
#[test]
fn a_restart_after_a_crash_raises_the_leader_epoch_by_two() {
    let mut node = Node::running().with_topic("t");
    node.start(BrokerEpoch::NONE);
    let started = node.controller.image().partition("t", 0).unwrap();
    assert_eq!((started.leader, started.leader_epoch), (ME, LeaderEpoch(2)));
    assert_eq!(started.isr, [ME]);
}

/// A start that was interrupted after the registration is started over: what has been taken is not taken twice.
#[test]
fn a_second_start_changes_no_epoch_without_need() {
    let mut node = Node::running().with_topic("t");
    let registration = node.registration(BrokerEpoch::NONE);
    node.must(&Request::RegisterBroker(registration));
    let taken = node.controller.image().partition("t", 0).unwrap().clone();
    let registration = node.registration(BrokerEpoch::NONE);
    node.must(&Request::RegisterBroker(registration));
    assert_eq!(node.controller.image().partition("t", 0).unwrap(), &taken);
}

/// With eligible leader replicas a clean stop makes the last member eligible, and a start with the epoch of that stop
/// elects it from there; after a crash its entry goes, and it is elected as the last known leader (cluster §9.5, DANGER).
#[test]
fn eligible_leader_replicas_follow_the_stop() {
    let mut node = Node::running().with_topic("t");
    let updates = Vec::from([FeatureUpdate {
        feature: features::ELIGIBLE_LEADER_REPLICAS_VERSION.to_string(),
        level: 1,
        upgrade_type: 1,
    }]);
    let reply = node.must(&Request::UpdateFeatures { updates, validate_only: false });
    assert_eq!(reply, Reply::UpdateFeatures(Ok(())));
    let all = ConfigResource::all_brokers();
    assert_eq!(node.controller.image().configs().value(&all, "min.insync.replicas"), Some("1"));

    let epoch = node.controller.image().broker(ME).unwrap().epoch;
    node.must(&Request::ShutDownBroker);
    let stopped = node.controller.image().partition("t", 0).unwrap().clone();
    assert!(stopped.isr.is_empty());
    assert_eq!((&stopped.eligible_leader_replicas[..], &stopped.last_known_elr[..]), (&[ME][..], &[ME][..]));

    let mut clean = node.clone();
    clean.start(epoch);
    let started = clean.controller.image().partition("t", 0).unwrap();
    assert_eq!((started.leader, &started.isr[..]), (ME, &[ME][..]));
    assert!(started.eligible_leader_replicas.is_empty() && started.last_known_elr.is_empty());

    let registration = node.registration(BrokerEpoch::NONE);
    node.must(&Request::RegisterBroker(registration));
    let crashed = node.controller.image().partition("t", 0).unwrap();
    assert!(crashed.eligible_leader_replicas.is_empty());
    assert_eq!(crashed.last_known_elr, [ME]);
    node.must(&Request::UnfenceBroker);
    let started = node.controller.image().partition("t", 0).unwrap();
    assert_eq!((started.leader, &started.isr[..]), (ME, &[ME][..]));
    assert_eq!(started.leader_recovery_state, LeaderRecoveryState::Recovered);
}

/// Producer ids are handed out in blocks of 1000, each taken by a record first (M7).
#[test]
fn producer_ids_come_in_blocks() {
    let mut node = Node::running();
    for first in [0, 1_000, 2_000] {
        let reply = node.must(&Request::AllocateProducerIds);
        assert_eq!(reply, Reply::ProducerIds { first: ProducerId(first), count: 1_000 });
    }
    assert_eq!(node.replayed().next_producer_id(), ProducerId(3_000));
}

/// A broker that is alive, or not there, is not forgotten.
#[test]
fn only_a_stopped_broker_is_unregistered() {
    let mut node = Node::running().with_topic("t");
    assert_eq!(node.ask(&Request::UnregisterBroker(ME)), Err(ControllerRefusal::BrokerIsAlive(ME)));
    let other = BrokerId(5);
    assert_eq!(node.ask(&Request::UnregisterBroker(other)), Err(ControllerRefusal::UnknownBroker(other)));
    node.must(&Request::ShutDownBroker);
    node.must(&Request::UnregisterBroker(ME));
    assert!(node.controller.image().brokers().is_empty());
}

/// A record that does not fit stops the controller: nothing is decided any more (M5).
#[test]
fn a_record_that_does_not_fit_stops_everything() {
    use fencepost_records::persisted::remove_topic_record::RemoveTopicRecord;
    let mut node = Node::running();
    let record =
        MetadataRecord::from(RemoveTopicRecord { topic_id: Uuid::from_random(3) }).at(MetadataVersion(27));
    let at = node.controller.next_offset();
    node.controller.replay(LogPosition::plain(at), &record);
    assert_eq!(node.controller.failure().map(|failure| failure.offset), Some(at));
    assert!(matches!(node.ask(&Request::AllocateProducerIds), Err(ControllerRefusal::Broken(_))));
}
