//! What a delta tells one broker (cluster §10.1).

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::ImageFold;
use crate::record::MetadataRecord;
use fencepost_records::persisted::partition_change_record::PartitionChangeRecord;
use fencepost_records::persisted::partition_record::PartitionRecord;
use fencepost_records::persisted::remove_topic_record::RemoveTopicRecord;
use fencepost_records::persisted::topic_record::TopicRecord;
use fencepost_types::Uuid;

const OLD: Uuid = Uuid::from_u128(500);
const NEW: Uuid = Uuid::from_u128(600);
const ME: BrokerId = BrokerId(1);

fn topic(id: Uuid) -> MetadataRecord {
    TopicRecord { name: "t".to_string(), topic_id: id }.into()
}

fn partition(id: Uuid, index: i32, leader: i32) -> MetadataRecord {
    PartitionRecord {
        partition_id: index,
        topic_id: id,
        replicas: Vec::from([1, 2]),
        isr: Vec::from([1, 2]),
        leader,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: Vec::from([OLD, NEW]),
        ..PartitionRecord::default()
    }
    .into()
}

fn image(records: &[MetadataRecord]) -> Image {
    let mut fold = ImageFold::default();
    for record in records {
        fold.replay(fold.next_offset(), record).expect("it fits");
    }
    fold.image().clone()
}

fn summary(changes: &LocalChanges) -> (usize, Vec<(i32, bool)>, Vec<(i32, bool)>) {
    let list = |changes: &[LocalChange]| changes.iter().map(|c| (c.partition.index.0, c.elected)).collect();
    (changes.deleted.len(), list(&changes.leaders), list(&changes.followers))
}

/// New partitions are led or followed, all as newly elected; other brokers have nothing to do.
#[test]
fn new_partitions() {
    let new = image(&[topic(OLD), partition(OLD, 0, 1), partition(OLD, 1, 2)]);
    let delta = Delta::between(&Image::default(), &new);
    assert_eq!(delta.topics_created.len(), 1);
    assert_eq!(summary(&delta.local_changes(ME)), (0, Vec::from([(0, true)]), Vec::from([(1, true)])));
    assert_eq!(summary(&delta.local_changes(BrokerId(9))), (0, Vec::new(), Vec::new()));
}

/// A change of the in-sync set alone is no election; a change of leader is.
#[test]
fn elections_are_told_from_other_changes() {
    let records = [topic(OLD), partition(OLD, 0, 1)];
    let old = image(&records);
    let change = PartitionChangeRecord { partition_id: 0, topic_id: OLD, ..PartitionChangeRecord::default() };
    let with = |change: PartitionChangeRecord| {
        let mut all = records.to_vec();
        all.push(change.into());
        Delta::between(&old, &image(&all)).local_changes(ME)
    };
    let shrunk = with(PartitionChangeRecord { isr: Some(Vec::from([1])), ..change.clone() });
    assert_eq!(summary(&shrunk), (0, Vec::from([(0, false)]), Vec::new()));
    let moved = with(PartitionChangeRecord { leader: 2, ..change.clone() });
    assert_eq!(summary(&moved), (0, Vec::new(), Vec::from([(0, true)])));
    let again = with(PartitionChangeRecord { leader: 1, ..change.clone() });
    assert_eq!(summary(&again), (0, Vec::from([(0, true)]), Vec::new()), "the same leader in a new epoch");
    let gone = with(PartitionChangeRecord {
        replicas: Some(Vec::from([2])),
        isr: Some(Vec::from([2])),
        leader: 2,
        ..change
    });
    assert_eq!(summary(&gone), (1, Vec::new(), Vec::new()));
}

/// A name that was deleted and made again within one delta is deleted first, then led.
#[test]
fn a_name_deleted_and_made_again() {
    let records = [topic(OLD), partition(OLD, 0, 1)];
    let mut all = records.to_vec();
    all.extend([RemoveTopicRecord { topic_id: OLD }.into(), topic(NEW), partition(NEW, 0, 1)]);
    let delta = Delta::between(&image(&records), &image(&all));
    assert_eq!((delta.topics_created.len(), delta.topics_deleted.len()), (1, 1));
    let changes = delta.local_changes(ME);
    assert_eq!(changes.deleted[0].0.id, OLD);
    assert_eq!(changes.leaders[0].partition.topic.id, NEW);
}

/// Nothing changed: nothing to do.
#[test]
fn nothing() {
    let image = image(&[topic(OLD), partition(OLD, 0, 1)]);
    assert!(Delta::between(&image, &image.clone()).is_empty());
}
